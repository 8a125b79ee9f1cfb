"""Symbol expressions: what a host computes at launch, over addresses, sizes, strides and scalars (runtime
spec 1.7.2)."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import attrs

from spyrert.errors import SymbolBindingError
from spyrert.spyrecode._json import Json, Node
from spyrert.spyrecode.correction import EntryKind

MAX_EXPR_DEPTH: Final = 32
INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1


class Expr:
    """Base of symbol expressions. ``+``, ``-``, ``*``, ``//`` and ``%`` build bigger ones.

    >>> expr_to_json((Addr(0) + 49152) // 64)
    ['floordiv', ['add', ['addr', 0], 49152], 64]
    """

    __slots__ = ()

    def __add__(self, other: Expr | int) -> Expr:
        return Binary(BinaryOp.ADD, self, as_expr(other))

    def __radd__(self, other: int) -> Expr:
        return Binary(BinaryOp.ADD, as_expr(other), self)

    def __sub__(self, other: Expr | int) -> Expr:
        return Binary(BinaryOp.SUB, self, as_expr(other))

    def __rsub__(self, other: int) -> Expr:
        return Binary(BinaryOp.SUB, as_expr(other), self)

    def __mul__(self, other: Expr | int) -> Expr:
        return Binary(BinaryOp.MUL, self, as_expr(other))

    def __rmul__(self, other: int) -> Expr:
        return Binary(BinaryOp.MUL, as_expr(other), self)

    def __floordiv__(self, other: Expr | int) -> Expr:
        return Binary(BinaryOp.FLOORDIV, self, as_expr(other))

    def __mod__(self, other: Expr | int) -> Expr:
        return Binary(BinaryOp.MOD, self, as_expr(other))


def as_expr(value: Expr | int) -> Expr:
    return Const(value) if isinstance(value, int) else value


@attrs.frozen
class Const(Expr):
    value: int


@attrs.frozen
class Addr(Expr):
    """Start address (DMVA, bytes) of launch argument ``arg``; of its ``chunk``, if given.

    ``arg`` counts launch arguments, i.e. pointers only, and never the pool.
    """

    arg: int
    chunk: int | None = None


@attrs.frozen
class Dim(Expr):
    """Logical size of axis ``axis`` of argument ``arg``."""

    arg: int
    axis: int


@attrs.frozen
class Stride(Expr):
    """Stride in bytes of device axis ``axis`` of argument ``arg``."""

    arg: int
    axis: int


@attrs.frozen
class Sym(Expr):
    """A named scalar argument or symbolic dimension, bound at launch."""

    name: str


@attrs.frozen
class Pool(Expr):
    """Address of the pool argument."""


@attrs.frozen
class Dyn(Expr):
    """Start of segment 6, the block that lives for one launch."""


@attrs.frozen
class Tile(Expr):
    """Current index of the tiled dimension ``dim`` (0 in a launch that is not tiled)."""

    dim: str


class BinaryOp(enum.Enum):
    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    FLOORDIV = "floordiv"
    CEILDIV = "ceildiv"
    MOD = "mod"
    MIN = "min"
    MAX = "max"


@attrs.frozen
class Binary(Expr):
    """``op`` applied to two expressions; divisors must be positive when evaluated."""

    op: BinaryOp
    lhs: Expr
    rhs: Expr


def expr_to_json(expr: Expr) -> Json:
    """The JSON prefix form (runtime spec 1.7.2)."""
    match expr:
        case Const(value):
            return value
        case Addr(arg, None):
            return ["addr", arg]
        case Addr(arg, chunk):
            return ["addr", arg, chunk]
        case Dim(arg, axis):
            return ["dim", arg, axis]
        case Stride(arg, axis):
            return ["stride", arg, axis]
        case Sym(name):
            return ["sym", name]
        case Pool():
            return ["pool"]
        case Dyn():
            return ["dyn"]
        case Tile(dim):
            return ["tile", dim]
        case Binary(op, lhs, rhs):
            return [op.value, expr_to_json(lhs), expr_to_json(rhs)]
    raise TypeError(f"not an expression: {expr!r}")


def expr_from_json(node: Node, depth: int = 1) -> Expr:
    """Read the JSON prefix form; a bad one raises ``SpyreCodeSchemaError`` at its place."""
    if depth > MAX_EXPR_DEPTH:
        node.fail(f"expression is nested deeper than {MAX_EXPR_DEPTH}")
    if not isinstance(node.value, list):
        return Const(node.integer(INT64_MIN, INT64_MAX))
    items = list(node.elements())
    if not items:
        node.fail("empty expression")
    op = items[0].string()

    def expect(*counts: int) -> None:
        if len(items) - 1 not in counts:
            node.fail(f"'{op}' takes {' or '.join(map(str, counts))} operands, got {len(items) - 1}")

    match op:
        case "addr":
            expect(1, 2)
            return Addr(items[1].integer(0), items[2].integer(0) if len(items) == 3 else None)
        case "dim":
            expect(2)
            return Dim(items[1].integer(0), items[2].integer(0))
        case "stride":
            expect(2)
            return Stride(items[1].integer(0), items[2].integer(0))
        case "sym":
            expect(1)
            return Sym(items[1].name())
        case "pool":
            expect(0)
            return Pool()
        case "dyn":
            expect(0)
            return Dyn()
        case "tile":
            expect(1)
            return Tile(items[1].name())
    try:
        operator = BinaryOp(op)
    except ValueError:
        node.fail(f"unknown operator {op!r} in an expression")
    expect(2)
    return Binary(operator, expr_from_json(items[1], depth + 1), expr_from_json(items[2], depth + 1))


def leaves(expr: Expr) -> Iterator[Expr]:
    """The inputs of an expression from left to right, constants left out, repetitions included."""
    match expr:
        case Const():
            return
        case Binary(_, lhs, rhs):
            yield from leaves(lhs)
            yield from leaves(rhs)
        case _:
            yield expr


def entry_kind(expr: Expr) -> EntryKind:
    """Kind of the correction entry: the most address-like input decides."""
    inputs = tuple(leaves(expr))
    if any(isinstance(leaf, (Addr, Pool, Dyn)) for leaf in inputs):
        return EntryKind.ADDRESS
    if any(isinstance(leaf, Stride) for leaf in inputs):
        return EntryKind.STRIDE
    if any(isinstance(leaf, Dim) for leaf in inputs):
        return EntryKind.DIMENSION
    return EntryKind.OTHER if inputs else EntryKind.CONSTANT


@attrs.frozen
class ArgumentInputs:
    """What expressions may ask of one launch argument.

    Args:
        addresses: start address (DMVA) of each chunk of the argument's view.
        shape: logical sizes.
        device_strides: strides of the device axes in bytes.
    """

    addresses: tuple[int, ...]
    shape: tuple[int, ...] = ()
    device_strides: tuple[int, ...] = ()


@attrs.frozen
class HostInputs:
    """Everything a host function sees of a launch. ``scalars`` holds integers; floats as bit patterns."""

    args: tuple[ArgumentInputs, ...] = ()
    scalars: Mapping[str, int] = attrs.field(factory=dict)
    pool: int | None = None
    dyn: int | None = None
    tile: Mapping[str, int] = attrs.field(factory=dict)
    launch_seq: int = 0
    plan_digest64: bytes = bytes(8)
    overrides: tuple[int | None, ...] = ()
    values: tuple[int, ...] | None = None
    """Values of all symbols if they were evaluated already."""
    handle: bytes | None = None
    """Contents of the host buffer named by ``ihandle``, for chained host functions."""


_APPLY: Final[Mapping[BinaryOp, Callable[[int, int], int]]] = {
    BinaryOp.ADD: lambda a, b: a + b,
    BinaryOp.SUB: lambda a, b: a - b,
    BinaryOp.MUL: lambda a, b: a * b,
    BinaryOp.FLOORDIV: lambda a, b: a // b,
    BinaryOp.CEILDIV: lambda a, b: -(-a // b),
    BinaryOp.MOD: lambda a, b: a % b,
    BinaryOp.MIN: min,
    BinaryOp.MAX: max,
}
_DIVISIONS: Final = (BinaryOp.FLOORDIV, BinaryOp.CEILDIV, BinaryOp.MOD)


def evaluate(expr: Expr, inputs: HostInputs) -> int:
    """Value of an expression in exact integers.

    Raises ``SymbolBindingError``: an unbound input, a divisor that is not positive, a result outside signed
    64 bit.

    >>> evaluate((Addr(0) + 49152) // 64, HostInputs((ArgumentInputs((1 << 34,)),)))
    268436224
    """
    value = _value(expr, inputs)
    if not INT64_MIN <= value <= INT64_MAX:
        raise SymbolBindingError(f"{expr_to_json(expr)} = {value} does not fit in 64 bits", value=value)
    return value


def _value(expr: Expr, inputs: HostInputs) -> int:
    def missing(what: str) -> SymbolBindingError:
        return SymbolBindingError(f"{what}, needed by {expr_to_json(expr)}")

    def pick(values: tuple[int, ...], index: int, what: str) -> int:
        if index >= len(values):
            raise missing(f"{what} {index} does not exist (there are {len(values)})")
        return values[index]

    def argument(index: int) -> ArgumentInputs:
        if index >= len(inputs.args):
            raise missing(f"argument {index} does not exist (there are {len(inputs.args)})")
        return inputs.args[index]

    match expr:
        case Const(value):
            return value
        case Addr(arg, chunk):
            addresses = argument(arg).addresses
            if chunk is None and len(addresses) != 1:
                raise missing(
                    f"argument {arg} has {len(addresses)} chunks (interleaved), one address is not enough"
                )
            return pick(addresses, chunk or 0, f"chunk of argument {arg}")
        case Dim(arg, axis):
            return pick(argument(arg).shape, axis, f"axis of argument {arg}")
        case Stride(arg, axis):
            return pick(argument(arg).device_strides, axis, f"device axis of argument {arg}")
        case Sym(name):
            if name not in inputs.scalars:
                raise missing(f"'{name}' is not bound")
            return inputs.scalars[name]
        case Pool():
            if inputs.pool is None:
                raise missing("there is no pool argument")
            return inputs.pool
        case Dyn():
            if inputs.dyn is None:
                raise missing("there is no dynamic block")
            return inputs.dyn
        case Tile(dim):
            return inputs.tile.get(dim, 0)
        case Binary(op, lhs, rhs):
            left, right = _value(lhs, inputs), _value(rhs, inputs)
            if op in _DIVISIONS and right <= 0:
                raise missing(f"divisor {right} is not positive")
            return _APPLY[op](left, right)
    raise TypeError(f"not an expression: {expr!r}")


__all__ = [
    "Addr",
    "ArgumentInputs",
    "Binary",
    "BinaryOp",
    "Const",
    "Dim",
    "Dyn",
    "Expr",
    "HostInputs",
    "Pool",
    "Stride",
    "Sym",
    "Tile",
    "entry_kind",
    "evaluate",
    "expr_from_json",
    "expr_to_json",
    "leaves",
]
