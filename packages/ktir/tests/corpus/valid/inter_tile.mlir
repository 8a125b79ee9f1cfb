// Futures as the dialect prints them: short types, parentheses, two roles in one future (the place of the largest value).
// RUN: VL
#team = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)>
#first = affine_set<(i)[g] : (i - 4 * g == 0)>
#groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>
#next = affine_set<(p)[c, g] : ((p - c - 1) mod 4 == 0, p - 4 * g >= 0, -p + 4 * g + 3 >= 0)>
func.func @argmax(%v: tensor<8xf32>, %at: tensor<8xi32>, %lowest: tensor<8xf32>, %nowhere: tensor<8xi32>) attributes {grid = [8]} {
  %f = ktdp.inter_tile_produce producer_tiles_per_group = #team -> <(tensor<8xf32>, tensor<8xi32>), groups = #groups> {
  ^bb0(%g: index):
    ktdp.yield_partial %v, %at : tensor<8xf32>, tensor<8xi32>
  }
  %r:2 = ktdp.inter_tile_reduce(%f) consumer_tiles_per_group = #team, identity(%lowest, %nowhere : tensor<8xf32>, tensor<8xi32>) : <(tensor<8xf32>, tensor<8xi32>), groups = #groups> -> tensor<8xf32>, tensor<8xi32> {
  ^bb0(%a: tensor<8xf32>, %i: tensor<8xi32>, %b: tensor<8xf32>, %j: tensor<8xi32>):
    %c = arith.cmpf oge, %a, %b : tensor<8xf32>
    %m = arith.select %c, %a, %b : tensor<8xi1>, tensor<8xf32>
    %k = arith.select %c, %i, %j : tensor<8xi1>, tensor<8xi32>
    ktdp.yield_reduced %m, %k : tensor<8xf32>, tensor<8xi32>
  }
  %s = ktdp.inter_tile_produce producer_tiles_per_group = #team {tag = 1 : i32} -> !ktdp.tile_future<(tensor<8xf32>), groups = affine_set<(g) : (g >= 0, g <= 1)>> {
  ^bb0(%g: index):
    %w = arith.addf %r#0, %v : tensor<8xf32>
    ktdp.yield_partial %w : tensor<8xf32>
  }
  %t = ktdp.inter_tile_consume(%s) consumer_tiles_per_group = #team, producer_dependency_per_consumer = #next : <(tensor<8xf32>), groups = affine_set<(g) : (g >= 0, g <= 1)>> -> tensor<8xf32>
  %u = ktdp.inter_tile_produce producer_tiles_per_group = #team -> <(tensor<8xf32>), groups = #groups> {
  ^bb0(%g: index):
    ktdp.yield_partial %t : tensor<8xf32>
  }
  %one = ktdp.inter_tile_reduce(%u) consumer_tiles_per_group = #first, identity(%lowest : tensor<8xf32>) : <(tensor<8xf32>), groups = #groups> -> tensor<8xf32> {
  ^bb0(%a: tensor<8xf32>, %b: tensor<8xf32>):
    %m = arith.maximumf %a, %b : tensor<8xf32>
    ktdp.yield_reduced %m : tensor<8xf32>
  }
  return
}
