// T[40, 128] += U[24, 128] at rows I[24] (si32 in one kernel, i64 in the other), f32.
#t   = affine_set<(r, c) : (r >= 0, -r + 39 >= 0, c >= 0, -c + 127 >= 0)>
#u   = affine_set<(r, c) : (r >= 0, -r + 23 >= 0, c >= 0, -c + 127 >= 0)>
#i   = affine_set<(r) : (r >= 0, -r + 23 >= 0)>
#row = affine_set<(r, c) : (r >= 0, -r >= 0, c >= 0, -c + 31 >= 0)>
#var = affine_set<(r, c) : (r >= 0, -r + 11 >= 0, c >= 0, -c + 127 >= 0)>
#id2 = affine_map<(r, c) -> (r, c)>

module {
  // Rows may repeat: the updates of a column run one after another, four cores own 32 columns each.
  func.func @index_add(%t: index, %u: index, %i: index) attributes {grid = [4]} {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %n = arith.constant 24 : index
    %w = arith.constant 32 : index
    %core = ktdp.get_compute_tile_id : index
    %c = arith.muli %core, %w : index
    %tv = ktdp.construct_memory_view %t, sizes: [40, 128], strides: [128, 1] {
      coordinate_set = #t, memory_space = #ktdp.memory_space<global> } : memref<40x128xf32>
    %uv = ktdp.construct_memory_view %u, sizes: [24, 128], strides: [128, 1] {
      coordinate_set = #u, memory_space = #ktdp.memory_space<global> } : memref<24x128xf32>
    scf.for %k = %zero to %n step %one {
      // the index is read by a rank-0 view at a computed address
      %a = arith.addi %i, %k : index
      %iv = ktdp.construct_memory_view %a, sizes: [], strides: [] {
        coordinate_set = affine_set<() : (0 == 0)>, memory_space = #ktdp.memory_space<global> } : memref<i64>
      %it = ktdp.construct_access_tile %iv[] {
        access_tile_set = affine_set<() : ()>, access_tile_order = affine_map<() -> ()> } : memref<i64> -> !ktdp.access_tile<index>
      %i0 = ktdp.load %it : <index> -> tensor<i64>
      %i64 = tensor.extract %i0[] : tensor<i64>
      %r = arith.index_cast %i64 : i64 to index
      %ut = ktdp.construct_access_tile %uv[%k, %c] { access_tile_set = #row, access_tile_order = #id2 }
        : memref<24x128xf32> -> !ktdp.access_tile<1x32xindex>
      %tt = ktdp.construct_access_tile %tv[%r, %c] { access_tile_set = #row, access_tile_order = #id2 }
        : memref<40x128xf32> -> !ktdp.access_tile<1x32xindex>
      %new = ktdp.load %ut : <1x32xindex> -> tensor<1x32xf32>
      %old = ktdp.load %tt : <1x32xindex> -> tensor<1x32xf32>
      %sum = arith.addf %old, %new : tensor<1x32xf32>
      ktdp.store %sum, %tt : tensor<1x32xf32>, <1x32xindex>
    }
    return
  }

  // All rows differ: gather, add, scatter, twelve rows a core.
  func.func @index_add_unique(%t: index, %u: index, %i: index) attributes {grid = [2 : index]} {
    %zero = arith.constant 0 : index
    %n = arith.constant 12 : index
    %core = ktdp.get_compute_tile_id : index
    %k = arith.muli %core, %n : index
    %tv = ktdp.construct_memory_view %t, sizes: [40, 128], strides: [128, 1] {
      coordinate_set = #t, memory_space = #ktdp.memory_space<global> } : memref<40x128xf32>
    %uv = ktdp.construct_memory_view %u, sizes: [24, 128], strides: [128, 1] {
      coordinate_set = #u, memory_space = #ktdp.memory_space<global> } : memref<24x128xf32>
    %iv = ktdp.construct_memory_view %i, sizes: [24], strides: [1] {
      coordinate_set = #i, memory_space = #ktdp.memory_space<global> } : memref<24xsi32>
    %tt = ktdp.construct_indirect_access_tile intermediate_variables(%r, %c) %tv[ind(%iv[%k + %r]), (%c)] {
      variables_space_order = #id2, variables_space_set = #var
    } : memref<40x128xf32>, memref<24xsi32> -> !ktdp.access_tile<12x128xindex>
    %ut = ktdp.construct_access_tile %uv[%k, %zero] { access_tile_set = #var, access_tile_order = #id2 }
      : memref<24x128xf32> -> !ktdp.access_tile<12x128xindex>
    %old = ktdp.load %tt : !ktdp.access_tile<12x128xindex> -> tensor<12x128xf32>
    %new = ktdp.load %ut : !ktdp.access_tile<12x128xindex> -> tensor<12x128xf32>
    %sum = arith.addf %old, %new : tensor<12x128xf32>
    ktdp.store %sum, %tt : tensor<12x128xf32>, !ktdp.access_tile<12x128xindex>
    return
  }
}
