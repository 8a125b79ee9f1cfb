"""Named operations, whose body follows from their name (ktir spec 3.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Self

from ktir.affine import AffineMap, Dim
from ktir.attribute import Attribute
from ktir.attributes import (
    FloatAttr,
)
from ktir.dialects import arith, math
from ktir.ir import BlockArgument, Operation, Region, Value
from ktir.location import UNKNOWN, Location
from ktir.opdef import (
    OPERAND_SEGMENTS,
    RECURSIVE_EFFECTS,
    operation,
    region,
)
from ktir.types import INDEX as INDEX_TYPE
from ktir.types import FloatType, TensorType, Type, bit_width

if TYPE_CHECKING:
    from ktir.parser import OpParser
    from ktir.printer import Printer

from ktir.dialects.linalg.structured import (
    Yield,
    _InsOuts,
    _parse_group,
    _print_group,
    _segments,
    element,
    rank,
)


class _Body:
    """A scalar body under construction."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []

    def emit(self, op: Operation) -> Value:
        self.operations.append(op)
        return op.results[0]

    def cast(self, value: Value, to: Type) -> Value:
        """Converts numerically, as named operations do with inputs of another element type."""
        source = value.type
        if source == to:
            return value
        match source, to:
            case FloatType(), FloatType():
                cls: type[Operation] = arith.ExtF if bit_width(source) < bit_width(to) else arith.TruncF
            case FloatType(), _:
                cls = arith.FPToSI
            case _, FloatType():
                cls = arith.SIToFP
            case _ if INDEX_TYPE in (source, to):
                cls = arith.IndexCast
            case _:
                cls = arith.ExtSI if bit_width(source) < bit_width(to) else arith.TruncI
        return self.emit(cls.create((value,), (to,)))

    def binary(self, floats: type[Operation], integers: type[Operation], a: Value, b: Value) -> Value:
        cls = floats if isinstance(a.type, FloatType) else integers
        return self.emit(cls.create((a, b), (a.type,)))


class NamedOp(_InsOuts):
    """A structured operation whose body follows from its name."""

    body = region()
    input_count: ClassVar[int] = 1

    @classmethod
    def scalar(cls, body: _Body, arguments: Sequence[Value]) -> Value:
        """Emit the body for block arguments (inputs, then output); the value to yield."""
        raise NotImplementedError

    @classmethod
    def build(
        cls,
        ins: Sequence[Value],
        outs: Sequence[Value],
        attributes: Mapping[str, Attribute] | None = None,
        location: Location = UNKNOWN,
        types: Sequence[Type] | None = None,
    ) -> Self:
        """The operation on values: the body is built, tensor outputs give results."""
        arguments = [BlockArgument(element(v.type)) for v in (*ins, *outs)]
        body = _Body()
        value = cls.scalar(body, arguments)
        operations = [op.replace(location=location) for op in body.operations]
        inner = Region.of((*operations, Yield.create((value,), location=location)), arguments)
        if types is None:
            types = [v.type for v in outs if isinstance(v.type, TensorType)]
        entries: dict[str, Attribute] = {**(attributes or {}), OPERAND_SEGMENTS: _segments(ins, outs)}
        return cls.create((*ins, *outs), types, entries, (inner,), location=location)

    def built(self) -> Self:
        return self.build(self.inputs, self.outputs)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        start = parser.offset
        attributes = parser.parse_attr_dict()
        stated, stated_at = cls._stated_maps(parser), start
        ins = _parse_group(parser, "ins")
        outs = _parse_group(parser, "outs")
        attributes |= parser.parse_attr_dict()
        types = parser.parse_result_types() if parser.accept("->") else []
        name = cls.definition.name
        if len(ins) != cls.input_count or len(outs) != 1:
            raise parser.error_at(
                start,
                f"'{name}' expects {cls.input_count} inputs and 1 output, but has {len(ins)} and {len(outs)}",
            )
        if not types and isinstance(outs[0].type, TensorType):
            raise parser.error("expected '->' and the result type of a linalg operation on tensors")
        made = cls.build(ins, outs, attributes, parser.location, types)
        if stated is not None and stated != made.maps:
            usual = ", ".join(f"affine_map<{map}>" for map in made.maps)
            raise parser.error_at(
                stated_at,
                f"'{name}' with other indexing_maps than its own is not supported",
                f"its own are [{usual}]",
                "linalg.generic takes any maps",
            )
        return made

    @staticmethod
    def _stated_maps(parser: OpParser) -> tuple[AffineMap, ...] | None:
        """``indexing_maps = [...]``, which may repeat the maps that the name stands for."""
        if not parser.accept("indexing_maps"):
            return None
        parser.expect("=", "behind 'indexing_maps'")
        return tuple(parser.parse_comma_list("[", "]", parser.parse_affine_map))

    def print_custom(self, printer: Printer) -> None:
        _print_named_attributes(printer, self)
        _print_group(printer, "ins", self.inputs)
        _print_group(printer, "outs", self.outputs)
        if self.outcomes:
            printer.write(" -> ")
            printer.result_types([v.type for v in self.outcomes])

    @property
    def maps(self) -> tuple[AffineMap, ...]:
        identity = AffineMap.identity(rank(self.outputs[0].type))
        return (identity,) * len(self.operands)

    @property
    def iterators(self) -> tuple[str, ...]:
        return ("parallel",) * rank(self.outputs[0].type)


