"""KTDFLow to DataflowIR: one program unit per unit kind (dataflowir spec 3.1 to 3.11)."""

from __future__ import annotations

from dfsched.architecture import Architecture
from dfsched.dialects.dataflow import GetUnit, ProgramUnit
from dfsched.dialects.ktdf_lowering import ExecuteOn, Signal
from dfsched.dialects.symbol import CreateId
from dfsched.lowering.errors import LoweringError
from dfsched.lowering.function_builder import FunctionBuilder
from dfsched.lowering.functions import grid_size, map_functions
from dfsched.lowering.program_unit import ProgramUnitBuilder
from dfsched.lowering.scalar_body import check_instructions
from dfsched.lowering.symbols import SymbolAllocator
from dfsched.lowering.unit_kinds import UnitKinds
from dfsched.options import Profile
from dfsched.passes.ir_tools import check_structured
from ktir.analysis import DefUse
from ktir.attributes import StringAttr
from ktir.dialects.builtin import Module
from ktir.dialects.func import Call, Func
from ktir.ir import Operation, Region
from ktir.machine import F16Format
from ktir.types import IndexType

__all__ = ["lower_to_dfir"]

_FORBIDDEN = ("ktdf", "ktdf_lowering", "ktdp", "linalg", "tensor")
_FORBIDDEN_OPS = (
    "builtin.unrealized_conversion_cast",
    "memref.memory_space_cast",
    "memref.reinterpret_cast",
    "memref.cast",
)


def lower_to_dfir(module: Module, architecture: Architecture, profile: Profile = Profile.DEFAULT) -> Module:
    """Every function with work, lowered; kernels declare their arguments as symbols.

    Raises `LoweringError`.
    """
    symbols = SymbolAllocator.of(module)
    unit = module.attributes.get("ktdp.address_unit")
    byte_addresses = isinstance(unit, StringAttr) and unit.value == "byte"
    f16_format = architecture.machine().for_module(module.attributes).f16_format

    def rewrite(function: Func) -> Func:
        if function.is_declaration:
            return function
        lowered = _function(function, architecture, symbols, byte_addresses, profile, f16_format)
        if any(function is kernel for kernel in symbols.kernels):
            lowered = _declare_inputs(lowered)
        _check(lowered)
        return lowered

    return map_functions(module, rewrite)


def _function(
    function: Func,
    architecture: Architecture,
    symbols: SymbolAllocator,
    byte_addresses: bool,
    profile: Profile,
    f16_format: F16Format,
) -> Func:
    check_structured(function)
    block = function.body.block
    uses = DefUse(function)
    work = list(block.operations[:-1])
    kinds = UnitKinds.discover(work, uses)
    if not kinds.kinds:
        return function
    if any(isinstance(op, Call | ProgramUnit) for op in function.walk()):
        raise LoweringError.at(function.location, "a function holds program units and calls or pipelines")
    _check_signals(function, uses, kinds)
    check_instructions(function)
    corelets = sorted({max(unit.corelet, 0) for kind in kinds.kinds.values() for unit in kind.units})
    shared = FunctionBuilder(
        function, architecture, symbols, grid_size(function), tuple(corelets), profile, f16_format
    )
    units = [
        ProgramUnitBuilder(shared, kinds, kind, byte_addresses).build(work) for kind in kinds.kinds.values()
    ]
    used = {value for unit in units for op in unit.walk() for value in op.operands}
    handles: list[Operation] = [
        op for op in block.operations if isinstance(op, GetUnit) and not used.isdisjoint(op.results)
    ]
    prelude = shared.operations(handles)
    needed = used | {value for op in prelude for value in op.operands}
    prelude = [op for op in prelude if isinstance(op, CreateId) or not needed.isdisjoint(op.results)]
    body = (*prelude, *units, block.terminator)
    changed = function.replace(attributes={"ktdf.plan": None, "ktdf.arguments": None})
    return changed.replace(regions=(Region((block.replace(operations=body),)),))


def _check_signals(function: Func, uses: DefUse, kinds: UnitKinds) -> None:
    """A signal must name a unit that runs the code it stands in: nobody else would get to it."""
    for op in function.walk():
        if not isinstance(op, Signal):
            continue
        around = next((outer for outer in uses.ancestors(op) if isinstance(outer, ExecuteOn)), None)
        if around is None:
            continue
        named = {kinds.resolve(unit, op, "for unit operand")[0] for unit in kinds.signal_operands(op)}
        here = {kinds.resolve(unit, op, "for unit operand")[0] for unit in around.units}
        if named.isdisjoint(here):
            raise LoweringError.at(
                op.location,
                "signal must include at least one query_map whose first mapping result is in the current "
                "program_unit",
            )


def _declare_inputs(kernel: Func) -> Func:
    """``symbol.create_id`` for every index argument, and every other one that a call passes on or that the
    kernel itself counts or decides with."""
    block = kernel.body.block
    known = {op.value for op in block.operations if isinstance(op, CreateId)}
    used = {value for op in kernel.walk() for value in op.operands}
    fresh = [
        CreateId.of(argument, -(position + 1))
        for position, argument in enumerate(kernel.arguments)
        if argument not in known and (isinstance(argument.type, IndexType) or argument in used)
    ]
    return kernel.replace(regions=(Region((block.replace(operations=(*fresh, *block.operations)),)),))


def _check(function: Func) -> None:
    """No operation of an earlier level may be left."""
    for op in function.walk():
        if is_of_an_earlier_level(op):
            raise LoweringError.at(op.location, f"DataflowIR still contains '{op.name}'")


def is_of_an_earlier_level(op: Operation) -> bool:
    """Whether an operation has no place in DataflowIR (dataflowir spec 0.5)."""
    return op.name.partition(".")[0] in _FORBIDDEN or op.name in _FORBIDDEN_OPS
