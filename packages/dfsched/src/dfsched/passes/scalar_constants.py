"""Constants of whole tensors that stand for one number, or for a mask of the first lanes."""

from __future__ import annotations

from ktir.attribute import Attribute
from ktir.attributes import DenseElementsAttr, FloatAttr, IntegerAttr, wrap_integer
from ktir.types import I1, FloatType, IntegerType, ShapedType

__all__ = ["leading_lanes", "scalar_of"]


def scalar_of(attribute: Attribute) -> FloatAttr | IntegerAttr | None:
    """The number that a constant repeats; None if it holds several."""
    if not isinstance(attribute, DenseElementsAttr) or not attribute.splat:
        return None
    type = attribute.type
    assert isinstance(type, ShapedType)
    bits = int.from_bytes(attribute.data, "little")
    match type.element:
        case FloatType() as element:
            return FloatAttr(bits, element)
        case IntegerType() as element:
            return IntegerAttr(wrap_integer(bits, element), element)
        case _:
            return None


def leading_lanes(mask: DenseElementsAttr) -> int | None:
    """How many elements from the first on are true, if all others are false; None for any other constant."""
    if not isinstance(mask.type, ShapedType) or mask.type.element != I1:
        return None
    active = mask.data.count(1)
    return active if mask.data == bytes([1] * active + [0] * (len(mask.data) - active)) else None
