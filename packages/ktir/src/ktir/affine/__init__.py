"""Affine expressions, maps and integer sets.

>>> from ktir.affine import affine_map, affine_set
>>> affine_map("(i, j) -> (i * 64 + j)").evaluate((2, 3))
(131,)
>>> triangle = affine_set("(i, j) : (i >= 0, i <= 2, j >= 0, j <= i)")
>>> triangle.count(), triangle.bounding_box(), triangle.is_rectangular()
(6, ((0, 2), (0, 2)), False)
"""

from ktir.affine.analysis import DEFAULT_LIMIT, Constraint
from ktir.affine.errors import AffineError, SetTooLargeError, UnboundedSetError
from ktir.affine.expr import (
    Add,
    AffineExpr,
    CeilDiv,
    Const,
    Dim,
    FloorDiv,
    Mod,
    Mul,
    Sym,
    as_expr,
    format_expr,
    interval,
    largest_known_divisor,
)
from ktir.affine.linear import Linear, linear, simplify
from ktir.affine.map import AffineMap
from ktir.affine.parse import (
    affine_map,
    affine_set,
    parse_expr,
    parse_map,
    parse_map_or_set,
    parse_set,
    parse_subscripts,
)
from ktir.affine.set import AffineSet

__all__ = [
    "DEFAULT_LIMIT",
    "Add",
    "AffineError",
    "AffineExpr",
    "AffineMap",
    "AffineSet",
    "CeilDiv",
    "Const",
    "Constraint",
    "Dim",
    "FloorDiv",
    "Linear",
    "Mod",
    "Mul",
    "SetTooLargeError",
    "Sym",
    "UnboundedSetError",
    "affine_map",
    "affine_set",
    "as_expr",
    "format_expr",
    "interval",
    "largest_known_divisor",
    "linear",
    "parse_expr",
    "parse_map",
    "parse_map_or_set",
    "parse_set",
    "parse_subscripts",
    "simplify",
]
