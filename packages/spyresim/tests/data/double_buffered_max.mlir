// r = max(p, q) on two cores: 16 x 64 f16, tiles of 2 rows, two buffers each.
#dec  = affine_map<(d0, d1) -> (d0, d1)>
#lin  = affine_map<(d0, d1) -> (d0 * 64 + d1)>
#step = affine_map<(d0) -> (d0, 0)>
#t    = affine_map<(d0) -> (d0)>
#vec  = affine_set<(d0, d1) : (d0 == 0, d1 >= 0, -d1 + 63 >= 0)>
#two  = affine_set<(d0) : (d0 >= 0, -d0 + 1 >= 0)>
module {
  module {
    func.func @upper_env(%p: index, %q: index, %r: index) attributes {grid = [2 : index]} {
      symbol.create_id %p {symbol_id = -1 : si64} : index
      symbol.create_id %q {symbol_id = -2 : si64} : index
      symbol.create_id %r {symbol_id = -3 : si64} : index
      call @local_schedule_0(%p, %q, %r) : (index, index, index) -> ()
      return
    }
    func.func private @local_schedule_0(index, index, index)
  }
  module @local_schedule_0 {
    func.func private @local_schedule_0_body()
    func.func @local_schedule_0(%p: index, %q: index, %r: index) {
      %c64 = arith.constant 64 : index
      %c1024 = arith.constant 1024 : index
      symbol.create_id %p {symbol_id = -1 : si64} : index
      symbol.create_id %q {symbol_id = -2 : si64} : index
      symbol.create_id %r {symbol_id = -3 : si64} : index
      %0 = arith.divsi %p, %c64 : index
      symbol.create_id %0 {symbol_id = -4 : si64} : index
      %1 = arith.addi %p, %c1024 : index
      %2 = arith.divsi %1, %c64 : index
      symbol.create_id %2 {symbol_id = -5 : si64} : index
      %3 = arith.divsi %q, %c64 : index
      symbol.create_id %3 {symbol_id = -6 : si64} : index
      %4 = arith.addi %q, %c1024 : index
      %5 = arith.divsi %4, %c64 : index
      symbol.create_id %5 {symbol_id = -7 : si64} : index
      %6 = arith.divsi %r, %c64 : index
      symbol.create_id %6 {symbol_id = -8 : si64} : index
      %7 = arith.addi %r, %c1024 : index
      %8 = arith.divsi %7, %c64 : index
      symbol.create_id %8 {symbol_id = -9 : si64} : index
      call @local_schedule_0_body() : () -> ()
      return
    }
    module {
      func.func @local_schedule_0_body() attributes {grid = [2 : index]} {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c2 = arith.constant 2 : index
        %c4 = arith.constant 4 : index
        %c256 = arith.constant 256 : index
        %c512 = arith.constant 512 : index
        %c768 = arith.constant 768 : index
        %c1024 = arith.constant 1024 : index
        %c1280 = arith.constant 1280 : index
        %c2304 = arith.constant 2304 : index
        %u0 = dataflow.get_unit {core = 0 : i32, corelet = 0 : i32, name = "C0-mnilu", type = "mnilu"} : index
        %u1 = dataflow.get_unit {core = 1 : i32, corelet = 0 : i32, name = "C1-mnilu", type = "mnilu"} : index
        %u2 = dataflow.get_unit {core = 0 : i32, corelet = 0 : i32, name = "C0-l1lu", type = "l1lu"} : index
        %u3 = dataflow.get_unit {core = 1 : i32, corelet = 0 : i32, name = "C1-l1lu", type = "l1lu"} : index
        %u4 = dataflow.get_unit {core = 0 : i32, corelet = 0 : i32, name = "C0-sfu", type = "sfu"} : index
        %u5 = dataflow.get_unit {core = 1 : i32, corelet = 0 : i32, name = "C1-sfu", type = "sfu"} : index
        %u6 = dataflow.get_unit {core = 0 : i32, corelet = 0 : i32, name = "C0-l1su", type = "l1su"} : index
        %u7 = dataflow.get_unit {core = 1 : i32, corelet = 0 : i32, name = "C1-l1su", type = "l1su"} : index
        %u8 = dataflow.get_unit {core = 0 : i32, corelet = 0 : i32, name = "C0-mnisu", type = "mnisu"} : index
        %u9 = dataflow.get_unit {core = 1 : i32, corelet = 0 : i32, name = "C1-mnisu", type = "mnisu"} : index
        %ddr = dataflow.get_unit {name = "ddr", type = "ddr"} : index
        %l1c0 = dataflow.get_unit {core = 0 : i32, name = "C0-l1", type = "l1"} : index
        %l1c1 = dataflow.get_unit {core = 1 : i32, name = "C1-l1", type = "l1"} : index
        dataflow.program_unit iter_arg : %me -> (%u0, %u1) : {
          %lm = uniform.def_immutable_mapping([%u0 -> %l1c0], [%u1 -> %l1c1]):index
          %l1 = uniform.query_map(map:%lm, key:%me) : index
          %s4 = symbol.create_symbol {SymbolId = -4 : i64} : index
          %s5 = symbol.create_symbol {SymbolId = -5 : i64} : index
          %pm = uniform.def_immutable_mapping([%u0 -> %s4], [%u1 -> %s5]):index
          %pa = uniform.query_map(map:%pm, key:%me) : index
          %pv = dataflow.get_logical_memory_view %ddr, %pa {layout_map = #lin} : index, index, memref<16x64xf16>
          %s6 = symbol.create_symbol {SymbolId = -6 : i64} : index
          %s7 = symbol.create_symbol {SymbolId = -7 : i64} : index
          %qm = uniform.def_immutable_mapping([%u0 -> %s6], [%u1 -> %s7]):index
          %qa = uniform.query_map(map:%qm, key:%me) : index
          %qv = dataflow.get_logical_memory_view %ddr, %qa {layout_map = #lin} : index, index, memref<16x64xf16>
          %done:2 = scf.for %t = %c0 to %c4 step %c1 iter_args(%pi = %c256, %qi = %c768) -> (index, index) {
            %pn = arith.subi %c256, %pi : index
            %qn = arith.subi %c1280, %qi : index
            %pw = dataflow.get_logical_memory_view %l1, %pn {layout_map = #lin} : index, index, memref<2x64xf16>
            %qw = dataflow.get_logical_memory_view %l1, %qn {layout_map = #lin} : index, index, memref<2x64xf16>
            agen.composite_load_and_store src:%pv[%t * 2, 0] dst:%pw[0, 0]
             time_symbols(), load_iv(%v0:vector<64xf16>)
             {load_order = #dec, load_set = #vec, load_time_addr_map = #step, store_order = #dec, store_set = #vec, store_time_addr_map = #step, time_order = #t, time_set = #two}
            {
              agen.yield
            } : memref<16x64xf16>, memref<2x64xf16>
            agen.composite_load_and_store src:%qv[%t * 2, 0] dst:%qw[0, 0]
             time_symbols(), load_iv(%v1:vector<64xf16>)
             {load_order = #dec, load_set = #vec, load_time_addr_map = #step, store_order = #dec, store_set = #vec, store_time_addr_map = #step, time_order = #t, time_set = #two}
            {
              agen.yield
            } : memref<16x64xf16>, memref<2x64xf16>
            %gm = uniform.def_immutable_mapping([%u0 -> %u2], [%u1 -> %u3]):index
            %gq = uniform.query_map(map:%gm, key:%me) : index
            dataflow.sync_send %gq {wait_immediately_for_async_transfers = true} : index
            dataflow.sync_recv %gq : index
            scf.yield %pn, %qn : index, index
          }
        }
        dataflow.program_unit iter_arg : %me -> (%u2, %u3) : {
          %lm = uniform.def_immutable_mapping([%u2 -> %l1c0], [%u3 -> %l1c1]):index
          %l1 = uniform.query_map(map:%lm, key:%me) : index
          %done:2 = scf.for %t = %c0 to %c4 step %c1 iter_args(%pi = %c0, %qi = %c512) -> (index, index) {
            %pw = dataflow.get_logical_memory_view %l1, %pi {layout_map = #lin} : index, index, memref<2x64xf16>
            %qw = dataflow.get_logical_memory_view %l1, %qi {layout_map = #lin} : index, index, memref<2x64xf16>
            %gm = uniform.def_immutable_mapping([%u2 -> %u0], [%u3 -> %u1]):index
            %gq = uniform.query_map(map:%gm, key:%me) : index
            dataflow.sync_send %gq {wait_immediately_for_async_transfers = true} : index
            dataflow.sync_recv %gq : index
            scf.for %j = %c0 to %c2 step %c1 {
              %v0 = agen.vector_load %pw[%j, 0] {load_order = #dec, load_set = #vec} : memref<2x64xf16>, vector<64xf16>
              %m0 = uniform.def_immutable_mapping([%u2 -> %u4], [%u3 -> %u5]):index
              %q0 = uniform.query_map(map:%m0, key:%me) : index
              dataflow.send %q0, %v0 : vector<64xf16>
              %v1 = agen.vector_load %qw[%j, 0] {load_order = #dec, load_set = #vec} : memref<2x64xf16>, vector<64xf16>
              %m1 = uniform.def_immutable_mapping([%u2 -> %u4], [%u3 -> %u5]):index
              %q1 = uniform.query_map(map:%m1, key:%me) : index
              dataflow.send %q1, %v1 : vector<64xf16>
            }
            %pn = arith.subi %c256, %pi : index
            %qn = arith.subi %c1280, %qi : index
            scf.yield %pn, %qn : index, index
          }
        }
        dataflow.program_unit iter_arg : %me -> (%u4, %u5) : {
          scf.for %t = %c0 to %c4 step %c1 {
            scf.for %j = %c0 to %c2 step %c1 {
              %m0 = uniform.def_immutable_mapping([%u4 -> %u2], [%u5 -> %u3]):index
              %q0 = uniform.query_map(map:%m0, key:%me) : index
              %x = dataflow.receive %q0 : vector<64xf16>
              %m1 = uniform.def_immutable_mapping([%u4 -> %u2], [%u5 -> %u3]):index
              %q1 = uniform.query_map(map:%m1, key:%me) : index
              %y = dataflow.receive %q1 : vector<64xf16>
              %z = vectorchain.binary %x, %y {binary_op = #vectorchain<binary_operator max>, op_specific_map = #t} : vector<64xf16>, vector<64xf16>, vector<64xf16>
              %m2 = uniform.def_immutable_mapping([%u4 -> %u6], [%u5 -> %u7]):index
              %q2 = uniform.query_map(map:%m2, key:%me) : index
              dataflow.send %q2, %z : vector<64xf16>
            }
          }
        }
        dataflow.program_unit iter_arg : %me -> (%u6, %u7) : {
          %lm = uniform.def_immutable_mapping([%u6 -> %l1c0], [%u7 -> %l1c1]):index
          %l1 = uniform.query_map(map:%lm, key:%me) : index
          %done = scf.for %t = %c0 to %c4 step %c1 iter_args(%ri = %c1024) -> (index) {
            %rw = dataflow.get_logical_memory_view %l1, %ri {layout_map = #lin} : index, index, memref<2x64xf16>
            scf.for %j = %c0 to %c2 step %c1 {
              %m0 = uniform.def_immutable_mapping([%u6 -> %u4], [%u7 -> %u5]):index
              %q0 = uniform.query_map(map:%m0, key:%me) : index
              %v = dataflow.receive %q0 : vector<64xf16>
              agen.vector_store %v, %rw[%j, 0] {store_order = #dec, store_set = #vec} : memref<2x64xf16>, vector<64xf16>
            }
            %gm = uniform.def_immutable_mapping([%u6 -> %u8], [%u7 -> %u9]):index
            %gq = uniform.query_map(map:%gm, key:%me) : index
            dataflow.sync_send %gq {wait_immediately_for_async_transfers = true} : index
            dataflow.sync_recv %gq : index
            %rn = arith.subi %c2304, %ri : index
            scf.yield %rn : index
          }
        }
        dataflow.program_unit iter_arg : %me -> (%u8, %u9) : {
          %lm = uniform.def_immutable_mapping([%u8 -> %l1c0], [%u9 -> %l1c1]):index
          %l1 = uniform.query_map(map:%lm, key:%me) : index
          %s8 = symbol.create_symbol {SymbolId = -8 : i64} : index
          %s9 = symbol.create_symbol {SymbolId = -9 : i64} : index
          %rm = uniform.def_immutable_mapping([%u8 -> %s8], [%u9 -> %s9]):index
          %ra = uniform.query_map(map:%rm, key:%me) : index
          %rv = dataflow.get_logical_memory_view %ddr, %ra {layout_map = #lin} : index, index, memref<16x64xf16>
          %done = scf.for %t = %c0 to %c4 step %c1 iter_args(%ri = %c1280) -> (index) {
            %rn = arith.subi %c2304, %ri : index
            %rw = dataflow.get_logical_memory_view %l1, %rn {layout_map = #lin} : index, index, memref<2x64xf16>
            %gm = uniform.def_immutable_mapping([%u8 -> %u6], [%u9 -> %u7]):index
            %gq = uniform.query_map(map:%gm, key:%me) : index
            dataflow.sync_send %gq {wait_immediately_for_async_transfers = true} : index
            dataflow.sync_recv %gq : index
            agen.composite_load_and_store src:%rw[0, 0] dst:%rv[%t * 2, 0]
             time_symbols(), load_iv(%v0:vector<64xf16>)
             {load_order = #dec, load_set = #vec, load_time_addr_map = #step, store_order = #dec, store_set = #vec, store_time_addr_map = #step, time_order = #t, time_set = #two}
            {
              agen.yield
            } : memref<2x64xf16>, memref<16x64xf16>
            scf.yield %rn : index
          }
        }
        return
      }
    }
  }
}
