// Futures as examples of an interpreter write them: no parentheses, the partial types repeated, sets of one tile.
#only5 = affine_set<(i)[g] : (i - 5 == 0)>
#odd = affine_set<(i)[g] : ((i - g) mod 2 == 0, i - g >= 0, -i + g + 6 >= 0)>
func.func @older(%x: tensor<128xf16>, %id: tensor<128xf16>) attributes {grid = [2, 4]} {
  %f = ktdp.inter_tile_produce
         producer_tiles_per_group = #odd
       : tensor<128xf16> -> !ktdp.tile_future<tensor<128xf16>, groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>> {
       ^bb0(%gid: index):
         ktdp.yield_partial %x : tensor<128xf16>
       }
  %s = ktdp.inter_tile_reduce (%f) consumer_tiles_per_group = #odd, identity(%id : tensor<128xf16>)
       : !ktdp.tile_future<tensor<128xf16>, groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>> -> tensor<128xf16> {
       ^bb0(%a: tensor<128xf16>, %b: tensor<128xf16>):
         %e = tensor.empty() : tensor<128xf16>
         %c = linalg.add ins(%a, %b : tensor<128xf16>, tensor<128xf16>) outs(%e : tensor<128xf16>) -> tensor<128xf16>
         ktdp.yield_reduced %c : tensor<128xf16>
       }
  %h = ktdp.inter_tile_produce producer_tiles_per_group = #only5 : tensor<128xf16> -> !ktdp.tile_future<tensor<128xf16>, groups = affine_set<(g) : (g == 0)>> {
  ^bb0(%gid: index):
    ktdp.yield_partial %s : tensor<128xf16>
  }
  %b = ktdp.inter_tile_consume(%h) consumer_tiles_per_group = affine_set<(i)[g] : (i >= 0, i <= 7)> : !ktdp.tile_future<tensor<128xf16>, groups = affine_set<(g) : (g == 0)>> -> tensor<128xf16>
  return
}
