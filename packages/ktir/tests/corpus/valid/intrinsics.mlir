// Device intrinsics: every operation, older forms, kinds with and without angle brackets, types of pairs.
func.func @intrinsics(%h: f16, %d: !spyreop.df16, %f: f32, %i: i32, %l: i64, %s: tensor<64xf16>, %m: memref<4x!spyreop.fp16_fused>, %t: tensor<4x!spyreop.df16>) {
  %0 = spyreop.addi32toi32 %i, %i
  %1 = spyreop.addi64toi64 %l, %l
  %2 = spyreop.muli32toi32 %i, %0
  %3 = spyreop.idx32toaddr %i base %2 stride %0
  %4 = spyreop.idx32toaddr %i base 0x1000 stride 4
  %5 = spyreop.exp %h : f16
  %6 = spyreop.sqrt %d : !spyreop.df16
  %7 = spyreop.rsqrt %f : f32
  %8 = spyreop.reciprocal %f : f32
  %9 = spyreop.realdiv %h, %5 : f16
  %10 = spyreop.sigmoid %h : f16
  %11 = spyreop.silu %h : f16
  %12 = spyreop.gelu %d : !spyreop.df16
  %13 = spyreop.softplus %h beta 2.000000e-01 threshold 20.0 : f16
  %14 = spyreop.compare greaterthan %h, %5 : f16
  %15 = spyreop.compare <lesserequal> %f, %f : f32
  %16 = spyreop.select %14, %h, %5 : f16
  %17 = spyreop.constant 1.5 : f16
  %18:2 = spyreop.exx2 %h : f16
  %19 = spyreop.exx2_fused %h : f16 -> !spyreop.fp16_fused
  %20 = spyreop.exx2_zeromean_fused %d : !spyreop.df16 -> !spyreop.df16_fused
  %21 = spyreop.layernormscale %18#0 squares %18#1 : f16
  %22 = spyreop.layernormscale %h : f16
  %23 = spyreop.layernormscale_fused %19 : !spyreop.fp16_fused -> f16
  %24 = spyreop.layernormnorm %h squares %18#0 scale %21 weight %h bias %h : f16
  %25 = spyreop.slice_reduction %s {reduction_kind = #spyreop.reduction_kind<abs_max>, reduction_scope = #spyreop.reduction_scope<across_slice>} : tensor<64xf16> -> tensor<64xf16>
  %26 = "spyreop.exp"(%h) {tag} : (f16) -> f16
  return
}
