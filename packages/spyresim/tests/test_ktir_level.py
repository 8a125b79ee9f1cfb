"""The KTIR interpreter against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ktir
from ktir import dlfloat
from ktir.machine import Machine
from spyresim import run_ktir
from spyresim.errors import (
    ArgumentError,
    BudgetFault,
    ConflictFault,
    ControlFault,
    ExecutionFault,
    MisalignedFault,
    OutOfRangeFault,
    UnsupportedError,
    UnwrittenReadFault,
)
from spyresim.testing import text as k

RNG = np.random.default_rng(20)


def module(text: str) -> Any:
    parsed = ktir.parse(text)
    ktir.verify(parsed)
    return parsed


def run(text: str, machine: Machine | None = None, **args: Any) -> dict[str, Any]:
    return run_ktir(module(text), args=args, machine=machine).outputs


def half(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float16)


def test_shifted_add_over_32_tiles() -> None:
    """An element-wise kernel with a scalar argument; counters (issue 2, kernel (a))."""
    a, b = half(100, 256), half(96, 256)
    result = run_ktir(module(k.shifted_add()), "shifted_add", {"a": a, "b": b, "shift": 4})
    assert np.array_equal(result.outputs["c"], a[4:] + b)
    assert result.report.tiles == 32
    assert result.report.counters.bytes_read == {"device memory": 2 * 96 * 256 * 2}
    assert result.report.counters.bytes_written == {"device memory": 96 * 256 * 2}


def test_switches_of_a_module_beside_something_else() -> None:
    """They are in force as if the module stood alone in its file."""
    alone = f'module attributes {{ktdp.f16_format = "dlfloat"}} {{\n{k.shifted_add()}\n}}'
    a, b = np.full((100, 256), 1 + 2**-10, np.float16), np.zeros((96, 256), np.float16)
    expected = run(alone, a=a, b=b, shift=0)["c"]
    assert (expected == np.float16(1 + 2**-9)).all()  # nine bits of fraction
    beside = module(f"func.func private @d()\n{alone}")
    assert np.array_equal(run_ktir(beside, args={"a": a, "b": b, "shift": 0}).outputs["c"], expected)


def copy_kernel(
    set: str | None, order: str | None, extents: tuple[int, ...], result: tuple[int, ...], at: str
) -> str:
    shape = (50, 160)
    return k.function(
        "%p: index, %q: index",
        [
            "%c3 = arith.constant 3 : index",
            "%c0 = arith.constant 0 : index",
            k.view("v", "p", shape, "f32"),
            k.view("w", "q", result, "f32"),
            k.tile("s", "v", at, shape, extents, "f32", set, order, result),
            k.tile("d", "w", ", ".join(["%c0"] * len(result)), result, result, "f32"),
            k.load("x", "s", result, "f32"),
            k.store("x", "d", result, "f32"),
        ],
    )


class TestAccessTiles:
    """Order, shape and position of access tiles (ktir checklist 50 to 53)."""

    data = RNG.normal(size=(50, 160)).astype(np.float32)

    def out(self, *args: Any) -> Any:
        return run(copy_kernel(*args), p=self.data)["q"]

    def test_swapped_order_transposes(self) -> None:
        """checklist 50"""
        order = "affine_map<(a, b) -> (b, a)>"
        got = self.out(None, order, (6, 20), (20, 6), "%c3, %c0 + 1")
        assert np.array_equal(got, self.data[3:9, 1:21].T)

    def test_strided_set(self) -> None:
        """checklist 52: every second column"""
        set = "affine_set<(r, c) : (r >= 0, -r + 9 >= 0, c >= 0, -c + 39 >= 0, c mod 2 == 0)>"
        got = self.out(set, None, (10, 20), (10, 20), "%c3, %c3 * 2 + 1")
        assert np.array_equal(got, self.data[3:13, 7:47:2])

    def test_triangle_in_lexicographic_order(self) -> None:
        """checklist 52"""
        set = "affine_set<(r, c) : (r >= 0, -r + 2 >= 0, c >= 0, r - c >= 0)>"
        got = self.out(set, None, (6, 1), (6, 1), "%c3, %c0")
        expected = [self.data[3 + r, c] for r in range(3) for c in range(r + 1)]
        assert np.array_equal(got[:, 0], np.array(expected))

    def test_point_count_differs_from_the_tile(self) -> None:
        """checklist 52"""
        set = "affine_set<(r, c) : (r >= 0, -r + 2 >= 0, c >= 0, r - c >= 0)>"
        with pytest.raises(ExecutionFault, match=r"has 6 points, but the tile type .* holds 9"):
            self.out(set, None, (3, 3), (3, 3), "%c3, %c0")

    def test_set_that_starts_behind_zero(self) -> None:
        """checklist 53"""
        set = "affine_set<(r, c) : (r - 4 >= 0, -r + 6 >= 0, c >= 0, -c + 4 >= 0)>"
        got = self.out(set, None, (3, 5), (3, 5), "%c3, %c0")
        assert np.array_equal(got, self.data[7:10, :5])

    def test_three_cycle(self) -> None:
        """checklist 51"""
        data = RNG.normal(size=(2, 3, 4)).astype(np.float32)
        text = k.function(
            "%p: index, %q: index",
            [
                "%c0 = arith.constant 0 : index",
                k.view("v", "p", (2, 3, 4), "f32"),
                k.view("w", "q", (4, 2, 3), "f32"),
                k.tile("s", "v", "%c0, %c0, %c0", (2, 3, 4), (2, 3, 4), "f32", None,
                       "affine_map<(a, b, c) -> (c, a, b)>", (4, 2, 3)),
                k.tile("d", "w", "%c0, %c0, %c0", (4, 2, 3), (4, 2, 3), "f32"),
                k.load("x", "s", (4, 2, 3), "f32"),
                k.store("x", "d", (4, 2, 3), "f32"),
            ],
        )  # fmt: skip
        assert np.array_equal(run(text, p=data)["q"], data.transpose(2, 0, 1))

    def test_outside_of_the_view(self) -> None:
        with pytest.raises(OutOfRangeFault, match=r"coordinate \(50, 159\) is outside") as caught:
            run(copy_kernel(None, None, (48, 160), (48, 160), "%c3, %c0"), p=self.data)
        assert caught.value.coordinate == (50, 159)
        assert caught.value.site.operation == "ktdp.load"
        assert caught.value.site.tile == 0


def test_generic_with_broadcasts_and_index() -> None:
    text = k.function(
        "%p: index, %q: index, %r: index",
        [
            "%c0 = arith.constant 0 : index",
            k.view("v", "p", (6, 5), "f32"),
            k.view("u", "q", (5,), "f32"),
            k.view("w", "r", (5, 6), "f32"),
            k.tile("vt", "v", "%c0, %c0", (6, 5), (6, 5), "f32"),
            k.tile("ut", "u", "%c0", (5,), (5,), "f32"),
            k.tile("wt", "w", "%c0, %c0", (5, 6), (5, 6), "f32"),
            k.load("x", "vt", (6, 5), "f32"),
            k.load("y", "ut", (5,), "f32"),
            "%e = tensor.empty() : tensor<5x6xf32>",
            """%z = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,
                 affine_map<(i, j) -> (j, i)>], iterator_types = ["parallel", "parallel"]}
                 ins(%x, %y : tensor<6x5xf32>, tensor<5xf32>) outs(%e : tensor<5x6xf32>) {
            ^bb0(%a: f32, %b: f32, %o: f32):
              %i = linalg.index 0 : index
              %i32 = arith.index_cast %i : index to i32
              %f = arith.sitofp %i32 : i32 to f32
              %s = arith.mulf %a, %b : f32
              %t = arith.addf %s, %f : f32
              linalg.yield %t : f32
            } -> tensor<5x6xf32>""",
            k.store("z", "wt", (5, 6), "f32"),
        ],
    )
    x, y = RNG.normal(size=(6, 5)).astype(np.float32), RNG.normal(size=5).astype(np.float32)
    expected = (x * y + np.arange(6, dtype=np.float32)[:, None]).T
    assert np.array_equal(run(text, p=x, q=y)["r"], expected)


def test_reduce_combines_with_the_init_from_left_to_right() -> None:
    """checklist 102; readings 16: a left fold with one rounding an addition"""
    text = k.function(
        "%p: index, %q: index",
        [
            "%c0 = arith.constant 0 : index",
            "%one = arith.constant 1.0 : f16",
            k.view("v", "p", (4, 70)),
            k.view("w", "q", (4,)),
            k.tile("vt", "v", "%c0, %c0", (4, 70), (4, 70)),
            k.tile("wt", "w", "%c0", (4,), (4,)),
            k.load("x", "vt", (4, 70)),
            "%i = tensor.splat %one : tensor<4xf16>",
            "%z = linalg.reduce { arith.addf } ins(%x : tensor<4x70xf16>) outs(%i : tensor<4xf16>) dimensions = [1]",
            k.store("z", "wt", (4,)),
        ],
    )
    x = half(4, 70)
    expected = np.ones(4, np.float16)
    for column in range(70):
        expected = expected + x[:, column]
    assert np.array_equal(run(text, p=x)["q"], expected)


@pytest.mark.parametrize(("out", "shape"), [("d0, 0", (4, 1)), ("0, d1", (1, 6)), ("0, 0", (1, 1))])
def test_reductions_that_keep_the_rank(out: str, shape: tuple[int, int]) -> None:
    """A constant subscript of an output is an axis of one element; of a longer axis it is refused."""

    def text(shape: tuple[int, int]) -> str:
        type = f"tensor<{shape[0]}x{shape[1]}xf32>"
        kinds = ", ".join('"parallel"' if f"d{d}" in out else '"reduction"' for d in range(2))
        return k.function(
            "%p: index, %q: index",
            [
                "%z = arith.constant 0 : index",
                k.view("v", "p", (4, 6), "f32"),
                k.view("w", "q", shape, "f32"),
                k.tile("s", "v", "%z, %z", (4, 6), (4, 6), "f32"),
                k.tile("d", "w", "%z, %z", shape, shape, "f32"),
                k.load("x", "s", (4, 6), "f32"),
                f"%i = arith.constant dense<3.0> : {type}",
                "%y = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, "
                f"affine_map<(d0, d1) -> ({out})>], iterator_types = [{kinds}]}} "
                f"ins(%x : tensor<4x6xf32>) outs(%i : {type}) {{\n^bb0(%a: f32, %acc: f32):\n"
                f"%r = arith.addf %acc, %a : f32\nlinalg.yield %r : f32\n}} -> {type}",
                k.store("y", "d", shape, "f32"),
            ],
        )

    data = RNG.integers(-9, 9, (4, 6)).astype(np.float32)
    over = tuple(d for d in range(2) if f"d{d}" not in out)
    got = run(text(shape), p=data)["q"]
    assert np.array_equal(got, data.sum(over, keepdims=True) + 3)
    with pytest.raises(UnsupportedError, match="an output of type"):
        run(text((2 if shape[0] == 1 else shape[0], 2 if shape[1] == 1 else shape[1])), p=data)


def test_matmul_accumulates_into_outs() -> None:
    """checklist 102; 16-bit results accumulate in f32 (ktir spec 5.5)"""
    text = k.function(
        "%p: index, %q: index, %r: index",
        [
            "%c0 = arith.constant 0 : index",
            "%two = arith.constant 2.0 : f16",
            *(k.view(n, n[0], s) for n, s in (("pv", (3, 40)), ("qv", (40, 5)), ("rv", (3, 5)))),
            k.tile("pt", "pv", "%c0, %c0", (3, 40), (3, 40)),
            k.tile("qt", "qv", "%c0, %c0", (40, 5), (40, 5)),
            k.tile("rt", "rv", "%c0, %c0", (3, 5), (3, 5)),
            k.load("x", "pt", (3, 40)),
            k.load("y", "qt", (40, 5)),
            "%i = tensor.splat %two : tensor<3x5xf16>",
            "%z = linalg.matmul ins(%x, %y : tensor<3x40xf16>, tensor<40x5xf16>) outs(%i : tensor<3x5xf16>) "
            "-> tensor<3x5xf16>",
            k.store("z", "rt", (3, 5)),
        ],
    )
    x, y = half(3, 40), half(40, 5)
    total = np.full((3, 5), 2, np.float32)
    for i in range(40):
        total = total + x[:, i : i + 1].astype(np.float32) * y[i].astype(np.float32)
    assert np.array_equal(run(text, p=x, q=y)["r"], total.astype(np.float16))


class TestControlFlow:
    def test_loop_carried_values(self) -> None:
        text = k.function(
            "%p: index, %q: index, %n: index",
            [
                "%c0 = arith.constant 0 : index",
                "%c1 = arith.constant 1 : index",
                "%zero = arith.constant 0.0 : f32",
                k.view("v", "p", (8, 32), "f32"),
                k.view("w", "q", (1, 32), "f32"),
                "%i = tensor.splat %zero : tensor<1x32xf32>",
                "%z = scf.for %r = %c0 to %n step %c1 iter_args(%acc = %i) -> (tensor<1x32xf32>) {",
                k.tile("vt", "v", "%r, %c0", (8, 32), (1, 32), "f32"),
                k.load("x", "vt", (1, 32), "f32"),
                "%s = arith.addf %acc, %x : tensor<1x32xf32>",
                "scf.yield %s : tensor<1x32xf32>",
                "}",
                k.tile("wt", "w", "%c0, %c0", (1, 32), (1, 32), "f32"),
                k.store("z", "wt", (1, 32), "f32"),
            ],
        )
        x = RNG.integers(-9, 9, (8, 32)).astype(np.float32)
        for rows in (0, 1, 5, 8):
            assert np.array_equal(run(text, p=x, n=rows)["q"][0], x[:rows].sum(axis=0))

    def test_tiles_with_different_trip_counts(self) -> None:
        """Tile t adds rows 0..t; and only odd tiles take the branch."""
        text = k.function(
            "%p: index, %q: index",
            [
                "%c0 = arith.constant 0 : index",
                "%c1 = arith.constant 1 : index",
                "%c2 = arith.constant 2 : index",
                "%zero = arith.constant 0.0 : f32",
                "%t = ktdp.get_compute_tile_id : index",
                k.view("v", "p", (8, 32), "f32"),
                k.view("w", "q", (8, 32), "f32"),
                "%i = tensor.splat %zero : tensor<1x32xf32>",
                "%z = scf.for %r = %c0 to %t step %c1 iter_args(%acc = %i) -> (tensor<1x32xf32>) {",
                k.tile("vt", "v", "%r, %c0", (8, 32), (1, 32), "f32"),
                k.load("x", "vt", (1, 32), "f32"),
                "%s = arith.addf %acc, %x : tensor<1x32xf32>",
                "scf.yield %s : tensor<1x32xf32>",
                "}",
                "%m = arith.remui %t, %c2 : index",
                "%odd = arith.cmpi eq, %m, %c1 : index",
                "%y = scf.if %odd -> (tensor<1x32xf32>) {",
                "%d = arith.addf %z, %z : tensor<1x32xf32>",
                "scf.yield %d : tensor<1x32xf32>",
                "} else {",
                "scf.yield %z : tensor<1x32xf32>",
                "}",
                k.tile("wt", "w", "%t, %c0", (8, 32), (1, 32), "f32"),
                k.store("y", "wt", (1, 32), "f32"),
            ],
            [8],
        )
        x = RNG.integers(-9, 9, (8, 32)).astype(np.float32)
        expected = np.stack([x[:t].sum(axis=0) * (2 if t % 2 else 1) for t in range(8)])
        assert np.array_equal(run(text, p=x)["q"], expected)

    def test_while(self) -> None:
        """Every tile doubles its number until it is at least 50."""
        text = k.function(
            "%q: index",
            [
                "%c0 = arith.constant 0 : index",
                "%c1 = arith.constant 1 : index",
                "%c50 = arith.constant 50 : index",
                "%t = ktdp.get_compute_tile_id : index",
                "%first = arith.addi %t, %c1 : index",
                "%n = scf.while (%a = %first) : (index) -> index {",
                "%go = arith.cmpi slt, %a, %c50 : index",
                "scf.condition(%go) %a : index",
                "} do {",
                "^bb0(%b: index):",
                "%d = arith.addi %b, %b : index",
                "scf.yield %d : index",
                "}",
                "%i = arith.index_cast %n : index to i32",
                "%x = tensor.splat %i : tensor<1xi32>",
                k.view("w", "q", (6,), "i32"),
                k.tile("wt", "w", "%t", (6,), (1,), "i32"),
                k.store("x", "wt", (1,), "i32"),
            ],
            [6],
        )
        assert run(text)["q"].tolist() == [64, 64, 96, 64, 80, 96]

    def test_step_zero(self) -> None:
        text = k.function(
            "%n: index",
            ["%c0 = arith.constant 0 : index", "scf.for %i = %c0 to %n step %n {", "}"],
        )
        with pytest.raises(ControlFault, match="step of a loop must be positive, not 0"):
            run_ktir(module(text), args={"n": 0})

    def test_budget(self) -> None:
        text = k.function(
            "%n: index",
            [
                "%c0 = arith.constant 0 : index",
                "%c1 = arith.constant 1 : index",
                "scf.for %i = %c0 to %n step %c1 {",
                "%j = arith.addi %i, %c1 : index",
                "}",
            ],
        )
        with pytest.raises(BudgetFault, match="more than 1000 operations") as caught:
            run_ktir(module(text), args={"n": 10**12}, budget=1000)
        assert caught.value.limit == 1000

    def test_calls(self) -> None:
        text = """
        func.func private @twice(%x: index) -> index {
          %y = arith.addi %x, %x : index
          return %y : index
        }
        """ + k.function(
            "%q: index",
            [
                "%t = ktdp.get_compute_tile_id : index",
                "%n = func.call @twice(%t) : (index) -> index",
                "%i = arith.index_cast %n : index to i32",
                "%x = tensor.splat %i : tensor<1xi32>",
                k.view("w", "q", (6,), "i32"),
                k.tile("wt", "w", "%t", (6,), (1,), "i32"),
                k.store("x", "wt", (1,), "i32"),
            ],
            [6],
        )
        assert run(text)["q"].tolist() == [0, 2, 4, 6, 8, 10]


class TestMemory:
    """Address units, scratchpads, faults (ktir checklist 107 to 110; readings 8, 11, 12)."""

    def stored_id(self, space: str, rows: int = 4) -> str:
        return k.function(
            "%q: index",
            [
                "%c0 = arith.constant 0 : index",
                "%t = ktdp.get_compute_tile_id : index",
                "%i = arith.index_cast %t : index to i32",
                "%x = tensor.splat %i : tensor<1xi32>",
                k.view("s", "c0", (1,), "i32", space),
                k.tile("st", "s", "%c0", (1,), (1,), "i32"),
                k.store("x", "st", (1,), "i32"),
                k.load("y", "st", (1,), "i32"),
                k.view("w", "q", (rows,), "i32"),
                k.tile("wt", "w", "%t", (rows,), (1,), "i32"),
                k.store("y", "wt", (1,), "i32"),
            ],
            [4],
        )

    def test_every_tile_has_its_own_scratchpad(self) -> None:
        """checklist 108"""
        assert run(self.stored_id(k.LOCAL))["q"].tolist() == [0, 1, 2, 3]

    def test_conflicting_writes_of_one_operation(self) -> None:
        """Reading 12: two tiles write different values to one element at the same operation."""
        with pytest.raises(
            ConflictFault, match="tiles 0 and 1 write different values to scratchpad of core 2"
        ) as caught:
            run(self.stored_id("#ktdp.memory_space<ct_local, ct_id = 2>"))
        assert (caught.value.first.tile, caught.value.second.tile) == (0, 1)
        assert caught.value.address == 0

    def test_equal_values_do_not_conflict(self) -> None:
        text = self.stored_id("#ktdp.memory_space<ct_local, ct_id = 2>").replace(
            "arith.index_cast %t", "arith.index_cast %c0"
        )
        assert run(text)["q"].tolist() == [0, 0, 0, 0]

    def test_scratchpad_of_a_tile_outside_the_grid(self) -> None:
        """checklist 109"""
        with pytest.raises(OutOfRangeFault, match=r"core_id=9 is out of range \[0, 4\) for this grid"):
            run(self.stored_id("#ktdp.memory_space<ct_local, ct_id = 9>"))

    def test_store_behind_the_scratchpad(self) -> None:
        """checklist 110"""
        text = self.stored_id(k.LOCAL).replace("%c0 = arith.constant 0", "%c0 = arith.constant 524288", 1)
        text = text.replace("%s[%c0]", "%s[0]")
        with pytest.raises(OutOfRangeFault, match="scratchpad of core 0, which has 0x200000 bytes") as caught:
            run(text)
        assert caught.value.address == 2 << 20

    def offset_kernel(self) -> str:
        return k.function(
            "%q: index",
            [
                "%c0 = arith.constant 0 : index",
                "%c10 = arith.constant 10 : index",
                k.view("v", "c10", (2,), "f32"),
                k.view("w", "q", (2,), "f32"),
                k.tile("vt", "v", "%c0", (2,), (2,), "f32"),
                k.tile("wt", "w", "%c0", (2,), (2,), "f32"),
                k.load("x", "vt", (2,), "f32"),
                k.store("x", "wt", (2,), "f32"),
            ],
        )

    def test_offsets_count_elements(self) -> None:
        """checklist 107: an f32 view at offset 10 starts at byte 40"""
        data = np.float32([3, 4])
        result = run_ktir(module(self.offset_kernel()), args={"@0x28": data})
        assert np.array_equal(result.outputs["q"], data)

    def test_offsets_in_bytes(self) -> None:
        """checklist 107: with byte addresses, offset 10 is misaligned"""
        machine = Machine(address_unit="byte")  # type: ignore[arg-type]  # the converter takes it
        with pytest.raises(MisalignedFault, match="misaligned address 0xa for elements of 4 bytes"):
            run_ktir(module(self.offset_kernel()), args={"@0xa": np.float32([3, 4])}, machine=machine)

    def test_module_switches_win(self) -> None:
        text = f'module attributes {{ktdp.address_unit = "byte"}} {{\n{self.offset_kernel()}}}'
        with pytest.raises(MisalignedFault):
            run_ktir(module(text), args={"@0xa": np.float32([3, 4])})

    def test_reading_what_nobody_has_written(self) -> None:
        text = k.function(
            "%q: index",
            [
                "%c0 = arith.constant 0 : index",
                k.view("s", "c0", (64,), "f16", k.LOCAL),
                k.tile("st", "s", "%c0", (64,), (64,)),
                k.load("x", "st", (64,)),
                k.view("w", "q", (64,)),
                k.tile("wt", "w", "%c0", (64,), (64,)),
                k.store("x", "wt", (64,)),
            ],
        )
        with pytest.raises(UnwrittenReadFault, match="scratchpad of core 0 at 0x0, which nobody"):
            run(text)

    def test_a_partial_store_fills_the_rest_of_its_stick_with_zeros(self) -> None:
        """Reading 11; what no store touches keeps the fill byte."""
        text = k.function(
            "%q: index",
            [
                "%c0 = arith.constant 0 : index",
                "%one = arith.constant 1.0 : f16",
                "%x = tensor.splat %one : tensor<3xf16>",
                k.view("w", "q", (128,)),
                k.tile("wt", "w", "%c0", (128,), (3,)),
                k.store("x", "wt", (3,)),
            ],
        )
        out = run(text)["q"]
        assert out[:64].tolist() == [1] * 3 + [0] * 61
        assert set(out[64:].view(np.uint8)) == {0xCD}

    def test_a_loaded_tensor_is_a_value(self) -> None:
        """checklist 71"""
        text = k.function(
            "%p: index",
            [
                "%c0 = arith.constant 0 : index",
                k.view("v", "p", (2, 4), "f32"),
                k.tile("a", "v", "%c0, %c0", (2, 4), (1, 4), "f32"),
                k.tile("b", "v", "%c0 + 1, %c0", (2, 4), (1, 4), "f32"),
                k.load("x", "a", (1, 4), "f32"),
                k.load("y", "b", (1, 4), "f32"),
                k.store("y", "a", (1, 4), "f32"),
                k.store("x", "b", (1, 4), "f32"),
            ],
        )
        data = np.arange(8, dtype=np.float32).reshape(2, 4)
        assert np.array_equal(run(text, p=data)["p"], data[::-1])


def test_two_dimensional_grid_first_dimension_fastest() -> None:
    text = k.function(
        "%q: index",
        [
            "%c4 = arith.constant 4 : index",
            "%x, %y = ktdp.get_compute_tile_id : index, index",
            "%m = arith.muli %x, %c4 : index",
            "%n = arith.addi %m, %y : index",
            "%i = arith.index_cast %n : index to i32",
            "%d = tensor.splat %i : tensor<1x1xi32>",
            k.view("w", "q", (3, 4), "i32"),
            k.tile("wt", "w", "%x, %y", (3, 4), (1, 1), "i32"),
            k.store("d", "wt", (1, 1), "i32"),
        ],
        [3, 4],
    )
    assert np.array_equal(run(text)["q"], np.arange(12).reshape(3, 4))


def test_grid_larger_than_the_machine() -> None:
    with pytest.raises(ExecutionFault, match=r"the grid \[40\] has 40 compute tiles, the machine has 32"):
        run_ktir(module(k.function("%n: index", [], [40])), args={"n": 1})


def test_stick_layout_of_an_argument() -> None:
    """Host arrays go through the layout that the argument carries (reading 6)."""
    layout = (
        "#ktdp.layout<shape = [5, 100], device_size = [2, 5, 64], stride_map = [64, 100, 1], element = f16>"
    )
    text = k.function(
        f"%p: index {{ktdp.layout = {layout}}}, %q: index {{ktdp.layout = {layout}}}",
        [
            "%c0 = arith.constant 0 : index",
            k.view("v", "p", (2, 5, 64)),
            k.view("w", "q", (2, 5, 64)),
            k.tile("vt", "v", "%c0, %c0, %c0", (2, 5, 64), (2, 5, 64)),
            k.tile("wt", "w", "%c0, %c0, %c0", (2, 5, 64), (2, 5, 64)),
            k.load("x", "vt", (2, 5, 64)),
            "%s = arith.addf %x, %x : tensor<2x5x64xf16>",
            k.store("s", "wt", (2, 5, 64)),
        ],
    )
    x = half(5, 100)
    assert np.array_equal(run(text, p=x)["q"], x + x)


@pytest.mark.parametrize(
    ("type", "array"),
    [
        ("f32", np.float32([1.5, -2])),
        ("bf16", np.array([1.5, -2], ml_dtypes.bfloat16)),
        ("i32", np.int32([3, 2**31 - 1])),
        ("i8", np.int8([100, -100])),
    ],
)
def test_element_types(type: str, array: Any) -> None:
    op = "arith.addi" if type.startswith("i") else "arith.addf"
    text = k.function(
        "%p: index, %q: index",
        [
            "%c0 = arith.constant 0 : index",
            k.view("v", "p", (2,), type),
            k.view("w", "q", (2,), type),
            k.tile("vt", "v", "%c0", (2,), (2,), type),
            k.tile("wt", "w", "%c0", (2,), (2,), type),
            k.load("x", "vt", (2,), type),
            f"%s = {op} %x, %x : tensor<2x{type}>",
            k.store("s", "wt", (2,), type),
        ],
    )
    with np.errstate(all="ignore"):
        assert np.array_equal(run(text, p=array)["q"], array + array)
    if type == "f32":
        doubled = run(
            text.replace("f32", "f16"),
            Machine(f16_format="dlfloat"),
            p=np.float32([0.1, 3]).astype(np.float16),
        )  # type: ignore[arg-type]
        expected = dlfloat.round_trip(2 * dlfloat.round_trip(np.float16([0.1, 3])).astype(np.float64))
        assert np.array_equal(doubled["q"], expected.astype(np.float16))


class TestArguments:
    """What is wrong with a call is said by name (issue 3, point 11)."""

    def call(self, **args: Any) -> None:
        run_ktir(module(k.shifted_add()), args=args)

    def test_missing(self) -> None:
        with pytest.raises(
            ArgumentError, match=r"argument 'b' of 'shifted_add' \(input, f16 of shape \(96, 256\)\)"
        ):
            self.call(a=half(100, 256), shift=0)
        with pytest.raises(
            ArgumentError, match=r"argument 'shift' of 'shifted_add' \(scalar int64\) is missing"
        ):
            self.call(a=half(100, 256), b=half(96, 256))

    def test_wrong_shape(self) -> None:
        with pytest.raises(
            ArgumentError, match=r"must have shape \(96, 256\), but the array has shape \(3, 3\)"
        ) as caught:
            self.call(a=half(100, 256), b=half(3, 3), shift=0)
        assert caught.value.argument == "b"

    def test_wrong_dtype(self) -> None:
        with pytest.raises(ArgumentError, match=r"argument 'b' .*float32 cannot be stored as f16"):
            self.call(a=half(100, 256), b=half(96, 256).astype(np.float32), shift=0)

    def test_unknown_and_twice(self) -> None:
        with pytest.raises(ArgumentError, match="has no argument 'z'; its arguments: a, b, c, shift"):
            self.call(z=1)
        with pytest.raises(ArgumentError, match=r"argument 'a' .* is given twice"):
            self.call(a=half(100, 256), arg0=half(100, 256))

    def test_number_for_an_array_and_array_for_a_number(self) -> None:
        with pytest.raises(ArgumentError, match=r"argument 'a' .* must be an array, not int"):
            self.call(a=1, b=half(96, 256), shift=0)
        with pytest.raises(ArgumentError, match=r"argument 'shift' .* must be a number"):
            self.call(a=half(100, 256), b=half(96, 256), shift=np.zeros(3))
        with pytest.raises(ArgumentError, match=r"argument 'shift' .* must be an integer"):
            self.call(a=half(100, 256), b=half(96, 256), shift=0.5)

    def test_promises_of_runtime_arguments(self) -> None:
        """checklist 73"""
        text = k.function("%n: !ktdp.runtime_arg<index, granularity=8, upperbound=4096>", [])
        run_ktir(module(text), args={"n": 16})
        with pytest.raises(ArgumentError, match="multiple of 8, but is 12"):
            run_ktir(module(text), args={"n": 12})
        with pytest.raises(ArgumentError, match="at most 4096, but is 5000"):
            run_ktir(module(text), args={"n": 5000})


def test_scalars_of_a_generated_tensor() -> None:
    """The body of tensor.generate compares the two indices of every element."""
    text = k.function(
        "%q: index",
        [
            "%c0 = arith.constant 0 : index",
            "%x = tensor.generate {",
            "^bb0(%r: index, %c: index):",
            "%keep = arith.cmpi uge, %r, %c : index",
            "%n = arith.extui %keep : i1 to i32",
            "tensor.yield %n : i32",
            "} : tensor<4x5xi32>",
            k.view("w", "q", (4, 5), "i32"),
            k.tile("wt", "w", "%c0, %c0", (4, 5), (4, 5), "i32"),
            k.store("x", "wt", (4, 5), "i32"),
        ],
    )
    assert np.array_equal(run(text)["q"], np.tril(np.ones((4, 5), np.int32)))


def test_unknown_operation() -> None:
    text = k.function("%n: index", ['"probe.touch"() : () -> ()'])
    with pytest.raises(UnsupportedError, match=r"operation 'probe\.touch' at level ktir") as caught:
        run_ktir(ktir.parse(text), args={"n": 1})
    assert str(caught.value).startswith("<string>:2:3: error: ")


def test_gather_and_scatter() -> None:
    """checklist 54, 65, 66"""
    text = k.function(
        "%p: index, %i: index, %q: index",
        [
            "%c0 = arith.constant 0 : index",
            k.view("v", "p", (9, 4), "f32"),
            k.view("t", "i", (5,), "i32"),
            k.view("w", "q", (9, 4), "f32"),
            "%g = ktdp.construct_indirect_access_tile intermediate_variables(%r, %l) %v[ind(%t[%r]), (%l)] "
            f"{{variables_space_set = {k.box((5, 4))}, variables_space_order = {k.identity(2)}}} "
            ": memref<9x4xf32>, memref<5xi32> -> !ktdp.access_tile<5x4xindex>",
            "%s = ktdp.construct_indirect_access_tile intermediate_variables(%r, %l) %w[ind(%t[%r]), (%l)] "
            f"{{variables_space_set = {k.box((5, 4))}, variables_space_order = {k.identity(2)}}} "
            ": memref<9x4xf32>, memref<5xi32> -> !ktdp.access_tile<5x4xindex>",
            k.load("x", "g", (5, 4), "f32"),
            k.store("x", "s", (5, 4), "f32"),
        ],
    )
    p, before = RNG.normal(size=(9, 4)).astype(np.float32), np.zeros((9, 4), np.float32)
    index = np.int32([7, 0, 3, 8, 1])
    expected = before.copy()
    expected[index] = p[index]
    assert np.array_equal(run(text, p=p, i=index, q=before)["q"], expected)
    with pytest.raises(OutOfRangeFault, match=r"coordinate \(-1, 0\)"):
        run(text, p=p, i=np.int32([7, -1, 3, 8, 1]), q=before)


@pytest.mark.parametrize("schedule", ["lockstep", "sequential"])
def test_scatter_to_one_place(schedule: str) -> None:
    """ktir checklist 66. Of several points of one store at one place the last in order of enumeration stays."""
    text = k.function(
        "%p: index, %i: index, %q: index",
        [
            "%c0 = arith.constant 0 : index",
            "%t = ktdp.get_compute_tile_id : index",
            k.view("v", "p", (2, 6), "f32"),
            k.view("table", "i", (2, 6), "i32"),
            k.view("w", "q", (2, 4), "f32"),
            "%s = ktdp.construct_indirect_access_tile intermediate_variables(%c) %w[(%t), ind(%table[%t, %c])] "
            f"{{variables_space_set = {k.box((6,))}, variables_space_order = {k.identity(1)}}} "
            ": memref<2x4xf32>, memref<2x6xi32> -> !ktdp.access_tile<6xindex>",
            k.tile("vt", "v", "%t, %c0", (2, 6), (1, 6), "f32"),
            k.load("x", "vt", (1, 6), "f32"),
            "%flat = tensor.collapse_shape %x [[0, 1]] : tensor<1x6xf32> into tensor<6xf32>",
            k.store("flat", "s", (6,), "f32"),
        ],
        [2],
    )
    p, index = RNG.normal(size=(2, 6)).astype(np.float32), np.int32([[3, 1, 3, 0, 1, 1], [2, 2, 2, 2, 2, 0]])
    expected = np.zeros((2, 4), np.float32)
    for row in range(2):
        for column in range(6):
            expected[row, index[row, column]] = p[row, column]
    args = {"p": p, "i": index, "q": np.zeros_like(expected)}
    assert np.array_equal(run_ktir(module(text), args=args, schedule=schedule).outputs["q"], expected)


def test_distributed_view_over_two_scratchpads() -> None:
    """checklist 39, 40: a load across the border of two parts, and what lies in which"""
    part = (
        "%{n} = ktdp.construct_memory_view %c0, sizes: [2, 8], strides: [8, 1] {{coordinate_set = "
        "affine_set<(r, c) : (r - {low} >= 0, -r + {high} >= 0, c >= 0, -c + 7 >= 0)>, "
        "memory_space = #ktdp.memory_space<ct_local, ct_id = {n_id}>}} : memref<2x8xf32>"
    )
    text = k.function(
        "%p: index, %q: index",
        [
            "%c0 = arith.constant 0 : index",
            "%c1 = arith.constant 1 : index",
            "%c2 = arith.constant 2 : index",
            "%t = ktdp.get_compute_tile_id : index",
            "%row = arith.muli %t, %c2 : index",
            k.view("v", "p", (4, 8), "f32"),
            k.tile("vt", "v", "%row, %c0", (4, 8), (2, 8), "f32"),
            k.load("x", "vt", (2, 8), "f32"),
            k.view("own", "c0", (2, 8), "f32", k.LOCAL),
            k.tile("ot", "own", "%c0, %c0", (2, 8), (2, 8), "f32"),
            k.store("x", "ot", (2, 8), "f32"),
            part.format(n="a", low=0, high=1, n_id=0),
            part.format(n="b", low=2, high=3, n_id=1),
            "%d = ktdp.construct_distributed_memory_view(%a, %b : memref<2x8xf32>, memref<2x8xf32>) : memref<4x8xf32>",
            k.tile("dt", "d", "%c1, %c0", (4, 8), (2, 8), "f32"),
            k.load("y", "dt", (2, 8), "f32"),
            k.view("w", "q", (4, 8), "f32"),
            k.tile("wt", "w", "%row, %c0", (4, 8), (2, 8), "f32"),
            k.store("y", "wt", (2, 8), "f32"),
        ],
        [2],
    )
    p = RNG.normal(size=(4, 8)).astype(np.float32)
    assert np.array_equal(run(text, p=p)["q"], np.concatenate([p[1:3], p[1:3]]))


def test_tensor_operations() -> None:
    text = k.function(
        "%p: index, %q: index",
        [
            "%c0 = arith.constant 0 : index",
            "%c1 = arith.constant 1 : index",
            "%t = ktdp.get_compute_tile_id : index",
            k.view("v", "p", (6, 4), "f32"),
            k.tile("vt", "v", "%c0, %c0", (6, 4), (6, 4), "f32"),
            k.load("x", "vt", (6, 4), "f32"),
            "%s = tensor.extract_slice %x[%t, 0] [3, 4] [1, 1] : tensor<6x4xf32> to tensor<3x4xf32>",
            "%m = tensor.collapse_shape %s [[0, 1]] : tensor<3x4xf32> into tensor<12xf32>",
            "%n = tensor.expand_shape %m [[0, 1]] output_shape [2, 6] : tensor<12xf32> into tensor<2x6xf32>",
            "%e = tensor.extract %x[%t, %c1] : tensor<6x4xf32>",
            "%i = tensor.insert %e into %n[%c0, %t] : tensor<2x6xf32>",
            "%z = tensor.insert_slice %i into %i[0, 0] [2, 6] [1, 1] : tensor<2x6xf32> into tensor<2x6xf32>",
            "%cc = tensor.concat dim(0) %z, %n : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<4x6xf32>",
            k.view("w", "q", (2, 4, 6), "f32"),
            "%y = tensor.expand_shape %cc [[0, 1], [2]] output_shape [1, 4, 6] : tensor<4x6xf32> into tensor<1x4x6xf32>",
            k.tile("wt", "w", "%t, %c0, %c0", (2, 4, 6), (1, 4, 6), "f32"),
            k.store("y", "wt", (1, 4, 6), "f32"),
        ],
        [2],
    )
    p = RNG.normal(size=(6, 4)).astype(np.float32)
    expected = []
    for t in range(2):
        n = p[t : t + 3].reshape(2, 6)
        i = n.copy()
        i[0, t] = p[t, 1]
        expected.append(np.concatenate([i, n]))
    assert np.array_equal(run(text, p=p)["q"], np.stack(expected))


class TestOrderBetweenTiles:
    """Reading 12, ktir checklist 106: what only lockstep orders is a warning, with `strict` an error."""

    def shift_rows(self, piece: int, source: str) -> str:
        """Every tile stores its numbers into `m`, then loads those of the next tile and hands them out."""
        total = 4 * piece
        return k.function(
            "%p: index, %m: index, %q: index",
            [
                "%c1 = arith.constant 1 : index",
                "%c4 = arith.constant 4 : index",
                f"%n = arith.constant {piece} : index",
                "%t = ktdp.get_compute_tile_id : index",
                "%up = arith.addi %t, %c1 : index",
                "%next = arith.remui %up, %c4 : index",
                "%own = arith.muli %t, %n : index",
                f"%other = arith.muli {source}, %n : index",
                *(k.view(f"{name}v", name, (total,)) for name in "pmq"),
                k.tile("pt", "pv", "%own", (total,), (piece,)),
                k.tile("mt", "mv", "%own", (total,), (piece,)),
                k.tile("ot", "mv", "%other", (total,), (piece,)),
                k.tile("qt", "qv", "%own", (total,), (piece,)),
                k.load("x", "pt", (piece,)),
                k.store("x", "mt", (piece,)),
                k.load("y", "ot", (piece,)),
                k.store("y", "qt", (piece,)),
            ],
            [4],
        )

    def test_hand_over_without_order(self) -> None:
        p, m = half(256), half(256)
        text = module(self.shift_rows(64, "%next"))
        result = run_ktir(text, args={"p": p, "m": m})
        assert np.array_equal(result.outputs["q"], np.roll(p, -64))
        (warning,) = result.report.warnings
        assert "warning: tile 0 reads what tile 1 has written at 0x80 of m in 'ktdp.store'" in warning
        assert warning.endswith("only lockstep orders that")
        with pytest.raises(ConflictFault, match="tile 0 reads what tile 1 has written") as caught:
            run_ktir(text, args={"p": p, "m": m}, strict=True)
        assert (caught.value.first.tile, caught.value.second.tile) == (1, 0)
        assert caught.value.second.operation == "ktdp.load"

    @pytest.mark.parametrize("piece", [64, 10, 1])
    def test_own_data_is_in_order(self, piece: int) -> None:
        """Also where several tiles have a part of one stick."""
        p = half(4 * piece)
        result = run_ktir(
            module(self.shift_rows(piece, "%t")), args={"p": p, "m": half(4 * piece)}, strict=True
        )
        assert np.array_equal(result.outputs["q"], p)
        assert not result.report.warnings

    def test_hand_over_inside_one_stick(self) -> None:
        result = run_ktir(module(self.shift_rows(10, "%next")), args={"p": half(40), "m": half(40)})
        assert any("reads what" in warning for warning in result.report.warnings)

    def test_overwriting_what_others_have_read(self) -> None:
        """All tiles read the first numbers, then tile 0 overwrites them."""
        text = k.function(
            "%p: index, %q: index",
            [
                "%c0 = arith.constant 0 : index",
                "%t = ktdp.get_compute_tile_id : index",
                k.view("pv", "p", (64,)),
                k.view("qv", "q", (4, 64)),
                k.tile("pt", "pv", "%c0", (64,), (64,)),
                k.tile("qt", "qv", "%t, %c0", (4, 64), (1, 64)),
                k.load("x", "pt", (64,)),
                "%y = tensor.expand_shape %x [[0, 1]] output_shape [1, 64] : tensor<64xf16> into tensor<1x64xf16>",
                k.store("y", "qt", (1, 64)),
                "%first = arith.cmpi eq, %t, %c0 : index",
                "scf.if %first {",
                "%z = arith.negf %x : tensor<64xf16>",
                k.store("z", "pt", (64,)),
                "}",
            ],
            [4],
        )
        p = half(64)
        result = run_ktir(module(text), args={"p": p})
        assert np.array_equal(result.outputs["p"], -p)
        assert any("tile 0 writes what another tile has read" in w for w in result.report.warnings)


@pytest.mark.parametrize(
    ("op", "type", "function"),
    [
        ("arith.addf", "f16", np.add),
        ("arith.addf", "f32", np.add),
        ("arith.mulf", "f16", np.multiply),
        ("arith.addf", "bf16", np.add),
        ("arith.maximumf", "f16", np.maximum),
        ("arith.minimumf", "bf16", np.minimum),
        ("arith.addi", "i32", np.add),
        ("arith.muli", "i16", np.multiply),
        ("arith.subf", "f32", np.subtract),
        ("arith.maxui", "i8", lambda a, b: np.maximum(a.view(np.uint8), b.view(np.uint8)).view(np.int8)),
    ],
)
def test_folds_over_two_dimensions(op: str, type: str, function: Any) -> None:
    """readings 16: left folds in lexicographic order, with and without a short way"""
    zero = "0" if type.startswith("i") else "0.0"
    text = k.function(
        "%p: index, %q: index",
        [
            "%c0 = arith.constant 0 : index",
            f"%i = arith.constant dense<{zero}> : tensor<3x{type}>".replace("0>", "1>", 1),
            k.view("v", "p", (5, 3, 7), type),
            k.view("w", "q", (3,), type),
            k.tile("vt", "v", "%c0, %c0, %c0", (5, 3, 7), (5, 3, 7), type),
            k.tile("wt", "w", "%c0", (3,), (3,), type),
            k.load("x", "vt", (5, 3, 7), type),
            f"%z = linalg.reduce {{ {op} }} ins(%x : tensor<5x3x7x{type}>) outs(%i : tensor<3x{type}>) "
            "dimensions = [0, 2]",
            k.store("z", "wt", (3,), type),
        ],
    )
    dtype = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32}.get(
        type, type.replace("i", "int")
    )
    x = (RNG.normal(size=(5, 3, 7)) * 3).astype(dtype)
    start = np.full(3, 1 if zero == "0" else 0.1).astype(dtype)
    total = start
    with np.errstate(all="ignore"):
        for i in range(5):
            for j in range(7):
                pair = (x[i, :, j], total) if op == "arith.subf" else (total, x[i, :, j])
                total = function(*pair).astype(dtype)
    assert np.array_equal(run(text, p=x)["q"], total)
