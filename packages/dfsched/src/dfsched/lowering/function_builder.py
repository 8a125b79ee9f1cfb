"""The function level of a DataflowIR program: constants, units, symbol definitions."""

from __future__ import annotations

from attrs import define, field

from dfsched.architecture import Architecture, Scope
from dfsched.architecture.kinds import Kind, kind_text
from dfsched.dialects.dataflow import GetUnit
from dfsched.dialects.symbol import CreateId
from dfsched.lowering.errors import LoweringError, UnsupportedLowering
from dfsched.lowering.symbols import DerivedSymbol, SymbolAllocator
from dfsched.options import Profile
from ktir.attribute import Attribute
from ktir.attributes import IntegerAttr, index_attr
from ktir.dialects import arith
from ktir.dialects.func import Func
from ktir.ir import Operation, Value
from ktir.location import Location
from ktir.machine import F16Format
from ktir.types import IndexType

__all__ = ["FunctionBuilder"]


@define
class FunctionBuilder:
    """Collects what program units of one function share; everything is made once, on first use."""

    function: Func
    architecture: Architecture
    symbols: SymbolAllocator
    grid: int
    corelets: tuple[int, ...]
    profile: Profile
    f16_format: F16Format
    _constants: dict[Attribute, arith.Constant] = field(factory=dict)
    _memories: dict[Kind, tuple[GetUnit, ...]] = field(factory=dict)
    _definitions: list[Operation] = field(factory=list)
    _declared: set[int] = field(factory=set)
    _inputs: dict[int, Value] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        for argument in self.function.arguments:
            number = self.symbols.input_of(self.function, argument)
            if number is not None:
                self._inputs[number] = argument

    def constant(self, value: Attribute | int) -> Value:
        """A constant at function level."""
        attribute = index_attr(value) if isinstance(value, int) else value
        if attribute not in self._constants:
            self._constants[attribute] = arith.Constant.of(attribute)
        return self._constants[attribute].result

    # -- memories

    def memory(self, kind: Kind, location: Location) -> tuple[GetUnit, ...]:
        """Handles of a memory: one for device memory and for memories private to a unit, else one per core,
        or per core and corelet where the device has one for each corelet."""
        if kind not in self._memories:
            tag = kind_text(kind).lower()
            architecture = self.architecture
            if not architecture.is_memory(kind):
                raise LoweringError.at(
                    location, f"Unknown memory space classification for: {kind_text(kind)}"
                )
            if kind != tag.upper():
                raise UnsupportedLowering.at(
                    location,
                    f"memory kind '{kind_text(kind)}' of device '{architecture.name}' is no name in upper "
                    "case, so handles cannot name it",
                )
            units: tuple[GetUnit, ...]
            if architecture.is_global(kind) or architecture.is_private(kind):
                units = (GetUnit.of(tag, tag),)
            elif architecture.scope(kind) is Scope.CORELET:
                units = tuple(
                    GetUnit.of(f"C{core}-{tag}" + (f"-CL{corelet}" if corelet else ""), tag, core, corelet)
                    for corelet in self.corelets
                    for core in range(self.grid)
                )
            elif architecture.scope(kind) is Scope.CORE:
                units = tuple(GetUnit.of(f"C{core}-{tag}", tag, core) for core in range(self.grid))
            else:
                raise LoweringError.at(
                    location, f"Unknown memory space classification for: {kind_text(kind)}"
                )
            self._memories[kind] = tuple(unit.replace(location=location) for unit in units)
        return self._memories[kind]

    # -- symbols

    def symbol(self, definition: DerivedSymbol) -> int:
        """Declare a derived symbol (once in this function); its id."""
        number = self.symbols.derived(definition)
        self.use_input(definition.input)
        if number not in self._declared:
            self._declared.add(number)
            value = self._inputs[definition.input]
            if definition.displacement:
                value = self._define(arith.AddI, value, self.constant(definition.displacement))
            if definition.word > 1:
                value = self._define(arith.DivSI, value, self.constant(definition.word))
            self._definitions.append(CreateId.of(value, number))
        return number

    def use_input(self, number: int) -> None:
        """Declare a run input."""
        if number not in self._declared:
            self._declared.add(number)
            self._definitions.append(CreateId.of(self._inputs[number], number))

    def _define(self, cls: type[arith.AddI] | type[arith.DivSI], a: Value, b: Value) -> Value:
        op = cls.create((a, b), (a.type,))
        self._definitions.append(op)
        return op.results[0]

    # -- result

    def operations(self, units: list[Operation]) -> list[Operation]:
        """Constants (sorted), `units` (handles), memories, symbol definitions: the start of the function."""
        constants = [self._constants[key] for key in sorted(self._constants, key=_order)]
        memories = [unit for handles in self._memories.values() for unit in handles]
        inputs = [op for op in self._definitions if isinstance(op, CreateId) and op.id in self._inputs]
        inputs.sort(key=lambda op: -op.id)
        derived = [op for op in self._definitions if not (isinstance(op, CreateId) and op.id in self._inputs)]
        return [*constants, *units, *memories, *inputs, *derived]


def _order(value: Attribute) -> tuple[str, int, str]:
    match value:
        case IntegerAttr(value=number, type=type):
            return ("" if isinstance(type, IndexType) else str(type), number, "")
        case _:
            return (str(value), 0, "")
