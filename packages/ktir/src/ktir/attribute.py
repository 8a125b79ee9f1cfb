"""The root of attributes and types, and how a dialect's own ones read and print themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

import attrs

if TYPE_CHECKING:
    from ktir.parser import AttributeParser
    from ktir.printer import Printer


@attrs.frozen
class Attribute:
    """An immutable, hashable compile-time value.  Types are attributes too (see `ktir.types.Type`).

    A dialect's attribute or type is a frozen attrs subclass with `mnemonic = "dialect.name"`, and the two
    hooks below for what stands between the angle brackets.
    """

    mnemonic: ClassVar[str] = ""
    example: ClassVar[str] = ""
    """How one is spelled, for diagnostics; empty: by its mnemonic."""

    @classmethod
    def parse_parameters(cls, parser: AttributeParser) -> Self:
        """Read what follows ``#dialect.mnemonic`` (``<`` included, if there is one)."""
        return cls()

    def print_parameters(self, printer: Printer) -> None:
        """Write what follows ``#dialect.mnemonic`` (``<...>`` included)."""

    def __str__(self) -> str:
        from ktir.printer import attribute_text

        return attribute_text(self)
