"""From Tensors to a Schedule: split, callify, lower, link, plan memory (scheduler spec 1, 13 and 15)."""

from __future__ import annotations

import gc
import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import attrs

from rangeify import report
from rangeify.blocks import split
from rangeify.callify import free_variables, lasting_roots, needed_writes
from rangeify.capturing import active_capture
from rangeify.config import Config
from rangeify.linking import link, place_parts
from rangeify.lowering import statistics
from rangeify.parts import Part, make_parts
from rangeify.schedule_types import Arena, Schedule
from rangeify.signatures import checked
from rangeify.tensor import Tensor
from uopgraph import Ops, UOp

_SPECIAL: Final = frozenset({Ops.BUFFER, Ops.PARAM, Ops.AFTER, Ops.CALL})


@attrs.frozen(eq=False)
class Built:
    """A Schedule and what every value that gets storage becomes once it has run."""

    schedule: Schedule
    buffer_map: Mapping[UOp, UOp]


@checked
def schedule(*tensors: Tensor, config: Config | None = None) -> Schedule:
    """The kernels that compute `tensors`, in order, with their buffers and an arena for temporaries.

    Pure: no Tensor changes and nothing is computed. Tensors that are constants or have storage need no
    kernel. Raises `CallError` for what is no Tensor.
    """
    return build(tensors, Config.from_environment() if config is None else config).schedule


def build(tensors: tuple[Tensor, ...], config: Config, holders: tuple[UOp, ...] = ()) -> Built:
    """Schedule `tensors` and tell where every stored value will be. `holders`: values whose storage must not
    be overwritten, besides those of `tensors`."""
    with _uncollected():  # when it ends nothing is left to collect but the result
        return _build(tensors, config, holders)


def _build(tensors: tuple[Tensor, ...], config: Config, holders: tuple[UOp, ...]) -> Built:
    begin, before = time.perf_counter(), (statistics.hits, statistics.disk_hits)
    sink = UOp.make_sink(*(t.uop for t in tensors))
    order = list(sink.toposort())
    special = _special(order)
    inner, effects = order, special
    if special[Ops.CALL]:
        inner = list(sink.toposort(enter_calls=False))
        effects = _special(inner)
    values = free_variables(effects[Ops.PARAM])
    needed = needed_writes(effects[Ops.AFTER], (*sink.src, *holders))
    asked = lasting_roots(sink)
    if asked == sink.src:
        inner.pop()  # the sink itself
    else:
        inner = [n for n in UOp.make_sink(*asked).toposort(enter_calls=False) if n.op is not Ops.SINK]
    segments = split(inner, asked, needed, config)
    parts = make_parts(segments, needed, config)
    program = place_parts(segments, parts)
    free = {n: n.unbound() for n in special[Ops.PARAM] if n.is_bound_var}
    places = {**program.stored, **free}
    outputs = [t.uop.substitute(places, name="outputs", walk=True) for t in tensors]
    mentioned = special[Ops.BUFFER]
    taken = active_capture()
    if taken is not None:
        unplanned = attrs.evolve(config, memory_planner=False)
        taken.schedules.append(link(program, mentioned, outputs, values, unplanned))
        return Built(Schedule((), (), Arena(), (), (), (), ()), program.stored)
    schedule = link(program, mentioned, outputs, values, config)
    if config.debug:
        _tell(schedule, time.perf_counter() - begin, before, _key(parts), config.debug)
    return Built(schedule, program.stored)


def _special(order: Iterable[UOp]) -> dict[Ops, list[UOp]]:
    """The storage, parameters, states and calls among the nodes of `order`, in order."""
    found: dict[Ops, list[UOp]] = {op: [] for op in _SPECIAL}
    for node in [n for n in order if n.op in _SPECIAL]:
        found[node.op].append(node)
    return found


def _key(parts: Sequence[Part]) -> bytes:
    """The key of the lowered body, or of several in order."""
    if len(parts) == 1:
        return parts[0].key
    return hashlib.sha256(b"".join(p.key for p in parts)).digest()


def _tell(schedule: Schedule, seconds: float, before: tuple[int, int], key: bytes, level: int) -> None:
    """The lines of ``Config.debug``."""
    hits, disk_hits = statistics.hits - before[0], statistics.disk_hits - before[1]
    found = "cache hit" if hits else "disk hit" if disk_hits else "cache miss"
    if len(schedule.items) > 1 or level >= 3:
        report.tell(report.schedule_line(schedule, seconds, found, key))
    line = report.memory_line(schedule)
    if line is not None:
        report.tell(line)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Run a block without the cyclic collector: nodes form no cycles, and it would walk all of them again and
    again while they are built."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
