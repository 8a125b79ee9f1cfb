// Arithmetic.
func.func @f(%a: i32, %b: i32) {
  // expected-error@below {{use of value '%a' expects different type than prior uses: 'f32' vs 'i32'}}
  %0 = arith.addf %a, %b : f32
  return
}

// -----

func.func @f(%a: i32, %b: f16) {
  // expected-error@+3 {{'arith.addf' op operand #0 must be floating-point-like, but got 'i32'}}
  // expected-error@+2 {{'arith.addf' op operand #1 must be floating-point-like, but got 'i32'}}
  // expected-error@below {{'arith.addf' op result #0 must be floating-point-like, but got 'i32'}}
  %0 = arith.addf %a, %a : i32
  // expected-error@+3 {{'arith.addi' op operand #0 must be signless-integer-like, but got 'f16'}}
  // expected-error@+2 {{'arith.addi' op operand #1 must be signless-integer-like, but got 'f16'}}
  // expected-error@below {{'arith.addi' op result #0 must be signless-integer-like, but got 'f16'}}
  %1 = arith.addi %b, %b : f16
  return
}

// -----

func.func @f() {
  // expected-error@below {{unexpected decimal integer literal for a floating point value}}
  %0 = arith.constant 1 : f16
  return
}

// -----

func.func @f() {
  // expected-error@below {{floating point literal is not valid for type i32}}
  %0 = arith.constant 1.5 : i32
  return
}

// -----

func.func @f() {
  // expected-error@below {{integer constant out of range for attribute type i8}}
  %0 = arith.constant 300 : i8
  return
}

// -----

func.func @f() {
  // expected-error@below {{inferred shape of elements literal ([3]) does not match type ([2])}}
  %0 = arith.constant dense<[1, 2, 3]> : tensor<2xi32>
  return
}

// -----

func.func @f() {
  // expected-error@below {{'arith.constant' op integer return type must be signless}}
  %0 = arith.constant 7 : si32
  return
}

// -----

func.func @f(%a: i32) {
  // expected-error@below {{expected one of the predicates eq, ne, slt, sle, sgt, sge, ult, ule, ugt, uge, got 'lt'}}
  %0 = arith.cmpi lt, %a, %a : i32
  return
}

// -----

func.func @f(%a: f32, %b: f16, %c: i32) {
  // expected-error@below {{'arith.extf' op operand type 'f32' and result type 'f16' are cast incompatible}}
  %0 = arith.extf %a : f32 to f16
  // expected-error@below {{'arith.truncf' op operand type 'f16' and result type 'f32' are cast incompatible}}
  %1 = arith.truncf %b : f16 to f32
  // expected-error@below {{'arith.extsi' op operand type 'i32' and result type 'i32' are cast incompatible}}
  %2 = arith.extsi %c : i32 to i32
  // expected-error@below {{'arith.bitcast' op operand type 'f32' and result type 'f16' are cast incompatible}}
  %3 = arith.bitcast %a : f32 to f16
  // expected-error@below {{'arith.index_cast' op operand #0 must be signless-integer-like, but got 'f16'}}
  %4 = arith.index_cast %b : f16 to index
  return
}

// -----

func.func @f(%c: i32, %a: f16) {
  // expected-error@below {{use of value '%c' expects different type than prior uses: 'i1' vs 'i32'}}
  %0 = arith.select %c, %a, %a : f16
  return
}

// -----

func.func @f(%a: tensor<4xf16>, %b: tensor<8xf16>) {
  // expected-error@below {{use of value '%a' expects different type than prior uses: 'tensor<8xf16>' vs 'tensor<4xf16>'}}
  %0 = arith.addf %a, %b : tensor<8xf16>  return
}

// -----

func.func @f(%a: f16) {
  // expected-error@below {{custom op 'arith.addd' is unknown}}
  %0 = arith.addd %a, %a : f16
  return
}

// -----

func.func @f(%a: i32) {
  // expected-error@+2 {{'math.exp' op operand #0 must be floating-point-like, but got 'i32'}}
  // expected-error@below {{'math.exp' op result #0 must be floating-point-like, but got 'i32'}}
  %0 = math.exp %a : i32
  return
}

// -----

func.func @f(%a: f16) {
  // expected-error@below {{expected one of: none, reassoc, nnan, ninf, nsz, arcp, contract, afn, fast, got 'quick'}}
  %0 = arith.addf %a, %a fastmath<quick> : f16
  return
}

// -----

func.func @f() {
  // expected-error@below {{'1e3' is not a number}}
  %0 = arith.constant 1e3 : f16
  return
}
