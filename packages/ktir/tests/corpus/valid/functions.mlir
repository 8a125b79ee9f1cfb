// Kernels of several grids in one module, visibility, declarations, attributes of arguments and results.
// RUN: VLS
module @kernels attributes {ktdp.grid_order = "last_fastest", ktdp.f16_format = "dlfloat", ktdp.scratchpad_keepout = [[0, 4096], [8192, 16384]]} {
  func.func public @a(%x: index {ktdp.name = "input"}, %y: f32 {ktdp.name = "scale", other.note}) attributes {grid = [32]} {
    return
  }
  func.func private @b(%x: index) -> (index {ktdp.name = "out"}) attributes {grid = [2, 16], other.note = [1, 2]} {
    return %x : index
  }
  func.func @c() attributes {grid = [1, 1, 1]} {
    %x = arith.constant 1 : index
    %y = call @b(%x) : (index) -> index
    %z = func.call @b(%y) {tag} : (index) -> index
    return
  }
}
