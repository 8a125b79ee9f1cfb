"""Random tensor programs: the same program on NumPy arrays is the oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rangeify
from rangeify import Config, Tensor

Step = tuple[str, int, int, Any]


def relu(x: Any) -> Any:
    return x.relu() if isinstance(x, Tensor) else np.maximum(x, x.dtype.type(0))


def exp(x: Any) -> Any:
    return x.exp() if isinstance(x, Tensor) else np.exp(x)


def maximum(x: Any, y: Any) -> Any:
    return x.maximum(y) if isinstance(x, Tensor) else np.maximum(x, y)


def where(c: Any, x: Any, y: Any) -> Any:
    return c.where(x, y) if isinstance(c, Tensor) else np.where(c, x, y)


def compatible(a: Any, b: Any) -> bool:
    return all(x == y or 1 in (x, y) for x, y in zip(reversed(a.shape), reversed(b.shape), strict=False))


def small(x: Any) -> bool:
    size = 1
    for d in x.shape:
        size *= d
    return size <= 4096


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "max": maximum,
    "select": lambda x, y: where(x < y, x, y * 2),
}
UNARY: dict[str, Callable[[Any, int], Any]] = {
    "relu": lambda x, k: relu(x),
    "neg": lambda x, k: -x,
    "scale": lambda x, k: x * 0.5 + k,
    "rsub": lambda x, k: k - x,
    "transpose": lambda x, k: x.T,
    "flatten": lambda x, k: x.reshape(-1),
    "split": lambda x, k: x.reshape(2, -1) if x.size % 2 == 0 and x.size else x,
    "column": lambda x, k: x.reshape(-1, 1) if small(x) else x,
    "first": lambda x, k: x[k % x.shape[0] :] if x.ndim and x.shape[0] > 1 else x,
    "reverse": lambda x, k: x[::-1] if x.ndim else x,
    "sum": lambda x, k: x.sum(axis=0, dtype="float32").astype(x.dtype) if x.ndim else x,
}


def run_program(inputs: list[Any], steps: list[Step]) -> list[Any]:
    """Execute a program on Tensors or on arrays; every slice of an array is copied."""
    values = list(inputs)
    for name, i, j, k in steps:
        x, y = values[i % len(values)], values[j % len(values)]
        if name in UNARY:
            out = UNARY[name](x, k)
        elif compatible(x, y):
            out = BINARY[name](x, y)
        else:
            out = x
        if not small(out):
            out = x
        values.append(out if isinstance(out, Tensor) else np.array(out))
    return values


shapes = hnp.array_shapes(min_dims=0, max_dims=3, max_side=7)
steps = st.lists(
    st.tuples(
        st.sampled_from([*BINARY, *BINARY, *UNARY]), st.integers(0, 20), st.integers(0, 20), st.integers(0, 3)
    ),
    min_size=1,
    max_size=10,
)


@st.composite
def arrays(draw: st.DrawFn) -> list[np.ndarray[Any, Any]]:
    dtype = draw(st.sampled_from(["float16", "float32"]))
    shape = draw(shapes)
    seed = draw(st.integers(0, 2**16))
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(draw(st.integers(1, 3))):
        mask = draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)))
        cut = draw(st.integers(0, len(shape)))
        own = tuple(1 if m else d for m, d in zip(mask, shape, strict=True))[cut:]
        out.append(rng.integers(-8, 9, own).astype(dtype) / np.dtype(dtype).type(4))
    return out


def equal(a: Any, b: Any) -> bool:
    """Bit-equal up to the sign of zero (the maximum of -0.0 and 0.0 has none) and the payload of nan."""
    return a.shape == b.shape and a.dtype == b.dtype and np.array_equal(a, b, equal_nan=True)


@given(arrays(), steps)
@pytest.mark.sweep(default=70, full=2000)
def test_programs_equal_numpy_in_any_block_order(inputs: list[Any], program: list[Step]) -> None:
    """checklist 15, 22, 70: before and after planning, in any order of output blocks, from the cache or
    not.
    """
    with np.errstate(all="ignore"):
        want = run_program([a.copy() for a in inputs], program)
    got = run_program([Tensor(a) for a in inputs], program)
    chosen = sorted({0, len(want) // 2, len(want) - 1})
    outputs = [got[i] for i in chosen]
    for config in (Config(), Config(memory_planner=False, schedule_cache=0), Config(partial_stage=0)):
        schedule = rangeify.schedule(*outputs, config=config)
        for order in (None, 1, 2):
            for i, value in zip(chosen, rangeify.run(schedule, order=order), strict=True):
                assert equal(value, want[i]), (i, program, schedule.explain())


@given(arrays(), steps)
@pytest.mark.sweep(default=35, full=1000)
def test_realising_in_pieces_changes_nothing(inputs: list[Any], program: list[Step]) -> None:
    """checklist 53: values realised one by one, first to last or last to first, are those realised
    together.
    """
    with np.errstate(all="ignore"):
        want = run_program([a.copy() for a in inputs], program)
    for order in (1, -1):
        got = run_program([Tensor(a) for a in inputs], program)
        for i in range(len(want))[::order]:
            got[i].realize()
            assert equal(got[i].numpy(), want[i])


@given(arrays(), steps)
@pytest.mark.sweep(default=20, full=500)
def test_json_round_trip_runs_equally(inputs: list[Any], program: list[Step]) -> None:
    """The text form carries everything: the loaded schedule computes the same bytes from the same arrays."""
    got = run_program([Tensor(a) for a in inputs], program)
    schedule = rangeify.schedule(got[-1])
    loaded = rangeify.Schedule.from_json(schedule.to_json())
    assert loaded.to_json() == schedule.to_json()
    assert [k.body for k in loaded.kernels] == [k.body for k in schedule.kernels]
    names = [schedule.buffers[i].name for i in schedule.inputs]
    held = rangeify.executor.execute.bind_inputs(schedule, None)
    arrays_by_name = dict(zip(names, (held[i] for i in schedule.inputs), strict=True))
    (a,), (b,) = rangeify.run(schedule), rangeify.run(loaded, arrays_by_name)
    assert equal(a, b)
