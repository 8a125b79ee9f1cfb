// Views.
func.func @f(%p: index, %n: index) {
  // expected-error@below {{'ktdp.construct_memory_view' op result memref rank does not match sizes/strides length}}
  %v = ktdp.construct_memory_view %p, sizes: [16, 32], strides: [32, 1] {coordinate_set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 31 >= 0)>, memory_space = #ktdp.memory_space<global>} : memref<2x16x32xf16>
  return
}

// -----

func.func @f(%p: index, %n: index) {
  // expected-error@below {{'ktdp.construct_memory_view' op static_sizes and static_strides must have equal length}}
  %v = ktdp.construct_memory_view %p, sizes: [16, 32], strides: [1] {coordinate_set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 31 >= 0)>, memory_space = #ktdp.memory_space<global>} : memref<16x32xf16>
  return
}

// -----

func.func @f(%p: index, %n: index) {
  // expected-error@below {{'ktdp.construct_memory_view' op requires attribute 'coordinate_set'}}
  %v = ktdp.construct_memory_view %p, sizes: [32], strides: [1] {memory_space = #ktdp.memory_space<global>} : memref<32xf16>
  return
}

// -----

func.func @f(%p: index, %n: index) {
  // expected-error@below {{'ktdp.construct_memory_view' op requires attribute 'memory_space'}}
  %v = ktdp.construct_memory_view %p, sizes: [32], strides: [1] {coordinate_set = affine_set<(d0) : (d0 >= 0, -d0 + 31 >= 0)>} : memref<32xf16>
  return
}

// -----

func.func @f(%p: index, %n: index) {
  // expected-error@below {{'ktdp.construct_memory_view' op result must be a memref type}}
  %v = ktdp.construct_memory_view %p, sizes: [32], strides: [1] {coordinate_set = affine_set<(d0) : (d0 >= 0, -d0 + 31 >= 0)>, memory_space = #ktdp.memory_space<global>} : tensor<32xf16>
  return
}

// -----

func.func @f(%p: index, %n: index) {
  // expected-error@below {{'ktdp.construct_memory_view' op result must be a memref type}}
  %v = ktdp.construct_memory_view %p, sizes: [32], strides: [1] {coordinate_set = affine_set<(d0) : (d0 >= 0, -d0 + 31 >= 0)>, memory_space = #ktdp.memory_space<global>} : memref<*xf16>
  return
}

// -----

func.func @f(%p: index, %n: index) {
  // expected-error@below {{'ktdp.construct_memory_view' op attribute 'memory_space' failed to satisfy constraint: KtdpMemorySpaceAttr}}
  %v = ktdp.construct_memory_view %p, sizes: [32], strides: [1] {coordinate_set = affine_set<(d0) : (d0 >= 0, -d0 + 31 >= 0)>, memory_space = "HBM"} : memref<32xf16>
  return
}

// -----

func.func @f(%p: index, %n: i32) {
  // expected-error@below {{use of value '%n' expects different type than prior uses: 'index' vs 'i32'}}
  %v = ktdp.construct_memory_view %p, sizes: [%n], strides: [1] {coordinate_set = affine_set<(d0) : (d0 >= 0, -d0 + 31 >= 0)>, memory_space = #ktdp.memory_space<global>} : memref<?xf16>
  return
}

// -----

func.func @f(%p: i64) {
  // expected-error@below {{use of value '%p' expects different type than prior uses: 'index' vs 'i64'}}
  %v = ktdp.construct_memory_view %p, sizes: [32], strides: [1] {coordinate_set = affine_set<(d0) : (d0 >= 0, -d0 + 31 >= 0)>, memory_space = #ktdp.memory_space<global>} : memref<32xf16>
  return
}

// -----

func.func @f(%p: index, %n: index) {
  // expected-error@below {{expected 'sizes', got 'strides'}}
  %v = ktdp.construct_memory_view %p, strides: [1], sizes: [32] {coordinate_set = affine_set<(d0) : (d0 >= 0, -d0 + 31 >= 0)>, memory_space = #ktdp.memory_space<global>} : memref<32xf16>
  return
}

// -----

func.func @f(%p: index, %n: index) {
  // expected-error@below {{expected ',' behind the sizes, got 'strides'}}
  %v = ktdp.construct_memory_view %p, sizes: [32] strides: [1] {coordinate_set = affine_set<(d0) : (d0 >= 0, -d0 + 31 >= 0)>, memory_space = #ktdp.memory_space<global>} : memref<32xf16>
  return
}

// -----

func.func @f(%p: index, %n: index) {
  // expected-error@below {{expected integer, got '32.0'}}
  %v = ktdp.construct_memory_view %p, sizes: [32.0], strides: [1] {coordinate_set = affine_set<(d0) : (d0 >= 0, -d0 + 31 >= 0)>, memory_space = #ktdp.memory_space<global>} : memref<32xf16>
  return
}
