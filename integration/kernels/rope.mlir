// Rotary position embedding of Q[16 tokens, 4 heads, 64] f16; angles in tables cos/sin[128, 32] f32, rows chosen
// by the position of each token. Two usual pairings: (d, d + 32) and (2d, 2d + 1).

#q_all  = affine_set<(s, h, d) : (s >= 0, -s + 15 >= 0, h >= 0, -h + 3 >= 0, d >= 0, -d + 63 >= 0)>
#q_own  = affine_set<(s, h, d) : (s >= 0, -s + 7 >= 0, h >= 0, -h + 0 >= 0, d >= 0, -d + 63 >= 0)>
#even   = affine_set<(s, h, d) : (s >= 0, -s + 7 >= 0, h == 0, d >= 0, -d + 63 >= 0, d mod 2 == 0)>
#odd    = affine_set<(s, h, d) : (s >= 0, -s + 7 >= 0, h == 0, d >= 0, -d + 63 >= 0, d mod 2 - 1 == 0)>
#table  = affine_set<(p, d) : (p >= 0, -p + 127 >= 0, d >= 0, -d + 31 >= 0)>
#tokens = affine_set<(s) : (s >= 0, -s + 15 >= 0)>
#angles = affine_set<(s, d) : (s >= 0, -s + 7 >= 0, d >= 0, -d + 31 >= 0)>
#id3 = affine_map<(s, h, d) -> (s, h, d)>
#id2 = affine_map<(s, d) -> (s, d)>

