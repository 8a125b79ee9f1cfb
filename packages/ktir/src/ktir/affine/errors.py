"""Errors of the affine library."""

from __future__ import annotations

from ktir.errors import KtirError


class AffineError(KtirError):
    """An affine expression, map or set cannot be evaluated or analysed as asked; the message says why."""


class UnboundedSetError(AffineError):
    """A set has infinitely many points along `dimension`, so it cannot be enumerated."""

    def __init__(self, set_text: str, dimension: int) -> None:
        super().__init__(f"unbounded set: no finite bounds for d{dimension} in {set_text}")
        self.set_text = set_text
        self.dimension = dimension


class SetTooLargeError(AffineError):
    """Enumerating a set would need more than `limit` points at once."""

    def __init__(self, set_text: str, limit: int) -> None:
        super().__init__(f"set has too many points to enumerate (more than {limit}): {set_text}")
        self.set_text = set_text
        self.limit = limit
