"""Exceptions of spyresim: one hierarchy, with structured fields.

Sizes and addresses are bytes; a `Site` says which operation (or instruction) of which tile or unit did it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import NoneType
from typing import TypeVar

from attrs import field, frozen

from ktir.errors import Diagnostic
from ktir.ir import Operation
from ktir.location import Location

__all__ = [
    "ArgumentError",
    "ArithmeticFault",
    "BudgetFault",
    "CallError",
    "ConflictFault",
    "ControlFault",
    "DeadlockFault",
    "ExecutionFault",
    "HostMemoryFault",
    "LiveBytes",
    "MeaningError",
    "MemoryFault",
    "MisalignedFault",
    "OutOfRangeFault",
    "QueueFault",
    "ScratchpadFault",
    "Site",
    "SpyresimError",
    "StaleReadFault",
    "UnsupportedError",
    "UnwrittenReadFault",
    "one_of",
    "require",
    "require_arguments",
    "unsupported",
]


_Choice = TypeVar("_Choice", bound=Enum)


class SpyresimError(Exception):
    """Base of everything that spyresim raises on purpose."""


@frozen(str=False)
class CallError(SpyresimError, TypeError):
    """A function of spyresim is called with something else than it takes.

    `function` and `argument` name what was called, `expected` what it takes, `got` what it was given.
    """

    function: str
    argument: str
    expected: str
    got: str

    def __str__(self) -> str:
        return f"{self.function}: '{self.argument}' must be {self.expected}, not {self.got}"


def require(function: str, argument: str, value: object, *classes: type) -> None:
    """`CallError` unless a value is of one of the classes."""
    if not isinstance(value, classes):
        names = ["None" if c is NoneType else c.__name__ for c in classes]
        raise CallError(function, argument, " or ".join(names), type(value).__name__)


def require_arguments(function: str, args: Mapping[str, object] | None) -> None:
    """`CallError` unless the arguments of a kernel are a mapping from names, or left out."""
    require(function, "args", args, Mapping, NoneType)
    for name in args or ():
        if not isinstance(name, str):
            raise CallError(function, "args", "a mapping from names", f"one from a {type(name).__name__}")


def one_of(function: str, argument: str, value: object, kind: type[_Choice]) -> _Choice:
    """The member of an enumeration that a value is or spells; `CallError` if there is none."""
    for member in kind:
        if value is member or (isinstance(value, str) and value == member.value):
            return member
    choices = ", ".join(repr(member.value) for member in kind)
    raise CallError(function, argument, f"one of {choices}", repr(value)[:40])


@frozen
class Site:
    """Where in the program something happened; parts that are not known are None.

    `operation` is the name of an operation or instruction, `tile` a flat tile (core) number, `unit` the
    label of a hardware unit, `instance` counts dynamic instances of the operation.
    """

    operation: str | None = None
    location: Location | None = None
    tile: int | None = None
    unit: str | None = None
    instance: int | None = None

    def __str__(self) -> str:
        parts = [f"'{self.operation}'"] if self.operation is not None else []
        if self.tile is not None:
            parts.append(f"tile {self.tile}")
        if self.unit is not None:
            parts.append(f"unit {self.unit}")
        if self.instance is not None:
            parts.append(f"instance {self.instance}")
        return ", ".join(parts)


NOWHERE = Site()


@frozen(str=False)
class UnsupportedError(SpyresimError):
    """Valid input that this version does not execute; `what` names what is missing."""

    what: str
    site: Site = NOWHERE

    def __str__(self) -> str:
        return _located(f"unsupported: {self.what}", self.site)


@frozen(str=False)
class MeaningError(SpyresimError, ValueError):
    """The table of meanings is extended wrongly; `operation` is the name of the operation."""

    operation: str
    message: str

    def __str__(self) -> str:
        return f"{self.operation}: {self.message}"


@frozen(str=False)
class ArgumentError(SpyresimError):
    """The arguments of a run do not fit the function; `argument` is the name of the offending one."""

    message: str
    argument: str | None = None
    function: str | None = None

    def __str__(self) -> str:
        return self.message


@frozen(str=False)
class ExecutionFault(SpyresimError):
    """Something went wrong while a program ran, at `site`."""

    message: str
    site: Site = field(default=NOWHERE, kw_only=True)

    def __str__(self) -> str:
        return _located(self.message, self.site)


@frozen(str=False)
class ArithmeticFault(ExecutionFault):
    """An operation has no defined result for its operands, such as a division by zero."""

    operands: tuple[int, ...] = field(default=(), kw_only=True)


@frozen(str=False)
class ControlFault(ExecutionFault):
    """Control flow that has no meaning: a step that is not positive, a branch out of the program."""


@frozen(str=False)
class BudgetFault(ExecutionFault):
    """More work than the run was allowed to do; `limit` is the bound (operations or cycles)."""

    limit: int = field(default=0, kw_only=True)


@frozen(str=False)
class HostMemoryFault(ExecutionFault):
    """The machine that simulates has not enough memory for a tensor."""


@frozen(str=False)
class MemoryFault(ExecutionFault):
    """A bad access to `memory` (its label): `address` and `size` in bytes, `coordinate` in the view."""

    memory: str = field(default="", kw_only=True)
    address: int | None = field(default=None, kw_only=True)
    size: int = field(default=0, kw_only=True)
    coordinate: tuple[int, ...] | None = field(default=None, kw_only=True)


@frozen(str=False)
class OutOfRangeFault(MemoryFault):
    """An access outside the view, the allocation or the memory; `limit` is the first byte behind it."""

    limit: int | None = field(default=None, kw_only=True)


@frozen
class LiveBytes:
    """What takes bytes of a scratchpad: the type of a tensor or view, and the operation that made it."""

    size: int
    type: str
    operation: str | None = None
    location: Location | None = None

    def __str__(self) -> str:
        place = None if self.location is None else self.location.file_line_column()
        where = "" if place is None else f" at {place[0]}:{place[1]}:{place[2]}"
        return f"{self.size:>12}  {self.type}, made by '{self.operation}'{where}"


@frozen(str=False)
class ScratchpadFault(MemoryFault):
    """What is alive does not fit into a scratchpad of `capacity` bytes; `live` is all, largest first."""

    capacity: int = field(default=0, kw_only=True)
    live: tuple[LiveBytes, ...] = field(default=(), kw_only=True)

    @property
    def table(self) -> str:
        """One line for everything that is alive."""
        return "\n".join(["       bytes  what", *(str(entry) for entry in self.live)])

    def __str__(self) -> str:
        return f"{_located(self.message, self.site)}\n{self.table}"


@frozen(str=False)
class MisalignedFault(MemoryFault):
    """An address that is no multiple of what the access requires (`alignment` bytes)."""

    alignment: int = field(default=1, kw_only=True)


@frozen(str=False)
class UnwrittenReadFault(MemoryFault):
    """A read of bytes that nobody has written."""


@frozen(str=False)
class StaleReadFault(MemoryFault):
    """A read of a temporary that another program or launch (`owner`) has left behind."""

    owner: str = field(default="", kw_only=True)


@frozen(str=False)
class ConflictFault(MemoryFault):
    """Two tiles or units access the same bytes, at least one writing, without an order between them.

    `iterations` are the values of the loops around both accesses, outermost first, where they are known.
    """

    first: Site = field(default=NOWHERE, kw_only=True)
    second: Site = field(default=NOWHERE, kw_only=True)
    iterations: tuple[tuple[int, ...], tuple[int, ...]] = field(default=((), ()), kw_only=True)


@frozen(str=False)
class QueueFault(ExecutionFault):
    """A queue is used wrongly: wrong element type or size, read while empty, not drained at the end."""

    queue: str = field(default="", kw_only=True)


@frozen(str=False)
class DeadlockFault(ExecutionFault):
    """Nobody can go on; `waiting` says who waits for what, `circle` who waits for whom in a circle (or for a
    unit that has ended)."""

    waiting: tuple[str, ...] = field(default=(), kw_only=True)
    circle: tuple[str, ...] = field(default=(), kw_only=True)


def unsupported(op: Operation, what: str) -> UnsupportedError:
    """The error for an operation that is valid but not executed; `what` names what is missing."""
    return UnsupportedError(what, Site(op.name, op.location))


def _located(message: str, site: Site) -> str:
    where = str(site)
    text = f"{message} ({where})" if where else message
    return text if site.location is None else str(Diagnostic(text, site.location))
