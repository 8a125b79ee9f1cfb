// Loads and stores.
func.func @f(%t: !ktdp.access_tile<16x32xindex>, %d: tensor<4xf16>, %u: tensor<*xf16>) {
  // expected-error@below {{'ktdp.load' op access tile shape must match result tensor shape}}
  %0 = ktdp.load %t : <16x32xindex> -> tensor<32x16xf16>
  // expected-error@below {{'ktdp.load' op access tile shape must match result tensor shape}}
  %1 = ktdp.load %t : <16x32xindex> -> tensor<?x32xf16>
  // expected-error@below {{'ktdp.load' op result must be a ranked tensor}}
  %2 = ktdp.load %t : <16x32xindex> -> tensor<*xf16>
  // expected-error@below {{'ktdp.store' op data tile shape must match access tile shape}}
  ktdp.store %d, %t : tensor<4xf16>, <16x32xindex>
  // expected-error@below {{'ktdp.store' op data_tile must be a ranked tensor}}
  ktdp.store %u, %t : tensor<*xf16>, <16x32xindex>
  return
}

// -----

func.func @f(%m: memref<4xf16>) {
  // expected-error@below {{'ktdp.load' op operand #0 must be Multi-dimensional tile with a fixed number of dimensions and index element type, but got 'memref<4xf16>'}}
  %0 = ktdp.load %m : memref<4xf16> -> tensor<4xf16>
  return
}

// -----

func.func @f(%t: !ktdp.access_tile<16x32xindex>) {
  // expected-error@below {{'ktdp.load' op result must be a ranked tensor}}
  %0 = ktdp.load %t : <16x32xindex> -> memref<16x32xf16>
  return
}

// -----

func.func @f(%t: !ktdp.access_tile<16x32xindex>, %d: tensor<16x32xf16>) {
  // expected-error@below {{expected a type, got '<'}}
  ktdp.store %t, %d : <16x32xindex>, tensor<16x32xf16>
  return
}

// -----

func.func @f(%t: !ktdp.access_tile<16x32xindex>, %d: tensor<16x32xf16>) {
  ktdp.store %d, %t : tensor<16x32xf16>
  // expected-error@below {{expected ',', got 'return'}}
  return
}

// -----

func.func @f(%t: !ktdp.access_tile<16x32xindex>) {
  // expected-error@below {{tile element type must be 'index', but got: f16}}
  %0 = ktdp.load %t : <16x32xf16> -> tensor<16x32xf16>
  return
}

// -----

func.func @f(%i: index) {
  // expected-error@below {{'ktdp.load' op operand #0 must be Multi-dimensional tile with a fixed number of dimensions and index element type, but got 'index'}}
  %0 = "ktdp.load"(%i) : (index) -> tensor<4xf16>
  return
}

// -----

func.func @f(%t: !ktdp.access_tile<16x32xindex>) {
  // expected-error@below {{expected ':', got '['}}
  %0 = ktdp.load %t[0] : <16x32xindex> -> tensor<16x32xf16>
  return
}
