"""What the reordering of reductions may change, and what not (readings, item 16)."""

from __future__ import annotations

import math

import attrs
import numpy as np

from dfsched.passes.generics import loop_extents
from dfsched.passes.vector_lanes import REASSOCIATED
from ktir.dialects import linalg
from ktir.dialects.builtin import Module
from ktir.types import BF16, DF16, F16, F32, FloatType, ShapedType, Type, element_or_self
from spyresim.meaning.formats import Array

__all__ = ["Reassociation", "longest_product"]


@attrs.frozen
class Reassociation:
    """How far results may be from the meaning because reductions were reordered (readings, item 16).

    `combinations`: elements of the longest reduction; `epsilon`: distance of 1 and the next number in the
    coarsest of their types; `exact_on_integers`: all that is computed is exact on small whole numbers.
    """

    combinations: int
    epsilon: float
    exact_on_integers: bool

    @classmethod
    def of(cls, module: Module) -> Reassociation | None:
        """What the marked reductions of a module allow; None if there are none."""
        marked = [
            op for op in module.walk() if isinstance(op, linalg.Generic) and REASSOCIATED in op.attributes
        ]
        if not marked:
            return None
        count = 1
        for op in marked:
            extents = loop_extents(op)
            count = max(count, math.prod(n for d, n in extents.items() if op.iterators[d] != "parallel"))
        bodies = [op for op in module.walk() if isinstance(op, linalg.Generic)]
        exact = all(inner.name in _EXACT_ON_INTEGERS for op in bodies for inner in op.body.block.operations)
        return cls(count, max(_epsilon(op.results[0].type) for op in marked), exact)

    def exceeded(self, wanted: Array, got: Array) -> Array:
        """Where two results are further apart than n * epsilon of the largest and its rounding explain."""
        a, b = wanted.astype(np.float64), got.astype(np.float64)
        finite = np.abs(a[np.isfinite(a)])
        scale = max(1.0, float(finite.max()) if finite.size else 1.0)
        with np.errstate(all="ignore"):
            allowed = self.combinations * self.epsilon + 2 * _OWN.get(wanted.dtype.name, 2.0**-7)
            return np.asarray(~(np.abs(a - b) <= allowed * scale))


def longest_product(module: Module) -> int:
    """Elements of the longest reduction of floats by multiplication; 1 if there is none.

    Partial products of so many numbers differ with the order, and one of them may overflow where the whole
    product does not: no rounding explains that, so random factors are drawn near 1.
    """
    longest = 1
    for op in module.walk():
        if isinstance(op, linalg.Generic | linalg.Reduce) and _multiplies(op):
            extents = (n for n, kind in zip(_extents(op), op.iterators, strict=True) if kind != "parallel")
            longest = max(longest, math.prod(extents))
    return longest


def _multiplies(op: linalg.Generic | linalg.Reduce) -> bool:
    """Whether what is carried from element to element is a factor."""
    block = op.regions[0].block
    carried = block.arguments[len(block.arguments) - len(op.output_values) :]
    factors = [value for inner in block.operations if inner.name == "arith.mulf" for value in inner.operands]
    return any(value is argument for value in factors for argument in carried)


def _extents(op: linalg.Generic | linalg.Reduce) -> list[int]:
    """Trip counts of the loops as far as they are known, else 1."""
    if isinstance(op, linalg.Generic):
        known = loop_extents(op)
        return [known.get(d, 1) for d in range(len(op.iterators))]
    (shape, *_) = (value.type.shape for value in op.input_values if isinstance(value.type, ShapedType))
    return [extent if isinstance(extent, int) else 1 for extent in shape]


_EXACT_ON_INTEGERS = frozenset(
    {
        *(f"arith.{name}" for name in ("addf", "subf", "mulf", "negf", "maximumf", "minimumf", "maxnumf")),
        *(
            f"arith.{name}"
            for name in ("minnumf", "extf", "cmpf", "select", "constant", "cmpi", "index_cast")
        ),
        *("linalg.yield", "linalg.index"),
    }
)


_OWN = {"float16": 2.0**-10, "float32": 2.0**-23, "float64": 2.0**-52}


def _epsilon(type: Type) -> float:
    element = element_or_self(type)
    bits = {F16: 10, BF16: 7, DF16: 9, F32: 23}
    return float(2.0 ** -bits.get(element, 7)) if isinstance(element, FloatType) else 0.0
