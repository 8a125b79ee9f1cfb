"""Constant tensors of different elements as computations: elements are chosen by where they stand.

Code holds constants of whole vectors, but which of them a vector of a tile needs is only known by its place.
So an element is computed from its index. Whole numbers in equal steps are a product and a sum; other elements
are one selection for every place, in the order of the tensor, from which on another value stands::

    %b = arith.constant dense<[[1.0, 1.0, 3.0], [1.0, 1.0, 3.0]]> : tensor<2x3xf16>

    %b = linalg.generic ... outs(%e : tensor<2x3xf16>) {
      %j = linalg.index 1
      %q = arith.cmpi sge, %j, 2
      %v = arith.select %q, 3.0, 1.0
      linalg.yield %v
    }
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from attrs import define, field

from dfsched.passes.build import Emitter
from dfsched.passes.generics import make_generic
from ktir.affine import AffineExpr, AffineMap, Const, Dim
from ktir.attribute import Attribute
from ktir.attributes import DenseElementsAttr, FloatAttr, IntegerAttr, wrap_integer
from ktir.dialects import arith, linalg, tensor
from ktir.ir import BlockArgument, Operation, Value
from ktir.types import I1, INDEX, FloatType, IntegerType, TensorType, Type

__all__ = ["MOST_CHANGES", "element_at", "is_table", "of_table", "refusal"]

WORD = 64
"""Bits of the widest element."""

MOST_CHANGES = 64
"""Places of one constant at which another value than before may start."""


def of_table(op: arith.Constant, dense: DenseElementsAttr) -> list[Operation] | None:
    """A generic without inputs that computes the constant; None if it has too many different parts."""
    type = dense.type
    assert isinstance(type, TensorType)
    place, numbers = _line(dense)
    changes = _changes(numbers)
    table = _Table(op, type.element)
    even = table.even(numbers) if len(changes) > 1 else None
    if even is None and len(changes) > MOST_CHANGES:
        return None
    indices = [
        table.emitter.add(linalg.Index.create((), (INDEX,), {"dim": IntegerAttr(d)}))
        if d in place.dims()
        else table.emitter.constant(0)
        for d in range(type.rank)
    ]
    if even is not None:
        value = table.computed(place, indices, *even)
    else:
        value = table.chosen(place, indices, numbers, changes)
    empty = tensor.Empty.create((), [type], location=op.location)
    generic = make_generic(
        (),
        empty.result,
        [AffineMap.identity(type.rank)],
        [BlockArgument(type.element, "out")],
        table.emitter.operations,
        value,
        op.location,
    )
    return [empty, generic.replace(results=op.results)]


def is_table(dense: DenseElementsAttr) -> bool:
    """Whether a constant is a tensor of numbers that code can choose from."""
    type = dense.type
    if not isinstance(type, TensorType) or not isinstance(type.element, FloatType | IntegerType):
        return False
    return type.element.width <= WORD and 0 not in type.shape


def element_at(dense: DenseElementsAttr, indices: Sequence[int]) -> Attribute:
    """One element of a constant as a scalar attribute; the indices are within its shape."""
    type = dense.type
    assert isinstance(type, TensorType)
    return _attribute(int(_numbers(dense)[tuple(indices)]), type.element)


def refusal(dense: DenseElementsAttr) -> str:
    """Why a constant is none that code computes."""
    if not is_table(dense):
        return f"a constant of type {dense.type} is not supported; compute with i32"
    changes = len(_changes(_line(dense)[1]))
    return (
        f"the elements of this constant tensor change at {changes} places, at most {MOST_CHANGES} are "
        "supported: pass it as an argument"
    )


def _numbers(dense: DenseElementsAttr) -> npt.NDArray[np.uint64]:
    """The bits of every element."""
    assert isinstance(dense.type, TensorType)
    raw = np.frombuffer(dense.data, np.uint8).reshape(*dense.type.static_shape(), -1)
    wide = np.zeros((*raw.shape[:-1], 8), np.uint8)
    wide[..., : raw.shape[-1]] = raw
    found: npt.NDArray[np.uint64] = wide.view("<u8")[..., 0]
    return found


def _line(dense: DenseElementsAttr) -> tuple[AffineExpr, list[int]]:
    """The bits of all elements that differ in some dimension, and which of them stands where."""
    numbers = _numbers(dense)
    kept = [d for d in range(numbers.ndim) if (numbers != np.take(numbers, [0], axis=d)).any()]
    place: AffineExpr = Const(0)
    for position, d in enumerate(kept):
        place = place + Dim(d) * math.prod(numbers.shape[later] for later in kept[position + 1 :])
    flat = numbers[tuple(slice(None) if d in kept else 0 for d in range(numbers.ndim))]
    return place, [int(number) for number in flat.reshape(-1)]


def _changes(numbers: Sequence[int]) -> list[int]:
    return [k for k in range(1, len(numbers)) if numbers[k] != numbers[k - 1]]


def _attribute(number: int, element: Type) -> Attribute:
    if isinstance(element, FloatType):
        return FloatAttr(number, element)
    return IntegerAttr(wrap_integer(number, element), element)


@define(eq=False)
class _Table:
    """The body under construction."""

    op: arith.Constant
    element: Type
    emitter: Emitter = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.emitter = Emitter(self.op.location)

    def computed(self, place: AffineExpr, indices: Sequence[Value], first: int, step: int) -> Value:
        """The element at a place among whole numbers in equal steps."""
        found = self.emitter.affine(place * step + first, indices)
        return self.emitter.add(arith.IndexCast.create([found], [self.element]))

    def chosen(
        self, place: AffineExpr, indices: Sequence[Value], numbers: Sequence[int], changes: Sequence[int]
    ) -> Value:
        """The element at a place among numbers that change at some places."""
        position = self.emitter.affine(place, indices)
        value = self._constant(numbers[0])
        for change in changes:
            behind = self.emitter.add(
                arith.CmpI.create(
                    [position, self.emitter.constant(change)],
                    [I1],
                    {"predicate": IntegerAttr(arith.CmpIPredicate.SGE)},
                    location=self.op.location,
                )
            )
            value = self._from(behind, numbers[change], value)
        return value

    def _from(self, behind: Value, number: int, before: Value) -> Value:
        """The number where `behind` holds, the value before elsewhere."""
        if self.element == I1:
            return self.emitter.add(arith.XOrI.create([before, behind], [I1], location=self.op.location))
        return self.emitter.add(
            arith.Select.create(
                [behind, self._constant(number), before], [self.element], location=self.op.location
            )
        )

    def even(self, numbers: Sequence[int]) -> tuple[int, int] | None:
        """First number and step of whole numbers in equal steps."""
        if not isinstance(self.element, IntegerType) or self.element == I1 or len(numbers) < 2:
            return None
        signed = [wrap_integer(number, self.element) for number in numbers]
        step = signed[1] - signed[0]
        even = all(number == signed[0] + k * step for k, number in enumerate(signed))
        return (signed[0], step) if even else None

    def _constant(self, number: int) -> Value:
        return self.emitter.add(arith.Constant.of(_attribute(number, self.element)))
