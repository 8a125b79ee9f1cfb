// Arguments known at launch: keywords in either order, an upper bound that is no multiple, short and long types.
// RUN: VLS
func.func @promised(%a: !ktdp.runtime_arg<index>, %b: !ktdp.runtime_arg<index, upperbound=300, granularity=3>,
                    %c: !ktdp.runtime_arg<i32, granularity = 32, upperbound = 300>, %d: !ktdp.runtime_arg<f16>) -> index {
  %0 = ktdp.runtime_arg_extract value from %a : <index> -> index
  %1 = ktdp.runtime_arg_extract value from %b : !ktdp.runtime_arg<index, upperbound=300, granularity=3> -> index
  %2 = ktdp.runtime_arg_extract granularity from %b : <index, granularity=3, upperbound=300> -> index
  %3 = ktdp.runtime_arg_extract upperbound from %c : <i32, granularity=32, upperbound=300> {note} -> index
  %4 = ktdp.runtime_arg_extract value from %c : <i32, granularity=32, upperbound=300> -> i32
  %5 = ktdp.runtime_arg_extract value from %d : <f16> -> f16
  %6 = "ktdp.runtime_arg_extract"(%b) <{kind = 2 : i32}> : (!ktdp.runtime_arg<index, granularity=3, upperbound=300>) -> index
  return %6 : index
}
