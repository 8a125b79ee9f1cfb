// RUN levels: V
func.func @twice() { return }
// expected-error @+1 {{redefinition of symbol named 'twice'}}
func.func @twice() { return }

// -----

func.func @results(%a: f16) -> index {
  // expected-error @+1 {{type of return operand 0 ('f16') doesn't match function result type ('index') in function @results}}
  return %a : f16
}

// -----

func.func @calls(%a: index) {
  // expected-error @+1 {{'func.call' op 'nobody' does not reference a valid function}}
  call @nobody(%a) : (index) -> ()
  // expected-error @+1 {{incorrect number of operands for callee}}
  call @calls() : () -> ()
  return
}

// -----

func.func @shapes(%a: tensor<4xf16>, %b: tensor<5xf16>) {
  // expected-error @+1 {{inferred input/output operand #1 has shape's dimension #0 to be 4, but found 5}}
  %r = linalg.add ins(%a, %b : tensor<4xf16>, tensor<5xf16>) outs(%a : tensor<4xf16>) -> tensor<4xf16>
  return
}

// -----

func.func @types(%a: i32) {
  // expected-error @+3 {{operand #0 must be floating-point-like, but got 'i32'}}
  // expected-error @+2 {{operand #1 must be floating-point-like, but got 'i32'}}
  // expected-error @+1 {{result #0 must be floating-point-like, but got 'i32'}}
  %r = arith.addf %a, %a : i32
  // expected-error @+2 {{result #0 must be 16-bit float or IBM df16 float or 32-bit float, but got 'i32'}}
  // expected-error @+1 {{'spyreop.exp' op operand #0 must be 16-bit float or IBM df16 float or 32-bit float, but got 'i32'}}
  %e = spyreop.exp %a : i32
  return
}

// -----

func.func @scope(%c: i1) {
  scf.if %c { %x = arith.constant 1 : index }
  // expected-error @+1 {{use of undeclared SSA value name}}
  "u"(%x) : (index) -> ()
  return
}

// -----

// expected-error @+1 {{expected a type}}
func.func private @prose(fp16)
