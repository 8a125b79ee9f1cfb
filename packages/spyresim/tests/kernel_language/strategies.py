"""Growing programs: each maker appends statements that are valid where they stand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from hypothesis import strategies as st

from . import places, regions, scalars, tensors
from .numbers import (
    CMPF,
    CMPI,
    DIVISIONS,
    INTEGERS,
    SHIFTS,
    SIGNED,
    UNSIGNED,
    UNSIGNED_DIVISIONS,
    WIDTHS,
    is_float,
)
from .places import Buffer, PointSet, View, c_strides
from .program import Program
from .values import Statement, Style, Value

T = TypeVar("T")

FLOAT_BINARY = ("addf", "subf", "mulf", "divf", "maximumf", "minimumf", "maxnumf", "minnumf")
FLOAT_UNARY = ("negf", "absf", "sqrt", "floor", "ceil", "trunc", "round", "roundeven")
INTEGER_BINARY = (*SIGNED, *UNSIGNED)
FOLDS = {
    True: ("addf", "mulf", "maximumf", "minimumf", "maxnumf", "minnumf"),
    False: ("addi", "muli", "maxsi", "minsi", "maxui", "minui", "andi", "ori", "xori"),
}
LARGEST = 48  # elements of a tensor


class Grower:
    """The state while a program grows: values in scope, index values with known bounds, statements so far."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any], parent: Grower | None = None) -> None:
        self.draw = draw
        self.body: list[Statement] = []
        if parent is None:
            self.depth = 0
            self.scope: list[Value] = []
            self.bounds: dict[str, tuple[int, int]] = {}
            self.shared = Shared()
        else:
            self.depth = parent.depth + 1
            self.scope = list(parent.scope)
            self.bounds = dict(parent.bounds)
            self.shared = parent.shared

    # -- drawing

    def one_of(self, items: Sequence[T]) -> T:
        return items[self.draw(st.integers(0, len(items) - 1))]

    def number(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def chance(self, one_in: int) -> bool:
        return self.number(0, one_in - 1) == one_in - 1

    def pick(self, accept: Callable[[Value], bool]) -> Value | None:
        """One of the values in scope, a late one more often."""
        found = [v for v in self.scope if accept(v)]
        if not found:
            return None
        return self.one_of(found[-4:] if self.number(0, 2) else found)

    def tensor(self, accept: Callable[[Value], bool] = lambda v: True) -> Value | None:
        return self.pick(lambda v: v.shape is not None and accept(v))

    def index(self, high: int) -> int | Value:
        """A number from 0 to `high`: a constant, or an index value that is known to stay in there."""
        fitting = [
            v
            for v in self.scope
            if v.name in self.bounds and 0 <= self.bounds[v.name][0] <= self.bounds[v.name][1] <= high
        ]
        if fitting and self.number(0, 1):
            return self.one_of(fitting)
        return self.number(0, max(high, 0))

    # -- making

    def fresh(self, element: str, shape: tuple[int, ...] | None = None, prefix: str = "x") -> Value:
        self.shared.count += 1
        return Value(f"%{prefix}{self.shared.count}", element, shape)

    def add(self, statement: Statement) -> Value | None:
        self.body.append(statement)
        self.scope += statement.results
        return statement.results[0] if statement.results else None

    def constant(
        self, element: str, shape: tuple[int, ...] | None = None, value: float | None = None
    ) -> Value:
        result = self.fresh(element, shape, "c")
        if value is None:
            value = self.literal(element)
        self.add(scalars.Constant(result, value, self.number(0, 1) == 1))
        return result

    def literal(self, element: str) -> float | int:
        if is_float(element):
            numbers = [0.0, 1.0, -1.5, 0.25, 3.0, -2.0, 0.1, 100.0]
            if not self.shared.plain:
                numbers += [-0.0, math.inf, -math.inf, math.nan, 1e-7, 60000.0]
            return self.one_of(numbers)
        if element == "i1":
            return self.number(0, 1)
        width = WIDTHS[element]
        return self.one_of([0, 1, -1, 2, 7, -3, 2 ** (width - 1) - 1, -(2 ** (width - 1)), 100])

    def of(self, element: str, shape: tuple[int, ...] | None) -> Value:
        """A value of a type: one in scope, or a new constant."""
        found = self.pick(lambda v: v.element == element and v.shape == shape)
        return found if found is not None and not self.chance(5) else self.constant(element, shape)

    def element(self) -> str:
        return self.one_of(self.shared.elements)

    def shape(self) -> tuple[int, ...]:
        return self.one_of(self.shared.shapes)


class Shared:
    """What all parts of a program share."""

    def __init__(self) -> None:
        self.count = 0
        self.address = 0
        self.buffers: list[Buffer] = []
        self.tables: dict[str, tuple[int, bool]] = {}
        self.outputs: list[str] = []
        self.elements: list[str] = []
        self.shapes: list[tuple[int, ...]] = []
        self.tiles = 1
        self.grid: tuple[int, ...] = (1,)
        self.plain = True
        self.features: list[str] = []


Maker = Callable[[Grower], None]


# -- element by element: on scalars (`shape` None) and tensors


def element_wise(g: Grower, accept: Callable[[Value], bool] = lambda v: True) -> None:
    a = g.pick(lambda v: accept(v) and (v.element != "index" or v.shape is None or g.depth == 0))
    if a is None:
        return
    kind = g.number(0, 7)
    if kind <= 2:
        binary(g, a)
    elif kind == 3 and is_float(a.element):
        g.add(scalars.Unary(g.one_of(FLOAT_UNARY), a, g.fresh(a.element, a.shape)))
    elif kind == 3:
        divide_or_shift(g, a)
    elif kind == 4:
        b = g.of(a.element, a.shape)
        g.add(scalars.Compare(g.one_of(CMPF if is_float(a.element) else CMPI), a, b, g.fresh("i1", a.shape)))
    elif kind == 5:
        select(g, a)
    elif kind == 6 or not is_float(a.element):
        cast(g, a)
    else:
        g.add(scalars.ToInteger(a, g.fresh(g.one_of(("i8", "i16", "i32", "i64")), a.shape)))


def binary(g: Grower, a: Value) -> None:
    b = g.of(a.element, a.shape)
    operation = g.one_of(FLOAT_BINARY if is_float(a.element) else INTEGER_BINARY)
    g.add(scalars.Binary(operation, a, b, g.fresh(a.element, a.shape)))


def divide_or_shift(g: Grower, a: Value) -> None:
    """Divisors are positive constants and shift amounts smaller than the width."""
    if a.element == "i1":
        return
    if g.number(0, 1):
        operation, amount = g.one_of(SHIFTS), g.number(0, WIDTHS[a.element] - 1)
    else:
        operation, amount = g.one_of((*DIVISIONS, *UNSIGNED_DIVISIONS)), g.number(1, 100)
    b = g.constant(a.element, a.shape, amount)
    g.add(scalars.Binary(operation, a, b, g.fresh(a.element, a.shape)))


def select(g: Grower, a: Value) -> None:
    b = g.of(a.element, a.shape)
    condition = g.pick(lambda v: v.element == "i1" and v.shape in (a.shape, None))
    if condition is None:
        condition = g.fresh("i1", a.shape)
        g.add(scalars.Compare(g.one_of(CMPF if is_float(a.element) else CMPI), a, b, condition))
    g.add(scalars.Select(condition, a, b, g.fresh(a.element, a.shape)))


def cast(g: Grower, a: Value) -> None:
    operation, target = g.one_of(scalars.casts_from(a.element))
    g.add(scalars.Cast(operation, a, g.fresh(target, a.shape)))


def scalar_code(
    g: Grower, arguments: Sequence[Value], element: str, steps: int
) -> tuple[list[Statement], Value]:
    """A body on scalars that ends in a value of an element type; it may use scalars from outside."""
    inner = Grower(g.draw, g)
    inner.scope = [v for v in inner.scope if v.shape is None][-3:] + list(arguments)
    for _ in range(steps):
        element_wise(inner, lambda v: v.shape is None)
    found = [v for v in inner.scope if v.element == element and v.shape is None]
    yielded = found[-1] if found else inner.constant(element)
    return inner.body, yielded


# -- whole tensors


def make_element_wise(g: Grower) -> None:
    element_wise(g, lambda v: v.shape is not None)


def make_scalar(g: Grower) -> None:
    element_wise(g, lambda v: v.shape is None)


def make_table(g: Grower) -> None:
    shape, element = g.shape(), g.element()
    if element == "index":
        return
    rng = np.random.default_rng(g.number(0, 99))
    from .program import random_array

    g.add(scalars.Table(g.fresh(element, shape), random_array(rng, element, shape, g.shared.plain)))


def make_splat(g: Grower) -> None:
    s = g.pick(lambda v: v.shape is None)
    if s is None:
        return
    fill = g.number(0, 1) == 1 and s.element != "index"
    g.add(tensors.Splat(s, g.fresh(s.element, g.shape()), fill))


def make_extract(g: Grower) -> None:
    a = g.tensor()
    if a is None or a.shape is None:
        return
    at = tuple(g.number(0, n - 1) for n in a.shape)
    x = g.add(tensors.Extract(a, at, g.fresh(a.element)))
    if x is not None and g.chance(2):
        at = tuple(g.number(0, n - 1) for n in a.shape)
        g.add(tensors.Insert(x, a, at, g.fresh(a.element, a.shape)))


def make_from_elements(g: Grower) -> None:
    s = g.pick(lambda v: v.shape is None)
    if s is None:
        return
    shape = g.one_of([(), (1,), (2,), (3,), (2, 2)])
    parts = tuple(g.of(s.element, None) for _ in range(math.prod(shape)))
    g.add(tensors.FromElements(parts, g.fresh(s.element, shape)))


def make_named(g: Grower) -> None:
    a = g.tensor(lambda v: v.element not in ("i1", "index"))
    if a is None:
        return
    wide = is_float(a.element) and a.element != "f32" and g.chance(3)
    element = "f32" if wide else a.element
    outs = g.tensor(lambda v: v.element == element and v.shape == a.shape) if g.number(0, 1) else None
    result = g.fresh(element, a.shape)
    if is_float(a.element) and not wide and g.chance(3):
        g.add(tensors.Named(g.one_of(tuple(tensors.NAMED_UNARY)), (a,), outs, result))
        return
    table = tensors.NAMED_FLOAT if is_float(a.element) else tensors.NAMED_INTEGER
    g.add(tensors.Named(g.one_of(tuple(table)), (a, g.of(a.element, a.shape)), outs, result))


def make_broadcast(g: Grower) -> None:
    a = g.tensor(lambda v: len(v.shape or ()) <= 2)
    if a is None or a.shape is None:
        return
    shape = list(a.shape)
    added = []
    for _ in range(g.number(1, 2)):
        shape.insert(g.number(0, len(shape)), -g.number(1, 4))
    added = [d for d, n in enumerate(shape) if n < 0]
    full = tuple(abs(n) for n in shape)
    if math.prod(full) <= LARGEST:
        g.add(tensors.Broadcast(a, tuple(added), g.fresh(a.element, full)))


def make_transpose(g: Grower) -> None:
    a = g.tensor(lambda v: len(v.shape or ()) >= 2)
    if a is None or a.shape is None:
        return
    order = tuple(g.draw(st.permutations(range(len(a.shape)))))
    g.add(tensors.Transpose(a, order, g.fresh(a.element, tuple(a.shape[p] for p in order))))


def make_reshape(g: Grower) -> None:
    a = g.tensor()
    if a is None or a.shape is None:
        return
    if len(a.shape) >= 1 and g.number(0, 1):
        groups = g.one_of(tensors.groupings(len(a.shape)))
        shape = tuple(math.prod(a.shape[d] for d in group) for group in groups)
        if shape != a.shape:
            g.add(tensors.Reshape(a, groups, g.fresh(a.element, shape)))
        return
    if len(a.shape) > 3:
        return
    shape_list: list[int] = []
    found: list[tuple[int, ...]] = []
    for n in a.shape:
        divisors = [d for d in range(1, n + 1) if n % d == 0]
        first = g.one_of(divisors)
        parts = (first, n // first) if g.number(0, 1) else (n,)
        found.append(tuple(range(len(shape_list), len(shape_list) + len(parts))))
        shape_list += parts
    if not a.shape:
        shape_list = [1] * g.number(1, 2)
    if len(shape_list) != len(a.shape):
        g.add(tensors.Reshape(a, tuple(found), g.fresh(a.element, tuple(shape_list))))


def make_slice(g: Grower) -> None:
    a = g.tensor(lambda v: len(v.shape or ()) >= 1)
    if a is None or a.shape is None:
        return
    offsets, sizes, strides = window(g, a.shape)
    kept = tuple(n for n in sizes if n != 1 or not g.number(0, 2))
    if g.number(0, 1):
        kept = sizes
    part = g.add(tensors.Slice(a, offsets, sizes, strides, g.fresh(a.element, kept)))
    if part is not None and g.number(0, 1):
        target = g.of(a.element, a.shape)
        offsets, sizes, strides = (offsets, sizes, strides)
        g.add(tensors.InsertSlice(part, target, offsets, sizes, strides, g.fresh(a.element, a.shape)))


def window(
    g: Grower, shape: tuple[int, ...]
) -> tuple[tuple[int | Value, ...], tuple[int, ...], tuple[int, ...]]:
    offsets: list[int | Value] = []
    sizes, strides = [], []
    for n in shape:
        step = g.number(1, 2)
        size = g.number(1, (n + step - 1) // step)
        offsets.append(g.index(n - 1 - (size - 1) * step))
        sizes.append(size)
        strides.append(step)
    return tuple(offsets), tuple(sizes), tuple(strides)


def make_concat(g: Grower) -> None:
    a = g.tensor(lambda v: len(v.shape or ()) >= 1)
    if a is None or a.shape is None:
        return
    d = g.number(0, len(a.shape) - 1)
    parts = [a]
    for _ in range(g.number(1, 2)):
        b = g.tensor(
            lambda v: (
                v.element == a.element
                and v.shape is not None
                and a.shape is not None
                and len(v.shape) == len(a.shape)
                and all(x == y for k, (x, y) in enumerate(zip(v.shape, a.shape, strict=True)) if k != d)
            )
        )
        parts.append(b if b is not None else a)
    extents = list(a.shape)
    extents[d] = sum((p.shape or ())[d] for p in parts)
    if math.prod(extents) <= LARGEST:
        g.add(tensors.Concat(d, tuple(parts), g.fresh(a.element, tuple(extents))))


def make_matmul(g: Grower) -> None:
    a = g.tensor(lambda v: v.element in ("i8", "i16", "i32", "i64") and len(v.shape or ()) in (1, 2, 3))
    if a is None or a.shape is None:
        return
    n = g.number(1, 3)
    match a.shape:
        case (k,):
            kind, b_shape, r_shape = ("vecmat", (k, n), (n,)) if g.number(0, 1) else ("dot", (k,), ())
        case (m, k):
            kind, b_shape, r_shape = ("matmul", (k, n), (m, n)) if g.number(0, 1) else ("matvec", (k,), (m,))
        case (b, m, k):
            kind, b_shape, r_shape = "batch_matmul", (b, k, n), (b, m, n)
        case _:
            return
    wider = [e for e in INTEGERS if WIDTHS[e] >= WIDTHS[a.element]]
    element = g.one_of(wider)
    b = g.of(a.element, b_shape)
    init = g.of(element, r_shape)
    g.add(tensors.Matmul(kind, a, b, init, g.fresh(element, r_shape)))


def make_reduce(g: Grower) -> None:
    a = g.tensor(lambda v: v.element not in ("i1", "index") and len(v.shape or ()) >= 1)
    if a is None or a.shape is None or (g.depth and math.prod(a.shape) > 16):
        return
    dims = tuple(d for d in range(len(a.shape)) if g.number(0, 1)) or (g.number(0, len(a.shape) - 1),)
    shape = tuple(n for d, n in enumerate(a.shape) if d not in dims)
    init = g.of(a.element, shape)
    operation = g.one_of(FOLDS[is_float(a.element)])
    g.add(tensors.Reduce(operation, a, init, dims, g.fresh(a.element, shape), g.number(0, 1) == 1))


def make_generic(g: Grower) -> None:
    a = g.tensor(lambda v: 1 <= len(v.shape or ()) <= 3)
    if a is None or a.shape is None or (g.depth and math.prod(a.shape) > 12):
        return
    turn = tuple(g.draw(st.permutations(range(len(a.shape)))))
    domain = tuple(a.shape[turn.index(d)] for d in range(len(turn)))
    operands, maps = [a], [turn]
    for _ in range(g.number(0, 2)):
        b = g.tensor()
        if b is None:
            continue
        ways = [
            way
            for way in itertools.permutations(range(len(domain)), len(b.shape or ()))
            if all(domain[d] == n for d, n in zip(way, b.shape or (), strict=True))
        ]
        if ways:
            operands.append(b)
            maps.append(g.one_of(ways))
    kept = [d for d in range(len(domain)) if g.number(0, 2)]
    if len(kept) > 1 and g.number(0, 1):
        kept = list(g.draw(st.permutations(kept)))
    out_map = tuple(kept)
    reducing = len(kept) < len(domain)
    element = g.element()
    if element == "index":
        element = "i64"
    shape = tuple(domain[d] for d in out_map)
    result = g.fresh(element, shape)
    arguments = (*(g.fresh(v.element, None, "a") for v in operands), g.fresh(element, None, "o"))
    indices = tuple(g.fresh("index", None, "i") for _ in domain) if g.number(0, 1) else ()
    init = g.of(element, shape) if reducing or g.number(0, 1) else None
    visible = [*indices, *arguments[: len(operands) + (init is not None)]]
    body, last = scalar_code(g, visible, element, g.number(1, 3))
    if reducing:
        total = g.fresh(element)
        fold = g.one_of(FOLDS[is_float(element)])
        body.append(scalars.Binary(fold, arguments[-1], last, total))
        last = total
    g.add(
        tensors.Generic(
            domain, tuple(operands), tuple(maps), init, out_map, arguments, indices, body, last, result
        )
    )


def make_map(g: Grower) -> None:
    a = g.tensor(lambda v: len(v.shape or ()) >= 1)
    if a is None or a.shape is None or (g.depth and math.prod(a.shape) > 12):
        return
    operands = [a]
    if (b := g.tensor(lambda v: v.shape == a.shape)) is not None and g.number(0, 1):
        operands.append(b)
    element = g.one_of(["f32", "i32", a.element])
    if element == "index":
        element = "i64"
    arguments = (*(g.fresh(v.element, None, "a") for v in operands), g.fresh(element, None, "o"))
    body, last = scalar_code(g, arguments[:-1], element, g.number(1, 3))
    rank = tuple(range(len(a.shape)))
    g.add(
        tensors.Generic(
            a.shape, tuple(operands), (rank,) * len(operands), None, rank, arguments, (), body, last,
            g.fresh(element, a.shape), mapped=True,
        )
    )  # fmt: skip


def make_generate(g: Grower) -> None:
    shape, element = g.shape(), g.element()
    if g.depth and math.prod(shape) > 12:
        return
    indices = tuple(g.fresh("index", None, "i") for _ in shape)
    body, last = scalar_code(g, indices, element, g.number(1, 3))
    g.add(tensors.Generate(indices, body, last, g.fresh(element, shape)))


def make_unknown(g: Grower) -> None:
    a = g.tensor(lambda v: len(v.shape or ()) >= 1)
    if a is None or a.shape is None:
        return
    known = tuple(g.number(0, 1) == 1 for _ in a.shape)
    g.add(tensors.Unknown(a, known, g.fresh(a.element, a.shape), g.fresh("index")))


# -- loops and branches


def make_for(g: Grower) -> None:
    if g.depth >= 2:
        return
    g.shared.features.append("loop")
    kind = "index" if g.number(0, 2) else "i32"
    low, step, trips = g.number(0, 2), g.number(1, 2), g.number(0, 3)
    bounded = [v for v in g.scope if v.name in g.bounds and g.bounds[v.name][1] <= 3]
    if kind == "index" and bounded and g.number(0, 1):  # as many steps as the tile says
        upper = g.one_of(bounded)
        lower, high = g.constant("index", None, 0), g.bounds[upper.name][1]
        low = 0
    else:
        high = low + step * trips
        lower, upper = (g.constant(kind, None, n) for n in (low, high))
    stride = g.constant(kind, None, step)
    inits = tuple(v for v in (g.pick(lambda v: v.element != "index") for _ in range(g.number(0, 2))) if v)
    arguments = tuple(g.fresh(v.element, v.shape, "it") for v in inits)
    variable = g.fresh(kind, None, "iv")
    inner = Grower(g.draw, g)
    inner.scope += [variable, *arguments]
    if kind == "index":
        inner.bounds[variable.name] = (low, max(high - 1, low))
    grow(inner, g.number(1, 3), INNER)
    yielded = tuple(inner.of(v.element, v.shape) for v in inits)
    outcome = tuple(g.fresh(v.element, v.shape) for v in inits)
    as_while = g.chance(4)
    bundle = len(inits) > 0 and g.number(0, 1) == 1
    g.add(
        regions.For(
            lower, upper, stride, variable, inits, arguments, inner.body, yielded, outcome, bundle, as_while
        )
    )


def make_if(g: Grower) -> None:
    if g.depth >= 2:
        return
    condition = g.pick(lambda v: v.element == "i1" and v.shape is None)
    if condition is None or g.number(0, 1):
        a = g.pick(lambda v: v.shape is None and v.element != "i1")
        if a is None:
            return
        condition = g.fresh("i1")
        b = g.of(a.element, None)
        g.add(scalars.Compare(g.one_of(CMPF if is_float(a.element) else CMPI), a, b, condition))
    g.shared.features.append("branch")
    wanted = [v for v in (g.pick(lambda v: True) for _ in range(g.number(1, 2))) if v is not None]
    yields, bodies = [], []
    for _ in range(2):
        inner = Grower(g.draw, g)
        grow(inner, g.number(0, 2), INNER)
        yields.append(tuple(inner.of(v.element, v.shape) for v in wanted))
        bodies.append(inner.body)
    outcome = tuple(g.fresh(v.element, v.shape) for v in wanted)
    bundle = len(wanted) > 0 and g.number(0, 1) == 1
    g.add(regions.If(condition, bodies[0], yields[0], bodies[1], yields[1], outcome, bundle))


# -- memory


def place(g: Grower, shape: tuple[int, ...], element: str, name: str) -> places.Access:
    """A new buffer, and an access tile of the shape ``(1, *shape)`` of it that belongs to the tile alone."""
    g.shared.features.append("view")
    tile = (1, *shape)
    rank = len(tile)
    order = tuple(g.draw(st.permutations(range(rank)))) if g.number(0, 1) else tuple(range(rank))
    own = order[0]
    counts = [0] * rank
    for position, d in enumerate(order):
        counts[d] = tile[position]
    starts, steps, anchor, sizes, shifts = [], [], [], [], []
    simple = g.number(0, 2) == 0
    for d in range(rank):
        if d == own:
            starts.append(0), steps.append(1), anchor.append(Value("%flat", "index"))
            sizes.append(g.shared.tiles), shifts.append(0)
            continue
        start, step = (0, 1) if simple else (g.number(0, 1), g.number(1, 2))
        at = 0 if simple else g.index(2)
        highest = at if isinstance(at, int) else g.bounds[at.name][1]
        starts.append(start), steps.append(step), anchor.append(at)
        sizes.append(highest + start + (counts[d] - 1) * step + 1 + (0 if simple else g.number(0, 1)))
        shifts.append(0 if simple else g.number(0, 1))
    layout = tuple(g.draw(st.permutations(range(rank)))) if g.number(0, 1) else tuple(range(rank))
    host = tuple(sizes[d] + shifts[d] for d in layout)
    strides = [0] * rank
    for k, d in enumerate(layout):
        strides[d] = c_strides(host)[k]
    view = View(tuple(sizes), tuple(strides), sum(s * n for s, n in zip(shifts, strides, strict=True)))
    buffer = Buffer(name, element, host)
    g.shared.buffers.append(buffer)
    parts = 2 if sizes[0] >= 2 and g.chance(4) else 0
    points = PointSet(tuple(starts), tuple(counts), tuple(steps))
    return places.Access(buffer, view, tuple(anchor), points, order, tile, parts)


def own_name(g: Grower, prefix: str) -> str:
    return f"{prefix}{len(g.shared.buffers)}"


def make_load(g: Grower) -> None:
    shape, element = g.shape(), g.element()
    if element == "index":
        return
    access = place(g, shape, element, own_name(g, "in"))
    loaded = g.add(places.LoadTile(access, g.fresh(element, access.shape)))
    if loaded is not None and shape:
        groups = ((0, 1), *((d,) for d in range(2, len(shape) + 1)))
        g.add(tensors.Reshape(loaded, groups, g.fresh(element, shape)))


def make_cut(g: Grower) -> None:
    """A triangle or a checkerboard, out of a buffer that all tiles read."""
    g.shared.features.append("triangle")
    element = g.element()
    if element == "index":
        return
    rule = g.one_of(["lower", "upper", "checker"])
    counts = (g.number(1, 3), g.number(1, 4))
    order = (1, 0) if g.number(0, 1) else (0, 1)
    points = PointSet((0, 0), counts, (1, 1), rule)
    total = len(points.points())
    if total == 0:
        return
    first = g.one_of([d for d in range(1, total + 1) if total % d == 0])
    anchor = (g.index(2), g.index(2))
    highest = [a if isinstance(a, int) else g.bounds[a.name][1] for a in anchor]
    host = (highest[0] + counts[0], highest[1] + counts[1])
    buffer = Buffer(own_name(g, "in"), element, host, shared=True)
    g.shared.buffers.append(buffer)
    access = places.Access(
        buffer, View(host, c_strides(host)), anchor, points, order, (first, total // first)
    )
    g.add(places.LoadTile(access, g.fresh(element, access.shape)))


def gathering(g: Grower, shape: tuple[int, ...], element: str, name: str, own: bool) -> places.Gather:
    """An indirect tile of a given shape; `own`: each tile has rows of its own (for stores)."""
    g.shared.features.append("gather")
    rank = len(shape)
    order = tuple(g.draw(st.permutations(range(rank)))) if g.number(0, 1) else tuple(range(rank))
    counts = [0] * rank
    for position, d in enumerate(order):
        counts[d] = shape[position]
    index_variable = g.number(0, rank - 1)
    flat = Value("%flat", "index")
    rest: list[int | Value] = [d for d in range(rank) if d != index_variable]
    if own or g.number(0, 1):
        rest.append(flat)
    rest = list(g.draw(st.permutations(rest)))
    by = g.number(0, len(rest))
    rows = counts[index_variable] + g.number(0, 2)
    host = [counts[r] + g.number(0, 1) if isinstance(r, int) else g.shared.tiles for r in rest]
    host.insert(by, rows)
    buffer = Buffer(name, element, tuple(host), shared=not own)
    table = Buffer(f"{name}_rows", g.one_of(["i32", "i64", "i8"]), (g.shared.tiles, counts[index_variable]))
    g.shared.buffers += [buffer, table]
    g.shared.tables[table.name] = (rows, own)
    return places.Gather(buffer, table, flat, tuple(counts), by, index_variable, tuple(rest), order, shape)


def make_gather(g: Grower) -> None:
    shape, element = g.shape(), g.element()
    if element == "index" or not shape:
        return
    access = gathering(g, shape, element, own_name(g, "in"), False)
    g.add(places.LoadTile(access, g.fresh(element, shape)))


def make_keep(g: Grower) -> None:
    a = g.tensor(lambda v: v.element != "index" and len(v.shape or ()) >= 1)
    if a is None or a.shape is None:
        return
    g.shared.features.append("scratchpad")
    order = tuple(g.draw(st.permutations(range(len(a.shape)))))
    address = g.shared.address
    g.shared.address += 512
    g.add(places.Keep(a, address, order, g.fresh(a.element, tuple(a.shape[d] for d in order))))


def make_stretch(g: Grower) -> None:
    element = g.element()
    if element in ("index", "i1") or "stretch" in g.shared.features:
        return
    g.shared.features.append("stretch")
    longest = g.number(4, 6)
    source, target = (
        Buffer(own_name(g, prefix) + "s", element, (g.shared.tiles, longest)) for prefix in ("in", "out")
    )
    g.shared.buffers += [source, target]
    g.shared.outputs.append(target.name)
    operation = g.one_of(["addf", "mulf", "maxnumf"] if is_float(element) else ["addi", "muli", "xori"])
    flat = Value("%flat", "index")
    g.add(places.Stretch(source, target, flat, operation, g.number(1, longest)))


NEUTRAL = {
    "maximumf": -math.inf,
    "minimumf": math.inf,
    "addf": 0.0,
    "addi": 0,
    "xori": 0,
    "ori": 0,
    "shift": 0,
}


def make_team(g: Grower) -> None:
    a = g.tensor(lambda v: v.element not in ("i1", "index"))
    if a is None or a.shape is None:
        return
    g.shared.features.append("team")
    n = g.shared.tiles
    size = g.one_of([d for d in range(1, n + 1) if n % d == 0])
    operation = g.one_of(
        ("maximumf", "minimumf", "addf", "shift") if is_float(a.element) else ("addi", "xori", "ori", "shift")
    )
    identity = g.constant(a.element, a.shape, NEUTRAL[operation])
    strided = g.number(0, 1) == 1
    g.add(places.Team(operation, a, identity, size, n // size, strided, g.fresh(a.element, a.shape)))


INNER: list[Maker] = [
    make_element_wise, make_element_wise, make_scalar, make_scalar, make_splat, make_extract, make_named,
    make_broadcast, make_transpose, make_reshape, make_slice, make_concat, make_reduce, make_generic, make_for,
    make_if, make_load, make_keep,
]  # fmt: skip
TOP: list[Maker] = [
    *INNER, make_element_wise, make_table, make_from_elements, make_matmul, make_matmul, make_map, make_generate,
    make_unknown, make_load, make_cut, make_gather, make_stretch, make_team, make_team, make_for, make_if,
]  # fmt: skip


def grow(g: Grower, steps: int, makers: Sequence[Maker]) -> None:
    for _ in range(steps):
        g.one_of(makers)(g)


def finish(g: Grower) -> None:
    """Store some of the values, each in a buffer of its own."""
    candidates = [v for v in g.scope if v.name != "%flat" and not v.name.startswith(("%tile", "%c"))]
    chosen = candidates[-3:]
    for _ in range(2):
        if candidates and (extra := g.one_of(candidates)) not in chosen:
            chosen.append(extra)
    for v in chosen:
        value = v
        if not value.shape:
            if value.shape is not None:
                g.add(tensors.Extract(value, (), value := g.fresh(v.element)))
            g.add(tensors.FromElements((value,), value := g.fresh(v.element, (1,))))
        assert value.shape is not None
        if value.element == "index":
            g.add(scalars.Cast("index_cast", value, value := g.fresh("i64", value.shape)))
        assert value.shape is not None
        name = own_name(g, "out")
        g.shared.outputs.append(name)
        if g.chance(4) and len(value.shape) <= 3:
            g.add(places.StoreTile(value, gathering(g, value.shape, value.element, name, True)))
            continue
        access = place(g, value.shape, value.element, name)
        groups = ((0, 1), *((d,) for d in range(2, len(value.shape) + 1)))
        lifted = g.fresh(value.element, access.shape)
        g.add(tensors.Reshape(value, groups, lifted))
        g.add(places.StoreTile(lifted, access))


@st.composite
def programs(draw: Callable[[st.SearchStrategy[Any]], Any], largest: int = 16) -> Program:
    """A valid KTIR kernel over a grid of up to six tiles, in any spelling."""
    g = Grower(draw)
    shared = g.shared
    shared.grid = g.one_of([(1,), (2,), (4,), (6,), (2, 2), (3, 2), (2, 1, 2), (1, 2, 3)])
    shared.tiles = math.prod(shared.grid)
    shared.plain = g.number(0, 2) > 0
    all_elements = ["f16", "f32", "bf16", "i32", "i8", "i16", "i64", "i1", "index"]
    shared.elements = [g.one_of(all_elements) for _ in range(3)]
    extents = [g.number(1, 4) for _ in range(3)]
    shared.shapes = [
        tuple(extents[d] for d in draw(st.permutations(range(3)))[: g.number(1, 3)]) for _ in range(3)
    ]
    flat = Value("%flat", "index")
    coordinates = [Value(f"%tile{d}", "index") for d in range(len(shared.grid))]
    g.scope += [flat, *coordinates]
    g.bounds[flat.name] = (0, shared.tiles - 1)
    for v, n in zip(coordinates, shared.grid, strict=True):
        g.bounds[v.name] = (0, n - 1)
    make_load(g)
    make_table(g)
    grow(g, g.number(1, largest), TOP)
    finish(g)
    style = Style(*(g.chance(3) for _ in range(5)))
    last_fastest = len(shared.grid) > 1 and g.chance(3)
    return Program(
        shared.grid, last_fastest, style, shared.buffers, g.body, shared.tables, shared.outputs, shared.plain,
        shared.features,
    )  # fmt: skip
