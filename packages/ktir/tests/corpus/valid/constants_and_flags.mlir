// Literals of every type, fast-math and overflow flags, all predicates, rounding of casts.
// RUN: VL
func.func @constants(%a: f16, %b: f16, %i: i32, %j: i32, %t: tensor<4xf32>) {
  %0 = arith.constant 7 : index
  %1 = arith.constant true
  %2 = arith.constant -2.5 : f32
  %3 = arith.constant 0xFC00 : f16
  %4 = arith.constant 0xFF800000 : i32
  %5 = arith.constant dense<0.0> : tensor<20xf32>
  %6 = arith.constant dense<[8, 16, 64]> : tensor<3xindex>
  %7 = arith.constant {note = "kept"} -1 : i64
  %8 = arith.constant 1.e+2 : bf16
  %9 = arith.constant dense<[[true, false]]> : tensor<1x2xi1>
  %10 = arith.constant 0x80 : i8
  %11 = arith.constant dense<"0x00800100"> : tensor<2xi16>
  %12 = arith.addf %a, %b fastmath<fast> : f16
  %13 = arith.mulf %a, %b fastmath<nnan, ninf,nsz , contract> {x} : f16
  %14 = arith.negf %a fastmath<none> : f16
  %15 = arith.addi %i, %j overflow<nsw> : i32
  %16 = arith.shli %i, %j overflow<nsw, nuw> : i32
  %17 = arith.cmpf olt, %a, %b fastmath<reassoc> : f16
  %18 = arith.cmpi sge, %i, %j : i32
  %19 = arith.select %18, %a, %b : f16
  %20 = arith.cmpf une, %t, %t : tensor<4xf32>
  %21 = arith.select %20, %t, %t : tensor<4xi1>, tensor<4xf32>
  %22 = arith.select %1, %t, %t : tensor<4xf32>
  %23 = math.exp %t fastmath<afn> : tensor<4xf32>
  %24 = math.fma %t, %t, %t : tensor<4xf32>
  %25 = math.powf %t, %t : tensor<4xf32>
  %26 = arith.truncf %t : tensor<4xf32> to tensor<4xbf16>
  %27 = arith.fptosi %t : tensor<4xf32> to tensor<4xi8>
  %28 = arith.bitcast %t : tensor<4xf32> to tensor<4xi32>
  %29 = arith.index_castui %i : i32 to index
  %30 = arith.ceildivui %i, %j : i32
  %31 = arith.divsi %i, %j : i32
  %32 = arith.remui %0, %0 : index
  %33 = math.absi %i : i32
  return
}
