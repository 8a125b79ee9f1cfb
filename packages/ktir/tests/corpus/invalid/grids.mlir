// Grids.
// RUN: VS
// expected-warning@below {{Grid must have at least one dimension}}
func.func @a() attributes {grid = []} {
  return
}
// expected-warning@below {{Grid size must be positive (got 0)}}
func.func @b() attributes {grid = [2, 0]} {
  return
}
// expected-warning@below {{Grid size must be integer attribute}}
func.func @c() attributes {grid = ["a"]} {
  return
}
// expected-warning@below {{the grid must be an array of integers, not 4 : i64}}
func.func @d() attributes {grid = 4 : i64} {
  return
}
func.func @e() attributes {grid = [2, 2]} {
  // expected-warning@below {{get_compute_tile_id result count (3) does not match grid rank (2)}}
  %x:3 = ktdp.get_compute_tile_id : index, index, index
  return
}
// expected-warning@below {{Grid size must be positive (got -1)}}
func.func @g() attributes {grid = [-1]} {
  return
}
func.func @h() attributes {grid = [2, 2, 2, 2]} {
  return
}
// expected-warning@below {{the grid [64] has 64 compute tiles, the machine has 32}}
func.func @i() attributes {grid = [64]} {
  return
}
