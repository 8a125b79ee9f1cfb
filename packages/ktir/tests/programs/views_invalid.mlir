// RUN levels: V
#b96 = affine_set<(i) : (i >= 0, -i + 95 >= 0)>
func.func @rank(%p: index) {
  // expected-error @+1 {{'ktdp.construct_memory_view' op result memref rank does not match sizes/strides length}}
  %v = ktdp.construct_memory_view %p, sizes: [96, 4], strides: [4, 1] {coordinate_set = #b96, memory_space = #ktdp.memory_space<global>} : memref<96x4x1xf16>
  // expected-error @below {{requires attribute 'memory_space'}}
  %w = ktdp.construct_memory_view %p, sizes: [96], strides: [1] {coordinate_set = #b96} : memref<96xf16>
  %x = ktdp.construct_memory_view %p, sizes: [96], strides: [1] {memory_space = #ktdp.memory_space<global>} : memref<96xf16> // expected-error {{requires attribute 'coordinate_set'}}
  return
}

// -----

func.func @offset(%p: i32) {
  // expected-error @+1 {{use of value '%p' expects different type than prior uses: 'index' vs 'i32'}}
  %v = ktdp.construct_memory_view %p, sizes: [96], strides: [1] {coordinate_set = affine_set<(i) : (i >= 0)>, memory_space = #ktdp.memory_space<global>} : memref<96xf16>
  return
}

// -----

// expected-error @+1 {{core affinity is only valid for LX or L0 memory spaces, but got memory space 'HBM' with core = 2}}
func.func private @space(memref<4xf16, #ktdp.spyre_memory_space<HBM, core = 2>>)

// -----

// expected-error @+1 {{unknown attribute `place` in dialect `ktdp`}}
module attributes {s = #ktdp.place<global>} {}

// -----

// expected-error @+1 {{to be one of: global, ct_local}}
module attributes {s = #ktdp.memory_space<sram>} {}

// -----

// expected-error @+1 {{ct_id is only valid for the ct_local memory space}}
module attributes {s = #ktdp.memory_space<global, ct_id = 1>} {}

// -----

func.func @distributed(%a: memref<8xf16>, %b: memref<8xf32>, %c: memref<*xf16>) {
  // expected-error @+2 {{all input memrefs must have the same element type as the result}}
  // expected-error @+1 {{all input memrefs must have the same rank as the result}}
  %v = ktdp.construct_distributed_memory_view(%a, %b : memref<8xf16>, memref<8xf32>) : memref<4x4xf16>
  // expected-error @+1 {{all inputs must be memref types}}
  %w = ktdp.construct_distributed_memory_view(%c : memref<*xf16>) : memref<4xf16>
  // expected-error @+1 {{result must be a memref type}}
  %x = ktdp.construct_distributed_memory_view(%a : memref<8xf16>) : memref<*xf16>
  return
}

// -----

func.func @id() {
  // expected-error @+1 {{must return at least one index (num tile-grid dims >= 1)}}
  "ktdp.get_compute_tile_id"() : () -> ()
  // expected-error @+1 {{result #0 must be variadic of index, but got 'i32'}}
  %0 = ktdp.get_compute_tile_id : i32
  return
}

// -----

// expected-error @+1 {{runtime_arg underlying type must be a builtin type (index, integer, or float), but got: tensor<4xf32>}}
func.func private @argument(!ktdp.runtime_arg<tensor<4xf32>>)

// -----

func.func @extract(%m: !ktdp.runtime_arg<index, granularity=8>) {
  // expected-error @+1 {{result type (i32) must match runtime_arg underlying type (index) when extracting value}}
  %0 = ktdp.runtime_arg_extract value from %m : <index, granularity=8> -> i32
  // expected-error @+1 {{cannot extract upperbound from runtime_arg that doesn't have one}}
  %1 = ktdp.runtime_arg_extract upperbound from %m : <index, granularity=8> -> index
  return
}

// -----

func.func @kind(%m: !ktdp.runtime_arg<index>) {
  // expected-error @+1 {{enum values for attribute 'kind' [value, granularity, upperbound]}}
  %0 = ktdp.runtime_arg_extract bound from %m : <index> -> index
  return
}
