"""A segment of a program as items over storage with numbers of its own; equal segments share one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

import attrs

from rangeify.blocks import Segment
from rangeify.callify import CallResult, check_call, new_place, transform_to_call
from rangeify.calls import is_kernel_call, resolve
from rangeify.config import Config
from rangeify.errors import UnsupportedError
from rangeify.lowering import Lowered, lower_calls
from rangeify.multi import copy_offset, same_device
from rangeify.reasons import Reason, Rule
from rangeify.schedule_types import Copy, Item, Kernel
from rangeify.storage import on_each_device
from uopgraph import DType, GroupOp, Ops, UOp


@attrs.frozen(eq=False)
class Storage:
    """What the items of a part touch: a BUFFER (of the segment that the part was made of), or the ALLOC of a
    temporary. ``parts``: the storage on each device."""

    node: UOp
    shape: tuple[int, ...]
    dtype: DType
    parts: tuple[UOp, ...]
    devices: tuple[str, ...]
    written: bool
    reason: Reason | None


@attrs.frozen(eq=False)
class Part:
    """``items``: their buffers are numbers of devices' parts of ``storages``, counted through.

    ``lasting``: for each storage the BUFFER that it is, None for temporaries and joints.
    ``stored``: what each value of ``segment`` that gets lasting storage becomes. ``made``: the BUFFERs that
    did not exist before. ``fresh``: those of them that take a write. ``start``, ``end``: the BUFFERs in place
    of the joints; an end that is asked for is none of them.
    """

    segment: Segment
    key: bytes
    storages: tuple[Storage, ...]
    lasting: tuple[UOp | None, ...]
    items: tuple[Item, ...]
    stored: Mapping[UOp, UOp]
    made: tuple[UOp, ...]
    fresh: frozenset[UOp]
    start: UOp | None
    end: UOp | None

    def nodes_of(self, segment: Segment) -> dict[UOp, UOp]:
        """BUFFER of this part -> that of an equal `segment`, with new ones for those that did not exist."""
        if segment is self.segment:
            return {}
        nodes = dict(zip(self.segment.storage, segment.storage, strict=True))
        for old in self.made:
            nodes[old] = UOp.new_buffer(old.arg.device, old.shape, old.dtype)
        return nodes


@attrs.frozen(eq=False)
class _Callified:
    """A segment as a call; ``origin``: node of the call's graph -> node of the segment."""

    segment: Segment
    result: CallResult
    origin: Mapping[UOp, UOp]
    start: UOp | None


def make_parts(segments: Sequence[Segment], needed: Set[UOp], config: Config) -> list[Part]:
    """The part of each segment; with ``Config.reuse`` segments of one kind have one part. `needed`: the
    writes whose old bytes somebody needs."""
    chosen: dict[object, int] = {}
    firsts: list[Segment] = []
    place = []
    for segment in segments:
        shared = config.reuse and segment.kind is not None
        at = chosen.setdefault(segment.kind if shared else segment, len(chosen))
        place.append(at)
        if at == len(firsts):
            firsts.append(segment)
    callified = [_callify(s, needed, config) for s in firsts]
    lowered = lower_calls([c.result.call for c in callified], config)
    parts = [_part(c, kernels, config) for c, kernels in zip(callified, lowered, strict=True)]
    return [parts[i] for i in place]


def _callify(segment: Segment, needed: Set[UOp], config: Config) -> _Callified:
    """The segment by itself: it begins with storage instead of its first joint."""
    local: dict[UOp, UOp] = {}
    if segment.start is not None:
        local[segment.start] = new_place(segment.start)
    for x in segment.nodes if local else ():
        local[x] = x.rebuild(tuple([local.get(s, s) for s in x.src]))
    roots = [local.get(x, x) for x in segment.asked]
    if segment.end is not None and segment.end not in segment.asked:
        roots.append(local.get(segment.end, segment.end))
    own = frozenset(local.get(x, x) for x in needed)
    result = transform_to_call(UOp.make_sink(*roots), frozenset(), own)
    if config.check:
        check_call(result.call)
    start = None if segment.start is None else local[segment.start].buf_uop
    return _Callified(segment, result, {y: x for x, y in local.items()}, start)


