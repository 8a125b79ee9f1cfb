#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#set = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 1 >= 0, d1 >= 0, -d1 + 31 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set1 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 1 >= 0, d1 >= 0, -d1 + 7 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set2 = affine_set<(d0, d1, d2, d3) : (d0 >= 0, -d0 + 1 >= 0, d1 >= 0, -d1 + 1 >= 0, d2 >= 0, -d2 + 31 >= 0, d3 >= 0, -d3 + 31 >= 0)>
#set3 = affine_set<(d0, d1, d2, d3) : (d0 >= 0, -d0 + 1 >= 0, d1 >= 0, -d1 + 1 >= 0, d2 >= 0, -d2 + 7 >= 0, d3 >= 0, -d3 + 31 >= 0)>
module {
  func.func @upcast(%x: index, %y: index) attributes {grid = [4]} {
    %0 = ktdp.get_compute_tile_id : index
    %1 = ktdp.construct_memory_view %x, sizes: [2, 32, 64], strides: [2048, 64, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<2x32x64xf16>
    %2 = ktdp.construct_access_tile %1[0, %0 * 8, 0] {access_tile_order = #map, access_tile_set = #set1} : memref<2x32x64xf16> -> !ktdp.access_tile<2x8x64xindex>
    %3 = ktdp.load %2 : <2x8x64xindex> -> tensor<2x8x64xf16>
    %4 = arith.extf %3 : tensor<2x8x64xf16> to tensor<2x8x64xf32>
    %expanded = tensor.expand_shape %4 [[0], [1], [2, 3]] output_shape [2, 8, 2, 32] : tensor<2x8x64xf32> into tensor<2x8x2x32xf32>
    %5 = tensor.empty() : tensor<2x2x8x32xf32>
    %transposed = linalg.transpose ins(%expanded : tensor<2x8x2x32xf32>) outs(%5 : tensor<2x2x8x32xf32>) permutation = [0, 2, 1, 3] 
    %6 = ktdp.construct_memory_view %y, sizes: [2, 2, 32, 32], strides: [2048, 1024, 32, 1] {coordinate_set = #set2, memory_space = #ktdp.memory_space<global>} : memref<2x2x32x32xf32>
    %7 = ktdp.construct_access_tile %6[0, 0, %0 * 8, 0] {access_tile_order = #map1, access_tile_set = #set3} : memref<2x2x32x32xf32> -> !ktdp.access_tile<2x2x8x32xindex>
    ktdp.store %transposed, %7 : tensor<2x2x8x32xf32>, <2x2x8x32xindex>
    return
  }
}
