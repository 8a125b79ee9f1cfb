#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#set = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 7 >= 0, d1 >= 0, -d1 + 7 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set1 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 1 >= 0, d1 >= 0, -d1 + 511 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set2 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 >= 0, d1 >= 0, -d1 + 7 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set3 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 >= 0, d1 >= 0, -d1 + 63 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set4 = affine_set<(d0)[s0] : (d0 - s0 * 4 >= 0, -d0 + s0 * 4 + 3 >= 0)>
#set5 = affine_set<(d0) : (d0 >= 0, -d0 + 1 >= 0)>
#set6 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 1 >= 0, d1 >= 0, -d1 + 7 >= 0, d2 >= 0, -d2 + 63 >= 0)>
module {
  func.func @split_k_matmul(%x: index, %w: index, %y: index) attributes {grid = [4, 2]} {
    %cst = arith.constant dense<0.000000e+00> : tensor<8x64xf32>
    %c2 = arith.constant 2 : index
    %c1 = arith.constant 1 : index
    %cst_0 = arith.constant dense<0.000000e+00> : tensor<1x8x64xf32>
    %c0 = arith.constant 0 : index
    %0:2 = ktdp.get_compute_tile_id : index, index
    %1 = ktdp.construct_memory_view %x, sizes: [8, 8, 64], strides: [512, 64, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<8x8x64xf16>
    %2 = ktdp.construct_memory_view %w, sizes: [2, 512, 64], strides: [32768, 64, 1] {coordinate_set = #set1, memory_space = #ktdp.memory_space<global>} : memref<2x512x64xf16>
    %3 = arith.muli %0#0, %c2 : index
    %4 = arith.addi %3, %c2 : index
    %5 = scf.for %arg0 = %3 to %4 step %c1 iter_args(%arg1 = %cst) -> (tensor<8x64xf32>) {
      %9 = ktdp.construct_access_tile %1[%arg0, 0, 0] {access_tile_order = #map, access_tile_set = #set2} : memref<8x8x64xf16> -> !ktdp.access_tile<1x8x64xindex>
      %10 = ktdp.load %9 : <1x8x64xindex> -> tensor<1x8x64xf16>
      %collapsed = tensor.collapse_shape %10 [[0, 1], [2]] : tensor<1x8x64xf16> into tensor<8x64xf16>
      %11 = ktdp.construct_access_tile %2[%0#1, %arg0 * 64, 0] {access_tile_order = #map, access_tile_set = #set3} : memref<2x512x64xf16> -> !ktdp.access_tile<1x64x64xindex>
      %12 = ktdp.load %11 : <1x64x64xindex> -> tensor<1x64x64xf16>
      %collapsed_1 = tensor.collapse_shape %12 [[0, 1], [2]] : tensor<1x64x64xf16> into tensor<64x64xf16>
      %13 = linalg.matmul ins(%collapsed, %collapsed_1 : tensor<8x64xf16>, tensor<64x64xf16>) outs(%arg1 : tensor<8x64xf32>) -> tensor<8x64xf32>
      scf.yield %13 : tensor<8x64xf32>
    }
    %expanded = tensor.expand_shape %5 [[0, 1], [2]] output_shape [1, 8, 64] : tensor<8x64xf32> into tensor<1x8x64xf32>
    %6 = ktdp.inter_tile_produce producer_tiles_per_group = #set4 -> <(tensor<1x8x64xf32>), groups = #set5> {
    ^bb0(%arg0: index):
      ktdp.yield_partial %expanded : tensor<1x8x64xf32>
    }
    %7 = ktdp.inter_tile_reduce(%6) consumer_tiles_per_group = #set4, identity(%cst_0 : tensor<1x8x64xf32>) : <(tensor<1x8x64xf32>), groups = #set5> -> tensor<1x8x64xf32> {
    ^bb0(%arg0: tensor<1x8x64xf32>, %arg1: tensor<1x8x64xf32>):
      %9 = arith.addf %arg0, %arg1 : tensor<1x8x64xf32>
      ktdp.yield_reduced %9 : tensor<1x8x64xf32>
    }
    %8 = arith.cmpi eq, %0#0, %c0 : index
    scf.if %8 {
      %9 = arith.truncf %7 : tensor<1x8x64xf32> to tensor<1x8x64xf16>
      %10 = ktdp.construct_memory_view %y, sizes: [2, 8, 64], strides: [512, 64, 1] {coordinate_set = #set6, memory_space = #ktdp.memory_space<global>} : memref<2x8x64xf16>
      %11 = ktdp.construct_access_tile %10[%0#1, 0, 0] {access_tile_order = #map, access_tile_set = #set2} : memref<2x8x64xf16> -> !ktdp.access_tile<1x8x64xindex>
      ktdp.store %9, %11 : tensor<1x8x64xf16>, <1x8x64xindex>
    }
    return
  }
}
