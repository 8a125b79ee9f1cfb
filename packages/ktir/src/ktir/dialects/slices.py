"""What tensor and memref operations with offsets, sizes and strides share.

Dynamic positions are None here and -9223372036854775808 in the ``static_*`` attributes, as in MLIR.
"""

from __future__ import annotations

from collections.abc import Sequence

from ktir.attribute import Attribute
from ktir.attributes import DenseArrayAttr
from ktir.types import I64

DYNAMIC = -9223372036854775808


def static_array(values: Sequence[int | None]) -> DenseArrayAttr:
    """``array<i64: ...>`` with the marker where a value is dynamic."""
    return DenseArrayAttr(I64, tuple(DYNAMIC if value is None else value for value in values))


def static_values(attribute: Attribute | None) -> tuple[int | None, ...]:
    """The inverse of `static_array`."""
    if not isinstance(attribute, DenseArrayAttr):
        return ()
    return tuple(None if value == DYNAMIC else value for value in attribute.values)
