"""ScheduleIR to KTDFLow: units, maps, signals; text in, text out, and the diagnostics."""

from __future__ import annotations

import pytest
from backend_programs import (
    ROW,
    SAMPLE,
    SIMPLE,
    STEP,
    find,
    flow,
    loop,
    nested,
    parse,
    pipeline,
    program,
    refused,
)

import ktir
from dfsched.dialects import dataflow, uniform
from dfsched.dialects.ktdf_lowering import ExecuteOn, Signal
from dfsched.lowering.back_edges import BackedgeGuard
from dfsched.lowering.ktdflow import lower_to_ktdflow
from dfsched.lowering.stage_units import memory_tag
from ktir.analysis import DefUse
from ktir.attributes import StringAttr, index_attr
from ktir.dialects import arith, scf
from ktir.dialects.builtin import Module
from ktir.dialects.func import Func
from ktir.dialects.ktdp import GetComputeTileId
from ktir.ir import Operation, Value
from ktir.types import MemRefType

LOAD_AT_K = 'ktdf.data_transfer from %src[%k, 0] size [1, 64] to %b0[0, 0] size [1, 64] : memref<16x64xf16, "DDR">, memref<1x64xf16, "L1">'
LOAD_AT_I_J = LOAD_AT_K.replace("[%k, 0]", "[%i, %j]")


def test_units_maps_and_signals() -> None:
    """dataflowir checklist K6, K9, K15, K16, K17: units, queries, and a rendezvous only where memory is shared."""
    module = flow(SIMPLE)
    function = next(f for f in find(module, Func) if not f.is_declaration and f.symbol == "local_schedule_0")
    operations = function.body.block.operations
    kinds = ["mnilu", "l1lu", "sfu", "l1su", "mnisu"]
    handles = [op for op in operations if isinstance(op, dataflow.GetUnit)]
    assert [h.unit_name.value for h in handles] == [f"C{core}-{kind}" for kind in kinds for core in range(2)]
    assert all(handle.corelet == 0 for handle in handles)
    names = [op.name for op in operations]
    tile = names.index("ktdp.get_compute_tile_id")
    assert tile == len(handles)
    assert names[tile + 1 : tile + 5] == [
        "arith.constant",
        "arith.constant",
        "uniform.def_immutable_mapping",
        "uniform.query_map",
    ]
    queries = {
        op.results[0]: kind
        for kind, op in zip(kinds, [o for o in operations if isinstance(o, uniform.QueryMap)], strict=True)
    }
    signals = [tuple(queries[u] for u in s.units) for s in find(module, Signal)]
    assert signals == [("mnilu", "l1lu"), ("l1lu", "mnilu"), ("l1su", "mnisu"), ("mnisu", "l1su")]
    outer = next(op for op in find(module, ExecuteOn))
    assert [queries[u] for u in outer.units] == kinds
    inner = [op.name for op in outer.body.block.operations if op.name.startswith("ktdf_lowering")]
    assert inner == [
        "ktdf_lowering.execute_on", "ktdf_lowering.signal",
        "ktdf_lowering.execute_on", "ktdf_lowering.signal", "ktdf_lowering.execute_on",
        "ktdf_lowering.execute_on", "ktdf_lowering.signal", "ktdf_lowering.execute_on", "ktdf_lowering.signal",
    ]  # fmt: skip
    assert not any("loop_type" in op.attributes for op in module.walk())
    assert "ktdf.private" not in {op.name for op in module.walk()}


def test_pipelines_in_sequence_meet() -> None:
    """Consecutive pipelines: every pair of units of which one writes what the other uses."""
    once = "%r = arith.muli %tid, %c8 : index\n"
    module = flow(program(once + pipeline() + pipeline()))
    function = next(f for f in find(module, Func) if not f.is_declaration and f.symbol == "local_schedule_0")
    block = function.body.block.operations
    between = [op for op in block if isinstance(op, Signal)]
    queries = [op.results[0] for op in block if isinstance(op, uniform.QueryMap)]
    pairs = {frozenset(queries.index(u) for u in signal.units) for signal in between}
    # mnilu 0, l1lu 1, sfu 2, l1su 3, mnisu 4: both use the same buffers, and no output is an input
    assert pairs == {frozenset(p) for p in [(0, 1), (3, 4)]}
    in_loop = flow(program(loop(STEP + pipeline() + pipeline()), head=ROW))
    body = next(op for op in find(in_loop, scf.For)).body.block.operations
    assert sum(isinstance(op, Signal) for op in body) == 4


