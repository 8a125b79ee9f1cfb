// Aliases.
#a = affine_map<(i) -> (i)>
// expected-error@below {{redefinition of attribute alias id 'a'}}
#a = affine_map<(i, j) -> (i)>

// -----

// expected-error@below {{undefined symbol alias id 'late'}}
func.func private @f() attributes {m = #late}
#late = affine_map<(i) -> (i)>

// -----

!t = index
// expected-error@below {{redefinition of type alias id 't'}}
!t = i32

// -----

// expected-error@below {{undefined symbol alias id 'nothing'}}
func.func private @f(!nothing)

// -----

// expected-error@below {{attribute names with a '.' are reserved for dialect-defined names}}
#a.b = 1 : i32

// -----

// expected-error@below {{expected an attribute, got end of input}}
#a = 

// -----

// expected-error@below {{undefined symbol alias id 'nowhere'}}
func.func private @f() loc(#nowhere)

// -----

// expected-error@below {{location alias 'l' refers to itself}}
#l = loc(#l)
