// Access tiles that verify and contradict themselves.
// RUN: VS
func.func @f(%v: memref<64x64xf16>, %i: index, %n: index) {
  // expected-warning@below {{'ktdp.construct_access_tile' op number of subscripts (3) must match base rank (2)}}
  %0 = ktdp.construct_access_tile %v[%i, 0, 0] {access_tile_set = affine_set<(a, b, c) : (a == 0, b == 0, c == 0)>, access_tile_order = affine_map<(a, b, c) -> (a, b, c)>} : memref<64x64xf16> -> !ktdp.access_tile<1x1x1xindex>
  // expected-warning@below {{'ktdp.construct_access_tile' op tile extents 32x16 do not fit the 16x32 points of access_tile_set}}
  %1 = ktdp.construct_access_tile %v[%i, 0] {access_tile_set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 31 >= 0)>, access_tile_order = affine_map<(a, b) -> (a, b)>} : memref<64x64xf16> -> !ktdp.access_tile<32x16xindex>
  // expected-warning@below {{'ktdp.construct_access_tile' op access_tile_order must be a permutation}}
  %2 = ktdp.construct_access_tile %v[%i, 0] {access_tile_set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 31 >= 0)>, access_tile_order = affine_map<(a, b) -> (a, a)>} : memref<64x64xf16> -> !ktdp.access_tile<16x32xindex>
  // expected-warning@below {{'ktdp.construct_access_tile' op the tile covers coordinates 60 to 75 of dimension 0, but the base has extent 64}}
  %3 = ktdp.construct_access_tile %v[60, 0] {access_tile_set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 31 >= 0)>, access_tile_order = affine_map<(a, b) -> (a, b)>} : memref<64x64xf16> -> !ktdp.access_tile<16x32xindex>
  // expected-warning@below {{'ktdp.load' op loads elements of type f32, but the base holds f16}}
  %4 = ktdp.load %1 : <32x16xindex> -> tensor<32x16xf32>
  // expected-warning@below {{'ktdp.construct_access_tile' op the tile has 9 elements, but access_tile_set has 6 points}}
  %5 = ktdp.construct_access_tile %v[0, 0] {access_tile_set = affine_set<(a, b) : (a >= 0, a <= 2, b >= 0, a - b >= 0)>, access_tile_order = affine_map<(a, b) -> (a, b)>} : memref<64x64xf16> -> !ktdp.access_tile<3x3xindex>
  return
}
