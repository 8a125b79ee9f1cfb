"""The one internal form of a pattern: text is compiled into it, Python functions are wrapped in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from attrs import field, frozen

from dfsched.patterns.rewriter import Handle, Rewriter
from ktir.attribute import Attribute
from ktir.ir import Value
from ktir.location import UNKNOWN, Location
from ktir.types import Type

__all__ = ["CHECKPOINTS", "Argument", "Native", "Pattern", "RewriteFunction"]

CHECKPOINTS = ("pre_mapping", "pre_scheduling", "post_scheduling", "post_lowering")
"""The checkpoints that have a place in the pipeline (device spec 4.1)."""

Argument: TypeAlias = Handle | Value | Type | Attribute
"""What native functions take and give."""

Native: TypeAlias = Callable[..., object]
"""``fn(rewriter, *arguments)``.

A constraint returns None or False if it does not hold, True if it does, or the argument(s) that it binds. A
rewrite returns nothing or the argument(s) that it binds, and raises `Abandon` to give the match up.
"""

RewriteFunction: TypeAlias = Callable[[Handle, Rewriter], bool]


@frozen
class Pattern:
    """Match and rewrite in one: ``apply(op, rewriter)`` stages changes and returns True, or returns False.

    ``checkpoints`` empty means every checkpoint; ``root`` is the name of the operations to look at, None for
    all of them. Higher ``benefit`` is tried first, then the order in which patterns were given.
    """

    name: str
    root: str | None
    apply: RewriteFunction = field(eq=False, repr=False)
    benefit: int = 1
    checkpoints: tuple[str, ...] = ()
    location: Location = UNKNOWN

    def runs_at(self, checkpoints: frozenset[str]) -> bool:
        """Whether the pattern is selected when these checkpoints are enabled."""
        return not self.checkpoints or bool(checkpoints.intersection(self.checkpoints))
