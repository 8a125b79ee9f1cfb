"""Which elements an access touches, relative to a start: the same for all tiles of a batch."""

from __future__ import annotations

import math
from functools import cached_property, lru_cache

import attrs
import numpy as np
import numpy.typing as npt

__all__ = ["Nest", "Pattern", "Scattered", "nest"]

IntArray = npt.NDArray[np.int64]


@attrs.frozen
class Pattern:
    """Elements of one access; the data has shape `extents`.  Offsets count elements."""

    extents: tuple[int, ...]

    @cached_property
    def size(self) -> int:
        return math.prod(self.extents)

    @property
    def low(self) -> int:
        """The smallest offset (0 for an empty access)."""
        raise NotImplementedError

    @property
    def high(self) -> int:
        """The largest offset (-1 for an empty access)."""
        raise NotImplementedError

    def offsets(self) -> IntArray:
        """Offset of every element, in the shape of the data."""
        raise NotImplementedError

    def runs(self) -> tuple[IntArray, int]:
        """Offsets of contiguous runs that together are the access, and their common length in elements."""
        return self.offsets().reshape(-1), 1

    @cached_property
    def is_contiguous(self) -> bool:
        """Whether the elements stand one behind the other."""
        return len(self.runs()[0]) == 1

    @cached_property
    def _distinct(self) -> dict[tuple[int, int, int], int]:
        return {}

    def distinct(self, item: int, block: int, start: int) -> int:
        """How many blocks of bytes the elements of `item` bytes lie in, where offset 0 is at byte `start`."""
        key = (item, block, start % block)
        found = self._distinct.get(key)
        if found is None:
            found = self._distinct[key] = len(np.unique((self.touched(item, block) + start % block) // block))
        return found

    @cached_property
    def _touched(self) -> dict[tuple[int, int], IntArray]:
        return {}

    def touched(self, item: int, block: int) -> IntArray:
        """Byte offsets, at least one in every block of bytes that elements of `item` bytes lie in."""
        found = self._touched.get((item, block))
        if found is None:
            runs, length = self.runs()
            size = length * item
            steps = np.append(np.arange(0, size - 1, block), size - 1) if size > 1 else np.zeros(1, np.int64)
            found = self._touched[item, block] = (runs[:, None] * item + steps).reshape(-1)
        return found


@attrs.frozen(cache_hash=True)
class Nest(Pattern):
    """A regular loop nest: element ``i`` lies at ``start + sum(i[d] * strides[d])``."""

    strides: tuple[int, ...]
    start: int = 0

    @cached_property
    def low(self) -> int:
        if not self.size:
            return 0
        return self.start + sum(min(0, (n - 1) * s) for n, s in zip(self.extents, self.strides, strict=True))

    @cached_property
    def high(self) -> int:
        if not self.size:
            return -1
        return self.start + sum(max(0, (n - 1) * s) for n, s in zip(self.extents, self.strides, strict=True))

    def offsets(self) -> IntArray:
        result = np.full(self.extents, self.start, np.int64)
        for d, (extent, stride) in enumerate(zip(self.extents, self.strides, strict=True)):
            shape = [1] * len(self.extents)
            shape[d] = extent
            result += (np.arange(extent, dtype=np.int64) * stride).reshape(shape)
        return result

    @cached_property
    def _runs(self) -> tuple[IntArray, int]:
        length, outer = 1, len(self.extents)
        while outer and (self.strides[outer - 1] == length or self.extents[outer - 1] == 1):
            outer -= 1
            length *= self.extents[outer]
        return Nest(self.extents[:outer], self.strides[:outer], self.start).offsets().reshape(-1), length

    def runs(self) -> tuple[IntArray, int]:
        return self._runs


@lru_cache(maxsize=1 << 12)
def nest(extents: tuple[int, ...], strides: tuple[int, ...], start: int = 0) -> Nest:
    """The nest, the same object for the same numbers: what it knows of itself is found out once."""
    return Nest(extents, strides, start)


@attrs.frozen(eq=False)
class Scattered(Pattern):
    """Any list of elements; `where` has the shape of the data."""

    where: IntArray

    @cached_property
    def low(self) -> int:
        return int(self.where.min()) if self.size else 0

    @cached_property
    def high(self) -> int:
        return int(self.where.max()) if self.size else -1

    def offsets(self) -> IntArray:
        return self.where
