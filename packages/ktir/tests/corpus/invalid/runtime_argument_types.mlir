// Runtime argument types.
// expected-error@below {{runtime_arg granularity must be positive, but got: -4}}
func.func private @f(!ktdp.runtime_arg<i32, granularity=-4>)

// -----

// expected-error@below {{runtime_arg upperbound must be positive, but got: 0}}
func.func private @f(!ktdp.runtime_arg<i32, upperbound=0>)

// -----

// expected-error@below {{duplicate 'granularity' keyword}}
func.func private @f(!ktdp.runtime_arg<index, granularity=2, granularity=4>)

// -----

// expected-error@below {{expected 'granularity' or 'upperbound' keyword}}
func.func private @f(!ktdp.runtime_arg<index, step=2>)

// -----

// expected-error@below {{runtime_arg underlying type must be a builtin type (index, integer, or float), but got: tensor<4xf32>}}
func.func private @f(!ktdp.runtime_arg<tensor<4xf32>>)

// -----

// expected-error@below {{expected '=' behind 'granularity', got '>'}}
func.func private @f(!ktdp.runtime_arg<index, granularity>)

// -----

// expected-error@below {{expected a type, got '>'}}
func.func private @f(!ktdp.runtime_arg<>)
