#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#set = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 3 >= 0, d1 >= 0, -d1 + 15 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set1 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 3 >= 0, d1 >= 0, -d1 + 3 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set2 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 3 >= 0, d1 - 4 >= 0, -d1 + 7 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set3 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 3 >= 0, d1 - 8 >= 0, -d1 + 11 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set4 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 3 >= 0, d1 - 12 >= 0, -d1 + 15 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set5 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 >= 0, d1 >= 0, -d1 + 15 >= 0, d2 >= 0, -d2 + 63 >= 0)>
module {
  func.func @produce(%x: index, %s1: index) attributes {grid = [4]} {
    %0 = ktdp.get_compute_tile_id : index
    %1 = ktdp.construct_memory_view %x, sizes: [4, 16, 64], strides: [1024, 64, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<4x16x64xf16>
    %2 = ktdp.construct_access_tile %1[0, %0 * 4, 0] {access_tile_order = #map, access_tile_set = #set1} : memref<4x16x64xf16> -> !ktdp.access_tile<4x4x64xindex>
    %3 = ktdp.load %2 : <4x4x64xindex> -> tensor<4x4x64xf16>
    %4 = ktdp.construct_memory_view %s1, sizes: [4, 4, 64], strides: [256, 64, 1] {coordinate_set = #set1, memory_space = #ktdp.memory_space<ct_local>} : memref<4x4x64xf16>
    %5 = arith.addf %3, %3 : tensor<4x4x64xf16>
    %6 = ktdp.construct_access_tile %4[0, 0, 0] {access_tile_order = #map, access_tile_set = #set1} : memref<4x4x64xf16> -> !ktdp.access_tile<4x4x64xindex>
    ktdp.store %5, %6 : tensor<4x4x64xf16>, <4x4x64xindex>
    return
  }
  func.func @relayout(%s1: index, %s2: index) attributes {grid = [4]} {
    %0 = ktdp.get_compute_tile_id : index
    %1 = ktdp.construct_memory_view %s1, sizes: [4, 4, 64], strides: [256, 64, 1] {coordinate_set = #set1, memory_space = #ktdp.memory_space<ct_local, ct_id = 0>} : memref<4x4x64xf16>
    %2 = ktdp.construct_memory_view %s1, sizes: [4, 4, 64], strides: [256, 64, 1] {coordinate_set = #set2, memory_space = #ktdp.memory_space<ct_local, ct_id = 1>} : memref<4x4x64xf16>
    %3 = ktdp.construct_memory_view %s1, sizes: [4, 4, 64], strides: [256, 64, 1] {coordinate_set = #set3, memory_space = #ktdp.memory_space<ct_local, ct_id = 2>} : memref<4x4x64xf16>
    %4 = ktdp.construct_memory_view %s1, sizes: [4, 4, 64], strides: [256, 64, 1] {coordinate_set = #set4, memory_space = #ktdp.memory_space<ct_local, ct_id = 3>} : memref<4x4x64xf16>
    %5 = ktdp.construct_memory_view %s2, sizes: [1, 16, 64], strides: [1024, 64, 1] {coordinate_set = #set5, memory_space = #ktdp.memory_space<ct_local>} : memref<1x16x64xf16>
    %6 = ktdp.construct_distributed_memory_view(%1, %2, %3, %4 : memref<4x4x64xf16>, memref<4x4x64xf16>, memref<4x4x64xf16>, memref<4x4x64xf16>) : memref<4x16x64xf16>
    %7 = ktdp.construct_access_tile %6[%0, 0, 0] {access_tile_order = #map, access_tile_set = #set5} : memref<4x16x64xf16> -> !ktdp.access_tile<1x16x64xindex>
    %8 = ktdp.load %7 : <1x16x64xindex> -> tensor<1x16x64xf16>
    %9 = ktdp.construct_access_tile %5[0, 0, 0] {access_tile_order = #map, access_tile_set = #set5} : memref<1x16x64xf16> -> !ktdp.access_tile<1x16x64xindex>
    ktdp.store %8, %9 : tensor<1x16x64xf16>, <1x16x64xindex>
    return
  }
  func.func @consume(%s2: index, %y: index) attributes {grid = [4]} {
    %0 = ktdp.get_compute_tile_id : index
    %1 = ktdp.construct_memory_view %s2, sizes: [1, 16, 64], strides: [1024, 64, 1] {coordinate_set = #set5, memory_space = #ktdp.memory_space<ct_local>} : memref<1x16x64xf16>
    %2 = ktdp.construct_access_tile %1[0, 0, 0] {access_tile_order = #map, access_tile_set = #set5} : memref<1x16x64xf16> -> !ktdp.access_tile<1x16x64xindex>
    %3 = ktdp.load %2 : <1x16x64xindex> -> tensor<1x16x64xf16>
    %4 = ktdp.construct_memory_view %y, sizes: [4, 16, 64], strides: [1024, 64, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<4x16x64xf16>
    %5 = ktdp.construct_access_tile %4[%0, 0, 0] {access_tile_order = #map, access_tile_set = #set5} : memref<4x16x64xf16> -> !ktdp.access_tile<1x16x64xindex>
    ktdp.store %3, %5 : tensor<1x16x64xf16>, <1x16x64xindex>
    return
  }
}
