// Views that verify and contradict themselves.
// RUN: VS
func.func @f(%p: index, %n: index) {
  // expected-warning@below {{'ktdp.construct_memory_view' op memref extent 0 is 64, but the size of the view is 32}}
  %v = ktdp.construct_memory_view %p, sizes: [32], strides: [1] {coordinate_set = affine_set<(d0) : (d0 >= 0, -d0 + 31 >= 0)>, memory_space = #ktdp.memory_space<global>} : memref<64xf16>
  // expected-warning@below {{'ktdp.construct_memory_view' op memref extent 0 is 32, but the size of the view is dynamic}}
  %w = ktdp.construct_memory_view %p, sizes: [%n], strides: [1] {coordinate_set = affine_set<(d0) : (d0 >= 0, -d0 + 31 >= 0)>, memory_space = #ktdp.memory_space<global>} : memref<32xf16>
  // expected-warning@below {{'ktdp.construct_memory_view' op coordinate_set has 1 dimensions, but the view has rank 2}}
  %x = ktdp.construct_memory_view %p, sizes: [16, 32], strides: [32, 1] {coordinate_set = affine_set<(d0) : (d0 >= 0, -d0 + 31 >= 0)>, memory_space = #ktdp.memory_space<global>} : memref<16x32xf16>
  // expected-warning@+3 {{'ktdp.construct_memory_view' op memref extent 0 is dynamic, but the size of the view is -4}}
  // expected-warning@+2 {{'ktdp.construct_memory_view' op size 0 of the view is negative (-4)}}
  // expected-warning@below {{'ktdp.construct_memory_view' op coordinate_set holds coordinates 0 to 31 in dimension 0, but the size of the view is -4}}
  %y = ktdp.construct_memory_view %p, sizes: [-4], strides: [1] {coordinate_set = affine_set<(d0) : (d0 >= 0, -d0 + 31 >= 0)>, memory_space = #ktdp.memory_space<global>} : memref<?xf16>
  // expected-warning@below {{'ktdp.construct_memory_view' op memory space #ktdp.memory_space<ct_local> of the memref differs from the view's, #ktdp.memory_space<global>}}
  %z = ktdp.construct_memory_view %p, sizes: [32], strides: [1] {coordinate_set = affine_set<(d0) : (d0 >= 0, -d0 + 31 >= 0)>, memory_space = #ktdp.memory_space<global>} : memref<32xf16, #ktdp.memory_space<ct_local>>
  %u = ktdp.construct_memory_view %p, sizes: [32], strides: [1] {coordinate_set = affine_set<(d0) : (d0 - 4 >= 0, -d0 + 35 >= 0)>, memory_space = #ktdp.memory_space<global>} : memref<32xf16>
  // expected-warning@below {{'ktdp.construct_memory_view' op coordinate_set has 1 symbols, but the view has 0 dynamic sizes}}
  %t = ktdp.construct_memory_view %p, sizes: [32], strides: [1] {coordinate_set = affine_set<(d0)[n] : (d0 >= 0, -d0 + n - 1 >= 0)>, memory_space = #ktdp.memory_space<global>} : memref<32xf16>
  %c = arith.constant 2097152 : index
  // expected-warning@below {{'ktdp.construct_memory_view' op view covers bytes 4194304 to 4194368 of a scratchpad of 2097152 bytes}}
  %l = ktdp.construct_memory_view %c, sizes: [32], strides: [1] {coordinate_set = affine_set<(d0) : (d0 >= 0, -d0 + 31 >= 0)>, memory_space = #ktdp.memory_space<ct_local>} : memref<32xf16>
  return
}
