// linalg.generic, reduce, map, broadcast and transpose in the forms that occur.
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#none = affine_map<(i, j) -> ()>
func.func @forms(%x: tensor<8x16xf16>, %y: tensor<8x16xi32>, %v: tensor<8xf16>, %vi: tensor<8xi32>, %m: memref<8x16xf16>, %k: f16) {
  %e = tensor.empty() : tensor<8x16xf16>
  %0 = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"], doc = "scaled", library_call = "scale"}
      ins(%x, %v : tensor<8x16xf16>, tensor<8xf16>) outs(%e : tensor<8x16xf16>) attrs = {tag = 4 : i32} {
  ^bb0(%in: f16, %s: f16, %out: f16):
    %i = linalg.index 0 : index
    %p = arith.mulf %in, %s : f16
    %q = arith.mulf %p, %k : f16
    linalg.yield %q : f16
  } -> tensor<8x16xf16>
  %1 = linalg.generic {indexing_maps = [#id, #row], iterator_types = [#linalg.iterator_type<parallel>, #linalg.iterator_type<reduction>]} ins(%x : tensor<8x16xf16>) outs(%v : tensor<8xf16>) {
  ^bb0(%in: f16, %acc: f16):
    %s = arith.addf %acc, %in : f16
    linalg.yield %s : f16
  } -> tensor<8xf16>
  %2 = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<8x16xf16>) {
  ^bb0(%out: f16):
    linalg.yield %k : f16
  } -> tensor<8x16xf16>
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x16xf16>) outs(%m : memref<8x16xf16>) {
  ^bb0(%in: f16, %out: f16):
    linalg.yield %in : f16
  }
  %3:2 = linalg.generic {indexing_maps = [#id, #id, #row, #row], iterator_types = ["parallel", "reduction"]} ins(%x, %y : tensor<8x16xf16>, tensor<8x16xi32>) outs(%v, %vi : tensor<8xf16>, tensor<8xi32>) {
  ^bb0(%a: f16, %i: i32, %b: f16, %j: i32):
    %c = arith.cmpf ogt, %a, %b : f16
    %r = arith.select %c, %a, %b : f16
    %w = arith.select %c, %i, %j : i32
    linalg.yield %r, %w : f16, i32
  } -> (tensor<8xf16>, tensor<8xi32>)
  %4 = linalg.reduce { arith.addf } ins(%x : tensor<8x16xf16>) outs(%v : tensor<8xf16>) dimensions = [1]
  %5 = linalg.reduce { arith.addf {fastmath = #arith.fastmath<fast>} } ins(%x:tensor<8x16xf16>) outs(%v:tensor<8xf16>) dimensions = [1] {tag}
  %6 = linalg.reduce ins(%x : tensor<8x16xf16>) outs(%v : tensor<8xf16>) dimensions = [1] (%in: f16, %init: f16) {
    %s = arith.maxnumf %in, %init : f16
    linalg.yield %s : f16
  }
  %7:2 = linalg.reduce ins(%x, %y : tensor<8x16xf16>, tensor<8x16xi32>) outs(%v, %vi : tensor<8xf16>, tensor<8xi32>) dimensions = [1]
    (%a: f16, %i: i32, %b: f16, %j: i32) {
      %c = arith.cmpf ogt, %a, %b : f16
      %r = arith.select %c, %a, %b : f16
      %w = arith.select %c, %i, %j : i32
      linalg.yield %r, %w : f16, i32
    }
  %8 = linalg.map { arith.addf } ins(%x, %x : tensor<8x16xf16>, tensor<8x16xf16>) outs(%e : tensor<8x16xf16>)
  %9 = linalg.map ins(%x : tensor<8x16xf16>) outs(%e : tensor<8x16xf16>) (%in: f16) {
    %r = math.exp %in : f16
    linalg.yield %r : f16
  }
  %10 = linalg.broadcast ins(%v : tensor<8xf16>) outs(%e : tensor<8x16xf16>) dimensions = [1]
  %t = tensor.empty() : tensor<16x8xf16>
  %11 = linalg.transpose ins(%x:tensor<8x16xf16>) outs(%t:tensor<16x8xf16>) permutation = [1, 0] {tag}
  return
}
