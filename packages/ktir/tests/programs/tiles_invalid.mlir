// RUN levels: V
func.func @set(%v: memref<96xf16>, %i: index) {
  // expected-error @+1 {{Access tile set is missing in the operation}}
  %x = ktdp.construct_access_tile %v[%i] {access_tile_order = affine_map<(i) -> (i)>} : memref<96xf16> -> !ktdp.access_tile<8xindex>
  return
}

// -----

func.func @pseudo(%v: memref<96xf16>, %i: index) {
  // expected-error @+1 {{expected}}
  %x = ktdp.construct_access_tile %v[%i / 64] {} : memref<96xf16> -> !ktdp.access_tile<8xindex>
  return
}

// -----

#b8 = affine_set<(i) : (i >= 0, -i + 7 >= 0)>
func.func @load(%t: !ktdp.access_tile<8xindex>, %d: tensor<4xf16>) {
  // expected-error @+1 {{'ktdp.load' op access tile shape must match result tensor shape}}
  %x = ktdp.load %t : <8xindex> -> tensor<4xf16>
  // expected-error @+1 {{'ktdp.load' op result must be a ranked tensor}}
  %y = ktdp.load %t : <8xindex> -> tensor<*xf16>
  // expected-error @+1 {{'ktdp.store' op data tile shape must match access tile shape}}
  ktdp.store %d, %t : tensor<4xf16>, <8xindex>
  return
}

// -----

// expected-error @+1 {{tile element type must be 'index', but got: f32}}
func.func private @type(!ktdp.access_tile<4x4xf32>)

// -----

func.func @bare(%v: memref<8x8xf16>, %t: memref<8xi32>, %h: index) {
  // The form of prose, without parentheses:
  // expected-error @+1 {{unexpected token in subscript list, expected 'ind', '(', or ']'}}
  %x = ktdp.construct_indirect_access_tile intermediate_variables(%m) %v[%t[%m], %h] {} : memref<8x8xf16>, memref<8xi32> -> !ktdp.access_tile<8xindex>
  return
}

// -----

#s = affine_set<(m, k) : (m >= 0, -m + 7 >= 0, k >= 0, -k + 3 >= 0)>
func.func @subscripts(%v: memref<8x8x8xf16>, %t: memref<8x8xi32>) {
  // expected-error @+4 {{number of subscripts (2) must match base rank (3)}}
  // expected-error @+3 {{indirect subscript map for dimension 0 produces 1 results, but indirect memref has rank 2}}
  // expected-error @+2 {{direct subscript map for dimension 1 must produce exactly 1 result, but produces 2}}
  // expected-error @+1 {{variables_space_order must have equal number of inputs (2) and outputs (1)}}
  %x = ktdp.construct_indirect_access_tile intermediate_variables(%m, %k) %v[ind(%t[%m]), (%m, %k)] {
    variables_space_set = #s, variables_space_order = affine_map<(m, k) -> (m)>
  } : memref<8x8x8xf16>, memref<8x8xi32> -> !ktdp.access_tile<8x4xindex>
  return
}

// -----

// expected-error @+1 {{expected '>=', '<=' or '=='}}
#s = affine_set<(d0) : (d0 < 4)>
