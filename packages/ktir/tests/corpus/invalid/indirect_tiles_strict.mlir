// Indirect tiles that verify and contradict themselves.
// RUN: VS
func.func @f(%v: memref<12x8x16xf16>, %h: memref<24xf16>, %i: memref<24xi32>) {
  // expected-warning@below {{'ktdp.construct_indirect_access_tile' op index view of dimension 0 has elements of type f16}}
  %0 = ktdp.construct_indirect_access_tile intermediate_variables(%a, %b) %v[ind(%h[%a]), (%a mod 8), (%b)] {variables_space_set = affine_set<(t, l) : (t >= 0, -t + 23 >= 0, l >= 0, -l + 15 >= 0)>, variables_space_order = affine_map<(a, b) -> (a, b)>} : memref<12x8x16xf16>, memref<24xf16> -> !ktdp.access_tile<24x16xindex>
  // expected-warning@below {{'ktdp.construct_indirect_access_tile' op tile extents 16x24 do not fit the 24x16 points of variables_space_set}}
  %1 = ktdp.construct_indirect_access_tile intermediate_variables(%a, %b) %v[ind(%i[%a]), (%a mod 8), (%b)] {variables_space_set = affine_set<(t, l) : (t >= 0, -t + 23 >= 0, l >= 0, -l + 15 >= 0)>, variables_space_order = affine_map<(a, b) -> (a, b)>} : memref<12x8x16xf16>, memref<24xi32> -> !ktdp.access_tile<16x24xindex>
  // expected-warning@below {{'ktdp.construct_indirect_access_tile' op variables_space_order must be a permutation}}
  %2 = ktdp.construct_indirect_access_tile intermediate_variables(%a, %b) %v[ind(%i[%a]), (%a mod 8), (%b)] {variables_space_set = affine_set<(t, l) : (t >= 0, -t + 23 >= 0, l >= 0, -l + 15 >= 0)>, variables_space_order = affine_map<(a, b) -> (b, b)>} : memref<12x8x16xf16>, memref<24xi32> -> !ktdp.access_tile<24x16xindex>
  return
}
