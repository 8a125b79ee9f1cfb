// Parts of one file, each a module of its own; an alias may mean something else in each.
#set = affine_set<(d0) : (d0 >= 0, -d0 + 31 >= 0)>
func.func @first(%p: index) {
  %0 = ktdp.construct_memory_view %p, sizes: [32], strides: [1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<32xf16>
  return
}

// -----

#set = affine_set<(d0) : (d0 >= 0, -d0 + 63 >= 0)>
func.func @first(%p: index) {
  %0 = ktdp.construct_memory_view %p, sizes: [64], strides: [1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<64xf16>
  return
}

// -----
