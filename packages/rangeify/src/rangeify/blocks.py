"""Repeated blocks of a program are lowered once (``Config.reuse``).

A chain of equal blocks - the layers of a network - is found by its joints: values through which everything
after them depends on everything before. Where a joint is the result of a reduction that several readers
want, it has storage in any case; the block up to it becomes a nested call on its inputs. Equal blocks have
equal bodies, so each is lowered once and instantiated, wherever it stands. Blocks are cut whether they are
reused or not: the kernels are the same.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from rangeify.config import Config
from rangeify.multi import BLOCK, DeviceLowering
from rangeify.reasons import Reason, Rule
from rangeify.storage import nbytes
from uopgraph import GroupOp, Ops, UOp

#: A block is worth a call when it occurs at least so often.
LEAST: Final = 3
#: How far a joint may be from its reduction, in element-wise operations and movement.
_NEAR: Final = 24
_COMPUTED: Final = GroupOp.Elementwise | GroupOp.Movement | {Ops.REDUCE, Ops.CONTIGUOUS, Ops.STACK}
_KEEPS_ELEMENTS: Final = GroupOp.Elementwise | {Ops.RESHAPE, Ops.PERMUTE}


@attrs.frozen(eq=False)
class Block:
    """The nodes behind joint ``start`` up to joint ``end``, as a body over ``arguments``."""

    start: UOp
    end: UOp
    inside: tuple[UOp, ...]
    body: UOp
    arguments: tuple[UOp, ...]


def _leaves(order: Sequence[UOp]) -> set[UOp]:
    """Storage, constants and shapes, and movement of them: what blocks may share."""
    found: set[UOp] = set()
    for x in order:
        plain = (
            x.op in GroupOp.Defines
            or x.op in (Ops.CONST, Ops.RANGE)
            or (x.op is Ops.STACK and not x.shape[1:])
        )
        moved = x.op in GroupOp.Movement and x.src[0] in found
        if (plain and all(s in found for s in x.src)) or moved:
            found.add(x)
    return found


def _joints(computed: Sequence[UOp]) -> list[int]:
    """The places of values such that nothing before them is read after them."""
    place = {x: i for i, x in enumerate(computed)}
    last = list(range(len(computed)))
    for i, x in enumerate(computed):
        for s in x.src:
            if s in place:
                last[place[s]] = i
    found, reach = [], 0
    for i in range(len(computed)):
        if reach <= i:
            found.append(i)
        reach = max(reach, last[i])
    return found


def _last_reduction(x: UOp) -> UOp | None:
    """The reduction that `x` is, or is made of element by element, of the same size."""
    stack, seen = [x], {x}
    while stack and len(seen) < _NEAR:
        node = stack.pop()
        if node.op is Ops.REDUCE:
            return node if node.numel() == x.numel() else None
        if node.op in _KEEPS_ELEMENTS:
            stack.extend(s for s in node.src if s not in seen)
            seen.update(node.src)
    return None


def _wanted_differently(x: UOp, readers: Mapping[UOp, Sequence[UOp]]) -> bool:
    """Whether a reader repeats `x`, or one reduces it and another does not: then it is stored in any case."""
    reduced = plain = False
    for reader in readers[x]:
        size = x.numel()
        while reader.op in (Ops.RESHAPE, Ops.PERMUTE, Ops.CAST) and len(readers[reader]) == 1:
            (reader,) = readers[reader]
        if reader.op is Ops.EXPAND or (reader.op in GroupOp.Broadcastable and reader.numel() != size):
            return True
        reduced = reduced or reader.op is Ops.REDUCE
        plain = plain or reader.op in GroupOp.ALU
    return reduced and plain


def _weighs(reduction: UOp, least: int) -> bool:
    """Whether a reduction multiplies by storage of more than `least` bytes that it repeats for every row: no
    row kernel has room for it."""
    product = reduction.src[0]
    while product.op in (Ops.PERMUTE, Ops.RESHAPE, Ops.CAST):
        product = product.src[0]
    if product.op is not Ops.MUL:
        return False
    for operand in product.src:
        base = operand
        while base.op in GroupOp.Movement or base.op is Ops.CAST:
            base = base.src[0]
        if base.op in GroupOp.Defines and operand.numel() != product.numel() and nbytes(base) > least:
            return True
    return False


def _body(start: UOp, inside: Sequence[UOp], leaves: set[UOp]) -> tuple[UOp, tuple[UOp, ...]] | None:
    """The block as a body over parameters in the order of first visits, and what they stand for."""
    local: dict[UOp, UOp] = {start: start.param_like(0)}
    arguments = [start]

    def place(leaf: UOp) -> None:
        """A leaf and what it is made of, sources first; leaves are shallow."""
        for s in leaf.toposort(gate=lambda n: n not in local):
            if s.op in GroupOp.Defines:
                local[s] = s.param_like(len(arguments))
                arguments.append(s)
            else:
                local[s] = s.rebuild(tuple(local[a] for a in s.src))

    for x in inside:
        for s in x.src:
            if s not in local:
                if s not in leaves or any(n.is_variable or n.op is Ops.ALLOC for n in s.toposort()):
                    return None
                place(s)
        local[x] = x.rebuild(tuple(local[s] for s in x.src))
    end = inside[-1]
    out = end.param_like(len(arguments))
    return UOp.make_sink(out.after(out.store(local[end]))), tuple(arguments)


def _storable(x: UOp) -> bool:
    static = all(isinstance(d, int) and d > 0 for d in x.shape)
    return static and isinstance(x.device, str) and not x.dtype.is_weak and math.prod(x.max_shape) > 1


def _is_cut(x: UOp, readers: Mapping[UOp, Sequence[UOp]], row_bytes: int | None) -> bool:
    """Whether a joint has storage in any case. `row_bytes`: what row kernels keep, None without them."""
    computes = x.op in GroupOp.Elementwise or x.op is Ops.REDUCE
    if not computes or not _storable(x) or not _wanted_differently(x, readers):
        return False
    reduction = _last_reduction(x)
    return reduction is not None and (row_bytes is None or _weighs(reduction, row_bytes))


def find_blocks(body: UOp, config: Config) -> list[Block]:
    """The blocks of a call body that occur at least :data:`LEAST` times, in order."""
    order = list(body.toposort(enter_calls=False))
    leaves = _leaves(order)
    computed = [x for x in order if x not in leaves and x.op not in (Ops.SINK, Ops.STORE, Ops.AFTER)]
    if not all(x.op in _COMPUTED for x in computed):
        return []
    readers: dict[UOp, list[UOp]] = {x: [] for x in order}
    for x in order:
        for s in dict.fromkeys(x.src):
            readers[s].append(x)
    row_bytes = config.row_bytes if config.fusion == "rows" else None
    joints = [i for i in _joints(computed) if _is_cut(computed[i], readers, row_bytes)]
    stored = {s for x in order if x.op is Ops.STORE for s in x.src}
    blocks = []
    for a, b in itertools.pairwise(joints):
        inside = tuple(computed[a + 1 : b + 1])
        made = None if computed[b] in stored else _body(computed[a], inside, leaves)
        if made is not None:
            blocks.append(Block(computed[a], computed[b], inside, *made))
    times = Counter(block.body for block in blocks)
    return [block for block in blocks if times[block.body] >= LEAST]


def call_blocks(body: UOp, lowering: DeviceLowering) -> UOp:
    """`body` with each repeated block as a call that fills storage."""
    blocks = {block.end: block for block in find_blocks(body, lowering.config)}
    if not blocks:
        return body
    skipped = {x for block in blocks.values() for x in block.inside}
    new: dict[UOp, UOp] = {}
    for x in body.toposort(enter_calls=False):
        block = blocks.get(x)
        if block is not None:
            out = lowering.alloc(x, x.device, Reason(Rule.BLOCK))
            start = new[block.start]
            call = block.body.call(start, *block.arguments[1:], out, precompile=True, name="block", aux=BLOCK)
            new[x] = out.after(call)
        elif x not in skipped:
            new[x] = x.rebuild(tuple(new[s] for s in x.src))
    return new[body]
