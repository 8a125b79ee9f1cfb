"""Run inputs and derived symbols of a module (dataflowir spec 3.4.1)."""

from __future__ import annotations

from attrs import define, field, frozen

from dfsched.lowering.errors import LoweringError
from dfsched.lowering.functions import all_functions, calls
from ktir.dialects.builtin import Module
from ktir.dialects.func import Call, Func
from ktir.ir import BlockArgument, Value

__all__ = ["DerivedSymbol", "SymbolAllocator"]

LOWEST = -(2**63)


@frozen
class DerivedSymbol:
    """``(input + displacement) / word``: the whole start address, in words; displacement in bytes."""

    input: int
    displacement: int
    word: int


@define
class SymbolAllocator:
    """Numbers the kernel's inputs -1, -2, … and derived symbols below; equal definitions share a number."""

    kernels: list[Func]
    _calls: dict[str, list[Call]]
    _derived: dict[DerivedSymbol, int] = field(factory=dict)
    _next: int = 0

    @classmethod
    def of(cls, module: Module) -> SymbolAllocator:
        """Find the kernels of a module: functions with a body that no single call reaches."""
        found: dict[str, list[Call]] = {}
        for call in calls(module):
            found.setdefault(call.callee.root, []).append(call)
        functions = [f for f in all_functions(module) if not f.is_declaration]
        kernels = [f for f in functions if len(found.get(f.symbol, ())) != 1]
        inputs = sum(len(kernel.arguments) for kernel in kernels)
        return cls(kernels, found, {}, -inputs - 1)

    def input_of(self, function: Func, value: Value) -> int | None:
        """The symbol of the run input behind a function argument; None if it is something else."""
        for _ in range(8):
            if value not in function.arguments:
                return None
            assert isinstance(value, BlockArgument)
            position = function.arguments.index(value)
            if any(kernel is function or kernel.symbol == function.symbol for kernel in self.kernels):
                if len(self.kernels) > 1:
                    raise LoweringError.at(function.location, "symbolic addresses need a single kernel")
                return -(position + 1)
            (call,) = self._calls[function.symbol]
            value = call.arguments[position]
            caller = next((k for k in self.kernels if any(op is call for op in k.walk())), None)
            if caller is None:
                return None
            function = caller
        return None

    def derived(self, definition: DerivedSymbol) -> int:
        """The id of a derived symbol; a bare input in bytes is the input itself."""
        if definition.word == 1 and definition.displacement == 0:
            return definition.input
        if definition not in self._derived:
            self._derived[definition] = self._next
            self._next -= 1
        return self._derived[definition]
