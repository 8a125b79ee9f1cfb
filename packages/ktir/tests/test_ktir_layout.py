"""Layouts: the definition in index arithmetic, text, JSON and bytes (planning spec 1, runtime spec 3.4)."""

from __future__ import annotations

import itertools
import json
import math
import pickle
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ktir
from ktir.dtypes import (
    decode_array,
    dtype_name,
    element_type,
    encode_array,
    literal_bits,
    literal_bytes,
    storage_dtype,
)
from ktir.errors import ParseError, UnsupportedError
from ktir.layout import (
    SPARSE,
    Layout,
    LayoutError,
    LinearLayout,
    StickLayout,
    from_device_bytes,
    layout_from_json,
    to_device_bytes,
)
from ktir.machine import F16Format
from ktir.types import BF16, DF16, F16, F32, F64, I1, I8, I32, I64, INDEX, IntegerType, Signedness, Type

VECTORS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "layout_vectors.json").read_text())


@pytest.mark.parametrize(
    ("shape", "order", "element", "device_size", "stride_map", "nbytes"),
    [
        ([], None, F16, [1, 64], [-1, -1], 128),
        ([120], None, F16, [2, 64], [64, 1], 256),
        ([37, 130], None, F16, [3, 37, 64], [64, 130, 1], 14_208),
        ([37, 130], [1, 0], F16, [1, 130, 64], [8320, 1, 130], 16_640),
        ([37, 130], None, F32, [5, 37, 32], [32, 130, 1], 23_680),
        ([6, 70, 200], None, F16, [70, 4, 6, 64], [200, 64, 14000, 1], 215_040),
        ([6, 70, 200], [0, 2, 1], F16, [200, 2, 6, 64], [1, 12800, 14000, 200], 307_200),
        ([6, 70, 200], [2, 1, 0], F16, [70, 1, 200, 64], [200, 896000, 1, 14000], 1_792_000),
        ([6, 1, 200], None, F16, [1, 4, 6, 64], [-1, 64, 200, 1], 3_072),
        ([2, 3, 70, 200], None, F16, [3, 70, 4, 2, 64], [14000, 200, 64, 42000, 1], 215_040),
        ([2, 32, 2048, 128], None, F16, [32, 2048, 2, 2, 64], [262144, 128, 64, 8388608, 1], 33_554_432),
        ([96], [0, SPARSE], F16, [1, 96, 64], [-1, 1, -1], 12_288),
        ([512, 256], [0, 1, SPARSE], F16, [256, 1, 512, 64], [1, -1, 256, -1], 16_777_216),
        ([512, 240], None, F16, [4, 512, 64], [64, 240, 1], 4 * 512 * 128),
        ([8, 512, 128], [1, 0, 2], F16, [8, 2, 512, 64], [65536, 64, 128, 1], 8 * 2 * 512 * 128),
        ([512, 8, 256], [2, 0, 1], F16, [512, 1, 256, 64], [2048, 16384, 1, 256], 512 * 256 * 128),
    ],
)
def test_worked_examples(
    shape: list[int], order: list[int] | None, element: Type, device_size: list[int], stride_map: list[int],
    nbytes: int,
) -> None:  # fmt: skip
    """The tables of planning spec 1.2 and runtime spec 3.4.2."""
    layout = StickLayout.default(shape, element, order)
    assert list(layout.device_size) == device_size
    assert list(layout.stride_map) == stride_map
    assert layout.device_bytes == nbytes == layout.device_sticks * 128


def test_one_element_by_hand() -> None:
    layout = StickLayout.default((6, 70, 200), F16)
    assert layout.coordinates((2, 33, 150)) == (33, 2, 2, 22)
    assert layout.offset_bytes((2, 33, 150)) == 2 * 51_606


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    element = draw(st.sampled_from([F16, F32, I8, BF16, I32]))
    rank = draw(st.integers(0, 4))
    shape = draw(st.lists(st.integers(1, 5), min_size=rank, max_size=rank))
    if rank:
        axis = draw(st.integers(0, rank - 1))
        shape[axis] = draw(st.sampled_from([1, 3, 63, 64, 65, 130]))
    if draw(st.integers(0, 4)) == 0:
        return LinearLayout(tuple(shape), element)
    order = list(draw(st.permutations(range(rank))))
    if rank and draw(st.booleans()):
        order.append(SPARSE)
    layout = StickLayout.default(shape, element, order)
    if draw(st.booleans()):
        widened = [s * 2 for s in layout.device_strides_bytes[:-1]]
        return StickLayout(
            layout.shape,
            element,
            layout.device_size,
            layout.stride_map,
            device_strides=(*widened, layout.item_bytes),
        )
    return layout


