// Scalars by views of rank 0 at computed addresses, constants as addresses, an all-reduce over the grid.
// RUN: VL
#map = affine_map<() -> ()>
#map1 = affine_map<(d0) -> (d0)>
#set = affine_set<() : (0 == 0)>
#set1 = affine_set<(d0) : (d0 >= 0, -d0 + 127 >= 0)>
#set2 = affine_set<(i)[g] : (i >= 0, -i + 3 >= 0, g == 0)>
#set3 = affine_set<(g) : (g == 0)>
module attributes {ktdp.address_unit = "element", tt.target = "spyre"} {
  func.func @mean(%arg0: i32, %arg1: f32) attributes {grid = [4]} {
    %c32768 = arith.constant 32768 : index
    %c65536 = arith.constant 65536 : index
    %c128 = arith.constant 128 : index
    %0 = ktdp.get_compute_tile_id : index
    %1 = arith.addi %c32768, %0 : index
    %2 = ktdp.construct_memory_view %1, sizes: [], strides: [] {coordinate_set = #set, memory_space = #ktdp.spyre_memory_space<HBM>} : memref<f32>
    %3 = ktdp.construct_access_tile %2[] {access_tile_order = #map, access_tile_set = #set} : memref<f32> -> !ktdp.access_tile<index>
    %4 = ktdp.load %3 : <index> -> tensor<f32>
    %extracted = tensor.extract %4[] : tensor<f32>
    %5 = arith.mulf %extracted, %arg1 : f32
    %6 = tensor.splat %5 : tensor<1xf32>
    %cst = arith.constant dense<0.000000e+00> : tensor<1xf32>
    %7 = ktdp.inter_tile_produce producer_tiles_per_group = #set2 -> <(tensor<1xf32>), groups = #set3> {
    ^bb0(%arg2: index):
      ktdp.yield_partial %6 : tensor<1xf32>
    }
    %8 = ktdp.inter_tile_reduce(%7) consumer_tiles_per_group = #set2, identity(%cst : tensor<1xf32>) : <(tensor<1xf32>), groups = #set3> -> tensor<1xf32> {
    ^bb0(%arg2: tensor<1xf32>, %arg3: tensor<1xf32>):
      %12 = arith.addf %arg2, %arg3 : tensor<1xf32>
      ktdp.yield_reduced %12 : tensor<1xf32>
    }
    %collapsed = tensor.collapse_shape %8 [] : tensor<1xf32> into tensor<f32>
    %9 = ktdp.construct_memory_view %c65536, sizes: [], strides: [] {coordinate_set = #set, memory_space = #ktdp.spyre_memory_space<HBM>} : memref<f32>
    %10 = ktdp.construct_access_tile %9[] {access_tile_order = #map, access_tile_set = #set} : memref<f32> -> !ktdp.access_tile<index>
    %c0 = arith.constant 0 : index
    %11 = arith.cmpi eq, %0, %c0 : index
    scf.if %11 {
      ktdp.store %collapsed, %10 : tensor<f32>, <index>
    }
    return
  }
}
