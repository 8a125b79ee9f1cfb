"""Parts of a program put one after the other: one list of buffers, one list of items, one arena."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import count

import attrs

from rangeify.arena import plan_arena
from rangeify.blocks import Segment
from rangeify.config import Config
from rangeify.kernels import DEVICE_NUMBER
from rangeify.parts import Part, Storage
from rangeify.reasons import Reason, Rule
from rangeify.schedule_types import Buffer, Copy, Item, Kernel, Role, Schedule, Variable
from rangeify.storage import on_each_device
from uopgraph import Ops, UOp

_TEMPORARY, _INPUT = Role.TEMPORARY, Role.INPUT  # reading a member of an Enum is slow
_WRITTEN, _FRESH, _ASKED, _JOINT = (Reason(r) for r in (Rule.WRITE, Rule.FRESH, Rule.OUTPUT, Rule.BLOCK))


@attrs.frozen(eq=False)
class Placed:
    """A segment and its part. ``nodes``: for each storage of the part the BUFFER, None for temporaries."""

    segment: Segment
    part: Part
    nodes: tuple[UOp | None, ...]


@attrs.frozen(eq=False)
class Program:
    """``stored``: what every value that gets lasting storage becomes. ``fresh``: the BUFFERs that take a
    write because somebody needs the old bytes."""

    placed: tuple[Placed, ...]
    stored: Mapping[UOp, UOp]
    fresh: frozenset[UOp]


def place_parts(segments: Sequence[Segment], parts: Sequence[Part]) -> Program:
    """Each part on the BUFFERs of its segment."""
    placed: list[Placed] = []
    stored: dict[UOp, UOp] = {}
    fresh: set[UOp] = set()
    for segment, part in zip(segments, parts, strict=True):
        nodes = part.nodes_of(segment)
        used = [nodes.get(b, b) if b is not None else None for b in part.lasting]
        placed.append(Placed(segment, part, tuple(used)))
        if part.stored:
            own = {} if segment is part.segment else dict(zip(part.segment.nodes, segment.nodes, strict=True))
            for value, place in part.stored.items():
                stored[own.get(value, value)] = place.substitute(nodes, name="place", walk=True)
            fresh.update(nodes.get(b, b) for b in part.fresh)
    return Program(tuple(placed), stored, frozenset(fresh))


@attrs.define(eq=False)
class _Buffers:
    """The buffers of a schedule so far; ``number``: BUFFER -> the number of its part on the first device."""

    buffers: list[Buffer] = attrs.field(factory=list)
    nodes: list[UOp] = attrs.field(factory=list)
    number: dict[UOp, int] = attrs.field(factory=dict)
    names: defaultdict[str, count[int]] = attrs.field(factory=lambda: defaultdict(count))

    def add(self, prefix: str, like: Storage, parts: tuple[UOp, ...], role: Role, why: Reason | None) -> int:
        """Storage like `like`, whose nodes are `parts`; the number of the first one."""
        first, name = len(self.buffers), f"{prefix}{next(self.names[prefix])}"
        self.nodes += parts
        if len(parts) == 1:
            self.buffers.append(Buffer(name, like.shape, like.dtype, like.devices[0], role, why))
            return first
        for i, device in enumerate(like.devices):
            self.buffers.append(Buffer(f"{name}.{i}", like.shape, like.dtype, device, role, why))
        return first


def link(
    program: Program,
    mentioned: Sequence[UOp],
    outputs: Sequence[UOp],
    values: Mapping[UOp, int | None],
    config: Config,
) -> Schedule:
    """The schedule of a program.

    `mentioned`: the BUFFERs of the scheduled expressions, in order. `outputs`: their values as expressions
    over storage. `values`: Variables, and what they are bound to.
    """
    made, inputs = _lasting(program, mentioned, outputs)
    items: list[Item] = []
    joint = 0
    for placed in program.placed:
        table: list[int] = []
        part, end = placed.part, -1
        for storage, node in zip(part.storages, placed.nodes, strict=True):
            if node is not None:
                at = made.number[node]
            elif storage.node is part.start:
                at = joint
            elif storage.node is part.end:
                at = end = made.add("t", storage, storage.parts, _TEMPORARY, _JOINT)
            else:
                at = made.add("t", storage, storage.parts, _TEMPORARY, storage.reason)
            table += (at,) if len(storage.parts) == 1 else range(at, at + len(storage.parts))
        items += _items(part, table)
        joint = end
        if end < 0 and placed.segment.end is not None:
            joint = made.number[program.stored[placed.segment.end].buf_uop]
    return Schedule(
        tuple(items),
        tuple(made.buffers),
        plan_arena(items, made.buffers, config),
        tuple(inputs),
        _numbered(outputs, made.number),
        _variables(items, outputs, values),
        tuple(made.nodes),
    )


def _items(part: Part, table: Sequence[int]) -> Iterator[Item]:
    """The items of a part on numbers of buffers."""
    number = table.__getitem__
    for item in part.items:
        if isinstance(item, Copy):
            yield Copy(table[item.destination], table[item.source], item.offset)
            continue
        others = item.others and tuple([tuple(map(number, launch)) for launch in item.others])
        yield Kernel(item.body, tuple(map(number, item.buffers)), others)


def _outside(outputs: Sequence[UOp]) -> list[UOp]:
    """The BUFFERs of the outputs."""
    return [n for out in outputs for n in out.toposort() if n.op is Ops.BUFFER]


def _lasting(
    program: Program, mentioned: Sequence[UOp], outputs: Sequence[UOp]
) -> tuple[_Buffers, list[int]]:
    """The buffers that are no temporaries: inputs in the order in which they are mentioned, then the others;
    and the numbers of the inputs."""
    used: dict[UOp, Storage | None] = dict.fromkeys(_outside(outputs))
    written: set[UOp] = set()
    for placed in program.placed:
        for storage, node in zip(placed.part.storages, placed.nodes, strict=True):
            if node is not None:
                used[node] = storage
                if storage.written:
                    written.add(node)
    made = _Buffers()

    def add(node: UOp, prefix: str, role: Role, why: Reason | None) -> None:
        like = used.pop(node) or _like(node)
        parts = (node,) if len(like.devices) == 1 else on_each_device(node)
        made.number[node] = made.add(prefix, like, parts, role, why)

    for node in mentioned:
        if node in used:
            kept = node not in written
            add(node, "in", _INPUT if kept else Role.INPUT_OUTPUT, None if kept else _WRITTEN)
    inputs = list(range(len(made.buffers)))
    for node in tuple(used):
        add(node, "out", Role.OUTPUT, _FRESH if node in program.fresh else _ASKED)
    return made, inputs


def _like(node: UOp) -> Storage:
    """The form of a BUFFER that no item touches."""
    parts = on_each_device(node)
    shape = tuple(int(d) for d in node.shape)
    return Storage(node, shape, node.dtype, parts, tuple(str(p.device) for p in parts), False, None)


def _numbered(outputs: Sequence[UOp], number: Mapping[UOp, int]) -> tuple[UOp, ...]:
    """The outputs over PARAMs whose slots are numbers of buffers."""
    slots: dict[UOp, UOp] = {}
    for node in _outside(outputs):
        first, parts = number[node], on_each_device(node)
        whole = [p.param_like(first + i) for i, p in enumerate(parts)]
        slots[node] = whole[0] if len(parts) == 1 else UOp.mstack(*whole)
    return tuple(o.substitute(slots, name="number outputs", walk=True) for o in outputs)


def _variables(
    items: Sequence[Item], outputs: Sequence[UOp], values: Mapping[UOp, int | None]
) -> tuple[Variable, ...]:
    """Exactly the Variables that an item or an output uses, by name."""
    if not values:
        return ()
    users = dict.fromkeys([*(i.body for i in items if isinstance(i, Kernel)), *outputs])
    used = {v for u in users for v in u.toposort() if v.is_variable and v.expr != DEVICE_NUMBER}
    found = []
    for v, value in values.items():
        if v in used:
            low, high = v.arg.vmin_vmax
            found.append(Variable(v.expr, low, high, v.arg.multiple_of or 1, value))
    return tuple(sorted(found, key=lambda v: v.name))
