"""Device layouts and work division against the worked examples of the planning spec and brute force."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktir.types import F16, F32
from rangeify import UnsupportedError
from rangeify.ktir.division import core_split, divide
from rangeify.ktir.layout import DeviceLayout, Part, device_layout

PART = {"T": Part.TILE, "L": Part.LANE, "W": Part.WHOLE}


@pytest.mark.parametrize(
    ("shape", "order", "dims"),
    [
        ((120,), None, "T0 L0"),
        ((37, 130), None, "T1 W0 L1"),
        ((37, 130), (1, 0), "T0 W1 L0"),
        ((6, 70, 200), None, "W1 T2 W0 L2"),
        ((6, 70, 200), (0, 2, 1), "W2 T1 W0 L1"),
        ((2, 3, 70, 200), None, "W1 W2 T3 W0 L3"),
        ((96,), (0, -1), "T- W0 L-"),
        ((512, 256), (0, 1, -1), "W1 T- W0 L-"),
        ((), None, "T- L-"),
    ],
)
def test_parts_of_worked_layouts(shape: tuple[int, ...], order: tuple[int, ...] | None, dims: str) -> None:
    """Planning spec 1.2: what each device dimension of the worked examples counts."""
    layout = device_layout(shape, F16, order)
    want = [(PART[d[0]], None if d[1] == "-" else int(d[1])) for d in dims.split()]
    assert [(d.part, d.host) for d in layout.dims] == want
    assert tuple(d.size for d in layout.dims) == layout.stick.device_size


def device_index(layout: DeviceLayout, index: tuple[int, ...]) -> tuple[int, ...]:
    """The device coordinate of a host element, from the parts alone."""
    out = []
    for dim in layout.dims:
        i = 0 if dim.host is None else index[dim.host]
        out.append({Part.WHOLE: i, Part.TILE: i // layout.lanes, Part.LANE: i % layout.lanes}[dim.part])
    return tuple(out)


sizes = st.lists(st.integers(1, 4) | st.sampled_from([33, 70]), max_size=3).filter(
    lambda s: math.prod(s) < 800
)


@given(st.data(), sizes)
def test_strides_and_parts_agree_for_every_element(data: st.DataObject, dims: list[int]) -> None:
    """Planning spec 1.1: host offset = sum of coordinate times stride, and no two elements share a place."""
    shape = tuple(dims)
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    if data.draw(st.booleans()):
        order += (-1,)
    layout = device_layout(shape, F32, order)
    seen = set()
    for offset, index in enumerate(np.ndindex(*shape)):
        at = device_index(layout, index)
        assert all(0 <= c < n for c, n in zip(at, layout.device_size, strict=True))
        assert sum(c * s for c, s in zip(at, layout.stick.stride_map, strict=True) if s > 0) == offset
        seen.add(at)
    assert len(seen) == math.prod(shape)


def test_too_many_dimensions_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="7 dimensions"):
        device_layout((2,) * 7, F16)


@pytest.mark.parametrize(
    ("size", "cores", "split"), [(96, 32, 32), (70, 32, 14), (37, 32, 1), (100, 32, 25), (10, 32, 10)]
)
def test_core_split_table(size: int, cores: int, split: int) -> None:
    """Planning spec 2.1."""
    assert core_split(size, cores) == split


@pytest.mark.parametrize(
    ("sizes", "splits"),
    [
        ((96, 10), (32, 1)),
        ((6, 70, 4), (2, 14, 1)),
        ((37, 3), (1, 3)),
        ((100, 64), (25, 1)),
        ((), ()),
    ],
)
def test_greedy_division_table(sizes: tuple[int, ...], splits: tuple[int, ...]) -> None:
    """Planning spec 2.4: the worked pointwise kernels."""
    assert divide(sizes, 32) == splits


@given(st.lists(st.integers(1, 200), max_size=5), st.integers(1, 32))
def test_division_is_even_and_fits(sizes: list[int], cores: int) -> None:
    splits = divide(sizes, cores)
    assert math.prod(splits) <= cores
    assert all(n % s == 0 for n, s in zip(sizes, splits, strict=True))
    # no single variable could be split further by the cores that are left over
    left = cores // math.prod(splits)
    largest = max(range(len(sizes)), key=lambda i: sizes[i], default=None)
    if largest is not None and left > 1:
        better = [
            s
            for s in itertools.takewhile(lambda s: s <= cores, itertools.count(1))
            if sizes[largest] % s == 0
        ]
        assert splits[largest] == better[-1]


def test_no_cores() -> None:
    with pytest.raises(ValueError, match="0 cores"):
        divide((4,), 0)