def test_functions_without_stages_are_untouched() -> None:
    """dataflowir checklist K1."""
    module = parse("func.func @f() attributes {grid = [1]} { return }")
    assert lower_to_ktdflow(module, SAMPLE) is module


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ("[0 : index]", "Grid size must be positive (got 0)"),
        ("[2, 2]", "Only 1D grids supported in Phase 1 (got 2D grid)"),
        ('["x"]', "Grid size must be integer attribute"),
        ("[2147483647]", "has 2147483647 compute tiles, device 'sample_device' has"),
    ],
)
def test_grids(grid: str, message: str) -> None:
    """dataflowir checklist K2."""
    refused(program(loop(STEP + pipeline()), head=ROW, grid=grid), message)


def test_missing_grid() -> None:
    """dataflowir checklist K2."""
    refused(SIMPLE.replace(" attributes {grid = [2 : index]}", ""), "Function missing 'grid' attribute")


def test_circular_tokens() -> None:
    """dataflowir checklist K10."""
    refused(
        SIMPLE.replace("depends_in(none) depends_out(%t0)", "depends_in(%t1) depends_out(%t0)"),
        "Circular token dependency detected in pipeline",
    )


def test_unknown_and_lower_case_units() -> None:
    """dataflowir checklist K19."""
    refused(SIMPLE.replace('["MNILU"]', '["DMA"]'), "failed to compute scratchpad conflicts")
    refused(SIMPLE.replace('["MNILU"]', '["mnilu"]'), "unit kind 'mnilu' must be upper case")
    refused(SIMPLE.replace('} {applicable_units = ["MNILU"]}', "}"), "stage has no applicable_units")


def program_function(module: Module) -> Func:
    """The function of the only program."""
    functions = [op for op in find(module, Func) if isinstance(op, Func) and not op.is_declaration]
    (found,) = [f for f in functions if f.symbol == "local_schedule_0"]
    return found


def unit_names(module: Module) -> list[str]:
    return [op.unit_name.value for op in module.walk() if isinstance(op, dataflow.GetUnit)]


def kinds_of(module: Module) -> dict[Value, str]:
    """The name of the first unit behind every query, without its core."""
    uses = DefUse(module)
    found = {}
    for op in module.walk():
        if isinstance(op, uniform.QueryMap):
            mapping = uses.definer(op.map)
            assert isinstance(mapping, uniform.DefImmutableMapping)
            handle = uses.definer(mapping.values[0])
            assert isinstance(handle, dataflow.GetUnit)
            found[op.value] = handle.unit_name.value.partition("-")[2]
    return found


def signals(module: Module) -> list[tuple[str, ...]]:
    """Who meets, in text order."""
    kinds = kinds_of(module)
    return [tuple(kinds[u] for u in op.units) for op in module.walk() if isinstance(op, Signal)]


SFU = 'ktdf.pipeline { ktdf.stage depends_in(none) depends_out(none) { "test.work"() : () -> () } {applicable_units = ["SFU"]} }'


def test_one_stage() -> None:
    """dataflowir checklist K3: a unit for every core, one map over the tile id, two nested execute_on."""
    module = flow(program(SFU, grid="[3 : index]"))
    handles = [op for op in module.walk() if isinstance(op, dataflow.GetUnit)]
    assert [h.unit_name.value for h in handles] == ["C0-sfu", "C1-sfu", "C2-sfu"]
    assert [(h.core, h.corelet) for h in handles] == [(0, 0), (1, 0), (2, 0)]
    (mapping,) = find(module, uniform.DefImmutableMapping)
    assert isinstance(mapping, uniform.DefImmutableMapping)
    assert mapping.values == tuple(h.handles[0] for h in handles)
    uses = DefUse(module)
    keys = [uses.definer(key) for key in mapping.keys]
    assert [k.value for k in keys if isinstance(k, arith.Constant)] == [index_attr(n) for n in range(3)]
    outer, inner = find(module, ExecuteOn)
    assert isinstance(outer, ExecuteOn)
    assert outer.operands == inner.operands
    assert outer.body.block.operations == (inner,)


