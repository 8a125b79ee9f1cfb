// Old memory spaces.
// expected-error@below {{core affinity is only valid for LX or L0 memory spaces, but got memory space 'HBM' with core = 2}}
func.func private @f(memref<64xf16, #ktdp.spyre_memory_space<HBM, core = 2>>)

// -----

// expected-error@below {{core affinity must be non-negative, but got: -3}}
func.func private @f(memref<64xf16, #ktdp.spyre_memory_space<LX, core = -3>>)

// -----

// expected-error@below {{expected ktdp memory space to be one of: unspecified, LX, HBM, L0, got 'DDR'}}
func.func private @f(memref<64xf16, #ktdp.spyre_memory_space<DDR>>)

// -----

// expected-error@below {{core affinity is only valid for LX or L0 memory spaces, but got memory space 'unspecified' with core = 0}}
func.func private @f(memref<64xf16, #ktdp.spyre_memory_space<unspecified, core = 0>>)

// -----

// expected-error@below {{expected ktdp memory space to be one of: unspecified, LX, HBM, L0, got 'global'}}
func.func private @f(memref<64xf16, #ktdp.spyre_memory_space<global>>)
