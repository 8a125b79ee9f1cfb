// Builtin types.
// expected-error@below {{expected a type, got '>'}}
func.func private @f(tensor<4x?x>)

// -----

// expected-error@below {{expected the number of strides to match the rank: 2 != 1}}
func.func private @f(memref<4xf16, strided<[1, 1]>>)

// -----

// expected-error@below {{expected 'x' in dimension list, got '4'}}
func.func private @f(tensor<4 4xf16>)

// -----

// expected-error@below {{expected a type, got 'i0'}}
func.func private @f(i0)

// -----

// expected-error@below {{expected a type, got 'float'}}
func.func private @f(float)

// -----

// expected-error@below {{expected a type, got '-'}}
func.func private @f(tensor<-1xf16>)

// -----

// expected-error@below {{expected a type, got '?'}}
func.func private @f(vector<?xf16>)

// -----

// expected-error@below {{expected a type, got '-'}}
func.func private @f(memref<0x-3xf16>)

// -----

// expected-error@below {{expected '>' in tensor type, got ')'}}
func.func private @f(tensor<4x4xf16)

// -----

// expected-error@below {{unknown type `int` in dialect `builtin`}}
func.func private @f(!builtin.int)
