"""Memory spaces of KTIR: what a view's data is visible to (ktir spec 1.2.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ktir.attribute import Attribute

if TYPE_CHECKING:
    from ktir.parser import AttributeParser
    from ktir.printer import Printer

__all__ = ["CT_LOCAL", "GLOBAL", "MemorySpace", "OldMemorySpace"]


@attrs.frozen
class MemorySpace(Attribute):
    """``#ktdp.memory_space<global>``, ``<ct_local>`` (of the executing tile) or ``<ct_local, ct_id = 3>``."""

    mnemonic = "ktdp.memory_space"

    space: str
    ct_id: int | None = None

    @classmethod
    def parse_parameters(cls, parser: AttributeParser) -> MemorySpace:
        parser.expect("<", "in memory space")
        if not parser.at("global", "ct_local"):
            raise parser.error("expected memory space to be one of: global, ct_local")
        space = parser.keyword()
        tile = None
        if parser.accept(","):
            start = parser.offset
            parser.expect("ct_id", "in memory space")
            parser.expect("=", "behind 'ct_id'")
            tile = parser.parse_integer()
            if space != "ct_local":
                raise parser.error_at(start, "ct_id is only valid for the ct_local memory space")
            if tile < 0:
                raise parser.error_at(start, f"ct_id must be non-negative, but got: {tile}")
        parser.expect(">", "in memory space")
        return cls(space, tile)

    def print_parameters(self, printer: Printer) -> None:
        printer.write(f"<{self.space}{'' if self.ct_id is None else f', ct_id = {self.ct_id}'}>")


GLOBAL = MemorySpace("global")
CT_LOCAL = MemorySpace("ct_local")


@attrs.frozen
class OldMemorySpace(Attribute):
    """The former spelling, kept only where the new one has no form (``L0`` and ``unspecified``)."""

    mnemonic = "ktdp.spyre_memory_space"

    space: str
    core: int | None = None

    @classmethod
    def parse_parameters(cls, parser: AttributeParser) -> OldMemorySpace:
        parser.expect("<", "in memory space")
        if not parser.at("HBM", "LX", "L0", "unspecified"):
            raise parser.error("expected memory space to be one of: HBM, LX, L0, unspecified")
        space = parser.keyword()
        core = None
        if parser.accept(","):
            start = parser.offset
            parser.expect("core", "in memory space")
            parser.expect("=", "behind 'core'")
            core = parser.parse_integer()
            if core < 0:
                raise parser.error_at(start, f"core affinity must be non-negative, but got: {core}")
            if space not in ("LX", "L0"):
                raise parser.error_at(
                    start,
                    "core affinity is only valid for LX or L0 memory spaces, "
                    f"but got memory space '{space}' with core = {core}",
                )
        parser.expect(">", "in memory space")
        if space == "HBM":
            return GLOBAL  # type: ignore[return-value]  # read as the new attribute, without loss
        if space == "LX":
            return MemorySpace("ct_local", core)  # type: ignore[return-value]
        return cls(space, core)

    def print_parameters(self, printer: Printer) -> None:
        printer.write(f"<{self.space}{'' if self.core is None else f', core = {self.core}'}>")
