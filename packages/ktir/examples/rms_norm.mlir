#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1) -> (d0, d1)>
#set = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 9 >= 0, d1 >= 0, -d1 + 95 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set1 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 9 >= 0, d1 >= 0, -d1 + 2 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set2 = affine_set<(d0, d1) : (d0 >= 0, -d0 + 9 >= 0, d1 >= 0, -d1 + 63 >= 0)>
module {
  func.func @rms_norm(%x: index, %g: index, %y: index) attributes {grid = [32]} {
    %cst = arith.constant dense<0.000000e+00> : tensor<3xf32>
    %cst_0 = arith.constant dense<1.562500e-03> : tensor<3xf32>
    %cst_1 = arith.constant dense<9.99999974E-6> : tensor<3xf32>
    %0 = ktdp.get_compute_tile_id : index
    %1 = ktdp.construct_memory_view %x, sizes: [10, 96, 64], strides: [6144, 64, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<10x96x64xf16>
    %2 = ktdp.construct_access_tile %1[0, %0 * 3, 0] {access_tile_order = #map, access_tile_set = #set1} : memref<10x96x64xf16> -> !ktdp.access_tile<10x3x64xindex>
    %3 = ktdp.load %2 : <10x3x64xindex> -> tensor<10x3x64xf16>
    %4 = arith.extf %3 : tensor<10x3x64xf16> to tensor<10x3x64xf32>
    %5 = ktdp.construct_memory_view %g, sizes: [10, 64], strides: [64, 1] {coordinate_set = #set2, memory_space = #ktdp.memory_space<global>} : memref<10x64xf16>
    %6 = ktdp.construct_access_tile %5[0, 0] {access_tile_order = #map1, access_tile_set = #set2} : memref<10x64xf16> -> !ktdp.access_tile<10x64xindex>
    %7 = ktdp.load %6 : <10x64xindex> -> tensor<10x64xf16>
    %8 = arith.mulf %4, %4 : tensor<10x3x64xf32>
    %reduced = linalg.reduce { arith.addf } ins(%8 : tensor<10x3x64xf32>) outs(%cst : tensor<3xf32>) dimensions = [0, 2] 
    %9 = arith.mulf %reduced, %cst_0 : tensor<3xf32>
    %10 = arith.addf %9, %cst_1 : tensor<3xf32>
    %11 = math.rsqrt %10 : tensor<3xf32>
    %12 = tensor.empty() : tensor<10x3x64xf32>
    %broadcasted = linalg.broadcast ins(%11 : tensor<3xf32>) outs(%12 : tensor<10x3x64xf32>) dimensions = [0, 2] 
    %13 = arith.mulf %4, %broadcasted : tensor<10x3x64xf32>
    %14 = arith.truncf %13 : tensor<10x3x64xf32> to tensor<10x3x64xf16>
    %15 = tensor.empty() : tensor<10x3x64xf16>
    %broadcasted_2 = linalg.broadcast ins(%7 : tensor<10x64xf16>) outs(%15 : tensor<10x3x64xf16>) dimensions = [1] 
    %16 = arith.mulf %14, %broadcasted_2 : tensor<10x3x64xf16>
    %17 = ktdp.construct_memory_view %y, sizes: [10, 96, 64], strides: [6144, 64, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<10x96x64xf16>
    %18 = ktdp.construct_access_tile %17[0, %0 * 3, 0] {access_tile_order = #map, access_tile_set = #set1} : memref<10x96x64xf16> -> !ktdp.access_tile<10x3x64xindex>
    ktdp.store %16, %18 : tensor<10x3x64xf16>, <10x3x64xindex>
    return
  }
}
