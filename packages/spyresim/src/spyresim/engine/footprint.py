"""Which bytes an access touches, apart from where it starts."""

from __future__ import annotations

from functools import cached_property

import attrs
import numpy as np
import numpy.typing as npt

__all__ = ["Footprint", "Run"]


@attrs.frozen
class Run:
    """Bytes that follow one another: `size` bytes at `offset`, found from `position` on in the data."""

    position: int
    offset: int
    size: int


@attrs.frozen(eq=False, slots=False)
class Footprint:
    """Elements of `step` bytes at byte offsets from a base; what is derived of it is computed once."""

    offsets: npt.NDArray[np.int64]
    step: int

    def __len__(self) -> int:
        return len(self.offsets)

    @cached_property
    def size(self) -> int:
        """Bytes in all."""
        return len(self.offsets) * self.step

    @cached_property
    def low(self) -> int:
        """The least offset."""
        return int(self.offsets.min()) if len(self.offsets) else 0

    @cached_property
    def high(self) -> int:
        """Behind the last byte."""
        return int(self.offsets.max()) + self.step if len(self.offsets) else 0

    @cached_property
    def is_contiguous(self) -> bool:
        """Whether the elements follow one another in order."""
        return len(self.offsets) > 0 and bool((np.diff(self.offsets) == self.step).all())

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """Maximal contiguous runs, in the order of the data."""
        breaks = np.flatnonzero(np.diff(self.offsets) != self.step) + 1
        starts, ends = [0, *breaks.tolist()], [*breaks.tolist(), len(self.offsets)]
        return tuple(
            Run(start * self.step, int(self.offsets[start]), (end - start) * self.step)
            for start, end in zip(starts, ends, strict=True)
            if end > start
        )

    @cached_property
    def bytes(self) -> npt.NDArray[np.int64]:
        """The offset of every byte, in the order of the data."""
        wide: npt.NDArray[np.int64] = (self.offsets[:, None] + np.arange(self.step)).reshape(-1)
        return wide
