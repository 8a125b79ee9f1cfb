// Builtin attributes in all their forms.
module attributes {a.unit, a.int = 7, a.neg = -3 : i8, a.hex = 0xFF : i32, a.big = 18446744073709551615 : ui64, a.f = 1.5, a.f16 = 0x7C00 : f16, a.bf = -2.5e-1 : bf16, a.nan = 0x7FC00000 : f32, a.f64 = 1.0e300 : f64,
  a.true = true, a.false = false, a.str = "tab\09quote\22 back\\slash", a.typed = "text" : !other.type, a.arr = [1, "two", 3.0 : f32, [], {}], a.dict = {x = 1 : index, "quoted key" = unit, y}, a.sym = @f, a.nested = @m::@"n o"::@p,
  a.type = memref<2x16xsi32>, a.fn = (tensor<bf16>, !ktdp.access_tile<index>) -> (), a.tuple = tuple<i1, tuple<>>, a.none = none, a.vec = vector<4x[8]xf32>, a.map = affine_map<(d0)[s0] -> (d0 floordiv 2 + s0 * 3, d0 mod 4, d0 ceildiv 8)>, a.set = affine_set<() : ()>,
  a.i64s = array<i64: 1, -2>, a.bools = array<i1: true, false>, a.empty = array<i32>, a.floats = array<f32: 1.0, 0x7F800000>, a.loc = loc("x":1:2), a.op = #other.thing<some = [nested, "text"], 4>, a.plain = #other.bare,
  a.dense = dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>, a.splat = dense<-1.5> : tensor<3x1x2xf16>, a.blob = dense<"0x0100000002000000"> : tensor<2xi32>, a.hexsplat = dense<0xFC00> : tensor<4xf16>, a.dbool = dense<[true, false]> : tensor<2xi1>, a.none_ = dense<> : tensor<0xi8>,
  a.resource = dense_resource<weights> : tensor<1024xf16>, a.strided = strided<[?, 1], offset: 3>, a.f8 = 1.0 : f8E4M3FN, a.index = dense<[8, 16, 64]> : tensor<3xindex>} {
  func.func @f() { return }
}
