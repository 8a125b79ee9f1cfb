// Tile ids.
func.func @f() {
  // expected-error@below {{operation defines 2 results but was provided 1 to bind}}
  %x = ktdp.get_compute_tile_id : index, index
  return
}

// -----

func.func @f() {
  // expected-error@below {{operation defines 2 results but was provided 3 to bind}}
  %x, %y, %z = ktdp.get_compute_tile_id : index, index
  return
}

// -----

func.func @f() {
  // expected-error@below {{operation defines 2 results but was provided 3 to bind}}
  %x:3 = ktdp.get_compute_tile_id : index, index
  return
}

// -----

func.func @f() {
  // expected-error@below {{'ktdp.get_compute_tile_id' op result #0 must be variadic of index, but got 'i32'}}
  %x = ktdp.get_compute_tile_id : i32
  return
}

// -----

func.func @f() {
  // expected-error@below {{'ktdp.get_compute_tile_id' op must return at least one index (num tile-grid dims >= 1)}}
  "ktdp.get_compute_tile_id"() : () -> ()
  return
}

// -----

func.func @f() {
  %x = ktdp.get_compute_tile_id
  // expected-error@below {{expected ':', got 'return'}}
  return
}

// -----

func.func @f() {
  // expected-error@below {{custom op 'ktdp.coreid' is unknown}}
  %x = ktdp.coreid : index
  return
}
