"""What is known of a value before a program runs: numbers, unit and memory handles, maps.

Everything that differs between units is one entry a row; symbols are numbers here, because the launch is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from dfsched.dialects.dataflow import GetUnit
from dfsched.dialects.symbol import CreateSymbol, SymbolImmutableMapping, SymbolQueryMap
from dfsched.dialects.uniform import DefImmutableMapping, QueryMap
from ktir.attributes import FloatAttr, IntegerAttr
from ktir.dialects import arith
from ktir.dtypes import literal_bits
from ktir.ir import Operation, Value
from ktir.machine import F16Format
from ktir.types import IndexType, IntegerType
from spyresim.errors import ControlFault, Site


@attrs.frozen
class Number:
    """An integer in every row; `symbolic`: it comes from a symbol (so a start counts words)."""

    rows: tuple[int, ...]
    symbolic: bool = False

    @property
    def uniform(self) -> int | None:
        """The number of all rows, if it is one."""
        return self.rows[0] if len(set(self.rows)) == 1 else None


@attrs.frozen
class Handle:
    """A unit or memory (its `get_unit`) in every row."""

    rows: tuple[GetUnit, ...]


@attrs.frozen
class Table:
    """A map from the names of units to what is known of the values."""

    entries: tuple[tuple[str, Static], ...]

    def get(self, name: str) -> Static | None:
        return next((value for key, value in self.entries if key == name), None)


Static = Number | Handle | Table


def spread(value: Static, rows: int) -> Static:
    """A value known for one row, for `rows` rows."""
    match value:
        case Number(rows=(only,), symbolic=symbolic):
            return Number((only,) * rows, symbolic)
        case Handle(rows=(only,)):
            return Handle((only,) * rows)
        case _:
            return value


class Statics:
    """Evaluates operations whose operands are all known."""

    def __init__(
        self,
        symbols: Mapping[int, int],
        known: Mapping[Value, Static],
        rows: int,
        f16_format: F16Format = F16Format.IEEE,
    ) -> None:
        self.symbols = symbols
        self.known: dict[Value, Static] = {value: spread(static, rows) for value, static in known.items()}
        self.rows = rows
        self.f16_format = f16_format

    def get(self, value: Value) -> Static | None:
        return self.known.get(value)

    def number(self, value: Value) -> Number | None:
        found = self.known.get(value)
        return found if isinstance(found, Number) else None

    def evaluate(self, op: Operation) -> bool:
        """Note what the operation's result is; False if that is not known."""
        found = self._evaluate(op)
        if found is None:
            return False
        self.known[op.results[0]] = found
        return True

    def _evaluate(self, op: Operation) -> Static | None:
        match op:
            case GetUnit():
                return Handle((op,) * self.rows)
            case CreateSymbol(id=int(id)):
                if id not in self.symbols:
                    raise ControlFault(f"unbound symbol {id}", site=Site(op.name, op.location))
                return Number((self.symbols[id],) * self.rows, True)
            case DefImmutableMapping() | SymbolImmutableMapping():
                return self._table(op)
            case QueryMap() | SymbolQueryMap():
                return self._query(op)
            case arith.Constant(value=IntegerAttr(value=value)):
                return Number((value,) * self.rows)
            case arith.Constant(value=FloatAttr(bits=bits, type=type)):
                return Number((literal_bits(bits, type, self.f16_format),) * self.rows)
            case _ if len(op.results) == 1 and not op.regions:
                return self._folded(op)
            case _:
                return None

    def _table(self, op: DefImmutableMapping | SymbolImmutableMapping) -> Static | None:
        entries: list[tuple[str, Static]] = []
        half = len(op.operands) // 2
        for key, value in zip(op.operands[:half], op.operands[half:], strict=True):
            handle, static = self.known.get(key), self.known.get(value)
            if not isinstance(handle, Handle) or static is None:
                return None
            entries.append((handle.rows[0].unit_name.value, static))
        return Table(tuple(entries))

    def _query(self, op: QueryMap | SymbolQueryMap) -> Static | None:
        table, key = self.known.get(op.map), self.known.get(op.key)
        if not isinstance(table, Table) or not isinstance(key, Handle):
            return None
        picked: list[Static] = []
        for row, unit in enumerate(key.rows):
            found = table.get(unit.unit_name.value)
            if found is None:
                raise ControlFault(
                    "no entry for key in query_map",
                    site=Site(op.name, op.location, unit=unit.unit_name.value),
                )
            picked.append(_row(found, row))
        return _join(picked)

    def _folded(self, op: Operation) -> Static | None:
        operands = [self.known.get(value) for value in op.operands]
        numbers = [value for value in operands if isinstance(value, Number)]
        if not operands or len(numbers) != len(operands):
            return None
        types = [value.type for value in op.operands]
        if not all(isinstance(type, IndexType | IntegerType) for type in types):
            return None
        rows: list[int] = []
        for row in range(self.rows):
            constants = [IntegerAttr(n.rows[row], type) for n, type in zip(numbers, types, strict=True)]
            folded = op.fold(constants)
            if folded is None or len(folded) != 1:
                return None
            match folded[0]:
                case IntegerAttr(value=value):
                    rows.append(value)
                case Value() as same:
                    number = self.number(same)
                    if number is None:
                        return None
                    rows.append(number.rows[row])
                case _:
                    return None
        return Number(tuple(rows), any(n.symbolic for n in numbers))


def _row(value: Static, row: int) -> Static:
    match value:
        case Number(rows=rows, symbolic=symbolic):
            return Number((rows[row if len(rows) > 1 else 0],), symbolic)
        case Handle(rows=handles):
            return Handle((handles[row if len(handles) > 1 else 0],))
        case _:
            return value


def _join(rows: Sequence[Static]) -> Static | None:
    if all(isinstance(row, Number) for row in rows):
        numbers = [row for row in rows if isinstance(row, Number)]
        return Number(tuple(n.rows[0] for n in numbers), any(n.symbolic for n in numbers))
    if all(isinstance(row, Handle) for row in rows):
        return Handle(tuple(row.rows[0] for row in rows if isinstance(row, Handle)))
    return rows[0] if all(row == rows[0] for row in rows) else None
