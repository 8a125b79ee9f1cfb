#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1) -> (d0, d1)>
#set = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 2 >= 0, d1 >= 0, -d1 + 31 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set1 = affine_set<(d0, d1, d2) : (d0 >= 0, -d0 + 2 >= 0, d1 >= 0, -d1 + 7 >= 0, d2 >= 0, -d2 + 63 >= 0)>
#set2 = affine_set<(d0, d1) : (d0 >= 0, -d0 + 31 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#set3 = affine_set<(d0, d1) : (d0 >= 0, -d0 + 7 >= 0, d1 >= 0, -d1 >= 0)>
module {
  func.func @masked_row_max(%x: index, %y: index) attributes {grid = [4]} {
    %cst = arith.constant dense<0xFC00> : tensor<8xf16>
    %0 = ktdp.get_compute_tile_id : index
    %1 = ktdp.construct_memory_view %x, sizes: [3, 32, 64], strides: [2048, 64, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<3x32x64xf16>
    %2 = ktdp.construct_access_tile %1[0, %0 * 8, 0] {access_tile_order = #map, access_tile_set = #set1} : memref<3x32x64xf16> -> !ktdp.access_tile<3x8x64xindex>
    %3 = ktdp.load %2 : <3x8x64xindex> -> tensor<3x8x64xf16>
    %4 = tensor.empty() : tensor<3x8x64xf16>
    %5 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%3 : tensor<3x8x64xf16>) outs(%4 : tensor<3x8x64xf16>) {
    ^bb0(%in: f16, %out: f16):
      %c64 = arith.constant 64 : index
      %c130 = arith.constant 130 : index
      %cst_0 = arith.constant 0xFC00 : f16
      %8 = linalg.index 0 : index
      %9 = linalg.index 2 : index
      %10 = arith.muli %8, %c64 : index
      %11 = arith.addi %10, %9 : index
      %12 = arith.cmpi slt, %11, %c130 : index
      %13 = arith.select %12, %in, %cst_0 : f16
      linalg.yield %13 : f16
    } -> tensor<3x8x64xf16>
    %reduced = linalg.reduce { arith.maximumf } ins(%5 : tensor<3x8x64xf16>) outs(%cst : tensor<8xf16>) dimensions = [0, 2] 
    %expanded = tensor.expand_shape %reduced [[0, 1]] output_shape [8, 1] : tensor<8xf16> into tensor<8x1xf16>
    %6 = ktdp.construct_memory_view %y, sizes: [32, 64], strides: [64, 1] {coordinate_set = #set2, memory_space = #ktdp.memory_space<global>} : memref<32x64xf16>
    %7 = ktdp.construct_access_tile %6[%0 * 8, 0] {access_tile_order = #map1, access_tile_set = #set3} : memref<32x64xf16> -> !ktdp.access_tile<8x1xindex>
    ktdp.store %expanded, %7 : tensor<8x1xf16>, <8x1xindex>
    return
  }
}
