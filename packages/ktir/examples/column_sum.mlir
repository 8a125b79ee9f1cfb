#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1) -> (d0, d1)>
#set = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 9 >= 0, d1 >= 0, -d1 + 95 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set1 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 >= 0, d1 >= 0, -d1 + 31 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set2 = affine_set<(d0)[s0] : (d0 - s0 * 3 >= 0, -d0 + s0 * 3 + 2 >= 0)>
#set3 = affine_set<(d0) : (d0 >= 0, -d0 + 9 >= 0)>
#set4 = affine_set<(d0, d1) : (d0 >= 0, -d0 + 9 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#set5 = affine_set<(d0, d1) : (d0 >= 0, -d0 >= 0, d1 >= 0, -d1 + 63 >= 0)>
module {
  func.func @column_sum(%x: index, %y: index) attributes {grid = [3, 10]} {
    %cst = arith.constant dense<0.000000e+00> : tensor<1x64xf32>
    %c0 = arith.constant 0 : index
    %0:2 = ktdp.get_compute_tile_id : index, index
    %1 = ktdp.construct_memory_view %x, sizes: [10, 96, 64], strides: [6144, 64, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<10x96x64xf16>
    %2 = ktdp.construct_access_tile %1[%0#1, %0#0 * 32, 0] {access_tile_order = #map, access_tile_set = #set1} : memref<10x96x64xf16> -> !ktdp.access_tile<1x32x64xindex>
    %3 = ktdp.load %2 : <1x32x64xindex> -> tensor<1x32x64xf16>
    %4 = arith.extf %3 : tensor<1x32x64xf16> to tensor<1x32x64xf32>
    %reduced = linalg.reduce { arith.addf } ins(%4 : tensor<1x32x64xf32>) outs(%cst : tensor<1x64xf32>) dimensions = [1] 
    %5 = ktdp.inter_tile_produce producer_tiles_per_group = #set2 -> <(tensor<1x64xf32>), groups = #set3> {
    ^bb0(%arg0: index):
      ktdp.yield_partial %reduced : tensor<1x64xf32>
    }
    %6 = ktdp.inter_tile_reduce(%5) consumer_tiles_per_group = #set2, identity(%cst : tensor<1x64xf32>) : <(tensor<1x64xf32>), groups = #set3> -> tensor<1x64xf32> {
    ^bb0(%arg0: tensor<1x64xf32>, %arg1: tensor<1x64xf32>):
      %8 = arith.addf %arg0, %arg1 : tensor<1x64xf32>
      ktdp.yield_reduced %8 : tensor<1x64xf32>
    }
    %7 = arith.cmpi eq, %0#0, %c0 : index
    scf.if %7 {
      %8 = arith.truncf %6 : tensor<1x64xf32> to tensor<1x64xf16>
      %9 = ktdp.construct_memory_view %y, sizes: [10, 64], strides: [64, 1] {coordinate_set = #set4, memory_space = #ktdp.memory_space<global>} : memref<10x64xf16>
      %10 = ktdp.construct_access_tile %9[%0#1, 0] {access_tile_order = #map1, access_tile_set = #set5} : memref<10x64xf16> -> !ktdp.access_tile<1x64xindex>
      ktdp.store %8, %10 : tensor<1x64xf16>, <1x64xindex>
    }
    return
  }
}
