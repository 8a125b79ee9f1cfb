// The sample device in its later form: DMA units in blocks with an indirect address buffer, several lane
// counts, and device patterns. One core; the grid of a kernel says how many there are.

#DDR = { kind = "DDR", size = 1073741824 }
#L1 = { kind = "L1", size = 1048576 }
#SFU_REG = { kind = "SFU_REG", size = 2048 }
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
      word_size = #ktdf_arch.map<"DDR" = 64, "L1" = 64>,
      access_granularity = #ktdf_arch.map<
        "DDR" = [{size_in_words = 1, align_in_words = 1}],
        "L1" = [{size_in_words = 1, align_in_words = 1}]>
    }
  },
  dataflow_scheduler.double_buffer_last
}
#MNISU = {
  kind = "MNISU",
  ktdf_arch.features = {
    ktdf_arch.feature.store = {
      word_size = #ktdf_arch.map<"DDR" = 64, "L1" = 64>,
      access_granularity = #ktdf_arch.map<
        "DDR" = [{size_in_words = 1, align_in_words = 1}],
        "L1" = [{size_in_words = 1, align_in_words = 1}]>
    }
  },
  dataflow_scheduler.double_buffer_last
}
#SFU = {
  kind = "SFU",
  ktdf_arch.features = {
    ktdf_arch.feature.compute,
    ktdf_arch.feature.simd = {
      lanes = #ktdf_arch.map<f16 = 64, bf16 = 64, df16 = 64, i16 = 64, f32 = 32, i32 = 32, i8 = 128, i1 = 64>
    }
  }
}
#L1LU = {
  kind = "L1LU",
  ktdf_arch.features = {
    ktdf_arch.feature.load = {
      word_size = #ktdf_arch.map<"L1" = 1>,
      access_granularity = #ktdf_arch.map<"L1" = [
        {size_in_words = 64, align_in_words = 64},
        {size_in_words = 8, align_in_words = 8},
        {size_in_words = 2, align_in_words = 2}]>
    },
    ktdf_arch.feature.simd = { splat, zero_pad }
  }
}
#L1SU = {
  kind = "L1SU",
  ktdf_arch.features = {
    ktdf_arch.feature.store = {
      access_granularity = #ktdf_arch.map<"L1" = [
        {size_in_words = 64, align_in_words = 64},
        {size_in_words = 2, align_in_words = 2}]>
    }
  }
}
#WORD = { ktdf_arch.transfer_granularity = array<i64: 64> }
#PORT = {
  ktdf_arch.features = { ktdf_arch.feature.queue = { depth = 16, ordered } }
}
#VECTOR = {
  ktdf_arch.transfer_granularity = array<i64: 64, 2>,
  ktdf_arch.features = { ktdf_arch.feature.queue = { depth = 16, ordered } }
}

ktdf_arch.device @sample_device attributes {
  mem_space_mapping = #ktdf_arch.map<
    #ktdp.memory_space<global> = "DDR",
    #ktdp.memory_space<ct_local> = "L1">
} {
  %ddr = memory #DDR
  group { kind = "core" } share(%ddr) {
    %l1 = memory #L1
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
    datapath #WORD %ddr to %mnilu : memory, exec_unit
    datapath #WORD %mnilu to %l1 : exec_unit, memory
    datapath #WORD %l1 to %mnisu : memory, exec_unit
    datapath #WORD %mnisu to %ddr : exec_unit, memory
    group share(%l1) {
      %sfu = group { kind = "SFU_Block" } share() {
        %registers = memory #SFU_REG
        %unit = exec_unit #SFU
        yield %unit
      } -> exec_unit
      %l1lu = exec_unit #L1LU
      %l1su = exec_unit #L1SU
      datapath #PORT %l1 to %l1lu : memory, exec_unit
      datapath #VECTOR %l1lu to %sfu : exec_unit, exec_unit
      datapath #VECTOR %sfu to %l1su : exec_unit, exec_unit
      datapath #PORT %l1su to %l1 : exec_unit, memory
    }
    group share(%l1) {
      %sfu = group { kind = "SFU_Block" } share() {
        %registers = memory #SFU_REG
        %unit = exec_unit #SFU
        yield %unit
      } -> exec_unit
      %l1lu = exec_unit #L1LU
      %l1su = exec_unit #L1SU
      datapath #PORT %l1 to %l1lu : memory, exec_unit
      datapath #VECTOR %l1lu to %sfu : exec_unit, exec_unit
      datapath #VECTOR %sfu to %l1su : exec_unit, exec_unit
      datapath #PORT %l1su to %l1 : exec_unit, memory
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
        %registers = attribute = "SFU_REG"
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
        %registers = attribute = "SFU_REG"
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
        %registers = attribute = "SFU_REG"
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
        %registers = attribute = "SFU_REG"
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
        %registers = attribute = "SFU_REG"
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
        %registers = attribute = "SFU_REG"
        apply_native_rewrite "ktdf_arch.map_to" (%op, %registers : !pdl.operation, !pdl.attribute)
      }
    }
  }
}
