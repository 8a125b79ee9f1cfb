// A card like IBM Spyre: 32 cores of which one is described (the grid of a kernel says how many are used), each
// with 2 MiB of scratchpad and two corelets. Public figures; `ktdf_ext.` attributes are ours: byte and cycle
// counts for time models, and the share of the scratchpad that front ends may not pin.

#HBM = {
  kind = "HBM",
  size = 120259084288,
  ktdf_ext.bandwidth = [1024, 5],
  ktdf_ext.latency = 100
}
#LX = { kind = "LX", size = 2097152, ktdf_ext.reserved = 471808 }
#SFP_REG = { kind = "SFP_REG", size = 2048 }
#L0 = { kind = "L0" }
#IAB = {
  kind = "IAB",
  ktdf_arch.features = {
    ktdf_arch.feature.indirect_address_buffer = { num_entries = 32, entry_type = si32 }
  }
}
#MNILU = {
  kind = "MNILU",
  ktdf_arch.features = {
    ktdf_arch.feature.load = {
      word_size = #ktdf_arch.map<"HBM" = 128, "LX" = 128>,
      access_granularity = #ktdf_arch.map<
        "HBM" = [{size_in_words = 1, align_in_words = 1}],
        "LX" = [{size_in_words = 1, align_in_words = 1}]>
    }
  },
  dataflow_scheduler.double_buffer_last
}
#MNISU = {
  kind = "MNISU",
  ktdf_arch.features = {
    ktdf_arch.feature.store = {
      word_size = #ktdf_arch.map<"HBM" = 128, "LX" = 128>,
      access_granularity = #ktdf_arch.map<
        "HBM" = [{size_in_words = 1, align_in_words = 1}],
        "LX" = [{size_in_words = 1, align_in_words = 1}]>
    }
  },
  dataflow_scheduler.double_buffer_last
}
#LXLU = {
  kind = "LXLU",
  ktdf_arch.features = {
    ktdf_arch.feature.load = {
      access_granularity = #ktdf_arch.map<"LX" = [
        {size_in_words = 128, align_in_words = 128},
        {size_in_words = 4, align_in_words = 4},
        {size_in_words = 2, align_in_words = 2}]>
    },
    ktdf_arch.feature.simd = { splat, zero_pad }
  }
}
#LXSU = {
  kind = "LXSU",
  ktdf_arch.features = {
    ktdf_arch.feature.store = {
      access_granularity = #ktdf_arch.map<"LX" = [
        {size_in_words = 128, align_in_words = 128},
        {size_in_words = 4, align_in_words = 4},
        {size_in_words = 2, align_in_words = 2}]>
    }
  }
}
#SFP = {
  kind = "SFP",
  ktdf_arch.features = {
    ktdf_arch.feature.compute,
    ktdf_arch.feature.simd = {
      lanes = #ktdf_arch.map<f16 = 64, bf16 = 64, df16 = 64, i16 = 64, f32 = 32, i32 = 32, i8 = 128, i1 = 64>
    }
  }
}
#PT = { kind = "PT", ktdf_ext.systolic = { rows = 8, cols = 8, macs_per_cycle = 256 } }
#STICK_LINK = { ktdf_arch.transfer_granularity = array<i64: 128>, ktdf_arch.bandwidth = 128 }
#LX_PORT = {
  ktdf_arch.bandwidth = 128,
  ktdf_arch.features = { ktdf_arch.feature.queue = { depth = 16, ordered } }
}
#VECTOR = {
  ktdf_arch.transfer_granularity = array<i64: 128, 4, 2>,
  ktdf_arch.bandwidth = 128,
  ktdf_arch.features = { ktdf_arch.feature.queue = { depth = 16, ordered } }
}

ktdf_arch.device @spyre attributes {
  version = 1,
  mem_space_mapping = #ktdf_arch.map<
    #ktdp.memory_space<global> = "HBM",
    #ktdp.memory_space<ct_local> = "LX">,
  ktdf_ext.num_cores = 32,
  ktdf_ext.stick_bytes = 128,
  ktdf_ext.core_span_bytes = 268435456,
  ktdf_ext.ring_bytes_per_cycle = 128,
  ktdf_ext.clock_hz = 1000000000,
  ktdf_ext.memory_latency = 100,
  ktdf_ext.sync_latency = 2,
  ktdf_ext.fifo_latency = 1
} {
  %hbm = memory #HBM
  group @core { kind = "core" } share(%hbm) {
    %lx = memory #LX
    %mnilu = group { kind = "MNILU_Block" } share() {
      %addresses = memory #IAB
      %unit = exec_unit #MNILU
      yield %unit
    } -> exec_unit
    %mnisu = group { kind = "MNISU_Block" } share() {
      %addresses = memory #IAB
      %unit = exec_unit #MNISU
      yield %unit
    } -> exec_unit
    datapath #STICK_LINK %hbm to %mnilu : memory, exec_unit
    datapath #STICK_LINK %mnilu to %lx : exec_unit, memory
    datapath #STICK_LINK %lx to %mnisu : memory, exec_unit
    datapath #STICK_LINK %mnisu to %hbm : exec_unit, memory
    group @corelet0 { kind = "corelet" } share(%lx) {
      %sfp = group { kind = "SFP_Block" } share() {
        %registers = memory #SFP_REG
        %unit = exec_unit #SFP
        yield %unit
      } -> exec_unit
      group { kind = "PT_Block" } share() {
        %l0 = memory #L0
        %unit = exec_unit #PT
      }
      %lxlu = exec_unit #LXLU
      %lxsu = exec_unit #LXSU
      datapath #LX_PORT %lx to %lxlu : memory, exec_unit
      datapath #VECTOR %lxlu to %sfp : exec_unit, exec_unit
      datapath #VECTOR %sfp to %lxsu : exec_unit, exec_unit
      datapath #LX_PORT %lxsu to %lx : exec_unit, memory
    }
    group @corelet1 { kind = "corelet" } share(%lx) {
      %sfp = group { kind = "SFP_Block" } share() {
        %registers = memory #SFP_REG
        %unit = exec_unit #SFP
        yield %unit
      } -> exec_unit
      group { kind = "PT_Block" } share() {
        %l0 = memory #L0
        %unit = exec_unit #PT
      }
      %lxlu = exec_unit #LXLU
      %lxsu = exec_unit #LXSU
      datapath #LX_PORT %lx to %lxlu : memory, exec_unit
      datapath #VECTOR %lxlu to %sfp : exec_unit, exec_unit
      datapath #VECTOR %sfp to %lxsu : exec_unit, exec_unit
      datapath #LX_PORT %lxsu to %lx : exec_unit, memory
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
        %registers = attribute = "SFP_REG"
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
        %registers = attribute = "SFP_REG"
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
        %registers = attribute = "SFP_REG"
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
        %registers = attribute = "SFP_REG"
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
        %registers = attribute = "SFP_REG"
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
        %registers = attribute = "SFP_REG"
        apply_native_rewrite "ktdf_arch.map_to" (%op, %registers : !pdl.operation, !pdl.attribute)
      }
    }
  }
}
