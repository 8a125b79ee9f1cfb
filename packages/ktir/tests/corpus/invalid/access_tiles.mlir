// Access tiles.
func.func @f(%v: memref<64x64xf16>, %i: index, %n: index) {
  // expected-error@below {{Access tile set is missing in the operation}}
  %t = ktdp.construct_access_tile %v[%i, 0] {access_tile_order = affine_map<(a, b) -> (a, b)>} : memref<64x64xf16> -> !ktdp.access_tile<16x32xindex>
  return
}

// -----

func.func @f(%v: memref<64x64xf16>, %i: index, %n: index) {
  // expected-error@below {{Access tile order is missing in the operation}}
  %t = ktdp.construct_access_tile %v[%i, 0] {access_tile_set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 31 >= 0)>} : memref<64x64xf16> -> !ktdp.access_tile<16x32xindex>
  return
}

// -----

func.func @f(%v: memref<64x64xf16>, %i: index, %n: index) {
  // expected-error@below {{Access tile set and Base input dimensions should match}}
  %t = ktdp.construct_access_tile %v[%i] {access_tile_set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 31 >= 0)>, access_tile_order = affine_map<(a, b) -> (a, b)>} : memref<64x64xf16> -> !ktdp.access_tile<16x32xindex>
  return
}

// -----

func.func @f(%v: memref<64x64xf16>, %i: index, %n: index) {
  // expected-error@below {{access_tile_set has 1 symbols but got 0 symbol operands}}
  %t = ktdp.construct_access_tile %v[%i, 0] {access_tile_set = affine_set<(a, b)[n] : (a >= 0, n - a >= 1, b == 0)>, access_tile_order = affine_map<(a, b) -> (a, b)>} : memref<64x64xf16> -> !ktdp.access_tile<16x32xindex>
  return
}

// -----

func.func @f(%v: memref<64x64xf16>, %i: index, %n: index) {
  // expected-error@below {{access_tile_set has 0 symbols but got 1 symbol operands}}
  %t = ktdp.construct_access_tile %v[%i, 0] symbols(%n) {access_tile_set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 31 >= 0)>, access_tile_order = affine_map<(a, b) -> (a, b)>} : memref<64x64xf16> -> !ktdp.access_tile<16x32xindex>
  return
}

// -----

func.func @f(%v: memref<64x64xf16>, %i: index, %n: index) {
  // expected-error@below {{Number of input dimensions and output dimensions in the access tile order should match}}
  %t = ktdp.construct_access_tile %v[%i, 0] {access_tile_set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 31 >= 0)>, access_tile_order = affine_map<(a, b) -> (a)>} : memref<64x64xf16> -> !ktdp.access_tile<16x32xindex>
  return
}

// -----

func.func @f(%v: memref<64x64xf16>, %i: index, %n: index) {
  // expected-error@below {{Number of dimensions in the access tile order and access tile set must match!}}
  %t = ktdp.construct_access_tile %v[%i, 0] {access_tile_set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 31 >= 0)>, access_tile_order = affine_map<(a, b, c) -> (a, b, c)>} : memref<64x64xf16> -> !ktdp.access_tile<16x32xindex>
  return
}

// -----

func.func @f(%v: memref<64x64xf16>, %i: index, %n: index) {
  // expected-error@below {{'ktdp.construct_access_tile' op result type rank (3) must match access_tile_set dimensions (2)}}
  %t = ktdp.construct_access_tile %v[%i, 0] {access_tile_set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 31 >= 0)>, access_tile_order = affine_map<(a, b) -> (a, b)>} : memref<64x64xf16> -> !ktdp.access_tile<16x32x1xindex>
  return
}

// -----

func.func @f(%v: memref<64x64xf16>, %i: index, %n: index) {
  // expected-error@below {{Access tile order is missing in the operation}}
  %t = ktdp.construct_access_tile %v[%i, 0] {access_tile_set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 31 >= 0)>, access_tile_order = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 31 >= 0)>} : memref<64x64xf16> -> !ktdp.access_tile<16x32xindex>
  return
}

// -----

func.func @f(%v: memref<64x64xf16>, %i: index, %n: index) {
  // expected-error@below {{non-affine expression: at least one of the multiply operands has to be either a constant or symbolic}}
  %t = ktdp.construct_access_tile %v[%i * %n, 0] {access_tile_set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 31 >= 0)>, access_tile_order = affine_map<(a, b) -> (a, b)>} : memref<64x64xf16> -> !ktdp.access_tile<16x32xindex>
  return
}

// -----

func.func @f(%v: memref<64x64xf16>, %i: index, %n: index) {
  // expected-error@below {{use of value '%v' expects different type than prior uses: 'index' vs 'memref<64x64xf16>'}}
  %t = ktdp.construct_access_tile %v[%v, 0] {access_tile_set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 31 >= 0)>, access_tile_order = affine_map<(a, b) -> (a, b)>} : memref<64x64xf16> -> !ktdp.access_tile<16x32xindex>
  return
}

// -----

func.func @f(%v: memref<64x64xf16>, %i: index, %n: index) {
  // expected-error@below {{expected an SSA name or an integer in affine subscript, got '1.5'}}
  %t = ktdp.construct_access_tile %v[%i, 1.5] {access_tile_set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 31 >= 0)>, access_tile_order = affine_map<(a, b) -> (a, b)>} : memref<64x64xf16> -> !ktdp.access_tile<16x32xindex>
  return
}

// -----

func.func @f(%v: memref<64x64xf16>, %i: index, %n: index) {
  // expected-error@below {{use of undeclared SSA value name}}
  %t = ktdp.construct_access_tile %v[%i, %q] {access_tile_set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 31 >= 0)>, access_tile_order = affine_map<(a, b) -> (a, b)>} : memref<64x64xf16> -> !ktdp.access_tile<16x32xindex>
  return
}