module {
  func.func @rope_halves(%q: index, %cos: index, %sin: index, %pos: index, %o: index) attributes {grid = [4, 2]} {
    %zero = arith.constant 0 : index
    %eight = arith.constant 8 : index
    %tile:2 = ktdp.get_compute_tile_id : index, index
    %s0 = arith.muli %tile#1, %eight : index
    %qv = ktdp.construct_memory_view %q, sizes: [16, 4, 64], strides: [256, 64, 1] {
      coordinate_set = #q_all, memory_space = #ktdp.memory_space<global> } : memref<16x4x64xf16>
    %ov = ktdp.construct_memory_view %o, sizes: [16, 4, 64], strides: [256, 64, 1] {
      coordinate_set = #q_all, memory_space = #ktdp.memory_space<global> } : memref<16x4x64xf16>
    %cv = ktdp.construct_memory_view %cos, sizes: [128, 32], strides: [32, 1] {
      coordinate_set = #table, memory_space = #ktdp.memory_space<global> } : memref<128x32xf32>
    %sv = ktdp.construct_memory_view %sin, sizes: [128, 32], strides: [32, 1] {
      coordinate_set = #table, memory_space = #ktdp.memory_space<global> } : memref<128x32xf32>
    %pv = ktdp.construct_memory_view %pos, sizes: [16], strides: [1] {
      coordinate_set = #tokens, memory_space = #ktdp.memory_space<global> } : memref<16xi32>

    %ct = ktdp.construct_indirect_access_tile intermediate_variables(%s, %d) %cv[ind(%pv[%s + %s0]), (%d)] {
      variables_space_set = #angles, variables_space_order = #id2 } : memref<128x32xf32>, memref<16xi32>
      -> !ktdp.access_tile<8x32xindex>
    %st = ktdp.construct_indirect_access_tile intermediate_variables(%s, %d) %sv[ind(%pv[%s + %s0]), (%d)] {
      variables_space_set = #angles, variables_space_order = #id2 } : memref<128x32xf32>, memref<16xi32>
      -> !ktdp.access_tile<8x32xindex>
    %c = ktdp.load %ct : <8x32xindex> -> tensor<8x32xf32>
    %s = ktdp.load %st : <8x32xindex> -> tensor<8x32xf32>

    %qt = ktdp.construct_access_tile %qv[%s0, %tile#0, %zero] { access_tile_set = #q_own, access_tile_order = #id3 }
      : memref<16x4x64xf16> -> !ktdp.access_tile<8x1x64xindex>
    %ot = ktdp.construct_access_tile %ov[%s0, %tile#0, %zero] { access_tile_set = #q_own, access_tile_order = #id3 }
      : memref<16x4x64xf16> -> !ktdp.access_tile<8x1x64xindex>
    %q3 = ktdp.load %qt : <8x1x64xindex> -> tensor<8x1x64xf16>
    %q2 = tensor.collapse_shape %q3 [[0, 1], [2]] : tensor<8x1x64xf16> into tensor<8x64xf16>
    %lo16 = tensor.extract_slice %q2[0, 0] [8, 32] [1, 1] : tensor<8x64xf16> to tensor<8x32xf16>
    %hi16 = tensor.extract_slice %q2[0, 32] [8, 32] [1, 1] : tensor<8x64xf16> to tensor<8x32xf16>
    %lo = arith.extf %lo16 : tensor<8x32xf16> to tensor<8x32xf32>
    %hi = arith.extf %hi16 : tensor<8x32xf16> to tensor<8x32xf32>
    %lc = arith.mulf %lo, %c : tensor<8x32xf32>
    %hs = arith.mulf %hi, %s : tensor<8x32xf32>
    %hc = arith.mulf %hi, %c : tensor<8x32xf32>
    %ls = arith.mulf %lo, %s : tensor<8x32xf32>
    %a = arith.subf %lc, %hs : tensor<8x32xf32>
    %b = arith.addf %hc, %ls : tensor<8x32xf32>
    %a16 = arith.truncf %a : tensor<8x32xf32> to tensor<8x32xf16>
    %b16 = arith.truncf %b : tensor<8x32xf32> to tensor<8x32xf16>
    %both = tensor.concat dim(1) %a16, %b16 : (tensor<8x32xf16>, tensor<8x32xf16>) -> tensor<8x64xf16>
    %r = tensor.expand_shape %both [[0, 1], [2]] output_shape [8, 1, 64] : tensor<8x64xf16> into tensor<8x1x64xf16>
    ktdp.store %r, %ot : tensor<8x1x64xf16>, <8x1x64xindex>
    return
  }

  // Neighbouring lanes are a pair: the tiles take every second lane.
  func.func @rope_pairs(%q: index, %cos: index, %sin: index, %pos: index, %o: index) attributes {grid = [4, 2]} {
    %zero = arith.constant 0 : index
    %eight = arith.constant 8 : index
    %head, %half = ktdp.get_compute_tile_id : index, index
    %s0 = arith.muli %half, %eight : index
    %qv = ktdp.construct_memory_view %q, sizes: [16, 4, 64], strides: [256, 64, 1] {
      coordinate_set = #q_all, memory_space = #ktdp.memory_space<global> } : memref<16x4x64xf16>
    %ov = ktdp.construct_memory_view %o, sizes: [16, 4, 64], strides: [256, 64, 1] {
      coordinate_set = #q_all, memory_space = #ktdp.memory_space<global> } : memref<16x4x64xf16>
    %cv = ktdp.construct_memory_view %cos, sizes: [128, 32], strides: [32, 1] {
      coordinate_set = #table, memory_space = #ktdp.memory_space<global> } : memref<128x32xf32>
    %sv = ktdp.construct_memory_view %sin, sizes: [128, 32], strides: [32, 1] {
      coordinate_set = #table, memory_space = #ktdp.memory_space<global> } : memref<128x32xf32>
    %pv = ktdp.construct_memory_view %pos, sizes: [16], strides: [1] {
      coordinate_set = #tokens, memory_space = #ktdp.memory_space<global> } : memref<16xi32>
    %ct = ktdp.construct_indirect_access_tile intermediate_variables (%i, %d) %cv[ind(%pv[%s0 + %i]), (%d)] {
      variables_space_set = #angles, variables_space_order = #id2 } : memref<128x32xf32>, memref<16xi32> -> !ktdp.access_tile<8x32xindex>
    %st = ktdp.construct_indirect_access_tile intermediate_variables (%i, %d) %sv[ind(%pv[%s0 + %i]), (%d)] {
      variables_space_set = #angles, variables_space_order = #id2 } : memref<128x32xf32>, memref<16xi32> -> !ktdp.access_tile<8x32xindex>
    %c = ktdp.load %ct : <8x32xindex> -> tensor<8x32xf32>
    %s = ktdp.load %st : <8x32xindex> -> tensor<8x32xf32>

    %xt = ktdp.construct_access_tile %qv[%s0, %head, %zero] { access_tile_set = #even, access_tile_order = #id3 }
      : memref<16x4x64xf16> -> !ktdp.access_tile<8x1x32xindex>
    %yt = ktdp.construct_access_tile %qv[%s0, %head, %zero] { access_tile_set = #odd, access_tile_order = #id3 }
      : memref<16x4x64xf16> -> !ktdp.access_tile<8x1x32xindex>
    %ax = ktdp.construct_access_tile %ov[%s0, %head, %zero] { access_tile_set = #even, access_tile_order = #id3 }
      : memref<16x4x64xf16> -> !ktdp.access_tile<8x1x32xindex>
    // the same lanes as #odd, written as even lanes of an anchor that is one lane further
    %ay = ktdp.construct_access_tile %ov[%s0, %head, %zero + 1] {
      access_tile_set = affine_set<(s, h, d) : (s >= 0, 7 - s >= 0, h == 0, d >= 0, d <= 62, d mod 2 == 0)>,
      access_tile_order = #id3 } : memref<16x4x64xf16> -> !ktdp.access_tile<8x1x32xindex>
    %x3 = ktdp.load %xt : <8x1x32xindex> -> tensor<8x1x32xf16>
    %y3 = ktdp.load %yt : <8x1x32xindex> -> tensor<8x1x32xf16>
    %e = tensor.empty() : tensor<8x1x32xf16>
    %r:2 = linalg.generic {
        indexing_maps = [#id3, #id3, affine_map<(s, h, d) -> (s, d)>, affine_map<(s, h, d) -> (s, d)>, #id3, #id3],
        iterator_types = ["parallel", "parallel", "parallel"] }
        ins(%x3, %y3, %c, %s : tensor<8x1x32xf16>, tensor<8x1x32xf16>, tensor<8x32xf32>, tensor<8x32xf32>)
        outs(%e, %e : tensor<8x1x32xf16>, tensor<8x1x32xf16>) {
      ^bb0(%x: f16, %y: f16, %cc: f32, %ss: f32, %o0: f16, %o1: f16):
        %xf = arith.extf %x : f16 to f32
        %yf = arith.extf %y : f16 to f32
        %xc = arith.mulf %xf, %cc : f32  %ys = arith.mulf %yf, %ss : f32
        %yc = arith.mulf %yf, %cc : f32  %xs = arith.mulf %xf, %ss : f32
        %a = arith.subf %xc, %ys : f32
        %b = arith.addf %yc, %xs : f32
        %a16 = arith.truncf %a : f32 to f16
        %b16 = arith.truncf %b : f32 to f16
        linalg.yield %a16, %b16 : f16, f16
    } -> (tensor<8x1x32xf16>, tensor<8x1x32xf16>)
    ktdp.store %r#0, %ax : tensor<8x1x32xf16>, <8x1x32xindex>
    ktdp.store %r#1, %ay : tensor<8x1x32xf16>, <8x1x32xindex>
    return
  }
}
