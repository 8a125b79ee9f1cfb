// Memrefs.
func.func @f(%m: memref<4xf16>, %k: memref<8xf16>) {
  // expected-error@below {{'memref.alloc' op dimension operand count does not equal memref dynamic dimension count: 0 vs 1}}
  %0 = memref.alloc() : memref<?xf16>
  // expected-error@below {{'memref.cast' op operand type 'memref<4xf16>' and result type 'memref<8xf16>' are cast incompatible}}
  %1 = memref.cast %m : memref<4xf16> to memref<8xf16>
  // expected-error@below {{'memref.copy' op failed to verify that source and target have same shape and element type: 'memref<4xf16>' vs 'memref<8xf16>'}}
  memref.copy %m, %k : memref<4xf16> to memref<8xf16>
  %2 = memref.subview %m[0] [8] [1] : memref<4xf16> to memref<8xf16>
  // expected-error@below {{'memref.reinterpret_cast' op expected 2 stride values, got 1}}
  %3 = memref.reinterpret_cast %m to offset: [0], sizes: [2, 2], strides: [1] : memref<4xf16> to memref<2x2xf16>
  // expected-error@below {{'memref.memory_space_cast' op operand type 'memref<4xf16>' and result type 'memref<4xf32, "L1">' are cast incompatible}}
  %4 = memref.memory_space_cast %m : memref<4xf16> to memref<4xf32, "L1">
  return
}
