// Triangular tiles of the 6x6 blocks on the diagonal of X[24, 24] f32, one block a core.
#all   = affine_set<(r, c) : (r >= 0, -r + 23 >= 0, c >= 0, -c + 23 >= 0)>
#packs = affine_set<(b, i) : (b >= 0, -b + 3 >= 0, i >= 0, -i + 20 >= 0)>
#pack  = affine_set<(b, i) : (b == 0, i >= 0, -i + 20 >= 0)>
#lower = affine_set<(r, c) : (r >= 0, r <= 5, c >= 0, c <= r)>
#upper = affine_set<(r, c) : (r >= 0, c <= 5, c >= r + 1)>
#id    = affine_map<(r, c) -> (r, c)>
#swap  = affine_map<(r, c) -> (c, r)>

// The lower triangle of each block, row by row, in 21 places of P[4, 21].
func.func @pack_lower(%x: index, %p: index) attributes {grid = [4]} {
  %six = arith.constant 6 : index
  %core = ktdp.get_compute_tile_id : index
  %d = arith.muli %core, %six : index
  %xv = ktdp.construct_memory_view %x, sizes: [24, 24], strides: [24, 1] {coordinate_set = #all,
    memory_space = #ktdp.memory_space<global>} : memref<24x24xf32>
  %pv = ktdp.construct_memory_view %p, sizes: [4, 21], strides: [21, 1] {coordinate_set = #packs,
    memory_space = #ktdp.memory_space<global>} : memref<4x21xf32>
  %xt = ktdp.construct_access_tile %xv[%d, %d] {access_tile_set = #lower, access_tile_order = #id}
    : memref<24x24xf32> -> !ktdp.access_tile<21x1xindex>
  %t = ktdp.load %xt : !ktdp.access_tile<21x1xindex> -> tensor<21x1xf32>
  %f = tensor.collapse_shape %t [[0, 1]] : tensor<21x1xf32> into tensor<21xf32>
  %e = tensor.expand_shape %f [[0, 1]] output_shape [1, 21] : tensor<21xf32> into tensor<1x21xf32>
  %pt = ktdp.construct_access_tile %pv[%core, 0] {access_tile_set = #pack, access_tile_order = #id}
    : memref<4x21xf32> -> !ktdp.access_tile<1x21xindex>
  ktdp.store %e, %pt : tensor<1x21xf32>, !ktdp.access_tile<1x21xindex>
  return
}

// X += its strict upper triangles, transposed into the lower ones: makes each block symmetric. The upper triangle is
// read column by column (the order map), the strict lower one written row by row: both lists of 15 run alike.
func.func @symmetrise(%x: index) attributes {grid = [4]} {
  %six = arith.constant 6 : index
  %core = ktdp.get_compute_tile_id : index
  %d = arith.muli %core, %six : index
  %xv = ktdp.construct_memory_view %x, sizes: [24, 24], strides: [24, 1] {coordinate_set = #all,
    memory_space = #ktdp.memory_space<global>} : memref<24x24xf32>
  %ut = ktdp.construct_access_tile %xv[%d, %d] {access_tile_set = #upper, access_tile_order = #swap}
    : memref<24x24xf32> -> !ktdp.access_tile<3x5xindex>
  %lt = ktdp.construct_access_tile %xv[%d, %d] {
      access_tile_set = affine_set<(r, c) : (r <= 5, c >= 0, r - c >= 1)>, access_tile_order = #id}
    : memref<24x24xf32> -> !ktdp.access_tile<3x5xindex>
  %u = ktdp.load %ut : <3x5xindex> -> tensor<3x5xf32>
  ktdp.store %u, %lt : tensor<3x5xf32>, <3x5xindex>
  return
}

// Row softmax of the causal part of each block; above the diagonal the result is zero.
func.func @causal_softmax(%x: index, %y: index) attributes {grid = [4]} {
  %six = arith.constant 6 : index
  %ninf = arith.constant 0xFF800000 : f32
  %core = ktdp.get_compute_tile_id : index
  %d = arith.muli %core, %six : index
  %xv = ktdp.construct_memory_view %x, sizes: [24, 24], strides: [24, 1] {coordinate_set = #all,
    memory_space = #ktdp.memory_space<global>} : memref<24x24xf32>
  %yv = ktdp.construct_memory_view %y, sizes: [24, 24], strides: [24, 1] {coordinate_set = #all,
    memory_space = #ktdp.memory_space<global>} : memref<24x24xf32>
  %xt = ktdp.construct_access_tile %xv[%d, %d] {
      access_tile_set = affine_set<(r, c) : (r >= 0, r <= 5, c >= 0, c <= 5)>, access_tile_order = #id}
    : memref<24x24xf32> -> !ktdp.access_tile<6x6xindex>
  %yt = ktdp.construct_access_tile %yv[%d, %d] {
      access_tile_set = affine_set<(r, c) : (r >= 0, r <= 5, c >= 0, c <= 5)>, access_tile_order = #id}
    : memref<24x24xf32> -> !ktdp.access_tile<6x6xindex>
  %xd = ktdp.load %xt : <6x6xindex> -> tensor<6x6xf32>
  %mask = tensor.generate {
  ^bb0(%r: index, %c: index):
    %keep = arith.cmpi uge, %r, %c : index
    tensor.yield %keep : i1
  } : tensor<6x6xi1>
  %low = arith.constant dense<0xFF800000> : tensor<6x6xf32>
  %m = arith.select %mask, %xd, %low : tensor<6x6xi1>, tensor<6x6xf32>
  %init = tensor.splat %ninf : tensor<6xf32>
  %top = linalg.reduce { arith.maximumf } ins(%m : tensor<6x6xf32>) outs(%init : tensor<6xf32>) dimensions = [1]
  %e0 = tensor.empty() : tensor<6x6xf32>
  %topb = linalg.broadcast ins(%top : tensor<6xf32>) outs(%e0 : tensor<6x6xf32>) dimensions = [1]
  %s = linalg.sub ins(%m, %topb : tensor<6x6xf32>, tensor<6x6xf32>) outs(%e0 : tensor<6x6xf32>) -> tensor<6x6xf32>
  %e = linalg.exp ins(%s : tensor<6x6xf32>) outs(%e0 : tensor<6x6xf32>) -> tensor<6x6xf32>
  %z = arith.constant dense<0.0> : tensor<6xf32>
  %sum = linalg.reduce { arith.addf } ins(%e : tensor<6x6xf32>) outs(%z : tensor<6xf32>) dimensions = [1]
  %sumb = linalg.broadcast ins(%sum : tensor<6xf32>) outs(%e0 : tensor<6x6xf32>) dimensions = [1]
  %y6 = linalg.div ins(%e, %sumb : tensor<6x6xf32>, tensor<6x6xf32>) outs(%e0 : tensor<6x6xf32>) -> tensor<6x6xf32>
  ktdp.store %y6, %yt : tensor<6x6xf32>, <6x6xindex>
  return
}
