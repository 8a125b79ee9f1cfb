"""Loop-invariant code motion."""

from __future__ import annotations

from typing import TypeVar

from ktir.analysis import is_pure
from ktir.attributes import IntegerAttr
from ktir.dialects import arith, scf, tensor
from ktir.editor import EditOp, Editor
from ktir.ir import Operation, Value
from ktir.opdef import TERMINATOR
from ktir.transforms.canonicalize import constant_value

O = TypeVar("O", bound=Operation)

_DIVISIONS = (
    arith.DivUI,
    arith.DivSI,
    arith.RemUI,
    arith.RemSI,
    arith.CeilDivUI,
    arith.CeilDivSI,
    arith.FloorDivSI,
)


def licm(root: O) -> O:
    """Move pure operations whose operands come from outside out of ``scf.for`` loops, innermost first.

    A loop may run no iteration, so what may trap or hang stays: a division moves only if its divisor is a
    constant other than 0 and -1, an inner loop only with a constant positive step, an access to an element or
    slice at variable indices and a ``scf.while`` not at all.
    """
    editor = Editor(root)
    loops = list(editor.walk(scf.For))
    for loop in reversed(loops):
        (block,) = loop.regions[0].blocks
        for op in block.operations():
            if _movable(op, loop, editor):
                editor.move_before(op, loop)
    frozen = editor.freeze()
    assert isinstance(frozen, type(root))
    return frozen


def _movable(op: EditOp, loop: EditOp, editor: Editor) -> bool:
    origin = op.origin
    if origin.definition_has(TERMINATOR) or not is_pure(origin) or not _speculatable(op, editor):
        return False
    inside = set(_values_inside(op))
    return all(
        value in inside or not _defined_in(value, loop, editor)
        for inner in _nested(op)
        for value in inner.operands
    )


def _speculatable(op: EditOp, editor: Editor) -> bool:
    return all(_runs_safely(inner, editor) for inner in _nested(op))


def _runs_safely(op: EditOp, editor: Editor) -> bool:
    """Whether an operation (its regions apart) can neither trap nor hang, whatever its other operands are."""
    match op.shallow():
        case scf.While():
            return False
        case scf.For(step=step):
            constant = constant_value(step, editor)
            return isinstance(constant, IntegerAttr) and constant.value > 0
        case tensor.Extract(indices=indices) | tensor.Insert(indices=indices):
            return not indices
        case tensor.ExtractSlice(offsets=offsets, sizes=sizes, strides=strides):
            return not (offsets or sizes or strides)
        case tensor.InsertSlice(offsets=offsets, sizes=sizes, strides=strides):
            return not (offsets or sizes or strides)
        case origin if isinstance(origin, _DIVISIONS):
            divisor = constant_value(op.operands[1], editor)
            return isinstance(divisor, IntegerAttr) and divisor.value not in (0, -1)
        case _:
            return True


def _nested(op: EditOp) -> list[EditOp]:
    found: list[EditOp] = []
    stack = [op]
    while stack:
        current = stack.pop()
        found.append(current)
        stack += [o for region in current.regions for block in region.blocks for o in block.operations()]
    return found


def _values_inside(op: EditOp) -> list[Value]:
    found: list[Value] = []
    for inner in _nested(op):
        found += inner.results
        found += [a for region in inner.regions for block in region.blocks for a in block.arguments]
    return found


def _defined_in(value: Value, loop: EditOp, editor: Editor) -> bool:
    block = editor.defining_block(value)
    while block is not None:
        owner = block.region.owner
        if owner is loop:
            return True
        block = owner.block
    return False
