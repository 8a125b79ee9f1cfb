// Layer norm of X[48, 320] f16 over the columns; statistics, weight and bias in f32; four cores, 12 rows each.
// The mean first, then the mean of the squared distances: no cancellation.

#x_all = affine_set<(r, c) : (r >= 0, r <= 47, c >= 0, c <= 319)>
#x_own = affine_set<(r, c) : (r >= 0, r <= 11, c >= 0, c <= 319)>
#vec   = affine_set<(c) : (c >= 0, c <= 319)>
#id2   = affine_map<(r, c) -> (r, c)>
#id1   = affine_map<(c) -> (c)>
#row   = affine_map<(r, c) -> (r)>
#col   = affine_map<(r, c) -> (c)>

module @norms {
  func.func @layer_norm(%x: index, %weight: index, %bias: index, %y: index, %eps: f32)
      attributes {grid = [4]} {
    %zero = arith.constant 0 : index
    %rows = arith.constant 12 : index
    %core = ktdp.get_compute_tile_id : index
    %r0 = arith.muli %core, %rows : index

    %xv = ktdp.construct_memory_view %x, sizes : [48, 320], strides : [320, 1] {
      memory_space = #ktdp.memory_space<global>,   // first the space,
      coordinate_set = #x_all                      // then the set
    } : memref<48x320xf16>
    %yv = ktdp.construct_memory_view %y, sizes : [48, 320], strides : [320, 1] {
      memory_space = #ktdp.memory_space<global>, coordinate_set = #x_all } : memref<48x320xf16>
    %wv = ktdp.construct_memory_view %weight, sizes : [320], strides : [1] {
      memory_space = #ktdp.memory_space<global>, coordinate_set = #vec } : memref<320xf32>
    %bv = ktdp.construct_memory_view %bias, sizes : [320], strides : [1] {
      memory_space = #ktdp.memory_space<global>, coordinate_set = #vec } : memref<320xf32>

    %xt = ktdp.construct_access_tile %xv[%r0, %zero] { access_tile_set = #x_own, access_tile_order = #id2 }
        : memref<48x320xf16> -> !ktdp.access_tile<12x320xindex>
    %yt = ktdp.construct_access_tile %yv[%r0, %zero] { access_tile_set = #x_own, access_tile_order = #id2 }
        : memref<48x320xf16> -> !ktdp.access_tile<12x320xindex>
    %wt = ktdp.construct_access_tile %wv[%zero] { access_tile_set = #vec, access_tile_order = #id1 }
        : memref<320xf32> -> !ktdp.access_tile<320xindex>
    %bt = ktdp.construct_access_tile %bv[0] { access_tile_set = #vec, access_tile_order = #id1 }
        : memref<320xf32> -> !ktdp.access_tile<320xindex>

    %xd = ktdp.load %xt : !ktdp.access_tile<12x320xindex> -> tensor<12x320xf16>
    %w  = ktdp.load %wt : !ktdp.access_tile<320xindex> -> tensor<320xf32>
    %b  = ktdp.load %bt : !ktdp.access_tile<320xindex> -> tensor<320xf32>
    %xf = arith.extf %xd : tensor<12x320xf16> to tensor<12x320xf32>

    %none = arith.constant dense<0.0> : tensor<12xf32>
    %n = arith.constant dense<320.0> : tensor<12xf32>
    %sum = linalg.reduce { arith.addf } ins(%xf : tensor<12x320xf32>) outs(%none : tensor<12xf32>) dimensions = [1]
    %mean = arith.divf %sum, %n : tensor<12xf32>

    %ss = linalg.generic { indexing_maps = [#id2, #row, #row], iterator_types = ["parallel", "reduction"] }
        ins(%xf, %mean : tensor<12x320xf32>, tensor<12xf32>) outs(%none : tensor<12xf32>) {
      ^bb0(%xe: f32, %m: f32, %acc: f32):
        %d = arith.subf %xe, %m : f32
        %q = arith.mulf %d, %d : f32
        %s = arith.addf %acc, %q : f32
        linalg.yield %s : f32
    } -> tensor<12xf32>
    %var = arith.divf %ss, %n : tensor<12xf32>
    %epsv = tensor.splat %eps : tensor<12xf32>
    %safe = arith.addf %var, %epsv : tensor<12xf32>
    %rstd = math.rsqrt %safe : tensor<12xf32>

    %e = tensor.empty() : tensor<12x320xf16>
    %out = linalg.generic {
        indexing_maps = [#id2, #row, #row, #col, #col, #id2], iterator_types = ["parallel", "parallel"],
        doc = "y = (x - mean) * rstd * weight + bias" }
        ins(%xf, %mean, %rstd, %w, %b : tensor<12x320xf32>, tensor<12xf32>, tensor<12xf32>, tensor<320xf32>,
            tensor<320xf32>)
        outs(%e : tensor<12x320xf16>) {
      ^bb0(%xe: f32, %m: f32, %rs: f32, %we: f32, %be: f32, %o: f16):
        %d = arith.subf %xe, %m : f32
        %h = arith.mulf %d, %rs : f32
        %p = arith.mulf %h, %we : f32
        %s = arith.addf %p, %be : f32
        %t = arith.truncf %s : f32 to f16
        linalg.yield %t : f16
    } -> tensor<12x320xf16>
    ktdp.store %out, %yt : tensor<12x320xf16>, !ktdp.access_tile<12x320xindex>
    return
  }
}
