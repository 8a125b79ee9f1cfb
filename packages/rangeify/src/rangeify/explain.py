"""A readable account of a Schedule."""

from __future__ import annotations

import math

from rangeify.classes import by_class
from rangeify.kernels import loops_of
from rangeify.schedule_types import Copy, Kernel, Schedule, loaded_slots
from uopgraph import GroupOp, Ops, UOp, dtypes, infix, viz


def operations(body: UOp) -> int:
    """Element-wise operations and combines that one execution of a kernel body does.

    A value is computed once for each combination of its own loops; loops of one axis class count once. Index
    arithmetic is not counted.
    """
    total = 0
    for node in by_class(body).toposort(gate=lambda n: n.op is not Ops.INDEX):
        loops = {**node.ranges, **dict.fromkeys(node.src[1:])} if node.op is Ops.REDUCE else node.ranges
        reads = node.op is Ops.REDUCE or node.op in GroupOp.ALU
        if reads and node.dtype is not dtypes.weakint:
            total += math.prod(_extent(r) for r in loops)
    return total


def _extent(r: UOp) -> int:
    return int(r.src[0].vmax)


def _loops(kernel: Kernel) -> str:
    outer, reduced = loops_of(kernel.body)
    sizes = [infix(r.src[0]) for r in outer] + [f"{infix(r.src[0])}R" for r in reduced]
    return "[" + " x ".join(sizes) + "]"


def explain(schedule: Schedule) -> str:
    """One paragraph an item, then the memory."""
    lines = []
    for i in range(len(schedule.items)):
        title, *facts = item_account(schedule, i)
        lines += [title, *(f"  {fact}" for fact in facts)]
    arena = schedule.arena
    total = sum(schedule.buffers[b].nbytes for b in arena.offsets)
    lines.append(f"arena: {arena.nbytes} bytes for {len(arena.offsets)} temporaries of {total} bytes")
    return "\n".join(lines)


def item_account(schedule: Schedule, number: int) -> list[str]:
    """The title of an item, then what it reads and writes, its bytes and operations, and why its result is
    stored."""
    item = schedule.items[number]
    if isinstance(item, Copy):
        to, at = (_describe(schedule, b) for b in item.touched)
        devices = [schedule.buffers[b].device for b in reversed(item.touched)]
        return [
            f"copy {number}: {' -> '.join(devices)}",
            f"{schedule.buffers[item.destination].nbytes} bytes from {at} to {to}",
            _why(schedule, number, item.destination),
        ]
    out = item.buffers[0]
    read = sum(schedule.buffers[b].nbytes for b in item.reads)
    written = schedule.buffers[out].nbytes
    launches = f" on {len(item.launches)} devices" if item.others else ""
    return [
        f"kernel {number}: {item.function_name} {_loops(item)}{launches}",
        f"reads {', '.join(_describe(schedule, b) for b in item.reads) or 'nothing'}"
        f"; writes {_describe(schedule, out)}",
        f"{read} bytes in, {written} bytes out, {operations(item.body)} operations",
        _why(schedule, number, out),
    ]


def readers_of(schedule: Schedule, number: int, buffer: int) -> tuple[int, ...]:
    """The later items that read what item `number` left in `buffer`, up to the next one that writes it."""
    found = []
    for i in range(number + 1, len(schedule.items)):
        item = schedule.items[i]
        if isinstance(item, Copy):
            reads, writes = {item.source}, {item.destination}
        else:
            reads = {launch[s] for launch in item.launches for s in loaded_slots(item.body)}
            writes = {launch[0] for launch in item.launches}
        if buffer in reads:
            found.append(i)
        if buffer in writes:
            break
    return tuple(found)


def _why(schedule: Schedule, number: int, buffer: int) -> str:
    readers = readers_of(schedule, number, buffer)
    text = f"stored because {schedule.buffers[buffer].reason}"
    return f"{text}; read by {', '.join(map(str, readers))}" if readers else text


def _describe(schedule: Schedule, index: int) -> str:
    buffer = schedule.buffers[index]
    return f"{buffer.name} {buffer.dtype.name}{list(buffer.shape)}"


def to_html(schedule: Schedule, title: str = "schedule") -> str:
    """A self-contained page: the items with the buffers between them, and the body of every kernel."""
    boxes: list[viz.Box] = []
    state: dict[int, int] = {}

    def box_of(buffer: int, sources: tuple[int, ...] = ()) -> int:
        b = schedule.buffers[buffer]
        notes = () if b.reason is None else b.reason.lines
        boxes.append(viz.Box(_describe(schedule, buffer), "storage", notes, sources))
        state[buffer] = len(boxes) - 1
        return state[buffer]

    pictures = []
    for i, item in enumerate(schedule.items):
        name, *facts = item_account(schedule, i)
        reads = item.touched[1:] if isinstance(item, Copy) else item.reads
        sources = tuple(state[b] if b in state else box_of(b) for b in reads)
        kind = "memory" if isinstance(item, Copy) else "reduce" if loops_of(item.body)[1] else "alu"
        boxes.append(viz.Box(name, kind, tuple(facts[:-1][-1:]), sources))
        box_of(item.touched[0], (len(boxes) - 1,))
        if not isinstance(item, Copy):
            pictures.append(viz.Picture(name, "; ".join(facts), item.body))
    overview = viz.Diagram("items", explain(schedule).rpartition("\n")[2], tuple(boxes))
    return viz.html(viz.Gallery((("order", (overview,)), ("kernels", tuple(pictures)))), title)
