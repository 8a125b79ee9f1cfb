// Names that shadow, look like keywords or numbers, or hold odd characters.
#id = affine_map<(id) -> (id)>
#set = affine_set<(set) : (set >= 0, -set + 31 >= 0)>
func.func @"a function with blanks"(%id: index, %set: memref<96xf16>, %0: index, %for: index, %index: index, %a.b$c-d_e: index, %_: index, %12: index) {
  %ind = ktdp.construct_access_tile %set[%id] {access_tile_set = #set, access_tile_order = #id} : memref<96xf16> -> !ktdp.access_tile<32xindex>
  %symbols = ktdp.load %ind : <32xindex> -> tensor<32xf16>
  %1 = arith.addi %0, %for : index
  %loc = arith.addi %a.b$c-d_e, %index : index
  scf.for %step = %1 to %loc step %_ {
    %id_0 = arith.addi %step, %1 : index
    %b1_0 = arith.addi %id_0, %12 : index
  }
  scf.for %step = %1 to %loc step %_ {
    %id_0 = arith.addi %step, %1 : index
  }
  return
}
func.func @ind() { return }
func.func @module.func$1() { return }
