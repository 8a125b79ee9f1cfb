// RUN: VLS
module {
  func.func @one() attributes {grid = [4 : index]} {
    %t = ktdp.get_compute_tile_id : index
    return
  }
  func.func @two() attributes {grid = [4 : i32, 2 : i64]} {
    %x, %y = ktdp.get_compute_tile_id : index, index
    %p:2 = ktdp.get_compute_tile_id {hoisted} : index, index
    %s = arith.addi %p#0, %p#1 : index
    return
  }
  func.func @three() attributes {grid = [2, 2, 2]} {
    %p:3 = ktdp.get_compute_tile_id : index, index, index
    %q, %r:2 = "ktdp.get_compute_tile_id"() : () -> (index, index, index)
    %s = arith.muli %r#1, %p#2 : index
    return
  }
  func.func @none() {
    %t = ktdp.get_compute_tile_id : index
    return
  }
}
