// Intrinsics.
func.func @f(%i: i32) {
  // expected-error@+2 {{'spyreop.exp' op operand #0 must be 16-bit float or IBM df16 float or 32-bit float, but got 'i32'}}
  // expected-error@below {{'spyreop.exp' op result #0 must be 16-bit float or IBM df16 float or 32-bit float, but got 'i32'}}
  %0 = spyreop.exp %i : i32
  return
}

// -----

func.func @f(%h: f16) {
  // expected-error@below {{'spyreop.softplus' op attribute 'beta' failed to satisfy constraint: 32-bit float attribute which is non-zero}}
  %0 = spyreop.softplus %h beta 0.0 threshold 20.0 : f16
  return
}

// -----

func.func @f(%h: f16) {
  // expected-error@below {{'spyreop.exx2_fused' op failed to infer returned types: inferred type(s) '!spyreop.fp16_fused' are incompatible with return type(s) of operation '!spyreop.fp32_fused'}}
  %0 = spyreop.exx2_fused %h : f16 -> !spyreop.fp32_fused
  return
}

// -----

func.func @f() {
  // expected-error@below {{'spyreop.constant' op result #0 must be 16-bit float or 32-bit float, but got 'i32'}}
  %0 = spyreop.constant 1 : i32
  return
}

// -----

func.func @f(%f: f32) {
  // expected-error@+2 {{'spyreop.gelu' op operand #0 must be 16-bit float or IBM df16 float, but got 'f32'}}
  // expected-error@below {{'spyreop.gelu' op result #0 must be 16-bit float or IBM df16 float, but got 'f32'}}
  %0 = spyreop.gelu %f : f32
  return
}

// -----

func.func @f(%h: f16) {
  // expected-error@below {{expected compare kind to be one of: equal, notequal, greaterthan, greaterequal, lesserthan, lesserequal, got 'bigger'}}
  %0 = spyreop.compare bigger %h, %h : f16
  return
}

// -----

func.func @f(%h: f16, %f: f32) {
  // expected-error@below {{use of value '%f' expects different type than prior uses: 'f16' vs 'f32'}}
  %0 = spyreop.realdiv %h, %f : f16
  return
}

// -----

func.func @f(%i: i32, %l: i64) {
  // expected-error@below {{use of value '%l' expects different type than prior uses: 'i32' vs 'i64'}}
  %0 = spyreop.addi32toi32 %i, %l
  return
}

// -----

func.func @f(%s: tensor<64xf16>) {
  // expected-error@below {{expected reduction kind to be one of: add, sub, max, min, mul, abs_max, got 'mean'}}
  %0 = spyreop.slice_reduction %s {reduction_kind = #spyreop.reduction_kind<mean>, reduction_scope = #spyreop.reduction_scope<in_slice>} : tensor<64xf16> -> tensor<64xf16>
  return
}

// -----

func.func @f(%s: tensor<32xf16>) {
  // expected-error@+2 {{'spyreop.slice_reduction' op operand #0 must be 1D tensor of 64 16-bit float values, but got 'tensor<32xf16>'}}
  // expected-error@below {{'spyreop.slice_reduction' op result #0 must be 1D tensor of 64 16-bit float values, but got 'tensor<32xf16>'}}
  %0 = spyreop.slice_reduction %s {reduction_kind = #spyreop.reduction_kind<add>, reduction_scope = #spyreop.reduction_scope<in_slice>} : tensor<32xf16> -> tensor<32xf16>
  return
}

// -----

func.func @f(%h: f16, %f: f32) {
  // expected-error@below {{'spyreop.realdiv' op requires the same type for all operands and results}}
  %0 = "spyreop.realdiv"(%h, %f) : (f16, f32) -> f16
  return
}

// -----

func.func @f(%h: f16) {
  // expected-error@below {{'spyreop.layernormscale_fused' op operand #0 must be A pair of df16 floats held as one value or A pair of 16-bit floats held as one value or A pair of 32-bit floats held as one value, but got 'f16'}}
  %0 = spyreop.layernormscale_fused %h : f16 -> f16
  return
}

// -----

func.func @f(%t: tensor<4xf16>) {
  // expected-error@+2 {{'spyreop.exp' op operand #0 must be 16-bit float or IBM df16 float or 32-bit float, but got 'tensor<4xf16>'}}
  // expected-error@below {{'spyreop.exp' op result #0 must be 16-bit float or IBM df16 float or 32-bit float, but got 'tensor<4xf16>'}}
  %0 = spyreop.exp %t : tensor<4xf16>
  return
}
