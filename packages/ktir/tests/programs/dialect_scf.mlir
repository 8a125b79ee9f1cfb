// RUN levels: V
func.func @f(%n: index, %t: tensor<4xf16>, %c: i1, %k: i32) -> tensor<4xf16> {
  %c0 = arith.constant 0 : index
  scf.for %i = %c0 to %n step %n { "u"(%i) : (index) -> () } {loop_type = "x"}
  scf.for unsigned %i = %k to %k step %k : i32 { }
  %r = scf.for %i = %c0 to %n step %n iter_args(%x = %t) -> tensor<4xf16> { scf.yield %x : tensor<4xf16> }
  %s = scf.if %c -> tensor<4xf16> { scf.yield %r : tensor<4xf16> } else { scf.yield %t : tensor<4xf16> }
  scf.if %c { }
  %w = scf.while (%l = %n) : (index) -> index {
    scf.condition(%c) %l : index
  } do {
  ^bb0(%b: index):
    scf.yield %b : index
  } attributes {a}
  return %s : tensor<4xf16>
}
