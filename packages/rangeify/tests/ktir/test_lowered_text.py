"""The KTIR that kernels become: text, verification, names, programs as a contract."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

import ktir
import rangeify
import rangeify.ktir
from ktir.machine import Machine
from rangeify import Tensor, UnsupportedDtype, UnsupportedError
from rangeify.ktir import Place, Program, ProgramFormatError
from rangeify.ktir.scalar import literal


def tensor(*shape: int, dtype: str = "float16", seed: int = 0) -> Tensor:
    return Tensor(np.random.default_rng(seed).integers(-9, 9, shape).astype(dtype))


def lower(*tensors: Tensor, machine: Machine | None = None) -> Program:
    return rangeify.ktir.lower(rangeify.schedule(*tensors), machine or Machine())


def demo() -> Tensor:
    return (tensor(96, 640) * tensor(640) + tensor(96, 1)).relu() * 0.5


def test_demo_kernel_text() -> None:
    """Planning spec 6.1, 6.2 and appendix A.1: rows over 32 cores, a vector and a column operand."""
    program = lower(demo())
    (item,) = program.items
    text = ktir.print_module(item.module)
    assert re.fullmatch(r"E_96_640_[0-9a-f]{8}", item.function)
    assert "grid = [32]" in text
    for line in (
        "sizes: [10, 96, 64], strides: [6144, 64, 1]",
        "sizes: [10, 64], strides: [64, 1]",
        "sizes: [1, 96, 64], strides: [6144, 64, 1]",
        "!ktdp.access_tile<10x3x64xindex>",
        "!ktdp.access_tile<1x3x1xindex>",
        "affine_map<(d0, d1, d2) -> (d0, d2)>",
        "affine_map<(d0, d1, d2) -> (0, d1, 0)>",
        "arith.maximumf",
        'ktdp.name = "in3"',
    ):
        assert line in text, (line, text)
    assert text.count("linalg.generic") == 1
    assert [program.buffers[b].name for b in item.buffers] == ["out0", "in0", "in1", "in2"]


def test_text_is_a_fixed_point_and_structural() -> None:
    for module in lower(demo(), tensor(5, 7) * 2).modules.values():
        text = ktir.print_module(module)
        assert ktir.print_module(ktir.parse(text)) == text


@pytest.mark.parametrize(
    "make", [lambda: tensor(6, 1) * 2, lambda: tensor() + 1, lambda: tensor(1, 1, 70) + tensor(70)]
)
def test_the_result_is_written_by_an_identity_map(make: Any) -> None:
    """Also where dimensions have one entry: every loop of the generic is a dimension of the stored tile."""
    for module in lower(make()).modules.values():
        text = ktir.print_module(module)
        (alias,) = re.findall(r"indexing_maps = \[[^\]]*(#\w+)\]", text)
        ((names, results),) = re.findall(rf"^{alias} = affine_map<\((.*)\) -> \((.*)\)>$", text, re.M)
        assert names == results


def test_equal_bodies_share_one_module() -> None:
    """Reading 41: the name is the readable name and the key of the body."""
    program = lower(tensor(4, 70) + tensor(4, 70, seed=1), tensor(4, 70, seed=2) + tensor(4, 70, seed=3))
    assert len(program.items) == 2
    assert program.items[0].module is program.items[1].module
    assert list(program.modules) == [program.items[0].function]
    transposed = lower(tensor(70, 4).T + tensor(4, 70, seed=1))
    assert transposed.items[0].function not in program.modules


def test_intermediates_lie_in_the_arena() -> None:
    """Reading 26: planned again with device bytes and 128-byte alignment."""
    x = tensor(5, 70)
    value = x
    for _ in range(6):
        value = (value + 1).contiguous()
        value = value * 2
    program = lower(value)
    planned = [b for b in program.buffers if b.place is Place.ARENA]
    assert len(planned) == 6
    assert all(b.offset is not None and b.offset % 128 == 0 for b in planned)
    assert {b.layout.device_bytes for b in planned} == {2 * 5 * 128}
    assert program.arena_bytes == 2 * 2 * 5 * 128


OPERATIONS: dict[str, tuple[Any, str]] = {
    "sub": (lambda x, y: x - y, "arith.subf"),
    "div": (lambda x, y: x / y, "arith.divf"),
    "less": (lambda x, y: (x < y).where(x, y), "arith.cmpf olt"),
    "equal": (lambda x, y: (x == y).where(x, y), "arith.cmpf une"),
    "at most": (lambda x, y: (x <= y).where(x, y), "arith.ori"),
    "reciprocal": (lambda x, y: x.reciprocal() + y, "arith.divf"),
    "exp": (lambda x, y: x.exp() + y, "math.exp"),
    "tanh": (lambda x, y: x.tanh() + y, "math.tanh"),
    "sqrt": (lambda x, y: x.sqrt() + y, "math.sqrt"),
    "round": (lambda x, y: x.round() + y, "math.roundeven"),
    "minimum": (lambda x, y: x.minimum(y), "arith.maximumf"),
    "infinity": (lambda x, y: x.maximum(float("-inf")) + y, "0xFC00 : f16"),
    "wide": (lambda x, y: (x.cast("float32") + y.cast("float32")).cast("float16"), "arith.extf"),
    "bool": (lambda x, y: x < y, "arith.uitofp"),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name: str) -> None:
    """Every operation parses, verifies, and is the named operation of arith or math."""
    make, expected = OPERATIONS[name]
    program = lower(make(tensor(5, 70), tensor(5, 70, seed=1)))
    assert expected in ktir.print_module(program.items[0].module)


def test_integers_and_stored_bools() -> None:
    x, y = tensor(4, 40, dtype="int32"), tensor(4, 40, dtype="int32", seed=1)
    text = ktir.print_module(lower(x * y - 3).items[0].module)
    assert "arith.muli" in text
    condition = (tensor(4, 70) < 0).contiguous()
    program = lower(condition.where(tensor(4, 70), tensor(4, 70, seed=1)).contiguous())
    assert "arith.select" in "".join(ktir.print_module(m) for m in program.modules.values())


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: tensor(4, 8).sum(1), UnsupportedError, "REDUCE ADD"),
        (lambda: tensor(4, 8, dtype="float64") + 1, UnsupportedDtype, "dtype float64 .*buffer"),
        (lambda: tensor(4, 8, dtype="int64") + 1, UnsupportedDtype, "int64"),
        (lambda: tensor(4, 8).cast("float32"), UnsupportedError, "different numbers of elements per stick"),
        (lambda: tensor(8).flip(0) + 1, UnsupportedError, "kernel E_8_"),
        (
            lambda: tensor(8, 64)[np.array([1, 5], np.int32)] + 1,
            UnsupportedError,
            "an access at index .*kernel E_2_64_",
        ),
    ],
)
def test_what_has_no_lowering_is_named(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        lower(make())


def test_machine_switches_are_written() -> None:
    """Reading 5 and 7: only what differs from the default."""
    machine = Machine(tiles=4, f16_format="dlfloat")
    (item,) = lower(demo(), machine=machine).items
    text = ktir.print_module(item.module)
    assert 'ktdp.f16_format = "dlfloat"' in text
    assert "grid = [4]" in text
    assert "ktdp.f16_format" not in ktir.print_module(lower(demo()).items[0].module)


def test_program_round_trips_through_json() -> None:
    x = tensor(5, 70)
    program = lower(((x + 1).contiguous().T * 2).contiguous())
    text = program.to_json()
    loaded = Program.from_json(text)
    assert loaded.to_json() == text
    assert loaded.buffers == program.buffers
    assert [i.buffers for i in loaded.items] == [i.buffers for i in program.items]
    for damage in ({"rangeify.ktir": 9}, {"items": [{"function": "f", "buffers": [0]}]}, {"buffers": [{}]}):
        with pytest.raises(ProgramFormatError):
            Program.from_json(json.dumps({**json.loads(text), **damage}))
    with pytest.raises(ProgramFormatError):
        Program.from_json("[")


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (0.5, "float16", "0.5 : f16"),
        (1e-7, "float32", "1.0e-07 : f32"),
        (float("nan"), "float16", "0x7E00 : f16"),
        (float("inf"), "float32", "0x7F800000 : f32"),
        (float("-inf"), "bfloat16", "0xFF80 : bf16"),
        (-1, "int32", "-1 : i32"),
        (255, "uint8", "-1 : i8"),
        (True, "bool", "true"),
        (-0.0, "float16", "-0.0 : f16"),
    ],
)
def test_literals(value: Any, dtype: str, text: str) -> None:
    from rangeify.storage import named_dtype

    assert literal(value, named_dtype(dtype)) == text


def test_signature_tells_roles_and_shapes() -> None:
    (item,) = lower(demo()).items
    arguments = ktir.signature(item.module, item.function)
    assert [a.name for a in arguments] == ["out", "in1", "in2", "in3"]
    assert [str(a.role).lower().rsplit(".", 1)[-1] for a in arguments] == [
        "output",
        "input",
        "input",
        "input",
    ]
