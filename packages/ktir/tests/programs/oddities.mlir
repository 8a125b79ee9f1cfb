// Spellings that a reader must survive: order and place of everything that carries no meaning.
// RUN levels: VL

#id = affine_map<(row, col) -> (row, col)>   // an alias and a value of one name
#Box_2 = affine_set<(r, c) : (r >= 0, r <= 7, -c + 0 >= 0, c >= 0)>
#set0 = affine_set<(d0)[s0] : (d0 >= 0, d0 <= s0-1)>
!half = f16

module @outer attributes {note = "aliases stand anywhere"} {
  module @inner {
    func.func @"local-schedule-0"(%id: index loc("k.py":1:2), %n: index loc(unknown)) attributes {grid = [2 : i32]} {
      %c8 = arith.constant 8 : index loc(#here) %one, %two = ktdp.get_compute_tile_id : index, index
      %p:2 = ktdp.get_compute_tile_id : index, index
      %q = arith.addi %p#1, %id : index %v = ktdp.construct_memory_view %id , sizes : [ 8 ,1],strides:[1, 1] {
          // the attributes may stand in any order
          memory_space = #ktdp.spyre_memory_space<HBM>,

          coordinate_set = #Box_2
      } : memref<8x1x!half>
      %w = ktdp.construct_memory_view %id, sizes: [%n], strides : [%c8] {coordinate_set = #set0,
        memory_space = #ktdp.memory_space<ct_local, ct_id = 1>} : memref<?xsi32>
      %all = ktdp.construct_distributed_memory_view (%v, %v : memref<8x1xf16>, memref<8x1xf16>) : memref<16x1xf16>
      %none = ktdp.construct_distributed_memory_view() : memref<4xf16>
      %t = ktdp.construct_access_tile %v [%id*1, %q] {access_tile_order = #id, access_tile_set = #Box_2}
        : memref<8x1xf16> -> !ktdp.access_tile<8x1xindex>
      %u = ktdp.construct_access_tile %w[%c8] symbols (%n) {access_tile_set = #set0,
        access_tile_order = affine_map<(a) -> (a)>} : memref<?xsi32> -> !ktdp.access_tile<?xindex>
      %g = ktdp.construct_indirect_access_tile intermediate_variables (%id) %v[ind(%w[%id]), (0)] symbols (%n)
        {variables_space_set = #set0, variables_space_order = affine_map<(a) -> (a)>}
        : memref<8x1xf16>, memref<?xsi32> -> !ktdp.access_tile<?xindex>
      %d = ktdp.load %t : !ktdp.access_tile<8x1xindex> -> tensor<8x1xf16>
      ktdp.store %d , %t : tensor<8x1xf16>,<8x1xindex>
      return loc(fused<"pass">["a", callsite("f" at "g.py":3:4)])
    } loc(#named)
  }
  func.func @g(%0: index) { func.call @inner::@"local-schedule-0"(%0, %0) : (index, index) -> ()  return }
  func.func private @declared(tensor<bf16>, memref<2x16xsi32>, !ktdp.runtime_arg<index, upperbound=300, granularity=32>)
} loc(#here)
#here = loc("k.py":12:4)
#named = loc("name"(#here))
