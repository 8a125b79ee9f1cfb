"""Range assignment: every node gets one index expression per dimension, and movement operations disappear
(scheduler spec 7).

Visited from the stores down, a node sees the indices at which its consumers read it. If they agree it
inherits them - that is fusion. If they do not, or if it must be stored, it gets fresh loop ranges and becomes
a STAGE, a candidate buffer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from rangeify.config import Config
from rangeify.graph import data_srcs
from rangeify.reasons import Candidate, Cause
from uopgraph import AddrSpace, AxisType, BufferizeOpts, GroupOp, Ops, UOp
from uopgraph.movement import apply_movement_op, push_index

Indices = tuple[UOp, ...]

#: What is storage already, or never needs any: not staged, and never removed when staged for another reason.
ALWAYS_CONTIGUOUS: Final = frozenset(
    {
        *(Ops.CONTIGUOUS, Ops.AFTER, Ops.BUFFER, Ops.ALLOC, Ops.CONST, Ops.MSELECT, Ops.MSTACK, Ops.PARAM),
        *(Ops.LOAD, Ops.CALL),
    }
)
_STORAGE: Final = frozenset({Ops.PARAM, Ops.BUFFER, Ops.ALLOC, Ops.AFTER, Ops.MSELECT, Ops.MSTACK})
_RANGELESS: Final = frozenset({Ops.CALL, Ops.LINEAR, Ops.AFTER, Ops.MSTACK, Ops.MSELECT, Ops.SINK})


@attrs.define
class Ranges:
    """What range assignment found. ``inputs``/``outputs``: index tuples per node; ``realized``: the axes at
    which a node is staged; ``causes``: why it is a candidate; ``ending``: how many ranges end at a node."""

    inputs: dict[UOp, Indices] = attrs.field(factory=dict)
    outputs: dict[UOp, Indices] = attrs.field(factory=dict)
    realized: dict[UOp, list[int]] = attrs.field(factory=dict)
    causes: dict[UOp, Cause] = attrs.field(factory=dict)
    ending: dict[UOp, int] = attrs.field(factory=dict)
    _next: int = 0

    def fresh(self, dim: int | UOp, axis_type: AxisType = AxisType.LOOP) -> UOp:
        """A new RANGE over a dimension; the constant 0 for a dimension of 1."""
        if isinstance(dim, int) and dim == 1:
            return UOp.const(0)
        if isinstance(dim, UOp) and dim.op is Ops.RANGE:
            return dim
        self._next += 1
        return UOp.range(dim, self._next - 1, axis_type)


def seen_by(consumer: UOp, source: UOp, indices: Indices) -> Indices:
    """The indices of `source` when `consumer` reads with `indices`: broadcast dimensions get 0."""
    shape = source.shape
    kept = indices[len(indices) - len(shape) :] if consumer.op in GroupOp.Broadcastable else indices
    return tuple(UOp.const(0) if d == 1 else i for d, i in zip(shape, kept, strict=True))


def _broadcast_ranges(consumer: UOp, source: UOp, indices: Indices) -> list[UOp]:
    """The ranges of the dimensions over which `consumer` repeats `source`."""
    if consumer.op not in GroupOp.Broadcastable:
        return []
    extra = len(indices) - len(source.shape)
    repeated = list(indices[:extra])
    repeated += [i for d, i in zip(source.shape, indices[extra:], strict=True) if d == 1]
    return [r for i in repeated for r in i.ranges]


def _merge(views: list[Indices], axis: int) -> UOp:
    """One index that serves all consumers: the same index, valid where any of them is."""
    index = views[0][axis].get_idx()
    valid = views[0][axis].get_valid()
    for view in views[1:]:
        valid = valid | view[axis].get_valid()
    return index.valid(valid.simplify()).simplify()


def assign_ranges(sink: UOp, config: Config) -> Ranges:
    """Walk from the stores to the inputs and decide indices and stages (scheduler spec 7.3 and 7.4)."""
    found = Ranges()
    order = list(sink.toposort(enter_calls=False))
    consumers: dict[UOp, dict[UOp, None]] = {x: {} for x in order}
    for x in order:
        for s in data_srcs(x):
            consumers[s][x] = None
    for x in order:
        # what is stored anyway and only carries requests for its kernel needs no other buffer
        carries = x.op is Ops.CONTIGUOUS and x.arg is not None
        if carries and all(c.op is Ops.STORE for c in consumers[x]):
            continue
        if x.op is Ops.CONTIGUOUS or x.op is Ops.STORE:
            found.realized[x] = []
    ending: dict[UOp, dict[UOp, None]] = {}
    for x in reversed(order):
        if x.op in _RANGELESS or x.shape_or_none is None:
            ending[x] = {}
            continue
        _assign(x, consumers, found, ending, config)
    return found


def _cause(candidate: Candidate, users: list[UOp], consumers: Mapping[UOp, Iterable[UOp]]) -> Cause:
    """Why `users` (seen through movement) make a value a candidate for a buffer."""
    names: set[str] = set()
    stack, seen = list(users), set(users)
    while stack:
        user = stack.pop()
        further = list(consumers[user]) if user.op in GroupOp.Movement else []
        if not further:
            names.add(user.op.name)
        stack.extend(c for c in further if c not in seen)
        seen.update(further)
    return Cause(candidate, tuple(sorted(names)))


def _inside(index: UOp, ended: Iterable[UOp]) -> bool:
    """Whether an index walks inside some of the ended loops, so that they would repeat it."""
    return any(r.arg[0] > e.arg[0] for r in index.ranges for e in ended)


def _assign(
    x: UOp,
    consumers: Mapping[UOp, Iterable[UOp]],
    found: Ranges,
    ending: dict[UOp, dict[UOp, None]],
    config: Config,
) -> None:
    users = [c for c in consumers[x] if c in found.inputs]
    ends = {r: None for c in consumers[x] for r in ending[c]}
    repeated = {r: None for c in users for r in _broadcast_ranges(c, x, found.inputs[c])}
    if x.op is Ops.REDUCE:
        ends.update(repeated)
    views = [seen_by(c, x, found.inputs[c]) for c in users]
    marked: set[int] = set()
    if x in found.realized:
        out = tuple(found.fresh(d) for d in x.shape)
        ends = {}
        found.realized[x] = list(range(len(out)))
    elif not views:
        ending[x] = {}
        return
    else:
        axes = range(len(x.shape))
        agree = [all(v[a].get_idx() is views[0][a].get_idx() for v in views) for a in axes]
        entries: list[UOp] = []
        for a in axes:
            if len(views) == 1:
                entries.append(views[0][a])
            elif all(agree) or (config.partial_stage >= 1 and agree[a]):
                entries.append(_merge(views, a))
            else:
                entries.append(found.fresh(x.shape[a]))
                marked.add(a)
        staged = bool(marked)
        if staged:
            found.causes[x] = _cause(Candidate.DISAGREE, users, consumers)
        if ends and (x.op in GroupOp.Elementwise or x.op is Ops.REDUCE):
            repeats = [c for c in users if ending[c] or _broadcast_ranges(c, x, found.inputs[c])]
            if x not in found.causes:
                found.causes[x] = _cause(Candidate.REPEAT, repeats, consumers)
            # a value without dimensions has no axis to mark: the reference rules leave it where it is read
            ended, ends = ends, {}
            staged = config.fusion != "reference" and not axes
            for a in axes:
                if a not in marked and (config.partial_stage < 2 or _inside(entries[a], ended)):
                    marked.add(a)
                    entries[a] = found.fresh(x.shape[a])
            staged = staged or bool(marked)
        out = tuple(entries)
        if staged:
            found.realized[x] = sorted(marked)
    ends.update(repeated)
    inputs = out
    if x.op in GroupOp.Movement:
        inputs = apply_movement_op(x.op, x.src[0].shape, x.marg, out)
    elif x.op is Ops.STACK:
        inputs = out[1:]
    elif x.op is Ops.REDUCE:
        inner = x.src[0].shape[: x.arg[1]]
        inputs = tuple(found.fresh(d, AxisType.REDUCE) for d in inner) + out
    if x.op is Ops.EXPAND:
        grown = len(x.shape) - len(x.src[0].shape)
        ends.update({r: None for i in out[:grown] for r in i.ranges})
    found.inputs[x], found.outputs[x] = inputs, out
    ending[x] = ends
    found.ending[x] = len(ends)


def apply_ranges(sink: UOp, found: Ranges) -> UOp:
    """Build the ranged graph (scheduler spec 7.5): no movement operation on a value is left; stages and loops
    are explicit."""
    new: dict[UOp, UOp] = {}
    stages: dict[UOp, UOp] = {}
    for x in sink.toposort(enter_calls=False):
        if x not in found.inputs:
            new[x] = x.rebuild(tuple(new.get(s, s) for s in x.src))
            continue
        sources = [_read(x, s, found, new, stages) for s in data_srcs(x)]
        if x.op is Ops.STORE:
            sources[0] = _target(x, found, new)
        new[x] = _ranged(x, sources, found)
    return new[sink]


def _read(x: UOp, s: UOp, found: Ranges, new: dict[UOp, UOp], stages: dict[UOp, UOp]) -> UOp:
    """What stands for data source `s` in the ranged form of `x`."""
    if s.is_variable or (s not in found.inputs and s.op not in _STORAGE):
        return new[s]
    at = seen_by(x, s, found.inputs[x])
    if s.op in _STORAGE:
        return new[s].index(*at) if at else new[s].index()
    axes = found.realized.get(s)
    if axes is None or s.op is Ops.STORE:
        return new[s]
    if s not in stages:
        whole = len(axes) == len(s.shape)
        options = BufferizeOpts(
            s.device, AddrSpace.GLOBAL if whole else AddrSpace.LOCAL, s.op not in ALWAYS_CONTIGUOUS
        )
        stage = new[s].stage(*(found.outputs[s][a] for a in axes), opts=options)
        stages[s] = stage.rtag(found.causes.get(s) or s.tag)
    return stages[s].index(*(at[a] for a in axes))


def _target(store: UOp, found: Ranges, new: dict[UOp, UOp]) -> UOp:
    """The place that a STORE writes. Views of a target only move the index: a padded view gates it."""
    base, at, _ = push_index(store.src[0], found.outputs[store])
    return new[base].index(*at)


def _ranged(x: UOp, sources: list[UOp], found: Ranges) -> UOp:
    if x.op in GroupOp.Defines or x.op in (Ops.CONST, Ops.RANGE):
        return x
    if x.op is Ops.PAD:
        valid = UOp.const(True)
        for i in found.inputs[x]:
            valid = valid & i.get_valid()
        return valid.simplify().where(sources[0], sources[0].const_like(0))
    if x.op in GroupOp.Movement:
        return sources[0]
    if x.op is Ops.STACK:
        chosen, at = sources[-1], found.outputs[x][0]
        for number in reversed(range(len(sources) - 1)):
            chosen = at.ne(number).where(chosen, sources[number])
        return chosen
    if x.op is Ops.REDUCE:
        loops = [r for r in found.inputs[x][: x.arg[1]] if r.op is Ops.RANGE]
        return UOp(Ops.REDUCE, x.dtype, (sources[0], *loops), (x.arg[0], 0)) if loops else sources[0]
    if x.op is Ops.STORE:
        loops = [r for r in found.outputs[x] if r.op is Ops.RANGE]
        return x.rebuild(tuple(sources)).end(*loops)
    return x.rebuild(tuple(sources))


def run_rangeify(sink: UOp, config: Config) -> tuple[UOp, Ranges]:
    """The ranged graph of a prepared tensor graph, and what was decided."""
    found = assign_ranges(sink, config)
    return apply_ranges(sink, found), found
