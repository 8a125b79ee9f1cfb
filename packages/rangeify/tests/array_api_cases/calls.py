"""One drawn call per function of the standard: positional arguments and keywords."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from array_api_cases.drawing import (
    ALL,
    FILLED,
    FLOATS,
    INTS,
    KINDS,
    NUMERIC,
    SHAPES,
    Call,
    Draw,
    Named,
    array,
    axes_of,
    axis_of,
    partner,
    values,
)


@attrs.frozen
class Case:
    """How a function is called, and how its result compares: `ulps` (0: bit for bit) or `relative` error.

    `defaults`: the result has the default width where no input is wider; `places`: it is the dtype of indices.
    `standard`: what the standard says, from the arguments and the oracle's result, where the two differ.
    """

    draw: Callable[[Draw], Call]
    ulps: int = 0
    relative: float = 0.0
    defaults: bool = False
    places: bool = False
    signed_zeros: bool = True
    standard: Callable[[list[Any], Any], Any] = lambda _, found: found


def unary(dtypes: list[str], **how: Any) -> Case:
    return Case(lambda draw: ([array(draw, dtypes)], {}), **how)


def binary(
    dtypes: list[str], fix: Callable[[Any], Any] | None = None, small: bool = False, **how: Any
) -> Case:
    def call(draw: Draw) -> Call:
        x = array(draw, dtypes, small=small)
        y = partner(draw, x, KINDS, small)
        if fix is not None:
            y = fix(y)
        args = [x, y]
        if isinstance(y, np.ndarray) and fix is None and draw(st.booleans()):
            args = [y, x]
        return args, {}

    return Case(call, **how)


def _nonzero(y: Any) -> Any:
    if isinstance(y, np.ndarray):
        return np.asarray(np.where(y == 0, np.ones_like(y), y)) if y.dtype.kind in "iu" else y
    return 1 if isinstance(y, int) and y == 0 else y


def infinite_dividend(args: list[Any], found: Any) -> Any:
    """The quotient of an infinity and a finite number is infinite; NumPy's is nan."""
    if found.dtype.kind != "f":
        return found
    with np.errstate(all="ignore"):
        a, b = (np.asarray(x, dtype=found.dtype) for x in args)
        return np.where(np.isinf(a) & np.isfinite(b), a / b, found)


def _finite(x: Any) -> Any:
    return np.asarray(np.nan_to_num(x, nan=2, posinf=3, neginf=-3)) if x.dtype.kind == "f" else x


def _small_exponent(y: Any) -> Any:
    if isinstance(y, np.ndarray):
        return np.asarray(np.abs(y % 5)) if y.dtype.kind in "iu" else y
    return y % 5 if isinstance(y, int) else y


def _shift_count(y: Any) -> Any:
    return np.asarray(y % 8) if isinstance(y, np.ndarray) else y % 8


def reduction(dtypes: list[str], small: bool = True, filled: bool = False, **how: Any) -> Case:
    def call(draw: Draw) -> Call:
        x = array(draw, dtypes, FILLED if filled else None, small)
        return [x], {"axis": axes_of(draw, x), "keepdims": draw(st.booleans())}

    return Case(call, **how)


def position(dtypes: list[str]) -> Case:
    def call(draw: Draw) -> Call:
        x = array(draw, dtypes, FILLED)
        return [x], {"axis": axis_of(draw, x), "keepdims": draw(st.booleans())}

    return Case(call, places=True)


def with_axis(dtypes: list[str], **how: Any) -> Case:
    def call(draw: Draw) -> Call:
        x = array(draw, dtypes, st.lists(st.sampled_from([1, 2, 4, 6, 0]), min_size=1, max_size=2).map(tuple))
        return [x], {"axis": axis_of(draw, x, none=False), "descending": draw(st.booleans())}

    return Case(call, **how)


def cumulative(dtypes: list[str], **how: Any) -> Case:
    def call(draw: Draw) -> Call:
        x = array(
            draw,
            dtypes,
            st.lists(st.sampled_from([1, 2, 3, 5, 0]), min_size=1, max_size=3).map(tuple),
            small=True,
        )
        return [x], {"axis": axis_of(draw, x, none=x.ndim == 1), "include_initial": draw(st.booleans())}

    return Case(call, **how)


