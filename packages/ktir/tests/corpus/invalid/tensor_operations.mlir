// Tensor operations.
func.func @f(%x: tensor<8x16xf16>, %y: tensor<4x16xf16>, %s: f16, %i: index) {
  // expected-error@below {{'tensor.empty' op incorrect number of dynamic sizes, has 0, expected 1}}
  %0 = tensor.empty() : tensor<?xf16>
  // expected-error@below {{'tensor.extract' op incorrect number of indices for extract_element: expected 2, got 1}}
  %1 = tensor.extract %x[%i] : tensor<8x16xf16>
  // expected-error@below {{'tensor.collapse_shape' op expected 1 reassociation groups, got 2}}
  %2 = tensor.collapse_shape %x [[0], [1]] : tensor<8x16xf16> into tensor<128xf16>
  // expected-error@below {{'tensor.collapse_shape' op expected dimension 0 of collapsed type to be static value of 128, but got 64}}
  %3 = tensor.collapse_shape %x [[0, 1]] : tensor<8x16xf16> into tensor<64xf16>
  // expected-error@below {{'tensor.expand_shape' op expected dimension 0 of collapsed type to be static value of 12, but got 8}}
  %4 = tensor.expand_shape %x [[0, 1], [2]] output_shape [3, 4, 16] : tensor<8x16xf16> into tensor<3x4x16xf16>
  // expected-error@below {{'tensor.extract_slice' op expected type to be 'tensor<4x4xf16>' or a rank-reduced version. (size mismatch)}}
  %5 = tensor.extract_slice %x[0, 0] [4, 4] [1, 1] : tensor<8x16xf16> to tensor<4x5xf16>
  // expected-error@+2 {{'tensor.concat' op static concatenation size mismatch}}
  // expected-error@below {{'tensor.concat' op static concatenation size mismatch}}
  %6 = tensor.concat dim(1) %x, %y : (tensor<8x16xf16>, tensor<4x16xf16>) -> tensor<12x16xf16>
  // expected-error@below {{'tensor.from_elements' op 2 elements do not fill a result of type 'tensor<3xf16>'}}
  %7 = tensor.from_elements %s, %s : tensor<3xf16>
  // expected-error@below {{'tensor.cast' op operand type 'tensor<8x16xf16>' and result type 'tensor<8x8xf16>' are cast incompatible}}
  %8 = tensor.cast %x : tensor<8x16xf16> to tensor<8x8xf16>
  // expected-error@below {{'tensor.insert_slice' op expected type to be 'tensor<4x4xf16>' or a rank-reduced version. (size mismatch)}}
  %9 = tensor.insert_slice %y into %x[0, 0] [4, 4] [1, 1] : tensor<4x16xf16> into tensor<8x16xf16>
  // expected-error@below {{'tensor.extract_slice' op slice along dimension 0 runs out-of-bounds: 15 >= 8}}
  %10 = tensor.extract_slice %x[0, 0] [16, 4] [1, 1] : tensor<8x16xf16> to tensor<16x4xf16>
  return
}

// -----

func.func @f() {
  // expected-error@+2 {{'tensor.generate' op expected one body argument per result dimension: 2}}
  // expected-error@below {{'tensor.generate' op body must yield a value of the result's element type}}
  %0 = tensor.generate {
  ^bb0(%i: index):
    tensor.yield %i : index
  } : tensor<4x4xf16>
  return
}

// -----

func.func @f(%x: tensor<8xf16>) {
  // expected-error@below {{expected '[', got '0'}}
  %0 = tensor.expand_shape %x [0, 1] output_shape [2, 4] : tensor<8xf16> into tensor<2x4xf16>
  return
}
