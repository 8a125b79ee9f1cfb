#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 3 >= 0, d1 >= 0, -d1 + 31 >= 0)>
#set1 = affine_set<(d0, d1, d2, d3) : (d0 >= 0, -d0 + 19 >= 0, d1 >= 0, -d1 + 1 >= 0, d2 >= 0, -d2 + 15 >= 0, d3 >= 0, -d3 + 63 >= 0)>
#set2 = affine_set<(d0, d1, d2, d3) : (d0 >= 0, -d0 >= 0, d1 >= 0, -d1 + 1 >= 0, d2 >= 0, -d2 + 95 >= 0, d3 >= 0, -d3 + 63 >= 0)>
#set3 = affine_set<(d0, d1, d2, d3) : (d0 >= 0, -d0 + 3 >= 0, d1 >= 0, -d1 + 1 >= 0, d2 >= 0, -d2 + 95 >= 0, d3 >= 0, -d3 + 63 >= 0)>
module {
  func.func @paged_read(%pool: index, %table: index, %y: index) attributes {grid = [4]} {
    %0 = ktdp.get_compute_tile_id : index
    %1 = ktdp.construct_memory_view %table, sizes: [4, 32], strides: [32, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<4x32xi32>
    %2 = ktdp.construct_memory_view %pool, sizes: [20, 2, 16, 64], strides: [2048, 1024, 64, 1] {coordinate_set = #set1, memory_space = #ktdp.memory_space<global>} : memref<20x2x16x64xf16>
    %3 = ktdp.construct_indirect_access_tile intermediate_variables(%arg0, %arg1, %arg2, %arg3) %2[ind(%1[%0, %arg2 floordiv 16]), (%arg1), (%arg2 mod 16), (%arg3)] {variables_space_order = #map, variables_space_set = #set2} : memref<20x2x16x64xf16>, memref<4x32xi32> -> !ktdp.access_tile<1x2x96x64xindex>
    %4 = ktdp.load %3 : <1x2x96x64xindex> -> tensor<1x2x96x64xf16>
    %5 = ktdp.construct_memory_view %y, sizes: [4, 2, 96, 64], strides: [12288, 6144, 64, 1] {coordinate_set = #set3, memory_space = #ktdp.memory_space<global>} : memref<4x2x96x64xf16>
    %6 = ktdp.construct_access_tile %5[%0, 0, 0, 0] {access_tile_order = #map, access_tile_set = #set2} : memref<4x2x96x64xf16> -> !ktdp.access_tile<1x2x96x64xindex>
    ktdp.store %4, %6 : tensor<1x2x96x64xf16>, <1x2x96x64xindex>
    return
  }
}
