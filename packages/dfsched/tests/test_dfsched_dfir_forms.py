"""KTDFLow to DataflowIR: tables, reductions and buffers, signals, tiles, rotating buffers, instances, symbols."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import pytest
from backend_programs import (
    LOAD,
    ROW,
    SAMPLE,
    SEND,
    SIMPLE,
    SLOT_IN,
    STEP,
    constants,
    dfir,
    find,
    flow,
    loop,
    names_in,
    nested,
    parse,
    pipeline,
    program,
    refused,
    unit,
)

import ktir
from dfsched.dialects import agen, dataflow, symbol, uniform
from dfsched.dialects import vectorchain as vc
from dfsched.dialects.ktdf_lowering import ExecuteOn, Signal
from dfsched.lowering.dfir import lower_to_dfir
from dfsched.lowering.errors import LoweringError
from dfsched.options import Options, Profile
from dfsched.passes import normalize_grid_to_1d
from dfsched.passes.base import PassContext
from ktir.analysis import DefUse
from ktir.dialects import arith, scf
from ktir.dialects.builtin import Module
from ktir.dialects.func import Func
from ktir.ir import Operation, Value

ONCE = "%r = arith.muli %tid, %c8 : index\n"


def tables(module: Module, kind: str) -> list[list[int]]:
    """The maps of numbers in the program of a kind."""
    found = [constants(module, op.values) for op in find(unit(module, kind), uniform.DefImmutableMapping)]
    return [numbers for numbers in found if numbers is not None]


# -- tables ------------------------------------------------------------------------------------------


def test_tables_are_merged_by_key() -> None:
    """dataflowir checklist D5: whatever the order of the entries; each query keeps its own key."""
    head = """
      %e1 = arith.constant 1 : index
      %e2 = arith.constant 2 : index
      %e5 = arith.constant 5 : index
      %e6 = arith.constant 6 : index
      %ma = uniform.def_immutable_mapping([%c0 -> %e1], [%c1 -> %e2]):index
      %mb = uniform.def_immutable_mapping([%c1 -> %e6], [%c0 -> %e5]):index
      %qa = uniform.query_map(map:%ma, key:%tid) : index
      %other = arith.subi %c1, %tid : index
      %qb = uniform.query_map(map:%mb, key:{key}) : index
      %r = arith.addi %qa, %qb : index
    """
    assert [1 + 5, 2 + 6] in tables(dfir(program(pipeline(), head=head.format(key="%tid"))), "mnilu")
    assert tables(dfir(program(pipeline(), head=head.format(key="%other"))), "mnilu") == []  # 1 + 6 = 2 + 5
    refused(
        program(pipeline(), head=head.format(key="%tid").replace(", [%c0 -> %e5]", "")),
        "no entry for key in query_map: 0",
    )


# -- memory ------------------------------------------------------------------------------------------


def test_buffers_that_are_only_freed() -> None:
    """dataflowir checklist D10: no memory unit for them, and nothing of them is left."""
    freed = """
      %reg = builtin.unrealized_conversion_cast %c0 : index to memref<64xf16, "SFU_REG">
      memref.dealloc %reg : memref<64xf16, "SFU_REG">
    """
    module = dfir(program(ONCE + freed + pipeline()))
    text = ktir.print_module(module)
    assert "sfu_reg" not in text
    assert "dealloc" not in text
    assert text == ktir.print_module(dfir(program(ONCE + pipeline())))


def test_an_offset_in_front_of_the_space() -> None:
    """dataflowir checklist D35: a reinterpret_cast directly behind the view moves its start like any other."""
    cast = """
      %part = memref.reinterpret_cast %pv to offset: [128], sizes: [8, 64], strides: [64, 1] : memref<16x64xf16> to memref<8x64xf16, strided<[64, 1], offset: 128>>
      %there = memref.memory_space_cast %part : memref<8x64xf16, strided<[64, 1], offset: 128>> to memref<8x64xf16, strided<[64, 1], offset: 128>, "DDR">
    """
    load = LOAD.replace("%src[%r, 0]", "%there[%r, 0]").replace(
        'memref<16x64xf16, "DDR">', 'memref<8x64xf16, strided<[64, 1], offset: 128>, "DDR">'
    )
    text = ktir.print_module(dfir(program(ONCE + cast + pipeline(load=load))))
    assert re.search(r"arith.addi %p, %c256 : index\n\s*%\d+ = arith.divsi", text)  # 128 elements of 2 bytes
    base = program(ONCE + cast + pipeline(load=load), arguments="%q: index").replace(
        "%pv = ktdp", "%p = arith.constant 1024 : index\n%pv = ktdp"
    )
    assert re.search(r"get_logical_memory_view %\d+, %c1152 ", ktir.print_module(dfir(base)))


# -- reductions and buffers --------------------------------------------------------------------------

FIVE = """
  %x = ktdf.read_from_fifo %f : <"L1LU" -> "SFU", 320xf16> -> tensor<5x64xf16>
  {init}
  %y = linalg.generic {{indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (b)>],
    iterator_types = ["reduction", "parallel"]}} ins(%x : tensor<5x64xf16>) outs(%e : tensor<64xf16>) {{
  ^bb0(%in: f16, %acc: f16):
    %v = {op} %in, %acc : f16
    linalg.yield %v : f16
  }} -> tensor<64xf16>
  ktdf.write_to_fifo %y, %g : tensor<64xf16>, <"SFU" -> "L1SU", 64xf16>
