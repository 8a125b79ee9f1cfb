"""The table: what an operation does to arrays, keyed by operation class (and by name).

An entry works on whole arrays of any shape, element by element.  It is the same for every level: the
interpreters look up operation classes, the device looks up the function name of an opaque instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import attrs
import numpy as np

from ktir.attribute import Attribute
from ktir.attributes import EMPTY_DICT
from ktir.ir import Operation
from ktir.machine import F16Format
from ktir.types import FloatType, TensorType, Type, element_or_self
from spyresim.errors import NOWHERE, MeaningError, Site, SpyresimError, UnsupportedError
from spyresim.meaning.formats import Array, FloatFormat, float_format, held_dtype

__all__ = [
    "Application",
    "Call",
    "Meaning",
    "evaluate",
    "evaluate_named",
    "has_meaning",
    "instruction",
    "meaning",
    "meanings",
    "named_meaning",
]


@attrs.frozen(eq=False)
class Call:
    """One application: operand arrays with their scalar types, and the scalar types of the results.

    Shapes of the operands are equal, or broadcast as NumPy does.
    """

    name: str
    operands: tuple[Array, ...]
    operand_types: tuple[Type, ...]
    result_types: tuple[Type, ...]
    attributes: Mapping[str, Attribute] = EMPTY_DICT
    f16_format: F16Format = F16Format.IEEE
    site: Site = NOWHERE

    @property
    def floats(self) -> FloatFormat:
        """The format of the first operand, or of the result if there is no operand."""
        return float_format((*self.operand_types, *self.result_types)[0], self.f16_format)

    @property
    def result_floats(self) -> FloatFormat:
        return float_format(self.result_types[0], self.f16_format)

    @property
    def result_dtype(self) -> np.dtype[np.generic]:
        return held_dtype(self.result_types[0], self.f16_format)


Result: TypeAlias = Array | tuple[Array, ...]
Meaning: TypeAlias = Callable[[Call], Result]

_BY_NAME: dict[str, Meaning] = {}
_BY_CLASS: dict[type[Operation], Meaning] = {}


def meaning(*classes: type[Operation], replace: bool = False) -> Callable[[Meaning], Meaning]:
    """Decorator: the function is the meaning of these operation classes.

    Raises `MeaningError` if one of them has a meaning (with `replace`: if it has none) or is no operation.
    """
    if not classes:
        raise MeaningError("meaning", "names no operation class")
    for op_class in classes:
        if not (isinstance(op_class, type) and hasattr(op_class, "definition")):
            raise MeaningError(
                getattr(op_class, "__name__", repr(op_class)), "is no declared operation class"
            )

    def register(function: Meaning) -> Meaning:
        _check([op_class.definition.name for op_class in classes], function, replace)
        for op_class in classes:
            _BY_CLASS[op_class] = function
            _BY_NAME[op_class.definition.name] = function
        return function

    return register


def instruction(name: str, replace: bool = False) -> Callable[[Meaning], Meaning]:
    """Decorator: the function is the meaning of a device instruction that no scalar operation has.

    Raises `MeaningError` if there is one of that name (with `replace`: if there is none).
    """

    def register(function: Meaning) -> Meaning:
        _check([name], function, replace)
        _BY_NAME[name] = function
        return function

    return register


def _check(names: Sequence[str], function: Meaning, replace: bool) -> None:
    """`MeaningError` before anything changes; the same function twice is no mistake."""
    if not callable(function):
        raise MeaningError(names[0], f"means {function!r}, which is no function of a Call")
    for name in names:
        known = _BY_NAME.get(name)
        if known is not None and known is not function and not replace:
            raise MeaningError(name, "has a meaning; replace=True replaces it")
        if known is None and replace:
            raise MeaningError(name, "has no meaning that could be replaced")


def has_meaning(key: str | type[Operation]) -> bool:
    """Whether an operation class or an operation name is in the table."""
    return (key in _BY_NAME) if isinstance(key, str) else (key in _BY_CLASS)


def meanings() -> tuple[str, ...]:
    """All operation names in the table, sorted."""
    return tuple(sorted(_BY_NAME))


def named_meaning(name: str) -> Meaning:
    """The entry of an operation name; `UnsupportedError` if there is none."""
    found = _BY_NAME.get(name)
    if found is None:
        raise UnsupportedError(f"operation '{name}' has no element-wise meaning")
    return found


@attrs.frozen(eq=False)
class Application:
    """An element-wise operation, made ready to be applied to arrays again and again.

    `tensors` are the positions of the operands that are tensors, of one shape then.
    """

    _meaning: Meaning
    _call: Call
    _dtypes: tuple[np.dtype[np.generic], ...]
    tensors: tuple[int, ...]

    @classmethod
    def of(cls, op: Operation, f16_format: F16Format = F16Format.IEEE) -> Application:
        """`UnsupportedError` if the class of the operation is not in the table."""
        found = _BY_CLASS.get(type(op))
        site = Site(op.name, op.location)
        if found is None:
            raise UnsupportedError(f"operation '{op.name}' has no element-wise meaning", site)
        results = tuple(element_or_self(value.type) for value in op.results)
        operands = tuple(element_or_self(value.type) for value in op.operands)
        call = Call(op.name, (), operands, results, op.attributes, f16_format, site)
        tensors = tuple(n for n, value in enumerate(op.operands) if isinstance(value.type, TensorType))
        return cls(found, call, tuple(held_dtype(type, f16_format) for type in results), tensors)

    def apply(self, operands: Sequence[Array], tile: int | None = None) -> tuple[Array, ...]:
        """Results for arrays in held dtypes, of equal or broadcasting shapes; `tile` is named in faults."""
        call = self._call
        site = call.site if tile is None else attrs.evolve(call.site, tile=tile)
        return _apply(
            self._meaning,
            Call(
                call.name,
                tuple(operands),
                call.operand_types,
                call.result_types,
                call.attributes,
                call.f16_format,
                site,
            ),
            self._dtypes,
        )


def evaluate(
    op: Operation,
    operands: Sequence[Array],
    f16_format: F16Format = F16Format.IEEE,
    tile: int | None = None,
) -> tuple[Array, ...]:
    """Results of an element-wise operation for arrays of its operands.

    Args:
        operands: arrays in held dtypes (`held_dtype`), of equal or broadcasting shapes.
        tile: named in faults.

    Raises:
        UnsupportedError: the class is not in the table.
        ArithmeticFault: no defined result (integer division by zero or overflow).
    """
    return Application.of(op, f16_format).apply(operands, tile)


def evaluate_named(
    name: str,
    operands: Sequence[Array],
    operand_types: Sequence[Type],
    result_types: Sequence[Type],
    attributes: Mapping[str, Attribute] = EMPTY_DICT,
    f16_format: F16Format = F16Format.IEEE,
    site: Site | None = None,
) -> tuple[Array, ...]:
    """`evaluate` for an operation given by name; types may be shaped, their element types count."""
    call = Call(
        name,
        tuple(operands),
        tuple(element_or_self(type) for type in operand_types),
        tuple(element_or_self(type) for type in result_types),
        attributes,
        f16_format,
        Site(name) if site is None else site,
    )
    dtypes = tuple(held_dtype(type, f16_format) for type in call.result_types)
    return _apply(named_meaning(name), call, dtypes)


def _apply(function: Meaning, call: Call, dtypes: tuple[np.dtype[np.generic], ...]) -> tuple[Array, ...]:
    with np.errstate(all="ignore"):
        result = function(call)
    results = result if isinstance(result, tuple) else (result,)
    if len(results) != len(call.result_types):
        raise SpyresimError(f"'{call.name}' gives {len(results)} results, not {len(call.result_types)}")
    for array, expected, type in zip(results, dtypes, call.result_types, strict=True):
        if not isinstance(array, np.ndarray | np.generic):
            raise SpyresimError(f"'{call.name}' gives {array!r} for {type}, not an array of {expected}")
        if array.dtype != expected:
            raise SpyresimError(f"'{call.name}' gives {array.dtype} for {type}, not {expected}")
    return results


def is_float(type: Type) -> bool:
    """Whether a scalar type is a float type."""
    return isinstance(type, FloatType)
