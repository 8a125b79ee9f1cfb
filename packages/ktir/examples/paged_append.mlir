#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#set = affine_set<(d0, d1) : (d0 >= 0, -d0 >= 0, d1 >= 0, -d1 + 31 >= 0)>
#set1 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 19 >= 0, d1 >= 0, -d1 + 15 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set2 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 3 >= 0, d1 >= 0, -d1 >= 0, d2 >= 0, -d2 + 63 >= 0)>
module {
  func.func @paged_append(%pool: index, %page: index, %slot: index, %new: index) attributes {grid = [1]} {
    %0 = ktdp.construct_memory_view %page, sizes: [1, 32], strides: [32, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<1x32xi32>
    %1 = ktdp.construct_memory_view %slot, sizes: [1, 32], strides: [32, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<1x32xi32>
    %2 = ktdp.construct_memory_view %pool, sizes: [20, 16, 64], strides: [1024, 64, 1] {coordinate_set = #set1, memory_space = #ktdp.memory_space<global>} : memref<20x16x64xf16>
    %3 = ktdp.construct_indirect_access_tile intermediate_variables(%arg0, %arg1, %arg2) %2[ind(%0[0, %arg0]), ind(%1[0, %arg0]), (%arg2)] {variables_space_order = #map, variables_space_set = #set2} : memref<20x16x64xf16>, memref<1x32xi32>, memref<1x32xi32> -> !ktdp.access_tile<4x1x64xindex>
    %4 = ktdp.construct_memory_view %new, sizes: [4, 1, 64], strides: [64, 64, 1] {coordinate_set = #set2, memory_space = #ktdp.memory_space<global>} : memref<4x1x64xf16>
    %5 = ktdp.construct_access_tile %4[0, 0, 0] {access_tile_order = #map, access_tile_set = #set2} : memref<4x1x64xf16> -> !ktdp.access_tile<4x1x64xindex>
    %6 = ktdp.load %5 : <4x1x64xindex> -> tensor<4x1x64xf16>
    ktdp.store %6, %3 : tensor<4x1x64xf16>, <4x1x64xindex>
    return
  }
}
