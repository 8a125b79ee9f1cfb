// Distributed views: with and without a blank, nothing in it, the same part twice, parts in different memories.
#left = affine_set<(d0, d1) : (d0 >= 0, -d0 + 31 >= 0, d1 >= 0, -d1 + 31 >= 0)>
#right = affine_set<(d0, d1) : (d0 >= 0, -d0 + 31 >= 0, d1 - 32 >= 0, -d1 + 63 >= 0)>
func.func @parts(%p: index, %q: index) {
  %0 = ktdp.construct_memory_view %p, sizes: [32, 32], strides: [32, 1] {coordinate_set = #left, memory_space = #ktdp.memory_space<ct_local, ct_id = 0>} : memref<32x32xf16>
  %1 = ktdp.construct_memory_view %q, sizes: [32, 32], strides: [64, 1] {coordinate_set = #right, memory_space = #ktdp.memory_space<global>} : memref<32x32xf16>
  %2 = ktdp.construct_distributed_memory_view(%0, %1 : memref<32x32xf16>, memref<32x32xf16>) : memref<32x64xf16>
  %3 = ktdp.construct_distributed_memory_view (%0, %1 : memref<32x32xf16>, memref<32x32xf16>) {note = "kept"} : memref<?x64xf16>
  %4 = ktdp.construct_distributed_memory_view(%0, %0 : memref<32x32xf16>, memref<32x32xf16>) : memref<32x32xf16>
  %5 = ktdp.construct_distributed_memory_view() : memref<4xf16>
  return
}