def _print_named_attributes(printer: Printer, op: Operation) -> None:
    printer.attr_dict(op.attributes, elided=(OPERAND_SEGMENTS,))


class _Unary(NamedOp):
    """Element by element, one input."""

    scalar_op: ClassVar[type[Operation]] = math.Exp

    @classmethod
    def scalar(cls, body: _Body, arguments: Sequence[Value]) -> Value:
        value = body.cast(arguments[0], arguments[-1].type)
        return body.emit(cls.scalar_op.create((value,), (value.type,)))


class _Binary(NamedOp):
    """Element by element, two inputs."""

    input_count = 2
    float_op: ClassVar[type[Operation]] = arith.AddF
    integer_op: ClassVar[type[Operation]] = arith.AddI

    @classmethod
    def scalar(cls, body: _Body, arguments: Sequence[Value]) -> Value:
        out = arguments[-1].type
        a, b = (body.cast(value, out) for value in arguments[:2])
        return body.binary(cls.float_op, cls.integer_op, a, b)


@operation("linalg.exp", traits=(RECURSIVE_EFFECTS,))
class Exp(_Unary):
    """e to the power of x."""

    scalar_op = math.Exp


@operation("linalg.log", traits=(RECURSIVE_EFFECTS,))
class Log(_Unary):
    """Natural logarithm."""

    scalar_op = math.Log


@operation("linalg.abs", traits=(RECURSIVE_EFFECTS,))
class Abs(_Unary):
    """Absolute value."""

    scalar_op = math.AbsF


@operation("linalg.ceil", traits=(RECURSIVE_EFFECTS,))
class Ceil(_Unary):
    """Rounded up."""

    scalar_op = math.Ceil


@operation("linalg.floor", traits=(RECURSIVE_EFFECTS,))
class Floor(_Unary):
    """Rounded down."""

    scalar_op = math.Floor


@operation("linalg.round", traits=(RECURSIVE_EFFECTS,))
class Round(_Unary):
    """Rounded to a whole number, halves away from zero."""

    scalar_op = math.Round


@operation("linalg.negf", traits=(RECURSIVE_EFFECTS,))
class NegF(_Unary):
    """The negative."""

    scalar_op = arith.NegF


@operation("linalg.sqrt", traits=(RECURSIVE_EFFECTS,))
class Sqrt(_Unary):
    """Square root."""

    scalar_op = math.Sqrt


@operation("linalg.rsqrt", traits=(RECURSIVE_EFFECTS,))
class Rsqrt(_Unary):
    """1 / sqrt(x)."""

    scalar_op = math.Rsqrt


@operation("linalg.tanh", traits=(RECURSIVE_EFFECTS,))
class Tanh(_Unary):
    """Hyperbolic tangent."""

    scalar_op = math.Tanh


@operation("linalg.erf", traits=(RECURSIVE_EFFECTS,))
class Erf(_Unary):
    """Error function."""

    scalar_op = math.Erf


@operation("linalg.add", traits=(RECURSIVE_EFFECTS,))
class Add(_Binary):
    """Sum."""

    float_op = arith.AddF
    integer_op = arith.AddI


@operation("linalg.sub", traits=(RECURSIVE_EFFECTS,))
class Sub(_Binary):
    """Difference."""

    float_op = arith.SubF
    integer_op = arith.SubI


@operation("linalg.mul", traits=(RECURSIVE_EFFECTS,))
class Mul(_Binary):
    """Product."""

    float_op = arith.MulF
    integer_op = arith.MulI


@operation("linalg.div", traits=(RECURSIVE_EFFECTS,))
class Div(_Binary):
    """Quotient."""

    float_op = arith.DivF
    integer_op = arith.DivSI


@operation("linalg.div_unsigned", traits=(RECURSIVE_EFFECTS,))
class DivUnsigned(_Binary):
    """Quotient of unsigned integers."""

    float_op = arith.DivF
    integer_op = arith.DivUI


@operation("linalg.max", traits=(RECURSIVE_EFFECTS,))
class Max(_Binary):
    """Larger value; NaN if either is NaN."""

    float_op = arith.MaximumF
    integer_op = arith.MaxSI


