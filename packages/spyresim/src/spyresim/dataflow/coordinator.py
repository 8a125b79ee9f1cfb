"""A kernel of DataflowIR with its arguments: the launches that it makes, as an image for the engine.

The kernel function is interpreted here, in Python: its loops and conditions are uniform.  Every launch of a
program (with the values of its arguments) becomes one program of the image; the image's coordinator is the
sequence of launches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from dfsched import image as im
from dfsched.architecture import Architecture
from dfsched.dialects.dataflow import ProgramUnit
from dfsched.dialects.symbol import CreateId
from dfsched.dialects.vectorchain import ConstantBitstream
from ktir.dialects import arith, scf
from ktir.dialects.func import Call, Func, Return
from ktir.ir import Block, Operation, Value
from ktir.machine import F16Format
from ktir.types import VectorType
from spyresim.dataflow.files import DataflowFiles
from spyresim.dataflow.statics import Handle, Number, Static, Statics
from spyresim.dataflow.tables import USUAL_STARTS, ConstantStarts, Tables
from spyresim.dataflow.unit_program import UnitReader
from spyresim.errors import (
    ArgumentError,
    BudgetFault,
    ControlFault,
    MisalignedFault,
    Site,
    UnsupportedError,
)

MAX_LAUNCHES = 100_000


@attrs.frozen(eq=False)
class KernelProgram:
    """The image of one run, and what every instruction of its unit programs was made from, by label."""

    image: im.Image
    sources: Mapping[str, tuple[Site, ...]]


def kernel_image(
    files: DataflowFiles,
    architecture: Architecture,
    arguments: Sequence[int],
    constants: ConstantStarts = USUAL_STARTS,
) -> im.Image:
    """The image of `kernel_program`."""
    return kernel_program(files, architecture, arguments, constants).image


def kernel_program(
    files: DataflowFiles,
    architecture: Architecture,
    arguments: Sequence[int],
    constants: ConstantStarts = USUAL_STARTS,
) -> KernelProgram:
    """A kernel with its arguments as the engine runs it.

    `arguments` are the kernel's, in order: byte addresses (device virtual) of pointers, values of scalars.
    `constants` says what constant start addresses count.

    Raises UnsupportedError for operations that the engine does not know, ControlFault for symbols without
    value and the like.
    """
    kernel = _Kernel(files, architecture, constants)
    return KernelProgram(kernel.run(arguments), kernel.sources)


class _Kernel:
    def __init__(self, files: DataflowFiles, architecture: Architecture, constants: ConstantStarts) -> None:
        self.files = files
        self.f16_format = F16Format(files.f16_format)
        self.tables = Tables(architecture, constants, self.f16_format)
        self.divisions: dict[Value, arith.DivSI] = {}
        self.programs: list[im.Program] = []
        self.launches: list[int] = []
        self.sources: dict[str, tuple[Site, ...]] = {}
        self.known: dict[tuple[str, tuple[int, ...], tuple[tuple[int, int], ...]], int] = {}

    def run(self, arguments: Sequence[int]) -> im.Image:
        kernel = self.files.kernel
        if len(kernel.arguments) != len(arguments):
            raise ArgumentError(
                f"the kernel takes {len(kernel.arguments)} arguments, {len(arguments)} given",
                function=kernel.symbol,
            )
        self._function(kernel, arguments, {})
        code: list[im.Instruction] = [im.Launch(program, 0) for program in self.launches]
        tables = self.tables
        return im.Image(
            kernel.symbol,
            tables.architecture.name,
            tables.architecture.digest,
            max((unit.core for unit in tables.units), default=0) + 1,
            tuple(tables.memories),
            tuple(tables.units),
            tuple(tables.fifos),
            tuple(self.programs),
            im.Coordinator((*code, im.Halt()), len(tables.cells), 0, 1),
            tuple(tables.cells),
            tuple(tables.views),
            tuple(tables.generators),
            tuple(tables.constants),
            tuple(tables.shuffles),
            tuple(tables.opaques),
            f16_format=self.files.f16_format,
            pinned=self.files.pinned,
        )

    # -- host-like interpretation

    def _function(self, function: Func, arguments: Sequence[int], symbols: Mapping[int, int]) -> None:
        known: dict[Value, Static] = {
            a: Number((v,)) for a, v in zip(function.arguments, arguments, strict=True)
        }
        statics = Statics({}, known, 1, self.f16_format)
        defined = dict(symbols)
        if any(isinstance(op, ProgramUnit) for op in function.body.block.operations):
            self._program(function, statics, defined, arguments)
            return
        self._block(function.body.block, statics, defined)

    def _block(self, block: Block, statics: Statics, symbols: dict[int, int]) -> None:
        for op in block.operations:
            self._operation(op, statics, symbols)

    def _operation(self, op: Operation, statics: Statics, symbols: dict[int, int]) -> None:
        site = Site(op.name, op.location)
        match op:
            case CreateId():
                self._define(op, statics, symbols, site)
            case Call():
                target = self.files.functions.get(op.callee.root)
                if target is None:
                    raise UnsupportedError(f"a call of '{op.callee.root}', which has no body", site)
                self._function(target, [self._number(v, statics, site) for v in op.arguments], symbols)
            case scf.For():
                self._loop(op, statics, symbols, site)
            case scf.If():
                region = op.then_region if self._number(op.condition, statics, site) else op.else_region
                if op.outputs:
                    raise UnsupportedError("a condition with results in a kernel", site)
                if region.blocks:
                    self._block(region.blocks[0], statics, symbols)
            case Return() | scf.Yield():
                pass
            case _ if op.results and statics.evaluate(op):
                self._note(op)
            case _:
                raise UnsupportedError(f"operation '{op.name}' in a kernel", site)

    def _note(self, op: Operation) -> None:
        """Remember divisions: outermost in the definition of a symbol, they give its word."""
        if isinstance(op, arith.DivSI):
            self.divisions[op.results[0]] = op

    def _loop(self, op: scf.For, statics: Statics, symbols: dict[int, int], site: Site) -> None:
        if op.outputs:
            raise UnsupportedError("a loop with results in a kernel", site)
        lower, upper, step = (self._number(v, statics, site) for v in (op.lower, op.upper, op.step))
        if step <= 0:
            raise ControlFault(f"loop step is {step}, not positive", site=site)
        for value in range(lower, upper, step):
            statics.known[op.induction_variable] = Number((value,))
            self._block(op.body.block, statics, symbols)

    def _number(self, value: Value, statics: Statics, site: Site) -> int:
        found = statics.number(value)
        if found is None:
            raise UnsupportedError("an index value that is not known at launch", site)
        return found.rows[0]

    def _define(self, op: CreateId, statics: Statics, symbols: dict[int, int], site: Site) -> None:
        value = self._number(op.value, statics, site)
        division = self.divisions.get(op.value)
        if division is not None:
            address, word = (self._number(v, statics, site) for v in division.operands)
            if word and address % word:
                raise MisalignedFault(
                    f"address of symbol {op.id} is not a multiple of {word}",
                    site=site,
                    address=address,
                    alignment=word,
                )
        if symbols.setdefault(op.id, value) != value:
            raise ControlFault(f"two values for symbol {op.id}", site=site)

    # -- programs

    def _program(
        self, function: Func, outer: Statics, symbols: dict[int, int], arguments: Sequence[int]
    ) -> None:
        key = (function.symbol, tuple(arguments), tuple(sorted(symbols.items())))
        if key not in self.known:
            self.known[key] = len(self.programs)
            self.programs.append(self._read(function, outer, symbols))
        self.launches.append(self.known[key])
        if len(self.launches) > MAX_LAUNCHES:
            raise BudgetFault(f"more than {MAX_LAUNCHES} launches", limit=MAX_LAUNCHES)

    def _read(self, function: Func, outer: Statics, symbols: dict[int, int]) -> im.Program:
        statics = Statics(symbols, outer.known, 1, self.f16_format)
        operations = function.body.block.operations
        constants: dict[Value, Operation] = {}
        for op in operations:
            if isinstance(op, CreateId):
                self._define(op, statics, symbols, Site(op.name, op.location))
            elif isinstance(op, arith.Constant | ConstantBitstream) and isinstance(
                op.result.type, VectorType
            ):
                constants[op.result] = op
            elif isinstance(op, ProgramUnit | Return):
                continue
            elif not op.results or not statics.evaluate(op):
                raise UnsupportedError(f"operation '{op.name}' in a program", Site(op.name, op.location))
            self._note(op)
        units = [
            self._unit(op, function.symbol, statics, symbols, constants)
            for op in operations
            if isinstance(op, ProgramUnit)
        ]
        return im.Program(function.symbol, tuple(units))

    def _unit(
        self,
        op: ProgramUnit,
        program: str,
        outer: Statics,
        symbols: Mapping[int, int],
        constants: Mapping[Value, Operation],
    ) -> im.UnitProgram:
        site = Site(op.name, op.location)
        handles = [outer.get(value) for value in op.units]
        members = [h.rows[0] for h in handles if isinstance(h, Handle)]
        if not members or len(members) != len(op.units):
            raise UnsupportedError("units of a program unit that are not handles", site)
        statics = Statics(symbols, outer.known, len(members), self.f16_format)
        if op.iter_arg is not None:
            statics.known[op.iter_arg] = Handle(tuple(members))
        ids = [self.tables.unit(unit) for unit in members]
        self._name_memories(outer)
        kind = self.tables.units[ids[0]].kind
        reader = UnitReader(op, f"{program}/{kind}", statics, self.tables, ids, constants)
        found = reader.read()
        sources = tuple(reader.sources)
        if self.sources.setdefault(found.label, sources) != sources:
            self.sources[found.label] = ()  # two programs of one name: neither can be told
        return found

    def _name_memories(self, statics: Statics) -> None:
        """Opaque operations name register memories by the name of their handle."""
        kinds = {str(memory.kind).lower() for memory in self.tables.architecture.memories}
        for value in statics.known.values():
            if isinstance(value, Handle) and value.rows[0].kind.value.lower() in kinds:
                self.tables.memory(value.rows[0])


__all__ = ["KernelProgram", "kernel_image", "kernel_program"]
