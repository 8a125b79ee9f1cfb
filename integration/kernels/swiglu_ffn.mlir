// Y = (silu(X Wg) * (X Wu)) Wd over 4 cores: each owns 64 of the 256 hidden columns, adds its partial product to
// those of the others (f32), and stores two of the eight rows of Y. X[8, 64], Wg, Wu[64, 256], Wd[256, 64] f16.
#x  = affine_set<(r, k) : (r >= 0, -r + 7 >= 0, k >= 0, -k + 63 >= 0)>
#up = affine_set<(k, n) : (k >= 0, -k + 63 >= 0, n >= 0, -n + 255 >= 0)>
#dn = affine_set<(n, k) : (n >= 0, -n + 255 >= 0, k >= 0, -k + 63 >= 0)>
#sq = affine_set<(a, b) : (a >= 0, -a + 63 >= 0, b >= 0, -b + 63 >= 0)>
#r2 = affine_set<(r, k) : (r >= 0, -r + 1 >= 0, k >= 0, -k + 63 >= 0)>
#id = affine_map<(a, b) -> (a, b)>
#team = affine_set<(i)[g] : (i >= 0, -i + 3 >= 0, g == 0)>
#one  = affine_set<(g) : (g == 0)>
func.func @swiglu_ffn(%x: index, %wg: index, %wu: index, %wd: index, %y: index) attributes {grid = [4]} {
  %first = arith.constant 0 : index
  %core = ktdp.get_compute_tile_id : index
  %n0 = affine.apply affine_map<(d0) -> (d0 * 64)>(%core)
  %r0 = affine.apply affine_map<(d0)[s0] -> (d0 * 2 + s0)>(%core)[%first]
  %xv = ktdp.construct_memory_view %x, sizes: [8, 64], strides: [64, 1] {
    coordinate_set = #x, memory_space = #ktdp.memory_space<global> } : memref<8x64xf16>
  %gv = ktdp.construct_memory_view %wg, sizes: [64, 256], strides: [256, 1] {
    coordinate_set = #up, memory_space = #ktdp.memory_space<global> } : memref<64x256xf16>
  %uv = ktdp.construct_memory_view %wu, sizes: [64, 256], strides: [256, 1] {
    coordinate_set = #up, memory_space = #ktdp.memory_space<global> } : memref<64x256xf16>
  %dv = ktdp.construct_memory_view %wd, sizes: [256, 64], strides: [64, 1] {
    coordinate_set = #dn, memory_space = #ktdp.memory_space<global> } : memref<256x64xf16>
  %yv = ktdp.construct_memory_view %y, sizes: [8, 64], strides: [64, 1] {
    coordinate_set = #x, memory_space = #ktdp.memory_space<global> } : memref<8x64xf16>
  %xt = ktdp.construct_access_tile %xv[0, 0] {access_tile_set = #x, access_tile_order = #id}
      : memref<8x64xf16> -> !ktdp.access_tile<8x64xindex>
  %gt = ktdp.construct_access_tile %gv[0, %n0] {access_tile_set = #sq, access_tile_order = #id}
      : memref<64x256xf16> -> !ktdp.access_tile<64x64xindex>
  %ut = ktdp.construct_access_tile %uv[0, %n0] {access_tile_set = #sq, access_tile_order = #id}
      : memref<64x256xf16> -> !ktdp.access_tile<64x64xindex>
  %dt = ktdp.construct_access_tile %dv[%n0, 0] {access_tile_set = #sq, access_tile_order = #id}
      : memref<256x64xf16> -> !ktdp.access_tile<64x64xindex>
  %xd = ktdp.load %xt : !ktdp.access_tile<8x64xindex> -> tensor<8x64xf16>
  %gd = ktdp.load %gt : !ktdp.access_tile<64x64xindex> -> tensor<64x64xf16>
  %ud = ktdp.load %ut : !ktdp.access_tile<64x64xindex> -> tensor<64x64xf16>
  %dd = ktdp.load %dt : !ktdp.access_tile<64x64xindex> -> tensor<64x64xf16>

  %z32 = arith.constant dense<0.0> : tensor<8x64xf32>
  %g32 = linalg.matmul ins(%xd, %gd : tensor<8x64xf16>, tensor<64x64xf16>)
                       outs(%z32 : tensor<8x64xf32>) -> tensor<8x64xf32>
  %u32 = linalg.matmul ins(%xd, %ud : tensor<8x64xf16>, tensor<64x64xf16>)
                       outs(%z32: tensor<8x64xf32>) -> tensor<8x64xf32>
  %buf = tensor.empty() : tensor<8x64xf16>
  %h = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%g32, %u32 : tensor<8x64xf32>, tensor<8x64xf32>) outs(%buf : tensor<8x64xf16>) {
  ^bb0(%g: f32, %u: f32, %o: f16):
    %s = spyreop.silu %g : f32
    %p = arith.mulf %s, %u : f32
    %t = arith.truncf %p : f32 to f16
    linalg.yield %t : f16
  } -> tensor<8x64xf16>
  %part = linalg.matmul ins(%h, %dd : tensor<8x64xf16>, tensor<64x64xf16>)
                        outs(%z32 : tensor<8x64xf32>) -> tensor<8x64xf32>

  %f = ktdp.inter_tile_produce producer_tiles_per_group = #team -> <(tensor<8x64xf32>), groups = #one> {
  ^bb0(%g: index):
    ktdp.yield_partial %part : tensor<8x64xf32>
  }
  %sum = ktdp.inter_tile_reduce(%f) consumer_tiles_per_group = #team, identity(%z32 : tensor<8x64xf32>)
      : <(tensor<8x64xf32>), groups = #one> -> tensor<8x64xf32> {
  ^bb0(%a: tensor<8x64xf32>, %b: tensor<8x64xf32>):
    %e = tensor.empty() : tensor<8x64xf32>
    %s = linalg.add ins(%a, %b : tensor<8x64xf32>, tensor<8x64xf32>) outs(%e : tensor<8x64xf32>) -> tensor<8x64xf32>
    ktdp.yield_reduced %s : tensor<8x64xf32>
  }
  %mine = tensor.extract_slice %sum[%r0, 0] [2, 64] [1, 1] : tensor<8x64xf32> to tensor<2x64xf32>
  %out = arith.truncf %mine : tensor<2x64xf32> to tensor<2x64xf16>
  %yt = ktdp.construct_access_tile %yv[%r0, 0] {access_tile_set = #r2, access_tile_order = #id}
      : memref<8x64xf16> -> !ktdp.access_tile<2x64xindex>
  ktdp.store %out, %yt : tensor<2x64xf16>, !ktdp.access_tile<2x64xindex>
  return
}
