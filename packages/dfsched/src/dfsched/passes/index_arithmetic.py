"""Index values as affine expressions of the values that they are computed from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from dfsched.passes.ir_tools import Definitions, post_order
from dfsched.passes.subscripts import Subscripts
from ktir.affine import AffineExpr, AffineMap, Const, Dim
from ktir.analysis import DefUse
from ktir.attributes import IntegerAttr
from ktir.dialects import affine, arith, ktdp
from ktir.dialects.builtin import UnrealizedConversionCast
from ktir.ir import Operation, Value
from ktir.types import IndexType

AFFINE = (
    affine.Apply,
    arith.AddI,
    arith.CeilDivSI,
    arith.CeilDivUI,
    arith.DivSI,
    arith.DivUI,
    arith.FloorDivSI,
    arith.MulI,
    arith.RemSI,
    arith.RemUI,
    arith.SubI,
)

__all__ = [
    "Leaves",
    "buffer_address",
    "constant_value",
    "depends_on",
    "expand",
    "expand_subscripts",
    "leaves_of",
]


def constant_value(value: Value, definitions: DefUse) -> int | None:
    """The number behind an index or integer constant, None for anything else."""
    match definitions.definer(value):
        case arith.Constant(value=IntegerAttr(value=number)):
            return number
        case _:
            return None


def buffer_address(op: Operation | None, definitions: DefUse) -> int | None:
    """The constant address of the buffer that a cast makes, None for anything else."""
    if not isinstance(op, UnrealizedConversionCast) or len(op.operands) != 1:
        return None
    return constant_value(op.operands[0], definitions)


def expand(value: Value, definitions: DefUse) -> tuple[AffineExpr, tuple[Value, ...]]:
    """The value as an affine expression over leaves: what is not affine index arithmetic.

    Divisions and remainders are taken as floor divisions: exact for operands that are not negative, which
    index arithmetic on tile ids and sizes guarantees. Use the result for questions, not to rebuild values.
    """
    leaves: dict[Value, int] = {}
    known: dict[Value, AffineExpr] = {}

    def operands(current: Value) -> tuple[Value, ...]:
        op = definitions.definer(current)
        return op.operands if isinstance(op, AFFINE) and isinstance(current.type, IndexType) else ()

    for current in post_order(value, operands):
        expr = _expanded(current, definitions, known)
        known[current] = Dim(leaves.setdefault(current, len(leaves))) if expr is None else expr
    used = [leaf for leaf, position in leaves.items() if position in known[value].dims()]
    renumbered: list[AffineExpr] = [Dim(used.index(leaf)) if leaf in used else Dim(0) for leaf in leaves]
    return known[value].replace(renumbered, ()), tuple(used)


def _expanded(value: Value, definitions: DefUse, known: Mapping[Value, AffineExpr]) -> AffineExpr | None:
    """The expression of one value over those of its operands; None for a leaf."""
    if not isinstance(value.type, IndexType):
        return None
    op = definitions.definer(value)
    match op:
        case arith.Constant(value=IntegerAttr(value=number)):
            return Const(number)
        case affine.Apply():
            map: AffineMap = op.map.map
            values = [known[operand] for operand in op.operands]
            return map.results[0].replace(values[: map.num_dims], values[map.num_dims :])
        case None:
            return None
        case _ if not isinstance(op, AFFINE):
            return None
    left, right = known[op.operands[0]], known[op.operands[1]]
    match op:
        case arith.AddI():
            return left + right
        case arith.SubI():
            return left - right
        case arith.MulI() if isinstance(left, Const) or isinstance(right, Const):
            return left * right
        case arith.DivUI() | arith.DivSI() | arith.FloorDivSI() if _is_positive(right):
            return left // right
        case arith.CeilDivUI() | arith.CeilDivSI() if _is_positive(right):
            return left.ceildiv(right)
        case arith.RemUI() | arith.RemSI() if _is_positive(right):
            return left % right
        case _:
            return None


def _is_positive(expr: AffineExpr) -> bool:
    return isinstance(expr, Const) and expr.value > 0


def expand_subscripts(subscripts: Subscripts, definitions: DefUse) -> Subscripts:
    """Subscripts over leaves (for questions, see `expand`)."""
    return subscripts.replaced(lambda value: expand(value, definitions)).canonical()


@frozen
class Leaves:
    """What an index value depends on in the end."""

    tile_ids: tuple[Value, ...]
    arguments: tuple[Value, ...]
    loop_variables: tuple[Value, ...]
    others: tuple[Value, ...]

    @property
    def per_tile(self) -> bool:
        """Whether the value is the same throughout a tile's run, whatever is passed at launch."""
        return not (self.arguments or self.loop_variables or self.others)


def leaves_of(values: Sequence[Value], definitions: Definitions) -> Leaves:
    """Sources of values, through all operations (affine or not)."""
    tile_ids: dict[Value, None] = {}
    arguments: dict[Value, None] = {}
    loops: dict[Value, None] = {}
    others: dict[Value, None] = {}
    seen: set[Value] = set()
    stack = list(values)[::-1]
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        op = definitions.definer(value)
        match op:
            case ktdp.GetComputeTileId():
                tile_ids.setdefault(value)
            case Operation() if op.regions or (not op.operands and not isinstance(op, arith.Constant)):
                others.setdefault(value)
            case Operation():
                stack += reversed(op.operands)
            case None:
                owner = definitions.region_owner(value)
                is_argument = owner is None or owner.name == "func.func"
                (arguments if is_argument else loops).setdefault(value)
    return Leaves(tuple(tile_ids), tuple(arguments), tuple(loops), tuple(others))


def depends_on(values: Sequence[Value], sources: set[Value], definitions: Definitions) -> bool:
    """Whether any of the values is computed from any of the sources."""
    seen: set[Value] = set()
    stack = list(values)
    while stack:
        value = stack.pop()
        if value in sources:
            return True
        if value in seen:
            continue
        seen.add(value)
        op = definitions.definer(value)
        if op is not None:
            stack += op.operands
    return False
