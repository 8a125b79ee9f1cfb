#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1) -> (d0, d1)>
#set = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 9 >= 0, d1 >= 0, -d1 + 95 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set1 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 9 >= 0, d1 >= 0, -d1 + 2 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set2 = affine_set<(d0, d1) : (d0 >= 0, -d0 + 9 >= 0, d1 >= 0, -d1 + 63 >= 0)>
module {
  func.func @bias_relu(%x: index, %b: index, %y: index) attributes {grid = [32]} {
    %cst = arith.constant dense<0.000000e+00> : tensor<10x3x64xf16>
    %0 = ktdp.get_compute_tile_id : index
    %1 = ktdp.construct_memory_view %x, sizes: [10, 96, 64], strides: [6144, 64, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<10x96x64xf16>
    %2 = ktdp.construct_access_tile %1[0, %0 * 3, 0] {access_tile_order = #map, access_tile_set = #set1} : memref<10x96x64xf16> -> !ktdp.access_tile<10x3x64xindex>
    %3 = ktdp.load %2 : <10x3x64xindex> -> tensor<10x3x64xf16>
    %4 = ktdp.construct_memory_view %b, sizes: [10, 64], strides: [64, 1] {coordinate_set = #set2, memory_space = #ktdp.memory_space<global>} : memref<10x64xf16>
    %5 = ktdp.construct_access_tile %4[0, 0] {access_tile_order = #map1, access_tile_set = #set2} : memref<10x64xf16> -> !ktdp.access_tile<10x64xindex>
    %6 = ktdp.load %5 : <10x64xindex> -> tensor<10x64xf16>
    %7 = tensor.empty() : tensor<10x3x64xf16>
    %broadcasted = linalg.broadcast ins(%6 : tensor<10x64xf16>) outs(%7 : tensor<10x3x64xf16>) dimensions = [1] 
    %8 = arith.addf %3, %broadcasted : tensor<10x3x64xf16>
    %9 = arith.maximumf %8, %cst : tensor<10x3x64xf16>
    %10 = ktdp.construct_memory_view %y, sizes: [10, 96, 64], strides: [6144, 64, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<10x96x64xf16>
    %11 = ktdp.construct_access_tile %10[0, %0 * 3, 0] {access_tile_order = #map, access_tile_set = #set1} : memref<10x96x64xf16> -> !ktdp.access_tile<10x3x64xindex>
    ktdp.store %9, %11 : tensor<10x3x64xf16>, <10x3x64xindex>
    return
  }
}
