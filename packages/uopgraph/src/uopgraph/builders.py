"""Builder sugar of graph nodes. Every method returns interned nodes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Self, cast

from uopgraph.args import AddrSpace, AxisType, BufferizeOpts, CallInfo, Device, ParamArg
from uopgraph.dtype import (
    ConstValue,
    DType,
    Invalid,
    InvalidType,
    dtypes,
    least_upper_dtype,
    least_upper_float,
)
from uopgraph.errors import BoundError, BroadcastError, DeviceError, DTypeError, ShapeError
from uopgraph.movement_sugar import MovementSugar, same_size, shown, sint
from uopgraph.operators import Operators
from uopgraph.ops import GroupOp, Ops

#: Names of their own: reading a member of an Enum is slow.
_CONST, _STACK = Ops.CONST, Ops.STACK
_RESHAPE, _EXPAND, _PERMUTE, _FLIP = Ops.RESHAPE, Ops.EXPAND, Ops.PERMUTE, Ops.FLIP

#: Numbers for storage that is built without one. The only counter of the package.
_slots: Final = itertools.count()


class Builders(Operators, MovementSugar):
    """What can be built on a node. The fields are those of :class:`uopgraph.UOp`."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __init__(
            self,
            op: Ops,
            dtype: DType | None = None,
            src: tuple[Self, ...] = (),
            arg: Any = None,
            tag: Any = None,
        ) -> None: ...

        @property
        def op(self) -> Ops: ...
        @property
        def dtype(self) -> DType: ...
        @property
        def src(self) -> tuple[Self, ...]: ...
        @property
        def arg(self) -> Any: ...
        @property
        def shape_or_none(self) -> tuple[sint, ...] | None: ...
        @property
        def device(self) -> Device | None: ...
        @property
        def axis(self) -> int | None: ...
        @property
        def addrspace(self) -> AddrSpace | None: ...
        @property
        def ranges(self) -> dict[Self, None]: ...
        @property
        def is_variable(self) -> bool: ...
        def has_buffer_identity(self, after_ok: bool = False) -> bool: ...

    # constants, ranges, variables ----------------------------------------------------------------

    @classmethod
    def const(cls, value: Any, dtype: DType | None = None) -> Self:
        """A CONST of `dtype` (default: the Python value's: bool, weakint, weakfloat). A tuple gives a STACK
        of constants, a node is cast, Invalid always is a bool."""
        if type(value) is int and dtype is None:
            return cls(_CONST, dtypes.weakint, (), value)
        if isinstance(value, cls):
            return value if dtype is None else value.cast(dtype)
        if isinstance(value, tuple):
            return cls(_STACK, None, tuple(cls.const(v, dtype) for v in value))
        if isinstance(value, InvalidType):
            return cls(_CONST, dtypes.bool, (), Invalid)
        return cls(_CONST, dtypes.from_py(value) if dtype is None else dtype, (), value)

    @classmethod
    def invalid(cls) -> Self:
        """The constant that poisons a value."""
        return cls(Ops.CONST, dtypes.bool, (), Invalid)

    def const_like(self, value: ConstValue) -> Self:
        """A constant of this dtype, expanded to this shape if there is one."""
        c = type(self).const(value, self.dtype)
        shape = self.shape_or_none
        return c if not shape else c.movement(Ops.EXPAND, shape)

    @classmethod
    def range(
        cls, bound: Any, id: int, axis_type: AxisType = AxisType.LOOP, *more: int, dtype: DType = dtypes.index
    ) -> Self:
        """A RANGE over ``[0, bound)``; negative ids are reserved (-1 is the DEVICE axis).

        Raises :class:`ShapeError` for a bound that is negative or no integer.
        """
        end = cls._extent("RANGE", bound)
        return cls(
            Ops.RANGE,
            None,
            (end.cast(dtype) if end.op is not Ops.CONST else cls.const(end.arg, dtype),),
            (id, *more, axis_type),
        )

    @classmethod
    def _extent(cls, op: str, size: Any) -> Self:
        """A size as a node: an integer that is not negative."""
        node = cls.const(size) if isinstance(size, cls | bool | int | float) else None
        if node is None or not node.dtype.is_int:
            raise ShapeError(op, f"a size must be an integer, got {size!r}")
        if node.op is Ops.CONST and node.arg < 0:
            raise ShapeError(op, f"negative size {node.arg}")
        return node

    @classmethod
    def variable(
        cls, name: str, low: int, high: int, dtype: DType = dtypes.weakint, multiple_of: int = 1
    ) -> Self:
        """A named value in ``[low, high]``, a multiple of `multiple_of`.

        Raises :class:`BoundError` for an empty interval, or one that leaves the dtype, and for a name that is
        no text.
        """
        if not isinstance(name, str) or not name:
            raise BoundError(f"a Variable is named by a text, not {name!r}")
        for given in (low, high, multiple_of):
            if not isinstance(given, int):
                raise BoundError(f"Variable {name}: bounds and factors are integers, not {given!r}")
        if low > high:
            raise BoundError(f"Variable {name}: [{low}, {high}] is empty")
        if not dtype.is_weak and not dtype.min <= low <= high <= dtype.max:
            raise BoundError(f"Variable {name}: [{low}, {high}] leaves {dtype.name}")
        if multiple_of < 1:
            raise BoundError(f"Variable {name}: no multiple of {multiple_of}")
        arg = ParamArg(
            -1,
            dtype,
            (low, high),
            None if multiple_of == 1 else multiple_of,
            name,
            addrspace=AddrSpace.ALU,
        )
        return cls(Ops.PARAM, None, (cls.shape_arg(()),), arg)

    @classmethod
    def shape_arg(cls, shape: Sequence[Any]) -> Self:
        """A shape as one node: a single value for one entry, else a STACK."""
        nodes = tuple([cls.const(d) for d in shape])
        return nodes[0] if len(nodes) == 1 else cls(_STACK, None, nodes)

    # operators -----------------------------------------------------------------------------------

    def alu(self, op: Ops, *src: Self) -> Self:
        return type(self)(op, None, (self, *src))

    def operand(self, value: Any) -> Self:
        """A Python number beside this node takes its dtype when that can hold the kind of the number."""
        if isinstance(value, type(self)):
            return value
        own = dtypes.from_py(value)
        if isinstance(value, InvalidType) or own is self.dtype:
            return type(self).const(value)
        dtype = least_upper_dtype(self.dtype, own)
        return type(self).const(value, self.dtype if dtype is self.dtype else own)

    def _binary(self, op: Ops, other: Any, swap: bool = False) -> Self:
        """`op` on two operands of one dtype: a strong operand of another one is cast to the promotion."""
        other = self.operand(other)
        a, b = (other, self) if swap else (self, other)
        if a.dtype is not b.dtype:
            if op in GroupOp.Shift:
                b = (
                    b
                    if b.dtype in (dtypes.uint32, dtypes.weakint) or not b.dtype.is_int
                    else b.cast(dtypes.uint32)
                )
            else:
                a, b = a._promoted(b)
        return a.alu(op, b)

    def _promoted(self, other: Self) -> tuple[Self, Self]:
        """Both in their common dtype; what has no width of its own fits beside any and stays."""
        common = least_upper_dtype(self.dtype, other.dtype)

        def fitted(x: Self) -> Self:
            free = x.dtype is common or x.dtype.is_weak or (x.op is Ops.CONST and x.arg is Invalid)
            return x if free else x.cast(common)

        return fitted(self), fitted(other)

    def _branches(self, then: Any, otherwise: Any) -> tuple[Self, Self]:
        cls = type(self)
        if isinstance(then, cls):
            first, second = then, then.operand(otherwise)
        elif isinstance(otherwise, cls):
            first, second = otherwise.operand(then), otherwise
        else:
            first, second = cls.const(then), cls.const(otherwise)
        return (first, second) if first.dtype is second.dtype else first._promoted(second)

    def __neg__(self) -> Self:
        return self.logical_not() if self.dtype is dtypes.bool else super().__neg__()

    def __le__(self, other: Any) -> Self:
        right = self.operand(other)
        if self.dtype.is_float or right.dtype.is_float:
            return (self < right) | self.eq(right)
        return (right < self).logical_not()

    def __ge__(self, other: Any) -> Self:
        left = self.operand(other)
        return left <= self

    def __invert__(self) -> Self:
        """Logical not of a bool, bitwise not of an integer."""
        return self.logical_not() if self.dtype is dtypes.bool else self ^ -1

    def __truediv__(self, other: Any) -> Self:
        """Float division; integers are cast to the default float first."""
        a, b = self, self.operand(other)
        dtype = least_upper_float(least_upper_dtype(a.dtype, b.dtype))
        if not a.dtype.is_float:
            a = a.cast(dtype)
        if not b.dtype.is_float:
            b = b.cast(dtype)
        return a._binary(Ops.FDIV, b)

    def __rtruediv__(self, other: Any) -> Self:
        return self.operand(other) / self

    def minimum(self, other: Any) -> Self:
        """The lesser value: the maximum of inverses (negation of floats, not of integers and bools)."""
        a, b = self._promoted(self.operand(other))
        if a.dtype.is_float or b.dtype.is_float:
            return -((-a).maximum(-b))
        return ~((~a).maximum(~b))

    def usum(self, *others: Self) -> Self:
        """Left fold with + (or for bools)."""
        total = self
        for x in others:
            total = total | x if total.dtype is dtypes.bool and x.dtype is dtypes.bool else total + x
        return total

    def uprod(self, *others: Self) -> Self:
        """Left fold with * (and for bools)."""
        total = self
        for x in others:
            total = total & x if total.dtype is dtypes.bool and x.dtype is dtypes.bool else total * x
        return total

    def cast(self, dtype: DType) -> Self:
        """Convert the value; self when the dtype is the same."""
        return self if dtype is self.dtype else type(self)(Ops.CAST, dtype, (self,), dtype)

    def bitcast(self, dtype: DType) -> Self:
        """Reinterpret the bits; another item size scales the last dimension."""
        return self if dtype is self.dtype else type(self)(Ops.BITCAST, dtype, (self,), dtype)

    # movement ------------------------------------------------------------------------------------

    def movement(self, op: Ops, arg: tuple[Any, ...]) -> Self:
        cls, shape = type(self), self.shape
        if op is _PERMUTE or op is _FLIP:
            if arg == (tuple(range(len(shape))) if op is _PERMUTE else (False,) * len(shape)):
                return self
            node = cls(op, None, (self,), arg)
        elif op is _RESHAPE or op is _EXPAND:
            if (op is _EXPAND and not arg) or (op is _RESHAPE and _same_shape(arg, shape)):
                return self
            node = cls(op, None, (self, cls.shape_arg(arg)))
        elif op in (Ops.PAD, Ops.SHRINK):
            if len(arg) == len(shape) and all(
                same_size(o, 0) and same_size(n, s) for (o, n), s in zip(arg, shape, strict=True)
            ):
                return self
            offsets, sizes = (cls.shape_arg([pair[i] for pair in arg]) for i in (0, 1))
            node = cls(op, None, (self, offsets, sizes))
        else:
            raise ShapeError(op.name, "is not a movement operation")
        _ = node.shape  # an illegal argument is reported here, where it was written
        return node

    def pad(self, before_after: Sequence[tuple[sint, sint]], value: Any = 0) -> Self:
        """Pad each axis with (before, after) elements of `value`."""
        padded = super().pad(before_after)
        if padded is self or (value == 0 and not isinstance(value, InvalidType)):
            return padded
        inside = type(self).const(True).expand(self.shape)
        mask = MovementSugar.pad(inside, before_after)
        return mask.where(padded, value)

    def stack(self, *others: Self, dim: int = 0) -> Self:
        """Join equal shapes along a new axis `dim`."""
        shapes = [x.shape for x in (self, *others)]
        if any(not _same_shape(s, shapes[0]) for s in shapes):
            raise ShapeError("STACK", f"shapes differ: {', '.join(map(shown, shapes))}")
        node = type(self)(Ops.STACK, None, (self, *others))
        axis = self._axis(dim, extra=1)
        order = [*range(1, axis + 1), 0, *range(axis + 1, node.ndim)]
        return node.permute(tuple(order))

    def cat(self, *others: Self, dim: int = 0) -> Self:
        """Join along the existing axis `dim`: a sum of pads, or of selected pads for floats (-0.0 + 0.0 is
        0.0)."""
        parts, axis = (self, *others), self._axis(dim)
        for x in others:
            if x.ndim != self.ndim or any(
                not same_size(a, b)
                for i, (a, b) in enumerate(zip(x.shape, self.shape, strict=True))
                if i != axis
            ):
                raise ShapeError(
                    "CAT", f"shapes {shown(self.shape)} and {shown(x.shape)} do not join along axis {axis}"
                )
        sizes = [x.shape[axis] for x in parts]
        pads, masks, before = [], [], cast(sint, 0)
        for i, x in enumerate(parts):
            after: sint = 0
            for size in sizes[i + 1 :]:
                after = after + size
            widths: list[tuple[sint, sint]] = [(0, 0)] * self.ndim
            widths[axis] = (before, after)
            pads.append(x.pad(widths))
            masks.append(MovementSugar.pad(type(self).const(True).expand(x.shape), widths))
            before = before + sizes[i]
        if len(parts) == 1:
            return self
        if not any(x.dtype.is_float for x in parts):
            return pads[0].usum(*pads[1:])
        total = pads[-1]
        for mask, value in zip(reversed(masks[:-1]), reversed(pads[:-1]), strict=True):
            total = mask.where(value, total)
        return total

    def __getitem__(self, key: Any) -> Self:
        return self.basic_index(key)

    def rop(self, op: Ops, axes: Sequence[int]) -> Self:
        """Reduce `axes` (dropped from the shape): axes of size 1 by a reshape, the others in leading
        position."""
        chosen = sorted({self._axis(a) for a in axes})
        shape = self.shape
        moved = [a for a in chosen if not same_size(shape[a], 1)]
        node = self
        if moved:
            rest = [i for i in range(len(shape)) if i not in moved]
            node = type(self)(Ops.REDUCE, None, (self.permute((*moved, *rest)),), (op, len(moved)))
        return node.reshape(tuple([s for i, s in enumerate(shape) if i not in chosen]))

    def _reduce(self, op: Ops, axes: int | Sequence[int] | None, keepdim: bool) -> Self:
        listed = range(self.ndim) if axes is None else [axes] if isinstance(axes, int) else axes
        chosen = {self._axis(a) for a in listed}
        node = self.rop(op, sorted(chosen))
        if not keepdim:
            return node
        return node.reshape(tuple(1 if i in chosen else s for i, s in enumerate(self.shape)))

    def sum(self, axes: int | Sequence[int] | None = None, keepdim: bool = False) -> Self:
        """Sum over `axes` (all by default) in this node's own dtype."""
        return self._reduce(Ops.ADD, axes, keepdim)

    def max(self, axes: int | Sequence[int] | None = None, keepdim: bool = False) -> Self:
        """Maximum over `axes` (all by default)."""
        return self._reduce(Ops.MAX, axes, keepdim)

    def prod(self, axes: int | Sequence[int] | None = None, keepdim: bool = False) -> Self:
        """Product over `axes` (all by default)."""
        return self._reduce(Ops.MUL, axes, keepdim)

    # addressing ----------------------------------------------------------------------------------

    def index(self, *idx: Any) -> Self:
        """Pick elements: one index per indexed leading dimension."""
        return type(self)(Ops.INDEX, None, (self, *(type(self).const(i) for i in idx)))

    def valid(self, condition: Any) -> Self:
        """This index, Invalid where `condition` is false."""
        c = type(self).const(condition)
        return self if c.op is Ops.CONST and c.arg is True else c.alu(Ops.WHERE, self, type(self).invalid())

    def get_idx(self) -> Self:
        """The index without its validity."""
        gated = self.op is Ops.WHERE and self.src[2].op is Ops.CONST and self.src[2].arg is Invalid
        return self.src[1] if gated else self

    def get_valid(self) -> Self:
        """The validity of an index: True when there is no gate, False for Invalid."""
        if self.op is Ops.WHERE and self.src[2].op is Ops.CONST and self.src[2].arg is Invalid:
            return self.src[0]
        return type(self).const(not (self.op is Ops.CONST and self.arg is Invalid))

    # storage -------------------------------------------------------------------------------------

    @classmethod
    def storage(cls, op: Ops, arg: ParamArg, shape: Sequence[Any] | None) -> Self:
        """A BUFFER, ALLOC or PARAM; a shape of None means that it has none.

        Raises :class:`DTypeError` for storage of a weak dtype, :class:`ShapeError` for a size that is
        negative or no integer.
        """
        if arg.dtype.is_weak and arg.addrspace is not AddrSpace.ALU:
            raise DTypeError(f"{op.name} cannot store the weak dtype {arg.dtype.name}")
        if shape is not None:
            shape = [cls._extent(op.name, d) for d in shape]
        node = cls(Ops.NOOP, dtypes.void) if shape is None else cls.shape_arg(shape)
        return cls(op, None, (node,), arg)

    @classmethod
    def param(
        cls,
        slot: int,
        dtype: DType,
        shape: Sequence[Any] | None = None,
        device: Device | None = None,
        **more: Any,
    ) -> Self:
        """A formal parameter; `more` are further fields of :class:`ParamArg`."""
        return cls.storage(Ops.PARAM, ParamArg(slot, dtype, device=device, **more), shape)

    def param_like(self, slot: int) -> Self:
        """The formal parameter that stands for this value: dtype, per-shard shape, device, addrspace, axis
        kept; a Variable keeps its bounds and is renamed ``p<slot>``."""
        if self.is_variable:
            a = self.arg
            arg = ParamArg(slot, a.dtype, a.vmin_vmax, a.multiple_of, f"p{slot}", addrspace=AddrSpace.ALU)
            return type(self)(Ops.PARAM, None, self.src, arg)
        space = self.addrspace or AddrSpace.GLOBAL
        return type(self).param(
            slot, self.dtype, self.shape_or_none, self.device, addrspace=space, axis=self.axis
        )

    @classmethod
    def new_buffer(
        cls, device: Device, size: sint | Sequence[sint], dtype: DType, slot: int | None = None
    ) -> Self:
        """A global BUFFER of a size (1-d) or a shape; a fresh slot when none is given."""
        arg = ParamArg(next(_slots) if slot is None else slot, dtype, device=device)
        return cls.storage(Ops.BUFFER, arg, size if isinstance(size, list | tuple) else (size,))

    @classmethod
    def alloc(
        cls, size: sint | Sequence[sint], dtype: DType, device: Device | None, slot: int | None = None
    ) -> Self:
        """Storage that belongs to a call, with a fresh slot when none is given."""
        arg = ParamArg(next(_slots) if slot is None else slot, dtype, device=device)
        return cls.storage(Ops.ALLOC, arg, size if isinstance(size, list | tuple) else (size,))

    def empty_like(self, device: Device | None = None) -> Self:
        """A new BUFFER of this shape (the per-shard one), reshaped; sharding is applied again."""
        where = self.device if device is None else device
        if where is None:
            raise DeviceError("empty_like needs a device")
        source = self
        while source.op is not Ops.UNSHARD and source.op in (Ops.CONTIGUOUS, Ops.DETACH):
            source = source.src[0]
        if source.op is Ops.UNSHARD:
            inner = source.src[0]
            buffer = type(self).new_buffer(where, inner.numel(), self.dtype).reshape(inner.shape)
            return type(self)(Ops.UNSHARD, None, (buffer, *source.src[1:]), source.arg)
        return type(self).new_buffer(where, self.numel(), self.dtype).reshape(self.shape)

    # effects -------------------------------------------------------------------------------------

    def load(self, *more: Self) -> Self:
        """LOAD from this address [, alternative value, gate]."""
        return type(self)(Ops.LOAD, None, (self, *more))

    def store(self, value: Any, gate: Self | None = None) -> Self:
        """STORE of `value` to this view of storage."""
        src = (self, self.operand(value))
        return type(self)(Ops.STORE, None, src if gate is None else (*src, gate))

    def after(self, *deps: Self) -> Self:
        """This value, once `deps` have happened; self without any."""
        return type(self)(Ops.AFTER, None, (self, *deps)) if deps else self

    def end(self, *ranges: Self) -> Self:
        """Close `ranges` around this effect; self without any."""
        return type(self)(Ops.END, None, (self, *ranges)) if ranges else self

    def sink(self, *more: Self, arg: Any = None) -> Self:
        """SINK of self and `more`."""
        return type(self)(Ops.SINK, None, (self, *more), arg)

    @classmethod
    def make_sink(cls, *src: Self, arg: Any = None) -> Self:
        """SINK of any number of nodes."""
        return cls(Ops.SINK, None, src, arg)

    @classmethod
    def group(cls, *effects: Self) -> Self:
        """GROUP of effects; a single one is returned as is."""
        return effects[0] if len(effects) == 1 else cls(Ops.GROUP, None, effects)

    def contiguous(self, opts: tuple[Any, ...] | None = None) -> Self:
        """CONTIGUOUS, the user's mark; self for weak dtypes, values without a device, an existing CONTIGUOUS,
        or something with buffer identity."""
        if self.dtype.is_weak or self.device is None or self.op is Ops.CONTIGUOUS:
            return self
        if self.has_buffer_identity() and opts is None:
            return self
        return type(self)(Ops.CONTIGUOUS, None, (self,), opts)

    def detach(self) -> Self:
        return type(self)(Ops.DETACH, None, (self,))

    def stage(self, *ranges: Any, opts: BufferizeOpts) -> Self:
        """STAGE: a candidate buffer that closes `ranges`."""
        return type(self)(Ops.STAGE, None, (self, *(type(self).const(r) for r in ranges)), opts)

    def assign(self, value: Self) -> Self:
        """``self.after(self.store(value))``; equal dtype and device, `value` is broadcast."""
        if value.dtype is not self.dtype:
            raise DTypeError(f"assign of {value.dtype.name} to {self.dtype.name}")
        if value.device is not None and self.device is not None and value.device != self.device:
            raise DeviceError(f"assign from {value.device} to {self.device}")
        return self.after(self.store(value.expand(self.shape)))

    def clone(self, device: Device | None = None) -> Self:
        """A new buffer holding this value."""
        target = self.empty_like(device)
        return target.after(target.store(self))

    # calls ---------------------------------------------------------------------------------------

    def call(
        self,
        *args: Self,
        precompile: bool = False,
        name: str | None = None,
        grad_fxn: Any = None,
        aux: Any = None,
    ) -> Self:
        """CALL of this body; a value body is wrapped in TUPLE and read with :meth:`gettuple`."""
        is_value = self.dtype is not dtypes.void and self.op not in (Ops.COPY, Ops.GETADDR)
        body = type(self)(Ops.TUPLE, None, (self,)) if is_value else self
        open_ranges = [r for r in body.ranges if r.arg[-1] is not AxisType.DEVICE]
        if open_ranges:
            raise ShapeError("CALL", f"the body leaves ranges open: {[r.arg for r in open_ranges]}")
        dtype = dtypes.void if body.dtype is dtypes.void else body.dtype
        return type(self)(Ops.CALL, dtype, (body, *args), CallInfo(name, precompile, False, grad_fxn, aux))

    @classmethod
    def make_tuple(cls, *values: Self) -> Self:
        """TUPLE of several results."""
        return cls(Ops.TUPLE, None, values)

    def gettuple(self, index: int) -> Self:
        """Result `index` of a TUPLE, or of a CALL with a TUPLE body."""
        return type(self)(Ops.GETTUPLE, None, (self,), index)

    # several devices -----------------------------------------------------------------------------

    def copy_to_device(self, device: Device) -> Self:
        """COPY to a device or a tuple of devices."""
        return type(self)(Ops.COPY, None, (self,), device)

    def mselect(self, i: int) -> Self:
        return type(self)(Ops.MSELECT, None, (self,), i)

    @classmethod
    def mstack(cls, *values: Self) -> Self:
        return cls(Ops.MSTACK, None, values)

    def allreduce(self, op: Ops, device: Device) -> Self:
        return type(self)(Ops.ALLREDUCE, None, (self,), (op, device))

    def unshard(self, axes: int | Sequence[int], ranges: Self | Sequence[Self]) -> Self:
        """The whole value of a per-device one: `axes` are sharded, one DEVICE range each."""
        listed = (axes,) if isinstance(axes, int) else tuple(axes)
        counters = (ranges,) if isinstance(ranges, type(self)) else tuple(cast("Sequence[Self]", ranges))
        if len(listed) != len(counters):
            raise DeviceError(f"{len(counters)} ranges for {len(listed)} sharded axes")
        pairs = sorted(zip(listed, counters, strict=True), key=lambda p: p[0])
        return type(self)(Ops.UNSHARD, None, (self, *(r for _, r in pairs)), tuple(a for a, _ in pairs))

    def shard(self, devices: Sequence[str], axis: int | None = None) -> Self:
        """Copy to `devices`; with an axis each device keeps its part, and the result is the whole value."""
        whole = self.copy_to_device(tuple(devices))
        if axis is None:
            return whole
        a, n = self._axis(axis), len(devices)
        size = self.shape[a]
        if not isinstance(size, int) or size % n:
            raise DeviceError(f"axis {axis} of size {size} is not divisible by {n} devices")
        counter = type(self).range(n, -1, AxisType.DEVICE)
        start = counter * (size // n)
        cut: list[tuple[Any, Any]] = [(0, s) for s in self.shape]
        cut[a] = (start, size // n)
        return whole.movement(Ops.SHRINK, tuple(cut)).unshard(a, counter)


def _same_shape(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return tuple(a) == tuple(b)  # nodes are equal to themselves only


def broadcast_shape(op: str, *shapes: Sequence[Any]) -> tuple[Any, ...]:
    """Right-aligned broadcasting: a dimension of 1 meets anything. Raises :class:`BroadcastError`."""
    if shapes.count(shapes[0]) == len(shapes):
        return tuple(shapes[0])
    rank = max([len(s) for s in shapes])
    out: list[Any] = []
    for dims in zip(*[(1,) * (rank - len(s)) + tuple(s) for s in shapes], strict=True):
        wide: Any = 1
        for d in dims:
            if d == 1 or d == wide:  # nodes are equal to themselves only
                continue
            if wide != 1:
                raise BroadcastError(op, f"shapes {' and '.join(map(shown, shapes))} do not broadcast")
            wide = d
        out.append(wide)
    return tuple(out)
