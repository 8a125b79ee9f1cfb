// Indirect tiles.
func.func @f(%v: memref<12x8x16xf16>, %t: memref<5x3xi32>, %q: index, %n: index) {
  // expected-error@below {{unexpected token in subscript list, expected 'ind', '(', or ']'}}
  %g = ktdp.construct_indirect_access_tile intermediate_variables(%a, %b) %v[ind(%t[%q, %a floordiv 8]), %a mod 8, %b] {variables_space_set = affine_set<(t, l) : (t >= 0, -t + 23 >= 0, l >= 0, -l + 15 >= 0)>, variables_space_order = affine_map<(a, b) -> (a, b)>} : memref<12x8x16xf16>, memref<5x3xi32> -> !ktdp.access_tile<24x16xindex>
  return
}

// -----

func.func @f(%v: memref<12x8x16xf16>, %t: memref<5x3xi32>, %q: index, %n: index) {
  // expected-error@below {{expected 2 types (base + 1 indirect memrefs), but got 1}}
  %g = ktdp.construct_indirect_access_tile intermediate_variables(%a, %b) %v[ind(%t[%q, %a floordiv 8]), (%a mod 8), (%b)] {variables_space_set = affine_set<(t, l) : (t >= 0, -t + 23 >= 0, l >= 0, -l + 15 >= 0)>, variables_space_order = affine_map<(a, b) -> (a, b)>} : memref<12x8x16xf16> -> !ktdp.access_tile<24x16xindex>
  return
}

// -----

func.func @f(%v: memref<12x8x16xf16>, %t: memref<5x3xi32>, %q: index, %n: index) {
  // expected-error@below {{error canonicalizing subscripts}}
  %g = ktdp.construct_indirect_access_tile intermediate_variables(%a, %b) %v[ind(%t[%q, symbol(%n)]), (%a mod 8), (%b)] {variables_space_set = affine_set<(t, l) : (t >= 0, -t + 23 >= 0, l >= 0, -l + 15 >= 0)>, variables_space_order = affine_map<(a, b) -> (a, b)>} : memref<12x8x16xf16>, memref<5x3xi32> -> !ktdp.access_tile<24x16xindex>
  return
}

// -----

func.func @f(%v: memref<12x8x16xf16>, %t: memref<5x3xi32>, %q: index, %n: index) {
  // expected-error@below {{'ktdp.construct_indirect_access_tile' op number of subscripts (2) must match base rank (3)}}
  %g = ktdp.construct_indirect_access_tile intermediate_variables(%a, %b) %v[ind(%t[%q, %a]), (%b)] {variables_space_set = affine_set<(t, l) : (t >= 0, -t + 23 >= 0, l >= 0, -l + 15 >= 0)>, variables_space_order = affine_map<(a, b) -> (a, b)>} : memref<12x8x16xf16>, memref<5x3xi32> -> !ktdp.access_tile<24x16xindex>
  return
}

// -----

func.func @f(%v: memref<12x8x16xf16>, %t: memref<5x3xi32>, %q: index, %n: index) {
  // expected-error@below {{'ktdp.construct_indirect_access_tile' op indirect subscript map for dimension 0 produces 1 results, but indirect memref has rank 2}}
  %g = ktdp.construct_indirect_access_tile intermediate_variables(%a, %b) %v[ind(%t[%a]), (%a mod 8), (%b)] {variables_space_set = affine_set<(t, l) : (t >= 0, -t + 23 >= 0, l >= 0, -l + 15 >= 0)>, variables_space_order = affine_map<(a, b) -> (a, b)>} : memref<12x8x16xf16>, memref<5x3xi32> -> !ktdp.access_tile<24x16xindex>
  return
}

// -----