def call_clip(draw: Draw) -> Call:
    x = array(draw, NUMERIC)
    limits = {}
    for name in ("min", "max"):
        if draw(st.booleans()):
            limits[name] = partner(draw, x, [[x.dtype.name]])
    assume(not any(isinstance(v, np.ndarray) and v.ndim > x.ndim for v in limits.values()))
    if len(limits) == 2:  # min above max is undefined
        a, b = limits.values()
        with np.errstate(invalid="ignore"):
            assume(bool(np.all(np.less_equal(a, b))))
    return [x], limits


def call_where(draw: Draw) -> Call:
    x = array(draw, ALL)
    return [array(draw, ["bool"], x.shape), x, partner(draw, x, KINDS)], {}


def call_arange(draw: Draw) -> Call:
    if draw(st.booleans()):
        start, stop = draw(st.integers(-20, 20)), draw(st.integers(-20, 20))
        step: Any = draw(st.sampled_from([1, 2, 3, -1, -4]))
    else:
        start, stop = draw(st.floats(-5, 5, width=16)), draw(st.floats(-5, 5, width=16))
        step = draw(st.sampled_from([0.5, 1.0, 0.25, -0.75]))
    dtype = (
        {"dtype": Named(draw(st.sampled_from(["int32", "int64", "float32", "float64"])))}
        if isinstance(step, int) and draw(st.booleans())
        else {}
    )
    return (
        ([abs(start)], dtype)
        if draw(st.booleans()) and isinstance(start, int)
        else ([start, stop, step], dtype)
    )


def call_linspace(draw: Draw) -> Call:
    ends = [draw(st.floats(-10, 10, width=16)) for _ in range(2)]
    return [*ends, draw(st.integers(0, 7))], {
        "dtype": Named(draw(st.sampled_from(FLOATS))),
        "endpoint": draw(st.booleans()),
    }


def call_eye(draw: Draw) -> Call:
    n, m = draw(st.integers(0, 5)), draw(st.one_of(st.none(), st.integers(0, 5)))
    return [n, m], {"k": draw(st.integers(-4, 4)), "dtype": Named(draw(st.sampled_from(NUMERIC)))}


def call_full(draw: Draw) -> Call:
    dtype = draw(st.sampled_from(ALL))
    return [draw(SHAPES), draw(values(dtype))], {"dtype": Named(dtype)}


def call_shape(draw: Draw) -> Call:
    return [draw(SHAPES)], {"dtype": Named(draw(st.sampled_from(ALL)))}


def call_like(draw: Draw) -> Call:
    return [array(draw, ALL)], {"dtype": Named(draw(st.sampled_from(ALL)))} if draw(st.booleans()) else {}


def call_full_like(draw: Draw) -> Call:
    x = array(draw, ALL)
    return [x, array(draw, [x.dtype.name], ()).item()], {}


def call_triangle(draw: Draw) -> Call:
    shape = draw(st.lists(st.sampled_from([1, 2, 3, 4, 0]), min_size=2, max_size=3).map(tuple))
    return [array(draw, ALL, shape)], {"k": draw(st.integers(-4, 4))}


def call_meshgrid(draw: Draw) -> Call:
    dtype = draw(st.sampled_from(NUMERIC))
    vectors = [array(draw, [dtype], (draw(st.integers(1, 3)),)) for _ in range(draw(st.integers(1, 3)))]
    return vectors, {"indexing": draw(st.sampled_from(["xy", "ij"]))}


def call_asarray(draw: Draw) -> Call:
    return [array(draw, ALL).tolist()], {"dtype": Named(draw(st.sampled_from(FLOATS)))}


def call_astype(draw: Draw) -> Call:
    x = array(draw, ALL, small=True)
    target = draw(st.sampled_from(ALL))
    if x.dtype.kind == "f" and target not in FLOATS:
        x = np.asarray(np.nan_to_num(x, posinf=3, neginf=-3))
        if target.startswith("u"):
            x = np.asarray(np.abs(x))
    return [x, Named(target)], {}


def call_many(draw: Draw) -> list[Any]:
    x = array(draw, ALL)
    return [x, *(v if isinstance(v, np.ndarray) else x for v in (partner(draw, x, KINDS) for _ in range(2)))]


def call_broadcast_to(draw: Draw) -> Call:
    x = array(draw, ALL)
    shape = (*draw(SHAPES), *(draw(st.sampled_from([2, 3])) if s == 1 else s for s in x.shape))
    return [x, shape], {}


def call_reshape(draw: Draw) -> Call:
    x = array(draw, ALL, FILLED)
    factors, left = [], x.size
    for d in draw(st.lists(st.sampled_from([1, 2, 3, 4]), max_size=3)):
        if left % d == 0:
            factors.append(d)
            left //= d
    return [x, (*factors, draw(st.sampled_from([left, -1])))], {}


