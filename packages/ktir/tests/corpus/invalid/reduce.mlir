// Reduce.
func.func @f(%x: tensor<8xf16>, %y: tensor<1x8xf16>) {
  %f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)> -> <(tensor<8xf16>), groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>> {
  ^bb0(%g: index):
    ktdp.yield_partial %x : tensor<8xf16>
  }
  // expected-error@+2 {{'ktdp.inter_tile_reduce' op failed to verify that result types must match future partial types}}
  // expected-error@below {{'ktdp.inter_tile_reduce' op failed to verify that identity types must match result types}}
  %r = ktdp.inter_tile_reduce(%f) consumer_tiles_per_group = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)>, identity(%x : tensor<8xf16>) : <(tensor<8xf16>), groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>> -> tensor<1x8xf16> {
  ^bb0(%a: tensor<8xf16>, %b: tensor<8xf16>):
    ktdp.yield_reduced %a : tensor<8xf16>
  }
  return
}

// -----

func.func @f(%x: tensor<8xf16>, %y: tensor<1x8xf16>) {
  %f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)> -> <(tensor<8xf16>), groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>> {
  ^bb0(%g: index):
    ktdp.yield_partial %x : tensor<8xf16>
  }
  // expected-error@below {{'ktdp.inter_tile_reduce' op failed to verify that identity types must match result types}}
  %r = ktdp.inter_tile_reduce(%f) consumer_tiles_per_group = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)>, identity(%y : tensor<1x8xf16>) : <(tensor<8xf16>), groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>> -> tensor<8xf16> {
  ^bb0(%a: tensor<8xf16>, %b: tensor<8xf16>):
    ktdp.yield_reduced %a : tensor<8xf16>
  }
  return
}

// -----

func.func @f(%x: tensor<8xf16>, %y: tensor<1x8xf16>) {
  %f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)> -> <(tensor<8xf16>), groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>> {
  ^bb0(%g: index):
    ktdp.yield_partial %x : tensor<8xf16>
  }
  // expected-error@below {{'ktdp.inter_tile_reduce' op reducer region must take 2*N arguments, got 1}}
  %r = ktdp.inter_tile_reduce(%f) consumer_tiles_per_group = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)>, identity(%x : tensor<8xf16>) : <(tensor<8xf16>), groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>> -> tensor<8xf16> {
  ^bb0(%a: tensor<8xf16>):
    ktdp.yield_reduced %a : tensor<8xf16>
  }
  return
}

// -----

func.func @f(%x: tensor<8xf16>, %y: tensor<1x8xf16>) {
  %f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)> -> <(tensor<8xf16>), groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>> {
  ^bb0(%g: index):
    ktdp.yield_partial %x : tensor<8xf16>
  }
  // expected-error@below {{'ktdp.inter_tile_reduce' op reducer region argument pair #0 must both have partial type tensor<8xf16>}}
  %r = ktdp.inter_tile_reduce(%f) consumer_tiles_per_group = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)>, identity(%x : tensor<8xf16>) : <(tensor<8xf16>), groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>> -> tensor<8xf16> {
  ^bb0(%a: tensor<8xf16>, %b: tensor<8xf32>):
    ktdp.yield_reduced %a : tensor<8xf16>
  }
  return
}

// -----

func.func @f(%x: tensor<8xf16>, %y: tensor<1x8xf16>) {
  %f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)> -> <(tensor<8xf16>), groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>> {
  ^bb0(%g: index):
    ktdp.yield_partial %x : tensor<8xf16>
  }
  // expected-error@below {{'ktdp.inter_tile_reduce' op `consumer_tiles_per_group` must have exactly one symbol (the group index g)}}
  %r = ktdp.inter_tile_reduce(%f) consumer_tiles_per_group = affine_set<(i) : (i == 0)>, identity(%x : tensor<8xf16>) : <(tensor<8xf16>), groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>> -> tensor<8xf16> {
  ^bb0(%a: tensor<8xf16>, %b: tensor<8xf16>):
    ktdp.yield_reduced %a : tensor<8xf16>
  }
  return
}

