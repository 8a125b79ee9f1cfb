// A device that shares no name and no number with the packaged ones: three memory levels with datapaths
// (DRAM, BANK per core, PAD per quarter), four quarters a core, 32-byte vectors, shallow queues, no unit that
// starts with the last buffer.

#DRAM = { kind = "DRAM", size = 268435456, ktdf_ext.bandwidth = 12.8, ktdf_ext.latency = 40 }
#BANK = { kind = "BANK", size = 262144, ktdf_ext.reserved = 4096 }
#PAD = { kind = "PAD", size = 16384 }
#VREG = { kind = "VREG", size = 1024, ktdf_arch.features = { ktdf_arch.feature.register_file = { word_size = 32 } } }
#DIN = {
  kind = "DIN",
  ktdf_arch.features = {
    ktdf_arch.feature.load = {
      word_size = #ktdf_arch.map<"DRAM" = 32, "BANK" = 32>,
      access_granularity = #ktdf_arch.map<
        "DRAM" = [{size_in_words = 1}, {size_in_words = 4, align_in_words = 2}],
        "BANK" = [{size_in_words = 1}]>
    }
  }
}
#DOUT = {
  kind = "DOUT",
  ktdf_arch.features = {
    ktdf_arch.feature.store = {
      word_size = #ktdf_arch.map<"DRAM" = 32, "BANK" = 32>,
      access_granularity = #ktdf_arch.map<
        "DRAM" = [{size_in_words = 1}, {size_in_words = 4, align_in_words = 2}],
        "BANK" = [{size_in_words = 1}]>
    }
  }
}
#FILL = {
  kind = "FILL",
  ktdf_arch.features = {
    ktdf_arch.feature.load = {
      word_size = #ktdf_arch.map<"BANK" = 32, "PAD" = 1>,
      access_granularity = #ktdf_arch.map<
        "BANK" = [{size_in_words = 1}, {size_in_words = 4, align_in_words = 2}],
        "PAD" = [{size_in_words = 1}]>
    }
  }
}
#DRAIN = {
  kind = "DRAIN",
  ktdf_arch.features = {
    ktdf_arch.feature.store = {
      word_size = #ktdf_arch.map<"BANK" = 32, "PAD" = 1>,
      access_granularity = #ktdf_arch.map<
        "BANK" = [{size_in_words = 1}, {size_in_words = 4, align_in_words = 2}],
        "PAD" = [{size_in_words = 1}]>
    }
  }
}
#FETCH = {
  kind = "FETCH",
  ktdf_arch.features = {
    ktdf_arch.feature.load = {
      access_granularity = #ktdf_arch.map<"PAD" = [
        {size_in_words = 32, align_in_words = 32},
        {size_in_words = 4, align_in_words = 4},
        {size_in_words = 2, align_in_words = 2},
        {size_in_words = 1}]>
    },
    ktdf_arch.feature.simd = { splat, zero_pad }
  }
}
#PUT = {
  kind = "PUT",
  ktdf_arch.features = {
    ktdf_arch.feature.store = {
      access_granularity = #ktdf_arch.map<"PAD" = [
        {size_in_words = 32, align_in_words = 32},
        {size_in_words = 4, align_in_words = 4},
        {size_in_words = 2, align_in_words = 2},
        {size_in_words = 1}]>
    }
  }
}
#VPU = {
  kind = "VPU",
  ktdf_arch.features = {
    ktdf_arch.feature.compute,
    ktdf_arch.feature.simd = {
      lanes = #ktdf_arch.map<f16 = 16, bf16 = 16, df16 = 16, i16 = 16, f32 = 8, i32 = 8, i8 = 32, i1 = 16>
    }
  }
}
#BEAT = { ktdf_arch.transfer_granularity = array<i64: 32>, ktdf_arch.bandwidth = 32 }
#PORT = {
  ktdf_arch.bandwidth = 32,
  ktdf_arch.features = { ktdf_arch.feature.queue = { depth = 2, ordered } }
}
#VECTOR = {
  ktdf_arch.transfer_granularity = array<i64: 32, 4, 2, 1>,
  ktdf_arch.bandwidth = 32,
  ktdf_arch.features = { ktdf_arch.feature.queue = { depth = 2, ordered } }
}

