// Functions.
func.func @f(%a: index) -> index {
  // expected-error@below {{'func.return' op has 0 operands, but enclosing function (@f) returns 1}}
  return
}

// -----

func.func @f(%a: index) -> i32 {
  // expected-error@below {{'func.return' op type of return operand 0 ('index') doesn't match function result type ('i32') in function @f}}
  return %a : index
}

// -----

// expected-error@below {{'func.func' op expects a non-empty block}}
func.func @f() {
}

// -----

func.func @f() {
  return
}
// expected-error@below {{redefinition of symbol named 'f'}}
func.func @f() {
  return
}

// -----

func.func @f() {
  // expected-error@below {{'func.call' op 'g' does not reference a valid function}}
  call @g() : () -> ()
  return
}

// -----

func.func private @g(index)
func.func @f() {
  // expected-error@below {{'func.call' op incorrect number of operands for callee}}
  call @g() : () -> ()
  return
}

// -----

// expected-error@below {{'func.func' op external functions must have private visibility}}
func.func @f()

// -----

// expected-error@below {{expected symbol name, got 'f'}}
func.func f() {
  return
}

// -----

func.func @f() {
  // expected-error@below {{expected '}' to end a region, got end of input}}
  return

// -----

func.func @f() {
  return
}
// expected-error@below {{expected an operation, got '}'}}
}

// -----

func.func @f() {
  return
  // expected-error@below {{expected ':', got '='}}
  %0 = arith.constant 1 : index
}
