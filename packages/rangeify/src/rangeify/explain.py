"""A readable account of a Schedule."""

from __future__ import annotations

import math

from rangeify.classes import by_class
from rangeify.kernels import loops_of
from rangeify.schedule_types import Copy, Kernel, Schedule
from uopgraph import GroupOp, Ops, UOp, dtypes, infix


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
    """One paragraph a kernel, then the memory."""
    lines = []
    for i, kernel in enumerate(schedule.items):
        if isinstance(kernel, Copy):
            to, at = (_describe(schedule, b) for b in kernel.touched)
            devices = [schedule.buffers[b].device for b in reversed(kernel.touched)]
            lines.append(f"copy {i}: {' -> '.join(devices)}")
            lines.append(f"  {schedule.buffers[kernel.destination].nbytes} bytes from {at} to {to}")
            continue
        out, *_ = kernel.buffers
        read = sum(schedule.buffers[b].nbytes for b in kernel.reads)
        written = schedule.buffers[out].nbytes
        launches = f" on {len(kernel.launches)} devices" if kernel.others else ""
        lines.append(f"kernel {i}: {kernel.function_name} {_loops(kernel)}{launches}")
        lines.append(
            f"  reads {', '.join(_describe(schedule, b) for b in kernel.reads) or 'nothing'}"
            f"; writes {_describe(schedule, out)}"
        )
        lines.append(f"  {read} bytes in, {written} bytes out, {operations(kernel.body)} operations")
        lines.append(f"  stored because {schedule.buffers[out].reason or 'it was asked for'}")
    arena = schedule.arena
    total = sum(schedule.buffers[b].nbytes for b in arena.offsets)
    lines.append(f"arena: {arena.nbytes} bytes for {len(arena.offsets)} temporaries of {total} bytes")
    return "\n".join(lines)


def _describe(schedule: Schedule, index: int) -> str:
    buffer = schedule.buffers[index]
    return f"{buffer.name} {buffer.dtype.name}{list(buffer.shape)}"
