"""Repeated blocks of a program are lowered once (``Config.reuse``).

A chain of equal blocks - the layers of a network - is found by its joints: values through which everything
after them depends on everything before. Where a joint is the result of a reduction that several readers
want, it has storage in any case: the program is then two programs, one after the other. :func:`split` cuts a
tensor graph at the joints around blocks that occur several times. It looks at every node of the graph once
and builds none, so that the work for each further block is small. Programs are cut whether blocks are reused
or not: the kernels are the same.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence, Set
from itertools import count, pairwise
from operator import attrgetter, itemgetter
from typing import Final, TypeAlias

import attrs

from rangeify.config import Config
from rangeify.storage import nbytes
from uopgraph import GroupOp, Ops, UOp

#: A block is cut out when it occurs at least so often.
LEAST: Final = 3
#: How far a joint may be from its reduction, in element-wise operations and movement.
_NEAR: Final = 64
#: An element-wise value of so many buffers is computed by every reader.
MOST_REPEATED: Final = 2
#: And if it mentions them at most so often: a chain of such values is no view.
_MOST_MENTIONS: Final = 8
#: Views of storage: no values of their own.
_VIEWS: Final = GroupOp.Movement | {Ops.UNSHARD, Ops.MSELECT}
_COMPUTING: Final = GroupOp.Elementwise | {Ops.REDUCE}
_COMPUTED: Final = GroupOp.Elementwise | GroupOp.Movement | {Ops.REDUCE, Ops.STACK}
_SAME_ELEMENTS: Final = frozenset({Ops.RESHAPE, Ops.PERMUTE, Ops.CAST})
_KEEPS_ELEMENTS: Final = GroupOp.Elementwise | _SAME_ELEMENTS
_THROUGH: Final = GroupOp.Movement | {Ops.CAST, Ops.COPY, Ops.UNSHARD}
_MOVED: Final = frozenset({Ops.PERMUTE, Ops.RESHAPE, Ops.CAST})
#: Names of their own: every node of a program is looked at here, and to read a member of an Enum is slow.
_BUFFER, _AFTER, _COPY = Ops.BUFFER, Ops.AFTER, Ops.COPY
_REDUCE, _EXPAND, _MUL = Ops.REDUCE, Ops.EXPAND, Ops.MUL

#: The structure of a block: equal kinds are equal programs on other storage.
Kind: TypeAlias = Hashable


@attrs.frozen(eq=False)
class Segment:
    """A part of a program that runs after the one before it: ``values`` of the program, from the place
    ``begin`` up to ``stop``.

    ``nodes``: its values and effects in order; of what comes before they read the joint ``start`` only, and
    later ones read the joint ``end`` only. ``asked``: those of them that the whole program is asked for, and
    that need lasting storage. ``kind`` and ``storage``, for a repeated block: its structure, and the BUFFERs
    in the order in which the nodes mention them.
    """

    values: Sequence[UOp]
    begin: int
    stop: int
    asked: tuple[UOp, ...]
    start: UOp | None = None
    end: UOp | None = None
    kind: Kind | None = None
    storage: tuple[UOp, ...] = ()

    @property
    def nodes(self) -> tuple[UOp, ...]:
        return tuple(self.values[self.begin : self.stop])


#: A view of storage, or a value that every reader computes for itself: the number of its structure (negative)
#: and the BUFFERs under it, one for each time it mentions them.
_View: TypeAlias = "tuple[int, tuple[UOp, ...]]"


@attrs.define(eq=False)
class _Graph:
    """The nodes of a tensor graph: ``values`` depend on storage and are computed; views only show it; what
    remains is made of constants and belongs to everybody. Element-wise values of little storage count as
    views where `repeated` says that no rule would store them. `asked`: nodes that are values in any case;
    `needed`: the writes whose old bytes somebody needs.

    ``rows``: the structure of each value, as a number. A value refers to others by their distance, to views
    by their structure, and to what belongs to everybody by itself. ``mentioned``: the BUFFERs of the views
    that the values refer to, in order; ``mentioning``: the place of the value, for each of them.
    """

    repeated: bool
    asked: Set[UOp]
    needed: Set[UOp]
    values: list[UOp] = attrs.field(factory=list)
    place: dict[UOp, int] = attrs.field(factory=dict)
    #: for each value its place, and the places of those that read it, ascending, one for each time
    readers: list[list[int]] = attrs.field(factory=list)
    rows: list[int] = attrs.field(factory=list)
    mentioned: list[UOp] = attrs.field(factory=list)
    mentioning: list[int] = attrs.field(factory=list)
    views: dict[UOp, _View] = attrs.field(factory=dict)
    #: the places of `asked`, ascending
    lasting: list[int] = attrs.field(factory=list)
    #: the first place that was looked at on the way back, and the last one of which readers were looked at
    back: int = 0
    reach: int = 0

    def scan(self, order: Iterable[UOp]) -> None:
        """Sort the nodes of `order`, sources first."""
        place, readers, rows, views, asked = self.place, self.readers, self.rows, self.views, self.asked
        numbers: dict[Hashable, int] = defaultdict(count(-1, -1).__next__)
        placed, viewed = place.get, views.get  # this loop is hot
        here = 0
        for x in order:
            op, computed = x.op, False
            row: list[Hashable] = [op, x.dtype, x.arg, x.tag]
            buffers: tuple[UOp, ...] = ()
            for s in x.src:
                at = placed(s)
                if at is not None:
                    computed = True
                    row.append(here - at)
                    readers[at].append(here)
                    continue
                view = viewed(s)
                if view is None:
                    row.append(s)
                else:
                    row.append(view[0])
                    buffers += view[1]
            if not computed and x not in asked:
                if op is _BUFFER:
                    row[2] = _WITHOUT_SLOT(x.arg)
                    views[x] = (numbers[tuple(row)], (x,))
                    continue
                if not buffers and op is not _AFTER and op is not _COPY:
                    continue
                if op in _VIEWS or (self.repeated and op in GroupOp.Elementwise and _is_little(buffers)):
                    views[x] = (numbers[tuple(row)], buffers)
                    continue
            if op is _AFTER:
                row.append(x in self.needed)
            if buffers:
                self.mentioned += buffers
                self.mentioning += (here,) * len(buffers)
            place[x] = here
            readers.append([here])
            rows.append(numbers[tuple(row)])
            here += 1
        self.values = list(place)
        self.lasting = sorted(place[x] for x in asked)

    def joints(self) -> list[int]:
        """The places of values such that nothing before them is read after them."""
        found, reach = [], 0
        for i, last in enumerate(map(itemgetter(-1), self.readers)):
            if reach <= i:
                found.append(i)
            if last > reach:
                reach = last
        return found

    def readers_of(self, x: UOp) -> list[UOp]:
        """The values that read `x`, each once."""
        values, at = self.values, self.place[x]
        if at > self.reach:
            self.reach = at
        return [values[i] for i in dict.fromkeys(self.readers[at][1:])]

    def looked_back(self, x: UOp) -> UOp:
        """`x`, of which something is asked that the way to a joint depends on."""
        at = self.place.get(x)
        if at is not None and at < self.back:
            self.back = at
        return x

    def surroundings(self, before: int, at: int, after: int) -> Hashable:
        """What the values from one joint to the next but one are, as far as they tell of themselves; None
        when the first joint is no plain value of one device."""
        form: Hashable = ()
        if before >= 0:
            start = self.values[before]
            if start.op not in _COMPUTING or isinstance(start.device, tuple):
                return None
            form = (start.dtype, start.shape, start.device)
        return form, tuple(self.rows[before + 1 : at + 1]), tuple(self.rows[at + 1 : after + 1])

    def asked_of(self, begin: int, stop: int) -> list[int]:
        """The places from `begin` up to `stop` of what is asked for."""
        return self.lasting[bisect_left(self.lasting, begin) : bisect_left(self.lasting, stop)]

    def kind(self, begin: int, stop: int) -> tuple[Kind, tuple[UOp, ...]]:
        """The structure of the values from `begin` up to `stop`, and their storage: their rows, which of the
        storage each of them mentions, which of them are asked for, and what they begin with."""
        numbers: dict[UOp, int] = {}
        at = bisect_left(self.mentioning, begin), bisect_left(self.mentioning, stop)
        mentioned = [numbers.setdefault(b, len(numbers)) for b in self.mentioned[slice(*at)]]
        lasting = [i - begin for i in self.asked_of(begin, stop)]
        start = self.values[begin - 1]
        axis = None if isinstance(start.device, str) else start.axis
        form = (start.dtype, start.shape, start.device, axis)
        return (tuple(self.rows[begin:stop]), tuple(mentioned), tuple(lasting), form), tuple(numbers)


#: What of the argument of a BUFFER (a ParamArg) is structure.
_WITHOUT_SLOT: Final = attrgetter(
    "vmin_vmax", "multiple_of", "name", "addrspace", "axis", "device", "volatile", "val"
)


def _is_little(buffers: tuple[UOp, ...]) -> bool:
    """Whether an element-wise value of `buffers` is computed by every reader."""
    return len(buffers) <= _MOST_MENTIONS and len(set(buffers)) <= MOST_REPEATED


def _last_reduction(x: UOp, graph: _Graph, stored: Set[UOp]) -> UOp | None:
    """The reduction that `x` is, or is made of element by element, of the same size. `stored`: what has
    storage: a value that is made of it element by element need not have any."""
    stack, seen = [x], {x}
    for _ in range(_NEAR):
        if not stack:
            break
        node = graph.looked_back(stack.pop())
        if node.op is _REDUCE:
            return node if _size(node) == _size(x) else None
        if node.op in _KEEPS_ELEMENTS:
            stack.extend(s for s in node.src if s in graph.place and s not in seen and s not in stored)
            seen.update(node.src)
    return None


def _size(x: UOp) -> object:
    return math.prod(x.shape)  # of a symbolic shape: a node, equal to no other size


def _wanted_differently(x: UOp, graph: _Graph) -> bool:
    """Whether a reader repeats `x`, or one reduces it and another does not: then it is stored in any case."""
    size = _size(x)
    readers = [_followed(r, graph, _SAME_ELEMENTS) for r in graph.readers_of(x)]
    for last in readers:
        if last.op is _EXPAND or (last.op in GroupOp.Broadcastable and _size(last) != size):
            return True
    if len(readers) < 2:
        return False
    reduced = plain = False
    for last in readers:
        if last.op is _REDUCE or _followed(last, graph, _KEEPS_ELEMENTS).op is _REDUCE:
            reduced = True
        elif last.op in GroupOp.ALU:
            plain = True
        if reduced and plain:
            return True
    return False


def _followed(x: UOp, graph: _Graph, through: Set[Ops]) -> UOp:
    """`x`, or where it is one of `through` and of one reader only, what that leads to."""
    if x.op not in through:
        return x
    size = _size(x)
    for _ in range(_NEAR):
        readers = graph.readers_of(x)
        if len(readers) != 1:
            break
        (x,) = readers
        if x.op not in through or _size(x) != size:
            break
    return x


def _only_computed_with(x: UOp, graph: _Graph) -> bool:
    """Whether nobody stores, marks, sends or writes `x`, or a view of it: that would name its storage."""
    stack = [x]
    while stack:
        for reader in graph.readers_of(stack.pop()):
            if reader.op not in _COMPUTED:
                return False
            if reader.op in GroupOp.Movement:
                stack.append(reader)
    return True


def _weighs(reduction: UOp, graph: _Graph, least: int) -> bool:
    """Whether a reduction multiplies by storage of more than `least` bytes that it repeats for every row: no
    row kernel has room for it."""
    product = graph.looked_back(reduction.src[0])
    while product.op in _MOVED:
        product = graph.looked_back(product.src[0])
    if product.op is not _MUL:
        return False
    for operand in product.src:
        base = graph.looked_back(operand)
        while base.op in _THROUGH:
            base = graph.looked_back(base.src[0])
        if base.op in GroupOp.Defines and _size(operand) != _size(product) and nbytes(base) > least:
            return True
    return False


def _is_over_devices(reduction: UOp, graph: _Graph) -> bool:
    """Whether devices reduce together: then the result of that has storage, what is made of it has not."""
    value = graph.looked_back(reduction.src[0])
    axis = value.axis if isinstance(value.device, tuple) else None
    return axis is not None and axis < reduction.arg[1]


def _storable(x: UOp) -> bool:
    for d in x.shape:
        if not isinstance(d, int) or d <= 0:
            return False
    return x.device is not None and not x.dtype.is_weak and _size(x) != 1


def _is_cut(x: UOp, graph: _Graph, stored: Set[UOp], row_bytes: int | None) -> bool:
    """Whether a joint has storage in any case. `stored`: those before it that have. `row_bytes`: what row
    kernels keep, None without them."""
    if x.op not in _COMPUTING or not _storable(x) or not _wanted_differently(x, graph):
        return False
    reduction = _last_reduction(x, graph, stored)
    if (
        reduction is None
        or _is_over_devices(reduction, graph)
        or (row_bytes is not None and not _weighs(reduction, graph, row_bytes))
    ):
        return False
    return _only_computed_with(x, graph)


def _cuts(graph: _Graph, row_bytes: int | None) -> list[int]:
    """The places of the joints that have storage in any case. What was decided by the values between the
    joints next to one is decided alike where these are equal."""
    cuts: list[int] = []
    stored: set[UOp] = set()
    decided: dict[Hashable, bool] = {}
    joints = graph.joints()
    for before, at, after in zip([-1, *joints], joints, [*joints[1:], len(graph.values)], strict=False):
        around = graph.surroundings(before, at, after)
        known = (around, bool(cuts) and cuts[-1] == before)
        found = decided.get(known)
        if found is None:
            graph.back = graph.reach = at
            found = _is_cut(graph.values[at], graph, stored, row_bytes)
            if around is not None and before < graph.back and graph.reach < after:
                decided[known] = found
        if found:
            cuts.append(at)
            stored.add(graph.values[at])
    return cuts


def split(order: Iterable[UOp], asked: Sequence[UOp], needed: Set[UOp], config: Config) -> list[Segment]:
    """The program that computes `asked` as segments that run one after the other: blocks that occur at least
    :data:`LEAST` times, and what is between them.

    `order`: the nodes at and below `asked`, sources first. `needed`: the writes whose old bytes somebody
    needs.
    """
    graph = _Graph(config.fusion != "profit", set(asked), needed)
    cuts: list[int] = []
    graph.scan(order)
    if config.order != "memory":  # that order looks at all kernels at once
        cuts = _cuts(graph, config.row_bytes if config.fusion == "rows" else None)
    kinds = {(a, b): graph.kind(a + 1, b + 1) for a, b in pairwise(cuts)}
    times = Counter(kind for kind, _ in kinds.values())
    segments: list[Segment] = []
    begin, start = 0, None

    def add(stop: int, joint: UOp | None, kind: Kind | None = None, storage: tuple[UOp, ...] = ()) -> None:
        own = tuple([graph.values[i] for i in graph.asked_of(begin, stop)])
        segments.append(Segment(graph.values, begin, stop, own, start, joint, kind, storage))

    for (a, b), (kind, storage) in kinds.items():
        if times[kind] < LEAST:
            continue
        if a >= begin:
            add(a + 1, graph.values[a])
            begin, start = a + 1, graph.values[a]
        add(b + 1, graph.values[b], kind, storage)
        begin, start = b + 1, graph.values[b]
    if not segments:
        return [Segment(graph.values, 0, len(graph.values), tuple(asked))]
    if begin < len(graph.values):
        add(len(graph.values), None)
    return segments


__all__ = ["LEAST", "Kind", "Segment", "split"]
