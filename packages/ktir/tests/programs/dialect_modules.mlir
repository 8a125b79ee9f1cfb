// RUN levels: V
module @outer attributes {a} {
  module @inner { func.func @f() { return } }
  func.func @g() { func.call @inner::@f() : () -> () return }
  func.func private @d(index, tensor<?xf16> {k}) -> (index {r}, f16)
  func.func nested @"strange name"() { return }
}
