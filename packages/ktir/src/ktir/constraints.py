"""What a declared operand, result or attribute may be; `description` completes MLIR's "must be ..."."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import attrs

from ktir.types import (
    FloatType,
    IndexType,
    IntegerType,
    MemRefType,
    ShapedType,
    Signedness,
    TensorType,
    Type,
    UnrankedMemRefType,
    UnrankedTensorType,
    VectorType,
)


@attrs.frozen
class Constraint:
    """A predicate over types with the words for its diagnostic.

    `buildable` is the only type accepted, if there is just one: then the text need not name it.
    `type_class` is the only class accepted: then the text may leave out the class' prefix.
    """

    description: str
    accepts: Callable[[Type], bool] = attrs.field(repr=False)
    buildable: Type | None = None
    type_class: type[Type] | None = None


@attrs.frozen
class Restriction:
    """Which values of an attribute are allowed beyond its class; `text` says it in MLIR's words."""

    text: str
    accepts: Callable[[Any], bool] = attrs.field(repr=False)


def cases(values: type[enum.IntEnum], width: int = 64) -> Restriction:
    """The integers of an enumeration."""
    numbers = sorted(int(value) for value in values)
    text = f"allowed {width}-bit signless integer cases: {', '.join(map(str, numbers))}"
    return Restriction(text, lambda attribute: attribute.value in numbers)


POWER_OF_TWO = Restriction(
    "64-bit signless integer attribute whose value is positive and whose value is a power of two > 0",
    lambda attribute: attribute.value > 0 and attribute.value.bit_count() == 1,
)


def instance_of(description: str, *classes: type[Type]) -> Constraint:
    """Accept instances of the given type classes."""
    only = classes[0] if len(classes) == 1 else None
    return Constraint(description, lambda type: isinstance(type, classes), None, only)


def exactly(expected: Type, description: str) -> Constraint:
    """Accept one type."""
    return Constraint(description, lambda type: type == expected, expected, type(expected))


def _like(scalar: Callable[[Type], bool]) -> Callable[[Type], bool]:
    def accepts(type: Type) -> bool:
        if isinstance(type, VectorType | TensorType | UnrankedTensorType):
            return scalar(type.element)
        return scalar(type)

    return accepts


def _signless(type: Type) -> bool:
    return isinstance(type, IntegerType) and type.signedness is Signedness.SIGNLESS


ANY = Constraint("any type", lambda type: True)
INDEX = exactly(IndexType(), "index")
I1 = exactly(IntegerType(1), "1-bit signless integer")
I1_LIKE = Constraint("bool-like", _like(lambda type: type == IntegerType(1)))
SIGNLESS_INTEGER = Constraint("signless integer", _signless)
INTEGER_OR_INDEX = Constraint(
    "signless integer or index", lambda type: _signless(type) or isinstance(type, IndexType)
)
INTEGER_LIKE = Constraint(
    "signless-integer-like", _like(lambda type: _signless(type) or isinstance(type, IndexType))
)
FLOAT = instance_of("floating-point", FloatType)
FLOAT_LIKE = Constraint("floating-point-like", _like(lambda type: isinstance(type, FloatType)))
RANKED_TENSOR = instance_of("ranked tensor of any type values", TensorType)
TENSOR = instance_of("tensor of any type values", TensorType, UnrankedTensorType)
MEMREF = instance_of("memref of any type values", MemRefType)
ANY_MEMREF = instance_of("ranked or unranked memref of any type values", MemRefType, UnrankedMemRefType)
SHAPED = instance_of("shaped of any type values", ShapedType)
