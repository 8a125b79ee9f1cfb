"""What the shape of a slab allows: padded last vectors, collapsed results, subscripts of several loops."""

from __future__ import annotations

import math
from collections.abc import Mapping

from dfsched.architecture import Architecture
from ktir.affine import AffineExpr, AffineMap, Const, Dim, Linear, simplify
from ktir.attributes import ArrayAttr, IntegerAttr
from ktir.dialects import arith, linalg, tensor
from ktir.types import I1, TensorType

__all__ = ["can_pad", "collapsed", "elements_in_a_row"]


def elements_in_a_row(subscript: Linear, tiles: Mapping[int, int]) -> int | None:
    """How many elements a linear subscript takes when its loops go over tiles; None if it leaves some out."""
    extent = 1
    for coefficient, tile in sorted(
        (subscript.coefficient(Dim(dim)), tile) for dim, tile in tiles.items() if tile > 1
    ):
        if coefficient != extent:
            return None
        extent *= tile
    return extent


def can_pad(op: linalg.Generic, lanes: int, architecture: Architecture) -> bool:
    """Whether the last vector of a reduction may have lanes that hold zeros and are left out afterwards.

    The units that feed the compute unit must fill up with zeros, it must select by masks of so many
    lanes, and the body must have no operation that zeros are not allowed in.
    """
    if architecture.lanes(I1) < lanes or any(isinstance(inner, _TRAPS) for inner in op.body.block.operations):
        return False
    unit = architecture.compute_unit
    assert unit is not None
    feeders = [
        other
        for other in architecture.units
        if other.features.load is not None and architecture.link(other, unit) is not None
    ]
    return bool(feeders) and all(f.features.simd is not None and f.features.simd.zero_pad for f in feeders)


_TRAPS = (
    arith.DivSI,
    arith.DivUI,
    arith.RemSI,
    arith.RemUI,
    arith.FloorDivSI,
    arith.CeilDivSI,
    arith.CeilDivUI,
)
"""Operations without a result for some operands."""


def collapsed(op: tensor.CollapseShape, map: AffineMap) -> AffineMap:
    """Where the elements of a map's loops go when dimensions of the result are collapsed."""
    type = op.operands[0].type
    assert isinstance(type, TensorType)
    shape = type.static_shape()
    exprs: list[AffineExpr] = []
    for group in op.reassociation:
        assert isinstance(group, ArrayAttr)
        dims = [entry.value for entry in group if isinstance(entry, IntegerAttr)]
        total: AffineExpr = Const(0)
        for position, dim in enumerate(dims):
            total = total + map.results[dim] * math.prod(shape[d] for d in dims[position + 1 :])
        exprs.append(simplify(total))
    return AffineMap(map.num_dims, 0, tuple(exprs))
