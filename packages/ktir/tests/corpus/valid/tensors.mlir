// Tensor operations, with dynamic extents where they may be.
func.func @tensors(%x: tensor<8x16xf16>, %d: tensor<?x16xf16>, %n: index, %s: f16, %shape: tensor<2xindex>) {
  %c0 = arith.constant 0 : index
  %0 = tensor.empty() : tensor<f16>
  %1 = tensor.empty(%n, %n) : tensor<?x4x?xf32>
  %2 = tensor.splat %s : tensor<4xf16>
  %3 = tensor.splat %s[%n] : tensor<?x4xf16>
  %4 = tensor.extract %x[%n, %c0] : tensor<8x16xf16>
  %5 = tensor.extract %0[] : tensor<f16>
  %6 = tensor.insert %s into %x[%n, %n] : tensor<8x16xf16>
  %7 = tensor.extract_slice %x[0, %n] [8, 4] [1, 2] : tensor<8x16xf16> to tensor<8x4xf16>
  %8 = tensor.extract_slice %x[%n, 0] [1, 16] [1, 1] : tensor<8x16xf16> to tensor<16xf16>
  %9 = tensor.extract_slice %d[0, 0] [%n, 16] [1, 1] : tensor<?x16xf16> to tensor<?x16xf16>
  %10 = tensor.insert_slice %7 into %x[0, %n] [8, 4] [1, 2] : tensor<8x4xf16> into tensor<8x16xf16>
  %11 = tensor.insert_slice %8 into %x[%n, 0] [1, 16] [1, 1] : tensor<16xf16> into tensor<8x16xf16>
  %12 = tensor.expand_shape %x [[0, 1], [2]] output_shape [2, 4, 16] : tensor<8x16xf16> into tensor<2x4x16xf16>
  %13 = tensor.expand_shape %x [[0], [1, 2]] : tensor<8x16xf16> into tensor<8x4x4xf16>
  %14 = tensor.expand_shape %d [[0, 1], [2]] output_shape [%n, 2, 16] : tensor<?x16xf16> into tensor<?x2x16xf16>
  %15 = tensor.collapse_shape %12 [[0, 1], [2]] : tensor<2x4x16xf16> into tensor<8x16xf16>
  %16 = tensor.collapse_shape %d [[0, 1]] : tensor<?x16xf16> into tensor<?xf16>
  %17 = tensor.expand_shape %0 [] output_shape [1, 1] : tensor<f16> into tensor<1x1xf16>
  %18 = tensor.collapse_shape %17 [] : tensor<1x1xf16> into tensor<f16>
  %19 = tensor.reshape %x(%shape) : (tensor<8x16xf16>, tensor<2xindex>) -> tensor<16x8xf16>
  %20 = tensor.from_elements %s, %4, %s, %s : tensor<2x2xf16>
  %21 = tensor.dim %d, %c0 : tensor<?x16xf16>
  %22 = tensor.cast %x : tensor<8x16xf16> to tensor<?x?xf16>
  %23 = tensor.concat dim(0) %x, %x : (tensor<8x16xf16>, tensor<8x16xf16>) -> tensor<16x16xf16>
  %24 = tensor.generate %n {
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %x[%j, %j] : tensor<8x16xf16>
    tensor.yield %e : f16
  } : tensor<?x4xf16>
  %25 = tensor.empty() {tag} : tensor<0x4xsi32>
  return
}