"""
ZERO = "%e = arith.constant dense<0.0> : tensor<64xf16>"


def five(init: str = ZERO, op: str = "arith.addf") -> str:
    """Five vectors are sent one by one, and added up as they arrive."""
    wide = SLOT_IN.replace("64xf16", "320xf16")
    send = loop(SEND.replace(SLOT_IN, wide), "%c5", "%k")
    text = program(ONCE + pipeline(send=send, compute=FIVE.format(init=init, op=op)))
    return text.replace("%c4 = arith", "%c5 = arith.constant 5 : index\n%c4 = arith").replace(SLOT_IN, wide)


def test_a_tensor_is_reduced_as_it_arrives() -> None:
    """dataflowir checklist D21: a loop of five, the accumulator carried, one receive in each iteration."""
    module = dfir(five())
    compute = unit(module, "sfu")
    (nest,) = [op for op in compute.walk() if isinstance(op, scf.For)]
    assert constants(module, [nest.lower, nest.upper, nest.step]) == [0, 5, 1]
    (start,) = nest.inits
    uses = DefUse(module)
    assert str(uses.definer(start)) == "%0 = arith.constant dense<0.000000e+00> : vector<64xf16>"
    body = [
        op
        for op in nest.body.block.operations
        if not isinstance(op, uniform.DefImmutableMapping | uniform.QueryMap)
    ]
    receive, add, end = body
    assert isinstance(receive, dataflow.Receive)
    assert isinstance(add, vc.Binary)
    assert set(add.operands) == {receive.results[0], nest.carried[0]}
    assert end.operands == add.results
    assert str(receive.results[0].type) == "vector<64xf16>"
    (sent,) = find(compute, dataflow.Send)
    assert sent.operands[1] is nest.outputs[0]
    assert len(find(unit(module, "l1lu"), dataflow.Send)) == 1


@pytest.mark.parametrize(
    ("op", "start"),
    [("arith.mulf", "1.000000e+00"), ("arith.maximumf", "0xFC00"), ("arith.addf", "-0.000000e+00")],
)
def test_without_a_start_a_reduction_starts_with_what_changes_nothing(op: str, start: str) -> None:
    """dataflowir spec 3.6: an accumulator without a value starts with the operator's identity."""
    text = ktir.print_module(dfir(five("%e = tensor.empty() : tensor<64xf16>", op)))
    assert f"arith.constant dense<{start}> : vector<64xf16>" in text


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("%v = arith.addf %in, %acc : f16", "%w = arith.mulf %in, %in : f16\n%v = arith.addf %w, %acc : f16",
         "reduction linalg.generic body must have exactly one compute op"),
        ("%v = arith.addf %in, %acc : f16", "%v = arith.subf %in, %acc : f16",
         "unsupported reduction body op in linalg.generic"),
        ("ins(%x : tensor<5x64xf16>)", "ins(%other : tensor<5x64xf16>)",
         "reduction linalg.generic input must be produced by ktdf.read_from_fifo"),
    ],
    ids=["two operations", "subtraction", "no queue"],
)  # fmt: skip
def test_reductions_that_are_refused(old: str, new: str, message: str) -> None:
    """The three errors of dataflowir spec 3.6."""
    init = ZERO + "\n%other = tensor.empty() : tensor<5x64xf16>"
    text = five(init)
    assert old in text
    refused(text.replace(old, new), message)


