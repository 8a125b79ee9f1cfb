// Round trips of a front end: tiles with permuting orders, subscripts, symbols. The last two tiles have their extents
// the wrong way round, which level V accepts and level S tells of.
// RUN: VL
#block = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 31 >= 0)>
#cube = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 1 >= 0, d1 >= 0, -d1 + 2 >= 0, d2 >= 0, -d2 + 3 >= 0)>
#sym = affine_set<(d0, d1)[s0, s1] : (d0 >= 0, s0 - d0 - 1 >= 0, d1 >= 0, d1 <= s1-1)>
#id = affine_map<(d0, d1) -> (d0, d1)>
#swap = affine_map<(d0, d1) -> (d1, d0)>
#cycle = affine_map<(a, b, c) -> (c, a, b)>
func.func @tiles(%v: memref<64x128xf16>, %c: memref<8x8x8xf32>, %i: index, %j: index, %m: index, %n: index) {
  %0 = ktdp.construct_access_tile %v[%i * 2, %j + 4] {access_tile_set = #block, access_tile_order = #id} : memref<64x128xf16> -> !ktdp.access_tile<16x32xindex>
  %1 = ktdp.construct_access_tile %v[%i, %i + 1] {access_tile_set = #block, access_tile_order = #swap} : memref<64x128xf16> -> !ktdp.access_tile<32x16xindex>
  %2 = ktdp.construct_access_tile %v[0, %j] {access_tile_order = #swap, access_tile_set = #block} : memref<64x128xf16> -> !ktdp.access_tile<32x16xindex>
  %3 = ktdp.construct_access_tile %c[%i, %j, symbol(%m)] {access_tile_order = #cycle, access_tile_set = #cube} : memref<8x8x8xf32> -> !ktdp.access_tile<4x2x3xindex>
  %4 = ktdp.construct_access_tile %v[%i, %j] symbols(%m, %n) {access_tile_set = #sym, access_tile_order = #id} : memref<64x128xf16> -> !ktdp.access_tile<?x?xindex>
  %5 = ktdp.construct_access_tile %v[(%i + %j) * 2 - 1, -%j + 64] symbols (%n, %n) {access_tile_set = #sym, access_tile_order = #id} : memref<64x128xf16> -> !ktdp.access_tile<?x?xindex>
  %6 = ktdp.construct_access_tile %v[%i floordiv 8, %i mod 8] {access_tile_set = #block, access_tile_order = #id} : memref<64x128xf16> -> !ktdp.access_tile<32x16xindex>
  %7 = ktdp.construct_access_tile %v[%i ceildiv 4, %j] {access_tile_set = #block, access_tile_order = #swap} : memref<64x128xf16> -> !ktdp.access_tile<16x32xindex>
  return
}
