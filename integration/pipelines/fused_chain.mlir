// out = exp(max(x * y + z, 0)) with x of 128 x 200, y of 200 (one row for all), z of 128 (one column for all), f16, row-major. The grid is 16 x 2: each compute tile does 8 rows of 100 columns.
#x = affine_set<(r, c) : (r >= 0, 127 - r >= 0, c >= 0, 199 - c >= 0)>
#y = affine_set<(c) : (c >= 0, 199 - c >= 0)>
#z = affine_set<(r) : (r >= 0, 127 - r >= 0)>
#xpart = affine_set<(r, c) : (r >= 0, 7 - r >= 0, c >= 0, 99 - c >= 0)>
#ypart = affine_set<(c) : (c >= 0, 99 - c >= 0)>
#zpart = affine_set<(r) : (r >= 0, 7 - r >= 0)>
#order = affine_map<(r, c) -> (r, c)>
#line = affine_map<(n) -> (n)>
module {
  func.func @fused_chain(%x: index, %y: index, %z: index, %out: index) attributes {grid = [16, 2]} {
    %c8 = arith.constant 8 : index
    %c100 = arith.constant 100 : index
    %zero = arith.constant 0.0 : f16
    %i, %j = ktdp.get_compute_tile_id : index, index
    %row = arith.muli %i, %c8 : index
    %col = arith.muli %j, %c100 : index
    %xv = ktdp.construct_memory_view %x, sizes: [128, 200], strides: [200, 1]
        {coordinate_set = #x, memory_space = #ktdp.memory_space<global>} : memref<128x200xf16>
    %yv = ktdp.construct_memory_view %y, sizes: [200], strides: [1]
        {coordinate_set = #y, memory_space = #ktdp.memory_space<global>} : memref<200xf16>
    %zv = ktdp.construct_memory_view %z, sizes: [128], strides: [1]
        {coordinate_set = #z, memory_space = #ktdp.memory_space<global>} : memref<128xf16>
    %ov = ktdp.construct_memory_view %out, sizes: [128, 200], strides: [200, 1]
        {coordinate_set = #x, memory_space = #ktdp.memory_space<global>} : memref<128x200xf16>
    %xt = ktdp.construct_access_tile %xv[%row, %col] {access_tile_order = #order, access_tile_set = #xpart}
        : memref<128x200xf16> -> !ktdp.access_tile<8x100xindex>
    %yt = ktdp.construct_access_tile %yv[%col] {access_tile_order = #line, access_tile_set = #ypart}
        : memref<200xf16> -> !ktdp.access_tile<100xindex>
    %zt = ktdp.construct_access_tile %zv[%row] {access_tile_order = #line, access_tile_set = #zpart}
        : memref<128xf16> -> !ktdp.access_tile<8xindex>
    %ot = ktdp.construct_access_tile %ov[%row, %col] {access_tile_order = #order, access_tile_set = #xpart}
        : memref<128x200xf16> -> !ktdp.access_tile<8x100xindex>
    %xd = ktdp.load %xt : <8x100xindex> -> tensor<8x100xf16>
    %yd = ktdp.load %yt : <100xindex> -> tensor<100xf16>
    %zd = ktdp.load %zt : <8xindex> -> tensor<8xf16>
    %empty = tensor.empty() : tensor<8x100xf16>
    %yb = linalg.broadcast ins(%yd : tensor<100xf16>) outs(%empty : tensor<8x100xf16>) dimensions = [0]
    %zb = linalg.broadcast ins(%zd : tensor<8xf16>) outs(%empty : tensor<8x100xf16>) dimensions = [1]
    %product = arith.mulf %xd, %yb : tensor<8x100xf16>
    %sum = arith.addf %product, %zb : tensor<8x100xf16>
    %zeros = tensor.splat %zero : tensor<8x100xf16>
    %relu = arith.maximumf %sum, %zeros : tensor<8x100xf16>
    %result = math.exp %relu : tensor<8x100xf16>
    ktdp.store %result, %ot : tensor<8x100xf16>, <8x100xindex>
    return
  }
}
