// Rules over producers and consumers of a whole module.
// RUN: VL
func.func @f(%x: tensor<8xf16>, %y: tensor<1x8xf16>) {
  // expected-error@below {{'ktdp.inter_tile_produce' op future result must have exactly one use}}
  %f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i)[g] : (i >= 0, -i + 3 >= 0, g == 0)> -> <(tensor<8xf16>), groups = affine_set<(g) : (g == 0)>> {
  ^bb0(%g: index):
    ktdp.yield_partial %x : tensor<8xf16>
  }

  return
}

// -----

func.func @f(%x: tensor<8xf16>, %y: tensor<1x8xf16>) {
  // expected-error@below {{'ktdp.inter_tile_produce' op future result must have exactly one use}}
  %f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i)[g] : (i >= 0, -i + 3 >= 0, g == 0)> -> <(tensor<8xf16>), groups = affine_set<(g) : (g == 0)>> {
  ^bb0(%g: index):
    ktdp.yield_partial %x : tensor<8xf16>
  }
  %r = ktdp.inter_tile_reduce(%f) consumer_tiles_per_group = affine_set<(i)[g] : (i >= 0, -i + 3 >= 0, g == 0)>, identity(%x : tensor<8xf16>) : <(tensor<8xf16>), groups = affine_set<(g) : (g == 0)>> -> tensor<8xf16> {
  ^bb0(%a: tensor<8xf16>, %b: tensor<8xf16>):
    %s = arith.addf %a, %b : tensor<8xf16>
    ktdp.yield_reduced %s : tensor<8xf16>
  }
  %q = ktdp.inter_tile_reduce(%f) consumer_tiles_per_group = affine_set<(i)[g] : (i >= 0, -i + 3 >= 0, g == 0)>, identity(%x : tensor<8xf16>) : <(tensor<8xf16>), groups = affine_set<(g) : (g == 0)>> -> tensor<8xf16> {
  ^bb0(%a: tensor<8xf16>, %b: tensor<8xf16>):
    %s = arith.addf %a, %b : tensor<8xf16>
    ktdp.yield_reduced %s : tensor<8xf16>
  }

  return
}

// -----

func.func @f(%x: tensor<8xf16>, %y: tensor<1x8xf16>) {
  %f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i)[g] : (i >= 0, -i + 3 >= 0, g == 0)> -> <(tensor<8xf16>), groups = affine_set<(g) : (g == 0)>> {
  ^bb0(%g: index):
    ktdp.yield_partial %x : tensor<8xf16>
  }
  // expected-error@below {{'ktdp.inter_tile_reduce' op consumer_tiles_per_group for group 0 is not a subset of producer_tiles_per_group (a consumer tile that did not produce is unsupported; see open question Q1)}}
  %r = ktdp.inter_tile_reduce(%f) consumer_tiles_per_group = affine_set<(i)[g] : (i >= 0, -i + 4 >= 0, g == 0)>, identity(%x : tensor<8xf16>) : <(tensor<8xf16>), groups = affine_set<(g) : (g == 0)>> -> tensor<8xf16> {
  ^bb0(%a: tensor<8xf16>, %b: tensor<8xf16>):
    %s = arith.addf %a, %b : tensor<8xf16>
    ktdp.yield_reduced %s : tensor<8xf16>
  }

  return
}

// -----

func.func @f(%x: tensor<8xf16>, %y: tensor<1x8xf16>) {
  %f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i)[g] : (i >= 0, -i + 3 >= 0, g == 0)> -> <(tensor<8xf16>), groups = affine_set<(g) : (g == 0)>> {
  ^bb0(%g: index):
    ktdp.yield_partial %x : tensor<8xf16>
  }
  // expected-error@below {{'ktdp.inter_tile_reduce' op consumer_tiles_per_group for group 0 is a strict subset of producer_tiles_per_group with more than one tile (reduce-to-subset is unsupported; only all-reduce and reduce-to-one are supported)}}
  %r = ktdp.inter_tile_reduce(%f) consumer_tiles_per_group = affine_set<(i)[g] : (i >= 0, -i + 1 >= 0, g == 0)>, identity(%x : tensor<8xf16>) : <(tensor<8xf16>), groups = affine_set<(g) : (g == 0)>> -> tensor<8xf16> {
  ^bb0(%a: tensor<8xf16>, %b: tensor<8xf16>):
    %s = arith.addf %a, %b : tensor<8xf16>
    ktdp.yield_reduced %s : tensor<8xf16>
  }

  return
}

// -----

func.func @f(%x: tensor<8xf16>, %y: tensor<1x8xf16>) {
  %f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i)[g] : (i >= 0, -i + 3 >= 0, g == 0)> -> <(tensor<8xf16>), groups = affine_set<(g) : (g == 0)>> {
  ^bb0(%g: index):
    ktdp.yield_partial %x : tensor<8xf16>
  }
  // expected-error@below {{'ktdp.inter_tile_consume' op group 0 has 4 producers, so producer_dependency_per_consumer is required to name each consumer tile's single source}}
  %c = ktdp.inter_tile_consume(%f) consumer_tiles_per_group = affine_set<(i)[g] : (i >= 0, -i + 3 >= 0, g == 0)> : <(tensor<8xf16>), groups = affine_set<(g) : (g == 0)>> -> tensor<8xf16>
  return
}

// -----

