"""From Tensors to a Schedule: callify, lower, bind storage, plan memory (scheduler spec 1, 13 and 15)."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import attrs

from rangeify import report
from rangeify.callify import check_call, transform_to_call
from rangeify.calls import is_kernel_call, resolve
from rangeify.capturing import active_capture
from rangeify.config import Config
from rangeify.errors import UnsupportedError, require_type
from rangeify.kernels import DEVICE_NUMBER
from rangeify.lowering import Lowered, lower_call, statistics
from rangeify.memory import held_longer, lifetimes, place
from rangeify.multi import copy_offset, same_device
from rangeify.reasons import Reason, Rule
from rangeify.schedule_types import Arena, Buffer, Copy, Item, Kernel, Lane, Role, Schedule, Variable
from rangeify.storage import on_each_device
from rangeify.tensor import Tensor
from uopgraph import GroupOp, Ops, UOp


@attrs.frozen(eq=False)
class Built:
    """A Schedule and what every value that gets storage becomes once it has run."""

    schedule: Schedule
    buffer_map: Mapping[UOp, UOp]


def schedule(*tensors: Tensor, config: Config | None = None) -> Schedule:
    """The kernels that compute `tensors`, in order, with their buffers and an arena for temporaries.

    Pure: no Tensor changes and nothing is computed. Tensors that are constants or have storage need no
    kernel. Raises `CallError` for what is no Tensor.
    """
    check_call_arguments("schedule", tensors, config)
    return build(tensors, Config.from_environment() if config is None else config).schedule


def check_call_arguments(function: str, tensors: Sequence[object], config: object) -> None:
    """`CallError` unless these are Tensors and a configuration or None."""
    for tensor in tensors:
        require_type(function, "tensors", tensor, Tensor)
    if config is not None:
        require_type(function, "config", config, Config)


def build(tensors: tuple[Tensor, ...], config: Config, holders: tuple[UOp, ...] = ()) -> Built:
    """Schedule `tensors` and tell where every stored value will be. `holders`: values whose storage must not
    be overwritten, besides those of `tensors`."""
    with _uncollected():
        begin, before = time.perf_counter(), (statistics.hits, statistics.disk_hits)
        sink = UOp.make_sink(*(t.uop for t in tensors))
        result = transform_to_call(sink, frozenset(), holders)
        if config.check:
            check_call(result.call)
        lowered = lower_call(result.call, config)
        order = sink.toposort()
        mentioned = [n for n in order if n.op is Ops.BUFFER]
        free = {n: n.unbound() for n in order if n.is_bound_var}
        outputs = [
            t.uop.substitute({**result.buffer_map, **free}, name="outputs", walk=True) for t in tensors
        ]
        calls, origin = resolve(lowered.linear, result.call.src[1:])
        made = _Made(lowered, calls, origin, mentioned, outputs, result.variables, result.fresh)
        taken = active_capture()
        if taken is not None:
            taken.schedules.append(made.schedule(attrs.evolve(config, memory_planner=False)))
            return Built(Schedule((), (), Arena(), (), (), (), ()), result.buffer_map)
        schedule = made.schedule(config)
        if config.debug:
            _tell(schedule, time.perf_counter() - begin, before, result.call.src[0].key, config.debug)
        return Built(schedule, result.buffer_map)


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


@attrs.frozen(eq=False)
class _Made:
    lowered: Lowered
    calls: tuple[UOp, ...]
    origin: Mapping[UOp, tuple[str, UOp, int]]
    mentioned: list[UOp]
    outputs: list[UOp]
    values: Mapping[UOp, int | None]
    fresh: frozenset[UOp]

    def _variables(self) -> tuple[Variable, ...]:
        """Exactly the Variables that an item or an output uses, by name."""
        if not self.values:
            return ()
        users = dict.fromkeys([*(c.src[0] for c in self.calls), *self.outputs])
        used = {v for u in users for v in u.toposort() if v.is_variable and v.expr != DEVICE_NUMBER}
        found = []
        for v, value in self.values.items():
            if v in used:
                low, high = v.arg.vmin_vmax
                found.append(Variable(v.expr, low, high, v.arg.multiple_of or 1, value))
        return tuple(sorted(found, key=lambda v: v.name))

    def _reason(self, node: UOp, role: Role) -> Reason | None:
        match role:
            case Role.INPUT:
                return None
            case Role.INPUT_OUTPUT:
                return Reason(Rule.WRITE)
            case Role.OUTPUT:
                return Reason(Rule.FRESH if node in self.fresh else Rule.OUTPUT)
        if node in self.origin:
            name, linear, slot = self.origin[node]
            return self.lowered.nested.get(linear, {}).get(slot) or Reason(Rule.CALL, name)
        return self.lowered.reasons.get(node.arg.slot)

    def _roles(self) -> dict[UOp, Role]:
        """BUFFER -> how it takes part: written ones that an expression mentions are also inputs."""
        read = dict.fromkeys(
            n for c in self.calls for a in c.src[1:] for n in _storages(a) if n.op is Ops.BUFFER
        )
        written = {n for c in self.calls for n in _storages(c.src[1])}
        role, mentioned = {}, set(self.mentioned)
        for buffer in read:
            held = buffer in mentioned
            role[buffer] = (Role.INPUT_OUTPUT if held else Role.OUTPUT) if buffer in written else Role.INPUT
        for buffer in self._outside():
            role.setdefault(buffer, Role.INPUT if buffer in mentioned else Role.OUTPUT)
        return role

    def _outside(self) -> list[UOp]:
        return [b for out in self.outputs for b in out.toposort() if b.op is Ops.BUFFER]

    def schedule(self, config: Config) -> Schedule:
        role = self._roles()
        inputs = [b for b in self.mentioned if b in role and role[b] is not Role.OUTPUT]
        others = [b for b in (*self._outside(), *role) if role[b] is Role.OUTPUT]
        allocs = dict.fromkeys(
            n for c in self.calls for a in c.src[1:] for n in _storages(a) if n.op is Ops.ALLOC
        )
        buffers, nodes, count = [], [], {"in": 0, "out": 0, "t": 0}
        for node in (*inputs, *dict.fromkeys(others), *allocs):
            kind = role.get(node, Role.TEMPORARY)
            prefix = {Role.OUTPUT: "out", Role.TEMPORARY: "t"}.get(kind, "in")
            reason = self._reason(node, kind)
            shape = tuple(int(d) for d in node.shape)
            name = f"{prefix}{count[prefix]}"
            count[prefix] += 1
            parts = on_each_device(node)
            for i, part in enumerate(parts):
                own = name if len(parts) == 1 else f"{name}.{i}"
                buffers.append(Buffer(own, shape, node.dtype, str(part.device), kind, reason))
                nodes.append(part)
        number = {n: i for i, n in enumerate(nodes)}
        items = tuple(_item(c, number, buffers) for c in self.calls)
        slots = {n: n.param_like(i) for n, i in number.items() if n.op is Ops.BUFFER}
        for node in self._outside():
            if isinstance(node.device, tuple):
                slots[node] = UOp.mstack(*(p.param_like(number[p]) for p in on_each_device(node)))
        return Schedule(
            items,
            tuple(buffers),
            plan_arena(items, buffers, config),
            tuple(number[p] for b in inputs for p in on_each_device(b)),
            tuple(o.substitute(slots, name="number outputs", walk=True) for o in self.outputs),
            self._variables(),
            tuple(nodes),
        )


def _storages(argument: UOp) -> tuple[UOp, ...]:
    """The BUFFERs and ALLOCs of an argument: storage, or a selection or stack of storages."""
    if argument.op in (Ops.MSELECT, Ops.MSTACK):
        return tuple(n for s in argument.src for n in _storages(s))
    return (argument,) if argument.op in GroupOp.Defines and not argument.is_variable else ()


def _by_device(argument: UOp) -> tuple[UOp, ...]:
    """The storage that an argument means on each device."""
    if argument.op is Ops.MSTACK:
        return tuple(n for s in argument.src for n in _by_device(s))
    if argument.op is Ops.MSELECT:
        return (_by_device(argument.src[0])[argument.arg],)
    return on_each_device(argument)


def _item(call: UOp, number: Mapping[UOp, int], buffers: list[Buffer]) -> Item:
    """The kernel, or the copy, that a call on storage is."""
    body = call.src[0]
    if not is_kernel_call(call):
        raise UnsupportedError(f"a call of {body.op.name} as an item of a schedule")
    arguments = [_by_device(a) for a in call.src[1:] if _storages(a)]
    count = max(len(a) for a in arguments)
    if any(len(a) != count for a in arguments):
        same_device([str(s.device) for a in arguments for s in a], body.arg.name)
    launches = tuple(tuple(number[a[i]] for a in arguments) for i in range(count))
    for launch in launches:
        devices = [buffers[b].device for b in launch]
        if len(set(devices)) > 1:
            offset = copy_offset(body) if len(launch) == 2 and count == 1 else None
            if offset is None:
                same_device(devices, body.arg.name)
            else:
                return Copy(launch[0], launch[1], offset)
    return Kernel(body, launches[0], launches[1:])


def plan_arena(items: tuple[Item, ...], buffers: list[Buffer], config: Config) -> Arena:
    """Place the temporaries of the item list, a lane for each device and each of copies and kernels
    (scheduler spec 15)."""
    if not config.memory_planner:
        return Arena()
    copied = {b for item in items if isinstance(item, Copy) for b in item.touched}
    keys = {i: (b.device, i in copied) for i, b in enumerate(buffers) if b.role is Role.TEMPORARY}
    lives = lifetimes((item.touched for item in items), {i: buffers[i].nbytes for i in keys})
    offsets: dict[int, int] = {}
    lanes: list[Lane] = []
    start = 0
    for device, copies in dict.fromkeys(keys[live.key] for live in lives):
        own = [held_longer(v) if copies else v for v in lives if keys[v.key] == (device, copies)]
        placement = place(own, config.arena_alignment)
        offsets.update({i: start + offset for i, offset in placement.offsets.items()})
        lanes.append(Lane(device, copies, start, placement.nbytes))
        start += placement.nbytes
    return Arena(start, config.arena_alignment, offsets, tuple(lanes))
