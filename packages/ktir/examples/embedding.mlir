#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 1 >= 0, d1 >= 0, -d1 + 31 >= 0)>
#set1 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 1 >= 0, d1 >= 0, -d1 + 299 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set2 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 1 >= 0, d1 >= 0, -d1 + 31 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set3 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 1 >= 0, d1 >= 0, -d1 + 63 >= 0, d2 >= 0, -d2 + 63 >= 0)>
module {
  func.func @embedding(%table: index, %indices: index, %y: index) attributes {grid = [2]} {
    %0 = ktdp.get_compute_tile_id : index
    %1 = ktdp.construct_memory_view %indices, sizes: [2, 32], strides: [32, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<2x32xi32>
    %2 = ktdp.construct_memory_view %table, sizes: [2, 300, 64], strides: [19200, 64, 1] {coordinate_set = #set1, memory_space = #ktdp.memory_space<global>} : memref<2x300x64xf16>
    %3 = ktdp.construct_indirect_access_tile intermediate_variables(%arg0, %arg1, %arg2) %2[(%arg0), ind(%1[%0, %arg1]), (%arg2)] {variables_space_order = #map, variables_space_set = #set2} : memref<2x300x64xf16>, memref<2x32xi32> -> !ktdp.access_tile<2x32x64xindex>
    %4 = ktdp.load %3 : <2x32x64xindex> -> tensor<2x32x64xf16>
    %5 = ktdp.construct_memory_view %y, sizes: [2, 64, 64], strides: [4096, 64, 1] {coordinate_set = #set3, memory_space = #ktdp.memory_space<global>} : memref<2x64x64xf16>
    %6 = ktdp.construct_access_tile %5[0, %0 * 32, 0] {access_tile_order = #map, access_tile_set = #set2} : memref<2x64x64xf16> -> !ktdp.access_tile<2x32x64xindex>
    ktdp.store %4, %6 : tensor<2x32x64xf16>, <2x32x64xindex>
    return
  }
}
