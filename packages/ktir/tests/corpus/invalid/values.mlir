// Values.
func.func @f(%a: index) {
  // expected-error@below {{use of undeclared SSA value name}}
  %0 = arith.addi %a, %b : index
  return
}

// -----

func.func @f(%a: index) {
  // expected-error@below {{redefinition of SSA value '%a'}}
  %a = arith.constant 1 : index
  return
}

// -----

func.func @f(%a: index) {
  // expected-error@below {{use of value '%a' expects different type than prior uses: 'i32' vs 'index'}}
  %0 = arith.addi %a, %a : i32
  return
}

// -----

func.func @f(%a: index) {
  scf.for %i = %a to %a step %a {
    %x = arith.addi %i, %i : index
  }
  // expected-error@below {{use of undeclared SSA value name}}
  %y = arith.addi %x, %a : index
  return
}

// -----

func.func @f(%a: index) {
  // expected-error@below {{operand #0 does not dominate this use}}
  %0 = arith.addi %1, %a : index
  %1 = arith.addi %a, %a : index
  return
}

// -----

func.func @f() {
  %p:2 = ktdp.get_compute_tile_id : index, index
  // expected-error@below {{reference to invalid result number of '%p'}}
  %0 = arith.addi %p, %p#2 : index
  return
}

// -----

func.func @f(%a: index) {
  arith.addi %a, %a : index
  return
}
func.func @g(%a: index) {
  // expected-error@below {{'func.return' op has 1 operands, but enclosing function (@g) returns 0}}
  func.return %a : index
}

// -----

// expected-error@below {{redefinition of SSA value '%a'}}
func.func @f(%a: index, %a: index) {
  return
}
