"""What a value of the schedule is while one program unit is built."""

from __future__ import annotations

from attrs import frozen

from ktir.ir import Operation, Value
from ktir.types import MemRefType, Type

__all__ = [
    "Address",
    "Buffer",
    "Known",
    "Meaning",
    "Nothing",
    "Pieces",
    "Rotating",
    "Runtime",
    "Shifted",
    "Vector",
    "View",
]


@frozen
class Known:
    """A number that is known for every unit of the program unit, in row order."""

    values: tuple[int, ...]

    @property
    def uniform(self) -> int | None:
        """The number, if all units agree."""
        return self.values[0] if len(set(self.values)) == 1 else None


@frozen
class Address:
    """A run input (symbol `input`) plus a number per unit.  As an address, or as a plain number."""

    input: int
    offsets: tuple[int, ...]


@frozen
class Runtime:
    """A value of the new program.

    `inputs` are the run inputs that it depends on, `local` whether it exists only while the program runs.
    """

    value: Value
    inputs: frozenset[int] = frozenset()
    local: bool = True


@frozen
class Shifted:
    """A loop variable that every unit counts from 0; `offsets` is where each one really starts.

    Only in subscripts: the start of the view takes the offset.
    """

    value: Value
    offsets: tuple[int, ...]


@frozen
class Vector:
    """A vector of the new program, standing for a tensor."""

    value: Value


@frozen
class View:
    """Device or scratchpad memory as an array: the chain behind `ktdp.construct_memory_view`.

    `base` is the view's offset operand, `offset` what casts add (elements).
    """

    op: Operation
    base: Known | Address | Runtime
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    element: Type
    space: object | None = None
    offset: Known | Runtime | None = None


@frozen
class Buffer:
    """A buffer at a byte address of a scratchpad or register memory."""

    op: Operation
    start: Known
    type: MemRefType


@frozen
class Rotating:
    """The copy of a rotating buffer that the current iteration uses, as a view of the new program.

    `buffer` is one of its copies, `start` the byte address of the current one.
    """

    view: Value
    buffer: Buffer
    start: Value

    @property
    def type(self) -> MemRefType:
        return self.buffer.type


@frozen
class Pieces:
    """The contents of a queue slot that takes more than a vector, not taken yet."""

    slot: Value


@frozen
class Nothing:
    """A value that has no counterpart in DataflowIR: tokens, queue slots, empty tensors."""


Meaning = Known | Address | Runtime | Shifted | Vector | View | Buffer | Rotating | Pieces | Nothing
