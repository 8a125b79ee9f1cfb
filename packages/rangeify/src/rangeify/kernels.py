"""The kernel split: every closed STORE becomes a CALL of a body that depends on structure only
(scheduler spec 11)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from rangeify.errors import CycleError, require
from uopgraph import AxisType, GroupOp, KernelInfo, Ops, PatternMatcher, UOp, UPat, graph_rewrite, infix

_STATES: Final = frozenset({Ops.PARAM, Ops.BUFFER, Ops.ALLOC, Ops.AFTER, Ops.MSELECT, Ops.MSTACK})

#: The Variable in a kernel body that is the number of the device that runs it.
DEVICE_NUMBER: Final = "_device_num"


def storage_of(state: UOp) -> UOp:
    """The storage of a state: a BUFFER, ALLOC or PARAM, or what MSELECT and MSTACK make of them."""
    while state.op is Ops.AFTER:
        state = state.src[0]
    if state.op in (Ops.MSELECT, Ops.MSTACK):
        return state.rebuild(tuple(storage_of(s) for s in state.src))
    return state.buf_uop


def loops_of(body: UOp) -> tuple[tuple[UOp, ...], tuple[UOp, ...]]:
    """The output ranges of a kernel body in loop order, and its reduction ranges in order of number."""
    effect = body.src[0]
    outer = effect.src[1:] if effect.op is Ops.END else ()
    inner = [r for n in body.toposort() if n.op is Ops.REDUCE for r in n.src[1:]]
    return outer, tuple(sorted(dict.fromkeys(inner), key=lambda r: r.arg[0]))


def store_of(body: UOp) -> UOp:
    """The STORE of a kernel body."""
    effect = body.src[0]
    return effect.src[0] if effect.op is Ops.END else effect


def kernel_name(outer: tuple[UOp, ...], reduced: tuple[UOp, ...]) -> str:
    """``E`` or ``r`` (with a reduction) and the sizes of the loops, outputs first."""
    sizes = [infix(r.src[0]) for r in (*outer, *reduced)]
    return "_".join(["r" if reduced else "E", *sizes])


def _walk(effect: UOp) -> Iterator[UOp]:
    """The nodes of one kernel, target side first, not looking behind states of storage."""
    seen = {effect}
    stack = [effect]
    while stack:
        node = stack.pop()
        yield node
        if node.op in _STATES:
            continue
        for s in reversed(node.src):
            if s not in seen:
                seen.add(s)
                stack.append(s)


def _split(x: UOp) -> UOp | None:
    """An END or STORE without open ranges becomes a CALL; slot 0 is the output."""
    counters = [r for r in x.ranges if r.arg[-1] is AxisType.DEVICE]
    if len(counters) < len(x.ranges) or (x.op is Ops.STORE and x.src[0].op is not Ops.INDEX):
        return None
    arguments: dict[UOp, UOp] = {}
    states: dict[UOp, UOp] = {}
    mapping: dict[UOp, UOp] = {}
    reduced: dict[UOp, None] = {}
    for node in _walk(x):
        if node.op in _STATES and not node.is_variable:
            storage = storage_of(node)
            _check_one_state(states.setdefault(storage, node), node)
            if storage not in arguments:
                arguments[storage] = storage.param_like(len(arguments))
            mapping[node] = arguments[storage]
        elif node.op is Ops.REDUCE:
            reduced.update(dict.fromkeys(node.src[1:]))
    outer = x.src[1:] if x.op is Ops.END else ()
    order = (*sorted(reduced, key=lambda r: r.arg[0]), *outer)
    for number, r in enumerate(order):
        mapping[r] = r.replace(arg=(number, *r.arg[1:]))
    for r in counters:
        mapping[r] = UOp.variable(DEVICE_NUMBER, 0, int(r.src[0].arg) - 1)
    effect, requests = _requests(x.substitute(mapping, name="kernel body", walk=True))
    require(not effect.ranges, "kernel split", "a kernel body leaves ranges open")
    _check_self_reads(effect)
    name = kernel_name(outer, tuple(reduced))
    return effect.sink(arg=KernelInfo(name, opts_to_apply=requests)).call(*states.values())


def _requests(effect: UOp) -> tuple[UOp, tuple[Any, ...] | None]:
    """The effect without marks, and the optimisation requests that they carry."""
    marks = [n for n in effect.toposort() if n.op is Ops.CONTIGUOUS]
    plain = effect.substitute({m: m.src[0] for m in marks}, name="marks") if marks else effect
    requests = tuple(r for m in marks for r in m.arg or ())
    return plain, requests or None


def _check_one_state(first: UOp, second: UOp) -> None:
    """A kernel reads each buffer in one state."""
    if first is not second:
        storage = storage_of(first)
        raise CycleError(
            f"cycle detected while indexing {storage.op.name} {storage.buf_uop.arg.slot}: one kernel "
            "would read two states of one buffer; store the older one with contiguous() first"
        )


def _check_self_reads(effect: UOp) -> None:
    """A kernel may read its own target only at the index that it stores (reading 31)."""
    store = effect.src[0] if effect.op is Ops.END else effect
    target, value = store.src
    for node in value.toposort():
        if node.op is Ops.INDEX and node.src[0] is target.src[0]:
            require(
                node is target,
                "kernel split",
                "a kernel reads its own target at another index than it stores",
            )


_SPLIT: Final = PatternMatcher([(UPat({Ops.STORE, Ops.END}, name="x"), _split)])


def split_kernels(sink: UOp) -> UOp:
    """The kernel graph: AFTERs over storage and CALLs of kernel bodies, nothing else."""
    graph = graph_rewrite(sink, _SPLIT, name="split kernels", bottom_up=True)
    check_kernel_graph(graph)
    return graph


_GRAPH: Final = GroupOp.Defines | {
    *(Ops.SINK, Ops.CALL, Ops.AFTER, Ops.CONST, Ops.STACK, Ops.RESHAPE, Ops.NOOP, Ops.MSELECT, Ops.MSTACK)
}


def check_kernel_graph(graph: UOp) -> None:
    """The invariants after the split (scheduler spec 19)."""
    for node in graph.toposort(enter_calls=False):
        require(node.op in _GRAPH, "kernel split", f"{node.op.name} is left outside the kernels")
        if node.op is Ops.CALL and node.src[0].op is Ops.SINK:
            body = node.src[0]
            slots = {n.arg.slot for n in body.toposort() if n.op is Ops.PARAM and not n.is_variable}
            require(
                slots == set(range(len(node.src) - 1)), "kernel split", "a body's slots are not its arguments"
            )