func.func @f(%v: memref<12x8x16xf16>, %t: memref<5x3xi32>, %q: index, %n: index) {
  // expected-error@below {{'ktdp.construct_indirect_access_tile' op direct subscript map for dimension 1 must produce exactly 1 result, but produces 2}}
  %g = ktdp.construct_indirect_access_tile intermediate_variables(%a, %b) %v[ind(%t[%q, %a]), (%a, %b), (%b)] {variables_space_set = affine_set<(t, l) : (t >= 0, -t + 23 >= 0, l >= 0, -l + 15 >= 0)>, variables_space_order = affine_map<(a, b) -> (a, b)>} : memref<12x8x16xf16>, memref<5x3xi32> -> !ktdp.access_tile<24x16xindex>
  return
}

// -----

func.func @f(%v: memref<12x8x16xf16>, %t: memref<5x3xi32>, %q: index, %n: index) {
  // expected-error@below {{'ktdp.construct_indirect_access_tile' op number of intermediate variables (3) must match variables_space_set dimensions (2)}}
  %g = ktdp.construct_indirect_access_tile intermediate_variables(%a, %b, %c) %v[ind(%t[%q, %a]), (%a), (%b)] {variables_space_set = affine_set<(t, l) : (t >= 0, -t + 23 >= 0, l >= 0, -l + 15 >= 0)>, variables_space_order = affine_map<(a, b) -> (a, b)>} : memref<12x8x16xf16>, memref<5x3xi32> -> !ktdp.access_tile<24x16xindex>
  return
}

// -----

func.func @f(%v: memref<12x8x16xf16>, %t: memref<5x3xi32>, %q: index, %n: index) {
  // expected-error@below {{'ktdp.construct_indirect_access_tile' op variables_space_order must have equal number of inputs (2) and outputs (1)}}
  %g = ktdp.construct_indirect_access_tile intermediate_variables(%a, %b) %v[ind(%t[%q, %a]), (%a), (%b)] {variables_space_set = affine_set<(t, l) : (t >= 0, -t + 23 >= 0, l >= 0, -l + 15 >= 0)>, variables_space_order = affine_map<(a, b) -> (a)>} : memref<12x8x16xf16>, memref<5x3xi32> -> !ktdp.access_tile<24x16xindex>
  return
}

// -----

func.func @f(%v: memref<12x8x16xf16>, %t: memref<5x3xi32>, %q: index, %n: index) {
  // expected-error@below {{'ktdp.construct_indirect_access_tile' op requires attribute 'variables_space_set'}}
  %g = ktdp.construct_indirect_access_tile intermediate_variables(%a, %b) %v[ind(%t[%q, %a]), (%a), (%b)] {variables_space_order = affine_map<(a, b) -> (a, b)>} : memref<12x8x16xf16>, memref<5x3xi32> -> !ktdp.access_tile<24x16xindex>
  return
}

// -----

func.func @f(%v: memref<12x8x16xf16>, %t: memref<5x3xi32>, %q: index, %n: index) {
  // expected-error@below {{'ktdp.construct_indirect_access_tile' op requires attribute 'variables_space_order'}}
  %g = ktdp.construct_indirect_access_tile intermediate_variables(%a, %b) %v[ind(%t[%q, %a]), (%a), (%b)] {variables_space_set = affine_set<(t, l) : (t >= 0, -t + 23 >= 0, l >= 0, -l + 15 >= 0)>} : memref<12x8x16xf16>, memref<5x3xi32> -> !ktdp.access_tile<24x16xindex>
  return
}

// -----

func.func @f(%v: memref<12x8x16xf16>, %t: memref<5x3xi32>, %q: index, %n: index) {
  // expected-error@below {{variables_space_set has 0 symbols but got 1 symbol operands}}
  %g = ktdp.construct_indirect_access_tile intermediate_variables(%a, %b) %v[ind(%t[%q, %a]), (%a), (%b)] symbols(%n) {variables_space_set = affine_set<(t, l) : (t >= 0, -t + 23 >= 0, l >= 0, -l + 15 >= 0)>, variables_space_order = affine_map<(a, b) -> (a, b)>} : memref<12x8x16xf16>, memref<5x3xi32> -> !ktdp.access_tile<24x16xindex>
  return
}

// -----

