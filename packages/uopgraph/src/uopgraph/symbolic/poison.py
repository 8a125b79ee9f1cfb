"""Poison: what an operation makes of Invalid. These rules run before all others."""

from __future__ import annotations

from typing import Final

from uopgraph.dtype import Invalid
from uopgraph.node import UOp
from uopgraph.ops import GroupOp, Ops
from uopgraph.pattern import PatternMatcher, UPat

_invalid: Final = UPat.const(Invalid)
_gate: Final = UPat(Ops.WHERE, src=(UPat.var("c"), UPat.var("x"), UPat.const(Invalid)))
_UNARY: Final = GroupOp.Unary | GroupOp.Cast


def _poisoned(root: UOp) -> UOp:
    return UOp.invalid()


def _lift_unary(root: UOp, c: UOp, x: UOp) -> UOp:
    return root.rebuild((x,)).valid(c)


def _lift_left(root: UOp, c: UOp, x: UOp, y: UOp) -> UOp | None:
    return None if y.is_invalid else root.rebuild((x, y)).valid(c)


def _lift_right(root: UOp, c: UOp, x: UOp, y: UOp) -> UOp | None:
    return None if y.is_invalid else root.rebuild((y, x)).valid(c)


def _lift_condition(root: UOp, c: UOp, x: UOp, a: UOp, b: UOp) -> UOp:
    return x.where(a, b).valid(c)


def _swap(root: UOp, c: UOp, v: UOp) -> UOp:
    return UOp.invalid() if v.is_invalid else v.valid(c.logical_not())


def _gate_in_then(root: UOp, a: UOp, c: UOp, x: UOp, y: UOp) -> UOp | None:
    """``a ? (c ? x : Inv) : y`` is valid where y is taken or x is."""
    if c.is_invalid:
        return None
    if y.is_invalid:
        return x.valid(a & c)
    return a.where(x, y).valid(a.logical_not() | c)


def _gate_in_else(root: UOp, a: UOp, b: UOp, c: UOp, x: UOp) -> UOp | None:
    return None if b.is_invalid or c.is_invalid else a.where(b, x).valid(a | c)


poison: Final = PatternMatcher(
    [
        # P1
        (
            UPat(Ops.STACK, name="root", src=UPat(Ops.CONST)),
            lambda root: (
                UOp.invalid().expand(root.shape) if root.src and all(s.is_invalid for s in root.src) else None
            ),
        ),
        # P2, P3
        (UPat(_UNARY, name="root", src=(_invalid,)), _poisoned),
        (UPat(_UNARY, name="root", src=(_gate,)), _lift_unary),
        # P5: arithmetic on Invalid, before P4 so that Invalid * gate is Invalid
        (UPat(GroupOp.Binary - GroupOp.Comparison, name="root", src=(_invalid, UPat())), _poisoned),
        (UPat(GroupOp.Binary - GroupOp.Comparison, name="root", src=(UPat(), _invalid)), _poisoned),
        # P4
        (UPat(GroupOp.Binary, name="root", src=(_gate, UPat.var("y"))), _lift_left),
        (UPat(GroupOp.Binary, name="root", src=(UPat.var("y"), _gate)), _lift_right),
        # P6
        (UPat(Ops.WHERE, name="root", src=(_invalid, UPat(), UPat())), _poisoned),
        (UPat(Ops.WHERE, name="root", src=(_gate, UPat.var("a"), UPat.var("b"))), _lift_condition),
        # P7
        (UPat(Ops.WHERE, name="root", src=(UPat.var("c"), _invalid, UPat.var("v"))), _swap),
        # P8, P9
        (UPat(Ops.WHERE, name="root", src=(UPat.var("a"), _gate, UPat.var("y"))), _gate_in_then),
        (UPat(Ops.WHERE, name="root", src=(UPat.var("a"), UPat.var("b"), _gate)), _gate_in_else),
    ]
)