func.func @f(%x: tensor<8xf16>, %y: tensor<1x8xf16>) {
  %f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i)[g] : (i >= 0, -i + 3 >= 0, g == 0)> -> <(tensor<8xf16>), groups = affine_set<(g) : (g == 0)>> {
  ^bb0(%g: index):
    ktdp.yield_partial %x : tensor<8xf16>
  }
  // expected-error@+6 {{'ktdp.inter_tile_consume' op consumer 0 of group 0 depends on 2 producers; inter_tile_consume delivers one contribution per consumer tile, so exactly one is required}}
  // expected-error@+5 {{'ktdp.inter_tile_consume' op consumer 1 of group 0 depends on 2 producers; inter_tile_consume delivers one contribution per consumer tile, so exactly one is required}}
  // expected-error@+4 {{'ktdp.inter_tile_consume' op consumer 2 of group 0 depends on 2 producers; inter_tile_consume delivers one contribution per consumer tile, so exactly one is required}}
  // expected-error@+3 {{'ktdp.inter_tile_consume' op consumer 3 of group 0 depends on 2 producers; inter_tile_consume delivers one contribution per consumer tile, so exactly one is required}}
  // expected-error@+2 {{'ktdp.inter_tile_consume' op producer_dependency_per_consumer for group 0 does not cover producer tile 2 (no consumer has it as a dependency)}}
  // expected-error@below {{'ktdp.inter_tile_consume' op producer_dependency_per_consumer for group 0 does not cover producer tile 3 (no consumer has it as a dependency)}}
  %c = ktdp.inter_tile_consume(%f) consumer_tiles_per_group = affine_set<(i)[g] : (i >= 0, -i + 3 >= 0, g == 0)>, producer_dependency_per_consumer = affine_set<(p)[c] : (p >= 0, -p + 1 >= 0)> : <(tensor<8xf16>), groups = affine_set<(g) : (g == 0)>> -> tensor<8xf16>
  return
}

// -----

func.func @f(%x: tensor<8xf16>, %y: tensor<1x8xf16>) {
  %f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i)[g] : (i >= 0, -i + 3 >= 0, g == 0)> -> <(tensor<8xf16>), groups = affine_set<(g) : (g == 0)>> {
  ^bb0(%g: index):
    ktdp.yield_partial %x : tensor<8xf16>
  }
  // expected-error@+8 {{'ktdp.inter_tile_consume' op producer_dependency_per_consumer for consumer 0 group 0 references producer tile 4 which is not in producer_tiles_per_group}}
  // expected-error@+7 {{'ktdp.inter_tile_consume' op producer_dependency_per_consumer for consumer 1 group 0 references producer tile 5 which is not in producer_tiles_per_group}}
  // expected-error@+6 {{'ktdp.inter_tile_consume' op producer_dependency_per_consumer for consumer 2 group 0 references producer tile 6 which is not in producer_tiles_per_group}}
  // expected-error@+5 {{'ktdp.inter_tile_consume' op producer_dependency_per_consumer for consumer 3 group 0 references producer tile 7 which is not in producer_tiles_per_group}}
  // expected-error@+4 {{'ktdp.inter_tile_consume' op producer_dependency_per_consumer for group 0 does not cover producer tile 0 (no consumer has it as a dependency)}}
  // expected-error@+3 {{'ktdp.inter_tile_consume' op producer_dependency_per_consumer for group 0 does not cover producer tile 1 (no consumer has it as a dependency)}}
  // expected-error@+2 {{'ktdp.inter_tile_consume' op producer_dependency_per_consumer for group 0 does not cover producer tile 2 (no consumer has it as a dependency)}}
  // expected-error@below {{'ktdp.inter_tile_consume' op producer_dependency_per_consumer for group 0 does not cover producer tile 3 (no consumer has it as a dependency)}}
  %c = ktdp.inter_tile_consume(%f) consumer_tiles_per_group = affine_set<(i)[g] : (i >= 0, -i + 3 >= 0, g == 0)>, producer_dependency_per_consumer = affine_set<(p)[c] : (p - c - 4 == 0)> : <(tensor<8xf16>), groups = affine_set<(g) : (g == 0)>> -> tensor<8xf16>
  return
}

// -----

func.func @f(%x: tensor<8xf16>, %y: tensor<1x8xf16>) {
  %f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i)[g] : (i >= 0, -i + 3 >= 0, g == 0)> -> <(tensor<8xf16>), groups = affine_set<(g) : (g == 0)>> {
  ^bb0(%g: index):
    ktdp.yield_partial %x : tensor<8xf16>
  }
  // expected-error@below {{'ktdp.inter_tile_reduce' op producer_dependency_per_consumer for group 0 does not cover producer tile 3 (no consumer has it as a dependency)}}
  %r = ktdp.inter_tile_reduce(%f) consumer_tiles_per_group = affine_set<(i)[g] : (i >= 0, -i + 3 >= 0, g == 0)>, producer_dependency_per_consumer = affine_set<(p)[c] : (p >= 0, -p + 2 >= 0)>, identity(%x : tensor<8xf16>) : <(tensor<8xf16>), groups = affine_set<(g) : (g == 0)>> -> tensor<8xf16> {
  ^bb0(%a: tensor<8xf16>, %b: tensor<8xf16>):
    %s = arith.addf %a, %b : tensor<8xf16>
    ktdp.yield_reduced %s : tensor<8xf16>
  }

  return
}