def _part(callified: _Callified, lowered: Lowered, config: Config) -> Part:
    segment, result, start = callified.segment, callified.result, callified.start
    calls, origin = resolve(lowered.linear, result.call.src[1:])
    touched = dict.fromkeys(n for c in calls for a in c.src[1:] for n in storages_of(a))
    written = {n for c in calls for n in storages_of(c.src[1])}
    storages = tuple(_storage(n, n in written, _why(n, origin, lowered)) for n in touched)
    parts = [part for s in storages for part in s.parts]
    devices = [device for s in storages for device in s.devices]
    number = {part: i for i, part in enumerate(parts)}
    items = tuple(_item(c, number, devices) for c in calls)
    stored = {callified.origin.get(k, k): v for k, v in result.buffer_map.items()}
    end = None
    if segment.end is not None and segment.end not in segment.asked:
        end = stored.pop(segment.end).buf_uop
    old = {*segment.storage, start, end}
    made = {n for n in result.call.src[1:] if n.op is Ops.BUFFER}
    made.update(n for v in stored.values() for n in v.toposort() if n.op is Ops.BUFFER)
    # without a kind a segment has no copies: nothing has to be made again
    new = tuple(sorted(made - old, key=lambda n: int(n.arg.slot))) if segment.kind is not None else ()
    lasting = tuple(None if n.op is Ops.ALLOC or n in (start, end) else n for n in touched)
    key = result.call.src[0].key if config.schedule_cache or config.debug else b""
    return Part(segment, key, storages, lasting, items, stored, new, result.fresh, start, end)


def _why(node: UOp, origin: Mapping[UOp, tuple[str, int]], lowered: Lowered) -> Reason | None:
    if node.op is not Ops.ALLOC:
        return None
    if node in origin:
        return Reason(Rule.CALL, origin[node][0])
    return lowered.reasons.get(node.arg.slot)


def _storage(node: UOp, written: bool, reason: Reason | None) -> Storage:
    shape, parts = tuple(int(d) for d in node.shape), on_each_device(node)
    return Storage(node, shape, node.dtype, parts, tuple(str(p.device) for p in parts), written, reason)


def storages_of(argument: UOp) -> tuple[UOp, ...]:
    """The BUFFERs and ALLOCs of an argument: storage, or a selection or stack of storages."""
    if argument.op in (Ops.MSELECT, Ops.MSTACK):
        return tuple(n for s in argument.src for n in storages_of(s))
    return (argument,) if argument.op in GroupOp.Defines and not argument.is_variable else ()


def _by_device(argument: UOp) -> tuple[UOp, ...]:
    """The storage that an argument means on each device."""
    if argument.op is Ops.MSTACK:
        return tuple(n for s in argument.src for n in _by_device(s))
    if argument.op is Ops.MSELECT:
        return (_by_device(argument.src[0])[argument.arg],)
    return on_each_device(argument)


def _item(call: UOp, number: Mapping[UOp, int], device_of: Sequence[str]) -> Item:
    """The kernel, or the copy, that a call on storage is."""
    body = call.src[0]
    if not is_kernel_call(call):
        raise UnsupportedError(f"a call of {body.op.name} as an item of a schedule")
    arguments = [_by_device(a) for a in call.src[1:] if storages_of(a)]
    count = max(len(a) for a in arguments)
    if any(len(a) != count for a in arguments):
        same_device([str(s.device) for a in arguments for s in a], body.arg.name)
    launches = tuple(tuple(number[a[i]] for a in arguments) for i in range(count))
    for launch in launches:
        devices = [device_of[b] for b in launch]
        if len(set(devices)) > 1:
            offset = copy_offset(body) if len(launch) == 2 and count == 1 else None
            if offset is None:
                same_device(devices, body.arg.name)
            else:
                return Copy(launch[0], launch[1], offset)
    return Kernel(body, launches[0], launches[1:])
