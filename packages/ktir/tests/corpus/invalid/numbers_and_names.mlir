// Numbers and names.
func.func @f(%p: index, %n: index) {
  // expected-error@+2 {{'1e3' is not a number}}
  // expected-note@below {{a floating-point literal has a '.', and digits behind the 'e': such as 1.0e3}}
  %0 = arith.constant -1e3 : f32
  return
}

// -----

// expected-error@+2 {{expected a type, got 'fp32'}}
// expected-note@below {{here it is called f32}}
func.func private @f(tensor<4xfp32>, i32)

// -----

// expected-error@+2 {{expected a type, got 'bfloat16'}}
// expected-note@below {{here it is called bf16}}
func.func private @f(tensor<4xbfloat16>)

// -----

// expected-error@+2 {{expected a type, got 'int64'}}
// expected-note@below {{here it is called i64}}
func.func private @f(int64)

// -----

func.func @f(%p: index, %n: index) {
  // expected-error@+2 {{custom op 'addi' is unknown}}
  // expected-note@below {{did you mean 'arith.addi'?}}
  %0 = addi %n, %n : index
  return
}
