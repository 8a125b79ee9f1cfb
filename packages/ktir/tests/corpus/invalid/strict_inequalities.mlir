// Constraints of sets are >=, <= and ==.
// expected-error@+2 {{expected '>=', '<=' or '==' in affine constraint, got '<'}}
// expected-note@below {{a < b is written a <= b - 1}}
#s = affine_set<(d0) : (d0 < 4)>

// -----

// expected-error@+2 {{expected '>=', '<=' or '==' in affine constraint, got '>'}}
// expected-note@below {{a < b is written a <= b - 1}}
#s = affine_set<(d0) : (d0 >= 0, 4 > d0)>

// -----

// expected-error@below {{expected a type name behind '!'}}
#s = affine_set<(d0) : (d0 != 4)>

// -----

// expected-error@below {{expected '>=', '<=' or '==' in affine constraint, got '='}}
#s = affine_set<(d0) : (d0 = 4)>

// -----

// expected-error@below {{expected '>=', '<=' or '==' in affine constraint, got ')'}}
#s = affine_set<(d0) : (d0)>
