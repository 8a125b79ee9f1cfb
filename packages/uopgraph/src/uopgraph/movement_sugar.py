"""Movement sugar: the six movement operations in the forms people write them.

The mixin is written against ``shape`` and :meth:`MovementSugar.movement`, so that lazy tensors can reuse it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from uopgraph.errors import BroadcastError, IndexingError, ShapeError
from uopgraph.ops import Ops

if TYPE_CHECKING:
    from uopgraph.node import UOp

#: A dimension: a Python int or a symbolic expression.
sint: TypeAlias = "int | UOp"

_BOUND: Final = (int, type(None))
_RESHAPE, _PERMUTE = Ops.RESHAPE, Ops.PERMUTE  # reading a member of an Enum is slow
_ONLY_INT: Final = frozenset({int})


def flatten_args(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """``f(1, 2)`` and ``f((1, 2))`` give the same tuple."""
    if len(args) == 1 and isinstance(args[0], list | tuple):
        return tuple(args[0])
    return args


def _is_symbolic(value: object) -> bool:
    return hasattr(value, "op")


def shown_size(size: Any) -> str:
    """A dimension in a message: a symbolic one as an expression."""
    from uopgraph.render import infix

    return infix(size) if _is_symbolic(size) else str(size)


def shown(shape: Sequence[Any]) -> str:
    """A shape in a message."""
    return f"({', '.join(map(shown_size, shape))}{',' * (len(shape) == 1)})"


def is_size(value: Any) -> bool:
    """Whether a value can be a dimension or a position: an integer, or a symbolic one."""
    return _is_symbolic(value) or _is_integer(value)


def _is_integer(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def are_ints(values: Sequence[Any]) -> bool:
    """Whether all values are Python ints and nothing more special: nearly all shapes."""
    return _ONLY_INT.issuperset(map(type, values))


def sizes(op: str, values: Sequence[Any]) -> tuple[Any, ...]:
    """Dimensions that were given; raises :class:`ShapeError` for what is none."""
    if are_ints(values):
        return tuple(values)
    for v in values:
        if not is_size(v):
            raise ShapeError(op, f"a size must be an integer, got {v!r}")
    return tuple(v if _is_symbolic(v) else operator.index(v) for v in values)


def _is_plain(key: Any) -> bool:
    """Whether an index is an integer, None, or a slice of integers without a step."""
    if type(key) is slice:
        return key.step in (None, 1) and type(key.start) in _BOUND and type(key.stop) in _BOUND
    return key is None or type(key) is int


def is_pairs(values: Any) -> bool:
    """Whether a value is a sequence of pairs of dimensions."""
    return isinstance(values, Sequence) and all(
        isinstance(v, Sequence) and len(v) == 2 and all(map(is_size, v)) for v in values
    )


def same_size(a: sint, b: sint) -> bool:
    """True when both dimensions are provably the same."""
    return a is b or (isinstance(a, int) and isinstance(b, int) and a == b)


def product(dims: Sequence[sint]) -> sint:
    """The product of `dims`; 1 for none. Python ints are multiplied apart from symbolic factors."""
    if are_ints(dims):
        return math.prod(dims)
    total: sint = math.prod(d for d in dims if isinstance(d, int))
    for d in dims:
        if not isinstance(d, int):
            total = d * total if not (isinstance(total, int) and total == 1) else d
    return total


class MovementSugar:
    """A mixin: needs ``shape`` and :meth:`movement` (apply one movement operation in its stored form)."""

    __slots__ = ()

    @property
    def shape(self) -> tuple[sint, ...]:
        raise NotImplementedError

    def movement(self, op: Ops, arg: tuple[Any, ...]) -> Self:
        """Apply `op`. `arg` is the shape (RESHAPE), the new leading dims (EXPAND), a permutation (PERMUTE),
        a tuple of bools (FLIP) or ``((offset, size), ...)`` (PAD, SHRINK). A no-op returns self."""
        raise NotImplementedError

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def numel(self) -> sint:
        """The number of elements."""
        return product(self.shape)

    def _axis(self, axis: int, extra: int = 0) -> int:
        n = len(self.shape) + extra
        if not isinstance(axis, int):
            if not _is_integer(axis):
                raise ShapeError("axis", f"an axis is an integer, not {axis!r}")
            axis = operator.index(axis)
        if not -n <= axis < n:
            raise ShapeError("axis", f"axis {axis} is out of range for {n} dimensions")
        return axis % n if n else 0

    def reshape(self, *shape: Any) -> Self:
        """The same elements in row-major order under another shape; one entry may be -1."""
        new = list(sizes("RESHAPE", flatten_args(shape)))
        unknown = [i for i, d in enumerate(new) if isinstance(d, int) and d == -1] if -1 in new else []
        if len(unknown) > 1:
            raise ShapeError("RESHAPE", f"only one dimension may be -1, got {shown(new)}")
        if unknown:
            total, rest = self.numel(), product(new[: unknown[0]] + new[unknown[0] + 1 :])
            if isinstance(total, int) and isinstance(rest, int):
                if rest == 0 or total % rest:
                    raise ShapeError("RESHAPE", f"cannot infer -1 in {shown(new)} for {total} elements")
                new[unknown[0]] = total // rest
            else:
                new[unknown[0]] = total // rest
        return self.movement(_RESHAPE, tuple(new))

    def permute(self, *order: Any) -> Self:
        """Reorder the axes: axis i of the result is axis ``order[i]`` of self."""
        axes = flatten_args(order)
        if are_ints(axes) and sorted(axes) == list(range(len(self.shape))):
            return self.movement(_PERMUTE, axes)
        return self.movement(_PERMUTE, tuple([self._axis(a) for a in axes]))

    def transpose(self, first: int = -2, second: int = -1) -> Self:
        """Swap two axes."""
        order = list(range(self.ndim))
        a, b = self._axis(first), self._axis(second)
        order[a], order[b] = order[b], order[a]
        return self.permute(tuple(order))

    def flip(self, *axes: Any) -> Self:
        """Reverse the named axes."""
        flipped = {self._axis(a) for a in flatten_args(axes)}
        return self.movement(Ops.FLIP, tuple(i in flipped for i in range(self.ndim)))

    def pad(self, before_after: Sequence[tuple[sint, sint]], value: Any = 0) -> Self:
        """Pad each axis with (before, after) elements of 0. Another `value` is up to the subclass."""
        if value != 0:
            raise ShapeError("PAD", "a pad value other than 0 is not supported by this class")
        if not is_pairs(before_after):
            raise ShapeError("PAD", f"an axis is padded by (before, after), got {before_after!r}")
        if len(before_after) != self.ndim:
            raise ShapeError("PAD", f"{len(before_after)} pairs for {self.ndim} dimensions")
        return self.movement(
            Ops.PAD, tuple((b, b + s + a) for (b, a), s in zip(before_after, self.shape, strict=True))
        )

    def pad_to(self, *shape: Any) -> Self:
        """Pad with zeros behind the data up to `shape`; None keeps an axis."""
        sizes = flatten_args(shape)
        if len(sizes) != self.ndim:
            raise ShapeError("PAD", f"{len(sizes)} sizes for {self.ndim} dimensions")
        new = tuple((0, s if n is None else n) for s, n in zip(self.shape, sizes, strict=True))
        return self.movement(Ops.PAD, new)

    def shrink(self, bounds: Sequence[tuple[sint, sint] | None]) -> Self:
        """Keep ``[start, stop)`` of each axis; None keeps an axis whole."""
        if len(bounds) != self.ndim:
            raise ShapeError("SHRINK", f"{len(bounds)} pairs for {self.ndim} dimensions")
        return self.movement(
            Ops.SHRINK,
            tuple(
                (0, s) if b is None else (b[0], b[1] - b[0]) for b, s in zip(bounds, self.shape, strict=True)
            ),
        )

    def shrink_to(self, *shape: Any) -> Self:
        """Keep the first elements of each axis; None keeps an axis."""
        sizes = flatten_args(shape)
        if len(sizes) != self.ndim:
            raise ShapeError("SHRINK", f"{len(sizes)} sizes for {self.ndim} dimensions")
        new = tuple((0, s if n is None else n) for s, n in zip(self.shape, sizes, strict=True))
        return self.movement(Ops.SHRINK, new)

    def expand(self, *shape: Any) -> Self:
        """Broadcast to a full shape; -1 and None keep an axis. Built as: reshape away the 1-dims that grow,
        EXPAND prepends their new sizes, PERMUTE into place."""
        want = [w if w is None else sizes("EXPAND", (w,))[0] for w in flatten_args(shape)]
        have = (1,) * (len(want) - self.ndim) + tuple(self.shape)
        if len(want) < self.ndim:
            raise BroadcastError("EXPAND", f"cannot expand {shown(self.shape)} to {shown(want)}")
        target = tuple(
            h if w is None or (isinstance(w, int) and w == -1) else w for h, w in zip(have, want, strict=True)
        )
        grow = []
        for i, (h, w) in enumerate(zip(have, target, strict=True)):
            if same_size(h, w):
                continue
            if not (isinstance(h, int) and h == 1):
                raise BroadcastError("EXPAND", f"cannot expand {shown(self.shape)} to {shown(want)}")
            grow.append(i)
        if not grow:
            return self.reshape(target)
        keep = [i for i in range(len(target)) if i not in grow]
        small = self.reshape(tuple(target[i] for i in keep))
        wide = small.movement(Ops.EXPAND, tuple(target[i] for i in grow))
        place = {axis: at for at, axis in enumerate([*grow, *keep])}
        return wide.permute(tuple(place[i] for i in range(len(target))))

    def flatten(self, start: int = 0, stop: int = -1) -> Self:
        """Merge the axes from `start` to `stop` (inclusive)."""
        if self.ndim == 0:
            return self.reshape(1)
        a, b = self._axis(start), self._axis(stop)
        return self.reshape((*self.shape[:a], product(self.shape[a : b + 1]), *self.shape[b + 1 :]))

    def squeeze(self, axis: int) -> Self:
        """Drop an axis of size 1."""
        a = self._axis(axis)
        if not same_size(self.shape[a], 1):
            raise ShapeError("RESHAPE", f"cannot squeeze axis {axis} of size {shown_size(self.shape[a])}")
        return self.reshape((*self.shape[:a], *self.shape[a + 1 :]))

    def unsqueeze(self, axis: int) -> Self:
        """Insert an axis of size 1."""
        a = self._axis(axis, extra=1)
        return self.reshape((*self.shape[:a], 1, *self.shape[a:]))

    def basic_index(self, key: Any) -> Self:
        """NumPy's basic indexing: ints, slices, None and one Ellipsis."""
        items = list(key) if isinstance(key, tuple) else [key]
        used = sum(1 for k in items if k is not None and k is not Ellipsis)
        if sum(1 for k in items if k is Ellipsis) > 1:
            raise IndexingError("INDEX", "more than one Ellipsis")
        if used > self.ndim:
            raise IndexingError("INDEX", f"{used} indices for {self.ndim} dimensions")
        fill = [slice(None)] * (self.ndim - used)
        at = next((i for i, k in enumerate(items) if k is Ellipsis), None)
        items = [*items, *fill] if at is None else [*items[:at], *fill, *items[at + 1 :]]
        if all(isinstance(d, int) for d in self.shape) and all(map(_is_plain, items)):
            return self._cut_out(items)
        node, axis = self, 0
        for k in items:
            if k is None:
                node = node.unsqueeze(axis)
                axis += 1
            elif isinstance(k, slice):
                node = node._slice(axis, k)
                axis += 1
            else:
                node = node._pick(axis, k)
        return node

    def _cut_out(self, items: Sequence[Any]) -> Self:
        """Indices that are integers, None, or slices without a step: one SHRINK and one RESHAPE at most."""
        cut: list[tuple[sint, sint]] = []
        shape: list[sint] = []
        for k in items:
            if k is None:
                shape.append(1)
            elif isinstance(k, slice):
                start, stop, _ = k.indices(self.shape[len(cut)])  # type: ignore[arg-type]
                cut.append((start, stop - start) if start < stop else (0, 0))
                shape.append(cut[-1][1])
            else:
                cut.append((self._place(len(cut), k), 1))
        node = self
        if any(c != (0, d) for c, d in zip(cut, self.shape, strict=True)):
            node = self.movement(Ops.SHRINK, tuple(cut))
        return node if tuple(shape) == node.shape else node.movement(Ops.RESHAPE, tuple(shape))

    def _window(self, axis: int, offset: sint, size: sint) -> Self:
        cut: list[tuple[sint, sint]] = [(0, s) for s in self.shape]
        cut[axis] = (offset, size)
        return self.movement(Ops.SHRINK, tuple(cut))

    def _pick(self, axis: int, at: sint) -> Self:
        return self._window(axis, self._place(axis, at), 1).squeeze(axis)

    def _place(self, axis: int, at: sint) -> sint:
        """An index into an axis, counted from its start."""
        size = self.shape[axis]
        if not is_size(at):
            raise IndexingError("INDEX", f"{at!r} is no index")
        if not _is_symbolic(at):
            at = operator.index(at)  # type: ignore[arg-type]
        if isinstance(at, int) and isinstance(size, int):
            if not -size <= at < size:
                raise IndexingError("INDEX", f"index {at} is out of range for size {size}")
            at %= size
        elif isinstance(at, int) and at < 0:
            at = size + at
        return at

    def _slice(self, axis: int, k: slice) -> Self:
        size = self.shape[axis]
        if k == slice(None):
            return self
        for bound in (k.start, k.stop, k.step):
            if not (bound is None or is_size(bound)):
                raise IndexingError("INDEX", f"{bound!r} is no bound of a slice")
        if isinstance(k.step, int) and k.step == 0:
            raise IndexingError("INDEX", "the step of a slice must not be 0")
        known = all(v is None or hasattr(v, "__index__") for v in (k.start, k.stop))
        if not isinstance(size, int) or not known:
            if k.step in (None, 1):
                start: sint = 0 if k.start is None else k.start
                stop: sint = size if k.stop is None else k.stop
                return self._window(axis, start, stop - start)
            raise IndexingError("INDEX", "a step needs a dimension and bounds of known size")
        span = range(*k.indices(size))
        if len(span) == 0:
            return self._window(axis, 0, 0)
        first, last, step = span[0], span[-1], abs(span.step)
        low = min(first, last)
        node = self._window(axis, low, abs(last - first) + 1)
        if step > 1:
            cut = [(0, s) for s in node.shape]
            cut[axis] = (0, len(span) * step)
            wide = node.movement(Ops.PAD, tuple(cut))
            split = wide.reshape((*wide.shape[:axis], len(span), step, *wide.shape[axis + 1 :]))
            node = split._window(axis + 1, 0, 1).squeeze(axis + 1)
        return node.flip(axis) if span.step < 0 else node
