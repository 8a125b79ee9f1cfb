"""Compute groups: what hangs together by tensor values in one block (scheduler spec 3.3 steps 1 and 2)."""

from __future__ import annotations

from collections.abc import Container, Sequence

from dfsched.passes.errors import Findings, ScheduleError, UnsupportedKernel
from dfsched.passes.ir_tools import Definitions, captured, post_order
from dfsched.passes.memory_accesses import accesses, conflict
from ktir.analysis import is_pure
from ktir.dialects import ktdp, scf, tensor
from ktir.ir import Operation, Value
from ktir.types import IndexType, TensorType

__all__ = ["check_order", "compute_groups", "is_control"]


def is_control(op: Operation) -> bool:
    """Whether an operation is control flow that may hold compute."""
    return isinstance(op, scf.For | scf.If)


def compute_groups(operations: Sequence[Operation], definitions: Definitions) -> list[list[Operation]]:
    """Groups of operations directly in a block that hang together by tensor values, by first member.

    `ScheduleError` with everything that is in no group, and what takes values from elsewhere.
    """
    findings = Findings()
    here = {op: position for position, op in enumerate(operations)}
    leader: dict[Operation, Operation] = {}

    def find(op: Operation) -> Operation:
        while leader[op] is not op:
            leader[op] = leader[leader[op]]
            op = leader[op]
        return op

    for store in operations:
        if not isinstance(store, ktdp.Store):
            continue
        leader.setdefault(store, store)
        stack: list[Operation] = [store]
        seen: set[Operation] = {store}
        while stack:
            op = stack.pop()
            for definer in _producers(op, store, here, definitions, findings):
                leader.setdefault(definer, definer)
                leader[find(definer)] = find(store)
                if definer not in seen:
                    seen.add(definer)
                    stack.append(definer)
    for op in operations:
        if isinstance(op, ktdp.Load) and op not in leader:
            with findings.noting():
                raise ScheduleError.at(op.location, "this load feeds no store of its block")
    findings.check()
    members: dict[Operation, list[Operation]] = {}
    for op in sorted(leader, key=lambda member: here[member]):
        members.setdefault(find(op), []).append(op)
    return sorted(members.values(), key=lambda group: here[group[0]])


def _producers(
    op: Operation,
    store: Operation,
    here: Container[Operation],
    definitions: Definitions,
    findings: Findings,
) -> list[Operation]:
    """The operations of the block that make what an operation takes, for a store that needs it."""
    found: list[Operation] = []
    for value in _inputs(op, definitions):
        definer = definitions.definer(value)
        with findings.noting():
            if definer is None:
                raise UnsupportedKernel.at(
                    op.location, "loop-carried tensors are not supported yet: they are a later issue"
                )
            if _is_leaf(definer, definitions):
                continue
            if definer not in here:
                raise ScheduleError.at(
                    store.location, f"the stored value comes from a '{definer.name}' in another block"
                )
            found.append(definer)
    return found


def _inputs(op: Operation, definitions: Definitions) -> list[Value]:
    """Values that an operation of a group takes: tensors, and scalars that come from elements of tensors."""
    found = [
        value
        for value in dict.fromkeys(captured(op))
        if isinstance(value.type, TensorType) or _comes_from_tensor(value, definitions)
    ]
    return found


def _comes_from_tensor(value: Value, definitions: Definitions) -> bool:
    """Whether a scalar is computed from an element of a tensor."""

    def inputs(current: Value) -> Sequence[Value]:
        op = definitions.definer(current)
        return () if op is None or isinstance(op, tensor.Extract) else op.operands

    if isinstance(value.type, IndexType):
        return False
    return any(isinstance(definitions.definer(v), tensor.Extract) for v in post_order(value, inputs))


def _is_leaf(op: Operation, definitions: Definitions) -> bool:
    """Whether a tensor comes from nothing: a constant, a splat, an empty tensor; each group gets its own."""
    return (
        is_pure(op)
        and not op.regions
        and not any(isinstance(v.type, TensorType) or _comes_from_tensor(v, definitions) for v in op.operands)
    )


def check_order(
    operations: Sequence[Operation],
    groups: Sequence[Sequence[Operation]],
    anchor: int,
    definitions: Definitions,
) -> None:
    """A group runs as a whole where its member `anchor` (0 or -1) stands; `ScheduleError` where that matters.

    It matters when an access moves across a conflicting one of another group or of a nested loop.
    """
    findings = Findings()
    position = {op: index for index, op in enumerate(operations)}
    group_of = {op: index for index, group in enumerate(groups) for op in group}
    touching = [op for op in operations if op in group_of or is_control(op)]
    place = {op: position[groups[group_of[op]][anchor] if op in group_of else op] for op in touching}
    for index, first in enumerate(touching):
        for second in touching[index + 1 :]:
            if place[first] <= place[second]:
                continue
            if any(conflict(a, b, definitions) for a in accesses(first) for b in accesses(second)):
                with findings.noting():
                    raise ScheduleError.at(
                        second.location,
                        "this access is interleaved with a compute group that touches the same memory",
                    )
    findings.check()
