"""`ktdf.opaque`: an instruction template of the target (scheduler spec 1.11)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Self

from ktir.attributes import DenseArrayAttr, StringAttr
from ktir.ir import Operation, Value
from ktir.opdef import OPERAND_SEGMENTS, attribute, operation, variadic_operand, variadic_result
from ktir.types import I32, ShapedType, TensorType, Type

if TYPE_CHECKING:
    from ktir.parser import OpParser
    from ktir.parser.operations import Unresolved
    from ktir.printer import Printer
    from ktir.verifier import Verifier

__all__ = ["Opaque"]


@operation("ktdf.opaque")
class Opaque(Operation):
    """Destination-passing instruction named by `template`; results are the tensor outs."""

    ins = variadic_operand()
    outs = variadic_operand()
    template = attribute(StringAttr, name="template_name")
    values = variadic_result()

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        template = parser.parse_string()
        attributes = dict(parser.parse_attr_dict())
        results: Sequence[Type] = parser.parse_type_list() if parser.accept("->") else ()
        groups: list[list[Value]] = []
        for keyword in ("ins", "outs"):
            parser.expect_keyword(keyword)
            parser.expect("(")
            uses: list[Unresolved] = parser.parse_operand_list()
            types: Sequence[Type] = ()
            if uses:
                parser.expect(":")
                types = parser.parse_type_list()
            parser.expect(")")
            groups.append(parser.resolve_all(uses, types))
        attributes["template_name"] = StringAttr(template)
        attributes[OPERAND_SEGMENTS] = DenseArrayAttr(I32, (len(groups[0]), len(groups[1])))
        return cls.create(
            [*groups[0], *groups[1]],
            results,
            attributes,
            location=parser.location,
            names=parser.result_names,
        )

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.attribute(self.template)
        printer.attr_dict(self.attributes, elided=("template_name", OPERAND_SEGMENTS))
        if self.results:
            printer.write(" -> ")
            printer.types([value.type for value in self.results])
        for keyword, values in (("ins", self.ins), ("outs", self.outs)):
            printer.write(f" {keyword}(")
            if values:
                printer.operands(values)
                printer.write(" : ")
                printer.types([value.type for value in values])
            printer.write(")")

    def verify_op(self, verifier: Verifier) -> Iterator[str]:
        if any(not isinstance(value.type, ShapedType) for value in self.outs):
            yield "outs must be shaped values"
        tensors = tuple(value.type for value in self.outs if isinstance(value.type, TensorType))
        if tuple(value.type for value in self.results) != tensors:
            yield "results must be the tensor outs, in order"