@operation("linalg.min", traits=(RECURSIVE_EFFECTS,))
class Min(_Binary):
    """Smaller value; NaN if either is NaN."""

    float_op = arith.MinimumF
    integer_op = arith.MinSI


@operation("linalg.powf", traits=(RECURSIVE_EFFECTS,))
class PowF(_Binary):
    """First to the power of the second (floats only)."""

    float_op = math.PowF
    integer_op = arith.MulI


@operation("linalg.square", traits=(RECURSIVE_EFFECTS,))
class Square(NamedOp):
    """x * x."""

    @classmethod
    def scalar(cls, body: _Body, arguments: Sequence[Value]) -> Value:
        value = body.cast(arguments[0], arguments[-1].type)
        return body.binary(arith.MulF, arith.MulI, value, value)


@operation("linalg.reciprocal", traits=(RECURSIVE_EFFECTS,))
class Reciprocal(NamedOp):
    """1 / x."""

    @classmethod
    def scalar(cls, body: _Body, arguments: Sequence[Value]) -> Value:
        value = body.cast(arguments[0], arguments[-1].type)
        type = value.type
        if not isinstance(type, FloatType):
            raise ValueError("linalg.reciprocal needs a floating-point element type")
        one = body.emit(arith.Constant.of(FloatAttr.of(1.0, type)))
        return body.emit(arith.DivF.create((one, value), (type,)))


@operation("linalg.select", traits=(RECURSIVE_EFFECTS,))
class Select(NamedOp):
    """The second input where the first holds, else the third."""

    input_count = 3

    @classmethod
    def scalar(cls, body: _Body, arguments: Sequence[Value]) -> Value:
        out = arguments[-1].type
        a, b = (body.cast(value, out) for value in arguments[1:3])
        return body.emit(arith.Select.create((arguments[0], a, b), (out,)))


@operation("linalg.copy", traits=(RECURSIVE_EFFECTS,))
class Copy(NamedOp):
    """The input, converted to the output's element type."""

    @classmethod
    def scalar(cls, body: _Body, arguments: Sequence[Value]) -> Value:
        return body.cast(arguments[0], arguments[-1].type)


@operation("linalg.fill", traits=(RECURSIVE_EFFECTS,))
class Fill(NamedOp):
    """A scalar everywhere, converted to the output's element type."""

    @classmethod
    def scalar(cls, body: _Body, arguments: Sequence[Value]) -> Value:
        return body.cast(arguments[0], arguments[-1].type)

    @property
    def maps(self) -> tuple[AffineMap, ...]:
        loops = rank(self.outputs[0].type)
        return (AffineMap(loops, 0, ()), AffineMap.identity(loops))


class _Contraction(NamedOp):
    """Products summed over one loop, accumulated into the output."""

    input_count = 2
    loops: ClassVar[int] = 3
    operand_dims: ClassVar[tuple[tuple[int, ...], ...]] = ((0, 2), (2, 1), (0, 1))

    @classmethod
    def scalar(cls, body: _Body, arguments: Sequence[Value]) -> Value:
        out = arguments[-1]
        a, b = (body.cast(value, out.type) for value in arguments[:2])
        product = body.binary(arith.MulF, arith.MulI, a, b)
        return body.binary(arith.AddF, arith.AddI, out, product)

    @property
    def maps(self) -> tuple[AffineMap, ...]:
        return tuple(AffineMap(self.loops, 0, tuple(Dim(d) for d in dims)) for dims in self.operand_dims)

    @property
    def iterators(self) -> tuple[str, ...]:
        kept = set(self.operand_dims[-1])
        return tuple("parallel" if loop in kept else "reduction" for loop in range(self.loops))


@operation("linalg.matmul", traits=(RECURSIVE_EFFECTS,))
class Matmul(_Contraction):
    """C[m, n] += A[m, k] * B[k, n]."""


@operation("linalg.batch_matmul", traits=(RECURSIVE_EFFECTS,))
class BatchMatmul(_Contraction):
    """C[b, m, n] += A[b, m, k] * B[b, k, n]."""

    loops = 4
    operand_dims = ((0, 1, 3), (0, 3, 2), (0, 1, 2))


@operation("linalg.matvec", traits=(RECURSIVE_EFFECTS,))
class Matvec(_Contraction):
    """y[m] += A[m, k] * x[k]."""

    loops = 2
    operand_dims = ((0, 1), (1,), (0,))


@operation("linalg.vecmat", traits=(RECURSIVE_EFFECTS,))
class Vecmat(_Contraction):
    """y[n] += x[k] * A[k, n]."""

    loops = 2
    operand_dims = ((1,), (1, 0), (0,))


@operation("linalg.dot", traits=(RECURSIVE_EFFECTS,))
class Dot(_Contraction):
    """s += x[k] * y[k]."""

    loops = 1
    operand_dims = ((0,), (0,), ())
