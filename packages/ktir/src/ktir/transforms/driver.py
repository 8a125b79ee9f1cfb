"""A worklist driver for local rewrites, with a bound on how many it makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ktir.editor import EditOp, Editor
from ktir.errors import RewriteLimitError
from ktir.ir import Operation

O = TypeVar("O", bound=Operation)

Pattern = Callable[[EditOp, Editor], bool]
"""Looks at one operation; changes the editor's IR and returns True, or leaves it alone and returns False."""


def rewrite(root: O, patterns: Sequence[Pattern], *, limit: int | None = None) -> O:
    """Apply patterns until none fires.

    Operations next to a change (the changed one, its users, the definers of its operands) are looked at
    again.  Raises `RewriteLimitError` after `limit` rewrites (default: 100 and 20 for each operation): a set
    of patterns that undo one another must not hang.
    """
    editor = Editor(root)
    worklist: dict[EditOp, None] = dict.fromkeys(reversed(list(editor.walk())))
    bound = 100 + 20 * len(worklist) if limit is None else limit
    count = 0
    while worklist:
        op, _ = worklist.popitem()
        if op.erased or op is editor.root:
            continue
        neighbours = _neighbours(op, editor)
        before = op.previous
        for pattern in patterns:
            if not pattern(op, editor):
                continue
            count += 1
            if count > bound:
                raise RewriteLimitError(
                    f"rewriting did not reach a fixed point within {bound} rewrites; the last one was "
                    f"made by {getattr(pattern, '__name__', pattern)} on '{op.name}'",
                    bound,
                )
            fresh = [] if before is None or before.next is op else _between(before, op)
            for item in [*neighbours, *_neighbours(op, editor), *fresh, op]:
                if not item.erased:
                    worklist.pop(item, None)
                    worklist[item] = None
            break
    frozen = editor.freeze()
    assert isinstance(frozen, type(root))
    return frozen


def _neighbours(op: EditOp, editor: Editor) -> list[EditOp]:
    found = [user for result in op.results for user, _ in editor.uses(result)]
    found += [d for d in (editor.definer(v) for v in op.operands) if d is not None]
    return found


def _between(first: EditOp, last: EditOp) -> list[EditOp]:
    found: list[EditOp] = []
    current = first.next
    while current is not None and current is not last:
        found.append(current)
        current = current.next
    return found
