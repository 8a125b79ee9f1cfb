// Unknown operations.
func.func @f(%p: index, %n: index) {
  // expected-error@below {{custom op 'ktdp.loadd' is unknown}}
  %0 = ktdp.loadd %n : <4xindex> -> tensor<4xf16>
  return
}

// -----

func.func @f(%p: index, %n: index) {
  // expected-error@below {{custom op 'vector.broadcast' is unknown}}
  %0 = vector.broadcast %n : index to vector<4xindex>
  return
}

// -----

func.func @f(%p: index, %n: index) {
  // expected-error@below {{custom op 'load' is unknown}}
  %0 = load %n : <4xindex> -> tensor<4xf16>
  return
}

// -----

func.func @f(%p: index, %n: index) {
  // expected-error@below {{custom op 'addi' is unknown}}
  %0 = addi %n, %n : index
  return
}

// -----

func.func @f(%p: index, %n: index) {
  // expected-error@below {{custom op 'ktdp.reduce' is unknown}}
  ktdp.reduce %n : index
  return
}

// -----

func.func @f(%p: index, %n: index) {
  // expected-error@below {{'ktdp.region_terminator' op must be the last operation in the parent block}}
  ktdp.region_terminator
  return
}

// -----

func.func @f(%p: index, %n: index) {
  // expected-error@+2 {{'ktdp.yield_partial' op must be the last operation in the parent block}}
  // expected-error@below {{'ktdp.yield_partial' op expects parent op 'ktdp.inter_tile_produce'}}
  ktdp.yield_partial %n : index
  return
}

// -----

module {
  // expected-error@below {{'func.return' op expects parent op 'func.func'}}
  return
}
