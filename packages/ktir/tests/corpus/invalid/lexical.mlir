// Lexical.
// expected-error@below {{expected '"' at the end of the string literal}}
func.func @f() attributes {s = "no end} {
  return
}

// -----

// expected-error@below {{unknown escape in string literal}}
func.func private @f() attributes {s = "bad \q escape"}

// -----

// expected-error@below {{unexpected character '$'}}
func.func @f() { $ }

// -----

func.func @f() {
  return
// expected-error@below {{expected an operation, got '/'}}
} /* no such comment */

// -----

// expected-error@below {{expected '}' or ',' in attribute dictionary, got 'x'}}
func.func private @f() attributes {n = 0x}

// -----

// expected-error@below {{integer constant out of range for attribute type i64}}
func.func private @f() attributes {n = 99999999999999999999999 : i64}

// -----

// expected-error@below {{'1.0e' is not a number}}
func.func private @f() attributes {n = 1.0e : f32}

// -----

// expected-error@below {{expected ')' or ',' in list, got end of input}}
%0 = "a.b"() : () -> (index

// -----

// expected-error@below {{expected an integer or a floating-point literal, got '"x"'}}
func.func private @f() attributes {n = -"x"}

// -----

// expected-error@below {{duplicate key 'a' in dictionary attribute}}
func.func private @f() attributes {a = 1, a = 2}
