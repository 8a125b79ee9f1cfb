"""Canonicalisation: folding through `Operation.fold`, constants to the right, dead code."""

from __future__ import annotations

from typing import TypeVar

from ktir.analysis import is_pure
from ktir.attribute import Attribute
from ktir.dialects.arith import Constant, attribute_type
from ktir.editor import EditOp, Editor
from ktir.ir import Operation, Value
from ktir.opdef import ALLOCATES, COMMUTATIVE, TERMINATOR
from ktir.transforms.cse import cse
from ktir.transforms.driver import rewrite

O = TypeVar("O", bound=Operation)


def constant_value(value: Value, editor: Editor) -> Attribute | None:
    """The attribute of the ``arith.constant`` that defines `value`, if one does."""
    definer = editor.definer(value)
    if definer is None or not isinstance(definer.origin, Constant):
        return None
    return definer.attributes.get("value")


def fold(op: EditOp, editor: Editor) -> bool:
    """Replace the results by what `Operation.fold` says; new constants go in front of the operation."""
    if not op.results or isinstance(op.origin, Constant):
        return False
    constants = [constant_value(value, editor) for value in op.operands]
    folded = op.shallow().fold(constants)
    if folded is None:
        return False
    values: list[Value] = []
    for result, item in zip(op.results, folded, strict=True):
        if isinstance(item, Value):
            if item.type != result.type or item is result:
                return False
            values.append(item)
            continue
        if attribute_type(item) != result.type:
            return False
        made = editor.insert_before(op, Constant.of(item).replace(location=op.origin.location))
        values.append(made.results[0])
    editor.replace(op, values)
    return True


def constants_right(op: EditOp, editor: Editor) -> bool:
    """``c + x`` becomes ``x + c``."""
    if not op.origin.definition_has(COMMUTATIVE) or len(op.operands) != 2:
        return False
    left, right = op.operands
    if constant_value(left, editor) is None or constant_value(right, editor) is not None:
        return False
    editor.set_operands(op, (right, left))
    return True


def drop_dead(op: EditOp, editor: Editor) -> bool:
    """Erase an operation without effect, or an allocation, whose results nobody uses."""
    if any(editor.is_used(result) for result in op.results):
        return False
    origin = op.origin
    if not op.results or origin.definition_has(TERMINATOR):
        return False
    if not origin.definition_has(ALLOCATES) and not is_pure(origin):
        return False
    editor.erase(op)
    return True


PATTERNS = (drop_dead, fold, constants_right)


def canonicalize(root: O, *, limit: int | None = None) -> O:
    """Fold, order commutative operands, drop dead code, merge equal constants.

    Raises `RewriteLimitError` if `limit` rewrites do not reach a fixed point.
    """
    return cse(rewrite(root, PATTERNS, limit=limit), constants_only=True)
