// Every spelling of a memory space, as attribute of a view and on a memref type.
#one = affine_set<(d0) : (d0 >= 0, -d0 + 63 >= 0)>
func.func @old(%p: index, %a: memref<64xf16, #ktdp.spyre_memory_space<HBM>>, %b: memref<64xf16, #ktdp.spyre_memory_space<LX, core = 3>>,
               %c: memref<?xf32, #ktdp.spyre_memory_space<L0, core = 1>>, %d: memref<64xf16, #ktdp.spyre_memory_space<unspecified>>) {
  %0 = ktdp.construct_memory_view %p, sizes: [64], strides: [1] {coordinate_set = #one, memory_space = #ktdp.spyre_memory_space<HBM>} : memref<64xf16>
  %1 = ktdp.construct_memory_view %p, sizes: [64], strides: [1] {coordinate_set = #one, memory_space = #ktdp.spyre_memory_space<LX>} : memref<64xf16>
  %2 = ktdp.construct_memory_view %p, sizes: [64], strides: [1] {coordinate_set = #one, memory_space = #ktdp.spyre_memory_space<LX, core = 31>} : memref<64xf16>
  %3 = ktdp.construct_memory_view %p, sizes: [64], strides: [1] {coordinate_set = #one, memory_space = #ktdp.spyre_memory_space<L0>} : memref<64xf16>
  return
}
func.func @new(%p: index, %a: memref<64xf16, #ktdp.memory_space<global>>, %b: memref<64xf16, strided<[2], offset: 4>, #ktdp.memory_space<ct_local>>,
               %c: memref<64xf16, #ktdp.memory_space<ct_local, ct_id = 3>>, %d: memref<8xf16, "DDR">, %e: memref<8xf16, 1 : i32>) {
  %0 = ktdp.construct_memory_view %p, sizes: [64], strides: [1] {coordinate_set = #one, memory_space = #ktdp.memory_space<global>} : memref<64xf16, #ktdp.memory_space<global>>
  %1 = ktdp.construct_memory_view %p, sizes: [64], strides: [1] {coordinate_set = #one, memory_space = #ktdp.memory_space<ct_local, ct_id=7>} : memref<64xf16>
  return
}