def call_axis(draw: Draw, low: int = 1) -> Call:
    x = array(draw, ALL, st.lists(st.sampled_from([1, 2, 3, 0]), min_size=low, max_size=3).map(tuple))
    return [x], {"axis": draw(st.integers(-x.ndim, x.ndim - 1))}


def call_expand_dims(draw: Draw) -> Call:
    x = array(draw, ALL)
    return [x], {"axis": draw(st.integers(-x.ndim - 1, x.ndim))}


def call_squeeze(draw: Draw) -> Call:
    shape = draw(st.lists(st.sampled_from([1, 1, 2]), min_size=1, max_size=3).map(tuple))
    ones = [i for i, s in enumerate(shape) if s == 1]
    assume(ones)
    axis = draw(st.one_of(st.sampled_from(ones), st.lists(st.sampled_from(ones), unique=True).map(tuple)))
    return [array(draw, ALL, shape), axis], {}


def call_permute(draw: Draw) -> Call:
    x = array(draw, ALL)
    return [x, tuple(draw(st.permutations(range(x.ndim))))], {}


def call_moveaxis(draw: Draw) -> Call:
    x = array(draw, ALL, st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=3).map(tuple))
    n = draw(st.integers(1, x.ndim))
    source, target = (tuple(draw(st.permutations(range(-x.ndim, 0)))[:n]) for _ in range(2))
    return [x, source, target], {}


def call_flip(draw: Draw) -> Call:
    x = array(draw, ALL)
    return [x], {"axis": axes_of(draw, x)}


def call_roll(draw: Draw) -> Call:
    x = array(draw, ALL)
    axis = axis_of(draw, x)
    if axis is not None and draw(st.booleans()):
        return [x, (draw(st.integers(-5, 5)), 1)], {"axis": (axis, 0)}
    return [x, draw(st.integers(-5, 5))], {"axis": axis}


def call_concat(draw: Draw) -> Call:
    x = array(draw, ALL, st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=3).map(tuple))
    axis = axis_of(draw, x)
    others = []
    for _ in range(draw(st.integers(0, 2))):
        shape = list(x.shape)
        if axis is not None:
            shape[axis] = draw(st.integers(0, 3))
        kind = next(k for k in KINDS if x.dtype.name in k)
        others.append(array(draw, kind, tuple(shape)))
    return [[x, *others]], {"axis": axis}


def call_stack(draw: Draw) -> Call:
    x = array(draw, ALL, FILLED)
    others = [array(draw, [x.dtype.name], x.shape) for _ in range(draw(st.integers(0, 2)))]
    return [[x, *others]], {"axis": draw(st.integers(-x.ndim - 1, x.ndim))}


def call_repeat(draw: Draw) -> Call:
    x = array(draw, ALL, FILLED)
    axis = axis_of(draw, x)
    n = x.size if axis is None else x.shape[axis]
    if draw(st.booleans()):
        return [x, draw(st.integers(0, 3))], {"axis": axis}
    return [x, np.array(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)), dtype=np.int64)], {
        "axis": axis
    }


def call_tile(draw: Draw) -> Call:
    return [array(draw, ALL), tuple(draw(st.lists(st.integers(0, 3), max_size=3)))], {}


def call_diff(draw: Draw) -> Call:
    x = array(draw, NUMERIC, st.lists(st.sampled_from([3, 4, 5]), min_size=1, max_size=2).map(tuple))
    axis = draw(st.integers(-x.ndim, x.ndim - 1))
    how: dict[str, Any] = {"axis": axis, "n": draw(st.integers(0, 3))}
    for end in ("prepend", "append"):
        if draw(st.booleans()):
            shape = list(x.shape)
            shape[axis] = draw(st.integers(1, 2))
            how[end] = array(draw, [x.dtype.name], tuple(shape))
    return [x], how


def call_take(draw: Draw) -> Call:
    x = array(draw, ALL, st.lists(st.sampled_from([1, 2, 3, 5]), min_size=1, max_size=3).map(tuple))
    axis = axis_of(draw, x, none=x.ndim == 1)
    n = x.size if axis is None else x.shape[axis]
    index = draw(st.lists(st.integers(0, n - 1), max_size=5))
    return [x, np.array(index, dtype=draw(st.sampled_from(INTS)))], {"axis": axis}


