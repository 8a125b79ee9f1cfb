"""Launches that take as long as an earlier one, because nothing differs but addresses.

Every launch begins with all units and ports free.  Its time depends on the instructions, on the numbers that
reach a loop bound or a condition, and on which units and memories take part; neither on values of vectors nor
on where views begin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from dfsched import image as im
from spyresim.engine.values import Ticks

Signature: TypeAlias = tuple[object, ...]


def control_registers(code: Sequence[im.Instruction]) -> frozenset[int]:
    """Scalar registers whose values reach the bound of a loop or a condition."""
    found: set[int] = set()
    while True:
        before = len(found)
        for instruction in code:
            match instruction:
                case im.For(iv=iv, lower=lower, upper=upper):
                    found |= {iv, lower, upper}
                case im.BranchIfZero(condition=condition):
                    found.add(condition)
                case im.Move(dst=dst, source=source) if dst in found:
                    found.add(source)
                case im.ScalarBinary(dst=dst, a=a, b=b) if dst in found:
                    found |= {a} if isinstance(b, im.Immediate) else {a, b.index}
                case im.ScalarCompare(dst=dst, a=a, b=b) if dst in found:
                    found |= {a, b}
                case im.ScalarSelect(dst=dst, condition=condition, a=a, b=b) if dst in found:
                    found |= {condition, a, b}
                case _:
                    pass
        if len(found) == before:
            return frozenset(found)


def signature(program: im.Program, cells: Ticks, parameters: Sequence[int]) -> Signature:
    """What the time of a launch depends on; equal for launches that take equally long."""
    return tuple(_unit_signature(part, cells, parameters) for part in program.unit_programs)


def _unit_signature(part: im.UnitProgram, cells: Ticks, parameters: Sequence[int]) -> Signature:
    control = control_registers(part.code)
    code: list[im.Instruction] = []
    columns: set[int] = set()
    for instruction in part.code:
        if isinstance(instruction, im.LoadImmediate) and instruction.dst not in control:
            instruction = im.LoadImmediate(instruction.dst, 0)
        if isinstance(instruction, im.LoadColumn) and instruction.dst in control:
            columns.add(instruction.column)
        if isinstance(instruction, im.MakeView) and isinstance(instruction.memory, im.Column):
            columns.add(instruction.memory.index)
        columns |= {n for _, role, n in im.operands(instruction) if role is im.Role.UNIT_COLUMN}
        code.append(instruction)
    held = tuple(
        int(cells[part.cell(row, column)]) for row in range(len(part.units)) for column in sorted(columns)
    )
    given = tuple(value for register, value in enumerate(parameters) if register in control)
    return (part.units, tuple(code), held, given)


Numbers: TypeAlias = dict[tuple[object, ...], int]
"""All counters of a run by name; the key ``("now",)`` is the time in ticks."""


def added(before: Numbers, after: Numbers) -> Numbers:
    """What came to the counters between two moments."""
    grown = {key: value - before.get(key, 0) for key, value in after.items()}
    return {key: value for key, value in grown.items() if value}


__all__ = ["Numbers", "Signature", "added", "control_registers", "signature"]