REGISTER = '%acc = builtin.unrealized_conversion_cast %c0 : index to memref<64xf16, "SFU_REG">\n'
BUFFER = (
    REGISTER
    + """
  %x = ktdf.read_from_fifo %f : <"L1LU" -> "SFU", 64xf16> -> memref<64xf16>
  linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
    ins(%x : memref<64xf16>) outs(%acc : memref<64xf16, "SFU_REG">) {
  ^bb0(%in: f16, %out: f16):
    %v = arith.subf %out, %in : f16
    linalg.yield %v : f16
  }
  ktdf.write_to_fifo %acc, %g : memref<64xf16, "SFU_REG">, <"SFU" -> "L1SU", 64xf16>
"""
)


def computing(text: str) -> list[str]:
    """The operations of the compute unit, tables left out."""
    found = names_in(unit(dfir(program(ONCE + pipeline(compute=text))), "sfu"))
    return [
        name for name in found if name not in ("program_unit", "def_immutable_mapping", "query_map", "return")
    ]


def test_a_buffer_accumulates() -> None:
    """dataflowir checklist D22: load the accumulator, combine in the order of the body, store it back."""
    assert computing(BUFFER) == [
        "get_logical_memory_view", "receive", "vector_load", "binary", "vector_store", "vector_load", "send",
    ]  # fmt: skip
    module = dfir(program(ONCE + pipeline(compute=BUFFER)))
    compute = unit(module, "sfu")
    load, again = find(compute, agen.VectorLoad)
    (combine,) = find(compute, vc.Binary)
    (receive,) = find(compute, dataflow.Receive)
    assert combine.operands == (load.results[0], receive.results[0])
    (store,) = find(compute, agen.VectorStore)
    assert isinstance(store, agen.VectorStore)
    assert store.operands[0] is combine.results[0]
    (sent,) = find(compute, dataflow.Send)
    assert sent.operands[1] is again.results[0]
    assert str(store.store_set.set) == "(d0) : (d0 >= 0, -d0 + 63 >= 0)"


def test_filling() -> None:
    """dataflowir checklist D23: one bit pattern, shuffled into all lanes; over a buffer it is stored."""
    tensor = """
      %z = arith.constant 0.0 : f16
      %e = tensor.empty() : tensor<64xf16>
      %y = linalg.fill ins(%z : f16) outs(%e : tensor<64xf16>) -> tensor<64xf16>
      ktdf.write_to_fifo %y, %g : tensor<64xf16>, <"SFU" -> "L1SU", 64xf16>
    """
    assert computing(tensor) == ["constant_bitstream", "shuffle", "send"]
    text = ktir.print_module(dfir(program(ONCE + pipeline(compute=tensor))))
    assert "vectorchain.constant_bitstream {value = [0x0]} : vector<1xf16>" in text
    assert "{indices = [0 : i32], repetition = 64 : i32} : vector<1xf16>, vector<64xf16>" in text
    two = ktir.print_module(dfir(program(ONCE + pipeline(compute=tensor.replace("0.0 : f16", "2.0 : f16")))))
    assert "{value = [0x4000]} : vector<1xf16>" in two
    buffer = (
        REGISTER
        + """
      %z = arith.constant 0.0 : f16
      linalg.fill ins(%z : f16) outs(%acc : memref<64xf16, "SFU_REG">)
    """
    )
    assert computing(buffer) == ["get_logical_memory_view", "constant_bitstream", "shuffle", "vector_store"]