def call_take_along_axis(draw: Draw) -> Call:
    x = array(draw, ALL, st.lists(st.sampled_from([1, 2, 3, 5]), min_size=1, max_size=3).map(tuple))
    axis = draw(st.integers(-x.ndim, x.ndim - 1))
    shape = list(x.shape)
    shape[axis] = draw(st.integers(1, 4))
    index = draw(
        st.lists(st.integers(0, x.shape[axis] - 1), min_size=math.prod(shape), max_size=math.prod(shape))
    )
    return [x, np.array(index, dtype=np.int64).reshape(shape)], {"axis": axis}


def call_searchsorted(draw: Draw) -> Call:
    x = array(draw, NUMERIC, (draw(st.integers(1, 6)),))
    y = array(draw, [x.dtype.name])
    assume(not np.isnan(x).any())
    assume(not np.isnan(y).any())
    how: dict[str, Any] = {"side": draw(st.sampled_from(["left", "right"]))}
    if draw(st.booleans()):
        how["sorter"] = np.argsort(x, kind="stable")
        return [x, y], how
    return [np.sort(x), y], how


def call_matmul(draw: Draw) -> Call:
    n, k, m = (draw(st.integers(1, 4)) for _ in range(3))
    dtype = draw(st.sampled_from(KINDS[:3]))
    a = draw(st.sampled_from([(k,), (n, k), (2, n, k), (1, n, k)]))
    b = draw(st.sampled_from([(k,), (k, m), (2, k, m), (3, 1, k, m)]))
    return [array(draw, dtype, a, small=True), array(draw, dtype, b, small=True)], {}


def call_tensordot(draw: Draw) -> Call:
    """Finite numbers: a product of matrices of one row, which NumPy leaves to a library, loses 0 * inf."""
    x = _finite(array(draw, NUMERIC, FILLED, small=True))
    kind = next(k for k in KINDS if x.dtype.name in k)
    n = draw(st.integers(0, x.ndim))
    if draw(st.booleans()):
        y = _finite(array(draw, kind, (*x.shape[x.ndim - n :], 2), small=True))
        return [x, y], {"axes": n}
    order = draw(st.permutations(range(x.ndim)))[:n]
    y = _finite(array(draw, kind, (3, *(x.shape[i] for i in order)), small=True))
    return [x, y], {"axes": (tuple(order), tuple(range(1, n + 1)))}


def call_vecdot(draw: Draw) -> Call:
    x = array(
        draw, NUMERIC, st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=3).map(tuple), small=True
    )
    return [x, array(draw, [x.dtype.name], x.shape, small=True)], {"axis": draw(st.integers(-x.ndim, -1))}


def call_matrix(draw: Draw) -> Call:
    shape = draw(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=2, max_size=3).map(tuple))
    return [array(draw, NUMERIC, shape, small=True)], {}


def call_offset(draw: Draw) -> Call:
    args, _ = call_matrix(draw)
    return args, {"offset": draw(st.integers(-3, 3))}


def call_outer(draw: Draw) -> Call:
    x = array(draw, NUMERIC, (draw(st.integers(1, 4)),), small=True)
    return [x, array(draw, [x.dtype.name], (draw(st.integers(1, 4)),), small=True)], {}


def call_cross(draw: Draw) -> Call:
    shape = draw(st.permutations([3, draw(st.integers(1, 3)), draw(st.integers(1, 3))]))
    axis = shape.index(3) - 3
    x = array(draw, NUMERIC, tuple(shape), small=True)
    return [x, array(draw, [x.dtype.name], tuple(shape), small=True)], {"axis": axis}


def call_vector_norm(draw: Draw) -> Call:
    x = array(draw, FLOATS, FILLED, small=True)
    order = draw(st.sampled_from([2, 1, 0, math.inf, -math.inf, 3, 2.5]))
    return [x], {"axis": axes_of(draw, x), "keepdims": draw(st.booleans()), "ord": order}


def call_dtypes(draw: Draw) -> Call:
    return [Named(draw(st.sampled_from(NUMERIC))), Named(draw(st.sampled_from(NUMERIC)))], {}


def call_variance(draw: Draw) -> Call:
    x = array(draw, FLOATS, FILLED, small=True)
    axes = axes_of(draw, x)
    listed = range(x.ndim) if axes is None else (axes,) if isinstance(axes, int) else axes
    n = math.prod(x.shape[a] for a in listed)
    return [x], {
        "axis": axes,
        "keepdims": draw(st.booleans()),
        "correction": draw(st.sampled_from([0, 1, 0.5])) if n > 1 else 0,
    }
