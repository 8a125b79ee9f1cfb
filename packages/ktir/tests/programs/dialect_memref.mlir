// RUN levels: V
func.func @f(%n: index, %x: f16) {
  %a = memref.alloc() {alignment = 128 : i64} : memref<4x8xf16, "L1">
  %d = memref.alloc(%n) : memref<?xf16>
  %c = memref.memory_space_cast %a : memref<4x8xf16, "L1"> to memref<4x8xf16>
  %r = memref.reinterpret_cast %a to offset: [%n], sizes: [2, 8], strides: [8, 1] : memref<4x8xf16, "L1"> to memref<2x8xf16, strided<[8, 1], offset: ?>, "L1">
  %s = memref.subview %a[%n, 0] [2, 8] [1, 1] : memref<4x8xf16, "L1"> to memref<2x8xf16, strided<[8, 1], offset: ?>, "L1">
  %l = memref.load %a[%n, %n] : memref<4x8xf16, "L1">
  memref.store %x, %a[%n, %n] : memref<4x8xf16, "L1">
  memref.copy %c, %c : memref<4x8xf16> to memref<4x8xf16>
  memref.dealloc %d : memref<?xf16>
  return
}
