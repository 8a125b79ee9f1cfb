"""The order of kernels: read-after-write and write-after-read edges and one topological sort
(scheduler spec 12)."""

from __future__ import annotations

import enum
from collections import deque

import attrs

from rangeify.errors import CycleError, ScheduleError
from rangeify.kernels import storage_of
from rangeify.memory_order import memory_order
from uopgraph import GroupOp, Ops, UOp

_STATES = GroupOp.Defines | {Ops.AFTER}


def states_of(node: UOp) -> tuple[UOp, ...]:
    """The states of storage that an argument reads: those of all its parts where it is made of several."""
    if node.op is Ops.MSTACK:
        return tuple(dict.fromkeys(s for part in node.src for s in states_of(part)))
    return (state_of(node),)


def state_of(node: UOp) -> UOp:
    """The state of storage under views and casts: an AFTER or the storage itself."""
    while node.op not in _STATES:
        if node.op not in GroupOp.Movement | {Ops.BITCAST, Ops.INDEX, Ops.CAST, Ops.MSELECT, Ops.UNSHARD}:
            raise ScheduleError("create_schedule", f"{node.op.name} is no state of storage")
        node = node.src[0]
    return node


def _kernels(state: UOp) -> tuple[UOp, ...]:
    """The kernels that an AFTER waits for directly."""
    return tuple(s for s in state.src[1:] if s.op is Ops.CALL) if state.op is Ops.AFTER else ()


def _is_join(state: UOp) -> bool:
    """An AFTER that no kernel makes: it only waits for other states."""
    return state.op is Ops.AFTER and not _kernels(state)


def _makers(state: UOp) -> tuple[UOp, ...]:
    """The kernels that must have run before a reader of `state`: its own, and those of the states that it
    waits for or, where it is a join, that it stands on."""
    found: dict[UOp, None] = {}
    stack, seen = [state], {state}
    while stack:
        s = stack.pop()
        found.update(dict.fromkeys(_kernels(s)))
        further = [d for d in s.src[1:] if d.op is Ops.AFTER] if s.op is Ops.AFTER else []
        if _is_join(s):
            further += states_of(s.src[0])
        stack.extend(d for d in further if d not in seen)
        seen.update(further)
    return tuple(found)


def _contents(state: UOp) -> tuple[UOp, ...]:
    """The states whose bytes a reader of `state` sees. A join has those of what it stands on and of what it
    waits for in the same storage."""
    found: dict[UOp, None] = {}
    stack, seen = [state], {state}
    while stack:
        s = stack.pop()
        if not _is_join(s):
            found[s] = None
            continue
        storage = storage_of(s)
        further = [d for d in s.src[1:] if d.op is Ops.AFTER and storage_of(d) is storage]
        further += states_of(s.src[0])
        stack.extend(d for d in further if d not in seen)
        seen.update(further)
    return tuple(found)


class Hazard(enum.Enum):
    """Why one kernel comes before another."""

    RAW = "the later one reads what the earlier one writes"
    WAR = "the later one overwrites what the earlier one reads"


@attrs.define
class Dependencies:
    """Kernels in order of discovery, each with those that must come later and why."""

    successors: dict[UOp, dict[UOp, Hazard]] = attrs.field(factory=dict)

    def add(self, kernel: UOp) -> None:
        self.successors.setdefault(kernel, {})

    def edge(self, before: UOp, after: UOp, hazard: Hazard) -> None:
        self.add(before)
        self.add(after)
        if before is not after:
            self.successors[before].setdefault(after, hazard)


def dependencies(graph: UOp) -> Dependencies:
    """The edges of a kernel graph: every reader after the writer of the state that it reads and before the
    writer that supersedes it."""
    result = Dependencies()
    reads: list[tuple[UOp, UOp, UOp]] = []  # (kernel, state after it, state that it reads)
    writes: dict[UOp, dict[UOp, UOp]] = {}  # state -> kernels that supersede it -> state after them
    for state in graph.toposort(enter_calls=False):
        if state.op is not Ops.AFTER:
            continue
        own = _kernels(state)
        beneath = state_of(state.src[0])
        members = _kernels(beneath)
        for kernel in own:
            result.add(kernel)
            for previous in _contents(beneath) if kernel not in members else ():
                writes.setdefault(previous, {})[kernel] = state
        waited = [d for d in state.src[1:] if d.op is Ops.AFTER]
        for dependency in state.src[1:]:
            if dependency.op not in (Ops.CALL, Ops.AFTER):
                raise ScheduleError("create_schedule", f"a state waits for {dependency.op.name}")
        for kernel in own:
            for read in (s for a in kernel.src[1:] if _is_storage(a) for s in states_of(a)):
                reads.extend((kernel, state, seen) for seen in _contents(read))
                for before in _makers(read):
                    result.edge(before, kernel, Hazard.RAW)
            for dependency in waited:
                for before in _makers(dependency):
                    result.edge(before, kernel, Hazard.RAW)
    for reader, after, state in reads:
        for writer, superseding in writes.get(state, {}).items():
            # a kernel that is (also) the writer, or that the reader waits for, is not held back by it
            if writer is not reader and superseding is not after and writer not in reader.backward_slice:
                result.edge(reader, writer, Hazard.WAR)
    return result


def create_schedule(graph: UOp, memory: bool = False) -> UOp:
    """LINEAR of the kernel calls on plain storage in an order that keeps all :func:`dependencies`. Raises
    :class:`CycleError` naming the kernels when there is none. With `memory` it is one that needs little of
    it for temporaries."""
    needed = dependencies(graph)
    order = in_order(needed)
    if memory:
        order = memory_order(order, needed.successors)
    return UOp(Ops.LINEAR, None, tuple(_on_storage(k) for k in order))


def _on_storage(kernel: UOp) -> UOp:
    return kernel.replace(
        src=(kernel.src[0], *(storage_of(a) if _is_storage(a) else a for a in kernel.src[1:]))
    )


def _is_storage(argument: UOp) -> bool:
    return not argument.is_variable and argument.op is not Ops.CONST


def in_order(graph: Dependencies) -> list[UOp]:
    """The kernels, each as soon as all that must come before it are there."""
    waits = dict.fromkeys(graph.successors, 0)
    for later in graph.successors.values():
        for kernel in later:
            waits[kernel] += 1
    ready = deque(k for k, n in waits.items() if n == 0)
    order = []
    while ready:
        kernel = ready.popleft()
        order.append(kernel)
        for after in graph.successors[kernel]:
            waits[after] -= 1
            if waits[after] == 0:
                ready.append(after)
    if len(order) < len(waits):
        names = tuple(_describe(k) for k, n in waits.items() if n > 0)
        raise CycleError(f"cycle detected in assign graph: no order of {', '.join(names)}", names)
    return order


def _describe(kernel: UOp) -> str:
    used = (s.buf_uop for a in kernel.src[1:] if _is_storage(a) for s in states_of(a))
    buffers = ", ".join(f"{s.op.name} {s.arg.slot}" for s in dict.fromkeys(used))
    name = kernel.src[0].arg.name if kernel.src[0].op is Ops.SINK else kernel.arg.name or "a call"
    return f"{name}({buffers})"
