// Generics.
func.func @f(%x: tensor<4xf16>, %y: tensor<5xf16>) {
  // expected-error@below {{'linalg.generic' op expected the number of indexing_map (1) to be equal to the number of input/output operands (2)}}
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<4xf16>) outs(%x : tensor<4xf16>) {
  ^bb0(%a: f16, %b: f16):
    linalg.yield %a : f16
  } -> tensor<4xf16>
  return
}

// -----

func.func @f(%x: tensor<4xf16>, %y: tensor<5xf16>) {
  // expected-error@below {{'linalg.generic' op expected indexing_map #0 to have 2 dim(s) to match the number of loops}}
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4xf16>) outs(%x : tensor<4xf16>) {
  ^bb0(%a: f16, %b: f16):
    linalg.yield %a : f16
  } -> tensor<4xf16>
  return
}

// -----

func.func @f(%x: tensor<4xf16>, %y: tensor<5xf16>) {
  // expected-error@below {{'linalg.generic' op inferred input/output operand #1 has shape's dimension #0 to be 5, but found 4}}
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%y : tensor<5xf16>) outs(%x : tensor<4xf16>) {
  ^bb0(%a: f16, %b: f16):
    linalg.yield %a : f16
  } -> tensor<4xf16>
  return
}

// -----

func.func @f(%x: tensor<4xf16>, %y: tensor<5xf16>) {
  // expected-error@below {{'linalg.generic' op expected as many non-induction variable region arguments as the number of input/output operands: 2 vs 1}}
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<4xf16>) outs(%x : tensor<4xf16>) {
  ^bb0(%a: f16):
    linalg.yield %a : f16
  } -> tensor<4xf16>
  return
}

// -----

func.func @f(%x: tensor<4xf16>, %y: tensor<5xf16>) {
  // expected-error@below {{'linalg.generic' op expected type of bb argument #1 ('f32') to match element or self type of the corresponding operand ('f16')}}
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<4xf16>) outs(%x : tensor<4xf16>) {
  ^bb0(%a: f16, %b: f32):
    linalg.yield %a : f16
  } -> tensor<4xf16>
  return
}

// -----

func.func @f(%x: tensor<4xf16>, %y: tensor<5xf16>) {
  // expected-error@below {{'linalg.generic' op expected number of yield values (2) to match the number of inits / outs operands of the enclosing LinalgOp (1)}}
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<4xf16>) outs(%x : tensor<4xf16>) {
  ^bb0(%a: f16, %b: f16):
    linalg.yield %a, %a : f16, f16
  } -> tensor<4xf16>
  return
}

// -----

func.func @f(%x: tensor<4xf16>, %y: tensor<5xf16>) {
  // expected-error@below {{unknown iterator type 'loop'}}
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["loop"]} ins(%x : tensor<4xf16>) outs(%x : tensor<4xf16>) {
  ^bb0(%a: f16, %b: f16):
    linalg.yield %a : f16
  } -> tensor<4xf16>
  return
}

// -----

func.func @f(%x: tensor<4xf16>, %y: tensor<5xf16>) {
  // expected-error@below {{'linalg.generic' op expected operand rank (1) to match the result rank of indexing_map #1 (2)}}
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i, i)>], iterator_types = ["parallel"]} ins(%x : tensor<4xf16>) outs(%x : tensor<4xf16>) {
  ^bb0(%a: f16, %b: f16):
    linalg.yield %a : f16
  } -> tensor<4xf16>
  return
}

// -----

func.func @f(%x: tensor<4xf16>, %y: tensor<5xf16>) {
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<4xf16>) outs(%x : tensor<4xf16>) {
  ^bb0(%a: f16, %b: f16):
    // expected-error@below {{'linalg.index' op expected dim (1) to be lower than the number of loops (1) of the enclosing LinalgOp}}
    %i = linalg.index 1 : index linalg.yield %a : f16
  } -> tensor<4xf16>
  return
}
