// RUN levels: VL
#g1 = affine_set<(g) : (g == 0)>
#g2 = affine_set<(g) : (g >= 0, -g + 1 >= 0)>
#four = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)>
#crossing = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 5 >= 0)>
func.func @verify(%x: tensor<8xf16>) {
  // expected-error @+1 {{producer_tiles_per_group for groups 0 and 1 are not disjoint}}
  %f = ktdp.inter_tile_produce producer_tiles_per_group = #crossing -> <(tensor<8xf16>), groups = #g2> {
  ^bb0(%g: index):
    ktdp.yield_partial %x : tensor<8xf16>
  }
  // expected-error @+2 {{producer region must take a single `index` group-id argument}}
  // expected-error @+1 {{yield_partial yields 2 values but the future carries 1 partial type(s)}}
  %h = ktdp.inter_tile_produce producer_tiles_per_group = #four -> <(tensor<8xf16>), groups = #g1> {
    ktdp.yield_partial %x, %x : tensor<8xf16>, tensor<8xf16>
  }
  // expected-error @+3 {{failed to verify that result types must match future partial types}}
  // expected-error @+2 {{failed to verify that identity types must match result types}}
  // expected-error @+1 {{reducer region must take 2*N arguments, got 1}}
  %r = ktdp.inter_tile_reduce(%h) consumer_tiles_per_group = #four, identity(%x : tensor<8xf16>) : <(tensor<8xf16>), groups = #g1> -> tensor<1x8xf16> {
  ^bb0(%a: tensor<8xf16>):
    ktdp.yield_reduced %a : tensor<8xf16>
  }
  return
}

// -----

#g1 = affine_set<(g) : (g == 0)>
#four = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)>
func.func @sources(%x: tensor<8xf16>) {
  // expected-error @+1 {{future result must have exactly one use}}
  %f = ktdp.inter_tile_produce producer_tiles_per_group = #four -> <(tensor<8xf16>), groups = #g1> {
  ^bb0(%g: index):
    ktdp.yield_partial %x : tensor<8xf16>
  }
  // expected-error @+1 {{has 4 producers, so producer_dependency_per_consumer is required}}
  %r = ktdp.inter_tile_consume(%f) consumer_tiles_per_group = #four : <(tensor<8xf16>), groups = #g1> -> tensor<8xf16>
  // expected-error @+6 {{consumer 0 of group 0 depends on 2 producers}}
  // expected-error @+5 {{consumer 1 of group 0 depends on 2 producers}}
  // expected-error @+4 {{consumer 2 of group 0 depends on 2 producers}}
  // expected-error @+3 {{consumer 2 group 0 references producer tile 4 which is not in producer_tiles_per_group}}
  // expected-error @+2 {{consumer 3 group 0 references producer tile 4 which is not in producer_tiles_per_group}}
  // expected-error @+1 {{does not cover producer tile 0}}
  %s = ktdp.inter_tile_consume(%f) consumer_tiles_per_group = #four, producer_dependency_per_consumer = affine_set<(p)[c] : (p - c - 1 >= 0, -p + c + 2 >= 0, -p + 4 >= 0)> : <(tensor<8xf16>), groups = #g1> -> tensor<8xf16>
  return
}

// -----

// expected-error @+1 {{tile_future must carry at least one partial type}}
func.func private @none(!ktdp.tile_future<(), groups = affine_set<(g) : (g == 0)>>)

// -----

func.func @dialects() {
  // expected-error @+1 {{'vector.print' op is not legal in a KTIR program}}
  "vector.print"() : () -> ()
  return
}

// -----

// expected-error @+1 {{custom op 'ktdp.coreid' is unknown}}
%0 = ktdp.coreid : index
