"""ScheduleIR and KTDFLow, one operation after another (scheduler spec 1, dataflowir spec 2).

A pipeline is its stages in dependency order, queues are unbounded, tokens and signals do nothing, an open
tile size takes its least value.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import attrs
import numpy as np

from dfsched.architecture import Architecture
from dfsched.architecture.kinds import Kind, kind_of, kind_text
from dfsched.dialects import dataflow, ktdf, ktdf_lowering, uniform
from ktir.attributes import ArrayAttr, DictAttr, StringAttr
from ktir.dialects import builtin, func, memref, scf
from ktir.dtypes import element_bytes
from ktir.ir import Operation, Value
from ktir.types import MemRefType, TensorType, element_or_self
from spyresim.errors import ExecutionFault, QueueFault, Site, unsupported
from spyresim.meaning import evaluate_named
from spyresim.meaning.formats import Array, stretch
from spyresim.sequential.access import nest
from spyresim.sequential.basic import BASIC, call
from spyresim.sequential.data_transfers import DATA_TRANSFERS, Slot, drained
from spyresim.sequential.interpreter import Frame, Interpreter, Results
from spyresim.sequential.memory import HOST, Bank, Memory
from spyresim.sequential.memrefs import MEMREFS
from spyresim.sequential.structured import whole
from spyresim.sequential.transfers import load_view, store_view
from spyresim.sequential.values import Batched, View

__all__ = ["SCHEDULE", "Hardware"]

SCHEDULE = DATA_TRANSFERS.extended()


class Hardware:
    """The memories of a device by kind, one instance a core; and the count of program calls."""

    def __init__(self, architecture: Architecture, run: Interpreter, cores: int) -> None:
        self.architecture = architecture
        self._banks: dict[Kind, Bank] = {}
        self._run = run
        self._cores = cores
        self.call_number = 0

    def memory(self, kind: Kind, op: Operation) -> tuple[Memory, int | None]:
        """The memory of a kind, and its instance (None: that of the executing core)."""
        device = self.architecture.memory_kind(kind)
        if self.architecture.is_global(device):
            return self._run.device, 0
        scratchpad = self.architecture.scratchpad  # a core may have more memories than this one
        if scratchpad is not None and self.architecture.memory_kind(scratchpad.kind) == device:
            return self._run.scratchpad, None
        bank = self._banks.get(device)
        if bank is None:
            size = self.architecture.memory(device).size
            if size is None:
                raise unsupported(op, f"memory '{kind_text(device)}' without a size")
            bank = self._banks[device] = Bank(
                kind_text(device), self._cores, size, self._run.machine.stick_bytes
            )
        return bank, None


def hardware(run: Interpreter) -> Hardware:
    """The device of a run at this level."""
    found = run.cache.get(Hardware)
    assert isinstance(found, Hardware)
    return found


# -- resources


@attrs.frozen(eq=False)
class Token(Batched):
    """An ordering; the sequential executor follows the order anyway."""


@attrs.define(eq=False)
class Register(Batched):
    """A register: a memref of rank 0 that one scalar of a body at a time stands in."""

    data: Array | None = None


@SCHEDULE.executes(ktdf.FifoAllocate)
def allocate_queue(run: Interpreter, frame: Frame, op: ktdf.FifoAllocate) -> Results:
    return [Slot(Site(op.name, op.location)) for _ in op.results]


@SCHEDULE.executes(ktdf.CreateToken)
def create_token(run: Interpreter, frame: Frame, op: ktdf.CreateToken) -> Results:
    return [Token()]


@SCHEDULE.executes(memref.Alloc, memref.Alloca)
def allocate(run: Interpreter, frame: Frame, op: memref.Alloc) -> Results:
    """A buffer without an address yet: memory of its own. In bodies, numbers in registers are cells."""
    type = op.memref.type
    assert isinstance(type, MemRefType)
    if run.domains and not type.shape and (isinstance(op, memref.Alloca) or _is_register(run, type)):
        return [Register()]
    dynamic = iter(op.sizes)
    sizes = tuple(frame.number(next(dynamic)) if n is None else n for n in type.shape)
    return [_temporary(run, frame, type, sizes)]


def _temporary(run: Interpreter, frame: Frame, type: MemRefType, sizes: tuple[int, ...]) -> View:
    """Memory of its own for every tile."""
    label = "buffer" if type.memory_space is None else kind_text(kind_of(type.memory_space))
    size = max(math.prod(sizes) * element_bytes(type.element), 1)
    cores = int(frame.tiles.max()) + 1
    bank = Bank(label, cores, size, run.machine.stick_bytes)
    return View(bank, None, np.zeros(1, np.int64), type.element, sizes, _packed(sizes))


def _is_register(run: Interpreter, type: MemRefType) -> bool:
    space = type.memory_space
    return space is None or hardware(run).architecture.is_private(kind_of(space))


def _packed(sizes: Sequence[int]) -> tuple[int, ...]:
    return tuple(math.prod(sizes[d + 1 :]) for d in range(len(sizes)))


@SCHEDULE.executes(builtin.UnrealizedConversionCast)
def address_to_buffer(run: Interpreter, frame: Frame, op: builtin.UnrealizedConversionCast) -> Results:
    """A byte address becomes a buffer of the program in the memory of its type."""
    type = op.results[0].type
    if len(op.results) != 1 or not isinstance(type, MemRefType):
        return BASIC.entries[builtin.UnrealizedConversionCast](run, frame, op)
    if type.memory_space is None:
        raise unsupported(op, "a buffer at an address in no memory")
    device = hardware(run)
    memory, row = device.memory(kind_of(type.memory_space), op)
    base = frame.array(op.inputs[0])
    sizes = type.static_shape()
    owner = device.call_number if isinstance(memory, Bank) else HOST
    return [View(memory, row, base, type.element, sizes, _packed(sizes), owner)]


# -- pipelines


@SCHEDULE.executes(func.Call)
def call_program(run: Interpreter, frame: Frame, op: func.Call) -> Results:
    """Every call of a program owns its temporaries."""
    hardware(run).call_number += 1
    return call(run, frame, op)


@SCHEDULE.executes(ktdf.Pipeline)
def pipeline(run: Interpreter, frame: Frame, op: ktdf.Pipeline) -> Results:
    run.counters.count(op.name, frame.batch)
    slots: list[Slot] = []
    if op.private is not None:
        results = run.execute(op.private, frame)
        frame.bind(op.private.results, results)
        slots = [value for value in results if isinstance(value, Slot)]
    for stage in run.plan(op, stages_in_order):
        run.run_block(stage.body.block, frame)
    drained(slots, op)
    return ()


def stages_in_order(op: ktdf.Pipeline) -> list[ktdf.Stage]:
    """Stages by their tokens; program order among those that could go first."""
    waiting = list(op.stages)
    done: list[ktdf.Stage] = []
    produced = {token: stage for stage in waiting for token in stage.depends_out}
    while waiting:
        ready = next(
            (
                stage
                for stage in waiting
                if all(produced.get(token) in (*done, None) for token in stage.depends_in)
            ),
            None,
        )
        if ready is None:
            raise ExecutionFault(
                "the stages of a pipeline wait for each other", site=Site(op.name, op.location)
            )
        waiting.remove(ready)
        done.append(ready)
    return done


@SCHEDULE.executes(ktdf.Private)
def private(run: Interpreter, frame: Frame, op: ktdf.Private) -> Results:
    return run.run_block(op.body.block, frame)


@SCHEDULE.executes(ktdf.Parallel)
def parallel(run: Interpreter, frame: Frame, op: ktdf.Parallel) -> Results:
    """All points in lexicographic order; instance i has the i-th chunk."""
    lower, upper, step = ([frame.number(value) for value in group] for group in (op.lower, op.upper, op.step))
    points = list(itertools.product(*(range(a, b, c) for a, b, c in zip(lower, upper, step, strict=True))))
    chunk = -(-len(points) // op.num_instances.value)
    for number, point in enumerate(points):
        values = [np.array([v], np.int64) for v in (*point, number // chunk)]
        frame.bind(op.body.block.arguments, values)
        run.run_block(op.body.block, frame)
    return ()


# -- queues


@SCHEDULE.executes(ktdf.ReadFromFifo)
def read_from_queue(run: Interpreter, frame: Frame, op: ktdf.ReadFromFifo) -> Results:
    slot, type = frame[op.slot], op.data.type
    if not isinstance(slot, Slot) or not isinstance(type, TensorType | MemRefType):
        raise unsupported(op, f"a queue that is read into a {type}")
    data = slot.get(frame, op)
    if not type.is_static:
        raise unsupported(op, "a queue entry of unknown size")
    shape = type.static_shape()
    if math.prod(shape) != data.shape[1]:
        raise QueueFault(
            f"a read of {math.prod(shape)} elements from a queue entry of {data.shape[1]}",
            site=Site(op.name, op.location),
            queue="slot",
        )
    if isinstance(type, TensorType):
        return [data.reshape(-1, *shape)]
    buffer = _temporary(run, frame, type, shape)
    store_view(run, frame, op, buffer, 0, nest(buffer.sizes, buffer.strides), data.reshape(-1, *shape))
    return [buffer]


@SCHEDULE.executes(ktdf.WriteToFifo)
def write_to_queue(run: Interpreter, frame: Frame, op: ktdf.WriteToFifo) -> Results:
    slot = frame[op.slot]
    if not isinstance(slot, Slot):
        raise unsupported(op, "a write to something that is no queue")
    data = whole(run, frame, op, op.data)
    slot.put(frame, data.reshape(data.shape[0], -1))
    return ()


# -- registers and instruction templates in bodies


@SCHEDULE.executes(memref.Load)
def load(run: Interpreter, frame: Frame, op: memref.Load) -> Results:
    cell = frame[op.memref]
    if isinstance(cell, View) and _is_lanes(run, op.memref):
        return [_all_lanes(run, frame, op, cell)]
    if not isinstance(cell, Register):
        return MEMREFS.entries[memref.Load](run, frame, op)
    if cell.data is None:
        raise ExecutionFault("a register is read that nobody has written", site=Site(op.name, op.location))
    return [cell.data]


@SCHEDULE.executes(memref.Store)
def store(run: Interpreter, frame: Frame, op: memref.Store) -> Results:
    cell = frame[op.memref]
    if isinstance(cell, View) and _is_lanes(run, op.memref):
        _set_lanes(run, frame, op, cell, frame.array(op.value))
        return ()
    if not isinstance(cell, Register):
        return MEMREFS.entries[memref.Store](run, frame, op)
    cell.data = frame.array(op.value)
    return ()


@SCHEDULE.executes(ktdf.Opaque)
def opaque(run: Interpreter, frame: Frame, op: ktdf.Opaque) -> Results:
    """The operation of the table that the template is called after, on registers."""
    names = op.attributes.get("dataflow_scheduler.register_names")
    labels = [n.value for n in names if isinstance(n, StringAttr)] if isinstance(names, ArrayAttr) else []
    values = (*op.ins, *op.outs)
    if len(labels) != len(values):
        raise unsupported(op, f"template '{op.template.value}' without register names")
    named = dict(zip(labels, values, strict=True))
    inputs = [named[name] for name in sorted((n for n in named if _numbered(n, "in")), key=_number)]
    outputs = [named[name] for name in sorted((n for n in named if _numbered(n, "out")), key=_number)]
    parameters = op.attributes.get("parameter_dictionary")
    arrays = [_register(run, frame, op, value) for value in inputs]
    rank = max((array.ndim for array in arrays), default=1)
    results = evaluate_named(
        op.template.value,
        [a.reshape(a.shape + (1,) * (rank - a.ndim)) for a in arrays],
        [element_or_self(value.type) for value in inputs],
        [element_or_self(value.type) for value in outputs],
        parameters if isinstance(parameters, DictAttr) else DictAttr(),
        run.machine.f16_format,
        Site(op.name, op.location),
    )
    for value, result in zip(outputs, results, strict=True):
        cell = frame[value]
        if isinstance(cell, View) and _is_lanes(run, value):
            _set_lanes(run, frame, op, cell, result)
        elif isinstance(cell, Register):
            cell.data = result
        else:
            raise unsupported(op, "a template that writes something other than registers")
    return ()


def _is_lanes(run: Interpreter, value: Value) -> bool:
    """Whether a buffer in a body is a register of which stores and loads mean all lanes (device spec 4.6)."""
    type = value.type
    return (
        bool(run.domains)
        and isinstance(type, MemRefType)
        and len(type.shape) == 1
        and _is_register(run, type)
    )


def _all_lanes(run: Interpreter, frame: Frame, op: Operation, view: View) -> Array:
    extents = run.domains[-1]
    data = load_view(run, frame, op, view, 0, nest((math.prod(extents),), (1,)))
    return data.reshape(data.shape[0], *extents)


def _set_lanes(run: Interpreter, frame: Frame, op: Operation, view: View, data: Array) -> None:
    extents = run.domains[-1]
    full = stretch(data, (data.shape[0], *extents)).reshape(data.shape[0], -1)
    store_view(run, frame, op, view, 0, nest((math.prod(extents),), (1,)), full)


def _numbered(name: str, prefix: str) -> bool:
    return name.startswith(prefix) and name[len(prefix) :].isdigit()


def _number(name: str) -> int:
    return int(name.lstrip("inout"))


def _register(run: Interpreter, frame: Frame, op: Operation, value: Value) -> Array:
    found = frame[value]
    if isinstance(found, View) and _is_lanes(run, value):
        return _all_lanes(run, frame, op, found)
    data = found.data if isinstance(found, Register) else found
    if not isinstance(data, np.ndarray):
        raise unsupported(op, "a template that reads something other than registers")
    return data


# -- open tile sizes, rotating buffers


@SCHEDULE.executes(ktdf.ReserveSize)
def reserve_size(run: Interpreter, frame: Frame, op: ktdf.ReserveSize) -> Results:
    divisor = op.divisibility.value
    return [np.array([-(-op.min_value.value // divisor) * divisor], np.int64)]


@SCHEDULE.executes(ktdf.DeriveSize)
def derive_size(run: Interpreter, frame: Frame, op: ktdf.DeriveSize) -> Results:
    rest = frame.array(op.total_size)
    for variable, size in zip(op.loop_variables, op.tile_sizes, strict=True):
        tile = frame.array(size)
        rest = np.clip(rest - frame.array(variable) * tile, 0, tile)
    return [np.asarray(rest, np.int64)]


@SCHEDULE.executes(ktdf.LinearizeIndex)
def linearize_index(run: Interpreter, frame: Frame, op: ktdf.LinearizeIndex) -> Results:
    total: Array = np.zeros(1, np.int64)
    for variable, stride in zip(op.variables, op.strides, strict=True):
        total = total + frame.array(variable) * frame.array(stride)
    return [total]


@SCHEDULE.executes(ktdf.BufferPhase)
def buffer_phase(run: Interpreter, frame: Frame, op: ktdf.BufferPhase) -> Results:
    """Iterations of the surrounding loops so far, modulo the number of phases."""
    count: Array = np.zeros(1, np.int64)
    for variable in op.indices:
        loop = run.loop_of(variable)
        if not isinstance(loop, scf.For):
            raise unsupported(op, "a phase of something other than loop variables")
        lower, upper, step = (frame.array(v) for v in (loop.lower, loop.upper, loop.step))
        trips = -(-(upper - lower) // step)
        count = count * trips + (frame.array(variable) - lower) // step
    return [np.asarray(count % op.num_phases.value, np.int64)]


@SCHEDULE.executes(ktdf.SelectMemref)
def select_memref(run: Interpreter, frame: Frame, op: ktdf.SelectMemref) -> Results:
    return [frame[op.candidates[frame.number(op.phase)]]]


# -- KTDFLow


@SCHEDULE.executes(ktdf_lowering.ExecuteOn)
def execute_on(run: Interpreter, frame: Frame, op: ktdf_lowering.ExecuteOn) -> Results:
    """Units of a core are one sequential thread here."""
    run.run_block(op.body.block, frame)
    slots = [
        slot
        for inner in op.body.block.operations
        if isinstance(inner, ktdf.FifoAllocate)
        for slot in (frame[value] for value in inner.results)
        if isinstance(slot, Slot)
    ]
    drained(slots, op)
    return ()


@SCHEDULE.executes(ktdf_lowering.Signal, ktdf_lowering.Post, ktdf_lowering.Await)
def signal(run: Interpreter, frame: Frame, op: Operation) -> Results:
    return ()


@SCHEDULE.executes(dataflow.GetUnit)
def unit_handle(run: Interpreter, frame: Frame, op: dataflow.GetUnit) -> Results:
    """Handles only have to differ."""
    handles = run.cache.setdefault("unit handles", {})
    return [
        np.array([handles.setdefault((op.unit_name.value, i), len(handles))], np.int64)
        for i in range(len(op.results))
    ]


@attrs.frozen(eq=False)
class Mapping(Batched):
    """Keys and values of a uniform mapping."""

    keys: Array
    values: Array


@SCHEDULE.executes(uniform.DefImmutableMapping)
def define_mapping(run: Interpreter, frame: Frame, op: uniform.DefImmutableMapping) -> Results:
    keys, values = (
        np.array([frame.number(value) for value in group], np.int64) for group in (op.keys, op.values)
    )
    return [Mapping(keys, values)]


@SCHEDULE.executes(uniform.QueryMap)
def query_mapping(run: Interpreter, frame: Frame, op: uniform.QueryMap) -> Results:
    mapping, key = frame[op.map], frame.array(op.key)
    assert isinstance(mapping, Mapping)
    hits = key[:, None] == mapping.keys[None, :]
    if not hits.any(axis=1).all():
        missing = int(key[int(np.argmin(hits.any(axis=1)))])
        raise ExecutionFault(f"the mapping has no key {missing}", site=Site(op.name, op.location))
    return [mapping.values[np.argmax(hits, axis=1)]]
