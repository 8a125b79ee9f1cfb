// Sums in rings: 8 tiles in two groups of four, the even tiles and the odd ones. In each of three steps a tile hands
// on what it received last and adds what arrives; then all four hold the sum. X, Y[8, 64] f32, a row a tile.
#all    = affine_set<(r, c) : (r >= 0, -r + 7 >= 0, c >= 0, -c + 63 >= 0)>
#row    = affine_set<(r, c) : (r >= 0, -r >= 0, c >= 0, -c + 63 >= 0)>
#id2    = affine_map<(r, c) -> (r, c)>
#ring   = affine_set<(i)[g] : ((i - g) mod 2 == 0, i - g >= 0, -i + g + 6 >= 0)>
#rings  = affine_set<(g) : (g >= 0, -g + 1 >= 0)>
#before = affine_set<(p)[c] : ((p - c + 2) mod 8 == 0, p >= 0, -p + 7 >= 0)>
module {
  func.func @ring_sum(%x: index, %y: index) attributes {grid = [8]} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %me = ktdp.get_compute_tile_id : index
    %xv = ktdp.construct_memory_view %x, sizes: [8, 64], strides: [64, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<8x64xf32>
    %yv = ktdp.construct_memory_view %y, sizes: [8, 64], strides: [64, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<8x64xf32>
    %xt = ktdp.construct_access_tile %xv[%me, %c0] {access_tile_order = #id2, access_tile_set = #row} : memref<8x64xf32> -> !ktdp.access_tile<1x64xindex>
    %yt = ktdp.construct_access_tile %yv[%me, %c0] {access_tile_order = #id2, access_tile_set = #row} : memref<8x64xf32> -> !ktdp.access_tile<1x64xindex>
    %mine = ktdp.load %xt : <1x64xindex> -> tensor<1x64xf32>
    %out:2 = scf.for %step = %c0 to %c3 step %c1 iter_args(%sum = %mine, %last = %mine) -> (tensor<1x64xf32>, tensor<1x64xf32>) {
      %sent = ktdp.inter_tile_produce producer_tiles_per_group = #ring -> <(tensor<1x64xf32>), groups = #rings> {
      ^bb0(%g: index):
        ktdp.yield_partial %last : tensor<1x64xf32>
      }
      %got = ktdp.inter_tile_consume(%sent) consumer_tiles_per_group = #ring, producer_dependency_per_consumer = #before
          : <(tensor<1x64xf32>), groups = #rings> -> tensor<1x64xf32>
      %next = arith.addf %sum, %got : tensor<1x64xf32>
      scf.yield %next, %got : tensor<1x64xf32>, tensor<1x64xf32>
    }
    ktdp.store %out#0, %yt : tensor<1x64xf32>, <1x64xindex>
    return
  }

  // The same groups, the reduction left to the machine, in the older spelling; only the first tile of a group stores.
  func.func @group_sum(%x: index, %y: index) attributes {grid = [8]} {
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %me = ktdp.get_compute_tile_id : index
    %xv = ktdp.construct_memory_view %x, sizes: [8, 64], strides: [64, 1] {coordinate_set = #all, memory_space = #ktdp.spyre_memory_space<HBM>} : memref<8x64xf32>
    %yv = ktdp.construct_memory_view %y, sizes: [2, 64], strides: [64, 1] {coordinate_set = affine_set<(r, c) : (r >= 0, -r + 1 >= 0, c >= 0, -c + 63 >= 0)>, memory_space = #ktdp.spyre_memory_space<HBM>} : memref<2x64xf32>
    %xt = ktdp.construct_access_tile %xv[%me, %c0] {access_tile_order = #id2, access_tile_set = #row} : memref<8x64xf32> -> !ktdp.access_tile<1x64xindex>
    %mine = ktdp.load %xt : !ktdp.access_tile<1x64xindex> -> tensor<1x64xf32>
    %z = arith.constant dense<0.0> : tensor<1x64xf32>
    %f = ktdp.inter_tile_produce producer_tiles_per_group = #ring : tensor<1x64xf32> -> !ktdp.tile_future<tensor<1x64xf32>, groups = #rings> {
      ^bb0(%g: index):
        ktdp.yield_partial %mine : tensor<1x64xf32>
    }
    %s = ktdp.inter_tile_reduce(%f) consumer_tiles_per_group = affine_set<(i)[g] : (i - g == 0)>, identity(%z : tensor<1x64xf32>)
        : !ktdp.tile_future<tensor<1x64xf32>, groups = #rings> -> tensor<1x64xf32> {
      ^bb0(%a: tensor<1x64xf32>, %b: tensor<1x64xf32>):
        %t = arith.addf %a, %b : tensor<1x64xf32>
        ktdp.yield_reduced %t : tensor<1x64xf32>
    }
    %first = arith.cmpi ult, %me, %c2 : index
    scf.if %first {
      %yt = ktdp.construct_access_tile %yv[%me, %c0] {access_tile_order = #id2, access_tile_set = #row} : memref<2x64xf32> -> !ktdp.access_tile<1x64xindex>
      ktdp.store %s, %yt : tensor<1x64xf32>, !ktdp.access_tile<1x64xindex>
    }
    return
  }
}
