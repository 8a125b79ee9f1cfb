"""Patterns and native functions registered from Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from attrs import Factory, define, field

from dfsched.patterns.native import CONSTRAINTS, REWRITES
from dfsched.patterns.pattern import Native, Pattern
from dfsched.patterns.rewriter import Handle, Rewriter

if TYPE_CHECKING:
    from dfsched.architecture import Architecture

__all__ = ["REGISTRY", "PatternFunction", "PatternRegistry"]

PatternFunction: TypeAlias = "Callable[[Handle, Rewriter, Architecture], bool]"
"""``fn(op, rewriter, device)`` stages changes and returns True, or returns False (nothing is changed)."""

F = TypeVar("F", bound=Callable[..., object])


@define
class PatternRegistry:
    """Patterns by device name (None: for every device), and the native functions that text may call.

    A registry is filled when programs are set up and not changed while they compile.
    """

    constraints: dict[str, Native] = field(factory=lambda: dict(CONSTRAINTS))
    rewrites: dict[str, Native] = field(factory=lambda: dict(REWRITES))
    _patterns: list[tuple[str | None, Pattern]] = Factory(list)

    def pattern(
        self,
        *,
        root: str | None,
        checkpoint: str | tuple[str, ...] = (),
        benefit: int = 1,
        device: str | None = None,
        name: str | None = None,
    ) -> Callable[[PatternFunction], PatternFunction]:
        """Register a pattern: ``@registry.pattern(checkpoint="pre_scheduling", root="math.exp")``.

        No checkpoint means every checkpoint; ``root`` None means all operations.
        """
        checkpoints = (checkpoint,) if isinstance(checkpoint, str) else checkpoint

        def decorate(function: PatternFunction) -> PatternFunction:
            def apply(op: Handle, rewriter: Rewriter) -> bool:
                return function(op, rewriter, rewriter.device)

            title = str(name or getattr(function, "__name__", "pattern"))
            self._patterns.append((device, Pattern(title, root, apply, benefit, checkpoints)))
            return function

        return decorate

    def constraint(self, name: str) -> Callable[[F], F]:
        """Register a native constraint function under a dotted name."""
        return self._native(self.constraints, name)

    def rewrite(self, name: str) -> Callable[[F], F]:
        """Register a native rewrite function under a dotted name."""
        return self._native(self.rewrites, name)

    def _native(self, table: dict[str, Native], name: str) -> Callable[[F], F]:
        if name in table:
            raise ValueError(f"native function '{name}' is registered already")

        def decorate(function: F) -> F:
            table[name] = function
            return function

        return decorate

    def patterns_for(self, device: str) -> tuple[Pattern, ...]:
        """Registered patterns of a device, in order of registration."""
        return tuple(pattern for name, pattern in self._patterns if name in (None, device))


REGISTRY = PatternRegistry()
"""The registry used where none is given."""
