"""The exceptions of uopgraph. Every one derives from :class:`UOpError` and keeps its facts in fields."""

from __future__ import annotations

from typing import Any


class UOpError(Exception):
    """Base of everything that uopgraph raises on bad input."""


class UnsupportedError(UOpError, NotImplementedError):
    """Something that is out of scope or not built. ``what`` names it."""

    def __init__(self, what: str) -> None:
        super().__init__(f"unsupported: {what}")
        self.what = what


class DTypeError(UOpError, TypeError):
    """A dtype that does not fit: an impossible promotion, a wrong explicit dtype, a bad conversion."""


class ShapeError(UOpError, ValueError):
    """A movement operation or a shape that is not legal. ``op`` is the operation's name."""

    def __init__(self, op: str, message: str) -> None:
        super().__init__(f"{op}: {message}")
        self.op = op


class ArityError(UOpError, TypeError):
    """A wrong number of sources. ``op`` is the operation's name, ``given`` the number."""

    def __init__(self, op: str, given: int, least: int, most: int | None) -> None:
        want = f"{least}" if least == most else f"{least} or more" if most is None else f"{least} to {most}"
        super().__init__(f"{op} takes {want} sources, not {given}")
        self.op = op
        self.given = given


class BroadcastError(ShapeError, IndexError):
    """Shapes that do not broadcast together."""


class IndexingError(ShapeError, IndexError):
    """An index that a value does not have: beyond an axis, one too many, or of a type that is none."""


class DeviceError(UOpError, ValueError):
    """Devices or sharding axes that do not fit together."""


class BoundError(UOpError, ValueError):
    """A value outside its declared bounds, or a bound that is asked for and is not known."""


class PatternError(UOpError, ValueError):
    """A pattern or a rule that is not well formed. ``location`` is the file and line of the pattern."""

    def __init__(self, message: str, location: tuple[str, int] | None = None) -> None:
        where = "" if location is None else f"{location[0]}:{location[1]}: "
        super().__init__(where + message)
        self.location = location


class RewriteError(UOpError, RuntimeError):
    """A rewrite that does not end. ``rules`` are the locations of the last rules that fired."""

    def __init__(self, message: str, rules: tuple[str, ...] = ()) -> None:
        tail = f"; last rules: {', '.join(rules)}" if rules else ""
        super().__init__(message + tail)
        self.rules = rules


class SpecError(UOpError, ValueError):
    """A node that a specification forbids. ``index`` is its place in the checked list, ``node`` the node."""

    def __init__(self, message: str, index: int = -1, node: Any = None) -> None:
        super().__init__(message)
        self.index = index
        self.node = node


class EncodingError(UOpError, TypeError):
    """A value that has no canonical encoding (hash) or no text form."""
