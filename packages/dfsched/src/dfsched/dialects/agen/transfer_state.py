"""How transfers of a unit are executed: interleaved, and with lanes masked (dataflowir spec 1.3.7, 1.3.8)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Self

from dfsched.dialects.agen.access import implicit_yield
from dfsched.dialects.agen.composite import CompositeLoadAndStore
from dfsched.dialects.agen.composite_indirect import (
    CompositeIndirectLoad,
    CompositeIndirectLoadAndStore,
    CompositeIndirectStore,
)
from dfsched.dialects.agen.one_sided import CompositeLoad, CompositeStore
from ktir.attribute import Attribute
from ktir.attributes import DenseArrayAttr, IntegerAttr, StringAttr
from ktir.constraints import ANY
from ktir.errors import Diagnostic
from ktir.ir import Operation
from ktir.opdef import (
    WRITES,
    attribute,
    operand,
    operation,
    optional_attribute,
    region,
    result,
)
from ktir.types import I32

if TYPE_CHECKING:
    from ktir.parser import OpParser
    from ktir.printer import Printer
    from ktir.verifier import Verifier

__all__ = ["CompositeMemoryInterleave", "SetTransferMaskState"]

_COMPOSITE = (
    CompositeLoadAndStore,
    CompositeLoad,
    CompositeStore,
    CompositeIndirectLoadAndStore,
    CompositeIndirectLoad,
    CompositeIndirectStore,
)


@operation("agen.composite_memory_interleave", implicit_terminator=implicit_yield)
class CompositeMemoryInterleave(Operation):
    """Transfers in turns: `granularity` steps of each (absent: as many as the hardware allows)."""

    granularity = optional_attribute(IntegerAttr, type=I32)
    dbg_name = optional_attribute(StringAttr, name="dbgName")
    body = region()

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        attributes = parser.parse_attr_dict()
        body = parser.parse_region()
        return cls.create((), (), attributes, (body,), location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        if self.attributes:
            printer.attr_dict(self.attributes)
        else:
            printer.write(" {}")
        printer.write(" ")
        printer.region(self.body, print_terminator=bool(self.body.block.terminator.operands), owner=self.name)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        transfers = self.body.block.operations[:-1]
        others = [op.name for op in transfers if not isinstance(op, _COMPOSITE)]
        if others:
            yield f"may only hold composite memory operations, but '{others[0]}' is here"
            return
        if len({op.name for op in transfers}) > 1:
            yield "the transfers of an interleave should be of one kind"
        bursts = {op.time_set.set.count() for op in transfers if isinstance(op, _COMPOSITE)}
        if len(bursts) > 1:
            yield "the transfers of an interleave should have the same number of time steps"


_PATTERN = re.compile(
    r"\(\s*unmasked\s*=\s*(\d+)(?:\s*:\s*i32)?\s*,\s*masked\s*=\s*(\d+)(?:\s*:\s*i32)?\s*\)"
)
_SLICE_MAP = re.compile(r"(\((?:0|1|[A-Z](?:\|[A-Z])*)\))+")
EIGHT = 8
"""Slices of a map that stands for all lanes."""


@operation("agen.set_transfer_mask_state", traits=(WRITES,))
class SetTransferMaskState(Operation):
    """The mask of all following transfers of the unit: which lanes of which slices take `mask_value`.

    Mask number n (letter A, B, ...) keeps ``num_unmasked_elements[n]`` lanes, then replaces
    ``num_masked_elements[n]``, again and again.
    """

    mask_value = operand(ANY)
    masked = result(ANY)
    num_slices = attribute(IntegerAttr, type=I32)
    slice_mask_map = attribute(StringAttr)
    num_unmasked_elements = optional_attribute(DenseArrayAttr, type=I32)
    num_masked_elements = optional_attribute(DenseArrayAttr, type=I32)
    dbg_name = optional_attribute(StringAttr, name="dbgName")

    @property
    def is_unmask(self) -> bool:
        """Whether no lane is masked any more."""
        return self.slice_mask_map.value == "(0)" * EIGHT

    @property
    def is_full_mask(self) -> bool:
        """Whether all lanes are masked."""
        return self.slice_mask_map.value == "(1)" * EIGHT

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        parser.expect("mask_value", "in front of the value")
        parser.expect("(", "behind 'mask_value'")
        value = parser.parse_operand()
        parser.expect(")", "behind the value")
        attributes = dict(parser.parse_attr_dict())
        masks = {name: attributes.pop(name) for name in list(attributes) if name.startswith("mask")}
        for position, name in enumerate(sorted(masks)):
            if name != f"mask{chr(ord('A') + position)}":
                raise parser.error("mask attribute is not properly labeled")
        counts = [_counts(parser, masks[name]) for name in sorted(masks)]
        if counts:
            attributes["num_unmasked_elements"] = DenseArrayAttr(I32, tuple(a for a, _ in counts))
            attributes["num_masked_elements"] = DenseArrayAttr(I32, tuple(b for _, b in counts))
        parser.expect(":", "in front of the types")
        operand_type = parser.parse_type()
        parser.expect(",", "behind the value's type")
        return cls.create(
            [parser.resolve(value, operand_type)],
            [parser.parse_type()],
            attributes,
            location=parser.location,
            names=parser.result_names,
        )

    def print_custom(self, printer: Printer) -> None:
        printer.write(" mask_value(")
        printer.operand(self.mask_value)
        printer.write(f") {{ num_slices = {self.num_slices}, slice_mask_map = {self.slice_mask_map}")
        unmasked, masked = self.num_unmasked_elements or (), self.num_masked_elements or ()
        for position, (kept, replaced) in enumerate(zip(unmasked, masked, strict=False)):
            letter = chr(ord("A") + position)
            printer.write(f', mask{letter} = "(unmasked = {kept} : i32, masked = {replaced} : i32)"')
        if self.dbg_name is not None:
            printer.write(f", dbgName = {self.dbg_name}")
        printer.write(" } : ")
        printer.types([self.mask_value.type, self.masked.type])

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        unmasked, masked = self.num_unmasked_elements, self.num_masked_elements
        if unmasked is not None and masked is None:
            yield "cannot have unmasked values if there are no masked values"
        elif masked is not None and unmasked is None:
            yield "cannot have masked values if there are no unmasked values"
        elif unmasked is not None and masked is not None and len(unmasked) != len(masked):
            yield "number of unmasked values and number of masked values must match"
        if not _SLICE_MAP.fullmatch(self.slice_mask_map.value):
            yield "slice_mask_map should hold (0), (1) or letters of masks for every slice"


def _counts(parser: OpParser, mask: Attribute) -> tuple[int, int]:
    """``"(unmasked = 3 : i32, masked = 1 : i32)"``."""
    if not isinstance(mask, StringAttr) or not ("unmasked" in mask.value or "masked" in mask.value):
        raise parser.error("mask attribute does not describe the mask pattern")
    found = _PATTERN.fullmatch(mask.value.strip())
    if found is None:
        raise parser.error("cannot determine where unmasked/masked values are")
    return int(found[1]), int(found[2])
