// D[c, r] = S[2r, 2c + 1] for S[40, 48] f32 and D[24, 20]: the view steps over the source, the tile turns it.
// The row pitch of the source is a number that the host gives (elements; 48 or more).
#src  = affine_set<(i) : (i >= 0, -i + 2559 >= 0)>
#half = affine_set<(r, c) : (r >= 0, -r + 19 >= 0, c >= 0, -c + 23 >= 0)>
#dst  = affine_set<(c, r) : (c >= 0, -c + 23 >= 0, r >= 0, -r + 19 >= 0)>
#blk  = affine_set<(r, c) : (r >= 0, -r + 4 >= 0, c >= 0, -c + 23 >= 0)>
#turn = affine_set<(c, r) : (c >= 0, -c + 23 >= 0, r >= 0, -r + 4 >= 0)>
#id   = affine_map<(a, b) -> (a, b)>
#swap = affine_map<(a, b) -> (b, a)>
module {
  func.func @by_order(%s: index, %d: index, %pitch: index) attributes {grid = [4]} {
    %two = arith.constant 2 : index
    %one = arith.constant 1 : index
    %five = arith.constant 5 : index
    %core = ktdp.get_compute_tile_id : index
    %r0 = arith.muli %core, %five : index
    %step = arith.muli %pitch, %two : index
    %first = arith.addi %s, %one : index
    %whole = ktdp.construct_memory_view %s, sizes: [2560], strides: [1] {
      coordinate_set = #src, memory_space = #ktdp.memory_space<global> } : memref<2560xf32>
    %sv = ktdp.construct_memory_view %first, sizes: [20, 24], strides: [%step, 2] {
      coordinate_set = #half, memory_space = #ktdp.memory_space<global> } : memref<20x24xf32, strided<[?, 2]>>
    %dv = ktdp.construct_memory_view %d, sizes: [24, 20], strides: [20, 1] {
      coordinate_set = #dst, memory_space = #ktdp.memory_space<global> } : memref<24x20xf32>
    %st = ktdp.construct_access_tile %sv[%r0, 0] { access_tile_set = #blk, access_tile_order = #swap }
      : memref<20x24xf32, strided<[?, 2]>> -> !ktdp.access_tile<24x5xindex>
    %dt = ktdp.construct_access_tile %dv[0, %r0] { access_tile_set = #turn, access_tile_order = #id }
      : memref<24x20xf32> -> !ktdp.access_tile<24x5xindex>
    %x = ktdp.load %st : !ktdp.access_tile<24x5xindex> -> tensor<24x5xf32>
    ktdp.store %x, %dt : tensor<24x5xf32>, !ktdp.access_tile<24x5xindex>
    return
  }

  // The same by a strided set in plain coordinates and linalg.transpose.
  func.func @by_operation(%s: index, %d: index) attributes {grid = [4]} {
    %core = ktdp.get_compute_tile_id : index
    %sv = ktdp.construct_memory_view %s, sizes: [40, 64], strides: [64, 1] {
      coordinate_set = affine_set<(r, c) : (r >= 0, -r + 39 >= 0, c >= 0, -c + 63 >= 0)>,
      memory_space = #ktdp.memory_space<global> } : memref<40x64xf32>
    %dv = ktdp.construct_memory_view %d, sizes: [24, 20], strides: [20, 1] {
      coordinate_set = #dst, memory_space = #ktdp.memory_space<global> } : memref<24x20xf32>
    %st = ktdp.construct_access_tile %sv[%core * 10, 1] {
      access_tile_set = affine_set<(r, c) : (r >= 0, r <= 8, c >= 0, c <= 46, r mod 2 == 0, c mod 2 == 0)>,
      access_tile_order = #id } : memref<40x64xf32> -> !ktdp.access_tile<5x24xindex>
    %dt = ktdp.construct_access_tile %dv[0, %core * 5] { access_tile_set = #turn, access_tile_order = #id }
      : memref<24x20xf32> -> !ktdp.access_tile<24x5xindex>
    %x = ktdp.load %st : !ktdp.access_tile<5x24xindex> -> tensor<5x24xf32>
    %e = tensor.empty() : tensor<24x5xf32>
    %xt = linalg.transpose ins(%x : tensor<5x24xf32>) outs(%e : tensor<24x5xf32>) permutation = [1, 0]
    ktdp.store %xt, %dt : tensor<24x5xf32>, !ktdp.access_tile<24x5xindex>
    return
  }
}
