// Attributes.
// expected-error@below {{inferred shape of elements literal ([2]) does not match type ([3])}}
func.func private @f() attributes {a = dense<[1, 2]> : tensor<3xi32>}

// -----

// expected-error@below {{tensor literal is invalid; ranks are not consistent between elements}}
func.func private @f() attributes {a = dense<[[1], [2, 3]]> : tensor<2x2xi32>}

// -----

// expected-error@below {{elements hex data size is invalid for provided type: tensor<2xi32>}}
func.func private @f() attributes {a = dense<"0x01"> : tensor<2xi32>}

// -----

// expected-error@below {{integer constant out of range for attribute type i8}}
func.func private @f() attributes {a = 300 : i8}

// -----

// expected-error@below {{expected '}' or ',' in attribute dictionary, got ':'}}
func.func private @f() attributes {a = true : f16}

// -----

// expected-error@below {{floating point literal is not valid for type i64}}
func.func private @f() attributes {a = array<i64: 1.5>}

// -----

// expected-error@below {{expected a type, got 'x'}}
func.func private @f() attributes {a = array<x: 1>}

// -----

// expected-error@below {{floating point literal is not valid for type i32}}
func.func private @f() attributes {a = 1.5 : i32}

// -----

// expected-error@below {{expected ']' or ',' in list, got '}'}}
func.func private @f() attributes {a = [1, 2}

// -----

// expected-error@below {{use of undeclared identifier 'd1'}}
func.func private @f() attributes {a = affine_map<(d0) -> (d1)>}

// -----

// expected-error@below {{elements literal must be a shaped type of static extents}}
func.func private @f() attributes {a = dense<1.0> : memref<4xf16>}
