// One decoded token of 3 sequences and 2 heads attends to its own pages of the cache: Q[3, 2, 32] f16; K and V pools
// [24 pages, 8 tokens, 2 heads, 32] f16; page table [3, 5] i32; lengths [3] i32. Tiles make as many steps as their
// sequence has pages, so they diverge; tokens behind the end of the last page are masked.

#q    = affine_set<(b, h, d) : (b >= 0, -b + 2 >= 0, h >= 0, -h + 1 >= 0, d >= 0, -d + 31 >= 0)>
#qone = affine_set<(b, h, d) : (b == 0, h == 0, d >= 0, -d + 31 >= 0)>
#pool = affine_set<(p, t, h, d) : (p >= 0, -p + 23 >= 0, t >= 0, -t + 7 >= 0, h >= 0, -h + 1 >= 0, d >= 0, -d + 31 >= 0)>
#tbl  = affine_set<(b, k) : (b >= 0, -b + 2 >= 0, k >= 0, -k + 4 >= 0)>
#lens = affine_set<(b) : (b >= 0, -b + 2 >= 0)>
#unit = affine_set<(b) : (b == 0)>
#page = affine_set<(t, d) : (t >= 0, -t + 7 >= 0, d >= 0, -d + 31 >= 0)>
#id1 = affine_map<(b) -> (b)>
#id2 = affine_map<(t, d) -> (t, d)>
#id3 = affine_map<(b, h, d) -> (b, h, d)>