func.func @f(%v: memref<12x8x16xf16>, %t: memref<5x3xi32>, %q: index, %n: index) {
  // expected-error@below {{'ktdp.construct_indirect_access_tile' op result type rank (3) must match variables_space_set dimensions (2)}}
  %g = ktdp.construct_indirect_access_tile intermediate_variables(%a, %b) %v[ind(%t[%q, %a]), (%a), (%b)] {variables_space_set = affine_set<(t, l) : (t >= 0, -t + 23 >= 0, l >= 0, -l + 15 >= 0)>, variables_space_order = affine_map<(a, b) -> (a, b)>} : memref<12x8x16xf16>, memref<5x3xi32> -> !ktdp.access_tile<24x16x1xindex>
  return
}

// -----

func.func @f(%v: memref<12x8x16xf16>, %t: memref<5x3xi32>, %q: index, %n: index) {
  // expected-error@below {{expecting a comma between subscripts}}
  %g = ktdp.construct_indirect_access_tile intermediate_variables(%a, %b) %v[ind(%t[%q, %a]) (%a), (%b)] {variables_space_set = affine_set<(t, l) : (t >= 0, -t + 23 >= 0, l >= 0, -l + 15 >= 0)>, variables_space_order = affine_map<(a, b) -> (a, b)>} : memref<12x8x16xf16>, memref<5x3xi32> -> !ktdp.access_tile<24x16xindex>
  return
}

// -----

func.func @f(%v: memref<12x8x16xf16>, %t: memref<5x3xi32>, %q: index, %n: index) {
  // expected-error@below {{use of undeclared SSA value name}}
  %g = ktdp.construct_indirect_access_tile intermediate_variables(%a, %b) %v[ind(%t[%q, %z]), (%a), (%b)] {variables_space_set = affine_set<(t, l) : (t >= 0, -t + 23 >= 0, l >= 0, -l + 15 >= 0)>, variables_space_order = affine_map<(a, b) -> (a, b)>} : memref<12x8x16xf16>, memref<5x3xi32> -> !ktdp.access_tile<24x16xindex>
  return
}

// -----

func.func @f(%v: memref<12x8x16xf16>, %t: memref<5x3xi32>, %q: index, %n: index) {
  // expected-error@below {{redefinition of intermediate variable '%a'}}
  %g = ktdp.construct_indirect_access_tile intermediate_variables(%a, %a) %v[ind(%t[%q, %a]), (%a), (%a)] {variables_space_set = affine_set<(t, l) : (t >= 0, -t + 23 >= 0, l >= 0, -l + 15 >= 0)>, variables_space_order = affine_map<(a, b) -> (a, b)>} : memref<12x8x16xf16>, memref<5x3xi32> -> !ktdp.access_tile<24x16xindex>
  return
}

// -----

func.func @f(%v: memref<12x8x16xf16>, %t: memref<5x3xi32>, %q: index, %n: index) {
  // expected-error@below {{expecting a comma between subscripts}}
  %g = ktdp.construct_indirect_access_tile intermediate_variables(%a, %b) %v[ind(%t[%q, %a]) * 2, (%a), (%b)] {variables_space_set = affine_set<(t, l) : (t >= 0, -t + 23 >= 0, l >= 0, -l + 15 >= 0)>, variables_space_order = affine_map<(a, b) -> (a, b)>} : memref<12x8x16xf16>, memref<5x3xi32> -> !ktdp.access_tile<24x16xindex>
  return
}

// -----

func.func @f(%v: memref<12x8x16xf16>, %t: memref<5x3xi32>, %q: index, %n: index) {
  // expected-error@below {{error parsing the subscript}}
  %g = ktdp.construct_indirect_access_tile intermediate_variables(%a, %b) %v[ind(%t), (%a), (%b)] {variables_space_set = affine_set<(t, l) : (t >= 0, -t + 23 >= 0, l >= 0, -l + 15 >= 0)>, variables_space_order = affine_map<(a, b) -> (a, b)>} : memref<12x8x16xf16>, memref<5x3xi32> -> !ktdp.access_tile<24x16xindex>
  return
}
