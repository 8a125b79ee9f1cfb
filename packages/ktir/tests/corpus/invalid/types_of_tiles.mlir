// Types of tiles.
// expected-error@below {{tile element type must be 'index', but got: f32}}
func.func private @f(!ktdp.access_tile<4x4xf32>)

// -----

// expected-error@below {{expected 'x' in dimension list, got '>'}}
func.func private @f(!ktdp.access_tile<4x4>)

// -----

// expected-error@below {{expected a type, got '-'}}
func.func private @f(!ktdp.access_tile<-4xindex>)

// -----

// expected-error@below {{unknown type `access_tiles` in dialect `ktdp`}}
func.func private @f(!ktdp.access_tiles<4xindex>)

// -----

// expected-error@below {{expected a type, got '*'}}
func.func private @f(!ktdp.access_tile<*xindex>)

// -----

// expected-error@below {{expected '<' behind 'access_tile', got ')'}}
func.func private @f(!ktdp.access_tile)