def test_a_copy_of_what_a_queue_held() -> None:
    """dataflowir checklist D24: it is stored as a vector."""
    text = (
        REGISTER
        + """
      %x = ktdf.read_from_fifo %f : <"L1LU" -> "SFU", 64xf16> -> memref<64xf16>
      memref.copy %x, %acc : memref<64xf16> to memref<64xf16, "SFU_REG">
    """
    )
    assert computing(text) == ["get_logical_memory_view", "receive", "vector_store"]
    wide = text.replace("64xf16>", "128xf16>").replace('64xf16, "SFU_REG"', '128xf16, "SFU_REG"')
    slot = SLOT_IN.replace("64xf16", "128xf16")
    load = (
        SEND.replace("size [1, 64]", "size [1, 128]")
        .replace("size [64]", "size [128]")
        .replace("1x64", "1x128")
    )
    whole = (
        program(ONCE + pipeline(send=load, compute=wide))
        .replace(SLOT_IN, slot)
        .replace("memref<1x64xf16", "memref<1x128xf16")
    )
    refused(whole, "Flattened tensor/memref size exceeds maximum vector length")


# -- signals -----------------------------------------------------------------------------------------


def partners(module: Module, kind: str, cls: type[Operation] = dataflow.SyncSend) -> list[dict[str, str]]:
    """For every send of a signal (or of data) in the program of a kind: who sends to whom."""
    uses = DefUse(module)

    def name(value: Value) -> str:
        handle = uses.definer(value)
        assert isinstance(handle, dataflow.GetUnit)
        return handle.unit_name.value

    found = []
    for op in find(unit(module, kind), cls):
        query = uses.definer(op.operands[0])
        assert isinstance(query, uniform.QueryMap)
        mapping = uses.definer(query.map)
        assert isinstance(mapping, uniform.DefImmutableMapping)
        found.append({name(k): name(v) for k, v in zip(mapping.keys, mapping.values, strict=True)})
    return found


@pytest.mark.parametrize("cores", [1, 2])
def test_partners_of_two_corelets(cores: int) -> None:
    """dataflowir checklist D26: by core and corelet where both have two; else all meet the only one."""
    text = program(nested(instances=2, stores_to="%in"), grid=f"[{cores} : index]")
    module = dfir(text)
    units = [(core, corelet) for corelet in range(2) for core in range(cores)]
    own = {f"C{c}-l1lu-CL{k}": f"C{c}-l1su-CL{k}" for c, k in units}
    assert own in partners(module, "l1lu")
    assert {b: a for a, b in own.items()} in partners(module, "l1su")
    assert {f"C{c}-l1lu-CL{k}": f"C{c}-mnilu" for c, k in units} in partners(module, "l1lu")
    for corelet in range(2):
        loader = {f"C{c}-mnilu": f"C{c}-l1lu-CL{corelet}" for c in range(cores)}
        assert partners(module, "mnilu").count(loader) == 1


@pytest.mark.parametrize("cores", [1, 2])
def test_ends_of_queues_of_two_corelets(cores: int) -> None:
    """dataflowir checklist D19: units pair with that of their own core and corelet."""
    module = dfir(program(nested(instances=2), grid=f"[{cores} : index]"))
    units = [(core, corelet) for corelet in range(2) for core in range(cores)]
    assert partners(module, "l1lu", dataflow.Send) == [
        {f"C{c}-l1lu-CL{k}": f"C{c}-sfu-CL{k}" for c, k in units}
    ]
    assert partners(module, "sfu", dataflow.Receive) == [
        {f"C{c}-sfu-CL{k}": f"C{c}-l1lu-CL{k}" for c, k in units}
    ]


