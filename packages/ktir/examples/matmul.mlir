#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#set = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 2 >= 0, d1 >= 0, -d1 + 31 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set1 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 3 >= 0, d1 >= 0, -d1 + 191 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set2 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 >= 0, d1 >= 0, -d1 + 15 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set3 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 >= 0, d1 >= 0, -d1 + 63 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set4 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 3 >= 0, d1 >= 0, -d1 + 31 >= 0, d2 >= 0, -d2 + 63 >= 0)>
module {
  func.func @matmul(%x: index, %w: index, %y: index) attributes {grid = [4, 2]} {
    %cst = arith.constant dense<0.000000e+00> : tensor<16x64xf16>
    %c0 = arith.constant 0 : index
    %c3 = arith.constant 3 : index
    %c1 = arith.constant 1 : index
    %0:2 = ktdp.get_compute_tile_id : index, index
    %1 = ktdp.construct_memory_view %x, sizes: [3, 32, 64], strides: [2048, 64, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<3x32x64xf16>
    %2 = ktdp.construct_memory_view %w, sizes: [4, 192, 64], strides: [12288, 64, 1] {coordinate_set = #set1, memory_space = #ktdp.memory_space<global>} : memref<4x192x64xf16>
    %3 = scf.for %arg0 = %c0 to %c3 step %c1 iter_args(%arg1 = %cst) -> (tensor<16x64xf16>) {
      %6 = ktdp.construct_access_tile %1[%arg0, %0#1 * 16, 0] {access_tile_order = #map, access_tile_set = #set2} : memref<3x32x64xf16> -> !ktdp.access_tile<1x16x64xindex>
      %7 = ktdp.load %6 : <1x16x64xindex> -> tensor<1x16x64xf16>
      %collapsed = tensor.collapse_shape %7 [[0, 1], [2]] : tensor<1x16x64xf16> into tensor<16x64xf16>
      %8 = ktdp.construct_access_tile %2[%0#0, %arg0 * 64, 0] {access_tile_order = #map, access_tile_set = #set3} : memref<4x192x64xf16> -> !ktdp.access_tile<1x64x64xindex>
      %9 = ktdp.load %8 : <1x64x64xindex> -> tensor<1x64x64xf16>
      %collapsed_0 = tensor.collapse_shape %9 [[0, 1], [2]] : tensor<1x64x64xf16> into tensor<64x64xf16>
      %10 = linalg.matmul ins(%collapsed, %collapsed_0 : tensor<16x64xf16>, tensor<64x64xf16>) outs(%arg1 : tensor<16x64xf16>) -> tensor<16x64xf16>
      scf.yield %10 : tensor<16x64xf16>
    }
    %expanded = tensor.expand_shape %3 [[0, 1], [2]] output_shape [1, 16, 64] : tensor<16x64xf16> into tensor<1x16x64xf16>
    %4 = ktdp.construct_memory_view %y, sizes: [4, 32, 64], strides: [2048, 64, 1] {coordinate_set = #set4, memory_space = #ktdp.memory_space<global>} : memref<4x32x64xf16>
    %5 = ktdp.construct_access_tile %4[%0#0, %0#1 * 16, 0] {access_tile_order = #map, access_tile_set = #set2} : memref<4x32x64xf16> -> !ktdp.access_tile<1x16x64xindex>
    ktdp.store %expanded, %5 : tensor<1x16x64xf16>, <1x16x64xindex>
    return
  }
}
