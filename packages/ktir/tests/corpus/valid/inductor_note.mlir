// One module a graph, memrefs as arguments, slices by affine.apply, sizes by runtime arguments.
#rows = affine_set<(d0, d1)[s0] : (d0 >= 0, d0 <= s0-1, d1 >= 0, d1 <= 1023)>
#slice = affine_set<(d0, d1) : (d0 >= 0, d0 <= 31, d1 >= 0, d1 <= 1023)>
module @graph_0 {
  func.func @sdsc_0(%arg0: memref<?xf16, #ktdp.spyre_memory_space<HBM>>, %arg1: memref<?x1024xf16, #ktdp.memory_space<global>>, %m: !ktdp.runtime_arg<index, granularity=32, upperbound=1024>) attributes {grid = [32]} {
    %id = ktdp.get_compute_tile_id : index
    %c64 = arith.constant 64 : index
    %rows = ktdp.runtime_arg_extract value from %m : <index, granularity=32, upperbound=1024> -> index
    %start = affine.apply affine_map<(d0) -> (d0 * 32)>(%id)
    %next = affine.apply affine_map<(d0)[s0] -> (d0 * 16 + s0 floordiv 2)>(%id)[%rows]
    %max = affine.max affine_map<(d0)[s0] -> (d0, s0)>(%start)[%next]
    %min = affine.min affine_map<(d0)[s0] -> (d0, s0 - 1)>(%start)[%rows]
    %view = ktdp.construct_memory_view %c64, sizes : [%rows, 1024], strides : [1024, 1] { memory_space = #ktdp.memory_space<global>, // where
      coordinate_set = #rows // and what
    } : memref<?x1024xf16>
    %tile = ktdp.construct_access_tile %view[%start, 0] { access_tile_set = #slice, access_tile_order = affine_map<(i, j) -> (i, j)> } : memref<?x1024xf16> -> !ktdp.access_tile<32x1024xindex>
    %data = ktdp.load %tile : !ktdp.access_tile<32x1024xindex> -> tensor<32x1024xf16>
    return
  }
  func.func @sdsc_1() { return }
}
