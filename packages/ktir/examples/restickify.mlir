#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#set = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 2 >= 0, d1 >= 0, -d1 + 127 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set1 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 >= 0, d1 >= 0, -d1 + 63 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set2 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 1 >= 0, d1 >= 0, -d1 + 191 >= 0, d2 >= 0, -d2 + 63 >= 0)>
module {
  func.func @restickify(%x: index, %y: index) attributes {grid = [2, 3]} {
    %0:2 = ktdp.get_compute_tile_id : index, index
    %1 = ktdp.construct_memory_view %x, sizes: [3, 128, 64], strides: [8192, 64, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<3x128x64xf16>
    %2 = ktdp.construct_access_tile %1[%0#1, %0#0 * 64, 0] {access_tile_order = #map, access_tile_set = #set1} : memref<3x128x64xf16> -> !ktdp.access_tile<1x64x64xindex>
    %3 = ktdp.load %2 : <1x64x64xindex> -> tensor<1x64x64xf16>
    %4 = tensor.empty() : tensor<1x64x64xf16>
    %transposed = linalg.transpose ins(%3 : tensor<1x64x64xf16>) outs(%4 : tensor<1x64x64xf16>) permutation = [0, 2, 1] 
    %5 = ktdp.construct_memory_view %y, sizes: [2, 192, 64], strides: [12288, 64, 1] {coordinate_set = #set2, memory_space = #ktdp.memory_space<global>} : memref<2x192x64xf16>
    %6 = ktdp.construct_access_tile %5[%0#0, %0#1 * 64, 0] {access_tile_order = #map, access_tile_set = #set1} : memref<2x192x64xf16> -> !ktdp.access_tile<1x64x64xindex>
    ktdp.store %transposed, %6 : tensor<1x64x64xf16>, <1x64x64xindex>
    return
  }
}
