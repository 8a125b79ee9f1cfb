// Future types.
// expected-error@below {{tile_future must carry at least one partial type}}
func.func private @f(!ktdp.tile_future<(), groups = affine_set<(g) : (g == 0)>>)

// -----

// expected-error@below {{tile_future `groups` must have exactly one dimension (g)}}
func.func private @f(!ktdp.tile_future<(tensor<4xf16>), groups = affine_set<(g, h) : (g == 0)>>)

// -----

// expected-error@below {{tile_future `groups` must have no symbols}}
func.func private @f(!ktdp.tile_future<(tensor<4xf16>), groups = affine_set<(g)[n] : (g == n)>>)

// -----

// expected-error@below {{expected ',' in tile_future type, got '>'}}
func.func private @f(!ktdp.tile_future<(tensor<4xf16>)>)

// -----

// expected-error@below {{expected an affine set}}
func.func private @f(!ktdp.tile_future<tensor<4xf16>, groups = affine_map<(g) -> (g)>>)

// -----

// expected-error@below {{undefined symbol alias id 'missing'}}
func.func private @f(!ktdp.tile_future<(tensor<4xf16>), groups = #missing>)
