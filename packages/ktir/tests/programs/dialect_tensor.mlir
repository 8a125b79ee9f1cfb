// RUN levels: V
func.func @f(%a: tensor<4x8xf16>, %n: index, %x: f16, %d: tensor<?x8xf16>) {
  %e = tensor.empty(%n) : tensor<?x8xf16>
  %p = tensor.extract %a[%n, %n] : tensor<4x8xf16>
  %i = tensor.insert %x into %a[%n, %n] : tensor<4x8xf16>
  %s = tensor.extract_slice %a[%n, 0] [1, 4] [1, 2] : tensor<4x8xf16> to tensor<4xf16>
  %t = tensor.insert_slice %s into %a[%n, 0] [1, 4] [1, 2] : tensor<4xf16> into tensor<4x8xf16>
  %c = tensor.collapse_shape %a [[0, 1]] : tensor<4x8xf16> into tensor<32xf16>
  %u = tensor.expand_shape %c [[0, 1]] : tensor<32xf16> into tensor<4x8xf16>
  %f = tensor.from_elements %x, %x : tensor<2xf16>
  %g = tensor.dim %d, %n : tensor<?x8xf16>
  %h = tensor.cast %d : tensor<?x8xf16> to tensor<4x8xf16>
  %k = tensor.concat dim(1) %a, %a : (tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4x16xf16>
  %l = tensor.generate { ^bb0(%q: index): tensor.yield %x : f16 } : tensor<4xf16>
  %m = tensor.splat %x : tensor<4xf16>
  return
}
