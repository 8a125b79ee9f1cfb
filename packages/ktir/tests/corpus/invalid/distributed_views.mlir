// Distributed views.
func.func @f(%a: memref<32xf16>, %b: memref<32xf32>, %c: memref<4x8xf16>, %u: memref<*xf16>) {
  // expected-error@below {{'ktdp.construct_distributed_memory_view' op all input memrefs must have the same element type as the result}}
  %d = ktdp.construct_distributed_memory_view(%a, %b : memref<32xf16>, memref<32xf32>) : memref<64xf16>
  // expected-error@below {{'ktdp.construct_distributed_memory_view' op all input memrefs must have the same rank as the result}}
  %e = ktdp.construct_distributed_memory_view(%a, %c : memref<32xf16>, memref<4x8xf16>) : memref<64xf16>
  // expected-error@below {{'ktdp.construct_distributed_memory_view' op all inputs must be memref types}}
  %f = ktdp.construct_distributed_memory_view(%a, %u : memref<32xf16>, memref<*xf16>) : memref<64xf16>
  // expected-error@below {{'ktdp.construct_distributed_memory_view' op result must be a memref type}}
  %g = ktdp.construct_distributed_memory_view(%a : memref<32xf16>) : memref<*xf16>
  return
}

// -----

func.func @f(%a: memref<32xf16>, %b: memref<32xf16>) {
  // expected-error@below {{2 operands present, but expected 1}}
  %d = ktdp.construct_distributed_memory_view(%a, %b : memref<32xf16>) : memref<64xf16>
  return
}

// -----

func.func @f(%a: memref<32xf16>) {
  // expected-error@below {{expected ':' behind the views, got ')'}}
  %d = ktdp.construct_distributed_memory_view(%a, %a) : memref<64xf16>
  return
}
