// Indirect tiles: a blank in front of the list, captured values, a variable that hides a value, no variables at all, one
// index view for two dimensions, direct subscripts only.
// RUN: VLS
#var = affine_set<(t, l) : (t >= 0, -t + 23 >= 0, l >= 0, -l + 15 >= 0)>
#unit = affine_set<() : (0 == 0)>
#none = affine_map<() -> ()>
#id2 = affine_map<(a, b) -> (a, b)>
#swap = affine_map<(a, b) -> (b, a)>
#dyn = affine_set<(t, l)[n] : (t >= 0, t <= n - 1, l >= 0, l <= 15)>
func.func @gather(%pool: memref<12x8x16xf16>, %flat: memref<96x16xf16>, %table: memref<5x3xi32>, %rows: memref<24xsi32>,
                  %both: memref<24xindex>, %square: memref<64x64xf16>, %seq: index, %t: index, %n: index) {
  %0 = ktdp.construct_indirect_access_tile intermediate_variables (%t, %l) %pool[ind(%table[%seq, %t floordiv 8]), (%t mod 8), (%l)] {
    variables_space_set = #var, variables_space_order = #id2 } : memref<12x8x16xf16>, memref<5x3xi32> -> !ktdp.access_tile<24x16xindex>
  %1 = ktdp.construct_indirect_access_tile intermediate_variables(%r, %c)
    %flat [ ind(%rows[%r]) , (%c) ] {variables_space_order = #swap, variables_space_set = #var}
    : memref<96x16xf16>, memref<24xsi32> -> !ktdp.access_tile<16x24xindex>
  %2 = ktdp.construct_indirect_access_tile intermediate_variables() %pool[ind(%table[%seq, 0]), (%t), (%seq)] {
    variables_space_order = #none, variables_space_set = #unit} : memref<12x8x16xf16>, memref<5x3xi32> -> !ktdp.access_tile<index>
  %3 = ktdp.construct_indirect_access_tile intermediate_variables(%a, %b) %square[ind(%both[%a]), ind(%both[%a])] {
    variables_space_set = #var, variables_space_order = #id2} : memref<64x64xf16>, memref<24xindex>, memref<24xindex> -> !ktdp.access_tile<24x16xindex>
  %4 = ktdp.construct_indirect_access_tile intermediate_variables(%r, %c) %pool[(%c floordiv 2), (%r floordiv 3), (%c + %n - %n)] {
    variables_space_set = #var, variables_space_order = #id2} : memref<12x8x16xf16> -> !ktdp.access_tile<24x16xindex>
  %5 = ktdp.construct_indirect_access_tile intermediate_variables(%x, %y) %flat[ind(%rows[%x]), (%y)] symbols (%n) {
    variables_space_set = #dyn, variables_space_order = #id2} : memref<96x16xf16>, memref<24xsi32> -> !ktdp.access_tile<?x16xindex>
  return
}
