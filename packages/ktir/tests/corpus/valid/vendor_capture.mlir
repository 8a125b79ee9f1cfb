// A program as a capture of a compiler's schedule shows it: two-dimensional grid, strided groups, per-tile addresses.
// RUN: VL
#map = affine_map<(d0, d1) -> (d0, d1)>
#set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 127 >= 0, d1 >= 0, -d1 + 1023 >= 0)>
#set1 = affine_set<(d0, d1) : (d0 >= 0, -d0 + 7 >= 0, d1 >= 0, -d1 + 511 >= 0)>
#set2 = affine_set<(d0)[s0] : ((d0 - s0) mod 2 == 0, d0 - s0 >= 0, -d0 + s0 + 30 >= 0)>
#set3 = affine_set<(d0) : (d0 >= 0, -d0 + 1 >= 0)>
#set4 = affine_set<(d0) : (d0 >= 0, -d0 + 511 >= 0)>
#map1 = affine_map<(d0) -> (d0)>
module {
  func.func @rows(%src: index, %dst: index) attributes {grid = [2, 16]} {
    %x, %y = ktdp.get_compute_tile_id : index, index
    %c512 = arith.constant 512 : index
    %c8 = arith.constant 8 : index
    %0 = arith.muli %x, %c512 : index
    %1 = arith.muli %y, %c8 : index
    %2 = ktdp.construct_memory_view %src, sizes: [128, 1024], strides: [1024, 1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<128x1024xf16>
    %3 = ktdp.construct_access_tile %2[%1, %0] {access_tile_order = #map, access_tile_set = #set1} : memref<128x1024xf16> -> !ktdp.access_tile<8x512xindex>
    %4 = ktdp.load %3 : <8x512xindex> -> tensor<8x512xf16>
    %cst = arith.constant dense<0xFC00> : tensor<512xf16>
    %reduced = linalg.reduce { arith.maximumf } ins(%4 : tensor<8x512xf16>) outs(%cst : tensor<512xf16>) dimensions = [0] 
    %5 = ktdp.inter_tile_produce producer_tiles_per_group = #set2 -> <(tensor<512xf16>), groups = #set3> {
    ^bb0(%g: index):
      ktdp.yield_partial %reduced : tensor<512xf16>
    }
    %6 = ktdp.inter_tile_reduce(%5) consumer_tiles_per_group = #set2, identity(%cst : tensor<512xf16>) : <(tensor<512xf16>), groups = #set3> -> tensor<512xf16> {
    ^bb0(%a: tensor<512xf16>, %b: tensor<512xf16>):
      %m = arith.maximumf %a, %b : tensor<512xf16>
      ktdp.yield_reduced %m : tensor<512xf16>
    }
    %c0 = arith.constant 0 : index
    %7 = ktdp.construct_memory_view %c0, sizes: [512], strides: [1] {coordinate_set = #set4, memory_space = #ktdp.memory_space<ct_local>} : memref<512xf16>
    %8 = ktdp.construct_access_tile %7[0] {access_tile_order = #map1, access_tile_set = #set4} : memref<512xf16> -> !ktdp.access_tile<512xindex>
    ktdp.store %6, %8 : tensor<512xf16>, <512xindex>
    return
  }
}
