"""The oracle: program text on NumPy arrays. Every slice is copied; a slice of storage knows what it was cut from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tensor_programs.program import Input, Program

Array = np.ndarray[Any, Any]


class Copied:
    """An array with value semantics: every operation gives an array of its own.

    A slice passes writes on: writing to it writes to what it was cut from, and to nothing else.
    """

    def __init__(self, array: Any, base: tuple[Copied, Any] | None = None) -> None:
        self.array: Array = np.array(array)
        self.base = base

    def __getitem__(self, key: Any) -> Copied:
        cut = np.array(self.array[key])
        return Copied(cut, None if isinstance(key, np.ndarray) else (self, key))

    def __setitem__(self, key: Any, value: Any) -> None:
        if self.base is not None:
            base, outer = self.base
            part = Copied(base.array[outer])
            part[key] = value
            base[outer] = part
            self.array = np.array(base.array[outer])
            return
        plain = value.array if isinstance(value, Copied) else value
        place = key.array if isinstance(key, Copied) else key
        changed = np.array(self.array)
        if isinstance(place, np.ndarray) and place.dtype != bool and isinstance(plain, np.ndarray):
            rows = np.broadcast_to(plain, changed[place].shape)
            for i, at in enumerate(place):
                changed[at] = rows[i]
        else:
            changed[place] = plain
        self.array = changed

    def assign(self, value: Copied) -> None:
        if self.base is not None:
            base, key = self.base
            base[key] = value
            self.array = np.array(base.array[key])
        else:
            self.array = np.array(np.broadcast_to(value.array, self.array.shape))

    def _with(self, function: Any, other: Any) -> Copied:
        return Copied(function(self.array, other.array if isinstance(other, Copied) else other))

    def __add__(self, other: Any) -> Copied:
        return self._with(np.add, other)

    def __sub__(self, other: Any) -> Copied:
        return self._with(np.subtract, other)

    def __rsub__(self, other: Any) -> Copied:
        return Copied(other - self.array)

    def __mul__(self, other: Any) -> Copied:
        return self._with(np.multiply, other)

    def __lt__(self, other: Any) -> Copied:
        return self._with(np.less, other)

    def __neg__(self) -> Copied:
        return Copied(-self.array)

    def __abs__(self) -> Copied:
        return Copied(abs(self.array))

    def __floordiv__(self, other: int) -> Copied:
        return Copied(self.array // other)

    def __mod__(self, other: int) -> Copied:
        return Copied(self.array % other)

    def __matmul__(self, other: Copied) -> Copied:
        return Copied(self.array @ other.array)

    def __iadd__(self, other: Any) -> Copied:
        self.assign(self + other)
        return self

    def __imul__(self, other: Any) -> Copied:
        self.assign(self * other)
        return self

    def maximum(self, other: Any) -> Copied:
        return self._with(np.maximum, other)

    def minimum(self, other: Any) -> Copied:
        return self._with(np.minimum, other)

    def where(self, then: Any, otherwise: Any) -> Copied:
        parts = (v.array if isinstance(v, Copied) else v for v in (then, otherwise))
        return Copied(np.where(self.array, *parts))

    def relu(self) -> Copied:
        return self.maximum(0)

    def round(self) -> Copied:
        return Copied(np.round(self.array))

    def sqrt(self) -> Copied:
        return Copied(np.sqrt(self.array))

    def astype(self, dtype: str) -> Copied:
        return Copied(self.array.astype(dtype))

    def bitcast(self, dtype: str) -> Copied:
        return Copied(self.array.copy(order="C").view(dtype))

    def to(self, device: str) -> Copied:
        return Copied(self.array)

    def shard(self, devices: tuple[str, ...], axis: int) -> Copied:
        return Copied(self.array)

    def contiguous(self) -> Copied:
        return Copied(self.array)

    @property
    def T(self) -> Copied:
        return Copied(self.array.T)

    def permute(self, *axes: int) -> Copied:
        return Copied(self.array.transpose(axes))

    def reshape(self, *shape: int) -> Copied:
        return Copied(self.array.reshape(shape))

    def expand(self, *shape: int) -> Copied:
        return Copied(np.broadcast_to(self.array, shape))

    def flip(self, axis: int) -> Copied:
        return Copied(np.flip(self.array, axis))

    def pad(self, before_after: list[tuple[int, int]]) -> Copied:
        return Copied(np.pad(self.array, before_after))

    def sum(self, axis: int, keepdims: bool = False) -> Copied:
        return Copied(self.array.sum(axis, keepdims=keepdims, dtype=self.array.dtype))

    def max(self, axis: int, keepdims: bool = False) -> Copied:
        return Copied(self.array.max(axis, keepdims=keepdims))

    def min(self, axis: int, keepdims: bool = False) -> Copied:
        return Copied(self.array.min(axis, keepdims=keepdims))


def index(*places: int) -> Array:
    """An integer-array index."""
    return np.array(places, np.int32)


def array_of(given: Input) -> Array:
    """What an input holds."""
    return np.random.default_rng(given.seed).integers(-6, 7, given.shape).astype(given.dtype)


def results(program: Program, symbol: int | None = None) -> Mapping[str, Array]:
    """The value of every name at the end; `symbol` replaces the program's own value of ``p``."""
    held = [Copied(array_of(i)) for i in program.inputs]
    names: dict[str, Any] = {"load": held.__getitem__, "index": index}
    if program.symbol is not None:
        names["p"] = program.symbol.value if symbol is None else symbol
    with np.errstate(all="ignore"):
        for line in program.lines:
            exec(line, names)
    return {name: names[name].array for name in program.names}
