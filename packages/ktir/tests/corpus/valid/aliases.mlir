// Aliases between functions, behind the module, of types; capital letters and digits; forward references of locations.
#Tile_Set2 = affine_set<(i) : (i >= 0, i <= 31)>
!tile = !ktdp.access_tile<32xindex>
!Data = tensor<32xf16>
!fn = (index) -> index
#Order = affine_map<(i) -> (i)>
module {
  func.func @a(%id: index, %v: memref<96xf16>) {
    %t = ktdp.construct_access_tile %v[%id] {access_tile_set = #Tile_Set2, access_tile_order = #Order} : memref<96xf16> -> !tile
    %d = ktdp.load %t : !tile -> !Data
    ktdp.store %d, %t : !Data, !tile loc(#loc7)
    return
  }
} loc(#loc)
#id = affine_map<(i) -> (i)>
#nested = {a = #id, b = [#id, #Tile_Set2]}
func.func private @b(index) -> index attributes {map = #id, set = #Tile_Set2, all = #nested, type = !fn}
#loc = loc("x.py":1:2)
#loc7 = loc(fused[#loc, #loc8])
#loc8 = loc("later"(#loc))
