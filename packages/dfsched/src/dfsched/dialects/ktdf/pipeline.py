"""Pipelines, stages and private resources of `ktdf` (scheduler spec 1.6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Self

from dfsched.dialects.ktdf.queue import CreateToken
from dfsched.dialects.ktdf.types import TOKEN
from ktir.attribute import Attribute
from ktir.attributes import ArrayAttr, DenseArrayAttr, IntegerAttr, StringAttr
from ktir.errors import Diagnostic, Note
from ktir.ir import Operation, OpResult, Region, Value
from ktir.opdef import (
    NO_TERMINATOR,
    OPERAND_SEGMENTS,
    SINGLE_BLOCK,
    TERMINATOR,
    operation,
    optional_attribute,
    region,
    variadic_operand,
    variadic_result,
)
from ktir.types import I32, I64, Type

if TYPE_CHECKING:
    from ktir.parser import OpParser
    from ktir.printer import Printer
    from ktir.verifier import Verifier

__all__ = ["Pipeline", "Private", "PrivateYield", "Stage"]


def _one_block(parsed: Region) -> Region:
    """An empty ``{ }`` is one empty block."""
    return parsed if parsed.blocks else Region.of(())


@operation("ktdf.pipeline", traits=(NO_TERMINATOR, SINGLE_BLOCK))
class Pipeline(Operation):
    """A directed acyclic graph of stages; in a loop, iterations overlap.

    `modulo` is the number of copies of the private resources that iterations rotate through.
    """

    modulo = optional_attribute(IntegerAttr)
    body = region()

    @classmethod
    def of(cls, operations: Sequence[Operation], attributes: dict[str, Attribute] | None = None) -> Self:
        """A pipeline of the given private and stages."""
        return cls.create((), (), attributes or {}, [Region.of(operations)])

    @property
    def private(self) -> Private | None:
        """The operation that yields the private resources, if there is one."""
        return next((op for op in self.body.block.operations if isinstance(op, Private)), None)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The direct stages, in program order."""
        return tuple(op for op in self.body.block.operations if isinstance(op, Stage))

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        attributes: dict[str, Attribute] = {}
        if parser.accept_keyword("modulo"):
            parser.expect("(")
            parser.expect_keyword("size")
            parser.expect(":")
            attributes["modulo"] = IntegerAttr(parser.parse_integer(), I64)
            parser.expect(")")
        body = _one_block(parser.parse_region())
        attributes.update(parser.parse_attr_dict())
        return cls.create((), (), attributes, [body], location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        if self.modulo is not None:
            printer.write(f" modulo(size : {self.modulo.value})")
        printer.write(" ")
        printer.region(self.body)
        printer.attr_dict(self.attributes, elided=("modulo",))

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        if self.modulo is not None and self.modulo.value < 1:
            yield f"modulo must be at least 1, but is {self.modulo.value}"
        first: Private | None = None
        for op in self.body.block.operations:
            match op:
                case Stage():
                    pass
                case Private():
                    if first is not None:
                        yield Diagnostic(
                            "'ktdf.pipeline' op may hold at most one 'ktdf.private'",
                            op.location,
                            notes=(Note("the first one is here", first.location),),
                        )
                    first = first or op
                case _:
                    yield Diagnostic(
                        "'ktdf.pipeline' op may directly hold only 'ktdf.stage' and 'ktdf.private'",
                        self.location,
                        notes=(Note(f"'{op.name}' is here", op.location),),
                    )


@operation("ktdf.private_yield", traits=(TERMINATOR,), parents=("ktdf.private",))
class PrivateYield(Operation):
    """The resources that a pipeline owns."""

    values = variadic_operand()

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        attributes = parser.parse_attr_dict()
        operands = parser.parse_operand_list()
        types: Sequence[Type] = ()
        if operands:
            parser.expect(":")
            types = parser.parse_type_list()
        values = parser.resolve_all(operands, types)
        return cls.create(values, (), attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.attr_dict(self.attributes)
        if self.operands:
            printer.write(" ")
            printer.operands(self.operands)
            printer.write(" : ")
            printer.types([value.type for value in self.operands])


@operation(
    "ktdf.private",
    traits=(SINGLE_BLOCK,),
    parents=("ktdf.pipeline",),
    implicit_terminator=lambda: PrivateYield.create(),
)
class Private(Operation):
    """Resources that belong to one pipeline: slots, buffers, tokens; each result is what the body yields."""

    resources = variadic_result()
    body = region()

    @classmethod
    def of(cls, operations: Sequence[Operation], yields: Sequence[Value]) -> Self:
        """A private whose results have the types and name hints of `yields`."""
        terminator = PrivateYield.create(yields)
        return cls.create(
            (),
            [value.type for value in yields],
            {},
            [Region.of([*operations, terminator])],
            names=[value.name for value in yields],
        )

    @property
    def yielded(self) -> tuple[Value, ...]:
        """What the body yields, in the order of the results."""
        return self.body.block.terminator.operands

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        types: Sequence[Type] = ()
        if parser.accept("->"):
            types = parser.parse_comma_list("(", ")", parser.parse_type)
        body = _one_block(parser.parse_region())
        if len(body.blocks) > 1:
            raise parser.error("expected the body of 'ktdf.private' to be one block")
        block = body.block
        if not block.operations or not isinstance(block.operations[-1], PrivateYield):
            body = Region((block.replace(operations=(*block.operations, PrivateYield.create())),))
        attributes = parser.parse_attr_dict_with_keyword()
        return cls.create((), types, attributes, [body], location=parser.location, names=parser.result_names)

    def print_custom(self, printer: Printer) -> None:
        if self.results:
            printer.write(" -> (")
            printer.types([value.type for value in self.results])
            printer.write(")")
        printer.write(" ")
        printer.region(self.body, print_terminator=bool(self.results))
        printer.attr_dict(self.attributes, keyword=True)

    def verify_op(self, verifier: Verifier) -> Iterator[str]:
        operations = self.body.block.operations
        if not operations or not isinstance(operations[-1], PrivateYield):
            yield "expects its body to end in 'ktdf.private_yield'"
            return
        if len(self.yielded) != len(self.results):
            yield f"has {len(self.results)} results, but its body yields {len(self.yielded)} values"
            return
        for index, (value, declared) in enumerate(zip(self.yielded, self.results, strict=True)):
            if value.type != declared.type:
                yield f"result #{index} has type {declared.type}, but the body yields {value.type}"


def _token_list(parser: OpParser, keyword: str) -> list[Value]:
    parser.expect_keyword(keyword)
    parser.expect("(")
    if parser.accept_keyword("none"):
        parser.expect(")")
        return []
    from dfsched.dialects.ktdf.types import TokenType

    tokens = [parser.resolve(token, TokenType()) for token in parser.parse_operand_list()]
    parser.expect(")")
    return tokens


@operation("ktdf.stage", traits=(NO_TERMINATOR, SINGLE_BLOCK), parents=("ktdf.pipeline",))
class Stage(Operation):
    """One step of a pipeline; works on iteration t after all stages whose tokens it lists finished t.

    `applicable_units` names the unit kind that runs a leaf stage, or the union for an enclosing one.
    """

    depends_in = variadic_operand(TOKEN)
    depends_out = variadic_operand(TOKEN)
    applicable_units = optional_attribute(ArrayAttr)
    body = region()

    @classmethod
    def of(
        cls,
        depends_in: Sequence[Value],
        depends_out: Sequence[Value],
        operations: Sequence[Operation],
        units: Sequence[str] | None = None,
        attributes: dict[str, Attribute] | None = None,
    ) -> Self:
        """A stage with the given tokens and body; `units` None leaves `applicable_units` away."""
        entries: dict[str, Attribute] = dict(attributes or {})
        entries[OPERAND_SEGMENTS] = DenseArrayAttr(I32, (len(depends_in), len(depends_out)))
        if units is not None:
            entries["applicable_units"] = ArrayAttr(tuple(StringAttr(unit) for unit in units))
        return cls.create([*depends_in, *depends_out], (), entries, [Region.of(operations)])

    @property
    def units(self) -> tuple[str, ...] | None:
        """The unit kinds by name, or None when the stage names none."""
        if self.applicable_units is None:
            return None
        return tuple(
            unit.value if isinstance(unit, StringAttr) else str(unit) for unit in self.applicable_units
        )

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        depends_in = _token_list(parser, "depends_in")
        depends_out = _token_list(parser, "depends_out")
        body = _one_block(parser.parse_region())
        attributes = dict(parser.parse_attr_dict())
        attributes[OPERAND_SEGMENTS] = DenseArrayAttr(I32, (len(depends_in), len(depends_out)))
        return cls.create([*depends_in, *depends_out], (), attributes, [body], location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        for keyword, tokens in (("depends_in", self.depends_in), ("depends_out", self.depends_out)):
            printer.write(f" {keyword}(")
            if tokens:
                printer.operands(tokens)
            else:
                printer.write("none")
            printer.write(")")
        printer.write(" ")
        printer.region(self.body)
        printer.attr_dict(self.attributes, elided=(OPERAND_SEGMENTS,))

    def verify_op(self, verifier: Verifier) -> Iterator[str]:
        for where, tokens in (("depends_in", self.depends_in), ("depends_out", self.depends_out)):
            for token in tokens:
                if not _is_token_source(token, verifier):
                    yield f"{where} token must come from 'ktdf.create_token' (maybe through 'ktdf.private')"


def _is_token_source(token: Value, verifier: Verifier) -> bool:
    seen: set[int] = set()
    value = token
    while id(value) not in seen:
        seen.add(id(value))
        match verifier.definer(value):
            case CreateToken():
                return True
            case Private() as private if isinstance(value, OpResult):
                position = private.results.index(value)
                if position >= len(private.yielded):
                    return False
                value = private.yielded[position]
            case _:
                return False
    return False
