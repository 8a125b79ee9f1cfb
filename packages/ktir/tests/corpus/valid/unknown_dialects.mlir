// Operations, types and attributes of dialects that nobody knows, in generic form: kept as they are.
%top = "probe.source"() : () -> !probe.stream<tensor<4xf16>, [1, {nested = "x"}], (a) -> b>
"probe.region"(%top) <{prop = 1 : i32}> ({
^entry(%a: !probe.handle, %b: i32):
  "probe.jump"(%b)[^next, ^end] : (i32) -> ()
^next:
  "probe.back"()[^end] : () -> ()
^end:
  "probe.stop"() {why = #probe.reason<"done", 3>, map = affine_map<(d0) -> (d0)>} : () -> ()
}, {
}) {disc} : (!probe.stream<tensor<4xf16>, [1, {nested = "x"}], (a) -> b>) -> ()
func.func @touch(%v: memref<4xf16>, %i: index) -> !probe.handle attributes {probe.flag} {
  %0:2 = "probe.touch"(%v, %i) : (memref<4xf16>, index) -> (index, !probe.handle)
  "probe.use"(%0#0) : (index) -> ()
  return %0#1 : !probe.handle
}
