// Numbers, loops and bundles of the upstream dialects.
// RUN levels: V

func.func @k(%m: i32, %x: tensor<4xf16>, %c: i1) -> (i32, tensor<4xf16>) {
  %a = arith.constant 0xFC00 : f16
  %b = arith.constant 0xFF800000 : i32
  %d = arith.constant -2.5 : f32
  %e = arith.constant true
  %f = arith.constant dense<[8, 16, 64]> : tensor<3xindex>
  %h = arith.constant dense<"0x0100020003000400"> : tensor<4xi16>
  %z = arith.constant 0 : i32
  %s = arith.addf %a, %a fastmath<nnan,ninf> : f16
  %o = arith.addi %m, %m overflow<nsw, nuw> : i32
  %r:2 = scf.for %i = %z to %m step %m iter_args(%p = %z, %q = %x) -> (i32, tensor<4xf16>) : i32 {
    scf.yield %i, %q : i32, tensor<4xf16>
  }
  %w = scf.for %i = %z to %m step %m iter_args(%p = %z) -> i32 : i32 { scf.yield %p : i32 }
  %t:3 = "any.thing"(%r#0) <{p = 1 : i8}> ({ ^bb0(%y: index loc("x":1:1)): "any.end"() : () -> () }) {q}
    : (i32) -> (i32, f32, index)
  %l = scf.while (%u = %r#0) : (i32) -> (i32) { scf.condition(%c) %u : i32 } do { ^bb0(%v: i32): scf.yield %v : i32 }
  %init = tensor.empty() : tensor<f16>
  %sum = linalg.reduce { arith.addf } ins(%x : tensor<4xf16>) outs(%init: tensor<f16>) dimensions = [0] scf.if %c { }
  scf.if %c { "use"(%t#2, %t#0) : (index, i32) -> () }
  return %r#0, %r#1 : i32, tensor<4xf16>
}
