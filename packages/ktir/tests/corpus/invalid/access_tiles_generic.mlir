// Access tiles generic.
func.func @f(%v: memref<64x64xf16>, %i: index, %n: index) {
  // expected-error@below {{'ktdp.construct_access_tile' op base_map expects 2 operands but got 1}}
  %t = "ktdp.construct_access_tile"(%v, %i) <{access_tile_order = affine_map<(a, b) -> (a, b)>, access_tile_set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 31 >= 0)>, base_map = affine_map<(a, b) -> (a, b)>, operandSegmentSizes = array<i32: 1, 1, 0>}> : (memref<64x64xf16>, index) -> !ktdp.access_tile<16x32xindex>
  // expected-error@below {{'ktdp.construct_access_tile' op result type rank (1) must match access_tile_set dimensions (2)}}
  %u = "ktdp.construct_access_tile"(%v, %i) <{access_tile_order = affine_map<(a, b) -> (a, b)>, access_tile_set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 31 >= 0)>, base_map = affine_map<(a) -> (a, 0)>, operandSegmentSizes = array<i32: 1, 1, 0>}> : (memref<64x64xf16>, index) -> !ktdp.access_tile<16xindex>
  // expected-error@below {{'ktdp.construct_access_tile' op access_tile_set dimensions (2) must match base_map dims (1)}}
  %w = "ktdp.construct_access_tile"(%v, %i) <{access_tile_order = affine_map<(a, b) -> (a, b)>, access_tile_set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 31 >= 0)>, base_map = affine_map<(a) -> (a)>, operandSegmentSizes = array<i32: 1, 1, 0>}> : (memref<64x64xf16>, index) -> !ktdp.access_tile<16x32xindex>
  // expected-error@+2 {{'ktdp.construct_access_tile' op access_tile_order must have equal number of inputs (2) and outputs (1)}}
  // expected-error@below {{'ktdp.construct_access_tile' op access_tile_order dimensions (1) must match access_tile_set dimensions (2)}}
  %x = "ktdp.construct_access_tile"(%v, %i) <{access_tile_order = affine_map<(a, b) -> (a)>, access_tile_set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 31 >= 0)>, base_map = affine_map<(a) -> (a, 0)>, operandSegmentSizes = array<i32: 1, 1, 0>}> : (memref<64x64xf16>, index) -> !ktdp.access_tile<16x32xindex>
  // expected-error@below {{'ktdp.construct_access_tile' op requires attribute 'base_map'}}
  %y = "ktdp.construct_access_tile"(%v, %i) <{access_tile_order = affine_map<(a, b) -> (a, b)>, access_tile_set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 31 >= 0)>, operandSegmentSizes = array<i32: 1, 1, 0>}> : (memref<64x64xf16>, index) -> !ktdp.access_tile<16x32xindex>
  return
}
