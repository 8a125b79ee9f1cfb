"""The ``linalg`` dialect (ktir spec 3.5).

Every operation carries a region with the scalar computation, as in MLIR: named operations build theirs when
they are read or made, print without it in custom form and with it in generic form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Self

import attrs

from ktir.affine import AffineMap, Dim
from ktir.attribute import Attribute
from ktir.attributes import (
    AffineMapAttr,
    ArrayAttr,
    DenseArrayAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
)
from ktir.context import Dialect
from ktir.dialects import arith, math
from ktir.errors import Diagnostic
from ktir.ir import BlockArgument, Operation, Region, UnregisteredOp, Value
from ktir.location import UNKNOWN, Location
from ktir.opdef import (
    OPERAND_SEGMENTS,
    PURE,
    RECURSIVE_EFFECTS,
    SINGLE_BLOCK,
    TERMINATOR,
    attribute,
    operation,
    optional_attribute,
    region,
    result,
    variadic_operand,
    variadic_result,
)
from ktir.types import I32, I64, FloatType, ShapedType, TensorType, Type, bit_width
from ktir.types import INDEX as INDEX_TYPE

if TYPE_CHECKING:
    from ktir.parser import AttributeParser, OpParser
    from ktir.printer import Printer
    from ktir.verifier import Verifier

ITERATOR_TYPES = ("parallel", "reduction", "window")


@attrs.frozen
class IteratorType(Attribute):
    """``#linalg.iterator_type<parallel>``."""

    mnemonic = "linalg.iterator_type"
    kind: str = "parallel"

    @classmethod
    def parse_parameters(cls, parser: AttributeParser) -> Self:
        parser.expect("<")
        if not parser.at(*ITERATOR_TYPES):
            parser.cursor.expected(f"one of: {', '.join(ITERATOR_TYPES)}")
        kind = parser.keyword()
        parser.expect(">")
        return cls(kind)

    def print_parameters(self, printer: Printer) -> None:
        printer.write(f"<{self.kind}>")


def element(type: Type) -> Type:
    """The element type of a shaped type, the type itself otherwise."""
    return type.element if isinstance(type, ShapedType) else type


def rank(type: Type) -> int:
    """The rank of a shaped type, 0 for scalars."""
    return type.rank if isinstance(type, ShapedType) else 0


