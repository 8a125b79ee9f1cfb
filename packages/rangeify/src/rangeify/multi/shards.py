"""Sharded values become per-device code that runs on every device (scheduler spec 5).

A sharded value is UNSHARD(what one device holds, counter): the counter is a DEVICE range, bound to the
number of the device at launch. One pass over the graph, sources first, keeps the two parts of each such
value apart; what comes out has no UNSHARD, and ALLREDUCE and COPY where devices must talk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs

from rangeify.config import Config
from rangeify.errors import DeviceError, UnsupportedError
from uopgraph import AxisType, GroupOp, Ops, UOp, dtypes
from uopgraph.movement_sugar import shown_size


@attrs.frozen
class Sharded:
    """A value cut along `axis` over `devices`; ``value`` is the part of one device, and ``counter`` the
    DEVICE range that stands for its number."""

    value: UOp
    axis: int
    counter: UOp
    devices: tuple[str, ...]


_Now = UOp | Sharded

_LIKE_SOURCE: Final = frozenset({Ops.CONTIGUOUS, Ops.DETACH, Ops.CONTIGUOUS_BACKWARD})


def device_counter(count: int) -> UOp:
    """The DEVICE range over `count` devices."""
    return UOp.range(count, -1, AxisType.DEVICE)


def _part(value: UOp, axis: int, counter: UOp) -> UOp:
    """The part of a whole value that belongs to the device of `counter`."""
    count, size = int(counter.src[0].arg), value.shape[axis]
    if not isinstance(size, int) or size % count:
        raise DeviceError(f"axis {axis} of size {size} is not divisible by {count} devices")
    cut: list[tuple[Any, Any]] = [(0, d) for d in value.shape]
    cut[axis] = (counter * (size // count), size // count)
    return value.movement(Ops.SHRINK, tuple(cut))


def _join(parts: Sequence[UOp], axis: int) -> UOp:
    return parts[0].cat(*parts[1:], dim=axis) if len(parts) > 1 else parts[0]


def gather(x: Sharded, device: str | tuple[str, ...]) -> UOp:
    """The whole value on one device, or on each of several: the parts are copied and joined."""
    parts = [x.value.mselect(i) for i in range(len(x.devices))]
    if isinstance(device, str):
        return _join([p.copy_to_device(device) for p in parts], x.axis)
    return _join([UOp.mstack(*(p.copy_to_device(d) for d in device)) for p in parts], x.axis)


def _local(x: UOp, now: _Now, from_end: int, counter: UOp) -> UOp:
    """What the device of `counter` needs of operand `x` for a result that is sharded at axis `from_end` (<
    0).
    """
    rank = len(x.shape)
    if isinstance(now, Sharded):
        if now.axis - rank == from_end:
            return now.value
        now = gather(now, now.devices)
    axis = rank + from_end
    if axis < 0 or x.shape[axis] == 1:
        return now
    return _part(now, axis, counter)


def _elementwise(x: UOp, sources: list[_Now]) -> Sharded:
    """Operands follow the sharding of the last sharded one; the result has it too."""
    at = max(i for i, s in enumerate(sources) if isinstance(s, Sharded))
    last = sources[at]
    assert isinstance(last, Sharded)
    _on_the_same(last.devices, x.op, sources)
    from_end = last.axis - len(x.src[at].shape)
    local = [_local(s, now, from_end, last.counter) for s, now in zip(x.src, sources, strict=True)]
    return attrs.evolve(last, value=x.rebuild(tuple(local)), axis=len(x.shape) + from_end)


def _on_the_same(devices: tuple[str, ...], op: Ops, sources: list[_Now]) -> None:
    """Raise :class:`DeviceError` when some operand is on other devices."""
    places = [s.devices if isinstance(s, Sharded) else s.device for s in sources]
    other = next((p for p in places if p is not None and p != devices), None)
    if other is not None:
        found = sorted({*devices, *((other,) if isinstance(other, str) else other)})
        raise DeviceError(f"all buffers must be on the same device: {found} (in {op.name})", tuple(found))


def _reduce(x: UOp, source: Sharded, config: Config) -> _Now:
    """Within the shards, and over the devices when the sharded axis is reduced."""
    op, count = x.arg
    if source.axis >= count:
        return attrs.evolve(source, value=x.rebuild((source.value,)), axis=source.axis - count)
    narrow = source.value
    if config.allreduce_cast and narrow.op is Ops.CAST and narrow.src[0].dtype in _NARROW:
        wire = x.rebuild((narrow,)).cast(narrow.src[0].dtype)
        return wire.allreduce(op, source.devices).cast(x.dtype)
    return x.rebuild((narrow,)).allreduce(op, source.devices)


_NARROW: Final = frozenset({dtypes.float16, dtypes.bfloat16})


def _reshape(x: UOp, source: Sharded) -> Sharded:
    """The sharded axis keeps what stands before it and stays divisible, so that no item changes its
    device.
    """
    axis, count = x.axis, len(source.devices)  # raises "moved items between shards"
    assert axis is not None
    shape = list(x.shape)
    shape[axis] = shape[axis] // count
    return attrs.evolve(source, value=source.value.reshape(tuple(shape)), axis=axis)


def _shrink(x: UOp, source: Sharded) -> _Now:
    offset, size = x.marg[source.axis]
    whole = x.src[0].shape[source.axis]
    cut = list(x.marg)
    local = source.value.shape[source.axis]
    cut[source.axis] = (0, local)
    inside = source.value.movement(Ops.SHRINK, tuple(cut))
    if offset == 0 and size == whole and isinstance(offset, int):
        return attrs.evolve(source, value=inside)
    if (
        isinstance(offset, UOp)
        and size == local
        and (offset - source.counter * local).simplify() is UOp.const(0)
    ):
        return inside
    if isinstance(offset, int) and isinstance(local, int) and size == local and offset % local == 0:
        return inside.mselect(offset // local).copy_to_device(source.devices)
    part = f"a slice {shown_size(offset)} of size {shown_size(size)} of a sharded axis"
    raise DeviceError(
        f"{part} is not the part of one device; copy the whole to its devices first", source.devices
    )


def _movement(x: UOp, source: Sharded) -> _Now:
    """Movement operations within the shards; what would move items between devices is an error."""
    axis = source.axis
    match x.op:
        case Ops.RESHAPE:
            return _reshape(x, source)
        case Ops.EXPAND:
            return attrs.evolve(source, value=x.rebuild((source.value, x.src[1])), axis=axis + len(x.marg))
        case Ops.PERMUTE:
            return attrs.evolve(source, value=x.rebuild((source.value,)), axis=x.arg.index(axis))
        case Ops.FLIP:
            if x.arg[axis]:
                raise DeviceError("flip of a sharded axis")
            return attrs.evolve(source, value=x.rebuild((source.value,)))
        case Ops.PAD:
            widths = list(x.marg)
            if widths[axis] != (0, x.src[0].shape[axis]):
                raise DeviceError("padding of a sharded axis")
            widths[axis] = (0, source.value.shape[axis])
            return attrs.evolve(source, value=source.value.movement(Ops.PAD, tuple(widths)))
        case _:
            return _shrink(x, source)


def _cut_before_sending(x: UOp, source: UOp) -> UOp | None:
    """The part per device of a copy to several devices: each part is cut first and sent alone."""
    if (
        source.op is not Ops.COPY
        or not isinstance(source.arg, tuple)
        or isinstance(source.src[0].device, tuple)
    ):
        return None
    counters = [r for s in x.src[1:] for r in s.ranges if r.arg[-1] is AxisType.DEVICE]
    if not counters:
        return None
    parts = []
    for i, device in enumerate(source.arg):
        at = {r: UOp.const(i) for r in counters}
        bounds = tuple(s.substitute(at, name="device number", walk=True).simplify() for s in x.src[1:])
        parts.append(x.rebuild((source.src[0], *bounds)).copy_to_device(device))
    return UOp.mstack(*parts)


def _without_shards(x: UOp, sources: list[_Now]) -> _Now:
    now = tuple(s for s in sources if isinstance(s, UOp))
    match x.op:
        case Ops.UNSHARD:
            devices = x.device
            if len(x.arg) != 1 or not isinstance(devices, tuple):
                raise UnsupportedError(f"a value sharded over axes {x.arg} of {devices}")
            return Sharded(now[0], x.arg[0], x.src[1], devices)
        case Ops.SHRINK if (parts := _cut_before_sending(x, now[0])) is not None:
            return parts
        case Ops.COPY if now[0].device is None:
            return now[0]
    return x.rebuild(now)


def _visit(x: UOp, sources: list[_Now], config: Config) -> _Now:
    first = sources[0] if sources else None
    if not any(isinstance(s, Sharded) for s in sources):
        return _without_shards(x, sources)
    if x.op in GroupOp.Elementwise or x.op is Ops.STACK:
        return _elementwise(x, sources)
    if x.op is Ops.SINK:
        return x.rebuild(tuple(s.value if isinstance(s, Sharded) else s for s in sources))
    if x.op is Ops.AFTER:
        waits = tuple(s.value if isinstance(s, Sharded) else s for s in sources[1:])
        if isinstance(first, Sharded):
            return attrs.evolve(first, value=first.value.after(*waits))
        assert first is not None
        return first.after(*waits)
    if x.op is Ops.STORE:
        target, value = x.src[0], sources[1]
        if isinstance(first, Sharded):
            _on_the_same(first.devices, x.op, sources)
            return first.value.store(_local(x.src[1], value, first.axis - len(target.shape), first.counter))
        assert isinstance(first, UOp)
        assert isinstance(value, Sharded)
        return first.store(gather(value, value.devices))
    assert isinstance(first, Sharded)
    if x.op in GroupOp.Movement:
        return _movement(x, first)
    if x.op in _LIKE_SOURCE:
        return attrs.evolve(first, value=x.rebuild((first.value,)))
    match x.op:
        case Ops.REDUCE:
            return _reduce(x, first, config)
        case Ops.COPY:
            return gather(first, x.arg)
        case Ops.MSELECT:
            return first.value.mselect(x.arg)
        case Ops.UNSHARD:
            raise UnsupportedError("a value sharded over several axes")
    raise UnsupportedError(f"{x.op.name} of a sharded value")


def _arguments(call: UOp, arguments: Sequence[_Now]) -> list[UOp]:
    """What one device passes to a call: parts of the sharded values, for a body over parts."""
    shapes = {p.arg.slot: p.shape for p in call.src[0].toposort() if p.op is Ops.PARAM and p.arg.slot >= 0}
    local = [a.value if isinstance(a, Sharded) else a for a in arguments]
    for i, (given, part) in enumerate(zip(arguments, local, strict=True)):
        if isinstance(given, Sharded) and shapes.get(i, part.shape) != part.shape:
            raise UnsupportedError(f"a sharded argument of the call {call.arg.name or ''}".rstrip())
    return local


def localize(root: UOp, config: Config) -> _Now:
    """`root` as per-device code: a plain node, or the part of one device. Raises :class:`DeviceError` where
    items would change their device."""
    now: dict[UOp, _Now] = {}
    for x in root.toposort(enter_calls=False):
        entered = [s for s in x.src if s in now]
        if len(entered) < len(x.src):  # the body of a CALL
            now[x] = x.rebuild((x.src[0], *_arguments(x, [now[s] for s in x.src[1:]])))
        else:
            now[x] = _visit(x, [now[s] for s in x.src], config)
    return now[root]