@given(layouts())
def test_definition_by_brute_force(layout: Layout) -> None:
    """The identity of planning spec 1.1 for every element (checklist R44), and no two share a place."""
    offsets = layout.element_offsets()
    assert offsets.shape == layout.shape
    for index in itertools.islice(itertools.product(*map(range, layout.shape)), 400):
        coordinates = layout.coordinates(index)
        assert all(0 <= c < n for c, n in zip(coordinates, layout.device_shape, strict=True))
        if isinstance(layout, StickLayout):
            host = sum(i * s for i, s in zip(index, layout.host_strides, strict=True))
            assert host == sum(c * s for c, s in zip(coordinates, layout.stride_map, strict=True) if s > 0)
        assert layout.offset_bytes(index) == offsets[index] * layout.item_bytes
    assert len(np.unique(offsets)) == offsets.size
    assert 0 <= int(offsets.max()) * layout.item_bytes < layout.device_bytes


@given(layouts(), st.integers(0, 2**32 - 1))
def test_bytes_round_trip_and_padding_is_zero(layout: Layout, seed: int) -> None:
    dtype = storage_dtype(layout.element)
    size = math.prod(layout.shape) * dtype.itemsize
    raw = np.random.default_rng(seed).integers(1, 127, size, dtype=np.uint8)
    array = raw.view(dtype).reshape(layout.shape)
    data = to_device_bytes(array, layout)
    assert data.shape == (layout.device_bytes,)
    back = from_device_bytes(data, layout)
    assert back.dtype == dtype
    assert back.tobytes() == array.tobytes()
    assert int(np.count_nonzero(data)) == raw.size


@given(layouts())
def test_text_and_json_round_trip(layout: Layout) -> None:
    assert layout_from_json(json.loads(json.dumps(layout.to_json())), layout.shape) == layout
    assert pickle.loads(pickle.dumps(layout)) == layout
    text = f'"a.b"() {{l = {layout}}} : () -> ()'
    (op,) = ktir.parse(text).operations
    assert op.attributes["l"] == layout


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v["name"])
def test_shared_vectors(vector: dict[str, Any]) -> None:
    """The same file is a test of the runtime: one definition of a layout."""
    layout = layout_from_json(vector["layout"], vector["shape"])
    assert layout.to_json() == vector["layout"]
    assert layout.device_bytes == vector["device_bytes"]
    if vector["order"] is not None:
        assert StickLayout.default(vector["shape"], layout.element, vector["order"]) == layout
    for index, offset in vector["offsets"]:
        assert layout.offset_bytes(index) == offset


def test_text_form() -> None:
    layout = StickLayout.default((37, 130), F16)
    assert str(layout) == (
        "#ktdp.layout<shape = [37, 130], device_size = [3, 37, 64], stride_map = [64, 130, 1], element = f16>"
    )
    assert str(LinearLayout((4, 8), F32)) == "#ktdp.layout<shape = [4, 8], linear, element = f32>"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("shape = [4], linear", "layout has no field 'element'"),
        ("shape = [4], element = f16", "layout has no field 'device_size'"),
        ("shape = [4], shape = [4], linear, element = f16", "'shape' is given twice"),
        ("shape = [4], size = [4]", "unknown layout field 'size'"),
        ("shape = [4], linear, element = f16, stride_map = [1]", "a linear layout has no field 'stride_map'"),
        ("shape = [4], device_size = [1, 32], stride_map = [-1, 1], element = f16",
         "the last device dimension is 32, but a stick of f16 has 64 elements"),
        ("shape = [130], device_size = [2, 64], stride_map = [64, 1], element = f16",
         "host dimension 0 of extent 130"),
        ("shape = [4, 64], device_size = [1, 4, 64], stride_map = [64, 63, 1], element = f16",
         "host dimension 0 of extent 4"),
        ("shape = [64], device_size = [2, 64], stride_map = [64, 1], element = f16",
         "device dimension 0 with stride 64 belongs to no host dimension"),
        ("shape = [64], device_size = [64], stride_map = [1], element = f16", "same length of 2 or more"),
    ],
)  # fmt: skip
def test_bad_text_is_located(body: str, message: str) -> None:
    with pytest.raises(ParseError, match=message.replace("[", r"\[")) as caught:
        ktir.parse(f'"a.b"() {{l = #ktdp.layout<{body}>}} : () -> ()')
    assert caught.value.line == 1


