// Syntax of prose and of other languages, which KTIR does not have.
func.func @f(%x: memref<64x64xf16>, %idx: memref<64x64xi32>, %m: index, %h: index) {
  // expected-error@+2 {{unexpected token in subscript list, expected 'ind', '(', or ']'}}
  // expected-note@below {{write ind(%view[%i, ...]) for an index that is read, (%i + 1) for one that is computed}}
  %t = ktdp.construct_indirect_access_tile intermediate_variables(%a, %b) %x[%idx[%m, %a], %h] {variables_space_set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 31 >= 0)>, variables_space_order = affine_map<(a, b) -> (a, b)>} : memref<64x64xf16>, memref<64x64xi32> -> !ktdp.access_tile<16x32xindex>
  return
}

// -----

func.func @f(%x: memref<64x64xf16>) {
  // expected-error@+2 {{custom op 'ktir.construct_access_tile' is unknown}}
  // expected-note@below {{dialect 'ktir' is not known; its operations are read in generic form: "ktir.construct_access_tile"(...)}}
  %t = ktir.construct_access_tile %x[0, 0] {} : memref<64x64xf16> -> !ktdp.access_tile<16x32xindex>
  return
}

// -----

// expected-error@+2 {{expected a type, got 'fp16'}}
// expected-note@below {{here it is called f16}}
func.func @f(%x: memref<64x64xfp16>) {
  return
}

// -----

func.func @f(%x: memref<64x64xf16>, %tkv: index) {
  // expected-error@+2 {{expected an affine operator, got '/'}}
  // expected-note@below {{a quotient is written with 'floordiv' or 'ceildiv'}}
  %t = ktdp.construct_access_tile %x[%tkv / 64, 0] {access_tile_set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 31 >= 0)>, access_tile_order = affine_map<(a, b) -> (a, b)>} : memref<64x64xf16> -> !ktdp.access_tile<16x32xindex>
  return
}

// -----

func.func @f(%x: memref<64x64xf16>, %tkv: index) {
  // expected-error@+2 {{expected an SSA name behind '%'}}
  // expected-note@below {{a remainder is written with 'mod'}}
  %t = ktdp.construct_access_tile %x[%tkv % 64, 0] {access_tile_set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 31 >= 0)>, access_tile_order = affine_map<(a, b) -> (a, b)>} : memref<64x64xf16> -> !ktdp.access_tile<16x32xindex>
  return
}

// -----

func.func @f(%x: memref<64x64xf16>) {
  // expected-error@below {{expected '->' behind the base's type, got ','}}
  %t = ktdp.construct_access_tile %x[0, 0] {access_tile_set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 31 >= 0)>, access_tile_order = affine_map<(a, b) -> (a, b)>} : memref<64x64xf16>, !ktdp.access_tile<16x32xindex>
  return
}

// -----

// expected-error@below {{expected '(', got '{'}}
func.func private @f() attributes {s = affine_set<{(m, k) | 0 <= m < 2}>}

// -----

// expected-error@below {{expected ')' or ',' in list, got '<'}}
func.func private @f() attributes {s = affine_set<(m, k) : (0 <= m < 2)>}
