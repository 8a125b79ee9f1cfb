"""Loops, conditions, scalars and addresses around compute groups: every level agrees, for several launch values."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import pytest

import dfsched
import ktir
import spyresim
from ktir.dtypes import storage_dtype
from repository import ROOT
from spyresim.testing.text import dims, function, load, store, tile, view
from spyresim.verification import differences

SWEEPS = os.environ.get("SWEEPS", "") not in ("", "0")
QUAD = str(ROOT / "packages" / "dfsched" / "tests" / "devices" / "quad.mlir")
DEVICES = ("spyre", "sample", QUAD)
SHAPE = (24, 40)
HEAD = [
    *(f"%c{n} = arith.constant {n} : index" for n in (0, 1, 2, 3, 5, 9)),
    "%t = ktdp.get_compute_tile_id : index",
]
VIEWS = [view("av", "a", SHAPE), view("bv", "b", SHAPE)]


def group(
    at: str = "%t * 4, 0", extents: Sequence[int] = (4, 40), name: str = "", op: str = "addf"
) -> list[str]:
    """b[at] = a[at] + a[at]."""
    x, y, source, target = (f"{n}{name}" for n in ("x", "y", "at", "bt"))
    return [
        tile(source, "av", at, SHAPE, extents),
        tile(target, "bv", at, SHAPE, extents),
        load(x, source, extents),
        f"%{y} = arith.{op} %{x}, %{x} : tensor<{dims(extents)}f16>",
        store(y, target, extents),
    ]


ROW = (1, 40)
ODD = ["%r = arith.remui %i, %c2 : index", "%q = arith.cmpi eq, %r, %c0 : index"]
KERNELS: dict[str, tuple[list[str], str, list[dict[str, object]]]] = {
    "condition of the launch": (
        [
            "%q = arith.cmpi sgt, %n, %c3 : index",
            "scf.if %q {",
            *group(),
            "} else {",
            *group("%t * 4 + 8, 0", name="2"),
            "}",
        ],
        ", %n: index",
        [{"n": 3}, {"n": 4}],
    ),
    "condition of the tile": (
        [
            "%q = arith.cmpi eq, %t, %c1 : index",
            "scf.if %q {",
            *group(),
            "} else {",
            *group("%t * 4 + 8, 0", name="2"),
            "}",
        ],
        "",
        [{}],
    ),
    "loop from 2 by 3": (
        ["scf.for %i = %c2 to %c9 step %c3 {", *group("%t * 12 + %i, 0", ROW), "}"],
        "",
        [{}],
    ),
    "loop between launch values": (
        ["scf.for %i = %n to %m step %c2 {", *group("%t * 12 + %i, 0", ROW), "}"],
        ", %n: index, %m: index",
        [{"n": 1, "m": 8}, {"n": 4, "m": 5}, {"n": 6, "m": 6}],
    ),
    "nested, each from the other": (
        [
            "scf.for %i = %c1 to %c5 step %c2 {",
            "%u = arith.addi %i, %c2 : index",
            "scf.for %j = %i to %u step %c1 {",
            *group("%t * 12 + %i + %j, 0", ROW),
            "}",
            "}",
        ],
        "",
        [{}],
    ),
    "triangle of loops": (
        [
            "scf.for %i = %c0 to %c5 step %c1 {",
            "scf.for %j = %i to %c5 step %c1 {",
            *group("%t * 12 + %i, %j * 8", (1, 8)),
            "}",
            "}",
        ],
        "",
        [{}],
    ),
    "condition in a loop": (
        [
            "scf.for %i = %c0 to %n step %c1 {",
            *ODD,
            "scf.if %q {",
            *group("%t * 12 + %i, 0", ROW),
            "} else {",
            *group("%t * 12 + %i, 0", ROW, "2", "mulf"),
            "}",
            "}",
        ],
        ", %n: index",
        [{"n": 1}, {"n": 9}],
    ),
    "loop in a condition": (
        [
            "%q = arith.cmpi ult, %t, %n : index",
            "scf.if %q {",
            "scf.for %i = %c0 to %c5 step %c1 {",
            *group("%t * 12 + %i, 0", ROW),
            "}",
            "}",
        ],
        ", %n: index",
        [{"n": 0}, {"n": 1}, {"n": 2}],
    ),
    "deep nest": (
        [f"scf.for %{v} = %c0 to %c2 step %c1 {{" for v in "ijkl"]
        + [*group("%t * 12 + %i * 4 + %j * 2 + %k, %l * 20", (1, 20)), *["}"] * 4],
        "",
        [{}],
    ),
    "truth value of the launch": (["scf.if %n {", *group(), "}"], ", %n: i1", [{"n": 0}, {"n": 1}]),
    "truth value as a number": (
        ["%w = arith.extui %n : i1 to i32", "%i = arith.index_cast %w : i32 to index", *group("%i * 4, 0")],
        ", %n: i1",
        [{"n": 0}, {"n": 1}],
    ),
    "counted in i32": (
        [
            "%w = arith.index_cast %t : index to i32",
            "%k = arith.constant 2 : i32",
            "scf.for %p = %w to %n step %k : i32 {",
            "%i = arith.index_cast %p : i32 to index",
            *group("%i, 0", ROW),
            "}",
        ],
        ", %n: i32",
        [{"n": 1}, {"n": 2}, {"n": 11}],
    ),
}
KERNELS["offset that a loop carries"] = (
    [
        "%k = arith.muli %t, %c9 : index",
        "%e:2 = scf.for %i = %c2 to %n step %c3 iter_args(%p = %k, %row = %c0) -> (index, index) {",
        *group("%p, 0", ROW),
        "%s = arith.subi %c5, %c3 : index",
        "%next = arith.addi %s, %p : index",
        "%down = arith.subi %row, %c1 : index",
        "scf.yield %next, %down : index, index",
        "}",
        *group("%e#0, 0", ROW, "2"),
        "%nine = arith.addi %k, %c9 : index",
        "%last = arith.addi %e#1, %nine : index",
        *group("%last, 0", ROW, "3"),
    ],
    ", %n: index",
    [{"n": 9}, {"n": 0}, {"n": 6}],
)
KERNELS["i32 offset through two loops"] = (
    [
        *(f"%i{n} = arith.constant {n} : i32" for n in (0, 1, 2, 3)),
        "%e = scf.for %i = %i0 to %i3 step %i1 iter_args(%a0 = %n) -> (i32) : i32 {",
        "%f = scf.for %j = %i0 to %i2 step %i1 iter_args(%a1 = %a0) -> (i32) : i32 {",
        "%p = arith.index_cast %a1 : i32 to index",
        *group("%t * 12 + %p, 0", ROW),
        "%a2 = arith.addi %a1, %i1 : i32",
        "scf.yield %a2 : i32",
        "}",
        "%a3 = arith.addi %f, %i2 : i32",
        "scf.yield %a3 : i32",
        "}",
    ],
    ", %n: i32",
    [{"n": 0}, {"n": 1}],
)
KERNELS["row that a condition yields"] = (
    [
        "%q = arith.cmpi sgt, %n, %c3 : index",
        "scf.for %i = %c0 to %c3 step %c1 {",
        "%p = scf.if %q -> (index) {",
        "%u = arith.addi %i, %c9 : index",
        "scf.yield %u : index",
        "} else {",
        "scf.yield %i : index",
        "}",
        *group("%t * 12 + %p, 0", ROW),
        "}",
    ],
    ", %n: index",
    [{"n": 4}, {"n": 3}],
)
for width in (32, 64):
    KERNELS[f"two groups by i{width}"] = (
        [
            f"%k = arith.constant -3 : i{width}",
            f"%m = arith.constant 5 : i{width}",
            f"%u = arith.remui %n, %m : i{width}",
            "%i = arith.index_castui %u : i32 to index"
            if width == 32
            else "%i = arith.index_cast %u : i64 to index",
            f"%q = arith.cmpi slt, %n, %k : i{width}",
            "%o = arith.ori %q, %f : i1",
            "scf.if %o {",
            *group("%t * 4 + %i, 0"),
            "} else {",
            "scf.if %f {",
            *group("%t * 4 + 9, 0", name="3", op="subf"),
            "} else {",
            *group("%t * 4 + 8, 0", name="2", op="mulf"),
            "}",
            "}",
        ],
        f", %n: i{width}, %f: i1",
        [{"n": -7, "f": False}, {"n": 2, "f": True}, {"n": 4, "f": False}],
    )
for width in (8, 16, 32, 64):
    KERNELS[f"row in i{width}"] = (
        [f"%i = arith.index_cast %n : i{width} to index", *group("%t * 4 + %i, 0")],
        f", %n: i{width}",
        [{"n": 0}, {"n": 7}],
    )


def pairs() -> list[object]:
    """Each kernel on one device in turn, every fourth one at all levels; all of it under SWEEPS=1."""
    found = []
    for number, name in enumerate(KERNELS):
        for device in DEVICES if SWEEPS else (DEVICES[number % len(DEVICES)],):
            levels = number % 4 == 0
            found.append(pytest.param(name, device, levels, id=f"{name}-{os.path.basename(device)}"))
    return found


def agrees(
    module: ktir.Module, device: str, launches: Sequence[dict[str, object]], levels: bool = True
) -> None:
    """The device with all launch values, and every level with the first ones (all of them under SWEEPS=1)."""
    for values in launches if SWEEPS else launches[: int(levels)]:
        (found,) = spyresim.verify(module, device, args=values)
        assert found.ok, found.first
    compiled = dfsched.compile(module, device)
    rng = np.random.default_rng(7)
    for values in launches[int(levels) :]:
        arguments = dict(values)
        for argument in ktir.signature(module):
            if argument.is_pointer:
                numbers = rng.integers(-9, 9, argument.shape)
                arguments[argument.name] = numbers.astype(storage_dtype(argument.element))
        expected = spyresim.run_ktir(module, "kernel", arguments).outputs
        outputs = spyresim.run_device(compiled, arguments).outputs
        assert not differences(expected, outputs)


@pytest.mark.parametrize(("name", "device", "levels"), pairs())
def test_control(name: str, device: str, levels: bool) -> None:
    """Conditions and bounds of launch values, tiles and loops, nested both ways; scalars of every integer type."""
    body, arguments, launches = KERNELS[name]
    module = ktir.parse(function(f"%a: index, %b: index{arguments}", [*HEAD, *VIEWS, *body], [2]))
    agrees(module, device, launches, levels)


NUMBERS = {"f16": "mulf", "bf16": "mulf", "f32": "mulf", "i32": "muli", "i16": "addi", "i8": "addi"}


@pytest.mark.parametrize("type", NUMBERS)
def test_numbers_of_the_launch(type: str) -> None:
    """A scalar argument of every type that takes part in the computation."""
    device = DEVICES[list(NUMBERS).index(type) % 3]
    body = [
        view("av", "a", SHAPE, type),
        view("bv", "b", SHAPE, type),
        tile("at", "av", "%t * 4, 0", SHAPE, (4, 40), type),
        tile("bt", "bv", "%t * 4, 0", SHAPE, (4, 40), type),
        load("x", "at", (4, 40), type),
        f"%s = tensor.splat %n : tensor<4x40x{type}>",
        f"%y = arith.{NUMBERS[type]} %x, %s : tensor<4x40x{type}>",
        store("y", "bt", (4, 40), type),
    ]
    module = ktir.parse(function(f"%a: index, %b: index, %n: {type}", [*HEAD, *body], [2]))
    agrees(
        module, device, [{"n": value if type[0] == "i" else value / 4} for value in (3, -2)], type == "bf16"
    )


def shifted(load_from: str, store_to: str, loop: bool = False) -> list[str]:
    row = (1, 37) if loop else (3, 37)
    at = "%i * 2, 0" if loop else "0, 0"
    body = [
        view("av", load_from, (30, 37)),
        view("bv", store_to, (30, 37)),
        *(["scf.for %i = %c0 to %c3 step %c1 {"] if loop else []),
        tile("at", "av", at, (30, 37), row),
        tile("bt", "bv", at, (30, 37), row),
        load("x", "at", row),
        f"%y = arith.addf %x, %x : tensor<{dims(row)}f16>",
        store("y", "bt", row),
    ]
    return body + (["}"] if loop else [])


PER_TILE = [
    "%k = arith.constant 37 : index",
    "%o = arith.muli %t, %k : index",
    "%s = arith.muli %o, %c9 : index",
]
STARTS = {
    "one element behind": (["%p = arith.addi %a, %c1 : index"], "p", "b", False),
    "stored one element behind": (["%p = arith.addi %b, %c1 : index"], "a", "p", False),
    "rows of each tile": ([*PER_TILE, "%p = arith.addi %a, %s : index"], "p", "b", False),
    "both, in a loop": (
        [*PER_TILE, "%p = arith.addi %a, %s : index", "%u = arith.addi %b, %s : index"],
        "p",
        "u",
        True,
    ),
}


@pytest.mark.parametrize("name", STARTS)
def test_starts_that_break_words(name: str) -> None:
    """Units address memory by words; a view may start at any element behind its argument, tile by tile."""
    before, source, target, loop = STARTS[name]
    grid = [2] if "%t" in " ".join(before) and target != "b" else [1]
    module = ktir.parse(
        function("%a: index, %b: index", [*HEAD, *before, *shifted(source, target, loop)], grid)
    )
    agrees(module, DEVICES[list(STARTS).index(name) % 3], [{}], loop)


def test_a_triton_loop() -> None:
    """Blocks of 128 of n numbers, dealt to four tiles; the last block is as long as what is left."""
    module = ktir.load(ROOT / "integration" / "kernels" / "dynamic_add.mlir")
    compiled = dfsched.compile(module, "spyre", dfsched.Options(kernel="dynamic_add"))
    for n in (1000, 1, 128):
        a, b = (np.random.default_rng([n, k]).normal(0, 1, n).astype(np.float16) for k in (0, 9))
        outputs = spyresim.run_device(compiled, {"arg0": a, "arg1": b, "arg3": n}).outputs
        np.testing.assert_array_equal(outputs["arg2"], a + b)


def test_a_mask_from_indices() -> None:
    """`tensor.generate` under a softmax: the causal part of each block on the diagonal."""
    module = ktir.load(ROOT / "integration" / "kernels" / "triangular.mlir")
    (found,) = spyresim.verify(module, "sample", kernel="causal_softmax")
    assert found.ok, found.first


@pytest.mark.parametrize("device", DEVICES if SWEEPS else DEVICES[1:2])
def test_rows_that_move_in_place(device: str) -> None:
    """By way of the scratchpad, as the refusal of the direct way says."""
    shape, rows = (24, 40), (22, 40)
    body = [
        view("av", "a", shape),
        view("kv", "k", rows).replace("HBM", "L1").replace("<global>", "<ct_local>"),
        tile("at", "av", "0, 0", shape, rows),
        tile("kt", "kv", "0, 0", rows, rows),
        tile("bt", "av", "2, 0", shape, rows),
        load("x", "at", rows),
        store("x", "kt", rows),
        load("y", "kt", rows),
        store("y", "bt", rows),
    ]
    lines = ["%k = arith.constant 0 : index", *body]
    module = ktir.parse(function("%a: index", lines, [1]))
    assert "ct_local" in ktir.print_module(module)
    agrees(module, device, [{}])
    direct = function("%a: index", [*body[:1], body[2], body[4], body[5], store("x", "bt", rows)], [1])
    with pytest.raises(dfsched.UnsupportedKernel, match="store to other memory first"):
        dfsched.compile(ktir.parse(direct), device)


def whole(shape: Sequence[int]) -> ktir.Module:
    """exp of one array by one tile."""
    zeros = ", ".join(["0"] * len(shape))
    lines = [
        view("av", "a", shape),
        view("bv", "b", shape),
        tile("at", "av", zeros, shape, shape),
        tile("bt", "bv", zeros, shape, shape),
        load("x", "at", shape),
        f"%y = math.exp %x : tensor<{dims(shape)}f16>",
        store("y", "bt", shape),
    ]
    return ktir.parse(function("%a: index, %b: index", lines, [1]))


@pytest.mark.parametrize(
    ("shape", "device", "loops"),
    [((1000,), "sample", 1), ((2, 1, 3, 1, 2, 64), "spyre", 6), ((2, 1, 1, 2, 64), QUAD, 5)],
    ids=["one loop", "six loops", "five loops"],
)
def test_nests_of_any_depth(shape: tuple[int, ...], device: str, loops: int) -> None:
    """One loop is tiled like others, and so are nests deeper than four; instances share a loop."""
    module = whole(shape)
    compiled = dfsched.compile(module, device)
    nest = compiled.plans[0].nests[0]
    assert len(nest.tile_sizes) == loops
    assert max(nest.tile_sizes) > 1
    assert nest.instances > 1
    agrees(module, device, [{}], levels=loops == 6)
