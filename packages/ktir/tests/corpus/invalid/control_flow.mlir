// Control flow.
func.func @f(%p: index, %n: index) {
  // expected-error@below {{use of value '%p' expects different type than prior uses: 'i32' vs 'index'}}
  %0 = scf.for %i = %n to %n step %n iter_args(%a = %p) -> (i32) {
    scf.yield %a : i32
  }
  return
}

// -----

func.func @f(%p: index, %n: index) {
  // expected-error@below {{'scf.for' op along control flow edge from Operation scf.yield to parent: source has 0 operands, but target successor needs 1}}
  %0 = scf.for %i = %n to %n step %n iter_args(%a = %p) -> (index) {
  }
  return
}

// -----

func.func @f(%p: index, %n: index) {
  // expected-error@below {{'scf.for' op along control flow edge from Operation scf.yield to parent: source has 1 operands, but target successor needs 2}}
  %0:2 = scf.for %i = %n to %n step %n iter_args(%a = %p, %b = %p) -> (index, index) {
    scf.yield %a : index
  }
  return
}

// -----

func.func @f(%n: index, %h: i32) {
  // expected-error@below {{use of value '%h' expects different type than prior uses: 'index' vs 'i32'}}
  scf.for %i = %n to %h step %n {
  }
  return
}

// -----

func.func @f(%c: i1, %n: index) {
  // expected-error@below {{'scf.if' op must have an else block if defining values}}
  %0 = scf.if %c -> (index) {
    scf.yield %n : index
  }
  return
}

// -----

func.func @f(%n: index) {
  // expected-error@below {{use of value '%n' expects different type than prior uses: 'i1' vs 'index'}}
  scf.if %n {
  }
  return
}

// -----

func.func @f(%c: i1, %n: index) {
  // expected-error@below {{'scf.if' op along control flow edge from Operation scf.yield to parent: source has 0 operands, but target successor needs 1}}
  %0 = scf.if %c -> (index) {
    scf.yield %n : index
  } else {
    scf.yield
  }
  return
}

// -----

func.func @f(%p: index, %n: index) {
  // expected-error@+2 {{'scf.yield' op must be the last operation in the parent block}}
  // expected-error@below {{'scf.yield' op expects parent op to be one of 'scf.for, scf.if, scf.while'}}
  scf.yield
  return
}

// -----

func.func @f(%p: index, %n: index) {
  // expected-error@below {{'scf.while' op expects the 'before' region to terminate with 'scf.condition'}}
  scf.while : () -> () {
    scf.yield
  } do {
    scf.yield
  }
  return
}

// -----

func.func @f(%p: index, %n: index) {
  // expected-error@below {{expected 'step' behind the upper bound, got '{'}}
  scf.for %i = %n to %n {
  }
  return
}

// -----

func.func @f(%x: f32) {
  // expected-error@+3 {{'scf.for' op operand #0 must be signless integer or index, but got 'f32'}}
  // expected-error@+2 {{'scf.for' op operand #1 must be signless integer or index, but got 'f32'}}
  // expected-error@below {{'scf.for' op operand #2 must be signless integer or index, but got 'f32'}}
  scf.for %i = %x to %x step %x : f32 {
  }
  return
}
