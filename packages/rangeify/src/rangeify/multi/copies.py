"""Copies, all-reduces and calls get storage (scheduler spec 6.2, 6.11, 14).

After this pass there is no COPY: a STORE whose target is on another device *is* the copy. What several
devices exchange, and what a call takes and gives, is storage.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from rangeify.config import Config
from rangeify.errors import DeviceError
from rangeify.kernels import loops_of, storage_of, store_of
from rangeify.multi.allreduce import allreduce_body
from rangeify.multi.shards import Sharded, localize
from rangeify.reasons import Reason, Rule
from rangeify.storage import shown
from uopgraph import AxisType, GroupOp, KernelInfo, Ops, UOp, strong_dtype
from uopgraph.movement import flat_index

_STATES: Final = GroupOp.Defines | {Ops.AFTER, Ops.MSELECT, Ops.MSTACK}

_OPS: Final = frozenset({Ops.COPY, Ops.UNSHARD, Ops.MSELECT, Ops.MSTACK, Ops.ALLREDUCE, Ops.CALL})


@attrs.define
class DeviceLowering:
    """One lowering: how nested calls are lowered, call-local storage so far, and why it is there by slot."""

    config: Config
    lower: Callable[[UOp, Config], UOp]
    count: int
    reasons: dict[int, Reason] = attrs.field(factory=dict)
    now: dict[UOp, UOp] = attrs.field(factory=dict)
    #: storage of a copy -> what was copied into it
    copied: dict[UOp, UOp] = attrs.field(factory=dict)
    #: state after a call that does nothing but fill storage -> that storage
    called: dict[UOp, UOp] = attrs.field(factory=dict)
    places: dict[UOp, UOp] = attrs.field(factory=dict)

    def alloc(self, like: UOp, device: str | tuple[str, ...] | None, reason: str | Reason) -> UOp:
        self.count += 1
        self.reasons[-self.count] = reason if isinstance(reason, Reason) else Reason(Rule.DEVICES, reason)
        return UOp.alloc(list(like.max_shape), strong_dtype(like.dtype), device, slot=-self.count)

    def stored(self, x: UOp, reason: str) -> UOp:
        """`x` as a state of storage; computed into storage of its own when it is none.

        The storage of a value of symbolic shape has the greatest shape: what it is good for ends before it.
        """
        if x.op in _STATES:
            return x
        if x not in self.places:
            target = self.alloc(x, x.device, reason)
            self.places[x] = target.after(shown(target, x.shape).store(x.cast(target.dtype)))
        return self.places[x]

    def copy(self, x: UOp, device: str) -> UOp:
        """The value `x` of one device on another one."""
        if x.device is None or x.device == device:
            return x
        if x.op is Ops.RESHAPE:
            return self.copy(x.src[0], device).reshape(x.shape)
        static = all(isinstance(d, int) for d in x.shape)
        source = x if static and _is_run(x) else self.stored(x, f"it is sent to {device}")
        target = self.alloc(x, device, f"it is a copy from {x.device}")
        filled = target.after(target.store(source))
        self.copied[filled] = source
        return shown(filled, x.shape)

    def select(self, x: UOp, i: int) -> UOp:
        """What device number `i` holds of `x`."""
        if x.op in GroupOp.Movement:
            at = {r: UOp.const(i) for s in x.src[1:] for r in s.ranges if r.arg[-1] is AxisType.DEVICE}
            bounds = (s.substitute(at, name="device number", walk=True).simplify() for s in x.src[1:])
            return x.rebuild((self.select(x.src[0], i), *bounds))
        if x.op is Ops.MSTACK:
            return x.src[i]
        if not isinstance(x.device, tuple):
            return x
        return shown(self.stored(x, "devices exchange it").mselect(i), x.shape)

    def stack(self, parts: tuple[UOp, ...]) -> UOp:
        """MSTACK over storage; a common RESHAPE goes outside."""
        inner = tuple(p.src[0] if p.op is Ops.RESHAPE else p for p in parts)
        alike = all(p.op in _STATES and p.shape == inner[0].shape for p in inner)
        if alike and all(p.op is Ops.RESHAPE for p in parts):
            return UOp.mstack(*inner).reshape(parts[0].shape)
        places = [self.stored(p, "it is a part of a value on several devices") for p in parts]
        return shown(UOp.mstack(*places), parts[0].shape)

    def everywhere(self, x: UOp, devices: tuple[str, ...]) -> UOp:
        if x.device is None or x.device == devices:
            return x
        if isinstance(x.device, tuple):
            return self.stack(
                tuple(self.copy(self.select(x, i % len(x.device)), d) for i, d in enumerate(devices))
            )
        return self.stack(tuple(self.copy(x, d) for d in devices))

    def allreduce(self, x: UOp, op: Ops, devices: tuple[str, ...]) -> UOp:
        value = self.stored(x, "all devices reduce it together")
        shape = tuple(int(d) for d in value.shape)
        out = self.alloc(value, devices, "it is the result of an all-reduce")
        body = allreduce_body(shape, value.dtype, op, devices, self.config)
        call = body.call(out, value, precompile=True, name="allreduce")
        filled = out.after(self.lowered(call))
        self.called[filled] = out
        return shown(filled, x.shape)

    def lowered(self, call: UOp) -> UOp:
        """A CALL of a tensor graph as a CALL of its kernels."""
        body = call.src[0]
        if body.op is not Ops.SINK or isinstance(body.arg, KernelInfo):
            return call
        return call.replace(src=(self.lower(body, self.config), *call.src[1:]))

    def store(self, x: UOp, target: UOp, value: UOp) -> UOp:
        """A copy goes straight into whole storage; parts of several devices go each into its own."""
        if target.op not in _STATES:
            return x.rebuild((target, value, *x.src[2:]))
        inner, reshaped = (value.src[0], True) if value.op is Ops.RESHAPE else (value, False)
        if inner.op is Ops.MSTACK and isinstance(target.device, tuple):
            places = [target.mselect(i) for i in range(len(target.device))]
            parts = [p.reshape(value.shape) if reshaped else p for p in inner.src]
            return UOp.group(*(self.store(p.store(v), p, v) for p, v in zip(places, parts, strict=True)))
        if value in self.called and _fits(target, value):
            return _filling(value.src[1], self.called[value], target)
        source = self.copied.get(inner)
        if source is not None and inner.device == target.device:
            return x.rebuild((target, source.reshape(value.shape)))
        return x.rebuild((target, value, *x.src[2:]))

    def visit(self, x: UOp) -> UOp:
        src = tuple(self.now.get(s, s) for s in x.src)
        match x.op:
            case Ops.COPY:
                return self._copied(src[0], x.arg)
            case Ops.MSELECT:
                return self.select(src[0], x.arg)
            case Ops.MSTACK:
                return src[0] if src[0].device is None else self.stack(src)
            case Ops.ALLREDUCE:
                return self.allreduce(src[0], *x.arg)
            case Ops.STORE:
                return self.store(x, *src[:2])
            case Ops.AFTER:
                waits = tuple(w for s in src[1:] for w in (s.src if s.op is Ops.GROUP else (s,)))
                return x.rebuild((src[0], *waits))
            case Ops.CALL:
                arguments = (
                    a
                    if a.op in _STATES or a.is_variable or a.op is Ops.CONST
                    else self.stored(_flat(a), "a call needs it")
                    for a in src[1:]
                )
                return self.lowered(x.rebuild((src[0], *arguments)))
        return x.rebuild(src)

    def _copied(self, x: UOp, device: str | tuple[str, ...]) -> UOp:
        if isinstance(device, tuple):
            return self.everywhere(x, device)
        if isinstance(x.device, tuple):
            here = x.device.index(device) if device in x.device else 0
            return self.copy(self.select(x, here), device)
        return self.copy(x, device)


def _fits(target: UOp, value: UOp) -> bool:
    """Whether a call can fill `target` instead of `value`: it is of the same form, and no argument of the
    call.
    """
    alike = target.shape == value.shape and target.dtype is value.dtype and target.device == value.device
    used = {s for a in value.src[1].src[1:] for s in a.toposort(enter_calls=False)}
    return alike and storage_of(target) not in used


def _filling(call: UOp, out: UOp, target: UOp) -> UOp:
    return call.replace(src=(call.src[0], *(target if a is out else a for a in call.src[1:])))


def _flat(x: UOp) -> UOp:
    """What is under RESHAPEs, when it is storage: a call sees storage in any shape."""
    inner = x
    while inner.op is Ops.RESHAPE:
        inner = inner.src[0]
    return inner if inner.op in _STATES else x


def _is_run(x: UOp) -> bool:
    """Whether `x` is a contiguous run of one storage, so that a copy can read it as it is."""
    base = x.base
    if base.op not in _STATES or base.op is Ops.MSTACK:
        return False
    plain = UOp.param(0, base.dtype, base.shape, base.device)
    return (
        x is base
        or x.substitute({base: plain}, name="view of storage", walk=True).contiguous_view() is not None
    )


def lower_devices(sink: UOp, devices: DeviceLowering) -> UOp:
    """`sink` without UNSHARD, COPY and ALLREDUCE; calls have storage for arguments."""
    order = sink.toposort(enter_calls=False)
    if not any(n.op in _OPS for n in order):
        return sink
    local = localize(sink, devices.config)
    assert not isinstance(local, Sharded)
    for x in local.toposort(enter_calls=False):
        devices.now[x] = devices.visit(x)
    return devices.now[local]


def copy_offset(body: UOp) -> int | None:
    """Where in the source (in elements) the run begins that a kernel body copies to its whole target; None
    when it does anything else."""
    store = store_of(body)
    target, value = store.src[:2]
    if value.op is not Ops.INDEX or value.src[0].op is not Ops.PARAM or loops_of(body)[1]:
        return None
    to, at = (flat_index(i.src[1:], i.src[0].shape) for i in (target, value))
    distance = (at - to).simplify()
    return int(distance.arg) if distance.op is Ops.CONST and not distance.is_invalid else None


def same_device(devices: list[str], kernel: str) -> None:
    """Raise :class:`DeviceError` unless all of a kernel's buffers are on one device."""
    found = tuple(sorted(set(devices)))
    if len(found) > 1:
        raise DeviceError(f"all buffers must be on the same device: {list(found)} (in {kernel})", found)