class LinalgOp(Operation):
    """What all structured operations share: inputs, outputs, maps, iterators, a scalar body."""

    @property
    def input_values(self) -> tuple[Value, ...]:
        """The ``ins``."""
        raise NotImplementedError

    @property
    def output_values(self) -> tuple[Value, ...]:
        """The ``outs`` (initial values)."""
        raise NotImplementedError

    @property
    def maps(self) -> tuple[AffineMap, ...]:
        """One map from iteration space to operand space for every input, then every output."""
        raise NotImplementedError

    @property
    def iterators(self) -> tuple[str, ...]:
        """``parallel`` or ``reduction`` for every loop, outermost first."""
        raise NotImplementedError

    def loop_extents(self) -> tuple[int | None, ...]:
        """Extents of the loops, from the operands' shapes; None where only dynamic extents tell.

        ValueError if two operands disagree.
        """
        extents: list[int | None] = [None] * len(self.iterators)
        operands = (*self.input_values, *self.output_values)
        for number, (value, map) in enumerate(zip(operands, self.maps, strict=True)):
            shape = value.type.shape if isinstance(value.type, ShapedType) else ()
            for position, (expr, extent) in enumerate(zip(map.results, shape, strict=False)):
                if not isinstance(expr, Dim) or extent is None:
                    continue
                known = extents[expr.position]
                if known is not None and known != extent:
                    raise ValueError(
                        f"inferred input/output operand #{number} has shape's dimension #{position} to be "
                        f"{known}, but found {extent}"
                    )
                extents[expr.position] = extent
        return tuple(extents)

    def argument_names(self, region: int) -> Sequence[str | None]:
        return [*(["in"] * len(self.input_values)), *(["out"] * len(self.output_values))]

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        operands = (*self.input_values, *self.output_values)
        maps, iterators = self.maps, self.iterators
        if len(maps) != len(operands):
            yield (
                f"expected the number of indexing_map ({len(maps)}) to be equal to the number of "
                f"input/output operands ({len(operands)})"
            )
            return
        for number, (map, value) in enumerate(zip(maps, operands, strict=True)):
            if map.num_symbols:
                yield f"unexpected symbols in indexing_map #{number}"
            if map.num_dims != len(iterators):
                yield (
                    f"expected indexing_map #{number} to have {len(iterators)} dim(s) to match the number "
                    "of loops"
                )
                return
            if len(map.results) != rank(value.type):
                yield (
                    f"expected operand rank ({rank(value.type)}) to match the result rank of indexing_map "
                    f"#{number} ({len(map.results)})"
                )
                return
        try:
            self.loop_extents()
        except ValueError as error:
            yield str(error)
        yield from self._verify_results()
        yield from self._verify_body()

    def _verify_results(self) -> Iterator[str]:
        tensors = [v.type for v in self.output_values if isinstance(v.type, TensorType)]
        if [r.type for r in self.results] != tensors:
            yield (
                f"expected the number of tensor results ({len(self.results)}) and their types to match "
                f"the tensor outputs ({len(tensors)})"
            )

    def _verify_body(self) -> Iterator[str]:
        if len(self.regions[0].blocks) != 1:
            yield "expects a region with one block"
            return
        block = self.regions[0].block
        operands = (*self.input_values, *self.output_values)
        if len(block.arguments) != len(operands):
            yield (
                "expected as many non-induction variable region arguments as the number of input/output "
                f"operands: {len(operands)} vs {len(block.arguments)}"
            )
            return
        for number, (argument, value) in enumerate(zip(block.arguments, operands, strict=True)):
            if argument.type != element(value.type):
                yield (
                    f"expected type of bb argument #{number} ('{argument.type}') to match element or self "
                    f"type of the corresponding operand ('{element(value.type)}')"
                )
        terminator = block.terminator
        if not isinstance(terminator, Yield):
            yield "expects its body to end in 'linalg.yield'"
            return
        wanted = [element(v.type) for v in self.output_values]
        given = [v.type for v in terminator.values]
        if len(given) != len(wanted):
            yield (
                f"expected number of yield values ({len(given)}) to match the number of inits / outs "
                f"operands of the enclosing LinalgOp ({len(wanted)})"
            )
        for number, (have, want) in enumerate(zip(given, wanted, strict=False)):
            if have != want:
                yield (
                    f"type of yield operand {number + 1} ('{have}') doesn't match the element type of the "
                    f"enclosing linalg op ('{want}')"
                )


@operation("linalg.yield", assembly="attr-dict ($values^ `:` type($values))?", traits=(TERMINATOR, PURE))
class Yield(Operation):
    """The scalar results of a structured operation's body."""

    values = variadic_operand()


@operation("linalg.index", assembly="$dim attr-dict `:` type($result)", traits=(PURE,))
class Index(Operation):
    """The value of loop `dim` of the structured operation around it."""

    dim = attribute(IntegerAttr, type=I64)
    result = result()

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        parent = verifier.parent(self)
        if not isinstance(parent, LinalgOp):
            yield "expected parent op with LinalgOp interface"
        elif not 0 <= self.dim.value < len(parent.iterators):
            yield (
                f"expected dim ({self.dim.value}) to be lower than the number of loops "
                f"({len(parent.iterators)}) of the enclosing LinalgOp"
            )
        if self.result.type != INDEX_TYPE:
            yield f"result #0 must be index, but got '{self.result.type}'"


def _parse_group(parser: OpParser, keyword: str) -> list[Value]:
    """``keyword(%a, %b : type, type)``; the whole group may be left out."""
    if not parser.accept(keyword):
        return []
    parser.expect("(", f"behind '{keyword}'")
    uses = parser.parse_operand_list()
    types: list[Type] = []
    if uses:
        parser.expect(":", "in front of the operand types")
        types = parser.parse_type_list()
    parser.expect(")", f"behind the {keyword} types")
    return parser.resolve_all(uses, types)


def _print_group(printer: Printer, keyword: str, values: Sequence[Value]) -> None:
    if not values:
        return
    printer.write(f" {keyword}(")
    printer.operands(values)
    printer.write(" : ")
    printer.types([value.type for value in values])
    printer.write(")")


def _segments(ins: Sequence[Value], outs: Sequence[Value]) -> DenseArrayAttr:
    return DenseArrayAttr(I32, (len(ins), len(outs)))


class _InsOuts(LinalgOp):
    """Structured operations with any number of inputs and outputs."""

    inputs = variadic_operand()
    outputs = variadic_operand()
    outcomes = variadic_result()

    @property
    def input_values(self) -> tuple[Value, ...]:
        return self.inputs

    @property
    def output_values(self) -> tuple[Value, ...]:
        return self.outputs


