#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1) -> (d0, d1)>
#set = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 9 >= 0, d1 >= 0, -d1 + 95 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set1 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 9 >= 0, d1 >= 0, -d1 + 2 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set2 = affine_set<(d0)[s0] : (d0 - s0 * 32 >= 0, -d0 + s0 * 32 + 31 >= 0)>
#set3 = affine_set<(d0) : (d0 == 0)>
#set4 = affine_set<(d0, d1) : (d0 >= 0, -d0 >= 0, d1 >= 0, -d1 + 63 >= 0)>
module {
  func.func @total(%x: index, %y: index) attributes {grid = [32]} {
    %cst = arith.constant dense<0.000000e+00> : tensor<1x64xf32>
    %cst_0 = arith.constant dense<0.000000e+00> : tensor<1xf32>
    %c0 = arith.constant 0 : index
    %0 = ktdp.get_compute_tile_id : index
    %1 = ktdp.construct_memory_view %x, sizes: [10, 96, 64], strides: [6144, 64, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<10x96x64xf16>
    %2 = ktdp.construct_access_tile %1[0, %0 * 3, 0] {access_tile_order = #map, access_tile_set = #set1} : memref<10x96x64xf16> -> !ktdp.access_tile<10x3x64xindex>
    %3 = ktdp.load %2 : <10x3x64xindex> -> tensor<10x3x64xf16>
    %4 = arith.extf %3 : tensor<10x3x64xf16> to tensor<10x3x64xf32>
    %expanded = tensor.expand_shape %4 [[0, 1], [2], [3]] output_shape [1, 10, 3, 64] : tensor<10x3x64xf32> into tensor<1x10x3x64xf32>
    %reduced = linalg.reduce { arith.addf } ins(%expanded : tensor<1x10x3x64xf32>) outs(%cst : tensor<1x64xf32>) dimensions = [1, 2] 
    %5 = ktdp.inter_tile_produce producer_tiles_per_group = #set2 -> <(tensor<1x64xf32>), groups = #set3> {
    ^bb0(%arg0: index):
      ktdp.yield_partial %reduced : tensor<1x64xf32>
    }
    %6 = ktdp.inter_tile_reduce(%5) consumer_tiles_per_group = #set2, identity(%cst : tensor<1x64xf32>) : <(tensor<1x64xf32>), groups = #set3> -> tensor<1x64xf32> {
    ^bb0(%arg0: tensor<1x64xf32>, %arg1: tensor<1x64xf32>):
      %9 = arith.addf %arg0, %arg1 : tensor<1x64xf32>
      ktdp.yield_reduced %9 : tensor<1x64xf32>
    }
    %reduced_1 = linalg.reduce { arith.addf } ins(%6 : tensor<1x64xf32>) outs(%cst_0 : tensor<1xf32>) dimensions = [1] 
    %extracted = tensor.extract %reduced_1[%c0] : tensor<1xf32>
    %7 = arith.truncf %extracted : f32 to f16
    %8 = arith.cmpi eq, %0, %c0 : index
    scf.if %8 {
      %9 = ktdp.construct_memory_view %y, sizes: [1, 64], strides: [64, 1] {coordinate_set = #set4, memory_space = #ktdp.memory_space<global>} : memref<1x64xf16>
      %splat = tensor.splat %7 : tensor<1x64xf16>
      %10 = ktdp.construct_access_tile %9[0, 0] {access_tile_order = #map1, access_tile_set = #set4} : memref<1x64xf16> -> !ktdp.access_tile<1x64xindex>
      ktdp.store %splat, %10 : tensor<1x64xf16>, <1x64xindex>
    }
    return
  }
}
