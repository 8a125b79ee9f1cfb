"""Out-of-bounds indices: accepted by bounds, else searched for a counterexample."""

from __future__ import annotations

import itertools
from typing import Any, Final

from uopgraph.dtype import Invalid
from uopgraph.errors import SpecError, UnsupportedError
from uopgraph.evaluate import evaluate
from uopgraph.movement_sugar import sint
from uopgraph.node import UOp
from uopgraph.ops import GroupOp, Ops
from uopgraph.render import infix, range_name
from uopgraph.symbolic import uop_given_valid

#: Points that a search visits at most.
POINTS: Final = 1 << 16


def _fits(idx: UOp, size: sint) -> bool:
    top = idx < size
    return bool(idx.vmin >= 0) and bool((top if isinstance(top, bool) else top.simplify()).vmin is True)


def _leaves(*roots: UOp) -> list[UOp]:
    """RANGEs and Variables below; raises for values that are not known before the program runs."""
    found: dict[UOp, None] = {}
    for root in roots:
        inner = root.toposort(gate=lambda n: n.op not in GroupOp.Defines and n.op is not Ops.RANGE)
        for n in (root, *inner):
            for s in (n, *(n.src if n in inner else ())):
                if s.op is Ops.RANGE or s.is_variable:
                    found[s] = None
                elif s.op in (Ops.INDEX, Ops.LOAD):
                    raise UnsupportedError(f"bounds of an index that depends on data: {infix(root)}")
    return list(found)


def _label(n: UOp) -> str:
    return range_name(n) if n.op is Ops.RANGE else n.expr


def counterexample(idx: UOp, size: sint) -> dict[str, int] | None:
    """Values of ranges and Variables for which a valid `idx` is outside ``[0, size)``; None when
    there are none.

    Raises :class:`UnsupportedError` when bounds do not decide and the index depends on data or on more than
    :data:`POINTS` points.
    """
    valid, plain = idx.get_valid(), idx.get_idx()
    if plain.is_invalid:
        return None
    simple = plain.simplify()
    if _fits(simple, size) or _fits(uop_given_valid(valid, simple), size):
        return None
    limit = UOp.const(size)
    leaves = _leaves(plain, valid, limit)
    spans = [range(int(v.vmin), int(v.vmax) + 1) for v in leaves]
    total = 1
    for s in spans:
        total *= len(s)
    if total > POINTS:
        raise UnsupportedError(f"a proof over {total} points that {infix(plain)} is in bounds")
    for point in itertools.product(*spans):
        values = dict(zip(leaves, point, strict=True))

        def leaf(n: UOp, values: dict[UOp, int] = values) -> Any:
            return values[n]

        if any(values[n] >= evaluate(n.src[0], leaf) for n in leaves if n.op is Ops.RANGE):
            continue
        at = evaluate(idx, leaf)
        if at is not Invalid and not 0 <= at < evaluate(limit, leaf):
            return {_label(n): v for n, v in values.items()}
    return None


def check_access(index: UOp) -> None:
    """Check every index of an INDEX. Raises :class:`SpecError` with a counterexample."""
    shape = index.src[0].shape
    for axis, (idx, size) in enumerate(zip(index.src[1:], shape, strict=False)):
        found = counterexample(idx, size)
        if found is not None:
            at = ", ".join(f"{k}={v}" for k, v in found.items())
            raise SpecError(f"INDEX axis {axis}: {infix(idx)} leaves [0, {size}) at {at}", node=index)


def check_accesses(root: UOp) -> None:
    """:func:`check_access` of every INDEX at or below `root`."""
    for n in root.toposort():
        if n.op is Ops.INDEX:
            check_access(n)