module {
  func.func @paged_attention(%q: index, %k: index, %v: index, %table: index, %lengths: index, %o: index)
      attributes {grid = [3, 2]} {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %eight = arith.constant 8 : index
    %seq, %head = ktdp.get_compute_tile_id : index, index
    %qv = ktdp.construct_memory_view %q, sizes: [3, 2, 32], strides: [64, 32, 1] {
      coordinate_set = #q, memory_space = #ktdp.memory_space<global> } : memref<3x2x32xf16>
    %ov = ktdp.construct_memory_view %o, sizes: [3, 2, 32], strides: [64, 32, 1] {
      coordinate_set = #q, memory_space = #ktdp.memory_space<global> } : memref<3x2x32xf16>
    %kv = ktdp.construct_memory_view %k, sizes: [24, 8, 2, 32], strides: [512, 64, 32, 1] {
      coordinate_set = #pool, memory_space = #ktdp.memory_space<global> } : memref<24x8x2x32xf16>
    %vv = ktdp.construct_memory_view %v, sizes: [24, 8, 2, 32], strides: [512, 64, 32, 1] {
      coordinate_set = #pool, memory_space = #ktdp.memory_space<global> } : memref<24x8x2x32xf16>
    %tv = ktdp.construct_memory_view %table, sizes: [3, 5], strides: [5, 1] {
      coordinate_set = #tbl, memory_space = #ktdp.memory_space<global> } : memref<3x5xi32>
    %lv = ktdp.construct_memory_view %lengths, sizes: [3], strides: [1] {
      coordinate_set = #lens, memory_space = #ktdp.memory_space<global> } : memref<3xi32>

    %lt = ktdp.construct_access_tile %lv[%seq] { access_tile_set = #unit, access_tile_order = #id1 }
      : memref<3xi32> -> !ktdp.access_tile<1xindex>
    %l1 = ktdp.load %lt : <1xindex> -> tensor<1xi32>
    %l32 = tensor.extract %l1[%zero] : tensor<1xi32>
    %length = arith.index_cast %l32 : i32 to index
    %pages = arith.ceildivui %length, %eight : index

    %qt = ktdp.construct_access_tile %qv[%seq, %head, %zero] { access_tile_set = #qone, access_tile_order = #id3 }
      : memref<3x2x32xf16> -> !ktdp.access_tile<1x1x32xindex>
    %q3 = ktdp.load %qt : <1x1x32xindex> -> tensor<1x1x32xf16>
    %q1 = tensor.collapse_shape %q3 [[0, 1, 2]] : tensor<1x1x32xf16> into tensor<32xf16>
    %scale = arith.constant 0.176776695 : f32
    %ninf = arith.constant 0xFF800000 : f32
    %f0 = arith.constant 0.0 : f32
    %m0 = tensor.from_elements %ninf : tensor<1xf32>
    %l0 = tensor.from_elements %f0 : tensor<1xf32>
    %a0 = arith.constant dense<0.0> : tensor<32xf32>
    %s0 = arith.constant dense<0.0> : tensor<8xf32>

    %m, %l, %a = scf.for %p = %zero to %pages step %one
        iter_args(%mi = %m0, %li = %l0, %ai = %a0) -> (tensor<1xf32>, tensor<1xf32>, tensor<32xf32>) {
      %kt = ktdp.construct_indirect_access_tile intermediate_variables(%t, %d)
        %kv[ind(%tv[%seq, %p]), (%t), (%head), (%d)] {
          variables_space_set = #page, variables_space_order = #id2
        } : memref<24x8x2x32xf16>, memref<3x5xi32> -> !ktdp.access_tile<8x32xindex>
      %vt = ktdp.construct_indirect_access_tile intermediate_variables(%t, %d)
        %vv[ind(%tv[%seq, %p]), (%t), (%head), (%d)] {
          variables_space_set = #page, variables_space_order = #id2
        } : memref<24x8x2x32xf16>, memref<3x5xi32> -> !ktdp.access_tile<8x32xindex>
      %kd = ktdp.load %kt : <8x32xindex> -> tensor<8x32xf16>
      %vd = ktdp.load %vt : <8x32xindex> -> tensor<8x32xf16>
      %dots = linalg.matvec ins(%kd, %q1 : tensor<8x32xf16>, tensor<32xf16>) outs(%s0 : tensor<8xf32>) -> tensor<8xf32>
      %base = arith.muli %p, %eight : index
      %es = tensor.empty() : tensor<8xf32>
      %s = linalg.generic { indexing_maps = [#id1, #id1], iterator_types = ["parallel"] }
          ins(%dots : tensor<8xf32>) outs(%es : tensor<8xf32>) {
        ^bb0(%x: f32, %unused: f32):
          %t = linalg.index 0 : index
          %at = arith.addi %base, %t : index
          %in = arith.cmpi ult, %at, %length : index
          %sc = arith.mulf %x, %scale : f32
          %r = arith.select %in, %sc, %ninf : f32
          linalg.yield %r : f32
      } -> tensor<8xf32>
      %smax = tensor.empty() : tensor<f32>
      %smaxi = linalg.fill ins(%ninf : f32) outs(%smax : tensor<f32>) -> tensor<f32>
      %mr = linalg.reduce { arith.maximumf } ins(%s : tensor<8xf32>) outs(%smaxi : tensor<f32>) dimensions = [0]
      %mr1 = tensor.expand_shape %mr [] output_shape [1] : tensor<f32> into tensor<1xf32>
      %mn = arith.maximumf %mi, %mr1 : tensor<1xf32>
      %dm = arith.subf %mi, %mn : tensor<1xf32>
      %corr = math.exp %dm : tensor<1xf32>
      %mns = tensor.extract %mn[%zero] : tensor<1xf32>
      %cs = tensor.extract %corr[%zero] : tensor<1xf32>
      %mnv = tensor.splat %mns : tensor<8xf32>
      %sh = arith.subf %s, %mnv : tensor<8xf32>
      %e = math.exp %sh : tensor<8xf32>
      %lz = arith.mulf %li, %corr : tensor<1xf32>
      %lzs = tensor.collapse_shape %lz [] : tensor<1xf32> into tensor<f32>
      %lsum = linalg.reduce { arith.addf } ins(%e : tensor<8xf32>) outs(%lzs : tensor<f32>) dimensions = [0]
      %ln = tensor.expand_shape %lsum [] output_shape [1] : tensor<f32> into tensor<1xf32>
      %csv = tensor.splat %cs : tensor<32xf32>
      %az = arith.mulf %ai, %csv : tensor<32xf32>
      %vf = arith.extf %vd : tensor<8x32xf16> to tensor<8x32xf32>
      %an = linalg.vecmat ins(%e, %vf : tensor<8xf32>, tensor<8x32xf32>) outs(%az : tensor<32xf32>) -> tensor<32xf32>
      scf.yield %mn, %ln, %an : tensor<1xf32>, tensor<1xf32>, tensor<32xf32>
    }
    %some = arith.cmpi ne, %pages, %zero : index
    %o32 = scf.if %some -> (tensor<32xf32>) {
      %ls = tensor.extract %l[%zero] : tensor<1xf32>
      %lv32 = tensor.splat %ls : tensor<32xf32>
      %y = arith.divf %a, %lv32 : tensor<32xf32>
      scf.yield %y : tensor<32xf32>
    } else {
      scf.yield %a0 : tensor<32xf32>
    }
    %o16 = arith.truncf %o32 : tensor<32xf32> to tensor<32xf16>
    %o3 = tensor.expand_shape %o16 [[0, 1, 2]] output_shape [1, 1, 32] : tensor<32xf16> into tensor<1x1x32xf16>
    %ot = ktdp.construct_access_tile %ov[%seq, %head, %zero] { access_tile_set = #qone, access_tile_order = #id3 }
      : memref<3x2x32xf16> -> !ktdp.access_tile<1x1x32xindex>
    ktdp.store %o3, %ot : tensor<1x1x32xf16>, <1x1x32xindex>
    return
  }
}