def test_an_offset_of_the_iteration() -> None:
    """dataflowir checklist D8: on a constant base it is added while the program runs."""
    cast = """
      %off = arith.muli %i, %c8 : index
      %part = memref.reinterpret_cast %src to offset: [%off], sizes: [8, 64], strides: [64, 1] : memref<16x64xf16, "DDR"> to memref<8x64xf16, strided<[64, 1], offset: ?>, "DDR">"""
    load = LOAD.replace("%src[%r, 0]", "%part[0, 0]").replace(
        'memref<16x64xf16, "DDR">', 'memref<8x64xf16, strided<[64, 1], offset: ?>, "DDR">'
    )
    text = program(loop(STEP + cast + pipeline(load=load)), head=ROW, arguments="%q: index").replace(
        "%pv = ktdp", "%p = arith.constant 1024 : index\n%pv = ktdp"
    )
    module = dfir(text)
    uses = DefUse(module)
    (turn,) = [op for op in unit(module, "mnilu").walk() if isinstance(op, scf.For)]
    (view,) = [op for op in turn.body.block.operations if isinstance(op, dataflow.GetLogicalMemoryView)]
    start = uses.definer(view.start)
    assert isinstance(start, arith.AddI)
    assert 1024 in (constants(module, start.operands[:1]) or [])
    assert view.view_type.shape == (16, 64)


@pytest.mark.parametrize(
    ("signal", "message"),
    [
        (r"ktdf_lowering.signal \1", "signal operation must have at least 2 unit operands"),
        (r"ktdf_lowering.signal \1, %c0", "signal operand must be a uniform.query_map result"),
    ],
)
def test_signals_that_nobody_can_follow(signal: str, message: str) -> None:
    """dataflowir checklist D27: too few units, no unit, somebody else's meeting."""
    text = ktir.print_module(flow(SIMPLE))
    other = parse(re.sub(r"ktdf_lowering.signal (%\d+), (%\d+)", signal, text, count=1))
    with pytest.raises(LoweringError, match=re.escape(message)):
        lower_to_dfir(other, SAMPLE)


def test_a_signal_in_a_stage_of_others() -> None:
    """dataflowir checklist D27: a signal between two units in the code of a third one."""
    module = flow(SIMPLE)
    text = ktir.print_module(module)
    (stage,) = [
        op
        for op in find(module, ExecuteOn)
        if len(op.operands) == 1 and "ktdf.read_from_fifo" in [i.name for i in op.walk()]
    ]
    first = find(module, Signal)[0]
    assert not set(first.operands) & set(stage.operands)
    line = next(line for line in text.splitlines() if "ktdf_lowering.signal" in line)
    with pytest.raises(
        LoweringError,
        match="signal must include at least one query_map whose first mapping result is in the current program_unit",
    ):
        lower_to_dfir(
            parse(re.sub(r"(\n\s*%\d+ = ktdf.read_from_fifo)", "\n" + line.strip() + r"\1", text, count=1)),
            SAMPLE,
        )


# -- tiles -------------------------------------------------------------------------------------------


def tiled(total: int) -> str:
    """Rows in tiles of three."""
    body = "%n = ktdf.tiling.derive_size [%t : %c3], total_size = %total : index\n" + loop(
        "%r = arith.addi %t, %i : index\n" + pipeline(), "%n"
    )
    head = f"%c3 = arith.constant 3 : index\n%total = arith.constant {total} : index\n%tiles = arith.constant {-(-total // 3)} : index"
    return program(loop(body, "%tiles", "%t"), head=head)


def test_sizes_of_tiles() -> None:
    """dataflowir checklist D28: a constant where the tile divides; else the last one is chosen in the loop."""
    whole = dfir(tiled(12))
    loader = unit(whole, "mnilu")
    outer, inner = [op for op in loader.walk() if isinstance(op, scf.For)]
    assert constants(whole, [outer.upper, inner.upper]) == [4, 3]
    ragged = dfir(tiled(14))
    loader = unit(ragged, "mnilu")
    outer, inner = [op for op in loader.walk() if isinstance(op, scf.For)]
    uses = DefUse(ragged)
    size = uses.definer(inner.upper)
    assert isinstance(size, arith.Select)
    assert constants(ragged, size.operands[1:]) == [3, 2]
    flag = uses.definer(size.operands[0])
    assert isinstance(flag, arith.CmpI)
    assert flag.predicate.value is arith.CmpIPredicate.SLT
    assert flag.operands[0] is outer.induction_variable
    assert constants(ragged, [outer.upper, flag.operands[1]]) == [5, 4]


# -- rotating buffers --------------------------------------------------------------------------------

