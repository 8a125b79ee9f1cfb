// RUN levels: V
func.func @f(%a: tensor<4x8xf16>, %b: tensor<8x4xf16>, %v: tensor<4xf16>, %x: f16) {
  %e = tensor.empty() : tensor<4x8xf16>
  %z = linalg.fill ins(%x : f16) outs(%e : tensor<4x8xf16>) -> tensor<4x8xf16>
  %s = linalg.sub {foo} ins(%a, %z : tensor<4x8xf16>, tensor<4x8xf16>) outs(%e: tensor<4x8xf16>) -> tensor<4x8xf16>
  %y = linalg.exp ins(%s : tensor<4x8xf16>) outs(%e : tensor<4x8xf16>) -> tensor<4x8xf16>
  %m0 = tensor.empty() : tensor<4x4xf32>
  %m = linalg.matmul ins(%a, %b : tensor<4x8xf16>, tensor<8x4xf16>) outs(%m0 : tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = linalg.reduce { arith.addf } ins(%a : tensor<4x8xf16>) outs(%v : tensor<4xf16>) dimensions = [1]
  %r2 = linalg.reduce ins(%a : tensor<4x8xf16>) outs(%v : tensor<4xf16>) dimensions = [1]
    (%in: f16, %init: f16) {
      %p = arith.mulf %in, %in : f16
      %q = arith.addf %p, %init : f16
      linalg.yield %q : f16
    }
  %bc = linalg.broadcast ins(%r : tensor<4xf16>) outs(%e : tensor<4x8xf16>) dimensions = [1]
  %t = linalg.transpose ins(%a : tensor<4x8xf16>) outs(%b : tensor<8x4xf16>) permutation = [1, 0]
  %mp = linalg.map { math.exp } ins(%a : tensor<4x8xf16>) outs(%e : tensor<4x8xf16>)
  %g = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"], doc = "d"}
    ins(%a : tensor<4x8xf16>) outs(%v : tensor<4xf16>) attrs = {k = 1 : i64} {
    ^bb0(%in: f16, %out: f16):
      %i = linalg.index 0 : index
      %o = arith.addf %in, %out : f16
      linalg.yield %o : f16
  } -> tensor<4xf16>
  return
}
