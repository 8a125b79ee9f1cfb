// Legality.
// RUN: VL
func.func @f(%p: index, %n: index) {
  // expected-error@below {{custom op 'vector.broadcast' is unknown}}
  %0 = vector.broadcast %n : index to vector<4xindex>
  return
}

// -----

func.func @f(%p: index, %n: index) {
  // expected-error@below {{'vector.splat' op is not legal in a KTIR program}}
  %0 = "vector.splat"(%n) : (index) -> vector<4xindex>
  // expected-error@below {{'gpu.barrier' op is not legal in a KTIR program}}
  "gpu.barrier"() : () -> ()
  %1 = affine.apply affine_map<(d0) -> (d0)>(%n)
  return
}
