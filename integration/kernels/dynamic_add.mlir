#map = affine_map<(d0) -> (d0)>
#set = affine_set<(d0)[s0] : (d0 >= 0, -d0 + s0 - 1 >= 0)>
module {
  // Triton style: as many blocks of 128 as needed, dealt to four programs; the last one is as long as what is left.
  func.func public @dynamic_add(%arg0: index, %arg1: index, %arg2: index, %arg3: i32) attributes {grid = [4]} {
    %c128_i32 = arith.constant 128 : i32
    %c512_i32 = arith.constant 512 : i32
    %0 = ktdp.get_compute_tile_id : index
    %1 = arith.index_cast %0 : index to i32
    %2 = arith.muli %1, %c128_i32 : i32
    %3 = arith.index_cast %arg3 : i32 to index
    %4 = ktdp.construct_memory_view %arg0, sizes: [%3], strides: [1] {coordinate_set = #set, memory_space = #ktdp.spyre_memory_space<HBM>} : memref<?xf16>
    %5 = ktdp.construct_memory_view %arg1, sizes: [%3], strides: [1] {coordinate_set = #set, memory_space = #ktdp.spyre_memory_space<HBM>} : memref<?xf16>
    %6 = ktdp.construct_memory_view %arg2, sizes: [%3], strides: [1] {coordinate_set = #set, memory_space = #ktdp.spyre_memory_space<HBM>} : memref<?xf16>
    scf.for %arg4 = %2 to %arg3 step %c512_i32  : i32 {
      %7 = arith.subi %arg3, %arg4 : i32
      %8 = arith.minsi %7, %c128_i32 : i32
      %9 = arith.index_cast %8 : i32 to index
      %10 = arith.index_cast %arg4 : i32 to index
      %11 = ktdp.construct_access_tile %4[%10] symbols(%9) {access_tile_order = #map, access_tile_set = #set} : memref<?xf16> -> !ktdp.access_tile<?xindex>
      %12 = ktdp.construct_access_tile %5[%10] symbols(%9) {access_tile_order = #map, access_tile_set = #set} : memref<?xf16> -> !ktdp.access_tile<?xindex>
      %13 = ktdp.construct_access_tile %6[%10] symbols (%9) {access_tile_order = #map, access_tile_set = #set} : memref<?xf16> -> !ktdp.access_tile<?xindex>
      %14 = ktdp.load %11 : <?xindex> -> tensor<?xf16>
      %15 = ktdp.load %12 : <?xindex> -> tensor<?xf16>
      %16 = tensor.empty(%9) : tensor<?xf16>
      %17 = linalg.add ins(%14, %15 : tensor<?xf16>, tensor<?xf16>) outs(%16 : tensor<?xf16>) -> tensor<?xf16>
      ktdp.store %17, %13 : tensor<?xf16>, <?xindex>
    }
    return
  }

  // The length is a promise of the host: a multiple of 8, at most 4096; one core, one transfer.
  func.func @bounded_add(%a: !ktdp.runtime_arg<index>, %b: index, %o: index,
                         %n: !ktdp.runtime_arg<index, upperbound=4096, granularity=8>) attributes {grid = [1]} {
    %pa = ktdp.runtime_arg_extract value from %a : !ktdp.runtime_arg<index> -> index
    %len = ktdp.runtime_arg_extract value from %n : <index, granularity=8, upperbound=4096> -> index
    %max = ktdp.runtime_arg_extract upperbound from %n : <index, granularity=8, upperbound=4096> -> index
    %va = ktdp.construct_memory_view %pa, sizes: [%max], strides: [1] {
      coordinate_set = #set, memory_space = #ktdp.memory_space<global> } : memref<?xbf16>
    %vb = ktdp.construct_memory_view %b, sizes: [4096], strides: [1] {
      coordinate_set = affine_set<(i) : (i >= 0, i <= 4095)>, memory_space = #ktdp.memory_space<global> } : memref<4096xbf16>
    %vo = ktdp.construct_memory_view %o, sizes: [4096], strides: [1] {
      coordinate_set = affine_set<(i) : (i >= 0, i <= 4095)>, memory_space = #ktdp.memory_space<global> } : memref<4096xbf16>
    %ta = ktdp.construct_access_tile %va[0] symbols(%len) {access_tile_set = #set, access_tile_order = #map}
      : memref<?xbf16> -> !ktdp.access_tile<?xindex>
    %tb = ktdp.construct_access_tile %vb[0] symbols(%len) {access_tile_set = #set, access_tile_order = #map}
      : memref<4096xbf16> -> !ktdp.access_tile<?xindex>
    %to = ktdp.construct_access_tile %vo[0] symbols(%len) {access_tile_set = #set, access_tile_order = #map}
      : memref<4096xbf16> -> !ktdp.access_tile<?xindex>
    %x = ktdp.load %ta : <?xindex> -> tensor<?xbf16>
    %y = ktdp.load %tb : <?xindex> -> tensor<?xbf16>
    %s = arith.addf %x, %y : tensor<?xbf16>
    ktdp.store %s, %to : tensor<?xbf16>, <?xindex>
    return
  }
}
