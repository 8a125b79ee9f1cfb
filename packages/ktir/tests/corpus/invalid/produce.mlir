// Produce.
func.func @f(%x: tensor<8xf16>, %y: tensor<1x8xf16>) {
  // expected-error@below {{'ktdp.inter_tile_produce' op producer region must take a single `index` group-id argument}}
  %f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)> -> <(tensor<8xf16>), groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>> {
  ^bb0(%g: i32):
    ktdp.yield_partial %x : tensor<8xf16>
  }

  return
}

// -----

func.func @f(%x: tensor<8xf16>, %y: tensor<1x8xf16>) {
  // expected-error@below {{'ktdp.inter_tile_produce' op producer region must take a single `index` group-id argument}}
  %f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)> -> <(tensor<8xf16>), groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>> {
  ^bb0(%g: index, %h: index):
    ktdp.yield_partial %x : tensor<8xf16>
  }

  return
}

// -----

func.func @f(%x: tensor<8xf16>, %y: tensor<1x8xf16>) {
  // expected-error@below {{'ktdp.inter_tile_produce' op `producer_tiles_per_group` must have exactly one symbol (the group index g)}}
  %f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i) : (i >= 0, -i + 3 >= 0)> -> <(tensor<8xf16>), groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>> {
  ^bb0(%g: index):
    ktdp.yield_partial %x : tensor<8xf16>
  }

  return
}

// -----

func.func @f(%x: tensor<8xf16>, %y: tensor<1x8xf16>) {
  // expected-error@below {{'ktdp.inter_tile_produce' op producer_tiles_per_group for groups 0 and 1 are not disjoint}}
  %f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i)[g] : (i - 3 * g >= 0, -i + 3 * g + 3 >= 0)> -> <(tensor<8xf16>), groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>> {
  ^bb0(%g: index):
    ktdp.yield_partial %x : tensor<8xf16>
  }

  return
}

// -----

func.func @f(%x: tensor<8xf16>, %y: tensor<1x8xf16>) {
  // expected-error@below {{'ktdp.inter_tile_produce' op yield_partial yields 2 values but the future carries 1 partial type(s)}}
  %f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)> -> <(tensor<8xf16>), groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>> {
  ^bb0(%g: index):
    ktdp.yield_partial %x, %x : tensor<8xf16>, tensor<8xf16>
  }

  return
}

// -----

func.func @f(%x: tensor<8xf16>, %y: tensor<1x8xf16>) {
  // expected-error@below {{'ktdp.inter_tile_produce' op yield_partial operand #0 type tensor<1x8xf16> does not match future partial type tensor<8xf16>}}
  %f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)> -> <(tensor<8xf16>), groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>> {
  ^bb0(%g: index):
    ktdp.yield_partial %y : tensor<1x8xf16>
  }

  return
}

// -----

func.func @f(%x: tensor<8xf16>, %y: tensor<1x8xf16>) {
  // expected-error@below {{'ktdp.inter_tile_produce' op yield_partial yields 0 values but the future carries 1 partial type(s)}}
  %f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)> -> <(tensor<8xf16>), groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>> {
  ^bb0(%g: index):
    
  }

  return
}

// -----

func.func @f(%x: tensor<8xf16>, %y: tensor<1x8xf16>) {
  // expected-error@below {{expected 'producer_tiles_per_group', got '->'}}
  %f = ktdp.inter_tile_produce -> <(tensor<8xf16>), groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>> {
  ^bb0(%g: index):
    ktdp.yield_partial %x : tensor<8xf16>
  }
  return
}

// -----

func.func @f(%x: tensor<8xf16>, %y: tensor<1x8xf16>) {
  %f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)> -> <(tensor<8xf16>), groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>> {
  ^bb0(%g: index):
    // expected-error@+2 {{'ktdp.inter_tile_produce' op expects regions to end with 'ktdp.yield_partial', found 'func.return'}}
    // expected-error@below {{'func.return' op expects parent op 'func.func'}}
    func.return
  }

  return
}
