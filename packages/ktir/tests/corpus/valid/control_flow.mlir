// Loops and branches in all spellings.
func.func @flow(%lo: index, %hi: index, %st: index, %a: i32, %b: i32, %c: i32, %p: i1, %t: tensor<4xf16>) -> tensor<4xf16> {
  scf.for %i = %lo to %hi step %st {
    scf.for %j = %i to %hi step %st : index { }
    scf.yield
  }
  scf.for %i = %a to %b step %c  : i32 {
  } {unroll = 4 : i32}
  scf.for unsigned %i = %a to %b step %c : i32 { }
  %0 = scf.for %i = %lo to %hi step %st iter_args(%x = %t) -> tensor<4xf16> { scf.yield %x : tensor<4xf16> }
  %1:2 = scf.for %i = %a to %b step %c iter_args(%x = %0, %n = %lo) -> (tensor<4xf16>, index) : i32 {
    %k = arith.addi %n, %st : index
    scf.yield %x, %k : tensor<4xf16>, index
  }
  scf.if %p { } else { }
  scf.if %p {
    func.call @void() : () -> ()
  }
  %2 = scf.if %p -> tensor<4xf16> {
    scf.yield %t : tensor<4xf16>
  } else {
    scf.yield %1#0 : tensor<4xf16>
  } {tag}
  %3:2 = scf.if %p -> (index, i32) { scf.yield %lo, %a : index, i32 } else { scf.yield %1#1, %b : index, i32 }
  %4:2 = scf.while (%n = %3#0, %x = %2) : (index, tensor<4xf16>) -> (tensor<4xf16>, index) {
    %go = arith.cmpi slt, %n, %hi : index
    scf.condition(%go) %x, %n : tensor<4xf16>, index
  } do {
  ^bb0(%x: tensor<4xf16>, %n: index):
    %m = arith.addi %n, %st : index
    scf.yield %m, %x : index, tensor<4xf16>
  } attributes {tag = "w"}
  scf.while : () -> () {
    scf.condition(%p)
  } do {
    scf.yield
  }
  call @void() : () -> ()
  func.return %4#0 : tensor<4xf16>
}
func.func private @void()
