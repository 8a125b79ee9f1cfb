"""DataflowIR files judged as a whole, wherever they come from.

The verifiers of the dialects look at one operation at a time. Here a kernel with its programs is judged: that
nothing of an earlier level is left, that the files belong together, that a device has the units and memories,
that it can be encoded, and that everything that is sent is received by somebody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import ktir
from dfsched.architecture import Architecture
from dfsched.codegen.build import build_image
from dfsched.codegen.errors import CodegenError
from dfsched.codegen.facts import GLOBAL, KernelFacts, collect_facts
from dfsched.dialects.dataflow import ProgramUnit
from dfsched.errors import placed
from dfsched.image import Image, UnitProgram, problems
from dfsched.image.instructions import Receive, Send, SyncReceive, SyncSend
from dfsched.lowering.dfir import is_of_an_earlier_level
from ktir.dialects.builtin import Module
from ktir.dialects.func import Func
from ktir.errors import Diagnostic
from spyrert.spyrecode import LaunchSpec, SymbolSpec

__all__ = ["check_dataflow"]


def check_dataflow(
    files: Mapping[str, Module], architecture: Architecture | None = None, launch: LaunchSpec | None = None
) -> tuple[Diagnostic, ...]:
    """Everything that is wrong with the DataflowIR of one kernel; nothing if it is sound.

    `files` by name as `dfsched.split.read_split` gives them (one module with kernel and programs counts as
    ``global.mlir``). With an architecture the kernel is encoded for it as well; `launch` says what its
    arguments are, by default numbers.
    """
    found = [d for module in files.values() for d in _of_module(module)]
    if found:
        return tuple(found)
    try:
        facts = collect_facts(_parted(files))
    except CodegenError as error:
        whole = next(iter(files.values()), None)
        return error.diagnostics if whole is None else placed(error.diagnostics, whole.location)
    place = facts.kernel.location
    if not facts.programs:
        return (Diagnostic("the kernel calls no program with dataflow.program_unit", place),)
    found = [] if architecture is None else list(_encoded(files, facts, architecture, launch))
    return placed(tuple(found), place)


def _of_module(module: Module) -> Iterator[Diagnostic]:
    try:
        ktir.verify(module)
    except ktir.VerifyError as error:
        yield from error.diagnostics
        return
    for function in module.walk():
        if isinstance(function, Func) and any(isinstance(op, ProgramUnit) for op in function.walk()):
            for op in function.walk():
                if is_of_an_earlier_level(op):
                    yield Diagnostic(f"DataflowIR still contains '{op.name}'", op.location)


def _parted(files: Mapping[str, Module]) -> Mapping[str, Module]:
    """A single module with everything in it, also as the file of its programs."""
    if len(files) > 1 or GLOBAL not in files:
        return files
    whole = files[GLOBAL]
    if any(isinstance(op, ProgramUnit) for op in whole.walk()):
        return {GLOBAL: whole, "programs.mlir": whole}
    return files


def _encoded(
    files: Mapping[str, Module], facts: KernelFacts, architecture: Architecture, launch: LaunchSpec | None
) -> Iterator[Diagnostic]:
    spec = _numbers(facts) if launch is None else launch
    try:
        image = build_image(_parted(files), spec, architecture).image
    except CodegenError as error:
        yield from error.diagnostics
        return
    for text in (*problems(image), *_places(image, architecture)):
        yield Diagnostic(text, facts.kernel.location)
    for program, known in zip(image.programs, facts.programs, strict=True):
        for text in _unpaired(image, program.unit_programs):
            yield Diagnostic(f"program '{program.name}': {text}", known.body.location)


def _numbers(facts: KernelFacts) -> LaunchSpec:
    """A launch in which every argument is a number."""
    arguments = enumerate(facts.kernel.arguments)
    symbols = tuple(SymbolSpec(f"arg{n}", kernel_position=n) for n, _ in arguments)
    return LaunchSpec(facts.kernel.symbol, symbols=symbols)


def _places(image: Image, architecture: Architecture) -> Iterator[str]:
    """Units on cores that the device does not have."""
    for unit in image.units:
        if unit.core >= architecture.cores:
            yield (
                f"unit '{unit.name}' is on core {unit.core}, device '{architecture.name}' has "
                f"{architecture.cores} cores"
            )


def _unpaired(image: Image, units: tuple[UnitProgram, ...]) -> Iterator[str]:
    """Queues and signals of which one end is never used.

    Between unit programs, not between single units: which of its units take part may depend on conditions.
    """
    home = {member: number for number, program in enumerate(units) for member in program.units}
    pairs: dict[type[object], dict[tuple[int | None, int | None], tuple[int, int]]] = {
        kind: {} for kind in (Send, Receive, SyncSend, SyncReceive)
    }
    for program in units:
        for instruction in program.code:
            if not isinstance(instruction, Send | Receive | SyncSend | SyncReceive):
                continue
            for row, member in enumerate(program.units):
                other = image.cells[program.cell(row, instruction.unit)]
                sends = isinstance(instruction, Send | SyncSend)
                source, target = (member, other) if sends else (other, member)
                pairs[type(instruction)].setdefault((home.get(source), home.get(target)), (source, target))
    for first, second, forth, back in (
        (Send, Receive, "sends to", "receives from"),
        (SyncSend, SyncReceive, "signals", "waits for"),
    ):
        for ends, (source, target) in pairs[first].items():
            if ends not in pairs[second]:
                yield f"{_name(image, source)} {forth} {_name(image, target)}, which never {back} it"
        for ends, (source, target) in pairs[second].items():
            if ends not in pairs[first]:
                yield f"{_name(image, target)} {back} {_name(image, source)}, which never {forth} it"


def _name(image: Image, unit: int) -> str:
    return image.units[unit].name if 0 <= unit < len(image.units) else f"unit {unit}"