TILE = 'memref<1x64xf16, "L1">'
COPIES = f"""
  %x0 = builtin.unrealized_conversion_cast %s0 : index to {TILE}
  %x1 = builtin.unrealized_conversion_cast %s1 : index to {TILE}
  %x2 = builtin.unrealized_conversion_cast %s2 : index to {TILE}
"""


def rotating(
    loops: Sequence[tuple[str, str]] = (("%i", "%c8"),), select: str | None = None, phases: int = 2
) -> str:
    """Loads go to one of several copies at bytes 1024, 1536, 2048, in turns over all loops."""
    variables = ", ".join(name for name, _ in loops)
    names = ", ".join(f"%x{n}" for n in range(phases))
    chosen = select or f"%sel = ktdf.select_memref %ph[{names}] : {TILE}\n"
    body = (
        f"%ph = ktdf.buffer_phase({variables}) {{num_phases = {phases} : i64}} : index\n"
        + chosen
        + "%r = arith.addi %c0, %i : index\n"
        + pipeline(load=LOAD.replace("%b0", "%sel"), send=SEND.replace("%b0", "%sel"))
    )
    for name, upper in reversed(loops):
        body = loop(body, upper, name)
    numbers = "".join(
        f"%{n} = arith.constant {v} : index\n"
        for n, v in {"s0": 1024, "s1": 1536, "s2": 2048, "c3": 3, "c2": 2}.items()
    )
    return program(body, head=numbers + COPIES)


def test_two_kinds_of_double_buffers() -> None:
    """dataflowir checklist D29: who counts from the first copy toggles last, who counts from the second first."""
    module = dfir(rotating())
    for kind, start, toggles_first in [("l1lu", 1024, False), ("mnilu", 1536, True)]:
        (turn,) = [op for op in unit(module, kind).walk() if isinstance(op, scf.For)]
        assert constants(module, turn.inits) == [start]
        body = turn.body.block.operations
        (toggle,) = [op for op in body if isinstance(op, arith.SubI)]
        assert constants(module, toggle.operands[:1]) == [1024 + 1536]
        assert toggle.operands[1] is turn.carried[0]
        assert body[-1].operands == toggle.results
        assert body.index(toggle) == (0 if toggles_first else len(body) - 2)
        (view,) = [op for op in body if isinstance(op, dataflow.GetLogicalMemoryView)]
        assert view.start is (toggle.results[0] if toggles_first else turn.carried[0])


def starts(operations: Sequence[Operation], env: dict[Value, int], module: Module) -> Iterator[int]:
    """Runs loops and index arithmetic; the start of every view that is made in a loop, in order."""

    def value(v: Value) -> int:
        if v not in env:
            (env[v],) = constants(module, [v]) or [0]
        return env[v]

    for op in operations:
        match op:
            case scf.For():
                carried = [value(v) for v in op.inits]
                for n in range(value(op.lower), value(op.upper), value(op.step)):
                    env[op.induction_variable] = n
                    env.update(zip(op.carried, carried, strict=True))
                    yield from starts(op.body.block.operations, env, module)
                    carried = [value(v) for v in op.body.block.operations[-1].operands]
                env.update(zip(op.outputs, carried, strict=True))
            case arith.SubI():
                env[op.results[0]] = value(op.operands[0]) - value(op.operands[1])
            case arith.AddI():
                env[op.results[0]] = value(op.operands[0]) + value(op.operands[1])
            case arith.RemUI():
                env[op.results[0]] = value(op.operands[0]) % value(op.operands[1])
            case arith.MulI():
                env[op.results[0]] = value(op.operands[0]) * value(op.operands[1])
            case dataflow.GetLogicalMemoryView() if op.start in env:
                yield value(op.start)
            case _:
                pass


@pytest.mark.parametrize("phases", [2, 3])
@pytest.mark.parametrize(("outer", "inner"), [("%c4", "%c2"), ("%c4", "%c3"), ("%c3", "%c1")])
@pytest.mark.parametrize("kind", ["mnilu", "l1lu"])
def test_buffers_take_turns_over_two_loops(kind: str, outer: str, inner: str, phases: int) -> None:
    """dataflowir checklist D30: iteration n over both loops uses copy n modulo their number."""
    module = dfir(rotating((("%o", outer), ("%i", inner)), phases=phases))
    program_unit = unit(module, kind)
    assert isinstance(program_unit, dataflow.ProgramUnit)
    (first,) = [op for op in program_unit.body.block.operations if isinstance(op, scf.For)]
    found = list(starts([first], {}, module))
    assert len(find(program_unit, scf.For)) == 2
    assert len(first.inits) == 1
    assert found == [1024 + 512 * (n % phases) for n in range(int(outer[2:]) * int(inner[2:]))]