@operation("linalg.generic", traits=(RECURSIVE_EFFECTS, SINGLE_BLOCK))
class Generic(_InsOuts):
    """The general structured operation."""

    indexing_maps = attribute(ArrayAttr)
    iterator_types = attribute(ArrayAttr)
    doc = optional_attribute(StringAttr)
    library_call = optional_attribute(StringAttr)
    body = region()

    @classmethod
    def build(
        cls,
        ins: Sequence[Value],
        outs: Sequence[Value],
        maps: Sequence[AffineMap],
        iterators: Sequence[str],
        body: Region,
        attributes: Mapping[str, Attribute] | None = None,
        location: Location = UNKNOWN,
    ) -> Generic:
        """A generic with one tensor result for every tensor output."""
        entries: dict[str, Attribute] = {
            **(attributes or {}),
            "indexing_maps": ArrayAttr(tuple(AffineMapAttr(map) for map in maps)),
            "iterator_types": ArrayAttr(tuple(IteratorType(kind) for kind in iterators)),
            OPERAND_SEGMENTS: _segments(ins, outs),
        }
        types = [v.type for v in outs if isinstance(v.type, TensorType)]
        return cls.create((*ins, *outs), types, entries, (body,), location=location)

    @property
    def maps(self) -> tuple[AffineMap, ...]:
        return tuple(a.map for a in self.indexing_maps if isinstance(a, AffineMapAttr))

    @property
    def iterators(self) -> tuple[str, ...]:
        return tuple(
            a.kind if isinstance(a, IteratorType) else a.value if isinstance(a, StringAttr) else "?"
            for a in self.iterator_types
        )

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Generic:
        start = parser.offset
        if not parser.at("{"):
            parser.cursor.expected("'{' with the traits of linalg.generic")
        attributes = parser.parse_attr_dict()
        kinds = attributes.get("iterator_types")
        if isinstance(kinds, ArrayAttr):
            converted: list[Attribute] = []
            for kind in kinds:
                if isinstance(kind, StringAttr) and kind.value not in ITERATOR_TYPES:
                    raise parser.error_at(start, f"unknown iterator type '{kind.value}'")
                converted.append(IteratorType(kind.value) if isinstance(kind, StringAttr) else kind)
            attributes["iterator_types"] = ArrayAttr(tuple(converted))
        ins = _parse_group(parser, "ins")
        outs = _parse_group(parser, "outs")
        if parser.accept("attrs"):
            parser.expect("=", "behind 'attrs'")
            attributes.update(parser.parse_attr_dict())
        body = parser.parse_region()
        types = parser.parse_result_types() if parser.accept("->") else []
        attributes[OPERAND_SEGMENTS] = _segments(ins, outs)
        return cls.create((*ins, *outs), types, attributes, (body,), location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        shown = ("doc", "indexing_maps", "library_call", "iterator_types")
        printer.write(" {")
        first = True
        for name in shown:
            value = self.attributes.get(name)
            if value is None:
                continue
            printer.write("" if first else ", ")
            printer.write(f"{name} = ")
            first = False
            if name == "iterator_types":
                printer.attribute(ArrayAttr(tuple(StringAttr(kind) for kind in self.iterators)))
            else:
                printer.attribute(value)
        printer.write("}")
        _print_group(printer, "ins", self.inputs)
        _print_group(printer, "outs", self.outputs)
        rest = {k: v for k, v in self.attributes.items() if k not in (*shown, OPERAND_SEGMENTS)}
        if rest:
            printer.write(" attrs =")
            printer.attr_dict(rest)
        printer.write(" ")
        printer.region(self.body, owner=self.name)
        if self.outcomes:
            printer.write(" -> ")
            printer.result_types([v.type for v in self.outcomes])

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        if any(kind not in ITERATOR_TYPES for kind in self.iterators):
            yield "unexpected iterator_type"
            return
        if len(self.maps) != len(self.indexing_maps):
            yield "attribute 'indexing_maps' failed to satisfy constraint: AffineMap array attribute"
            return
        yield from LinalgOp.verify_op(self, verifier)


# -- named operations


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
        inner = Region.of((*body.operations, Yield.create((value,))), arguments)
        if types is None:
            types = [v.type for v in outs if isinstance(v.type, TensorType)]
        entries: dict[str, Attribute] = {**(attributes or {}), OPERAND_SEGMENTS: _segments(ins, outs)}
        return cls.create((*ins, *outs), types, entries, (inner,), location=location)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        start = parser.offset
        attributes = parser.parse_attr_dict()
        if parser.at("indexing_maps"):
            raise parser.error("indexing_maps on a named linalg operation are not supported")
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
        return cls.build(ins, outs, attributes, parser.location, types)

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


# -- reduce, broadcast, transpose, map


def _dimension_list(parser: OpParser, keyword: str) -> DenseArrayAttr:
    parser.expect(keyword, "in the operation")
    parser.expect("=", f"behind '{keyword}'")
    return DenseArrayAttr(I64, tuple(parser.parse_comma_list("[", "]", parser.parse_integer)))


def _shorthand(parser: OpParser) -> tuple[str, dict[str, Attribute]] | None:
    """``{ arith.addf }``: the name of the operation that makes the body."""
    if not parser.accept("{"):
        return None
    name = parser.keyword("the name of an operation")
    attributes = parser.parse_attr_dict()
    parser.expect("}", "behind the operation's name")
    return name, attributes


def _shorthand_body(
    parser: OpParser,
    name: str,
    attributes: dict[str, Attribute],
    arguments: Sequence[BlockArgument],
    out: Type,
) -> Region:
    cls = parser.context.operation(name)
    if cls is None:
        raise parser.error(f"custom op '{name}' is unknown")
    combined = cls.create(arguments, (out,), attributes, location=parser.location)
    return Region.of((combined, Yield.create(combined.results, location=parser.location)), arguments)


def _is_shorthand(body: Region, order: Sequence[Value]) -> Operation | None:
    """The only operation of a body that hands its arguments, in order, to one operation and yields it."""
    if len(body.blocks) != 1 or len(body.block.operations) != 2:
        return None
    op, terminator = body.block.operations
    plain = isinstance(terminator, Yield) and terminator.operands == op.results and not op.regions
    plain = plain and not isinstance(op, UnregisteredOp)
    if plain and op.operands == tuple(order) and len(op.results) == 1 and op.name.count(".") == 1:
        return op
    return None


def _print_shorthand(printer: Printer, op: Operation) -> None:
    printer.write(f" {{ {op.name}")
    elided = [d.name for d in op.definition.attributes if op.attributes.get(d.name) == d.default]
    printer.attr_dict(op.attributes, elided=elided)
    printer.write(" }")


@operation("linalg.reduce", traits=(RECURSIVE_EFFECTS, SINGLE_BLOCK))
class Reduce(LinalgOp):
    """Folds inputs over dimensions, starting from the initial values."""

    arguments = variadic_operand()
    outcomes = variadic_result()
    dimensions = attribute(DenseArrayAttr)
    combiner = region()

    @property
    def input_values(self) -> tuple[Value, ...]:
        return self.arguments[: len(self.arguments) // 2]

    @property
    def output_values(self) -> tuple[Value, ...]:
        return self.arguments[len(self.arguments) // 2 :]

    @property
    def maps(self) -> tuple[AffineMap, ...]:
        loops = rank(self.arguments[0].type)
        kept = tuple(Dim(d) for d in range(loops) if d not in self.dimensions.values)
        half = len(self.arguments) // 2
        return (AffineMap.identity(loops),) * half + (AffineMap(loops, 0, kept),) * half

    @property
    def iterators(self) -> tuple[str, ...]:
        reduced = self.dimensions.values
        loops = rank(self.arguments[0].type)
        return tuple("reduction" if d in reduced else "parallel" for d in range(loops))

    def argument_names(self, region: int) -> Sequence[str | None]:
        half = len(self.arguments) // 2
        return ["in"] * half + ["init"] * half

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Reduce:
        short = _shorthand(parser)
        ins = _parse_group(parser, "ins")
        outs = _parse_group(parser, "outs")
        dimensions = _dimension_list(parser, "dimensions")
        attributes = parser.parse_attr_dict()
        attributes["dimensions"] = dimensions
        if short is not None:
            if len(ins) != 1 or len(outs) != 1:
                raise parser.error("the short form of linalg.reduce takes one input and one init")
            arguments = [BlockArgument(element(ins[0].type)), BlockArgument(element(outs[0].type))]
            body = _shorthand_body(parser, short[0], short[1], arguments, arguments[1].type)
        else:
            given = [
                (a.name, a.type, a.location) for a in parser.parse_comma_list("(", ")", parser.parse_argument)
            ]
            body = parser.parse_region(given)
        types = [v.type for v in outs if isinstance(v.type, TensorType)]
        return cls.create((*ins, *outs), types, attributes, (body,), location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        short = None
        if len(self.arguments) == 2:
            short = _is_shorthand(self.combiner, self.combiner.block.arguments)
        if short is not None:
            _print_shorthand(printer, short)
        _print_group(printer, "ins", self.input_values)
        _print_group(printer, "outs", self.output_values)
        printer.write(f" dimensions = {list(self.dimensions.values)} ")
        printer.attr_dict(self.attributes, elided=("dimensions",))
        if short is None:
            _print_arguments(printer, self.combiner)
            printer.region(self.combiner, print_entry_arguments=False, owner=self.name)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        if len(self.arguments) % 2 or not self.arguments:
            yield "expects as many inits as inputs, and at least one"
            return
        loops = rank(self.arguments[0].type)
        dims = self.dimensions.values
        if list(dims) != sorted(set(dims)):
            yield f"dimensions must be sorted and unique, got {list(dims)}"
            return
        if any(not 0 <= d < loops for d in dims):
            yield f"dimensions for reduction should be in the range [0, {loops - 1}]."
            return
        yield from LinalgOp.verify_op(self, verifier)


def _print_arguments(printer: Printer, body: Region) -> None:
    printer.newline()
    printer.write("  (")
    for number, argument in enumerate(body.block.arguments):
        if number:
            printer.write(", ")
        printer.argument(argument)
    printer.write(") ")


class _OneInOneOut(LinalgOp):
    """One input, one initial value, the value copied over."""

    arguments = variadic_operand()
    outcomes = variadic_result()

    @property
    def input_values(self) -> tuple[Value, ...]:
        return self.arguments[:1]

    @property
    def output_values(self) -> tuple[Value, ...]:
        return self.arguments[1:]

    @property
    def iterators(self) -> tuple[str, ...]:
        return ("parallel",) * rank(self.arguments[-1].type)

    @classmethod
    def _parse(cls, parser: OpParser, keyword: str) -> Self:
        start = parser.offset
        ins = _parse_group(parser, "ins")
        outs = _parse_group(parser, "outs")
        dimensions = _dimension_list(parser, keyword)
        attributes = parser.parse_attr_dict()
        attributes[keyword] = dimensions
        if len(ins) != 1 or len(outs) != 1:
            raise parser.error_at(start, f"'{cls.definition.name}' expects 1 input and 1 init")
        return cls.build(ins[0], outs[0], attributes, parser.location)

    @classmethod
    def build(
        cls, input: Value, init: Value, attributes: Mapping[str, Attribute], location: Location = UNKNOWN
    ) -> Self:
        """The operation with its copying body."""
        arguments = [BlockArgument(element(v.type)) for v in (input, init)]
        body = Region.of((Yield.create(arguments[:1], location=location),), arguments)
        types = [init.type] if isinstance(init.type, TensorType) else []
        return cls.create((input, init), types, attributes, (body,), location=location)

    def _print(self, printer: Printer, keyword: str, values: Sequence[int]) -> None:
        _print_group(printer, "ins", self.input_values)
        _print_group(printer, "outs", self.output_values)
        printer.write(f" {keyword} = {list(values)} ")
        printer.attr_dict(self.attributes, elided=(keyword,))


@operation("linalg.broadcast", traits=(RECURSIVE_EFFECTS, SINGLE_BLOCK))
class Broadcast(_OneInOneOut):
    """Repeats the input along the listed result dimensions."""

    dimensions = attribute(DenseArrayAttr)
    body = region()

    @property
    def maps(self) -> tuple[AffineMap, ...]:
        loops = rank(self.arguments[-1].type)
        kept = tuple(Dim(d) for d in range(loops) if d not in self.dimensions.values)
        return (AffineMap(loops, 0, kept), AffineMap.identity(loops))

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        return cls._parse(parser, "dimensions")

    def print_custom(self, printer: Printer) -> None:
        self._print(printer, "dimensions", self.dimensions.values)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        source, target = rank(self.arguments[0].type), rank(self.arguments[-1].type)
        added = len(self.dimensions)
        if source + added != target:
            yield (
                "input rank plus added dimensions does not match init rank. input rank: "
                f"{source}, dimensions size: {added}, init rank: {target}"
            )
            return
        for number, dim in enumerate(self.dimensions.values):
            if not 0 <= dim < target:
                yield f"dimension {number} is out of range. expected range: [0, {target - 1}], got: {dim}"
                return
        yield from LinalgOp.verify_op(self, verifier)


@operation("linalg.transpose", traits=(RECURSIVE_EFFECTS, SINGLE_BLOCK))
class Transpose(_OneInOneOut):
    """Result dimension i is input dimension permutation[i]."""

    permutation = attribute(DenseArrayAttr)
    body = region()

    @property
    def maps(self) -> tuple[AffineMap, ...]:
        order = list(self.permutation.values)
        inverse = tuple(Dim(order.index(d)) for d in range(len(order)))
        return (AffineMap(len(order), 0, inverse), AffineMap.identity(len(order)))

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        return cls._parse(parser, "permutation")

    def print_custom(self, printer: Printer) -> None:
        self._print(printer, "permutation", self.permutation.values)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        order = self.permutation.values
        source, target = rank(self.arguments[0].type), rank(self.arguments[-1].type)
        if sorted(order) != list(range(len(order))):
            yield "permutation is not valid"
            return
        if len(order) != source or source != target:
            yield (
                f"size of permutation {len(order)} does not match the argument rank {source}"
                if len(order) != source
                else f"input rank {source} does not match init rank {target}"
            )
            return
        yield from LinalgOp.verify_op(self, verifier)


@operation("linalg.map", traits=(RECURSIVE_EFFECTS, SINGLE_BLOCK))
class Map(LinalgOp):
    """Applies a region element by element; its arguments are the inputs' elements only."""

    arguments = variadic_operand()
    outcomes = variadic_result()
    mapper = region()

    @property
    def input_values(self) -> tuple[Value, ...]:
        return self.arguments[:-1]

    @property
    def output_values(self) -> tuple[Value, ...]:
        return self.arguments[-1:]

    @property
    def maps(self) -> tuple[AffineMap, ...]:
        return (AffineMap.identity(rank(self.arguments[-1].type)),) * len(self.arguments)

    @property
    def iterators(self) -> tuple[str, ...]:
        return ("parallel",) * rank(self.arguments[-1].type)

    def argument_names(self, region: int) -> Sequence[str | None]:
        return ["in"] * len(self.input_values)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Map:
        short = _shorthand(parser)
        ins = _parse_group(parser, "ins")
        outs = _parse_group(parser, "outs")
        attributes = parser.parse_attr_dict()
        if len(outs) != 1:
            raise parser.error("linalg.map takes one init")
        if short is not None:
            arguments = [BlockArgument(element(v.type)) for v in ins]
            out = element(outs[0].type)
            body = _shorthand_body(parser, short[0], short[1], arguments, out)
        else:
            given = [
                (a.name, a.type, a.location) for a in parser.parse_comma_list("(", ")", parser.parse_argument)
            ]
            body = parser.parse_region(given)
        types = [v.type for v in outs if isinstance(v.type, TensorType)]
        return cls.create((*ins, *outs), types, attributes, (body,), location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        short = _is_shorthand(self.mapper, self.mapper.block.arguments)
        if short is not None:
            _print_shorthand(printer, short)
        _print_group(printer, "ins", self.input_values)
        _print_group(printer, "outs", self.output_values)
        printer.attr_dict(self.attributes)
        if short is None:
            _print_arguments(printer, self.mapper)
            printer.region(self.mapper, print_entry_arguments=False, owner=self.name)

    def _verify_body(self) -> Iterator[str]:
        block = self.mapper.block
        wanted = [element(v.type) for v in self.input_values]
        if [a.type for a in block.arguments] != wanted:
            yield (
                f"expects number of operands to match the arity of mapper, but got: {len(wanted)} and "
                f"{len(block.arguments)}"
            )
        if not isinstance(block.terminator, Yield):
            yield "expects its body to end in 'linalg.yield'"


DIALECT = Dialect(
    "linalg",
    (
        Generic,
        Yield,
        Index,
        Add,
        Sub,
        Mul,
        Div,
        DivUnsigned,
        Max,
        Min,
        PowF,
        Exp,
        Log,
        Abs,
        Ceil,
        Floor,
        Round,
        NegF,
        Sqrt,
        Rsqrt,
        Tanh,
        Erf,
        Square,
        Reciprocal,
        Select,
        Copy,
        Fill,
        Matmul,
        BatchMatmul,
        Matvec,
        Vecmat,
        Dot,
        Reduce,
        Broadcast,
        Transpose,
        Map,
    ),
    (IteratorType,),
)
