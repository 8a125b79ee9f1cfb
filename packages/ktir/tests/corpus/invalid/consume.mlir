// Consume.
func.func @f(%x: tensor<8xf16>, %y: tensor<1x8xf16>) {
  %f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i)[g] : (i >= 0, -i + 3 >= 0, g == 0)> -> <(tensor<8xf16>), groups = affine_set<(g) : (g == 0)>> {
  ^bb0(%g: index):
    ktdp.yield_partial %x : tensor<8xf16>
  }
  // expected-error@below {{'ktdp.inter_tile_consume' op `producer_dependency_per_consumer` must have one symbol (c) or two symbols (c, g)}}
  %c = ktdp.inter_tile_consume(%f) consumer_tiles_per_group = affine_set<(i)[g] : (i >= 0, -i + 3 >= 0, g == 0)>, producer_dependency_per_consumer = affine_set<(p) : (p == 0)> : <(tensor<8xf16>), groups = affine_set<(g) : (g == 0)>> -> tensor<8xf16>
  return
}

// -----

func.func @f(%x: tensor<8xf16>, %y: tensor<1x8xf16>) {
  %f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i)[g] : (i >= 0, -i + 3 >= 0, g == 0)> -> <(tensor<8xf16>), groups = affine_set<(g) : (g == 0)>> {
  ^bb0(%g: index):
    ktdp.yield_partial %x : tensor<8xf16>
  }
  // expected-error@below {{'ktdp.inter_tile_consume' op `producer_dependency_per_consumer` must have exactly one dimension (the producer tile id p)}}
  %c = ktdp.inter_tile_consume(%f) consumer_tiles_per_group = affine_set<(i)[g] : (i >= 0, -i + 3 >= 0, g == 0)>, producer_dependency_per_consumer = affine_set<(p, q)[c] : (p == 0)> : <(tensor<8xf16>), groups = affine_set<(g) : (g == 0)>> -> tensor<8xf16>
  return
}

// -----

func.func @f(%x: tensor<8xf16>, %y: tensor<1x8xf16>) {
  %f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i)[g] : (i >= 0, -i + 3 >= 0, g == 0)> -> <(tensor<8xf16>), groups = affine_set<(g) : (g == 0)>> {
  ^bb0(%g: index):
    ktdp.yield_partial %x : tensor<8xf16>
  }
  // expected-error@below {{'ktdp.inter_tile_consume' op `consumer_tiles_per_group` must have exactly one dimension (the tile id i)}}
  %c = ktdp.inter_tile_consume(%f) consumer_tiles_per_group = affine_set<(i, j)[g] : (i == 0)> : <(tensor<8xf16>), groups = affine_set<(g) : (g == 0)>> -> tensor<8xf16>
  return
}

// -----

func.func @f(%x: tensor<8xf16>, %y: tensor<1x8xf16>) {
  %f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i)[g] : (i >= 0, -i + 3 >= 0, g == 0)> -> <(tensor<8xf16>), groups = affine_set<(g) : (g == 0)>> {
  ^bb0(%g: index):
    ktdp.yield_partial %x : tensor<8xf16>
  }
  // expected-error@below {{'ktdp.inter_tile_consume' op failed to verify that result types must match future partial types}}
  %c = ktdp.inter_tile_consume(%f) consumer_tiles_per_group = affine_set<(i)[g] : (i >= 0, -i + 3 >= 0, g == 0)> : <(tensor<8xf16>), groups = affine_set<(g) : (g == 0)>> -> tensor<4xf16>
  return
}

// -----

func.func @f(%x: tensor<8xf16>, %y: tensor<1x8xf16>) {
  %f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i)[g] : (i >= 0, -i + 3 >= 0, g == 0)> -> <(tensor<8xf16>), groups = affine_set<(g) : (g == 0)>> {
  ^bb0(%g: index):
    ktdp.yield_partial %x : tensor<8xf16>
  }
  // expected-error@below {{custom op 'ktdp.inter_tile_gather' is unknown}}
  %c = ktdp.inter_tile_gather(%f) consumer_tiles_per_group = affine_set<(i)[g] : (i >= 0, -i + 3 >= 0, g == 0)>, gather_dimensions = [0] : <(tensor<8xf16>), groups = affine_set<(g) : (g == 0)>> -> tensor<32xf16>
  return
}