def test_buffers_that_cannot_take_turns() -> None:
    """dataflowir checklist D31: three phases in the first version, no addresses, different shapes."""
    refused(rotating(phases=3), "buffer_phase must have num_phases = 2 for double buffering", Profile.V1)
    two = rotating().replace(
        "%x1 = builtin.unrealized_conversion_cast %s1 : index",
        "%x1 = builtin.unrealized_conversion_cast %tid : index",
    )
    refused(two, "select_memref operands must be get_logical_memory_view operations")
    open_tile = TILE.replace("1x64", "?x64")
    select = (
        f'%y1 = builtin.unrealized_conversion_cast %s1 : index to memref<2x64xf16, "L1">\n'
        f"%d0 = memref.cast %x0 : {TILE} to {open_tile}\n"
        f'%d1 = memref.cast %y1 : memref<2x64xf16, "L1"> to {open_tile}\n'
        f"%dyn = ktdf.select_memref %ph[%d0, %d1] : {open_tile}\n"
        f"%sel = memref.cast %dyn : {open_tile} to {TILE}\n"
    )
    refused(rotating(select=select), "get_logical_memory_view operations must match except for offset")
    same = select.replace("2x64", "1x64")
    assert find(unit(dfir(rotating(select=same)), "mnilu"), scf.For)


# -- instances ---------------------------------------------------------------------------------------


def chunks(trips: int, old: str = "", new: str = "") -> str:
    """Rows of a tile over two instances."""
    text = program(
        nested(instances=2, trips="%count", rows=6), head=f"%count = arith.constant {trips} : index"
    )
    assert old in text
    return text.replace(old, new)


def test_equal_chunks() -> None:
    """dataflowir checklist D32: all corelets count from 0; views start at the chunk of the corelet, once."""
    line = (
        'ktdf.data_transfer from %in[%j, 0] size [1, 64] to %f size [64] : memref<6x64xf16, "L1">, ' + SLOT_IN
    )
    module = dfir(chunks(6, line, f"{line}\n{line}"), Profile.V1)
    loader = unit(module, "l1lu")
    (turn,) = [op for op in loader.walk() if isinstance(op, scf.For)]
    assert constants(module, [turn.lower, turn.upper, turn.step]) == [0, 3, 1]
    assert len(find(loader, agen.VectorLoad)) == 2
    assert len(find(loader, dataflow.GetLogicalMemoryView)) == 1
    assert tables(module, "l1lu") == [[0, 0, 3 * 128, 3 * 128]]  # units of both cores, corelet by corelet
    assert tables(module, "l1su") == [[768, 768, 768 + 384, 768 + 384]]
    # without the limits of the first version every corelet walks its own rows
    general = dfir(chunks(6))
    assert [0, 0, 3, 3] in tables(general, "l1lu")


def test_chunks_that_are_not_equal() -> None:
    """dataflowir checklist D33: refused in the first version, divided now."""
    refused(chunks(5), "Upper bound must be evenly divisible by num_instances", Profile.V1)
    moved = chunks(6, "%in[%j, 0]", "%in[%k, 0]").replace(
        "ktdf.data_transfer from %in[%k", "%k = arith.addi %j, %c0 : index\nktdf.data_transfer from %in[%k"
    )
    refused(moved, "loop_iv can only be used in agen.vector_load/store operations", Profile.V1)
    assert [0, 0, 3, 3] in tables(dfir(chunks(5)), "l1lu")
    dfir(moved)


# -- symbols -----------------------------------------------------------------------------------------


