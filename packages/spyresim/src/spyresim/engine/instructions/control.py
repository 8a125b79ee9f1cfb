"""Scalars, loops and branches."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from dfsched import image as im
from spyresim.engine import scalars as scalar_ops
from spyresim.engine.state import Cohort, Gang, Loop, uniform
from spyresim.engine.values import simplify
from spyresim.errors import ControlFault

if TYPE_CHECKING:
    from spyresim.engine.process import Executor


def halt(x: Executor, cohort: Cohort, gang: Gang, i: im.Halt) -> bool:
    gang.halted = True
    return True


def load_immediate(x: Executor, cohort: Cohort, gang: Gang, i: im.LoadImmediate) -> bool:
    gang.scalars[i.dst] = i.value
    gang.pc += 1
    return True


def load_column(x: Executor, cohort: Cohort, gang: Gang, i: im.LoadColumn) -> bool:
    gang.scalars[i.dst] = x.cell(gang, i.column)
    gang.pc += 1
    return True


def move(x: Executor, cohort: Cohort, gang: Gang, i: im.Move) -> bool:
    gang.scalars[i.dst] = x.scalar(gang, i.source)
    gang.pc += 1
    return True


def scalar_binary(x: Executor, cohort: Cohort, gang: Gang, i: im.ScalarBinary) -> bool:
    right = i.b.value if isinstance(i.b, im.Immediate) else x.scalar(gang, i.b.index)
    gang.scalars[i.dst] = scalar_ops.binary(i.op, x.scalar(gang, i.a), right, x.site(gang))
    gang.pc += 1
    return True


def scalar_compare(x: Executor, cohort: Cohort, gang: Gang, i: im.ScalarCompare) -> bool:
    gang.scalars[i.dst] = scalar_ops.compare(i.predicate, x.scalar(gang, i.a), x.scalar(gang, i.b))
    gang.pc += 1
    return True


def scalar_select(x: Executor, cohort: Cohort, gang: Gang, i: im.ScalarSelect) -> bool:
    condition = x.scalar(gang, i.condition)
    gang.scalars[i.dst] = scalar_ops.select(condition, x.scalar(gang, i.a), x.scalar(gang, i.b))
    gang.pc += 1
    return True


def for_(x: Executor, cohort: Cohort, gang: Gang, i: im.For) -> bool:
    if i.step <= 0:
        raise ControlFault(f"loop step is {i.step}, not positive", site=x.site(gang))
    lower, upper = uniform(x.scalar(gang, i.lower)), uniform(x.scalar(gang, i.upper))
    if lower >= upper:
        gang.pc += i.end + 1
        return True
    gang.scalars[i.iv] = lower
    gang.loops.append(Loop(gang.pc, lower, upper, i.step))
    gang.pc += 1
    return True


def end_for(x: Executor, cohort: Cohort, gang: Gang, i: im.EndFor) -> bool:
    loop = gang.loops[-1]
    loop.value += loop.step
    if loop.value >= loop.upper:
        gang.loops.pop()
        gang.pc += 1
        return True
    head = gang.program.code[loop.head]
    assert isinstance(head, im.For)
    gang.scalars[head.iv] = loop.value
    gang.pc = loop.head + 1
    return True


def branch_if_zero(x: Executor, cohort: Cohort, gang: Gang, i: im.BranchIfZero) -> bool:
    condition = x.scalar(gang, i.condition)
    flag = condition if isinstance(condition, int) else simplify((condition != 0).astype(np.int64))
    gang.pc += i.target if uniform(flag) == 0 else 1
    return True


def branch(x: Executor, cohort: Cohort, gang: Gang, i: im.Branch) -> bool:
    gang.pc += i.target
    return True


HANDLERS: dict[type[im.Instruction], Callable[..., bool]] = {
    im.Halt: halt,
    im.LoadImmediate: load_immediate,
    im.LoadColumn: load_column,
    im.Move: move,
    im.ScalarBinary: scalar_binary,
    im.ScalarCompare: scalar_compare,
    im.ScalarSelect: scalar_select,
    im.For: for_,
    im.EndFor: end_for,
    im.BranchIfZero: branch_if_zero,
    im.Branch: branch,
}
