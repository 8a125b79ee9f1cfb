"""A finite ladder of sizes: requests are padded up to the next one, so that nothing is compiled for them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from spyrert import arguments
from spyrert.errors import ArgumentValueError, GraphError


class ShapeBucketer:
    """Sizes for which kernels are prepared.

    Args:
        sizes: positive sizes, in any order.
        strict: whether a size that no bucket holds is an error once the buckets are warm.

    >>> buckets = ShapeBucketer(ShapeBucketer.default_ladder(6))
    >>> buckets.sizes, buckets.bucket(3), buckets.bucket(129), buckets.bucket(513)
    ((1, 2, 4, 6, 512), 4, 512, None)
    """

    def __init__(self, sizes: Iterable[int], strict: bool = False) -> None:
        self.sizes = tuple(sorted({arguments.integer(size, "bucket size", least=1) for size in sizes}))
        if not self.sizes:
            raise ArgumentValueError("a ladder needs at least one size")
        self.strict = strict
        self.warm = False

    @staticmethod
    def default_ladder(max_seqs: int, prefill: int = 512) -> tuple[int, ...]:
        """Powers of two up to ``max_seqs``, that number itself, and one size for prefill."""
        arguments.integer(max_seqs, "max_seqs", least=1)
        arguments.integer(prefill, "prefill", least=1)
        powers = [1 << k for k in range(max_seqs.bit_length()) if 1 << k <= max_seqs]
        return tuple(sorted({*powers, max_seqs, prefill}))

    def warmup_order(self) -> tuple[int, ...]:
        """Largest first: what does not fit shows before anything else is done."""
        return self.sizes[::-1]

    def mark_warm(self) -> None:
        """All buckets are prepared; from now on a miss is an error if ``strict``."""
        self.warm = True

    def bucket(self, size: int) -> int | None:
        """The smallest bucket that holds ``size``; ``None`` (or ``GraphError``) if there is none."""
        at = bisect_left(self.sizes, arguments.integer(size, "size", least=0))
        if at < len(self.sizes):
            return self.sizes[at]
        if self.strict and self.warm:
            raise GraphError(f"size {size} exceeds the largest bucket, {self.sizes[-1]}", size=size)
        return None

    def clipped(self, limit: int) -> tuple[int, ...]:
        """The buckets clipped to ``limit``, e.g. rows of logits to the number of sequences."""
        return tuple(sorted({min(size, limit) for size in self.sizes}))
