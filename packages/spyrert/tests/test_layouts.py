"""Layouts: the shared vectors, brute force, and transfers (runtime spec 3.4, planning spec 1)."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spyrert.device.memory import nest_extent, nest_view
from spyrert.elements import element_offsets
from spyrert.errors import LaunchSpecError, LayoutMismatch, UnsupportedDtype
from spyrert.spyrecode import LinearLayout, StickLayout, item_bytes
from spyrert.spyrecode._json import Node
from spyrert.spyrecode.layout import contiguous_strides, layout_from_json
from spyrert.transfer import nests, view_nests

VECTORS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "layout_vectors.json").read_text())


def read(document: Any) -> Any:
    return layout_from_json(Node(document, "vectors", "", LaunchSpecError))


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: case["name"])
def test_shared_vectors(case: dict[str, Any]) -> None:
    """reading 6: JSON form, bytes, and the place of single elements, as KTIR's layout attribute has them."""
    layout = read(case["layout"])
    assert layout.to_json() == case["layout"]
    shape = tuple(case["shape"])
    if case["order"] is not None:
        assert layout == StickLayout.default(shape, layout.device_dtype, case["order"])
    assert layout.device_bytes(shape) == case["device_bytes"]
    for index, offset in case["offsets"]:
        host = sum(i * s for i, s in zip(index, contiguous_strides(shape), strict=True))
        linear = isinstance(layout, LinearLayout)
        assert (host * item_bytes(layout.device_dtype) if linear else layout.offset_bytes(host)) == offset


SPEC_VECTORS = [
    ((120,), None, (2, 64), (64, 1)),
    ((512, 240), None, (4, 512, 64), (64, 240, 1)),
    ((512, 8, 240), None, (8, 4, 512, 64), (240, 64, 1920, 1)),
    ((5, 100, 150), None, (100, 3, 5, 64), (150, 64, 15000, 1)),
    ((512, 256), (1, 0), (8, 256, 64), (16384, 1, 256)),
    ((512, 8, 256), (2, 0, 1), (512, 1, 256, 64), (2048, 16384, 1, 256)),
    ((512, 256), (0, 1, -1), (256, 1, 512, 64), (1, -1, 256, -1)),
    ((2, 32, 2048, 128), None, (32, 2048, 2, 2, 64), (262144, 128, 64, 8388608, 1)),
]


@pytest.mark.parametrize(("shape", "order", "size", "strides"), SPEC_VECTORS)
def test_spec_vectors(shape: Any, order: Any, size: Any, strides: Any) -> None:
    """runtime checklist R41"""
    layout = StickLayout.default(shape, "float16", order)
    assert (layout.device_size, layout.stride_map) == (size, strides)


def test_row_offsets() -> None:
    """runtime checklist R45: rows, whole sticks, and a place inside of a stick."""
    layout = StickLayout.default((512, 240), "float16")
    assert [layout.offset_bytes(b * 240) for b in (0, 1, 511)] == [0, 128, 511 * 128]
    assert layout.offset_bytes(64) == 512 * 128
    assert layout.offset_bytes(30) == 60


GOOD: dict[str, Any] = {"device_size": [4, 512, 64], "stride_map": [64, 240, 1], "device_dtype": "float16"}


@pytest.mark.parametrize(
    "document",
    [
        {"stride_map": [64, 240, 1], "device_dtype": "float16"},
        GOOD | {"stride_map": [64, 1]},
        GOOD | {"device_dtype": "float32"},
        GOOD | {"device_dtype": "complex64"},
        GOOD | {"element_arrangement": "SPIRAL"},
        GOOD | {"stride_map": [64, 240, -2]},
        GOOD | {"device_size": [4, "512", 64]},
        GOOD | {"device_strides": [65536, 100, 2]},
        GOOD | {"device_strides": [65536, 128, 4]},
        {"device_size": [64], "stride_map": [1], "device_dtype": "float16"},
        {"arrangement": "diagonal", "device_dtype": "float16"},
        [1, 2],
    ],
)
def test_invalid_forms(document: Any) -> None:
    with pytest.raises(LaunchSpecError):
        read(document)


def test_default_layout_errors() -> None:
    """fault M8"""
    with pytest.raises(LayoutMismatch, match="at most 6"):
        StickLayout.default((2,) * 7, "float16")
    with pytest.raises(LayoutMismatch, match="does not fit"):
        StickLayout.default((2, 3), "float16", (0, 0))
    with pytest.raises(UnsupportedDtype, match="complex64"):
        StickLayout.default((2, 3), "complex64")
    with pytest.raises(LayoutMismatch, match="outside"):
        StickLayout.default((4, 70), "float16").coordinates(9999)


