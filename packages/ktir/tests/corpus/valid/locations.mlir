// Every kind of location, everywhere one may stand.
module @m {
  func.func @f(%a: index loc("a.py":1:2), %b: index {ktdp.name = "second"} loc(unknown)) -> index {
    %0 = arith.addi %a, %b : index loc("a.py":3:4)
    %1 = arith.addi %0, %b : index loc("name")
    %2 = arith.addi %1, %b : index loc("name"("a.py":5:6))
    %3 = arith.addi %2, %b : index loc(callsite("callee"("a.py":1:1) at "a.py":9:9))
    %4 = arith.addi %3, %b : index loc(fused["x", "y"("z.py":1:1), unknown])
    %5 = arith.addi %4, %b : index loc(fused<"inlined">["x"])
    %6:2 = scf.for %i = %a to %b step %a iter_args(%x = %5, %y = %5) -> (index, index) {
      scf.yield %y, %x : index, index loc("yield")
    } loc("loop")
    %7 = scf.while (%w = %6#0) : (index) -> index {
      %c = arith.cmpi slt, %w, %b : index
      scf.condition(%c) %w : index
    } do {
    ^bb0(%w: index loc("w")):
      scf.yield %w : index
    } loc("while")
    return %7 : index loc("a.py":7:8)
  } loc("f")
} loc("m"("file with blanks and \"quotes\".py":10:20))
func.func private @ranges() attributes {a = loc("k.py":3:4 to 5:6), b = loc("k.py":3:4 to :9), c = loc("n"("k.py":1:1 to 1:2))}
