// Everything in generic form: inherent attributes in <{...}>, and in {...} as older printers write them.
#s = affine_set<(d0, d1) : (d0 >= 0, -d0 + 63 >= 0, d1 >= 0, -d1 + 63 >= 0)>
"builtin.module"() ({
  "func.func"() <{function_type = (index, index) -> (), sym_name = "generic"}> ({
  ^bb0(%a: index, %n: index):
    %0 = "ktdp.construct_memory_view"(%a, %n) <{coordinate_set = affine_set<(d0, d1)[s0] : (d0 >= 0, -d0 + s0 - 1 >= 0, d1 >= 0, -d1 + 63 >= 0)>, memory_space = #ktdp.memory_space<global>, operandSegmentSizes = array<i32: 1, 1, 0>, static_sizes = array<i64: -9223372036854775808, 64>, static_strides = array<i64: 64, 1>}> : (index, index) -> memref<?x64xf16>
    %1 = "ktdp.construct_memory_view"(%a) {coordinate_set = #s, memory_space = #ktdp.spyre_memory_space<HBM>, operandSegmentSizes = array<i32: 1, 0, 0>, static_sizes = array<i64: 64, 64>, static_strides = array<i64: 64, 1>} : (index) -> memref<64x64xf16>
    %2 = "ktdp.construct_access_tile"(%1, %n) <{access_tile_order = affine_map<(d0, d1) -> (d0, d1)>, access_tile_set = #s, base_map = affine_map<(d0) -> (d0, 0)>, operandSegmentSizes = array<i32: 1, 1, 0>}> : (memref<64x64xf16>, index) -> !ktdp.access_tile<64x64xindex>
    %3 = "ktdp.load"(%2) : (!ktdp.access_tile<64x64xindex>) -> tensor<64x64xf16>
    %4 = "arith.constant"() <{value = 1.0 : f16}> : () -> f16
    %5 = "tensor.splat"(%4) : (f16) -> tensor<64x64xf16>
    %6 = "arith.addf"(%3, %5) <{fastmath = #arith.fastmath<contract>}> : (tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf16>
    %7 = "arith.constant"() {value = 0 : index} : () -> index
    %8 = "arith.addi"(%7, %n) <{overflowFlags = #arith.overflow<nsw>}> : (index, index) -> index
    %9 = "arith.cmpi"(%7, %8) <{predicate = 6 : i64}> : (index, index) -> i1
    "scf.if"(%9) ({
      "ktdp.store"(%6, %2) : (tensor<64x64xf16>, !ktdp.access_tile<64x64xindex>) -> ()
      "scf.yield"() : () -> ()
    }, {
    }) : (i1) -> ()
    %10 = "tensor.empty"() : () -> tensor<64xf16>
    %11 = "linalg.reduce"(%6, %10) <{dimensions = array<i64: 1>}> ({
    ^bb0(%x: f16, %y: f16):
      %z = "arith.maxnumf"(%x, %y) <{fastmath = #arith.fastmath<none>}> : (f16, f16) -> f16
      "linalg.yield"(%z) : (f16) -> ()
    }) : (tensor<64x64xf16>, tensor<64xf16>) -> tensor<64xf16>
    %12 = "scf.for"(%7, %n, %8, %10) ({
    ^bb0(%i: index, %acc: tensor<64xf16>):
      "scf.yield"(%acc) : (tensor<64xf16>) -> ()
    }) : (index, index, index, tensor<64xf16>) -> tensor<64xf16>
    "func.return"() : () -> ()
  }) {grid = [1 : i64]} : () -> ()
}) : () -> ()
