"""Left folds with one well-known operation, without a Python step for every element.

Exactly the values of the fold in lexicographic order: prefix sums and products round after every step, and
the other operations give the same in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ktir.dialects import arith
from ktir.ir import Operation
from ktir.machine import F16Format
from ktir.types import FloatType, Type
from spyresim.meaning.floats import maximum, maximum_number, minimum, minimum_number
from spyresim.meaning.formats import Array, float_format

__all__ = ["fold"]

_PREFIXES: dict[type[Operation], np.ufunc] = {arith.AddF: np.add, arith.MulF: np.multiply}
_CHOICES: dict[type[Operation], Callable[[Array, Array], Array]] = {
    arith.MaximumF: maximum,
    arith.MinimumF: minimum,
    arith.MaxNumF: maximum_number,
    arith.MinNumF: minimum_number,
    arith.MaxSI: np.maximum,
    arith.MinSI: np.minimum,
    arith.AddI: np.add,
    arith.MulI: np.multiply,
    arith.AndI: np.bitwise_and,
    arith.OrI: np.bitwise_or,
    arith.XOrI: np.bitwise_xor,
}


def fold(
    op: type[Operation],
    element: Type,
    start: Array,
    values: Array,
    axes: Sequence[int],
    f16_format: F16Format,
) -> Array | None:
    """``start op values[0] op values[1] ...`` over `axes`; None where there is no short way.

    Args:
        start: extents of 1 along `axes`; the result has its rank.
        values: the whole domain.
    """
    if values.dtype == np.bool_:
        return None
    rest = [axis for axis in range(values.ndim) if axis not in axes]
    line = values.transpose(*rest, *axes).reshape(*(values.shape[axis] for axis in rest), -1)
    first = start.transpose(*rest, *axes).reshape(*(start.shape[axis] for axis in rest), 1)
    first = np.broadcast_to(first, (*line.shape[:-1], 1))
    both = np.concatenate([first, line], axis=-1)
    with np.errstate(all="ignore"):
        result = _along_last(op, element, both, f16_format)
    if result is None:
        return None
    shape = [1 if axis in axes else values.shape[axis] for axis in range(values.ndim)]
    return result.reshape(shape)


def _along_last(op: type[Operation], element: Type, both: Array, f16_format: F16Format) -> Array | None:
    prefix, choice = _PREFIXES.get(op), _CHOICES.get(op)
    if prefix is not None and both.dtype in (np.float16, np.float32, np.float64):
        return np.asarray(prefix.accumulate(both, axis=-1)[..., -1])
    if choice is None:
        return None
    if not isinstance(element, FloatType):
        return _halved(choice, both)
    number = float_format(element, f16_format)
    return number.narrow(_halved(choice, number.widen(both)))


def _halved(choice: Callable[[Array, Array], Array], line: Array) -> Array:
    """Combine along the last axis, halves at a time."""
    while line.shape[-1] > 1:
        half = line.shape[-1] // 2
        combined = np.asarray(choice(line[..., :half], line[..., half : 2 * half]))
        line = np.concatenate([combined, line[..., 2 * half :]], axis=-1) if line.shape[-1] % 2 else combined
    return line[..., 0]