def test_instances() -> None:
    """dataflowir checklist K4: units of a parallel loop, by corelet, then core; a query for every corelet."""
    parallel = f"ktdf.parallel (%j, %n) = (%c0) to (%c4) step (%c1) distribute(num_instances = 2) {{ {SFU} ktdf.parallel_yield }}"
    module = flow(program(parallel))
    assert unit_names(module) == ["C0-sfu-CL0", "C1-sfu-CL0", "C0-sfu-CL1", "C1-sfu-CL1"]
    handles = [op for op in module.walk() if isinstance(op, dataflow.GetUnit)]
    assert [(h.core, h.corelet) for h in handles] == [(0, 0), (1, 0), (0, 1), (1, 1)]
    (inner,) = [op for op in find(module, ExecuteOn) if not find_below(op, ExecuteOn)]
    assert [kinds_of(module)[v] for v in inner.operands] == ["sfu-CL0", "sfu-CL1"]


def find_below(op: Operation, cls: type[Operation]) -> list[Operation]:
    return [inner for inner in op.walk() if isinstance(inner, cls) and inner is not op]


def test_a_kind_used_inside_and_outside_of_a_parallel() -> None:
    """dataflowir checklist K5: the units are those of the parallel loop; the stage around runs on all of them."""
    module = flow(program(nested(instances=2)))
    names = unit_names(module)
    assert "C0-sfu" not in names
    assert [name for name in names if "-sfu" in name] == [
        "C0-sfu-CL0",
        "C1-sfu-CL0",
        "C0-sfu-CL1",
        "C1-sfu-CL1",
    ]
    kinds = kinds_of(module)
    around = [op for op in find(module, ExecuteOn) if len(op.operands) == 6]
    both = ["l1lu-CL0", "l1lu-CL1", "sfu-CL0", "sfu-CL1", "l1su-CL0", "l1su-CL1"]
    assert [[kinds[v] for v in op.operands] for op in around] == [both, both]


def test_order_of_the_prelude() -> None:
    """dataflowir checklist K6: units, tile id, then maps with constants of their own."""
    operations = program_function(flow(SIMPLE)).body.block.operations
    classes = [type(op) for op in operations]
    tile = classes.index(GetComputeTileId)
    assert all(cls is dataflow.GetUnit for cls in classes[:tile])
    mappings = [op for op in operations if isinstance(op, uniform.DefImmutableMapping)]
    assert all(operations.index(m) > tile for m in mappings)
    assert len({key for m in mappings for key in m.keys}) == sum(len(m.keys) for m in mappings)


def test_tags_of_units() -> None:
    """dataflowir checklist K7: the kind in lower case; the memory spaces of the kernel language have names."""
    assert memory_tag(StringAttr("MNILU")) == "mnilu"
    text = "#ktdp.memory_space<{}>"
    spaces = ktir.parse(
        f"func.func @f(%a: memref<4xf16, {text.format('global')}>, %b: memref<4xf16, {text.format('ct_local')}>) {{ return }}"
    )
    (function,) = [op for op in spaces.walk() if isinstance(op, Func)]
    types = [a.type for a in function.arguments if isinstance(a.type, MemRefType)]
    tags = [memory_tag(t.memory_space) for t in types if t.memory_space is not None]
    assert tags == ["hbm", "lx"]
    assert unit_names(flow(SIMPLE))[0] == "C0-mnilu"


def test_five_stages_meet_twice() -> None:
    """dataflowir checklist K8: behind the loading stage and behind the computing one, without the compute unit."""
    module = flow(program(nested(loops=False)))
    assert signals(module) == [("mnilu", "l1lu"), ("l1su", "mnisu")]
    kinds = kinds_of(module)
    outer = find(module, ExecuteOn)[0]
    assert isinstance(outer, ExecuteOn)
    inside = [op for op in outer.body.block.operations if isinstance(op, ExecuteOn | Signal)]
    assert [type(op) for op in inside] == [ExecuteOn, Signal, ExecuteOn, Signal, ExecuteOn]
    assert [kinds[v] for v in inside[2].operands] == ["l1lu", "sfu", "l1su"]