ktdf_arch.device @quad attributes {
  mem_space_mapping = #ktdf_arch.map<
    #ktdp.memory_space<global> = "DRAM",
    #ktdp.memory_space<ct_local> = "BANK">,
  ktdf_ext.num_cores = 8
} {
  %dram = memory #DRAM
  group { kind = "node" } share(%dram) {
    %bank = memory #BANK
    %din = exec_unit #DIN
    %dout = exec_unit #DOUT
    datapath #BEAT %dram to %din : memory, exec_unit
    datapath #BEAT %din to %bank : exec_unit, memory
    datapath #BEAT %bank to %dout : memory, exec_unit
    datapath #BEAT %dout to %dram : exec_unit, memory
    group @lane0 { kind = "quarter" } share(%bank) {
      %pad = memory #PAD
      %fill = exec_unit #FILL
      %drain = exec_unit #DRAIN
      %fetch = exec_unit #FETCH
      %put = exec_unit #PUT
      %vpu = group { kind = "VPU_Block" } share() {
        %registers = memory #VREG
        %unit = exec_unit #VPU
        yield %unit
      } -> exec_unit
      datapath #BEAT %bank to %fill : memory, exec_unit
      datapath #BEAT %fill to %pad : exec_unit, memory
      datapath #PORT %pad to %fetch : memory, exec_unit
      datapath #VECTOR %fetch to %vpu : exec_unit, exec_unit
      datapath #VECTOR %vpu to %put : exec_unit, exec_unit
      datapath #PORT %put to %pad : exec_unit, memory
      datapath #BEAT %pad to %drain : memory, exec_unit
      datapath #BEAT %drain to %bank : exec_unit, memory
    }
    group @lane1 { kind = "quarter" } share(%bank) {
      %pad = memory #PAD
      %fill = exec_unit #FILL
      %drain = exec_unit #DRAIN
      %fetch = exec_unit #FETCH
      %put = exec_unit #PUT
      %vpu = group { kind = "VPU_Block" } share() {
        %registers = memory #VREG
        %unit = exec_unit #VPU
        yield %unit
      } -> exec_unit
      datapath #BEAT %bank to %fill : memory, exec_unit
      datapath #BEAT %fill to %pad : exec_unit, memory
      datapath #PORT %pad to %fetch : memory, exec_unit
      datapath #VECTOR %fetch to %vpu : exec_unit, exec_unit
      datapath #VECTOR %vpu to %put : exec_unit, exec_unit
      datapath #PORT %put to %pad : exec_unit, memory
      datapath #BEAT %pad to %drain : memory, exec_unit
      datapath #BEAT %drain to %bank : exec_unit, memory
    }
    group @lane2 { kind = "quarter" } share(%bank) {
      %pad = memory #PAD
      %fill = exec_unit #FILL
      %drain = exec_unit #DRAIN
      %fetch = exec_unit #FETCH
      %put = exec_unit #PUT
      %vpu = group { kind = "VPU_Block" } share() {
        %registers = memory #VREG
        %unit = exec_unit #VPU
        yield %unit
      } -> exec_unit
      datapath #BEAT %bank to %fill : memory, exec_unit
      datapath #BEAT %fill to %pad : exec_unit, memory
      datapath #PORT %pad to %fetch : memory, exec_unit
      datapath #VECTOR %fetch to %vpu : exec_unit, exec_unit
      datapath #VECTOR %vpu to %put : exec_unit, exec_unit
      datapath #PORT %put to %pad : exec_unit, memory
      datapath #BEAT %pad to %drain : memory, exec_unit
      datapath #BEAT %drain to %bank : exec_unit, memory
    }
    group @lane3 { kind = "quarter" } share(%bank) {
      %pad = memory #PAD
      %fill = exec_unit #FILL
      %drain = exec_unit #DRAIN
      %fetch = exec_unit #FETCH
      %put = exec_unit #PUT
      %vpu = group { kind = "VPU_Block" } share() {
        %registers = memory #VREG
        %unit = exec_unit #VPU
        yield %unit
      } -> exec_unit
      datapath #BEAT %bank to %fill : memory, exec_unit
      datapath #BEAT %fill to %pad : exec_unit, memory
      datapath #PORT %pad to %fetch : memory, exec_unit
      datapath #VECTOR %fetch to %vpu : exec_unit, exec_unit
      datapath #VECTOR %vpu to %put : exec_unit, exec_unit
      datapath #PORT %put to %pad : exec_unit, memory
      datapath #BEAT %pad to %drain : memory, exec_unit
      datapath #BEAT %drain to %bank : exec_unit, memory
    }
  }
  // Scalar operations in the body of a structured operation for which the device has an instruction over its
  // register file; the instruction has the operation's name and meaning.
  patterns ["pre_scheduling"] {
    pdl.pattern @unary_instructions : benefit(1) {
      %type = type
      %x = operand
      %op = operation (%x : !pdl.value) -> (%type : !pdl.type)
      %names = attribute = [
        "math.absi", "math.acos", "math.asin", "math.atan", "math.cbrt", "math.ceil", "math.cos",
        "math.cosh", "math.erf", "math.exp", "math.exp2", "math.expm1", "math.log", "math.log10",
        "math.log1p", "math.log2", "math.round", "math.roundeven", "math.rsqrt", "math.sin",
        "math.sinh", "math.sqrt", "math.tan", "math.tanh", "math.trunc", "spyreop.exp",
        "spyreop.gelu", "spyreop.reciprocal", "spyreop.rsqrt", "spyreop.sigmoid", "spyreop.silu",
        "spyreop.softplus", "spyreop.sqrt",
        "math.absf", "spyreop.idx32toaddr"]
      apply_native_constraint "ktdf_ext.is_one_of" (%op, %names : !pdl.operation, !pdl.attribute)
      apply_native_constraint "ktdf_ext.in_structured_body" (%op : !pdl.operation)
      %mapping = apply_native_constraint "ktdf_arch.mapped_to" (%op : !pdl.operation) : !pdl.attribute {isNegated = true}
      rewrite {
        %registers = attribute = "VREG"
        apply_native_rewrite "ktdf_arch.map_to" (%op, %registers : !pdl.operation, !pdl.attribute)
      }
    }
    pdl.pattern @binary_instructions : benefit(1) {
      %type = type
      %x = operand
      %y = operand
      %op = operation (%x, %y : !pdl.value, !pdl.value) -> (%type : !pdl.type)
      %names = attribute = [
        "arith.divf", "arith.remf", "arith.maxnumf", "arith.minnumf", "arith.divsi", "arith.divui",
        "arith.floordivsi", "arith.ceildivsi", "arith.ceildivui", "arith.remsi", "arith.remui", "arith.maxui", "arith.minui",
        "arith.andi", "arith.ori", "arith.xori", "arith.shli", "arith.shrsi", "arith.shrui",
        "math.atan2", "math.copysign", "math.powf", "spyreop.realdiv", "spyreop.addi32toi32",
        "spyreop.muli32toi32",
        "spyreop.compare", "spyreop.layernormscale"]
      apply_native_constraint "ktdf_ext.is_one_of" (%op, %names : !pdl.operation, !pdl.attribute)
      apply_native_constraint "ktdf_ext.in_structured_body" (%op : !pdl.operation)
      %mapping = apply_native_constraint "ktdf_arch.mapped_to" (%op : !pdl.operation) : !pdl.attribute {isNegated = true}
      rewrite {
        %registers = attribute = "VREG"
        apply_native_rewrite "ktdf_arch.map_to" (%op, %registers : !pdl.operation, !pdl.attribute)
      }
    }
    pdl.pattern @ternary_instructions : benefit(1) {
      %type = type
      %x = operand
      %y = operand
      %z = operand
      %op = operation (%x, %y, %z : !pdl.value, !pdl.value, !pdl.value) -> (%type : !pdl.type)
      %names = attribute = [
        "math.fma",
        "spyreop.select", "spyreop.idx32toaddr"]
      apply_native_constraint "ktdf_ext.is_one_of" (%op, %names : !pdl.operation, !pdl.attribute)
      apply_native_constraint "ktdf_ext.in_structured_body" (%op : !pdl.operation)
      %mapping = apply_native_constraint "ktdf_arch.mapped_to" (%op : !pdl.operation) : !pdl.attribute {isNegated = true}
      rewrite {
        %registers = attribute = "VREG"
        apply_native_rewrite "ktdf_arch.map_to" (%op, %registers : !pdl.operation, !pdl.attribute)
      }
    }
    pdl.pattern @instructions_of_five : benefit(1) {
      %type = type
      %x = operand
      %y = operand
      %z = operand
      %u = operand
      %v = operand
      %op = operation (%x, %y, %z, %u, %v : !pdl.value, !pdl.value, !pdl.value, !pdl.value, !pdl.value) -> (%type : !pdl.type)
      %names = attribute = ["spyreop.layernormnorm"]
      apply_native_constraint "ktdf_ext.is_one_of" (%op, %names : !pdl.operation, !pdl.attribute)
      apply_native_constraint "ktdf_ext.in_structured_body" (%op : !pdl.operation)
      %mapping = apply_native_constraint "ktdf_arch.mapped_to" (%op : !pdl.operation) : !pdl.attribute {isNegated = true}
      rewrite {
        %registers = attribute = "VREG"
        apply_native_rewrite "ktdf_arch.map_to" (%op, %registers : !pdl.operation, !pdl.attribute)
      }
    }
  }
  // A reduction of the lanes of one vector is an instruction over the register file.
  patterns ["post_scheduling"] {
    pdl.pattern @lane_reductions : benefit(1) {
      %type = type
      %lanes = operand
      %start = operand
      %op = operation "linalg.generic" (%lanes, %start : !pdl.value, !pdl.value) -> (%type : !pdl.type)
      %combinations = attribute = [
        "arith.addf", "arith.mulf", "arith.maximumf", "arith.minimumf", "arith.maxnumf", "arith.minnumf",
        "arith.addi", "arith.muli", "arith.maxsi", "arith.minsi", "arith.maxui", "arith.minui",
        "arith.andi", "arith.ori", "arith.xori"]
      apply_native_constraint "ktdf_ext.folds_lanes" (%op, %combinations : !pdl.operation, !pdl.attribute)
      %mapping = apply_native_constraint "ktdf_arch.mapped_to" (%op : !pdl.operation) : !pdl.attribute {isNegated = true}
      rewrite {
        %registers = attribute = "VREG"
        apply_native_rewrite "ktdf_arch.map_to" (%op, %registers : !pdl.operation, !pdl.attribute)
      }
    }
    pdl.pattern @lane_reductions_of_buffers : benefit(1) {
      %lanes = operand
      %start = operand
      %op = operation "linalg.generic" (%lanes, %start : !pdl.value, !pdl.value)
      %combinations = attribute = [
        "arith.addf", "arith.mulf", "arith.maximumf", "arith.minimumf", "arith.maxnumf", "arith.minnumf",
        "arith.addi", "arith.muli", "arith.maxsi", "arith.minsi", "arith.maxui", "arith.minui",
        "arith.andi", "arith.ori", "arith.xori"]
      apply_native_constraint "ktdf_ext.folds_lanes" (%op, %combinations : !pdl.operation, !pdl.attribute)
      %mapping = apply_native_constraint "ktdf_arch.mapped_to" (%op : !pdl.operation) : !pdl.attribute {isNegated = true}
      rewrite {
        %registers = attribute = "VREG"
        apply_native_rewrite "ktdf_arch.map_to" (%op, %registers : !pdl.operation, !pdl.attribute)
      }
    }
  }
}
