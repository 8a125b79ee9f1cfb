// Views generic.
func.func @f(%p: index, %n: index) {
  // expected-error@+2 {{'ktdp.construct_memory_view' op static_sizes and static_strides must have equal length}}
  // expected-error@below {{'ktdp.construct_memory_view' op result memref rank does not match sizes/strides length}}
  %v = "ktdp.construct_memory_view"(%p) <{coordinate_set = affine_set<(d0) : (d0 >= 0, -d0 + 31 >= 0)>, memory_space = #ktdp.memory_space<global>, operandSegmentSizes = array<i32: 1, 0, 0>, static_sizes = array<i64: 32, 1>, static_strides = array<i64: 1>}> : (index) -> memref<32xf16>
  return
}

// -----

func.func @f(%p: index, %n: index) {
  // expected-error@below {{'ktdp.construct_memory_view' op number of dynamic size operands does not match kDynamic entries in static_sizes}}
  %v = "ktdp.construct_memory_view"(%p) <{coordinate_set = affine_set<(d0) : (d0 >= 0, -d0 + 31 >= 0)>, memory_space = #ktdp.memory_space<global>, operandSegmentSizes = array<i32: 1, 0, 0>, static_sizes = array<i64: -9223372036854775808>, static_strides = array<i64: 1>}> : (index) -> memref<32xf16>
  return
}

// -----

func.func @f(%p: index, %n: index) {
  // expected-error@below {{'ktdp.construct_memory_view' op number of dynamic size operands does not match kDynamic entries in static_sizes}}
  %v = "ktdp.construct_memory_view"(%p, %n) <{coordinate_set = affine_set<(d0) : (d0 >= 0, -d0 + 31 >= 0)>, memory_space = #ktdp.memory_space<global>, operandSegmentSizes = array<i32: 1, 1, 0>, static_sizes = array<i64: 32>, static_strides = array<i64: 1>}> : (index, index) -> memref<32xf16>
  return
}

// -----

func.func @f(%p: index, %n: index) {
  // expected-error@below {{'ktdp.construct_memory_view' op number of dynamic stride operands does not match kDynamic entries in static_strides}}
  %v = "ktdp.construct_memory_view"(%p) <{coordinate_set = affine_set<(d0) : (d0 >= 0, -d0 + 31 >= 0)>, memory_space = #ktdp.memory_space<global>, operandSegmentSizes = array<i32: 1, 0, 0>, static_sizes = array<i64: 32>, static_strides = array<i64: -9223372036854775808>}> : (index) -> memref<32xf16>
  return
}

// -----

func.func @f(%p: index, %n: index) {
  // expected-error@below {{'ktdp.construct_memory_view' op segment sizes [1, 0, 0] do not fit 2 values in 3 groups}}
  %v = "ktdp.construct_memory_view"(%p, %n) <{coordinate_set = affine_set<(d0) : (d0 >= 0, -d0 + 31 >= 0)>, memory_space = #ktdp.memory_space<global>, operandSegmentSizes = array<i32: 1, 0, 0>, static_sizes = array<i64: 32>, static_strides = array<i64: 1>}> : (index, index) -> memref<32xf16>
  return
}

// -----

func.func @f(%p: index, %n: index) {
  // expected-error@below {{'ktdp.construct_memory_view' op 'operandSegmentSizes' attribute for specifying operand segments must have 3 elements, but got 2}}
  %v = "ktdp.construct_memory_view"(%p, %n) <{coordinate_set = affine_set<(d0) : (d0 >= 0, -d0 + 31 >= 0)>, memory_space = #ktdp.memory_space<global>, operandSegmentSizes = array<i32: 1, 1>, static_sizes = array<i64: 32>, static_strides = array<i64: 1>}> : (index, index) -> memref<32xf16>
  return
}
