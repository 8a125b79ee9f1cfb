// Affine expressions.
// expected-error@below {{non-affine expression: at least one of the multiply operands has to be either a constant or symbolic}}
#m = affine_map<(a, b) -> (a * b)>

// -----

// expected-error@below {{non-affine expression: right operand of floordiv has to be either a constant or symbolic}}
#m = affine_map<(a, b) -> (a floordiv b)>

// -----

// expected-error@below {{non-affine expression: right operand of mod has to be either a constant or symbolic}}
#m = affine_map<(a, b) -> (a mod (b + 1))>

// -----

// expected-error@below {{the divisor of ceildiv must be positive, but is 0}}
#m = affine_map<(a) -> (a ceildiv 0)>

// -----

// expected-error@below {{use of undeclared identifier 'b'}}
#m = affine_map<(a) -> (b)>

// -----

// expected-error@below {{redefinition of identifier 'a'}}
#m = affine_map<(a, a) -> (a)>

// -----

// expected-error@below {{redefinition of identifier 'a'}}
#m = affine_map<(a)[a] -> (a)>

// -----

// expected-error@below {{expected an affine operator, got '/'}}
#m = affine_map<(a) -> (a / 4)>

// -----

// expected-error@below {{expected '(', got 'a'}}
#m = affine_map<(a) -> a>

// -----

// expected-error@below {{the divisor of mod must be positive, but is -2}}
#m = affine_map<(a) -> (a mod -2)>

// -----

// expected-error@below {{non-affine expression: at least one of the multiply operands has to be either a constant or symbolic}}
#s = affine_set<(a) : (a * a >= 0)>
