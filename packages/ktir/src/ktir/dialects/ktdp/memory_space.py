"""Attributes of the ``ktdp`` dialect: memory spaces in both spellings (KTIR spec 1.2.1)."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Self

import attrs

from ktir.attribute import Attribute
from ktir.errors import KtirError

if TYPE_CHECKING:
    from ktir.parser import AttributeParser
    from ktir.printer import Printer


class Space(enum.StrEnum):
    """Which memory a view lies in, by visibility."""

    GLOBAL = "global"
    CT_LOCAL = "ct_local"


class SpyreSpace(enum.StrEnum):
    """Memories of the old spelling that have no new form."""

    UNSPECIFIED = "unspecified"
    L0 = "L0"


@attrs.frozen
class MemorySpaceAttr(Attribute):
    """Base of the two spellings of a memory space."""

    example = "#ktdp.memory_space<global> or #ktdp.memory_space<ct_local>"


@attrs.frozen
class MemorySpace(MemorySpaceAttr):
    """``#ktdp.memory_space<global>``, ``<ct_local>`` (the executing tile's) or ``<ct_local, ct_id = 3>``.

    `ct_id` is the flat number of the compute tile whose scratchpad is meant.
    """

    mnemonic = "ktdp.memory_space"

    space: Space
    ct_id: int | None = None

    def __attrs_post_init__(self) -> None:
        if self.ct_id is not None and self.space is not Space.CT_LOCAL:
            raise KtirError("ct_id is only valid for the ct_local memory space")
        if self.ct_id is not None and self.ct_id < 0:
            raise KtirError(f"ct_id must be non-negative, but got: {self.ct_id}")

    @property
    def is_global(self) -> bool:
        return self.space is Space.GLOBAL

    @classmethod
    def parse_parameters(cls, parser: AttributeParser) -> Self:
        start = parser.offset
        parser.expect("<", "behind the memory space")
        if not parser.at(*Space):
            parser.cursor.expected("ktdp memory space to be one of: global, ct_local")
        space = Space(parser.keyword())
        ct_id = None
        if parser.accept(","):
            parser.expect("ct_id", "in memory space")
            parser.expect("=", "behind 'ct_id'")
            ct_id = parser.parse_integer()
        parser.expect(">", "in memory space")
        try:
            return cls(space, ct_id)
        except KtirError as error:
            raise parser.error_at(start, str(error)) from None

    def print_parameters(self, printer: Printer) -> None:
        tail = "" if self.ct_id is None else f", ct_id = {self.ct_id}"
        printer.write(f"<{self.space}{tail}>")


@attrs.frozen
class SpyreMemorySpace(MemorySpaceAttr):
    """``#ktdp.spyre_memory_space<L0, core = 1>``: the old spelling, kept only where there is no new one.

    Reading ``HBM`` or ``LX`` gives a `MemorySpace`.
    """

    mnemonic = "ktdp.spyre_memory_space"

    space: SpyreSpace
    core: int | None = None

    @classmethod
    def parse_parameters(cls, parser: AttributeParser) -> Self:
        start = parser.offset
        parser.expect("<", "behind the memory space")
        if not parser.at("unspecified", "LX", "HBM", "L0"):
            parser.cursor.expected("ktdp memory space to be one of: unspecified, LX, HBM, L0")
        name = parser.keyword()
        core = None
        if parser.accept(","):
            parser.expect("core", "in memory space")
            parser.expect("=", "behind 'core'")
            core = parser.parse_integer()
        parser.expect(">", "in memory space")
        if core is not None and core < 0:
            raise parser.error_at(start, f"core affinity must be non-negative, but got: {core}")
        if core is not None and name not in ("LX", "L0"):
            raise parser.error_at(
                start,
                "core affinity is only valid for LX or L0 memory spaces, but got memory space "
                f"'{name}' with core = {core}",
            )
        match name:
            case "HBM":
                return MemorySpace(Space.GLOBAL)  # type: ignore[return-value]  # read old, keep new
            case "LX":
                return MemorySpace(Space.CT_LOCAL, core)  # type: ignore[return-value]  # read old, keep new
            case _:
                return cls(SpyreSpace(name), core)

    def print_parameters(self, printer: Printer) -> None:
        tail = "" if self.core is None else f", core = {self.core}"
        printer.write(f"<{self.space}{tail}>")


GLOBAL = MemorySpace(Space.GLOBAL)
CT_LOCAL = MemorySpace(Space.CT_LOCAL)