def test_bad_json_and_arrays() -> None:
    with pytest.raises(LayoutError, match="layout has no field 'device_dtype'"):
        layout_from_json({}, (4,))
    with pytest.raises(LayoutError, match="'device_size' must be a list of integers"):
        layout_from_json({"device_dtype": "float16", "device_size": 4, "stride_map": []}, (4,))
    with pytest.raises(LayoutError, match="unknown arrangement 'tiled'"):
        layout_from_json({"device_dtype": "float16", "arrangement": "tiled"}, (4,))
    with pytest.raises(UnsupportedError, match="dtype 'complex64' has no element type"):
        layout_from_json({"device_dtype": "complex64", "arrangement": "linear"}, (4,))
    layout = StickLayout.default((4, 64), F16)
    with pytest.raises(LayoutError, match=r"shape \(4, 63\) does not fit a layout of shape \(4, 64\)"):
        to_device_bytes(np.zeros((4, 63), np.float16), layout)
    with pytest.raises(LayoutError, match="expected 512 bytes"):
        from_device_bytes(np.zeros(511, np.uint8), layout)
    with pytest.raises(LayoutError, match=r"index \(4, 0\) is not in"):
        layout.coordinates((4, 0))
    with pytest.raises(LayoutError, match=r"order \[0, 0\] does not fit"):
        StickLayout.default((4, 4), F16, (0, 0))
    with pytest.raises(LayoutError, match="at most 6 dimensions, not 7"):
        StickLayout.default((1,) * 7, F16)
    with pytest.raises(LayoutError, match="no index arithmetic for element arrangement 'EXX2'"):
        StickLayout((64,), F16, (1, 64), (-1, 1), "EXX2").element_offsets()


def test_formats_of_arrays() -> None:
    """Values enter the device only in their own format or by an exact conversion."""
    assert encode_array(np.array([True, False]), F16).tolist() == [1.0, 0.0]
    assert encode_array(np.array([7, -1]), I32).dtype == np.int32
    assert encode_array(np.array([1.0, 0.1], np.float32), DF16).tolist() == [0x3E00, 0x3733]
    assert encode_array(np.array([1.0], np.float16), F16, F16Format.DLFLOAT).tolist() == [0x3E00]
    assert decode_array(np.array([0x3733], np.uint16), DF16).dtype == np.float32
    stored = np.array([0x3E00], np.uint16)
    assert decode_array(stored, F16, f16_format=F16Format.DLFLOAT).tolist() == [1.0]
    assert literal_bytes(b"\x00\x3c\x00\xfc", F16, F16Format.DLFLOAT) == b"\x00\x3e\xfe\xff"  # 1, -inf
    assert literal_bytes(b"\x00\x3c\x00\xfc", F16, F16Format.IEEE) == b"\x00\x3c\x00\xfc"
    assert literal_bits(0x2E66, F16, F16Format.DLFLOAT) == 0x3733
    assert literal_bits(0x3F800000, F32, F16Format.DLFLOAT) == 0x3F800000
    assert encode_array(np.array([1.5], ml_dtypes.bfloat16), BF16).dtype == ml_dtypes.bfloat16
    with pytest.raises(UnsupportedError, match="dtype float32 cannot be stored as f16"):
        encode_array(np.zeros(1, np.float32), F16)
    with pytest.raises(UnsupportedError, match="values 0 to 2147483648 does not fit i32"):
        encode_array(np.array([0, 1 << 31]), I32)


def test_dtype_names() -> None:
    for type_ in (F16, BF16, DF16, F32, F64, I1, I8, I32, I64):
        assert element_type(dtype_name(type_)) == type_
    assert dtype_name(INDEX) == "int64"
    assert dtype_name(IntegerType(16, Signedness.SIGNED)) == "int16"
    assert dtype_name(IntegerType(16, Signedness.UNSIGNED)) == "uint16"
    with pytest.raises(UnsupportedError, match="element type i7 has no storage format"):
        dtype_name(IntegerType(7))
