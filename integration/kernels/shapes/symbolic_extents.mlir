// Extents that only the launch knows, bounded by what `!ktdp.runtime_arg` promises.
#rows40 = affine_set<(r, c)[n] : (r >= 0, -r + n - 1 >= 0, c >= 0, -c + 39 >= 0)>
#row40  = affine_set<(c) : (c >= 0, -c + 39 >= 0)>
#lane   = affine_set<(i)[n] : (i >= 0, -i + n - 1 >= 0)>
#cols   = affine_set<(r, c)[n] : (r >= 0, -r + 4 >= 0, c >= 0, -c + n - 1 >= 0)>
#both   = affine_set<(r, c)[n, m] : (r >= 0, -r + n - 1 >= 0, c >= 0, -c + m - 1 >= 0)>
#id1    = affine_map<(i) -> (i)>
#id2    = affine_map<(r, c) -> (r, c)>
#swap   = affine_map<(r, c) -> (c, r)>
module {
  // y[r, c] = x[r, c] * w[c] for n rows, n a multiple of 4 and at most 24.
  func.func @scale_rows(%x: index, %w: index, %y: index,
                        %n: !ktdp.runtime_arg<index, granularity=4, upperbound=24>) attributes {grid = [1]} {
    %m = ktdp.runtime_arg_extract value from %n : <index, granularity=4, upperbound=24> -> index
    %xv = ktdp.construct_memory_view %x, sizes: [%m, 40], strides: [40, 1] {
      coordinate_set = #rows40, memory_space = #ktdp.memory_space<global> } : memref<?x40xf16>
    %wv = ktdp.construct_memory_view %w, sizes: [40], strides: [1] {
      coordinate_set = #row40, memory_space = #ktdp.memory_space<global> } : memref<40xf16>
    %yv = ktdp.construct_memory_view %y, sizes: [%m, 40], strides: [40, 1] {
      coordinate_set = #rows40, memory_space = #ktdp.memory_space<global> } : memref<?x40xf16>
    %xt = ktdp.construct_access_tile %xv[0, 0] symbols(%m) {access_tile_set = #rows40, access_tile_order = #id2}
      : memref<?x40xf16> -> !ktdp.access_tile<?x40xindex>
    %wt = ktdp.construct_access_tile %wv[0] {access_tile_set = #row40, access_tile_order = #id1}
      : memref<40xf16> -> !ktdp.access_tile<40xindex>
    %yt = ktdp.construct_access_tile %yv[0, 0] symbols(%m) {access_tile_set = #rows40, access_tile_order = #id2}
      : memref<?x40xf16> -> !ktdp.access_tile<?x40xindex>
    %a = ktdp.load %xt : <?x40xindex> -> tensor<?x40xf16>
    %b = ktdp.load %wt : <40xindex> -> tensor<40xf16>
    %e = tensor.empty(%m) : tensor<?x40xf16>
    %bb = linalg.broadcast ins(%b : tensor<40xf16>) outs(%e : tensor<?x40xf16>) dimensions = [0]
    %p = arith.mulf %a, %bb : tensor<?x40xf16>
    ktdp.store %p, %yt : tensor<?x40xf16>, <?x40xindex>
    return
  }

  // y[r] = max over c of x[r, c], and r added to show who computes it; n rows in shares of 8 for three tiles.
  func.func @row_max(%x: index, %y: index, %n: !ktdp.runtime_arg<index, upperbound=24>) attributes {grid = [3]} {
    %c0 = arith.constant 0 : index
    %c8 = arith.constant 8 : index
    %low = arith.constant 0xFF800000 : f32
    %m = ktdp.runtime_arg_extract value from %n : <index, upperbound=24> -> index
    %t = ktdp.get_compute_tile_id : index
    %first = arith.muli %t, %c8 : index
    %left = arith.subi %m, %first : index
    %some = arith.maxsi %left, %c0 : index
    %mine = arith.minsi %some, %c8 : index
    %xv = ktdp.construct_memory_view %x, sizes: [%m, 40], strides: [40, 1] {
      coordinate_set = #rows40, memory_space = #ktdp.memory_space<global> } : memref<?x40xf32>
    %yv = ktdp.construct_memory_view %y, sizes: [%m], strides: [1] {
      coordinate_set = #lane, memory_space = #ktdp.memory_space<global> } : memref<?xf32>
    %xt = ktdp.construct_access_tile %xv[%first, 0] symbols(%mine)
      {access_tile_set = #rows40, access_tile_order = #id2} : memref<?x40xf32> -> !ktdp.access_tile<?x40xindex>
    %yt = ktdp.construct_access_tile %yv[%first] symbols(%mine)
      {access_tile_set = #lane, access_tile_order = #id1} : memref<?xf32> -> !ktdp.access_tile<?xindex>
    %a = ktdp.load %xt : <?x40xindex> -> tensor<?x40xf32>
    %e = tensor.empty(%mine) : tensor<?xf32>
    %f = linalg.fill ins(%low : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
    %s = linalg.reduce { arith.maximumf } ins(%a : tensor<?x40xf32>) outs(%f : tensor<?xf32>) dimensions = [1]
    ktdp.store %s, %yt : tensor<?xf32>, <?xindex>
    return
  }

  // o = a + b + (0, 1, 2, ...) for n numbers, n up to 200: the symbolic extent is that of the vectors, too.
  func.func @add_lanes(%a: index, %b: index, %o: index, %n: !ktdp.runtime_arg<index, upperbound=200>) {
    %m = ktdp.runtime_arg_extract value from %n : <index, upperbound=200> -> index
    %av = ktdp.construct_memory_view %a, sizes: [%m], strides: [1] {
      coordinate_set = #lane, memory_space = #ktdp.memory_space<global> } : memref<?xf32>
    %bv = ktdp.construct_memory_view %b, sizes: [%m], strides: [1] {
      coordinate_set = #lane, memory_space = #ktdp.memory_space<global> } : memref<?xf32>
    %ov = ktdp.construct_memory_view %o, sizes: [%m], strides: [1] {
      coordinate_set = #lane, memory_space = #ktdp.memory_space<global> } : memref<?xf32>
    %at = ktdp.construct_access_tile %av[0] symbols(%m) {access_tile_set = #lane, access_tile_order = #id1}
      : memref<?xf32> -> !ktdp.access_tile<?xindex>
    %bt = ktdp.construct_access_tile %bv[0] symbols(%m) {access_tile_set = #lane, access_tile_order = #id1}
      : memref<?xf32> -> !ktdp.access_tile<?xindex>
    %ot = ktdp.construct_access_tile %ov[0] symbols(%m) {access_tile_set = #lane, access_tile_order = #id1}
      : memref<?xf32> -> !ktdp.access_tile<?xindex>
    %x = ktdp.load %at : <?xindex> -> tensor<?xf32>
    %y = ktdp.load %bt : <?xindex> -> tensor<?xf32>
    %e = tensor.empty(%m) : tensor<?xf32>
    %s = linalg.generic {indexing_maps = [#id1, #id1, #id1], iterator_types = ["parallel"]}
        ins(%x, %y : tensor<?xf32>, tensor<?xf32>) outs(%e : tensor<?xf32>) {
    ^bb0(%p: f32, %q: f32, %_: f32):
      %i = linalg.index 0 : index
      %k = arith.index_cast %i : index to i32
      %f = arith.sitofp %k : i32 to f32
      %u = arith.addf %p, %q : f32
      %v = arith.addf %u, %f : f32
      linalg.yield %v : f32
    } -> tensor<?xf32>
    ktdp.store %s, %ot : tensor<?xf32>, <?xindex>
    return
  }

  // In place, columns: x[:, :n] doubled in five rows of 48, n a multiple of 6 and at most 48.
  func.func @double_columns(%x: index, %n: !ktdp.runtime_arg<index, granularity=6, upperbound=48>) {
    %m = ktdp.runtime_arg_extract value from %n : <index, granularity=6, upperbound=48> -> index
    %xv = ktdp.construct_memory_view %x, sizes: [5, 48], strides: [48, 1] {
      coordinate_set = affine_set<(r, c) : (r >= 0, -r + 4 >= 0, c >= 0, -c + 47 >= 0)>,
      memory_space = #ktdp.memory_space<global> } : memref<5x48xf16>
    %xt = ktdp.construct_access_tile %xv[0, 0] symbols(%m) {access_tile_set = #cols, access_tile_order = #swap}
      : memref<5x48xf16> -> !ktdp.access_tile<?x5xindex>
    %a = ktdp.load %xt : <?x5xindex> -> tensor<?x5xf16>
    %d = arith.addf %a, %a : tensor<?x5xf16>
    ktdp.store %d, %xt : tensor<?x5xf16>, <?x5xindex>
    return
  }

  // The first n rows, one at a time in a loop that the tiles share; only the views and the loop are symbolic.
  func.func @copy_rows(%x: index, %y: index, %n: !ktdp.runtime_arg<index, upperbound=30>) attributes {grid = [4]} {
    %c4 = arith.constant 4 : index
    %m = ktdp.runtime_arg_extract value from %n : <index, upperbound=30> -> index
    %t = ktdp.get_compute_tile_id : index
    %xv = ktdp.construct_memory_view %x, sizes: [%m, 40], strides: [40, 1] {
      coordinate_set = #rows40, memory_space = #ktdp.memory_space<global> } : memref<?x40xf16>
    %yv = ktdp.construct_memory_view %y, sizes: [%m, 40], strides: [40, 1] {
      coordinate_set = #rows40, memory_space = #ktdp.memory_space<global> } : memref<?x40xf16>
    scf.for %r = %t to %m step %c4 {
      %xt = ktdp.construct_access_tile %xv[%r, 0] {
          access_tile_set = affine_set<(r, c) : (r == 0, c >= 0, -c + 39 >= 0)>, access_tile_order = #id2}
        : memref<?x40xf16> -> !ktdp.access_tile<1x40xindex>
      %yt = ktdp.construct_access_tile %yv[%r, 0] {
          access_tile_set = affine_set<(r, c) : (r == 0, c >= 0, -c + 39 >= 0)>, access_tile_order = #id2}
        : memref<?x40xf16> -> !ktdp.access_tile<1x40xindex>
      %a = ktdp.load %xt : <1x40xindex> -> tensor<1x40xf16>
      ktdp.store %a, %yt : tensor<1x40xf16>, <1x40xindex>
    }
    return
  }

  // y[c] = 1 + sum over r of x[r, c] ** 2 for n rows: partial sums lie where the result goes.
  func.func @column_sums(%x: index, %y: index, %n: !ktdp.runtime_arg<index, upperbound=30>) attributes {grid = [1]} {
    %m = ktdp.runtime_arg_extract value from %n : <index, upperbound=30> -> index
    %one = arith.constant dense<1.0> : tensor<40xf16>
    %xv = ktdp.construct_memory_view %x, sizes: [%m, 40], strides: [40, 1] {
      coordinate_set = #rows40, memory_space = #ktdp.memory_space<global> } : memref<?x40xf16>
    %yv = ktdp.construct_memory_view %y, sizes: [40], strides: [1] {
      coordinate_set = #row40, memory_space = #ktdp.memory_space<global> } : memref<40xf16>
    %xt = ktdp.construct_access_tile %xv[0, 0] symbols(%m) {access_tile_set = #rows40, access_tile_order = #id2}
      : memref<?x40xf16> -> !ktdp.access_tile<?x40xindex>
    %yt = ktdp.construct_access_tile %yv[0] {access_tile_set = #row40, access_tile_order = #id1}
      : memref<40xf16> -> !ktdp.access_tile<40xindex>
    %a = ktdp.load %xt : <?x40xindex> -> tensor<?x40xf16>
    %q = arith.mulf %a, %a : tensor<?x40xf16>
    %s = linalg.reduce { arith.addf } ins(%q : tensor<?x40xf16>) outs(%one : tensor<40xf16>) dimensions = [0]
    ktdp.store %s, %yt : tensor<40xf16>, <40xindex>
    return
  }

  // The largest of n numbers and of what stands in y, in one place.
  func.func @largest(%x: index, %y: index, %n: !ktdp.runtime_arg<index, upperbound=200>) {
    %m = ktdp.runtime_arg_extract value from %n : <index, upperbound=200> -> index
    %xv = ktdp.construct_memory_view %x, sizes: [%m], strides: [1] {
      coordinate_set = #lane, memory_space = #ktdp.memory_space<global> } : memref<?xf32>
    %yv = ktdp.construct_memory_view %y, sizes: [], strides: [] {
      coordinate_set = affine_set<() : (0 == 0)>, memory_space = #ktdp.memory_space<global> } : memref<f32>
    %xt = ktdp.construct_access_tile %xv[0] symbols(%m) {access_tile_set = #lane, access_tile_order = #id1}
      : memref<?xf32> -> !ktdp.access_tile<?xindex>
    %yt = ktdp.construct_access_tile %yv[] {access_tile_set = affine_set<() : (0 == 0)>,
      access_tile_order = affine_map<() -> ()>} : memref<f32> -> !ktdp.access_tile<index>
    %a = ktdp.load %xt : <?xindex> -> tensor<?xf32>
    %b = ktdp.load %yt : <index> -> tensor<f32>
    %s = linalg.reduce { arith.maximumf } ins(%a : tensor<?xf32>) outs(%b : tensor<f32>) dimensions = [0]
    ktdp.store %s, %yt : tensor<f32>, <index>
    return
  }

  // o[r, c] = a[r] * b[c] for n rows and m columns: two extents, each with a bound of its own.
  func.func @outer(%a: index, %b: index, %o: index, %n: !ktdp.runtime_arg<index, upperbound=12>,
                   %m: !ktdp.runtime_arg<index, granularity=4, upperbound=40>) {
    %p = ktdp.runtime_arg_extract value from %n : <index, upperbound=12> -> index
    %q = ktdp.runtime_arg_extract value from %m : <index, granularity=4, upperbound=40> -> index
    %av = ktdp.construct_memory_view %a, sizes: [%p], strides: [1] {
      coordinate_set = #lane, memory_space = #ktdp.memory_space<global> } : memref<?xf16>
    %bv = ktdp.construct_memory_view %b, sizes: [%q], strides: [1] {
      coordinate_set = #lane, memory_space = #ktdp.memory_space<global> } : memref<?xf16>
    %ov = ktdp.construct_memory_view %o, sizes: [%p, 40], strides: [40, 1] {
      coordinate_set = #rows40, memory_space = #ktdp.memory_space<global> } : memref<?x40xf16>
    %at = ktdp.construct_access_tile %av[0] symbols(%p) {access_tile_set = #lane, access_tile_order = #id1}
      : memref<?xf16> -> !ktdp.access_tile<?xindex>
    %bt = ktdp.construct_access_tile %bv[0] symbols(%q) {access_tile_set = #lane, access_tile_order = #id1}
      : memref<?xf16> -> !ktdp.access_tile<?xindex>
    %ot = ktdp.construct_access_tile %ov[0, 0] symbols(%p, %q) {access_tile_set = #both, access_tile_order = #id2}
      : memref<?x40xf16> -> !ktdp.access_tile<?x?xindex>
    %x = ktdp.load %at : <?xindex> -> tensor<?xf16>
    %y = ktdp.load %bt : <?xindex> -> tensor<?xf16>
    %e = tensor.empty(%p, %q) : tensor<?x?xf16>
    %xs = linalg.broadcast ins(%x : tensor<?xf16>) outs(%e : tensor<?x?xf16>) dimensions = [1]
    %ys = linalg.broadcast ins(%y : tensor<?xf16>) outs(%e : tensor<?x?xf16>) dimensions = [0]
    %z = arith.mulf %xs, %ys : tensor<?x?xf16>
    ktdp.store %z, %ot : tensor<?x?xf16>, <?x?xindex>
    return
  }

  // y[r, c] = x[r, c] - max over n rows of x[r, c], and the largest itself: what is folded is used again.
  func.func @below_largest(%x: index, %y: index, %l: index, %n: !ktdp.runtime_arg<index, upperbound=24>) {
    %m = ktdp.runtime_arg_extract value from %n : <index, upperbound=24> -> index
    %low = arith.constant dense<0xFC00> : tensor<40xf16>
    %xv = ktdp.construct_memory_view %x, sizes: [%m, 40], strides: [40, 1] {
      coordinate_set = #rows40, memory_space = #ktdp.memory_space<global> } : memref<?x40xf16>
    %yv = ktdp.construct_memory_view %y, sizes: [%m, 40], strides: [40, 1] {
      coordinate_set = #rows40, memory_space = #ktdp.memory_space<global> } : memref<?x40xf16>
    %lv = ktdp.construct_memory_view %l, sizes: [40], strides: [1] {
      coordinate_set = #row40, memory_space = #ktdp.memory_space<global> } : memref<40xf16>
    %xt = ktdp.construct_access_tile %xv[0, 0] symbols(%m) {access_tile_set = #rows40, access_tile_order = #id2}
      : memref<?x40xf16> -> !ktdp.access_tile<?x40xindex>
    %yt = ktdp.construct_access_tile %yv[0, 0] symbols(%m) {access_tile_set = #rows40, access_tile_order = #id2}
      : memref<?x40xf16> -> !ktdp.access_tile<?x40xindex>
    %lt = ktdp.construct_access_tile %lv[0] {access_tile_set = #row40, access_tile_order = #id1}
      : memref<40xf16> -> !ktdp.access_tile<40xindex>
    %a = ktdp.load %xt : <?x40xindex> -> tensor<?x40xf16>
    %s = linalg.reduce { arith.maximumf } ins(%a : tensor<?x40xf16>) outs(%low : tensor<40xf16>) dimensions = [0]
    %e = tensor.empty(%m) : tensor<?x40xf16>
    %b = linalg.broadcast ins(%s : tensor<40xf16>) outs(%e : tensor<?x40xf16>) dimensions = [0]
    %d = arith.subf %a, %b : tensor<?x40xf16>
    ktdp.store %d, %yt : tensor<?x40xf16>, <?x40xindex>
    ktdp.store %s, %lt : tensor<40xf16>, <40xindex>
    return
  }

  // The sum of the first n columns of five rows, row by row: the order of additions is that of the kernel.
  func.func @ordered_sum(%x: index, %y: index, %n: !ktdp.runtime_arg<index, upperbound=40>) {
    %m = ktdp.runtime_arg_extract value from %n : <index, upperbound=40> -> index
    %zero = arith.constant dense<0.0> : tensor<f16>
    %xv = ktdp.construct_memory_view %x, sizes: [5, 48], strides: [48, 1] {
      coordinate_set = affine_set<(r, c) : (r >= 0, -r + 4 >= 0, c >= 0, -c + 47 >= 0)>,
      memory_space = #ktdp.memory_space<global> } : memref<5x48xf16>
    %yv = ktdp.construct_memory_view %y, sizes: [], strides: [] {
      coordinate_set = affine_set<() : (0 == 0)>, memory_space = #ktdp.memory_space<global> } : memref<f16>
    %xt = ktdp.construct_access_tile %xv[0, 0] symbols(%m) {access_tile_set = #cols, access_tile_order = #id2}
      : memref<5x48xf16> -> !ktdp.access_tile<5x?xindex>
    %yt = ktdp.construct_access_tile %yv[] {access_tile_set = affine_set<() : (0 == 0)>,
      access_tile_order = affine_map<() -> ()>} : memref<f16> -> !ktdp.access_tile<index>
    %a = ktdp.load %xt : <5x?xindex> -> tensor<5x?xf16>
    %s = linalg.reduce { arith.addf } ins(%a : tensor<5x?xf16>) outs(%zero : tensor<f16>) dimensions = [0, 1]
    ktdp.store %s, %yt : tensor<f16>, <index>
    return
  }
}
