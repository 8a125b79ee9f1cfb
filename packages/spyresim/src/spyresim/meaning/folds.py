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
from spyresim.meaning.formats import Array, FloatFormat, float_format, stretch

__all__ = ["fold", "fold_by_name"]

_PREFIXES: dict[type[Operation], np.ufunc] = {arith.AddF: np.add, arith.MulF: np.multiply}
_CHOICES: dict[type[Operation], tuple[np.ufunc, Callable[[Array, Array], Array]]] = {
    arith.MaximumF: (np.maximum, maximum),
    arith.MinimumF: (np.minimum, minimum),
    arith.MaxNumF: (np.fmax, maximum_number),
    arith.MinNumF: (np.fmin, minimum_number),
}
_INTEGERS: dict[type[Operation], np.ufunc] = {
    arith.MaxSI: np.maximum,
    arith.MinSI: np.minimum,
    arith.AddI: np.add,
    arith.MulI: np.multiply,
    arith.AndI: np.bitwise_and,
    arith.OrI: np.bitwise_or,
    arith.XOrI: np.bitwise_xor,
}
_UNSIGNED: dict[type[Operation], np.ufunc] = {arith.MaxUI: np.maximum, arith.MinUI: np.minimum}


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
    if values.dtype == np.bool_ and op not in (arith.AndI, arith.OrI, arith.XOrI):
        return None
    rest = [axis for axis in range(values.ndim) if axis not in axes]
    line = values.transpose(*rest, *axes).reshape(*(values.shape[axis] for axis in rest), -1)
    first = start.transpose(*rest, *axes).reshape(*(start.shape[axis] for axis in rest), 1)
    first = stretch(first, (*line.shape[:-1], 1))
    with np.errstate(all="ignore"):
        result = _along_last(op, element, first, line, f16_format)
    if result is None:
        return None
    shape = [1 if axis in axes else values.shape[axis] for axis in range(values.ndim)]
    return result.reshape(shape)


def fold_by_name(name: str, element: Type, start: Array, lanes: Array, f16_format: F16Format) -> Array | None:
    """``start op lanes[..., 0] op lanes[..., 1] ...`` for an operation given by name; None if not known."""
    known = {op.definition.name: op for op in (*_PREFIXES, *_CHOICES, *_INTEGERS, *_UNSIGNED)}
    op = known.get(name)
    return None if op is None else fold(op, element, start, lanes, [lanes.ndim - 1], f16_format)


def _along_last(
    op: type[Operation], element: Type, first: Array, line: Array, f16_format: F16Format
) -> Array | None:
    prefix, choice, whole = _PREFIXES.get(op), _CHOICES.get(op), _INTEGERS.get(op)
    if prefix is not None and line.dtype in (np.float16, np.float32, np.float64):
        both = np.concatenate([first, line], axis=-1)
        return np.asarray(prefix.accumulate(both, axis=-1)[..., -1])
    if prefix is not None and isinstance(element, FloatType):
        return _stepwise(prefix, float_format(element, f16_format), first[..., 0], line)
    if choice is not None:
        number = float_format(element, f16_format)
        found = _extreme(*choice, number.widen(line))
        return number.narrow(choice[1](number.widen(first[..., 0]), found))
    if op in _UNSIGNED:
        word = np.dtype(f"u{line.dtype.itemsize}")
        both = np.concatenate([first, line], axis=-1).view(word)
        return np.asarray(_UNSIGNED[op].reduce(both, axis=-1)).view(line.dtype)
    if whole is not None and not isinstance(element, FloatType):
        return np.asarray(whole(first[..., 0], whole.reduce(line, axis=-1, dtype=line.dtype)))
    return None


def _extreme(quick: np.ufunc, exact: Callable[[Array, Array], Array], line: Array) -> Array:
    """The largest or smallest number of each line; the sign of a zero is found by combining halves."""
    found = np.asarray(quick.reduce(line, axis=-1))
    unsure = found == 0
    if unsure.any():
        found = found.copy()
        found[unsure] = _halved(exact, line[unsure])
    return found


def _stepwise(combine: np.ufunc, number: FloatFormat, total: Array, line: Array) -> Array:
    """One combination after another, each rounded once."""
    for position in range(line.shape[-1]):
        wide = combine(number.widen(total), number.widen(line[..., position]))
        total = number.narrow(np.asarray(wide))
    return total


def _halved(choice: Callable[[Array, Array], Array], line: Array) -> Array:
    """Combine along the last axis, halves at a time."""
    while line.shape[-1] > 1:
        half = line.shape[-1] // 2
        combined = np.asarray(choice(line[..., :half], line[..., half : 2 * half]))
        line = np.concatenate([combined, line[..., 2 * half :]], axis=-1) if line.shape[-1] % 2 else combined
    return line[..., 0]
