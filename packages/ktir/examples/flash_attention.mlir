#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#set = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 2 >= 0, d1 >= 0, -d1 + 63 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set1 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 >= 0, d1 >= 0, -d1 + 191 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set2 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 >= 0, d1 >= 0, -d1 + 127 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set3 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 >= 0, d1 >= 0, -d1 + 31 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set4 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 >= 0, d1 >= 0, -d1 + 63 >= 0, d2 >= 0, -d2 + 63 >= 0)>
module {
  func.func @flash_attention(%q: index, %kT: index, %v: index, %o: index) attributes {grid = [4]} {
    %cst = arith.constant dense<1.250000e-01> : tensor<32x64xf16>
    %cst_0 = arith.constant dense<0xFC00> : tensor<32xf16>
    %cst_1 = arith.constant dense<0.000000e+00> : tensor<32xf16>
    %cst_2 = arith.constant dense<0.000000e+00> : tensor<32x64xf16>
    %c0 = arith.constant 0 : index
    %c3 = arith.constant 3 : index
    %c1 = arith.constant 1 : index
    %0 = ktdp.get_compute_tile_id : index
    %1 = ktdp.construct_memory_view %kT, sizes: [3, 64, 64], strides: [4096, 64, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<3x64x64xf16>
    %2 = ktdp.construct_memory_view %v, sizes: [1, 192, 64], strides: [12288, 64, 1] {coordinate_set = #set1, memory_space = #ktdp.memory_space<global>} : memref<1x192x64xf16>
    %3 = ktdp.construct_memory_view %q, sizes: [1, 128, 64], strides: [8192, 64, 1] {coordinate_set = #set2, memory_space = #ktdp.memory_space<global>} : memref<1x128x64xf16>
    %4 = ktdp.construct_access_tile %3[0, %0 * 32, 0] {access_tile_order = #map, access_tile_set = #set3} : memref<1x128x64xf16> -> !ktdp.access_tile<1x32x64xindex>
    %5 = ktdp.load %4 : <1x32x64xindex> -> tensor<1x32x64xf16>
    %collapsed = tensor.collapse_shape %5 [[0, 1], [2]] : tensor<1x32x64xf16> into tensor<32x64xf16>
    %6 = arith.mulf %collapsed, %cst : tensor<32x64xf16>
    %7:3 = scf.for %arg0 = %c0 to %c3 step %c1 iter_args(%arg1 = %cst_0, %arg2 = %cst_1, %arg3 = %cst_2) -> (tensor<32xf16>, tensor<32xf16>, tensor<32x64xf16>) {
      %12 = ktdp.construct_access_tile %1[%arg0, 0, 0] {access_tile_order = #map, access_tile_set = #set4} : memref<3x64x64xf16> -> !ktdp.access_tile<1x64x64xindex>
      %13 = ktdp.load %12 : <1x64x64xindex> -> tensor<1x64x64xf16>
      %collapsed_3 = tensor.collapse_shape %13 [[0, 1], [2]] : tensor<1x64x64xf16> into tensor<64x64xf16>
      %14 = linalg.matmul ins(%6, %collapsed_3 : tensor<32x64xf16>, tensor<64x64xf16>) outs(%cst_2 : tensor<32x64xf16>) -> tensor<32x64xf16>
      %reduced = linalg.reduce { arith.maximumf } ins(%14 : tensor<32x64xf16>) outs(%cst_0 : tensor<32xf16>) dimensions = [1] 
      %15 = arith.maximumf %arg1, %reduced : tensor<32xf16>
      %16 = arith.subf %arg1, %15 : tensor<32xf16>
      %17 = math.exp %16 : tensor<32xf16>
      %18 = tensor.empty() : tensor<32x64xf16>
      %broadcasted_4 = linalg.broadcast ins(%15 : tensor<32xf16>) outs(%18 : tensor<32x64xf16>) dimensions = [1] 
      %19 = arith.subf %14, %broadcasted_4 : tensor<32x64xf16>
      %20 = math.exp %19 : tensor<32x64xf16>
      %21 = ktdp.construct_access_tile %2[0, %arg0 * 64, 0] {access_tile_order = #map, access_tile_set = #set4} : memref<1x192x64xf16> -> !ktdp.access_tile<1x64x64xindex>
      %22 = ktdp.load %21 : <1x64x64xindex> -> tensor<1x64x64xf16>
      %collapsed_5 = tensor.collapse_shape %22 [[0, 1], [2]] : tensor<1x64x64xf16> into tensor<64x64xf16>
      %23 = arith.mulf %arg2, %17 : tensor<32xf16>
      %reduced_6 = linalg.reduce { arith.addf } ins(%20 : tensor<32x64xf16>) outs(%cst_1 : tensor<32xf16>) dimensions = [1] 
      %24 = arith.addf %23, %reduced_6 : tensor<32xf16>
      %broadcasted_7 = linalg.broadcast ins(%17 : tensor<32xf16>) outs(%18 : tensor<32x64xf16>) dimensions = [1] 
      %25 = arith.mulf %arg3, %broadcasted_7 : tensor<32x64xf16>
      %26 = linalg.matmul ins(%20, %collapsed_5 : tensor<32x64xf16>, tensor<64x64xf16>) outs(%25 : tensor<32x64xf16>) -> tensor<32x64xf16>
      scf.yield %15, %24, %26 : tensor<32xf16>, tensor<32xf16>, tensor<32x64xf16>
    }
    %8 = tensor.empty() : tensor<32x64xf16>
    %broadcasted = linalg.broadcast ins(%7#1 : tensor<32xf16>) outs(%8 : tensor<32x64xf16>) dimensions = [1] 
    %9 = arith.divf %7#2, %broadcasted : tensor<32x64xf16>
    %expanded = tensor.expand_shape %9 [[0, 1], [2]] output_shape [1, 32, 64] : tensor<32x64xf16> into tensor<1x32x64xf16>
    %10 = ktdp.construct_memory_view %o, sizes: [1, 128, 64], strides: [8192, 64, 1] {coordinate_set = #set2, memory_space = #ktdp.memory_space<global>} : memref<1x128x64xf16>
    %11 = ktdp.construct_access_tile %10[0, %0 * 32, 0] {access_tile_order = #map, access_tile_set = #set3} : memref<1x128x64xf16> -> !ktdp.access_tile<1x32x64xindex>
    ktdp.store %expanded, %11 : tensor<1x32x64xf16>, <1x32x64xindex>
    return
  }
}
