"""From tensor expressions to one call with explicit storage (scheduler spec 3).

A root that is not storage yet gets an output buffer, every global buffer becomes a formal parameter, and the
whole becomes a CALL whose body depends on nothing but structure: two equal graphs on different buffers have
equal body keys.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from rangeify import storage
from rangeify.errors import UnsupportedError, require
from uopgraph import GroupOp, Ops, UOp


@attrs.frozen
class CallResult:
    """``call``: CALL(SINK of effects, actual buffers...). ``buffer_map``: what each stored value is from
    now on.
    """

    call: UOp
    buffer_map: Mapping[UOp, UOp]


def is_virtual(node: UOp) -> bool:
    """True for what never needs storage: a value without device or with a weak dtype (scheduler spec 3.1)."""
    return node.device is None or node.dtype.is_weak


def _device_of(node: UOp) -> str:
    device = node.device
    if not isinstance(device, str):
        raise UnsupportedError(f"a value on several devices {device}")
    return device


def _host_shape(node: UOp) -> tuple[int, ...]:
    dims = []
    for d in node.shape:
        if not isinstance(d, int):
            raise UnsupportedError("a symbolic dimension of a stored value")
        dims.append(d)
    return tuple(dims)


def _storage_view(node: UOp) -> UOp | None:
    """A contiguous run of a BUFFER as flat slice, reshaped; None when `node` is not one (scheduler spec
    3.4).
    """
    if node.base.op is not Ops.BUFFER:
        return None
    found = node.contiguous_view()
    if found is None or found[0].op is not Ops.BUFFER:
        return None
    buffer, offset = found
    shape = _host_shape(node)
    size = int(node.numel())
    if size == buffer.numel():
        return buffer.reshape(shape)
    return buffer.reshape(buffer.numel()).shrink([(offset, offset + size)]).reshape(shape)


def _target_buffer(target: UOp) -> UOp | None:
    """The BUFFER that a STORE to `target` writes, or None when the target is no view of storage."""
    node = target.base
    while node.op in (Ops.AFTER, Ops.BITCAST):
        node = node.src[0].base
    return node if node.op is Ops.BUFFER else None


def _without_states(target: UOp, known: dict[UOp, UOp]) -> UOp:
    """`target` with every AFTER replaced by the storage under it; views stay."""
    for node in target.toposort(gate=lambda n: n.op is not Ops.BUFFER):
        source = tuple(known.get(s, s) for s in node.src)
        known[node] = source[0] if node.op is Ops.AFTER else node.rebuild(source)
    return known.get(target, target)


def _numbered(sink: UOp, live: frozenset[UOp] | None) -> dict[UOp, None]:
    """The nodes that become lasting storage (scheduler spec 3.1 and 3.2)."""
    chosen: dict[UOp, None] = {}
    for root in sink.src:
        base = root.base
        if base.op is not Ops.AFTER and not is_virtual(base) and not base.has_buffer_identity():
            chosen[base] = None
    for node in sink.toposort(enter_calls=False):
        if node.op is Ops.CONTIGUOUS and (live is None or node in live):
            chosen[node] = None
    return chosen


def transform_to_call(sink: UOp, live: frozenset[UOp] | None = None) -> CallResult:
    """Give storage to every root of `sink` that needs it and abstract over all buffers.

    `live`: CONTIGUOUS values that live Tensors hold and that therefore get lasting storage; None means all.
    """
    numbered = _numbered(sink, live)
    stored: dict[UOp, UOp] = {}
    effects: dict[UOp, None] = {}
    new: dict[UOp, UOp] = {}
    for node in sink.toposort(enter_calls=False):
        if node.op in (Ops.COPY, Ops.UNSHARD, Ops.MSTACK, Ops.MSELECT, Ops.ALLREDUCE, Ops.CALL):
            raise UnsupportedError(f"{node.op.name} of tensors (several devices and nested calls)")
        if node.is_variable:
            raise UnsupportedError("Variables in tensor expressions")
        now = node.rebuild(tuple(new[s] for s in node.src))
        if node.op is Ops.CONTIGUOUS and (view := _storage_view(now.src[0])) is not None:
            stored[node] = now = view
        elif node.op is Ops.AFTER:
            if _target_buffer(now.src[0]) is None:
                raise UnsupportedError("an assignment into a value without storage")
            stored[node] = _without_states(now.src[0], {})
            effects[now] = None
        elif node in numbered:
            value = now.src[0] if node.op is Ops.CONTIGUOUS and node.arg is None else now
            buffer = storage.new_buffer(_host_shape(node), node.dtype, _device_of(node))
            stored[node] = now = buffer
            if 0 not in node.shape:
                now = buffer.after(buffer.store(value))
                effects[now] = None
        new[node] = now
    return CallResult(_parametrise(UOp.make_sink(*effects)), stored)


def _parametrise(sink: UOp) -> UOp:
    """CALL(SINK over PARAMs, the buffers they stand for in order of first appearance) (scheduler spec
    3.5).
    """
    params: dict[UOp, UOp] = {}
    allocs: dict[UOp, UOp] = {}
    for node in sink.toposort(enter_calls=False):
        if node.op is Ops.BUFFER:
            params[node] = node.param_like(len(params))
        elif node.op is Ops.ALLOC and node.arg.slot >= 0:
            allocs[node] = node.replace(arg=attrs.evolve(node.arg, slot=-1 - len(allocs)))
    body = sink.substitute({**params, **allocs}, name="parametrise", walk=True)
    return body.call(*params, precompile=True)


def check_call(call: UOp) -> None:
    """The invariants after callify (scheduler spec 19): no BUFFER in the body, dense slots, no tags."""
    slots = set()
    for node in call.src[0].toposort():
        require(node.op is not Ops.BUFFER, "callify", "a BUFFER is left in the call's body")
        require(node.tag is None, "callify", "a tag is left in the call's body")
        if node.op is Ops.PARAM and not node.is_variable:
            slots.add(node.arg.slot)
    require(slots == set(range(len(call.src) - 1)), "callify", "the parameters of the body are not dense")
    require(all(a.op in GroupOp.Defines for a in call.src[1:]), "callify", "an argument is not storage")
