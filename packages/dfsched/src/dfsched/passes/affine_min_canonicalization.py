"""`affine-min-canonicalization`: the rest of a stock tile in a form with computable bounds (scheduler
spec 3.18).

Takes and leaves any module. ``min(iv + step, upper) - iv``, written as an `affine.apply` of two symbols
over `arith.minsi` and `arith.addi`, becomes one `affine.min`. Our own tiling never makes the old form;
other producers of ScheduleIR do.

Before::

    %a = arith.addi %v, %c5 : index
    %m = arith.minsi %a, %c17 : index
    %r = affine.apply affine_map<()[s0, s1] -> (-s0 + s1)>()[%v, %m]

After::

    %r = affine.min affine_map<(d0)[s0, s1] -> (-d0 + s0, s1)>(%v)[%c17, %c5]

>>> from dfsched.passes.examples import example
>>> example("affine-min-canonicalization", '''
... %c17 = arith.constant 17 : index
... %c5 = arith.constant 5 : index
... %a = arith.addi %v, %c5 : index
... %m = arith.minsi %a, %c17 : index
... %r = affine.apply affine_map<()[s0, s1] -> (-s0 + s1)>()[%v, %m]
... "use"(%r) : (index) -> ()
... ''', arguments="%v: index")
#map = affine_map<(d0)[s0, s1] -> (-d0 + s0, s1)>
%c17 = arith.constant 17 : index
%c5 = arith.constant 5 : index
%0 = affine.min #map(%v)[%c17, %c5]
"use"(%0) : (index) -> ()
"""

from __future__ import annotations

from collections.abc import Sequence

from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.ir_tools import Definitions, rewrite_blocks
from ktir.affine import AffineMap, Dim, Sym, linear
from ktir.attributes import AffineMapAttr
from ktir.dialects import affine, arith
from ktir.dialects.builtin import Module
from ktir.ir import Operation, Value
from ktir.transforms import dce

__all__ = ["PASS", "run"]

REST = AffineMap(1, 2, (Sym(0) - Dim(0), Sym(1)))


def run(module: Module, context: PassContext) -> Module:
    """Rewrite every remainder of that form."""
    definitions = Definitions(module)
    found: dict[Operation, affine.Min] = {}
    for op in module.walk():
        if isinstance(op, affine.Apply) and (rest := _rest(op, definitions)) is not None:
            found[op] = rest
    if not found:
        return module

    def rewrite(operations: Sequence[Operation]) -> list[Operation]:
        return [found.get(op, op) for op in operations]

    new = dce(rewrite_blocks(module, rewrite))
    assert isinstance(new, Module)
    return new


PASS = Pass("affine-min-canonicalization", Group.SCHEDULER, run, "remainders of stock tiles as affine.min")


def _rest(op: affine.Apply, definitions: Definitions) -> affine.Min | None:
    map = op.map.map
    if map.num_dims or map.num_symbols != 2:
        return None
    flat = linear(map.results[0])
    if flat is None or flat.constant:
        return None
    signs = [flat.coefficient(Sym(position)) for position in range(2)]
    if signs not in ([-1, 1], [1, -1]):
        return None
    variable, least = op.arguments[signs.index(-1)], op.arguments[signs.index(1)]
    bound = definitions.definer(least)
    if not isinstance(bound, arith.MinSI):
        return None
    left, right = bound.operands
    for total, other in ((left, right), (right, left)):
        step = _added_to(variable, total, definitions)
        if step is not None:
            made = affine.Min.apply(AffineMapAttr(REST), (variable, other, step))
            return made.replace(results=op.results, location=op.location)
    return None


def _added_to(variable: Value, total: Value, definitions: Definitions) -> Value | None:
    """The other summand where a value is the sum of the variable and something."""
    sum = definitions.definer(total)
    if not isinstance(sum, arith.AddI):
        return None
    left, right = sum.operands
    if left is variable:
        return right
    return left if right is variable else None
