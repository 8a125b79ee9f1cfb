// Misspelt names of operations.
func.func @f() {
  // expected-error@+2 {{custom op 'retrun' is unknown}}
  // expected-note@below {{did you mean 'return'?}}
  retrun
}

// -----

func.func @f(%t: tensor<4xf16>) {
  // expected-error@+2 {{custom op 'expand_shape' is unknown}}
  // expected-note@below {{did you mean 'tensor.expand_shape'?}}
  %0 = expand_shape %t [[0, 1]] output_shape [2, 2] : tensor<4xf16> into tensor<2x2xf16>
  return
}
