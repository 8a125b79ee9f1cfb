// Structured operations.
func.func @f(%x: tensor<8x16xf16>, %v: tensor<16xf16>) {
  // expected-error@below {{'linalg.reduce' op inferred input/output operand #1 has shape's dimension #0 to be 8, but found 16}}
  %0 = linalg.reduce { arith.addf } ins(%x : tensor<8x16xf16>) outs(%v : tensor<16xf16>) dimensions = [1]
  // expected-error@below {{'linalg.reduce' op dimensions for reduction should be in the range [0, 1].}}
  %1 = linalg.reduce { arith.addf } ins(%x : tensor<8x16xf16>) outs(%v : tensor<16xf16>) dimensions = [2]
  // expected-error@below {{'linalg.reduce' op dimensions must be sorted and unique, got [0, 0]}}
  %2 = linalg.reduce { arith.addf } ins(%x : tensor<8x16xf16>) outs(%v : tensor<16xf16>) dimensions = [0, 0]
  // expected-error@below {{'linalg.broadcast' op inferred input/output operand #1 has shape's dimension #0 to be 16, but found 8}}
  %3 = linalg.broadcast ins(%v : tensor<16xf16>) outs(%x : tensor<8x16xf16>) dimensions = [1]
  // expected-error@below {{'linalg.transpose' op inferred input/output operand #1 has shape's dimension #0 to be 16, but found 8}}
  %4 = linalg.transpose ins(%x : tensor<8x16xf16>) outs(%x : tensor<8x16xf16>) permutation = [1, 0]
  // expected-error@below {{'linalg.transpose' op permutation is not valid}}
  %5 = linalg.transpose ins(%x : tensor<8x16xf16>) outs(%x : tensor<8x16xf16>) permutation = [0, 0]
  // expected-error@below {{'linalg.matmul' op inferred input/output operand #1 has shape's dimension #0 to be 16, but found 8}}
  %6 = linalg.matmul ins(%x, %x : tensor<8x16xf16>, tensor<8x16xf16>) outs(%x : tensor<8x16xf16>) -> tensor<8x16xf16>
  // expected-error@below {{'linalg.add' op expected operand rank (1) to match the result rank of indexing_map #1 (2)}}
  %7 = linalg.add ins(%x, %v : tensor<8x16xf16>, tensor<16xf16>) outs(%x : tensor<8x16xf16>) -> tensor<8x16xf16>
  // expected-error@below {{'linalg.fill' op expected operand rank (2) to match the result rank of indexing_map #0 (0)}}
  %8 = linalg.fill ins(%x : tensor<8x16xf16>) outs(%x : tensor<8x16xf16>) -> tensor<8x16xf16>
  return
}

// -----

func.func @f(%x: tensor<8xf16>) {
  // expected-error@below {{custom op 'linalg.addd' is unknown}}
  %0 = linalg.addd ins(%x : tensor<8xf16>) outs(%x : tensor<8xf16>) -> tensor<8xf16>
  return
}

// -----

func.func @f(%x: tensor<8xf16>, %v: tensor<f16>) {
  // expected-error@below {{custom op 'addf' is unknown}}
  %0 = linalg.reduce { addf } ins(%x : tensor<8xf16>) outs(%v : tensor<f16>) dimensions = [0]
  return
}

// -----

func.func @f(%x: tensor<8xf16>) {
  // expected-error@below {{2 operands present, but expected 1}}
  %0 = linalg.add ins(%x, %x : tensor<8xf16>) outs(%x : tensor<8xf16>) -> tensor<8xf16>
  return
}

// -----

func.func @f(%x: tensor<8xf16>) {
  // expected-error@below {{'linalg.add' expects 2 inputs and 1 output, but has 2 and 0}}
  %0 = linalg.add ins(%x, %x : tensor<8xf16>, tensor<8xf16>) -> tensor<8xf16>
  return
}

// -----

func.func @f(%x: tensor<8xf16>) {
  %0 = linalg.add ins(%x, %x : tensor<8xf16>, tensor<8xf16>) outs(%x : tensor<8xf16>)
  // expected-error@below {{expected '->' and the result type of a linalg operation on tensors}}
  return
}

// -----

func.func @f() {
  // expected-error@below {{'linalg.index' op expected parent op with LinalgOp interface}}
  %0 = linalg.index 0 : index
  return
}
