// What stands beside KTIR in files for a scheduler: a device, memrefs in named memories, calls of other modules' functions.
ktdf_arch.device @sample attributes {mem_space_mapping = #ktdf_arch.map<#ktdp.memory_space<global> = "DDR", #ktdp.memory_space<ct_local> = "L1">} import("device.mlir")
module @program {
  module @"local-schedule-0" {
    func.func nested @f(%a: memref<64x64xf16, "DDR">) {
      return
    }
  }
  func.func private @external(memref<64xf16>, index {ktdp.name = "n"}) -> (i1, tensor<4xf32> {some.attr})
  func.func @main(%a: memref<64x64xf16, "DDR">, %x: index) -> memref<64x64xf16, "DDR"> {
    %0 = memref.alloc() : memref<64x64xf16, "L1">
    %1 = memref.alloc(%x) {alignment = 128 : i64} : memref<?x64xf16, "L1">
    memref.copy %a, %0 : memref<64x64xf16, "DDR"> to memref<64x64xf16, "L1">
    %2 = memref.memory_space_cast %0 : memref<64x64xf16, "L1"> to memref<64x64xf16, "DDR">
    %3 = memref.cast %2 : memref<64x64xf16, "DDR"> to memref<?x?xf16, strided<[?, ?], offset: ?>, "DDR">
    %4 = memref.reinterpret_cast %a to offset: [%x], sizes: [8, 64], strides: [64, 1] : memref<64x64xf16, "DDR"> to memref<8x64xf16, strided<[64, 1], offset: ?>, "DDR">
    %5 = memref.subview %a[%x, 0] [8, 32] [1, 2] : memref<64x64xf16, "DDR"> to memref<8x32xf16, strided<[64, 2], offset: ?>, "DDR">
    %6 = builtin.unrealized_conversion_cast %x : index to !other.token
    func.call @"local-schedule-0"::@f(%a) : (memref<64x64xf16, "DDR">) -> ()
    memref.dealloc %0 : memref<64x64xf16, "L1">
    return %a : memref<64x64xf16, "DDR">
  }
}
