"""Which units run which stage: handles, maps over the tile id, queries (dataflowir spec 2.4 to 2.7)."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field

from dfsched.dialects.dataflow import GetUnit
from dfsched.dialects.ktdf import Parallel, Pipeline, Stage
from dfsched.dialects.uniform import DefImmutableMapping, QueryMap
from dfsched.lowering.errors import LoweringError
from ktir.analysis import DefUse
from ktir.attribute import Attribute
from ktir.attributes import StringAttr, index_attr
from ktir.dialects.arith import Constant
from ktir.dialects.ktdp import GetComputeTileId
from ktir.ir import Operation, Value
from ktir.types import INDEX

__all__ = ["StageUnits", "assign_units", "components", "memory_tag"]


def memory_tag(space: Attribute) -> str:
    """The name of a component or memory space in unit names: lower case; ``hbm`` and ``lx`` for KTIR's."""
    match space:
        case StringAttr(value=value):
            return value.lower()
        case _:
            text = str(space)
            if "<global>" in text:
                return "hbm"
            return "lx" if "ct_local" in text else text.lower()


def components(stage: Stage) -> tuple[Attribute, ...]:
    """The stage's unit kinds as written; LoweringError where there are none."""
    if stage.applicable_units is None or not len(stage.applicable_units):
        raise LoweringError.at(stage.location, "stage has no applicable_units")
    for component in stage.applicable_units:
        if isinstance(component, StringAttr) and component.value != component.value.upper():
            raise LoweringError.at(stage.location, f"unit kind '{component.value}' must be upper case")
    return stage.applicable_units.elements


@define
class StageUnits:
    """Operations that make the handles, and the queries of every stage."""

    prelude: list[Operation] = field(factory=list)
    queries: dict[Stage, tuple[Value, ...]] = field(factory=dict)


def is_leaf(stage: Stage) -> bool:
    """Whether no pipeline stands inside."""
    return not any(isinstance(op, Pipeline) for op in stage.walk())


def assign_units(stages: Sequence[Stage], uses: DefUse, grid: int) -> StageUnits:
    """Materialise units for all `stages` of a function (inner ones first) on `grid` cores.

    Units are keyed by kind, core and corelet, so that sibling parallel loops share handles.  A leaf stage
    outside of a parallel loop whose kind is also used inside runs on corelet 0 only (readings, item 21).
    """
    inside: dict[Parallel, dict[Attribute, None]] = {}
    candidates: dict[Attribute, None] = {}
    homes: dict[Stage, Parallel | None] = {}
    for stage in stages:
        home = next((op for op in uses.ancestors(stage) if isinstance(op, Parallel)), None)
        homes[stage] = home
        target = candidates if home is None else inside.setdefault(home, {})
        target.update(dict.fromkeys(components(stage)))
    corelets: dict[Attribute, int] = {}
    for parallel, kinds in inside.items():
        for kind in kinds:
            corelets[kind] = max(corelets.get(kind, 0), parallel.num_instances.value)
    single = [kind for kind in candidates if kind not in corelets]

    found = StageUnits()
    groups: list[tuple[Attribute, int, str]] = [(kind, 0, "") for kind in single]
    groups += [(kind, corelet, f"-CL{corelet}") for kind, n in corelets.items() for corelet in range(n)]
    handles: dict[tuple[Attribute, int], list[Value]] = {}
    for kind, corelet, suffix in groups:
        tag = memory_tag(kind)
        units = [GetUnit.of(f"C{core}-{tag}{suffix}", tag, core, corelet) for core in range(grid)]
        found.prelude += units
        handles[kind, corelet] = [unit.handles[0] for unit in units]
    tile = GetComputeTileId.create((), (INDEX,))
    found.prelude.append(tile)
    queries: dict[tuple[Attribute, int], Value] = {}
    for kind, corelet, _ in groups:
        keys = [Constant.of(index_attr(core)) for core in range(grid)]
        values = handles[kind, corelet]
        mapping = DefImmutableMapping.of([(key.result, unit) for key, unit in zip(keys, values, strict=True)])
        query = QueryMap.of(mapping.mapping, tile.results[0])
        found.prelude += [*keys, mapping, query]
        queries[kind, corelet] = query.value
    for stage in stages:
        wired: list[Value] = []
        home = homes[stage]
        for kind in components(stage):
            if kind not in corelets:
                wired.append(queries[kind, 0])
            elif home is not None:
                wired += [queries[kind, corelet] for corelet in range(home.num_instances.value)]
            else:
                count = 1 if is_leaf(stage) else corelets[kind]
                wired += [queries[kind, corelet] for corelet in range(count)]
        found.queries[stage] = tuple(wired)
    return found
