"""The `symbol` dialect: numbers that are known only at launch (dataflowir spec 1.5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Self

from dfsched.dialects.uniform import parse_entries, parse_query, print_entries, print_query
from ktir.attributes import IntegerAttr
from ktir.constraints import INDEX
from ktir.context import Dialect
from ktir.errors import Diagnostic
from ktir.ir import BlockArgument, Operation, Value
from ktir.opdef import PURE, WRITES, attribute, operand, operation, result, variadic_operand
from ktir.types import I64, IndexType, IntegerType, Signedness
from ktir.types import INDEX as INDEX_TYPE

if TYPE_CHECKING:
    from ktir.parser import OpParser
    from ktir.printer import Printer
    from ktir.verifier import Verifier

__all__ = ["SI64", "SYMBOL", "CreateId", "CreateSymbol", "SymbolImmutableMapping", "SymbolQueryMap"]

SI64 = IntegerType(64, Signedness.SIGNED)


@operation("symbol.create_symbol", assembly="attr-dict `:` type($value)", traits=(PURE,))
class CreateSymbol(Operation):
    """A placeholder for the number that symbol ``SymbolId`` will be."""

    value = result(INDEX)

    @classmethod
    def of(cls, id: int) -> Self:
        return cls.create((), (INDEX_TYPE,), {"SymbolId": IntegerAttr(id, I64)})

    @property
    def id(self) -> int | None:
        """The symbol's (negative) id; None if the attribute is missing."""
        found = self.attributes.get("SymbolId")
        return found.value if isinstance(found, IntegerAttr) else None


@operation("symbol.create_id", assembly="$value attr-dict `:` type($value)", traits=(WRITES,))
class CreateId(Operation):
    """Says that symbol `symbol_id` is `value`; never removed."""

    value = operand()
    symbol_id = attribute(IntegerAttr)

    @classmethod
    def of(cls, value: Value, id: int) -> Self:
        return cls.create((value,), attributes={"symbol_id": IntegerAttr(id, SI64)})

    @property
    def id(self) -> int:
        return self.symbol_id.value


@operation("symbol.symbol_immutable_mapping", traits=(PURE,))
class SymbolImmutableMapping(Operation):
    """A map from constants to symbols."""

    entries = variadic_operand(INDEX)
    mapping = result(INDEX)

    @property
    def keys(self) -> tuple[Value, ...]:
        return self.operands[: len(self.operands) // 2]

    @property
    def values(self) -> tuple[Value, ...]:
        return self.operands[len(self.operands) // 2 :]

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        keys, values = parse_entries(parser)
        attributes = parser.parse_attr_dict()
        parser.expect(":", "in front of the result type")
        kind = parser.parse_type()
        operands = [parser.resolve(use, INDEX_TYPE) for use in (*keys, *values)]
        return cls.create(operands, (kind,), attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        print_entries(printer, self.keys, self.values)
        printer.attr_dict(self.attributes)
        printer.write(" : index")

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        from ktir.dialects.arith import Constant

        if len(self.operands) % 2:
            yield "Mismatching keys/values sizes in SymbolImmutableMapping"
            return
        if not all(isinstance(verifier.definer(key), Constant) for key in self.keys):
            yield "All keys expected to be constant operations"
        if not all(isinstance(verifier.definer(value), CreateSymbol) for value in self.values):
            yield "Values in SymbolImmutableMapping should be results of symbol.create_symbol"
        if not all(isinstance(value.type, IndexType) for value in self.values):
            yield "Values in SymbolImmutableMapping expected to have Index type"


@operation("symbol.query_map", traits=(PURE,))
class SymbolQueryMap(Operation):
    """Selects a symbol by the current value of a loop variable."""

    map = operand(INDEX)
    key = operand(INDEX)
    value = result(INDEX)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        uses = parse_query(parser)
        attributes = parser.parse_attr_dict()
        parser.expect(":", "in front of the result type")
        kind = parser.parse_type()
        operands = [parser.resolve(use, INDEX_TYPE) for use in uses]
        return cls.create(operands, (kind,), attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        print_query(printer, self.map, self.key)
        printer.attr_dict(self.attributes)
        printer.write(" : index")

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        if isinstance(self.key, BlockArgument):
            block = verifier.defuse.defining_block(self.key)
            owner = None if block is None else verifier.defuse.owner(block)
            if owner is None or owner.name != "scf.for":
                yield "key's parentOp must be a ForOp."
        if not isinstance(verifier.definer(self.map), SymbolImmutableMapping):
            yield "map's defOp must be symbol_immutable_mapping op."


SYMBOL = Dialect("symbol", operations=(CreateSymbol, CreateId, SymbolImmutableMapping, SymbolQueryMap))
