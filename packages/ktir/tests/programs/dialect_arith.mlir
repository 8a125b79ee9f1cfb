// RUN levels: V
func.func @f(%a: index, %x: f16, %t: tensor<4xf16>, %v: vector<4xf32>, %i: i8) {
  %b = arith.muli %a, %a overflow<nsw, nuw> {foo} : index
  %l = arith.addf %x, %x fastmath<contract> : f16
  %m = arith.cmpi ult, %a, %b : index
  %n = arith.cmpf une, %t, %t : tensor<4xf16>
  %o = arith.select %n, %t, %t : tensor<4xi1>, tensor<4xf16>
  %q = arith.select %m, %t, %t : tensor<4xf16>
  %r = arith.truncf %v : vector<4xf32> to vector<4xbf16>
  %s = arith.bitcast %x : f16 to i16
  %u = arith.extui %i : i8 to i32
  %w = math.fma %x, %l, %x : f16
  %y = affine.apply affine_map<(d0)[s0] -> (d0 * 16 + s0)>(%a)[%b]
  return
}