// -----

func.func @f(%x: tensor<8xf16>, %y: tensor<1x8xf16>) {
  %f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)> -> <(tensor<8xf16>), groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>> {
  ^bb0(%g: index):
    ktdp.yield_partial %x : tensor<8xf16>
  }
  // expected-error@below {{'ktdp.inter_tile_reduce' op yield_reduced yields 2 values but expected 1}}
  %r = ktdp.inter_tile_reduce(%f) consumer_tiles_per_group = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)>, identity(%x : tensor<8xf16>) : <(tensor<8xf16>), groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>> -> tensor<8xf16> {
  ^bb0(%a: tensor<8xf16>, %b: tensor<8xf16>):
    ktdp.yield_reduced %a, %b : tensor<8xf16>, tensor<8xf16>
  }
  return
}

// -----

func.func @f(%x: tensor<8xf16>, %y: tensor<1x8xf16>) {
  %f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)> -> <(tensor<8xf16>), groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>> {
  ^bb0(%g: index):
    ktdp.yield_partial %x : tensor<8xf16>
  }
  // expected-error@below {{'ktdp.inter_tile_reduce' op yield_reduced operand #0 type tensor<1x8xf16> must match partial type tensor<8xf16>}}
  %r = ktdp.inter_tile_reduce(%f) consumer_tiles_per_group = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)>, identity(%x : tensor<8xf16>) : <(tensor<8xf16>), groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>> -> tensor<8xf16> {
  ^bb0(%a: tensor<8xf16>, %b: tensor<8xf16>):
    ktdp.yield_reduced %y : tensor<1x8xf16>
  }
  return
}

// -----

func.func @f(%x: tensor<8xf16>, %y: tensor<1x8xf16>) {
  %f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)> -> <(tensor<8xf16>), groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>> {
  ^bb0(%g: index):
    ktdp.yield_partial %x : tensor<8xf16>
  }
  // expected-error@below {{operation defines 2 results but was provided 1 to bind}}
  %r = ktdp.inter_tile_reduce(%f) consumer_tiles_per_group = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)>, identity(%x : tensor<8xf16>) : <(tensor<8xf16>), groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>> -> tensor<8xf16>, tensor<8xf16> {
  ^bb0(%a: tensor<8xf16>, %b: tensor<8xf16>):
    ktdp.yield_reduced %a : tensor<8xf16>
  }
  return
}

// -----

func.func @f(%x: tensor<8xf16>, %y: tensor<1x8xf16>) {
  %f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)> -> <(tensor<8xf16>), groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>> {
  ^bb0(%g: index):
    ktdp.yield_partial %x : tensor<8xf16>
  }
  // expected-error@below {{use of value '%x' expects different type than prior uses: '!ktdp.tile_future<(tensor<8xf16>), groups = affine_set<(d0) : (d0 >= 0, -d0 + 1 >= 0)>>' vs 'tensor<8xf16>'}}
  %r = ktdp.inter_tile_reduce(%x) consumer_tiles_per_group = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)>, identity(%x : tensor<8xf16>) : <(tensor<8xf16>), groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>> -> tensor<8xf16> {
  ^bb0(%a: tensor<8xf16>, %b: tensor<8xf16>):
    ktdp.yield_reduced %a : tensor<8xf16>
  }
  return
}

// -----

func.func @f(%x: tensor<8xf16>, %y: tensor<1x8xf16>) {
  %f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)> -> <(tensor<8xf16>), groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>> {
  ^bb0(%g: index):
    ktdp.yield_partial %x : tensor<8xf16>
  }
  // expected-error@below {{'ktdp.inter_tile_reduce' op failed to verify that identity types must match result types}}
  %r = ktdp.inter_tile_reduce(%f) consumer_tiles_per_group = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)>, identity() : <(tensor<8xf16>), groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>> -> tensor<8xf16> {
  ^bb0(%a: tensor<8xf16>, %b: tensor<8xf16>):
    ktdp.yield_reduced %a : tensor<8xf16>
  }
  return
}
