// New memory spaces.
// expected-error@below {{ct_id is only valid for the ct_local memory space}}
func.func private @f(memref<64xf16, #ktdp.memory_space<global, ct_id = 1>>)

// -----

// expected-error@below {{ct_id must be non-negative, but got: -1}}
func.func private @f(memref<64xf16, #ktdp.memory_space<ct_local, ct_id = -1>>)

// -----

// expected-error@below {{expected ktdp memory space to be one of: global, ct_local, got 'sram'}}
func.func private @f(memref<64xf16, #ktdp.memory_space<sram>>)

// -----

// expected-error@below {{expected ktdp memory space to be one of: global, ct_local, got 'HBM'}}
func.func private @f(memref<64xf16, #ktdp.memory_space<HBM>>)

// -----

// expected-error@below {{expected 'ct_id' in memory space, got 'core'}}
func.func private @f(memref<64xf16, #ktdp.memory_space<ct_local, core = 2>>)

// -----

// expected-error@below {{unknown attribute `space` in dialect `ktdp`}}
func.func private @f(memref<64xf16, #ktdp.space<global>>)
