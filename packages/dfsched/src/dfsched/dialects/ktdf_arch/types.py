"""Types and attributes of `ktdf_arch`: endpoints and the attribute map (device spec 1.2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Self

import attrs

from ktir.attribute import Attribute
from ktir.types import Type

if TYPE_CHECKING:
    from ktir.parser import AttributeParser
    from ktir.printer import Printer

__all__ = ["EXEC_UNIT", "MEMORY", "PORT", "ExecUnitType", "MapAttr", "MemoryType", "PortType"]


@attrs.frozen
class MemoryType(Type):
    """``!ktdf_arch.memory``: the endpoint of a memory."""

    mnemonic = "ktdf_arch.memory"


@attrs.frozen
class ExecUnitType(Type):
    """``!ktdf_arch.exec_unit``: the endpoint of an execution unit."""

    mnemonic = "ktdf_arch.exec_unit"


@attrs.frozen
class PortType(Type):
    """``!ktdf_arch.port``: one port of a switch."""

    mnemonic = "ktdf_arch.port"


MEMORY = MemoryType()
EXEC_UNIT = ExecUnitType()
PORT = PortType()


def _entries(
    entries: Mapping[Attribute, Attribute] | Iterable[tuple[Attribute, Attribute]],
) -> tuple[tuple[Attribute, Attribute], ...]:
    return tuple(entries.items()) if isinstance(entries, Mapping) else tuple(entries)


@attrs.frozen
class MapAttr(Attribute, Mapping[Attribute, Attribute]):
    """``#ktdf_arch.map<key = value, ...>``: attributes to attributes, in the order written.

    A repeated key is a ValueError ("multiple entries for key"). Keys compare structurally.
    """

    mnemonic = "ktdf_arch.map"

    entries: tuple[tuple[Attribute, Attribute], ...] = attrs.field(default=(), converter=_entries)

    @entries.validator
    def _unique(self, _: object, entries: tuple[tuple[Attribute, Attribute], ...]) -> None:
        seen: set[Attribute] = set()
        for key, _value in entries:
            if key in seen:
                raise ValueError(f"multiple entries for key '{key}'")
            seen.add(key)

    def __getitem__(self, key: Attribute) -> Attribute:
        for name, value in self.entries:
            if name == key:
                return value
        raise KeyError(key)

    def __iter__(self) -> Iterator[Attribute]:
        return (key for key, _ in self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @classmethod
    def parse_parameters(cls, parser: AttributeParser) -> Self:
        entries: list[tuple[Attribute, Attribute]] = []
        parser.expect("<", "in attribute map")
        if parser.accept(">"):
            return cls(())
        while True:
            start = parser.offset
            key = parser.parse_attribute()
            if any(key == known for known, _ in entries):
                raise parser.error_at(start, f"multiple entries for key '{key}'")
            parser.expect("=", "behind the key of a map entry")
            entries.append((key, parser.parse_attribute()))
            if not parser.accept(","):
                break
        parser.expect(">", "or ',' in attribute map")
        return cls(tuple(entries))

    def print_parameters(self, printer: Printer) -> None:
        printer.write("<")
        for number, (key, value) in enumerate(self.entries):
            if number:
                printer.write(", ")
            printer.attribute(key)
            printer.write(" = ")
            printer.attribute(value)
        printer.write(">")