def test_a_store_that_the_next_iteration_loads() -> None:
    """dataflowir checklist K11: the two meet first in the load stage and last in the store stage, guarded."""
    module = flow(program(nested(stores_to="%in", trips="%c4")))
    guards = [op for op in find(module, scf.If) if isinstance(op, scf.If)]
    assert len(guards) == 2
    kinds = kinds_of(module)
    uses = DefUse(module)
    loops = [op for op in module.walk() if isinstance(op, scf.For)]
    (inner,) = [op for op in loops if not find_below(op, scf.For)]
    for guard, first in zip(guards, (True, False), strict=True):
        signal = guard.then_region.block.operations[0]
        assert isinstance(signal, Signal)
        assert [kinds[v] for v in signal.units] == ["l1su", "l1lu"]
        stage = next(op for op in uses.ancestors(guard) if isinstance(op, ExecuteOn))
        assert [kinds[v] for v in stage.operands] == (["l1lu"] if first else ["l1su"])
        body = stage.body.block.operations
        condition = uses.definer(guard.condition)
        assert isinstance(condition, arith.CmpI)
        assert condition.predicate.value is arith.CmpIPredicate.NE
        assert condition.operands[0] is inner.induction_variable
        if first:
            assert body[:2] == (condition, guard)
            assert condition.operands[1] is inner.lower
        else:
            assert body[-1] is guard
            last = uses.definer(condition.operands[1])
            assert isinstance(last, arith.SubI)
            assert last.operands == (inner.upper, inner.step)


SAME = program(loop(STEP + pipeline(out="%src")), head=ROW)
"""Every row is stored where it was loaded."""
BELOW = SAME.replace("to %src[%r, 0]", "to %src[%r + 1, 0]")
"""Every row is stored where the next iteration loads."""
TWO_VIEWS = program(loop(STEP + pipeline()), head=ROW)


def test_where_nothing_comes_back() -> None:
    """dataflowir checklist K12: one iteration, or a buffer that is not stored to."""
    once = flow(program(nested(stores_to="%in", trips="%c1")))
    assert not find(once, scf.If)
    apart = flow(program(nested(trips="%c4")))
    assert not find(apart, scf.If)
    assert not find(flow(SIMPLE), scf.If)
    assert not find(flow(SAME), scf.If)
    assert find(flow(BELOW), scf.If)


def guard_variables(module: Module) -> list[list[Value]]:
    """The loop variables that the guards compare, in order."""
    return [
        [op.operands[0] for op in function_block if isinstance(op, arith.CmpI)]
        for stage in find(module, ExecuteOn)
        if isinstance(stage, ExecuteOn)
        for function_block in [stage.body.block.operations]
        if any(isinstance(op, scf.If) for op in function_block)
    ]


def test_loops_of_a_guard() -> None:
    """dataflowir checklist K13: those around the pipeline that addresses depend on, also across a parallel."""
    body = program(nested(stores_to="%in", instances=2, outer=True))
    module = flow(body, BackedgeGuard.AND)
    (repeat,) = [op for op in module.walk() if isinstance(op, scf.For) and op.induction_variable.name == "o"]
    assert guard_variables(module) == [[repeat.induction_variable], [repeat.induction_variable]]
    # a loop in the loading stage itself
    inside = program(loop(STEP + pipeline(load=loop(LOAD_AT_K, "%c4", "%k"), out="%src"), "%c4"), head=ROW)
    for guard in BackedgeGuard:
        names = {v.name for variables in guard_variables(flow(inside, guard)) for v in variables}
        assert names == {"i"}


def test_guards_of_two_loops() -> None:
    """dataflowir checklist K14: all loops beyond the first iteration, or any; the last subscript comes first."""
    body = program(
        loop(
            loop("%r = arith.addi %i, %j : index\n" + pipeline(load=LOAD_AT_I_J, out="%src"), "%c4", "%j"),
            "%c4",
        )
    )
    strict = flow(body, BackedgeGuard.AND)
    assert len(find(strict, arith.AndI)) == 2
    assert not find(strict, arith.OrI)
    assert [[v.name for v in group] for group in guard_variables(strict)] == [["j", "i"], ["j", "i"]]
    linear = flow(body)
    assert len(find(linear, arith.OrI)) == 2
    assert not find(linear, arith.AndI)
    assert [[v.name for v in group] for group in guard_variables(linear)] == [["i", "j"], ["i", "j"]]


