"""Code of the coordinator: the kernel function, which launches programs."""

from __future__ import annotations

from attrs import define, field

from dfsched.codegen.facts import KernelFacts, ProgramFacts
from dfsched.codegen.scalars import ScalarEmitter
from dfsched.codegen.tables import Cell, SymbolCell
from dfsched.dialects.symbol import CreateId
from dfsched.image import Launch, Move
from ktir.dialects import arith
from ktir.dialects.func import Call, Return
from ktir.ir import Operation, Value

__all__ = ["CoordinatorEmitter"]


@define
class CoordinatorEmitter(ScalarEmitter):
    """Emits the kernel.  ``s0 ..`` are the window in which a launch passes its parameters."""

    facts: KernelFacts = field(kw_only=True)
    inputs: dict[Value, int] = field(kw_only=True)

    def rows(self, value: Value) -> tuple[Cell, ...] | None:
        if value in self.inputs:
            return (SymbolCell(self.inputs[value]),)
        return ScalarEmitter.rows(self, value)

    def operation(self, op: Operation) -> None:
        match op:
            case Call():
                self._launch(op)
            case CreateId() | Return():
                pass
            case arith.IndexCast() | arith.IndexCastUI() if op.operands[0] in self.inputs:
                self.scalars[op.results[0]] = self.scalar(op.operands[0])  # the host passes the number
            case _:
                ScalarEmitter.operation(self, op)

    def _launch(self, op: Call) -> None:
        program = next(p for p in self.facts.programs if p.call is op)
        values = [op.arguments[position] for position in program.parameters]
        for number, register in enumerate([self.scalar(value) for value in values]):
            self.emit(Move(number, register))
        self.emit(Launch(self.facts.programs.index(program), 0))


def window(programs: tuple[ProgramFacts, ...]) -> int:
    """Registers that the widest launch needs."""
    return max((len(program.parameters) for program in programs), default=0)