def test_coordinates_of_two_dimensions_are_constants() -> None:
    """dataflowir checklist D7: tables of constants per unit, and no arithmetic is left."""
    text = program(pipeline(), grid="[2, 3]").replace(
        "%tid = ktdp.get_compute_tile_id : index",
        """%tid, %y = ktdp.get_compute_tile_id : index, index
        %c2 = arith.constant 2 : index
        %left = arith.muli %y, %c2 : index
        %r = arith.addi %left, %tid : index""",
    )
    flat = normalize_grid_to_1d.run(parse(text), PassContext(SAMPLE))
    module = dfir(ktir.print_module(flat))
    assert tables(module, "mnilu") == [[0, 1, 2, 3, 4, 5]]  # the first coordinate is the fastest
    v1 = normalize_grid_to_1d.run(parse(text), PassContext(SAMPLE, Options(profile="v1")))
    module = dfir(ktir.print_module(v1))
    assert tables(module, "mnilu") == [[0, 2, 4, 1, 3, 5]]  # the last one is
    both_corelets = dfir(program(nested(instances=2)).replace("%in[%j, 0]", "%in[%tid, 0]"))
    assert [0, 1, 0, 1] in tables(both_corelets, "l1lu")  # units of two cores, corelet by corelet
    arithmetic = arith.DivUI | arith.RemUI | arith.MulI | arith.AddI
    assert not any(isinstance(op, arithmetic) for op in unit(module, "mnilu").walk())


def test_two_coordinates_move_an_address() -> None:
    """dataflowir checklist D34: a grid of two dimensions gives four starts of one argument."""
    text = program(ONCE + pipeline(), grid="[2, 2]").replace(
        "%tid = ktdp.get_compute_tile_id : index",
        """%tid, %y = ktdp.get_compute_tile_id : index, index
        %k256 = arith.constant 256 : index
        %k64 = arith.constant 64 : index
        %far = arith.muli %tid, %k256 : index
        %near = arith.muli %y, %k64 : index
        %both = arith.addi %far, %near : index
        %moved = arith.addi %p, %both : index""",
    )
    text = text.replace("%pv = ktdp.construct_memory_view %p,", "%pv = ktdp.construct_memory_view %moved,")
    flat = normalize_grid_to_1d.run(parse(text), PassContext(SAMPLE))
    module = dfir(ktir.print_module(flat))
    loader = unit(module, "mnilu")
    ids = [op.id for op in loader.walk() if isinstance(op, symbol.CreateSymbol)]
    assert len(ids) == len(set(ids)) == 4
    added = {int(n) for n in re.findall(r"arith.addi %p, %c(\d+) : index", ktir.print_module(module))}
    assert added | {0} <= {0, 128, 256, 384, 512, 640}
    assert len(added | {0}) == 4


def declared(module: Module) -> list[int]:
    return [op.id for op in module.walk() if isinstance(op, symbol.CreateId)]


def test_numbers_of_symbols() -> None:
    """dataflowir checklist Y1: inputs by their position among all arguments, derived ones behind them."""
    text = program(ONCE + pipeline()).replace(
        "func.func @kernel(%p: index, %q: index)", "func.func @kernel(%p: index, %s: f32, %q: index)"
    )
    module = dfir(text)
    kernel = next(op for op in module.walk() if isinstance(op, Func) and op.symbol == "kernel")
    assert [op.id for op in kernel.walk() if isinstance(op, symbol.CreateId)] == [-1, -3]
    assert sorted(set(declared(module)), reverse=True) == [-1, -3, -4, -5]


def test_displaced_addresses_are_different_symbols() -> None:
    """dataflowir checklist Y8."""
    text = program(ONCE + pipeline())
    for view, distance in (("p", 128), ("q", 256)):
        text = text.replace(
            f"%{view}v = ktdp.construct_memory_view %{view},",
            f"%d{view} = arith.constant {distance} : index\n%b{view} = arith.addi %p, %d{view} : index\n"
            f"%{view}v = ktdp.construct_memory_view %b{view},",
        )
    module = dfir(text)
    derived = [number for number in declared(module) if number < -2]
    assert len(derived) == len(set(derived)) == 2
    used = [op.id for op in module.walk() if isinstance(op, symbol.CreateSymbol)]
    assert sorted(used) == sorted(derived)
