"""Where built operations go: a stack of blocks under construction, constants first."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import attrs

from ktir.attribute import Attribute
from ktir.attributes import DenseElementsAttr, FloatAttr, IntegerAttr, wrap_integer
from ktir.dialects import arith
from ktir.errors import KtirError
from ktir.ir import BlockArgument, Operation, Region, Value
from ktir.location import UNKNOWN, FileLineColLoc, Location
from ktir.types import FloatType, IndexType, IntegerType, TensorType, Type, bit_width

O = TypeVar("O", bound=Operation)

_HERE = str(Path(__file__).parent)


class BuilderError(KtirError):
    """A kernel is built wrongly: shapes or types that do not fit, a value used outside its block."""


@attrs.define
class Frame:
    """A block under construction. Constants of a block that owns them stand in front of everything else."""

    owns_constants: bool
    operations: list[Operation] = attrs.Factory(list)
    constants: dict[Attribute, Operation] = attrs.Factory(dict)
    cache: dict[Hashable, Value] = attrs.Factory(dict)

    def contents(self) -> tuple[Operation, ...]:
        return (*self.constants.values(), *self.operations)


class Emitter:
    """Appends operations to the innermost block, with the caller's place as location."""

    def __init__(self) -> None:
        self.frames: list[Frame] = [Frame(True)]

    def emit(self, op: O) -> O:
        """Append an operation; its results become usable."""
        located = op.replace(location=caller_location())
        self.frames[-1].operations.append(located)
        return located

    def value(self, op: Operation) -> Value:
        """Append an operation with one result and return that."""
        return self.emit(op).results[0]

    def constant(self, attribute: Attribute) -> Value:
        """The constant of an attribute, made once in the nearest block that owns constants."""
        for frame in reversed(self.frames):
            if attribute in frame.constants:
                return frame.constants[attribute].results[0]
            if frame.owns_constants:
                made = arith.Constant.of(attribute).replace(location=caller_location())
                frame.constants[attribute] = made
                return made.results[0]
        raise AssertionError("the function's block owns constants")

    def cached(self, key: Hashable) -> Value | None:
        """A value that a visible block keeps under `key`."""
        for frame in reversed(self.frames):
            if (found := frame.cache.get(key)) is not None:
                return found
        return None

    def remember(self, key: Hashable, value: Value) -> Value:
        """Keep a value of the innermost block under `key`."""
        self.frames[-1].cache[key] = value
        return value

    @contextmanager
    def block(self, owns_constants: bool = False) -> Iterator[Frame]:
        """Operations inside go to a new block."""
        frame = Frame(owns_constants)
        self.frames.append(frame)
        try:
            yield frame
        finally:
            self.frames.pop()

    def region(
        self, frame: Frame, terminator: Operation, arguments: tuple[BlockArgument, ...] = ()
    ) -> Region:
        """The region of one finished block."""
        return Region.of((*frame.contents(), terminator.replace(location=caller_location())), arguments)


def caller_location() -> Location:
    """The first place on the call stack outside of this package."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_HERE):
        if frame.f_back is None:
            return UNKNOWN
        frame = frame.f_back
    # contextlib stands between a with statement and the builder
    while frame.f_back is not None and frame.f_code.co_filename.endswith("contextlib.py"):
        frame = frame.f_back
    return FileLineColLoc(frame.f_code.co_filename, frame.f_lineno, 1)


def number(value: bool | int | float, type: Type) -> Attribute:
    """The attribute of a Python number in a scalar type; `BuilderError` if the type cannot hold it."""
    match type:
        case FloatType():
            return FloatAttr.of(float(value), type)
        case IndexType() | IntegerType() if isinstance(value, int):
            if wrap_integer(int(value), type) != int(value) and int(value) != _unsigned(int(value), type):
                raise BuilderError(f"{value} does not fit {type}")
            return IntegerAttr(wrap_integer(int(value), type), type)
        case _:
            raise BuilderError(f"{value!r} is no constant of type {type}")


def _unsigned(value: int, type: Type) -> int:
    return value & ((1 << bit_width(type)) - 1)


def static_shape(type: TensorType) -> tuple[int, ...]:
    """The extents of a type; `BuilderError` if one of them is dynamic."""
    if not type.is_static:
        raise BuilderError(f"a tensor of type {type} needs static extents here")
    return type.static_shape()


def splat(value: bool | int | float, type: TensorType) -> DenseElementsAttr:
    """``dense<value> : type``; `BuilderError` if an extent is dynamic."""
    static_shape(type)
    attribute = number(value, type.element)
    size = (bit_width(type.element) + 7) // 8
    match attribute:
        case FloatAttr(bits=bits):
            data = bits.to_bytes(size, "little")
        case IntegerAttr(value=held):
            data = (held & ((1 << (8 * size)) - 1)).to_bytes(size, "little")
        case _:
            raise AssertionError(attribute)
    return DenseElementsAttr(data, type, True)