def random_layout(rng: random.Random) -> tuple[tuple[int, ...], StickLayout]:
    rank = rng.randint(0, 6)
    shape = tuple(
        rng.choice([1, 1, 2, 3, 5, 64, 65, 70, 130]) if axis >= rank - 2 else rng.randint(1, 3)
        for axis in range(rank)
    )
    dtype = rng.choice(["float16", "float32", "int8", "int64"])
    order = list(range(rank))
    rng.shuffle(order)
    if 0 < rank < 6 and rng.random() < 0.3:
        order.append(-1)
    return shape, StickLayout.default(shape, dtype, order)


@pytest.mark.sweep(default=150, full=3000)
def test_layouts_by_brute_force(cases: int) -> None:
    """runtime checklist R44: the stride-map identity, injectivity, and agreement of the three ways to place "
    "an element."""
    rng = random.Random(4)
    for _ in range(cases):
        shape, layout = random_layout(rng)
        count = int(np.prod(shape))
        if count > 5000:
            continue
        offsets = element_offsets(layout, shape)
        width = item_bytes(layout.device_dtype)
        for host in range(count):
            coordinates = layout.coordinates(host)
            assert sum(c * s for c, s in zip(coordinates, layout.stride_map, strict=True) if s > 0) == host
            assert layout.offset_bytes(host) == offsets[host] * width
        assert len(set(offsets.tolist())) == count
        assert int(offsets.max(initial=0)) * width < layout.device_bytes(shape)


def run(loops: Any, host: np.ndarray[Any, Any], device: np.ndarray[Any, Any]) -> int:
    moved = 0
    for nest in loops:
        for strides, offset, side in (
            (nest.src_strides, nest.src_offset, host),
            (nest.dst_strides, nest.dst_offset, device),
        ):
            low, high = nest_extent(nest.sizes, strides, offset)
            assert low >= 0
            assert high < len(side)
        source = nest_view(host, nest.sizes, nest.src_strides, nest.src_offset)
        nest_view(device, nest.sizes, nest.dst_strides, nest.dst_offset)[...] = source
        moved += int(np.prod(nest.sizes))
    return moved


@pytest.mark.sweep(default=200, full=5000)
def test_nests_move_every_element_once(cases: int) -> None:
    """Transfers of whole tensors against the element-by-element map."""
    rng = random.Random(8)
    for _ in range(cases):
        shape, layout = random_layout(rng)
        count = int(np.prod(shape))
        offsets = element_offsets(layout, shape)
        host = np.arange(count)
        device = np.full(layout.device_bytes(shape) // item_bytes(layout.device_dtype), -1)
        assert run(nests(layout, shape), host, device) == count
        np.testing.assert_array_equal(device[offsets], host)
        assert (device >= 0).sum() == count


@pytest.mark.sweep(default=200, full=5000)
def test_view_nests(cases: int) -> None:
    """Transfers of random views: exactly the view's elements are written."""
    rng = random.Random(9)
    for _ in range(cases):
        shape, layout = random_layout(rng)
        base = np.arange(int(np.prod(shape))).reshape(shape)
        window = base[tuple(slice(rng.randrange(n), None, rng.choice([1, 1, 2, 3])) for n in shape)]
        axes = list(range(window.ndim))
        rng.shuffle(axes)
        window = window.transpose(axes)
        if window.size > 20_000:
            continue
        strides = tuple(s // base.itemsize for s in window.strides)
        offset = int(window.flat[0]) if window.size else 0
        device = np.full(layout.device_bytes(shape) // item_bytes(layout.device_dtype), -1)
        host = np.arange(window.size)
        assert run(view_nests(layout, window.shape, strides, offset), host, device) == window.size
        where = element_offsets(layout, window.shape, strides, offset)
        np.testing.assert_array_equal(device[where], host)
        assert (device >= 0).sum() == window.size


def test_copy_example() -> None:
    """The examples of the specs: (1024, 256) is one nest, (37, 130) two."""
    (nest,) = nests(StickLayout.default((1024, 256), "float16"), (1024, 256))
    assert (nest.sizes, nest.dst_strides, nest.src_strides) == ((4, 1024, 64), (65536, 64, 1), (64, 256, 1))
    first, second = nests(StickLayout.default((37, 130), "float16"), (37, 130))
    assert (first.sizes, first.src_strides, first.dst_strides) == ((2, 37, 64), (64, 130, 1), (2368, 64, 1))
    assert (second.sizes, second.src_offset, second.dst_offset) == ((37, 2), 128, 4736)


def test_linear_nests() -> None:
    for shape in ((), (5,), (2, 3, 4)):
        layout = LinearLayout("float32")
        host = np.arange(int(np.prod(shape)))
        device = np.full(len(host), -1)
        run(nests(layout, shape), host, device)
        np.testing.assert_array_equal(device, host)
    assert nests(LinearLayout("float32"), (2, 0)) == ()
    assert list(itertools.chain(nests(StickLayout.default((2, 0), "float16"), (2, 0)))) == []
