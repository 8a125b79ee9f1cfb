"""Every small way to break the schedule of a compiled kernel, by enumeration.

- each signal dropped (of one that goes one way, each half, and both), and each choice of a buffer by phase turned by one for one of those that use the buffer
  (turned for all of them it would only rename the copies), in the IR before units are separated;
- each pair of neighbouring sends on one FIFO exchanged, in DataflowIR: two sends of an image may well have one source
  register, and what is sent is not known from its number;
- each start address that a unit uses moved by one stick, in the image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import attrs

import dfsched
import ktir
from dfsched import image as im
from dfsched.codegen import generate
from dfsched.codegen.build import BuiltImage
from dfsched.dialects import dataflow, ktdf, ktdf_lowering, uniform
from dfsched.passes.base import PassContext
from dfsched.passes.ir_tools import rewrite_blocks
from dfsched.pipeline import pipeline, run_pipeline
from dfsched.split import split
from ktir.analysis import DefUse
from ktir.dialects.builtin import Module

STICK = 128
LOWERED = "ktdf-to-ktdflowering"


@attrs.frozen
class Mutant:
    """What is changed, and how to make the image: None if the compiler refuses the changed IR."""

    what: str
    make: Callable[[], BuiltImage | None]


def mutants(compiled: dfsched.Compiled) -> Iterator[Mutant]:
    """All mutants, in a fixed order; their images are made on demand."""
    lowered = next(r.module for r in compiled.passes if r.name == LOWERED)
    for number, ((op, *_), _) in enumerate(_places(lowered)):
        what = "phase" if isinstance(op, ktdf.SelectMemref) else "signal"
        yield Mutant(f"{what} {number} dropped or swapped", partial(_relowered, compiled, lowered, number))
    dataflow_ir = compiled.passes[-1].module
    for number, _ in enumerate(_neighbouring_sends(dataflow_ir)):
        yield Mutant(f"sends {number} exchanged", partial(_exchanged, compiled, dataflow_ir, number))
    built = compiled.generated.built
    for what, image in _moved_addresses(built.image):
        yield Mutant(what, partial(attrs.evolve, built, image=image))


def _places(module: Module) -> list[tuple[tuple[ktir.Operation, ...], ktir.Operation | None]]:
    """Signals, and choices of a buffer together with one operation that uses it."""
    uses = DefUse(module)
    found: list[tuple[tuple[ktir.Operation, ...], ktir.Operation | None]] = []
    halves: dict[tuple[type[ktir.Operation], tuple[ktir.Value, ...]], list[ktir.Operation]] = {}
    for op in module.walk():
        match op:
            case ktdf_lowering.Signal():
                found.append(((op,), None))
            case ktdf_lowering.OneWay():
                found.append(((op,), None))
                halves.setdefault((type(op), op.operands), []).append(op)
            case ktdf.SelectMemref():
                found += [((op,), user) for user in uses.users(op.selected)]
    for (kind, units), posts in halves.items():
        if kind is ktdf_lowering.Post:
            awaits = halves[ktdf_lowering.Await, units]
            found += [(pair, None) for pair in zip(posts, awaits, strict=True)]
    return found


def _broken(module: Module, number: int) -> Module:
    """Without a signal, or with the candidates of a choice turned by one for one operation."""
    broken, user = _places(module)[number]

    def rewrite(operations: Sequence[ktir.Operation]) -> list[ktir.Operation]:
        result: list[ktir.Operation] = []
        for op in operations:
            if op in broken and user is None:
                continue
            result.append(op)
            if op in broken and turned is not None:
                result.append(turned)
        return [
            op.replace(operands=[new if value is old else value for value in op.operands])
            if new is not None and op is user
            else op
            for op in result
        ]

    turned = old = new = None
    if isinstance(broken[0], ktdf.SelectMemref):
        phase, first, *others = broken[0].operands
        turned = ktdf.SelectMemref.create([phase, *others, first], [broken[0].selected.type])
        old, new = broken[0].selected, turned.selected
    changed = rewrite_blocks(module, rewrite)
    assert isinstance(changed, Module)
    return changed


def _relowered(compiled: dfsched.Compiled, lowered: Module, number: int) -> BuiltImage | None:
    """The image of broken IR: the passes after `LOWERED`, and code generation."""
    module = _broken(lowered, number)
    passes = pipeline(compiled.options)
    names = [p.name for p in passes]
    rest = passes[names.index(LOWERED) + 1 :]
    try:
        results = run_pipeline(module, PassContext(compiled.architecture, compiled.options), rest)
    except (dfsched.DfschedError, ktir.KtirError):
        return None
    return _generated(compiled, results[-1].module)


def _generated(compiled: dfsched.Compiled, dataflow_ir: Module) -> BuiltImage | None:
    try:
        files = split(dataflow_ir)
        return generate(files, compiled.source, compiled.kernel, compiled.architecture).built
    except (dfsched.DfschedError, ktir.KtirError):
        return None


def _neighbouring_sends(module: Module) -> list[tuple[dataflow.Send, dataflow.Send]]:
    """Pairs of sends to one unit in one block, with neither another one nor a loop or condition in between."""
    found: list[tuple[dataflow.Send, dataflow.Send]] = []
    uses = DefUse(module)

    def target(unit: ktir.Value) -> tuple[ktir.Value, ...]:
        """What tells the unit: a value, or the table in which every executing unit finds its own."""
        query = uses.definer(unit)
        table = uses.definer(query.map) if isinstance(query, uniform.QueryMap) else None
        return table.operands if isinstance(table, uniform.DefImmutableMapping) else (unit,)

    def collect(operations: Sequence[ktir.Operation]) -> Sequence[ktir.Operation]:
        last: dict[tuple[ktir.Value, ...], dataflow.Send] = {}
        for op in operations:
            if isinstance(op, dataflow.Send):
                fifo = target(op.unit)
                if fifo in last:
                    found.append((last[fifo], op))
                last[fifo] = op
            elif op.regions:
                last.clear()
        return operations

    rewrite_blocks(module, collect)
    return found


def _exchanged(compiled: dfsched.Compiled, module: Module, number: int) -> BuiltImage | None:
    """The image where the first of two sends is done right behind the second."""
    first, second = _neighbouring_sends(module)[number]

    def rewrite(operations: Sequence[ktir.Operation]) -> list[ktir.Operation]:
        result: list[ktir.Operation] = []
        for op in operations:
            if op is not first:
                result.append(op)
            if op is second:
                result.append(first)
        return result

    changed = rewrite_blocks(module, rewrite)
    assert isinstance(changed, Module)
    return _generated(compiled, changed)


def with_program(image: im.Image, number: int, new: im.UnitProgram) -> im.Image:
    """Another unit program at `number` (in order over all programs)."""
    parts = list(image.unit_programs)
    parts[number] = new
    programs = []
    for program in image.programs:
        count = len(program.unit_programs)
        programs.append(attrs.evolve(program, unit_programs=tuple(parts[:count])))
        parts = parts[count:]
    return attrs.evolve(image, programs=tuple(programs))


def _moved_addresses(image: im.Image) -> Iterator[tuple[str, im.Image]]:
    """One view of one unit program at a time, by one stick, in all its rows."""
    for number, program in enumerate(image.unit_programs):
        for index, i in enumerate(program.code):
            if not isinstance(i, im.MakeView):
                continue
            view = image.views[i.descriptor]
            width = view.element.storage_bits // 8
            moved = attrs.evolve(view, constant=view.constant + STICK // width)
            changed = attrs.evolve(image, views=(*image.views, moved))
            code = list(program.code)
            code[index] = attrs.evolve(i, descriptor=len(image.views))
            part = attrs.evolve(program, code=tuple(code))
            what = f"start of view {index} of {program.label} moved"
            yield what, with_program(changed, number, part)
