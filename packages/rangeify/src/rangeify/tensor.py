"""The lazy Tensor: a name for a value in a graph of operations (design 9).

Nothing is computed when an expression is written. ``bool``, ``int``, ``float``, ``index``, ``print``,
``np.asarray`` and :meth:`Tensor.realize` compute.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Self, SupportsIndex, cast
from weakref import WeakValueDictionary, ref

import numpy as np
import numpy.typing as npt

from rangeify import storage
from rangeify.arithmetic import Arithmetic
from rangeify.errors import (
    ArgumentError,
    AssignError,
    DeviceError,
    DTypeError,
    MissingNameError,
    ShapeError,
    UnsupportedError,
)
from rangeify.operands import (
    DTypeLike,
    as_dtype,
    as_node,
    device_names,
    mask_of,
    operand,
    sizes_of,
    whole_number,
)
from rangeify.overwriting import cuts_shards, overwritten
from rangeify.promotion import convert, promote
from rangeify.signatures import checked_methods
from uopgraph import Ops, UOp, dtypes, strong_dtype

if TYPE_CHECKING:
    from rangeify.gather import ArrayKey

_serial: Final = itertools.count()
#: What other libraries have and a Tensor has not, with the reason.
_MISSING: Final = {
    **dict.fromkeys(
        ("backward", "grad", "gradient", "requires_grad", "requires_grad_"), "autograd is out of scope"
    ),
    **dict.fromkeys(("masked_select", "nonzero", "unique"), "the shape of its result depends on data"),
    **dict.fromkeys(("conj", "imag", "real"), "complex dtypes are out of scope"),
}

#: Every live Tensor, so that realising one lets all others that hold the same value read its storage.
_live: Final[WeakValueDictionary[int, Tensor]] = WeakValueDictionary()


def live_tensors() -> list[Tensor]:
    """The Tensors that are alive, in order of creation."""
    return [t for _, t in sorted(_live.items())]


@checked_methods
class Tensor(Arithmetic):
    """A lazy N-dimensional array.

    `data` is an array or nested list (copied), a Python number (a constant without a committed width),
    another Tensor or a graph node. Two dtypes meet by the lattice of graph spec 4; shapes broadcast as in
    NumPy. Operators build nodes; ``==`` and ``!=`` are element-wise.
    """

    __slots__ = ("__weakref__", "_base", "_key", "_serial")
    __array_priority__ = 1000.0

    def __init__(self, data: Any, dtype: DTypeLike | None = None, device: str | None = None) -> None:
        place = None if device is None else storage.device_name(device)
        self._uop = as_node(data, None if dtype is None else as_dtype(dtype), place)
        _ = self._uop.shape_or_none  # shapes that do not fit are refused here, where they were written
        self._base: Tensor | ref[Tensor] | None = None
        self._key: Any = None
        self._serial = next(_serial)
        _live[self._serial] = self

    # facts ----------------------------------------------------------------------------------------

    @property
    def has_storage(self) -> bool:
        """Whether the value is stored (made from data, realised, or a part of it written) rather than an
        expression."""
        return self._uop.has_buffer_identity(after_ok=True)

    def _made(self, node: UOp) -> Self:
        return type(self)(node)

    def rebind(self, uop: UOp) -> None:
        """Let this Tensor stand for another node of the same value; used when a value gets storage."""
        self._uop = uop

    @property
    def shape(self) -> tuple[int, ...]:
        return cast("tuple[int, ...]", self._uop.shape)

    def to(self, device: str | Sequence[str]) -> Tensor:
        """The same value on another device, or whole on each of several; a constant is everywhere."""
        target = storage.device_name(device) if isinstance(device, str) else device_names(device)
        if self.device is None or (self.device == target and self._uop.axis is None):
            return Tensor(self._uop)
        return Tensor(self._uop.copy_to_device(target))

    def shard(self, devices: Sequence[str], axis: int | None = None) -> Tensor:
        """The value on several devices: cut along `axis`, each device one part, or whole on each (None).

        The size of the axis must be a multiple of the number of devices (:class:`DeviceError`).
        """
        devices = device_names(devices)
        if len(devices) == 1:
            return self.to(devices[0])
        if axis is None:
            return self.to(devices)
        if self.device is None:
            return Tensor(self._uop)
        axis = self._axes(axis)[0]
        if self.shape[axis] % len(devices):
            raise DeviceError(
                f"axis {axis} of size {self.shape[axis]} is not divisible by {len(devices)} devices",
                tuple(devices),
            )
        return Tensor(self._uop.shard(tuple(devices), axis))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements; `UnsupportedError` for a symbolic shape."""
        if not all(isinstance(d, int) for d in self.shape):
            raise UnsupportedError("the number of elements of a symbolic shape")
        return math.prod(self.shape)

    if not TYPE_CHECKING:  # a type checker knows what there is

        def __getattr__(self, name: str) -> Any:
            if name in _MISSING:
                raise MissingNameError(f"Tensor.{name}: {_MISSING[name]}")
            raise AttributeError(f"'Tensor' object has no attribute {name!r}")

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d Tensor")
        if not isinstance(self.shape[0], int):
            raise UnsupportedError("len() of a symbolic dimension")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        """The slices along the first axis."""
        if not self.shape:
            raise ShapeError("iteration over a Tensor without dimensions")
        if not isinstance(self.shape[0], int):
            raise UnsupportedError("iteration over a symbolic dimension")
        return (self[i] for i in range(self.shape[0]))

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __repr__(self) -> str:
        return f"Tensor({self.numpy()!r})"

    # creation -------------------------------------------------------------------------------------

    @classmethod
    def full(
        cls, shape: int | Sequence[int], value: bool | int | float, dtype: DTypeLike | None = None
    ) -> Self:
        """A constant of a shape; it has no storage and no device."""
        node = UOp.const(value, strong_dtype(dtypes.from_py(value)) if dtype is None else as_dtype(dtype))
        sizes = sizes_of(shape)
        return cls(node.expand(sizes) if sizes else node)

    @classmethod
    def empty(
        cls,
        *shape: int | Sequence[int],
        dtype: DTypeLike = dtypes.default_float,
        device: str = storage.DEFAULT_DEVICE,
    ) -> Self:
        """Storage without contents: a place for an array that is given when a schedule runs, or written
        first.

        Running a schedule that reads it without an array raises :class:`rangeify.InputError`.
        """
        return cls(storage.new_buffer(sizes_of(*shape), as_dtype(dtype), storage.device_name(device)))

    @classmethod
    def arange(cls, n: int, dtype: DTypeLike = dtypes.default_int) -> Self:
        """The numbers 0 ... n - 1, computed from indices where they are used: no storage, no loop."""
        from rangeify.reduction import arange

        sizes_of(n)
        return cls(convert(arange(n), as_dtype(dtype)))

    @classmethod
    def zeros(cls, *shape: int | Sequence[int], dtype: DTypeLike = dtypes.default_float) -> Self:
        """A constant 0 of a shape."""
        return cls.full(sizes_of(*shape), 0, dtype)

    @classmethod
    def ones(cls, *shape: int | Sequence[int], dtype: DTypeLike = dtypes.default_float) -> Self:
        """A constant 1 of a shape."""
        return cls.full(sizes_of(*shape), 1, dtype)

    def cast(self, dtype: DTypeLike) -> Tensor:
        """The values in another dtype; floats round to nearest even, integers wrap."""
        return Tensor(convert(self._uop, as_dtype(dtype)))

    astype = cast

    def bitcast(self, dtype: DTypeLike) -> Tensor:
        """The same bytes as another dtype, little endian; another item size rescales the last axis."""
        node = UOp(Ops.BITCAST, as_dtype(dtype), (self._uop,), as_dtype(dtype))
        if node.dtype is self.dtype:
            return self
        if self.dtype is dtypes.bool or node.dtype is dtypes.bool or self.dtype.is_weak or node.dtype.is_weak:
            raise UnsupportedError(f"bit-cast of {self.dtype.name} to {node.dtype.name}")
        _ = node.shape
        return Tensor(node)

    # movement -------------------------------------------------------------------------------------

    def reshape(self, *shape: Any) -> Tensor:
        """The same elements in row-major order under another shape; one entry may be -1."""
        return Tensor(self._uop.reshape(*shape))

    def permute(self, *axes: Any) -> Tensor:
        """Axis i of the result is axis ``axes[i]`` of self."""
        return Tensor(self._uop.permute(*axes))

    def transpose(self, first: int = -2, second: int = -1) -> Tensor:
        """Swap two axes."""
        return Tensor(self._uop.transpose(first, second))

    @property
    def T(self) -> Tensor:
        """The axes in reverse order."""
        return self.permute(tuple(reversed(range(self.ndim))))

    def expand(self, *shape: Any) -> Tensor:
        """Broadcast to a shape; -1 keeps an axis."""
        return Tensor(self._uop.expand(*shape))

    broadcast_to = expand

    def flip(self, *axes: Any) -> Tensor:
        """Reverse axes (all by default)."""
        return Tensor(self._uop.flip(*(axes or tuple(range(self.ndim)))))

    def pad(self, before_after: Sequence[tuple[int, int]], value: bool | int | float = 0) -> Tensor:
        """Pad each axis with (before, after) elements of `value`."""
        return Tensor(self._uop.pad(before_after, value))

    def squeeze(self, axis: int) -> Tensor:
        """Drop an axis of size 1."""
        return Tensor(self._uop.squeeze(axis))

    def unsqueeze(self, axis: int) -> Tensor:
        """Insert an axis of size 1."""
        return Tensor(self._uop.unsqueeze(axis))

    def flatten(self) -> Tensor:
        """One dimension of all elements."""
        return self.reshape(self.size)

    def __getitem__(self, key: Any) -> Tensor:
        """Integers, slices, None, Ellipsis, and integer arrays as in NumPy. Denotes the value at this time.

        What integers, slices, None and Ellipsis give remembers this Tensor: a write to it is a write to this
        one, storage or not.
        """
        picked = self._array_key(key)
        if picked is not None:
            return Tensor(picked.read(self._uop[picked.basic]))
        view = Tensor(self._uop[key])
        # nobody sees a write to a Tensor that is gone; a slice of a slice is the way to its Tensor
        view._base = ref(self) if self._base is None else self
        view._key = key
        return view

    def _cut_from(self) -> Tensor | None:
        """What this is a slice of; None when it is none, or that is gone."""
        return self._base() if isinstance(self._base, ref) else self._base

    def _array_key(self, key: Any) -> ArrayKey | None:
        from rangeify.gather import array_key

        return array_key(key, self.ndim, lambda k: operand(k, self.device))

    def contiguous(self, *requests: Any) -> Tensor:
        """The same value, stored: a boundary that fusion does not cross. `requests` (JSON data) reach
        ``opts_to_apply`` of the kernel that stores it; nothing here reads them."""
        try:
            hash(requests)
        except TypeError:
            raise ArgumentError(f"requests of contiguous() must be hashable: {requests!r:.60}") from None
        return Tensor(self._uop.contiguous(requests or None))

    # reduction ------------------------------------------------------------------------------------

    def _axes(self, axis: int | Sequence[int] | None) -> tuple[int, ...]:
        given = (axis,) if isinstance(axis, (int, SupportsIndex)) else axis
        known = given is None or isinstance(given, Sequence)
        if not known or not all(isinstance(a, (int, SupportsIndex)) for a in given or ()):
            raise ShapeError(f"an axis is an integer, or several are, not {axis!r}")
        try:
            listed = range(self.ndim) if given is None else tuple(operator.index(a) for a in given)
        except TypeError:
            raise ShapeError(f"an axis is an integer, or several are, not {axis!r}") from None
        for a in listed:
            if not -self.ndim <= a < self.ndim:
                raise ShapeError(f"axis {a} is out of range for {self.ndim} dimensions")
        return tuple(sorted({a % self.ndim for a in listed})) if self.ndim else ()

    def sum(
        self, axis: int | Sequence[int] | None = None, keepdims: bool = False, dtype: DTypeLike | None = None
    ) -> Tensor:
        """The sum over `axis` (all by default). Accumulates in at least 32 bits; floats are rounded back to
        this dtype, integers stay wide."""
        from rangeify.reduction import reduce_sum

        return Tensor(
            reduce_sum(self._uop, self._axes(axis), keepdims, None if dtype is None else as_dtype(dtype))
        )

    def max(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        """The greatest value over `axis` (all by default); nan if one is nan."""
        return Tensor(self._uop.max(self._axes(axis), keepdims))

    def min(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        """The least value over `axis` (all by default); nan if one is nan."""
        flipped = ~self if not self.dtype.is_float else -self
        found = flipped.max(axis, keepdims)
        return -found if self.dtype.is_float else ~found

    def prod(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        """The product over `axis` (all by default), in this dtype."""
        return Tensor(self._uop.prod(self._axes(axis), keepdims))

    def mean(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        """The sum, accumulated in at least float32, divided by the number of elements, then rounded."""
        from rangeify.reduction import reduce_mean

        return Tensor(reduce_mean(self._uop, self._axes(axis), keepdims))

    def __matmul__(self, other: Tensor) -> Tensor:
        from rangeify.reduction import matmul

        return Tensor(matmul(*promote(self._uop, operand(other, self.device))))

    # assignment -----------------------------------------------------------------------------------

    def assign(self, value: Any) -> Self:
        """Rebind this Tensor to `value`, broadcast to this shape. The dtype must be the same (constants
        follow).

        Tensors made earlier keep the old value, with one exception: where this Tensor was made by basic
        indexing of another one, the assignment writes through to that one (design 9).
        """
        base = self._cut_from()
        if base is not None:
            base[self._key] = value
            self._uop = base.uop[self._key]
        else:
            self._uop = self._written(self._uop, value)
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        """Write `value`, broadcast, into the part that `key` names; rebinds this Tensor.

        With integer arrays the last of several writes to one place (in row-major order) wins. A boolean mask
        selects elements that all get one value.
        """
        base = self._cut_from()
        if base is not None:
            part = Tensor(base.uop[self._key])
            part[key] = value
            base[self._key] = part
            self._uop = base.uop[self._key]
            return
        mask = mask_of(key, self.device)
        if mask is not None:
            self._write_where(mask, value)
            return
        picked = self._array_key(key)
        if picked is not None:
            here = self._uop[picked.basic]
            self[picked.basic] = Tensor(picked.write(here, self._written_value(value)))
        else:
            self._uop = self._written(self._uop[key], value)

    def _write_where(self, mask: UOp, value: Any) -> None:
        rest = self.ndim - mask.ndim
        if rest < 0 or mask.shape != self.shape[: mask.ndim]:
            raise ShapeError(f"a mask of shape {mask.shape} for a Tensor of shape {self.shape}")
        node = self._written_value(value)
        if node.ndim > rest:
            raise UnsupportedError("writing one value for each element of a boolean mask")
        wide = mask.reshape((*mask.shape, *(1,) * rest))
        self[...] = Tensor(wide.alu(Ops.WHERE, node, self._uop))

    def _written_value(self, value: Any) -> UOp:
        """What is written, in this dtype."""
        node = operand(value, self.device)
        if node.op is Ops.CONST and node.dtype.is_weak:
            node = convert(node, self.dtype)
        if node.dtype is not self.dtype:
            raise AssignError(f"assign dtype mismatch: {node.dtype.name} to {self.dtype.name}")
        if node.device is not None and self.device is not None and node.device != self.device:
            raise AssignError(f"assign device mismatch: {node.device} to {self.device}")
        return node

    def _written(self, target: UOp, value: Any) -> UOp:
        """This Tensor's next value: `value` written to `target`, a view of the present one."""
        node = self._written_value(value)
        node = node.expand(target.shape) if target.shape else node.reshape(())
        if target is self._uop:
            return node
        if 0 in target.shape:
            return self._uop
        if self._uop.axis is not None and cuts_shards(self._uop, target):
            return overwritten(self._uop, target, node)
        state = self._storage(node.device)
        written = state.after(
            target.substitute({self._uop: state.reshape(self.shape)}, walk=True).store(node)
        )
        return written.reshape(self.shape)

    def _storage(self, device: Any) -> UOp:
        """The storage state behind this Tensor; a value without storage is given one when it is computed."""
        state = self._uop
        while state.op is Ops.RESHAPE:
            state = state.src[0]
        if storage.is_state(state):
            return state
        if state.device is None:
            return storage.from_array(self.numpy(), device or storage.DEFAULT_DEVICE)
        return self._uop.contiguous()

    def _inplace(self, value: Any) -> Self:
        return value if value is NotImplemented else self.assign(value)

    def __iadd__(self, other: Any) -> Self:
        return self._inplace(self + other)

    def __isub__(self, other: Any) -> Self:
        return self._inplace(self - other)

    def __imul__(self, other: Any) -> Self:
        return self._inplace(self * other)

    def __itruediv__(self, other: Any) -> Self:
        return self._inplace(self / other)

    # realisation ----------------------------------------------------------------------------------

    def realize(self) -> Self:
        """Compute this value and let every live Tensor that holds it read the storage."""
        from rangeify.realization import realize

        realize(self)
        return self

    def numpy(self) -> npt.NDArray[Any]:
        """The value as a NumPy array of its own (weak constants in the default dtypes)."""
        from rangeify.realization import to_numpy

        return to_numpy(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ArgumentError("the value of a lazy Tensor is computed into an array of its own")
        try:
            wanted = None if dtype is None else np.dtype(dtype)
        except (TypeError, ValueError):
            raise DTypeError(f"no dtype of NumPy: {dtype!r:.60}") from None
        array = self.numpy()
        return array if wanted is None else array.astype(wanted)

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        """A capsule of the computed value, a copy of its own, for any library that reads host memory."""
        if stream is not None:
            raise ArgumentError("stream must be None for a Tensor in host memory")
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """(1, 0): host memory."""
        return (1, 0)

    def item(self) -> Any:
        """The value of a Tensor of one element as a Python number.

        Where an element of a Tensor of at most 65,536 elements that is still there goes into it, all of that
        is computed: one element is rarely asked for alone.
        """
        if self.size != 1:
            raise ShapeError(f"item() of a Tensor of shape {self.shape}")
        from rangeify.realization import scalar

        return scalar(self)

    def tolist(self) -> Any:
        return self.numpy().tolist()

    def __bool__(self) -> bool:
        return bool(self.item())

    def __int__(self) -> int:
        return whole_number(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __index__(self) -> int:
        return cast(SupportsIndex, self.item()).__index__()
