"""Nested calls: values of inline calls, storage for those of lowered ones, and one flat list of kernels
(scheduler spec 3.6, 6.1 and 13)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import attrs

from rangeify.errors import ScheduleError
from rangeify.multi import DeviceLowering, device_counter
from rangeify.storage import shown
from uopgraph import GroupOp, KernelInfo, Ops, UOp, strong_dtype


def is_kernel_call(call: UOp) -> bool:
    """Whether a CALL is one kernel (its body a SINK with KernelInfo)."""
    return call.src[0].op is Ops.SINK and isinstance(call.src[0].arg, KernelInfo)


def open_calls(sink: UOp, lowering: DeviceLowering) -> UOp:
    """The graph without values of calls: an inline call is its body; a precompiled one fills storage."""
    order = sink.toposort(enter_calls=False)
    if not any(n.op in (Ops.GETTUPLE, Ops.TUPLE) for n in order):
        return sink
    new: dict[UOp, UOp] = {}
    filled: dict[UOp, tuple[UOp, ...]] = {}
    for x in order:
        src = tuple(new.get(s, s) for s in x.src)
        if x.op is not Ops.GETTUPLE:
            new[x] = x.rebuild(src)
        elif src[0].op is Ops.TUPLE:
            new[x] = src[0].src[x.arg]
        else:
            call = src[0]
            if call not in filled:
                filled[call] = _results(call, lowering)
            new[x] = filled[call][x.arg]
    return new[sink]


def _results(call: UOp, lowering: DeviceLowering) -> tuple[UOp, ...]:
    body = open_calls(call.src[0], lowering)
    arguments = call.src[1:]
    _check_arguments(body, arguments)
    if not call.arg.precompile:
        return _inlined(body, arguments, lowering)
    outs, effects = [], []
    for i, (value, local) in enumerate(zip(body.src, _on_each_device(body).src, strict=True), len(arguments)):
        device = _device(value, arguments)
        like = _by_arguments(value, arguments)
        out = lowering.alloc(_part_of(like), device, "a call fills it")
        target = _whole_of(out.param_like(i), value.axis)
        stored = shown(target, local.shape).store(local.cast(strong_dtype(value.dtype)))
        effects.append(target.after(stored))
        outs.append((out, like))
    places = (out for out, _ in outs)
    made = UOp.make_sink(*effects).call(*arguments, *places, precompile=True, name=call.arg.name)
    return tuple(shown(_whole_of(out.after(made), like.axis), like.shape) for out, like in outs)


def _on_each_device(body: UOp) -> UOp:
    """A body over what one device holds of the parameters that are spread over several."""
    parts = {}
    for p in body.toposort(enter_calls=False):
        if p.op is Ops.PARAM and p.arg.axis is not None:
            part = UOp.param(p.arg.slot, p.dtype, _part_of(p).shape, p.device)
            parts[p] = _whole_of(part, p.arg.axis)
    return body.substitute(parts, name="parts of parameters", walk=True) if parts else body


def _part_of(value: UOp) -> UOp:
    """Something of the shape and dtype of what one device holds of a value."""
    axis, devices = value.axis, value.device
    if axis is None or not isinstance(devices, tuple):
        return value
    shape = list(value.shape)
    shape[axis] = shape[axis] // len(devices)
    return UOp.const(0, value.dtype).expand(tuple(shape))


def _whole_of(part: UOp, axis: int | None) -> UOp:
    """The value of which each device holds a part, cut along `axis`; the value itself for None."""
    if axis is None or not isinstance(part.device, tuple):
        return part
    return part.unshard(axis, device_counter(len(part.device)))


def _by_arguments(value: UOp, arguments: tuple[UOp, ...]) -> UOp:
    """A value of a body, with arguments for parameters: its shape may depend on them."""
    return value.substitute(_mapping(value, arguments), name="call result", walk=True)


def _device(value: UOp, arguments: tuple[UOp, ...]) -> str | tuple[str, ...] | None:
    return value.device or next((a.device for a in arguments if a.device is not None), None)


def _mapping(body: UOp, arguments: tuple[UOp, ...]) -> dict[UOp, UOp]:
    params = [n for n in body.toposort(enter_calls=False) if n.op is Ops.PARAM and n.arg.slot >= 0]
    return {p: arguments[p.arg.slot] for p in params if p.arg.slot < len(arguments)}


def _inlined(body: UOp, arguments: tuple[UOp, ...], lowering: DeviceLowering) -> tuple[UOp, ...]:
    mapping = _mapping(body, arguments)
    for n in body.toposort(enter_calls=False):
        if n.op is Ops.ALLOC:
            mapping[n] = lowering.alloc(n, n.device, "a call keeps it")
    return body.substitute(mapping, name="inline call", walk=True).src


def _check_arguments(body: UOp, arguments: tuple[UOp, ...]) -> None:
    """Every parameter of a body has an argument of its dtype, shape and sharding."""
    for p in body.toposort(enter_calls=False):
        if p.op is not Ops.PARAM or p.arg.slot < 0:
            continue
        i = p.arg.slot
        if i >= len(arguments):
            raise ScheduleError("prepare", f"arg {i} is missing: the call has {len(arguments)}")
        a = arguments[i]
        for fact, want, got in (
            ("dtype", p.dtype, a.dtype),
            ("shape", p.shape, a.shape),
            ("axis", p.arg.axis, None if p.is_variable else a.axis),
        ):
            if want != got and not (p.is_variable and fact == "dtype"):
                raise ScheduleError("prepare", f"arg {i} {fact} mismatch: {got} for {want}")


@attrs.define
class _Resolving:
    """Storage that one schedule has made so far for its calls."""

    count: int
    origin: dict[UOp, tuple[str, int]] = attrs.field(factory=dict)


def resolve(linear: UOp, arguments: tuple[UOp, ...]) -> tuple[tuple[UOp, ...], Mapping[UOp, tuple[str, int]]]:
    """The kernel calls of a LINEAR in order, on the actual `arguments`, nested LINEARs flattened.

    Every invocation of a nested call gets ALLOCs of its own; the second result tells for each of them the
    name of its call, and the slot that it had there.
    """
    own = {n for c in linear.src for a in c.src[1:] for n in _nodes(a) if n.op is Ops.ALLOC}
    state = _Resolving(max((-a.arg.slot for a in own), default=0))
    return tuple(_items(linear, arguments, {}, state, None)), state.origin


def _items(
    linear: UOp, arguments: tuple[UOp, ...], outer: Mapping[int, UOp], state: _Resolving, name: str | None
) -> Iterator[UOp]:
    scalars = {i: a for i, a in enumerate(arguments) if a.is_variable or a.op is Ops.CONST}
    binds = {**outer, **scalars}
    place: dict[UOp, UOp] = {}
    for call in linear.src:
        for node in (n for a in call.src[1:] for n in _nodes(a)):
            if node in place:
                continue
            if node.op is Ops.PARAM and node.arg.slot >= 0:
                place[node] = binds[node.arg.slot] if node.is_variable else arguments[node.arg.slot]
            elif node.op is Ops.ALLOC and name is not None:
                state.count += 1
                place[node] = node.replace(arg=attrs.evolve(node.arg, slot=-state.count))
                state.origin[place[node]] = (name, node.arg.slot)
        given = tuple(_placed(a, place) for a in call.src[1:])
        if call.src[0].op is Ops.LINEAR:
            yield from _items(call.src[0], given, binds, state, call.arg.name or "a call")
        else:
            yield call.replace(src=(_with_scalars(call.src[0], binds), *given))


def _nodes(argument: UOp) -> Iterable[UOp]:
    """The nodes of an argument; mostly it is storage itself."""
    return (argument,) if argument.op in GroupOp.Defines else argument.toposort()


def _placed(argument: UOp, place: Mapping[UOp, UOp]) -> UOp:
    """An argument on actual storage: PARAM, ALLOC, or a selection or stack of them."""
    if argument.op in GroupOp.Defines:
        return place.get(argument, argument)
    if argument.op is Ops.MSELECT:
        inner = _placed(argument.src[0], place)
        return inner.src[argument.arg] if inner.op is Ops.MSTACK else inner.mselect(argument.arg)
    if argument.op is Ops.MSTACK:
        return UOp.mstack(*(_placed(s, place) for s in argument.src))
    return argument


def _with_scalars(body: UOp, binds: Mapping[int, UOp]) -> UOp:
    """A kernel body with positional scalars replaced by what the call passed."""
    if not binds:
        return body
    used = {n: binds[n.arg.slot] for n in body.toposort() if n.is_variable and n.arg.slot in binds}
    return body.substitute(used, name="scalar arguments", walk=True) if used else body
