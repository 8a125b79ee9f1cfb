// c[r] = a[r] + b[(r + shift) mod 96] for 96 rows of 256 f16, three rows on each of 32 compute tiles.
// All tensors are row-major. `shift` is passed at launch and must be a multiple of 3 (no tile wraps around).
#all = affine_set<(r, c) : (r >= 0, 95 - r >= 0, c >= 0, 255 - c >= 0)>
#part = affine_set<(r, c) : (r >= 0, 2 - r >= 0, c >= 0, 255 - c >= 0)>
#rows = affine_map<(r, c) -> (r, c)>
module {
  func.func @shifted_add(%a: index, %b: index, %c: index, %shift: index) attributes {grid = [32]} {
    %c3 = arith.constant 3 : index
    %tile = ktdp.get_compute_tile_id : index
    %base = arith.muli %tile, %c3 : index
    %c96 = arith.constant 96 : index
    %moved = arith.addi %base, %shift : index
    %from = arith.remui %moved, %c96 : index
    %av = ktdp.construct_memory_view %a, sizes: [96, 256], strides: [256, 1]
        {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<96x256xf16>
    %bv = ktdp.construct_memory_view %b, sizes: [96, 256], strides: [256, 1]
        {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<96x256xf16>
    %cv = ktdp.construct_memory_view %c, sizes: [96, 256], strides: [256, 1]
        {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<96x256xf16>
    %at = ktdp.construct_access_tile %av[%base, 0] {access_tile_order = #rows, access_tile_set = #part}
        : memref<96x256xf16> -> !ktdp.access_tile<3x256xindex>
    %bt = ktdp.construct_access_tile %bv[%from, 0] {access_tile_order = #rows, access_tile_set = #part}
        : memref<96x256xf16> -> !ktdp.access_tile<3x256xindex>
    %ct = ktdp.construct_access_tile %cv[%base, 0] {access_tile_order = #rows, access_tile_set = #part}
        : memref<96x256xf16> -> !ktdp.access_tile<3x256xindex>
    %x = ktdp.load %at : <3x256xindex> -> tensor<3x256xf16>
    %y = ktdp.load %bt : <3x256xindex> -> tensor<3x256xf16>
    %z = arith.addf %x, %y : tensor<3x256xf16>
    ktdp.store %z, %ct : tensor<3x256xf16>, <3x256xindex>
    return
  }
}
