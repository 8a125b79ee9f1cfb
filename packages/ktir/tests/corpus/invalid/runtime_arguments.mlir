// Runtime arguments.
func.func @f(%a: !ktdp.runtime_arg<index>, %b: !ktdp.runtime_arg<i32, granularity=8, upperbound=64>) {
  // expected-error@below {{'ktdp.runtime_arg_extract' op result type (i32) must match runtime_arg underlying type (index) when extracting value}}
  %0 = ktdp.runtime_arg_extract value from %a : <index> -> i32
  // expected-error@below {{'ktdp.runtime_arg_extract' op cannot extract granularity from runtime_arg that doesn't have one}}
  %1 = ktdp.runtime_arg_extract granularity from %a : <index> -> index
  // expected-error@below {{'ktdp.runtime_arg_extract' op cannot extract upperbound from runtime_arg that doesn't have one}}
  %2 = ktdp.runtime_arg_extract upperbound from %a : <index> -> i32
  // expected-error@below {{'ktdp.runtime_arg_extract' op result type must be index when extracting granularity, but got 'i32'}}
  %3 = ktdp.runtime_arg_extract granularity from %b : <i32, granularity=8, upperbound=64> -> i32
  // expected-error@below {{'ktdp.runtime_arg_extract' op result type must be index when extracting upperbound, but got 'f32'}}
  %4 = ktdp.runtime_arg_extract upperbound from %b : <i32, granularity=8, upperbound=64> -> f32
  return
}

// -----

func.func @f(%a: !ktdp.runtime_arg<index>) {
  // expected-error@below {{expected string or keyword containing one of the following enum values for attribute 'kind' [value, granularity, upperbound]}}
  %0 = ktdp.runtime_arg_extract size from %a : <index> -> index
  return
}

// -----

func.func @f(%a: index) {
  // expected-error@below {{use of value '%a' expects different type than prior uses: '!ktdp.runtime_arg<index>' vs 'index'}}
  %0 = ktdp.runtime_arg_extract value from %a : <index> -> index
  return
}

// -----

func.func @f(%a: !ktdp.runtime_arg<index>) {
  // expected-error@below {{use of value '%a' expects different type than prior uses: '!ktdp.runtime_arg<index, granularity=4>' vs '!ktdp.runtime_arg<index>'}}
  %0 = ktdp.runtime_arg_extract value from %a : <index, granularity=4> -> index
  return
}
