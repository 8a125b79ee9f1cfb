"""Attributes that stand for numbers, as arrays."""

from __future__ import annotations

import numpy as np

from ktir.attribute import Attribute
from ktir.attributes import DenseElementsAttr, FloatAttr, IntegerAttr
from ktir.dlfloat import encode_literals
from ktir.machine import F16Format
from ktir.types import F16, ShapedType, Type
from spyresim.errors import UnsupportedError
from spyresim.meaning.formats import Array, held_dtype

__all__ = ["constant_array", "from_bits"]


def constant_array(value: Attribute, f16_format: F16Format = F16Format.IEEE) -> Array:
    """The array of an integer, float (shape ``()``) or dense elements attribute, in the held dtype.

    A literal ``f16`` is an IEEE number in the text; where ``f16`` means DLFloat16, its value is rounded
    (`ktir.dtypes.literal_bytes`).
    """
    match value:
        case IntegerAttr(value=number, type=type):
            return np.asarray(number, held_dtype(type))
        case FloatAttr(bits=bits, type=type):
            return _reformat(from_bits(bits, type), type, f16_format)
        case DenseElementsAttr(data=data, type=ShapedType() as shaped, splat=splat):
            held = held_dtype(shaped.element)
            stored = np.frombuffer(data, held.newbyteorder("<") if held.kind in "iuf" else held)
            shape = shaped.static_shape()
            array = np.broadcast_to(stored.reshape(()), shape) if splat else stored.reshape(shape)
            return _reformat(array.astype(held), shaped.element, f16_format)
        case _:
            raise UnsupportedError(f"constant {value}")


def from_bits(bits: int, type: Type, f16_format: F16Format = F16Format.IEEE) -> Array:
    """A scalar array (shape ``()``) with a bit pattern."""
    held = held_dtype(type, f16_format)
    if held == np.bool_:
        return np.asarray(bits & 1, np.bool_)
    masked = bits & ((1 << (8 * held.itemsize)) - 1)
    return np.frombuffer(masked.to_bytes(held.itemsize, "little"), held).reshape(()).copy()


def _reformat(array: Array, type: Type, f16_format: F16Format) -> Array:
    if type == F16 and f16_format is F16Format.DLFLOAT:
        return encode_literals(array)
    return array