def test_no_guard_for_pipelines_in_sequence() -> None:
    """Units meet between them, too: guarded meetings would fall out of step with these."""
    below = pipeline(out="%src").replace("to %src[%r, 0]", "to %src[%r + 1, 0]")
    repeated = loop(below, "%c4", "%j")

    def names(body: str) -> list[list[str | None]]:
        module = flow(program(loop(STEP + body), head=ROW))
        return [[v.name for v in group] for group in guard_variables(module)]

    assert names(below) == [["i"], ["i"]]
    assert names(repeated) == [["i", "j"], ["i", "j"]]
    for body in (below + below, repeated + below, below + repeated):
        assert names(body) == []
        met = signals(flow(program(loop(STEP + body), head=ROW)))
        assert met.count(("mnisu", "mnilu")) >= 2


def test_no_guard_where_the_last_iteration_is_not_known() -> None:
    """Whoever cannot know the last iteration meets in every one."""
    ragged = BELOW.replace("step %c1", "step %c3")
    ragged = ragged.replace("%c4 = arith", "%c3 = arith.constant 3 : index\n%c4 = arith")
    module = flow(ragged)
    assert not find(module, scf.If)
    assert signals(module)[-1] == ("mnisu", "mnilu")


def test_no_guard_under_a_condition() -> None:
    """The first iteration of a loop need not be the first run of what stands under a condition in it."""
    below = pipeline(out="%src").replace("to %src[%r, 0]", "to %src[%r + 1, 0]")
    condition = "%b = arith.cmpi slt, %i, %c4 : index\n"
    module = flow(program(loop(STEP + condition + f"scf.if %b {{ {below} }}"), head=ROW))
    assert guard_variables(module) == []
    assert signals(module)[-1] == ("mnisu", "mnilu")
    inside = flow(program(loop(STEP + condition + f"scf.if %b {{ {loop(below, '%c4', '%j')} }}"), head=ROW))
    assert guard_variables(inside) == []


def test_sibling_pipelines_share_units() -> None:
    """dataflowir checklist K18."""
    once = "%r = arith.muli %tid, %c8 : index\n"
    module = flow(program(once + pipeline() + pipeline()))
    names = unit_names(module)
    assert len(names) == len(set(names)) == 10
    parallel = "ktdf.parallel (%j, %n) = (%c0) to (%c4) step (%c1) distribute(num_instances = 2) {{ {} ktdf.parallel_yield }}"
    twice = flow(program(parallel.format(SFU) + parallel.format(SFU)))
    assert unit_names(twice) == ["C0-sfu-CL0", "C1-sfu-CL0", "C0-sfu-CL1", "C1-sfu-CL1"]


@pytest.mark.parametrize(
    ("text", "old", "new", "edges"),
    [
        (SAME, "", "", 0),
        (SAME, "to %src[%r, 0]", "to %src[%r + 1, 0]", 1),
        (SAME, "%src[%r, 0]", "%src[%r floordiv 2, 0]", 1),
        (SAME, "%src[%r, 0]", "%src[0, 0]", 1),
        (SAME, "strides: [64, 1]", "strides: [32, 1]", 1),
        (TWO_VIEWS, "view %q,", "view %p,", 0),
        (TWO_VIEWS, "%qv = ktdp.construct_memory_view %q,", "%far = arith.addi %p, %c8 : index\n"
         "%qv = ktdp.construct_memory_view %far,", 1),
        (TWO_VIEWS, "", "", 0),
    ],
)  # fmt: skip
def test_in_place_and_almost(text: str, old: str, new: str, edges: int) -> None:
    """Rows that are stored where they were loaded need no way back; rows further down, by subscript or by the start
    of a view of the same argument, rows that iterations share, and rows that overlap in memory do.
    """
    assert old in text
    found = find(flow(text.replace(old, new) if old else text), scf.If)
    assert len(found) == 2 * edges  # a guard at each end
