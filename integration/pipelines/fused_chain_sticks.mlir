// The same computation as fused_chain.mlir on stick-tiled tensors: a host row of 200 elements is four sticks of
// 64, the last one padded, and a stick of every row stands before the next stick of any row. The grid is 16 x 2:
// each compute tile does 8 rows of two sticks, padding included. The two sticks of z are 128 elements in a row.
#x = affine_set<(s, r, l) : (s >= 0, 3 - s >= 0, r >= 0, 127 - r >= 0, l >= 0, 63 - l >= 0)>
#y = affine_set<(s, l) : (s >= 0, 3 - s >= 0, l >= 0, 63 - l >= 0)>
#z = affine_set<(r) : (r >= 0, 127 - r >= 0)>
#xpart = affine_set<(s, r, l) : (s >= 0, 1 - s >= 0, r >= 0, 7 - r >= 0, l >= 0, 63 - l >= 0)>
#ypart = affine_set<(s, l) : (s >= 0, 1 - s >= 0, l >= 0, 63 - l >= 0)>
#zpart = affine_set<(r) : (r >= 0, 7 - r >= 0)>
#order = affine_map<(s, r, l) -> (s, r, l)>
#plane = affine_map<(s, l) -> (s, l)>
#line = affine_map<(n) -> (n)>
module {
  func.func @fused_chain_sticks(
      %x: index {ktdp.layout = #ktdp.layout<shape = [128, 200], device_size = [4, 128, 64], stride_map = [64, 200, 1], element = f16>},
      %y: index {ktdp.layout = #ktdp.layout<shape = [200], device_size = [4, 64], stride_map = [64, 1], element = f16>},
      %z: index {ktdp.layout = #ktdp.layout<shape = [128], device_size = [2, 64], stride_map = [64, 1], element = f16>},
      %out: index {ktdp.layout = #ktdp.layout<shape = [128, 200], device_size = [4, 128, 64], stride_map = [64, 200, 1], element = f16>})
      attributes {grid = [16, 2]} {
    %c2 = arith.constant 2 : index
    %c8 = arith.constant 8 : index
    %zero = arith.constant 0.0 : f16
    %i, %j = ktdp.get_compute_tile_id : index, index
    %row = arith.muli %i, %c8 : index
    %stick = arith.muli %j, %c2 : index
    %xv = ktdp.construct_memory_view %x, sizes: [4, 128, 64], strides: [8192, 64, 1]
        {coordinate_set = #x, memory_space = #ktdp.memory_space<global>} : memref<4x128x64xf16>
    %yv = ktdp.construct_memory_view %y, sizes: [4, 64], strides: [64, 1]
        {coordinate_set = #y, memory_space = #ktdp.memory_space<global>} : memref<4x64xf16>
    %zv = ktdp.construct_memory_view %z, sizes: [128], strides: [1]
        {coordinate_set = #z, memory_space = #ktdp.memory_space<global>} : memref<128xf16>
    %ov = ktdp.construct_memory_view %out, sizes: [4, 128, 64], strides: [8192, 64, 1]
        {coordinate_set = #x, memory_space = #ktdp.memory_space<global>} : memref<4x128x64xf16>
    %xt = ktdp.construct_access_tile %xv[%stick, %row, 0] {access_tile_order = #order, access_tile_set = #xpart}
        : memref<4x128x64xf16> -> !ktdp.access_tile<2x8x64xindex>
    %yt = ktdp.construct_access_tile %yv[%stick, 0] {access_tile_order = #plane, access_tile_set = #ypart}
        : memref<4x64xf16> -> !ktdp.access_tile<2x64xindex>
    %zt = ktdp.construct_access_tile %zv[%row] {access_tile_order = #line, access_tile_set = #zpart}
        : memref<128xf16> -> !ktdp.access_tile<8xindex>
    %ot = ktdp.construct_access_tile %ov[%stick, %row, 0] {access_tile_order = #order, access_tile_set = #xpart}
        : memref<4x128x64xf16> -> !ktdp.access_tile<2x8x64xindex>
    %xd = ktdp.load %xt : <2x8x64xindex> -> tensor<2x8x64xf16>
    %yd = ktdp.load %yt : <2x64xindex> -> tensor<2x64xf16>
    %zd = ktdp.load %zt : <8xindex> -> tensor<8xf16>
    %empty = tensor.empty() : tensor<2x8x64xf16>
    %yb = linalg.broadcast ins(%yd : tensor<2x64xf16>) outs(%empty : tensor<2x8x64xf16>) dimensions = [1]
    %zb = linalg.broadcast ins(%zd : tensor<8xf16>) outs(%empty : tensor<2x8x64xf16>) dimensions = [0, 2]
    %product = arith.mulf %xd, %yb : tensor<2x8x64xf16>
    %sum = arith.addf %product, %zb : tensor<2x8x64xf16>
    %zeros = tensor.splat %zero : tensor<2x8x64xf16>
    %relu = arith.maximumf %sum, %zeros : tensor<2x8x64xf16>
    %result = math.exp %relu : tensor<2x8x64xf16>
    ktdp.store %result, %ot : tensor<2x8x64xf16>, <2x8x64xindex>
    return
  }
}
