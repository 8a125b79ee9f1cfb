// Scheduler profile.
// RUN: VD
func.func @f(%p: index, %n: index) {
  // expected-error@below {{V1 does not support scf.for with loop-carried arguments (iter_args)}}
  %0 = scf.for %i = %n to %n step %n iter_args(%a = %p) -> (index) {
    scf.yield %a : index
  }
  return
}

// -----

func.func @f(%a: tensor<4x4xf16>) {
  // expected-error@below {{V1 only supports add/mul/sub/reduce compute ops; found unsupported compute op}}
  %0 = linalg.matmul ins(%a, %a : tensor<4x4xf16>, tensor<4x4xf16>) outs(%a : tensor<4x4xf16>) -> tensor<4x4xf16>
  return
}

// -----

func.func @f(%a: tensor<4xf16>) {
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%a : tensor<4xf16>) outs(%a : tensor<4xf16>) {
  ^bb0(%x: f16, %o: f16):
    %s = spyreop.exp %x : f16
    // expected-error@below {{V1 only supports add/mul/sub compute ops; found unsupported compute op}}
    %e = math.exp %s : f16
    linalg.yield %e : f16
  } -> tensor<4xf16>
  return
}

// -----

func.func @f(%p: index, %n: index) {
  // expected-error@below {{V1 does not support scf.while loops}}
  %0 = scf.while (%a = %n) : (index) -> index {
    %c = arith.cmpi eq, %a, %p : index
    scf.condition(%c) %a : index
  } do {
  ^bb0(%a: index):
    scf.yield %a : index
  }
  return
}

// -----

func.func @f(%a: memref<4xf16>) {
  // expected-error@below {{V1 does not support ktdp.construct_distributed_memory_view}}
  %0 = ktdp.construct_distributed_memory_view(%a : memref<4xf16>) : memref<4xf16>
  return
}

// -----

func.func @f(%a: tensor<4xf16>, %s: f16) {
  // expected-error@below {{V1 only supports add/mul/sub/reduce compute ops; found unsupported compute op}}
  %0 = linalg.fill ins(%s : f16) outs(%a : tensor<4xf16>) -> tensor<4xf16>
  return
}
