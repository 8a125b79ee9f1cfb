// Named structured operations: ins on a new line, blanks inside, no blank before the colon, mixed precision, memrefs.
func.func @named(%x: tensor<8x16xf16>, %y: tensor<8x16xf16>, %w: tensor<16x4xf16>, %o: tensor<8x4xf32>, %b: tensor<2x8x16xf16>, %c: tensor<2x16x4xf16>,
                 %d: tensor<2x8x4xf16>, %v: tensor<16xf16>, %s: f16, %m: memref<8x16xf16>, %n: memref<8x16xf16>, %u: tensor<8xf16>) {
  %e = tensor.empty() : tensor<8x16xf16>
  %0 = linalg.add ins(%x, %y : tensor<8x16xf16>, tensor<8x16xf16>) outs(%e: tensor<8x16xf16>) -> tensor<8x16xf16>
  %1 = linalg.sub
         ins( %x , %y : tensor<8x16xf16>, tensor<8x16xf16> )
         outs( %e : tensor<8x16xf16> )
       -> tensor<8x16xf16>
  %2 = linalg.mul ins(%x, %y : tensor<8x16xf16>, tensor<8x16xf16>) outs(%x : tensor<8x16xf16>) {tag = "a"} -> tensor<8x16xf16>
  %3 = linalg.div {tag = "b"} ins(%x, %y : tensor<8x16xf16>, tensor<8x16xf16>) outs(%e : tensor<8x16xf16>) -> tensor<8x16xf16>
  %4 = linalg.max ins(%x, %y : tensor<8x16xf16>, tensor<8x16xf16>) outs(%e : tensor<8x16xf16>) -> tensor<8x16xf16>
  %5 = linalg.min ins(%x, %y : tensor<8x16xf16>, tensor<8x16xf16>) outs(%e : tensor<8x16xf16>) -> tensor<8x16xf16>
  %6 = linalg.exp ins(%x : tensor<8x16xf16>) outs(%e : tensor<8x16xf16>) -> tensor<8x16xf16>
  %7 = linalg.log ins(%x : tensor<8x16xf16>) outs(%e : tensor<8x16xf16>) -> tensor<8x16xf16>
  %8 = linalg.abs ins(%x : tensor<8x16xf16>) outs(%e : tensor<8x16xf16>) -> tensor<8x16xf16>
  %9 = linalg.negf ins(%x : tensor<8x16xf16>) outs(%e : tensor<8x16xf16>) -> tensor<8x16xf16>
  %10 = linalg.sqrt ins(%x : tensor<8x16xf16>) outs(%e : tensor<8x16xf16>) -> tensor<8x16xf16>
  %11 = linalg.rsqrt ins(%x : tensor<8x16xf16>) outs(%e : tensor<8x16xf16>) -> tensor<8x16xf16>
  %12 = linalg.square ins(%x : tensor<8x16xf16>) outs(%e : tensor<8x16xf16>) -> tensor<8x16xf16>
  %13 = linalg.tanh ins(%x : tensor<8x16xf16>) outs(%e : tensor<8x16xf16>) -> tensor<8x16xf16>
  %14 = linalg.erf ins(%x : tensor<8x16xf16>) outs(%e : tensor<8x16xf16>) -> tensor<8x16xf16>
  %15 = linalg.reciprocal ins(%x : tensor<8x16xf16>) outs(%e : tensor<8x16xf16>) -> tensor<8x16xf16>
  %16 = linalg.floor ins(%x : tensor<8x16xf16>) outs(%e : tensor<8x16xf16>) -> tensor<8x16xf16>
  %17 = linalg.ceil ins(%x : tensor<8x16xf16>) outs(%e : tensor<8x16xf16>) -> tensor<8x16xf16>
  %18 = linalg.powf ins(%x, %y : tensor<8x16xf16>, tensor<8x16xf16>) outs(%e : tensor<8x16xf16>) -> tensor<8x16xf16>
  %19 = linalg.fill ins(%s : f16) outs(%e : tensor<8x16xf16>) -> tensor<8x16xf16>
  %20 = linalg.copy ins(%x : tensor<8x16xf16>) outs(%e : tensor<8x16xf16>) -> tensor<8x16xf16>
  %21 = linalg.matmul ins(%x, %w : tensor<8x16xf16>, tensor<16x4xf16>) outs(%o : tensor<8x4xf32>) -> tensor<8x4xf32>
  %22 = linalg.batch_matmul ins(%b, %c : tensor<2x8x16xf16>, tensor<2x16x4xf16>) outs(%d : tensor<2x8x4xf16>) -> tensor<2x8x4xf16>
  %23 = linalg.matvec ins(%x, %v : tensor<8x16xf16>, tensor<16xf16>) outs(%u : tensor<8xf16>) -> tensor<8xf16>
  %24 = linalg.vecmat ins(%u, %x : tensor<8xf16>, tensor<8x16xf16>) outs(%v : tensor<16xf16>) -> tensor<16xf16>
  %z = tensor.splat %s : tensor<f16>
  %25 = linalg.dot ins(%v, %v : tensor<16xf16>, tensor<16xf16>) outs(%z : tensor<f16>) -> tensor<f16>
  linalg.add ins(%m, %n : memref<8x16xf16>, memref<8x16xf16>) outs(%n : memref<8x16xf16>)
  linalg.fill ins(%s : f16) outs(%m : memref<8x16xf16>)
  return
}
