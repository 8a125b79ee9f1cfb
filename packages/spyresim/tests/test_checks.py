"""What is a fault and what is let pass: coordinates outside, memory never written, full scratchpads."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import dfsched
import ktir
from ktir.builder import Kernel
from ktir.machine import Machine
from spyresim import ArgumentError, Session, run_dataflow, run_device, run_ktir
from spyresim.errors import CallError, OutOfRangeFault, ScratchpadFault, UnwrittenReadFault
from spyresim.testing import text as k

RNG = np.random.default_rng(8)


def module(text: str) -> ktir.Module:
    parsed = ktir.parse(text)
    ktir.verify(parsed)
    return parsed


def half(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float16)


# -- coordinates outside of a view


def edge_kernel(order: str | None = None, extents: tuple[int, int] = (4, 16)) -> ktir.Module:
    """Three tiles copy four rows each of ten, in a tile of 16 columns of 13."""
    result = extents if order is None else (extents[1], extents[0])
    return module(
        k.function(
            "%p: index, %q: index",
            [
                "%c0 = arith.constant 0 : index",
                "%c4 = arith.constant 4 : index",
                "%t = ktdp.get_compute_tile_id : index",
                "%r = arith.muli %t, %c4 : index",
                k.view("v", "p", (10, 13)),
                k.view("w", "q", (10, 13)),
                k.tile("s", "v", "%r, %c0", (10, 13), extents, order=order, result=result),
                k.tile("d", "w", "%r, %c0", (10, 13), extents, order=order, result=result),
                k.load("x", "s", result),
                f"%y = arith.addf %x, %x : tensor<{result[0]}x{result[1]}xf16>",
                k.store("y", "d", result),
            ],
            [3],
        )
    )


class TestOutOfRange:
    @pytest.mark.parametrize("schedule", ["lockstep", "sequential"])
    @pytest.mark.parametrize("order", [None, "affine_map<(a, b) -> (b, a)>"])
    def test_zero(self, order: str | None, schedule: str) -> None:
        """Reads behind the edge give 0, writes are dropped (ktir spec 4.5)."""
        p, q = half(10, 13), half(10, 13)
        options = {"out_of_range": "zero", "schedule": schedule}
        got = run_ktir(edge_kernel(order), args={"p": p, "q": q}, strict=True, **options)  # type: ignore[arg-type]
        assert np.array_equal(got.outputs["q"], p + p)

    def test_reads_give_zero(self) -> None:
        text = k.function(
            "%p: index, %q: index",
            [
                "%c0 = arith.constant 0 : index",
                k.view("v", "p", (5,)),
                k.view("w", "q", (8,)),
                k.tile("s", "v", "%c0", (5,), (8,)),
                k.tile("d", "w", "%c0", (8,), (8,)),
                k.load("x", "s", (8,)),
                k.store("x", "d", (8,)),
            ],
        )
        p = half(5)
        assert run_ktir(module(text), args={"p": p}, out_of_range="zero").outputs["q"].tolist() == [
            *p.tolist(),
            0,
            0,
            0,
        ]
        with pytest.raises(OutOfRangeFault, match=r"coordinate \(7,\) is outside the view of shape \(5,\)"):
            run_ktir(module(text), args={"p": p})

    def test_negative_coordinates_are_faults(self) -> None:
        text = ktir.print_module(edge_kernel()).replace("%c4, ", "%c4, ", 1)
        negative = text.replace("arith.constant 4 : index", "arith.constant -4 : index")
        with pytest.raises(OutOfRangeFault, match=r"coordinate \(-4, 0\)") as caught:
            run_ktir(module(negative), args={"p": half(10, 13)}, out_of_range="zero")
        assert caught.value.site.tile == 1

    def test_unknown_policy(self) -> None:
        with pytest.raises(CallError, match="'out_of_range' must be one of 'error', 'zero', not 'wrap'"):
            run_ktir(edge_kernel(), args={"p": half(10, 13)}, out_of_range="wrap")


def parts(middle: list[str], holes: bool, grid: list[int] | None = None) -> ktir.Module:
    """A view of 6 rows: rows 0 and 1 in one buffer, 2 and 3 (or from 3 on, with a hole) in another."""
    first = "affine_set<(r, c) : (r >= 0, -r + 1 >= 0, c >= 0, -c + 7 >= 0)>"
    low = 3 if holes else 2
    second = f"affine_set<(r, c) : (r - {low} >= 0, -r + 5 >= 0, c >= 0, -c + 7 >= 0)>"

    def part(name: str, source: str, rows: int, set: str) -> str:
        return (
            f"%{name} = ktdp.construct_memory_view %{source}, sizes: [{rows}, 8], strides: [8, 1] "
            f"{{coordinate_set = {set}, memory_space = {k.GLOBAL}}} : memref<{rows}x8xf16>"
        )

    return module(
        k.function(
            "%a: index, %b: index, %q: index",
            [
                "%c0 = arith.constant 0 : index",
                part("pa", "a", 2, first),
                part("pb", "b", 6 - low, second),
                f"%d = ktdp.construct_distributed_memory_view(%pa, %pb : memref<2x8xf16>, memref<{6 - low}x8xf16>) "
                ": memref<6x8xf16>",
                k.view("w", "q", (6, 8)),
                k.tile("dt", "d", "%c0, %c0", (6, 8), (6, 8)),
                k.tile("wt", "w", "%c0, %c0", (6, 8), (6, 8)),
                *middle,
            ],
            grid,
        )
    )


class TestDistributedViews:
    LOAD = (k.load("x", "dt", (6, 8)), k.store("x", "wt", (6, 8)))
    STORE = (k.load("x", "wt", (6, 8)), k.store("x", "dt", (6, 8)))

    def test_whole(self) -> None:
        """ktir checklist 40. Row 2 is the first row of the second part."""
        a, b = half(2, 8), half(4, 8)
        got = run_ktir(parts([*self.LOAD], holes=False), args={"a": a, "b": b}).outputs["q"]
        assert np.array_equal(got, np.concatenate([a, b]))

    def test_gap(self) -> None:
        """ktir checklist 41: a coordinate in no part raises, or reads 0."""
        a, b = half(2, 8), half(3, 8)
        kernel = parts([*self.LOAD], holes=True)
        with pytest.raises(OutOfRangeFault, match=r"coordinate \(2, 0\) is in no part") as caught:
            run_ktir(kernel, args={"a": a, "b": b})
        assert caught.value.coordinate == (2, 0)
        got = run_ktir(kernel, args={"a": a, "b": b}, out_of_range="zero").outputs["q"]
        assert np.array_equal(got, np.concatenate([a, np.zeros((1, 8), np.float16), b]))

    def test_stores_into_a_gap_are_dropped(self) -> None:
        """ktir checklist 41."""
        q = half(6, 8)
        kernel = parts([*self.STORE], holes=True)
        with pytest.raises(OutOfRangeFault, match="is in no part"):
            run_ktir(kernel, args={"q": q})
        got = run_ktir(kernel, args={"q": q}, out_of_range="zero").outputs
        assert np.array_equal(got["a"], q[:2])
        assert np.array_equal(got["b"], q[3:])


# -- memory that nobody has written


def never_written() -> ktir.Module:
    kernel = Kernel("never", grid=(2,))
    y = kernel.view(kernel.pointer("y"), (2, 64), "f16")
    (tile,) = kernel.tile_id()
    y[tile : tile + 1].store(kernel.scratchpad(0, (1, 64), "f16").load())
    return kernel.build()


class TestUnwritten:
    def test_error_and_fill(self) -> None:
        with pytest.raises(UnwrittenReadFault, match="scratchpad of core 0 at 0x0, which nobody has written"):
            run_ktir(never_written())
        got = run_ktir(never_written(), unwritten="fill").outputs["y"]
        assert set(got.view(np.uint8).ravel()) == {0xCD}

    def test_in_a_session_for_one_run(self) -> None:
        session = Session()
        assert session.run(never_written(), unwritten="fill").outputs["y"].shape == (2, 64)
        with pytest.raises(UnwrittenReadFault):
            session.run(never_written())


# -- scratchpads that are full


def three_tensors() -> ktir.Module:
    """At the product two operands of 1024 bytes and its result are alive; then the sum."""
    kernel = Kernel("three", grid=(2,))
    x, y = (kernel.view(kernel.pointer(n), (2, 512), "f16") for n in "xy")
    (tile,) = kernel.tile_id()
    rows = slice(tile, tile + 1)
    a = x[rows].load()
    b = a.exp()
    y[rows].store((a * b) + b)
    return kernel.build()


class TestScratchpad:
    ARGS: ClassVar[dict[str, Any]] = {"x": np.zeros((2, 512), np.float16)}

    def test_what_is_alive(self) -> None:
        """Three tensors of 1024 bytes fit into 3072 bytes, and not into less; the fault has the table."""
        run_ktir(three_tensors(), args=self.ARGS, machine=tiny(3072), check_scratchpad=True)
        run_ktir(three_tensors(), args=self.ARGS, machine=tiny(256))
        with pytest.raises(ScratchpadFault) as caught:
            run_ktir(three_tensors(), args=self.ARGS, machine=tiny(2944), check_scratchpad=True)
        fault = caught.value
        assert (fault.size, fault.capacity) == (3072, 2944)
        assert [(e.size, e.operation) for e in fault.live] == [
            (1024, "ktdp.load"),
            (1024, "math.exp"),
            (1024, "arith.mulf"),
        ]
        text = str(fault)
        assert "3072 bytes are alive, the scratchpad has 2944 ('arith.mulf')" in text
        assert "        1024  tensor<1x512xf16>, made by 'math.exp'" in text

    def test_carried_values_and_branches(self) -> None:
        """A loop holds what it carries once, not once an iteration."""
        kernel = Kernel("carried", grid=(1,))
        x = kernel.view(kernel.pointer("x"), (1, 512), "f16")
        with kernel.loop(0, 20, carry=[x[:].load()]) as loop:
            loop.carry(loop.carried[0] * 2)
        x[:].store(loop.results[0])
        args = {"x": np.zeros((1, 512), np.float16)}
        run_ktir(kernel.build(), args=args, machine=tiny(4096), check_scratchpad=True)
        with pytest.raises(ScratchpadFault):
            run_ktir(kernel.build(), args=args, machine=tiny(1024), check_scratchpad=True)

    def test_views_of_the_scratchpad_count(self) -> None:
        kernel = Kernel("pinned", grid=(1,))
        x = kernel.view(kernel.pointer("x"), (1, 512), "f16")
        kernel.scratchpad(0, (1, 512), "f16").store(x[:].load())
        args = {"x": np.zeros((1, 512), np.float16)}
        run_ktir(kernel.build(), args=args, machine=tiny(2048), check_scratchpad=True)
        with pytest.raises(ScratchpadFault) as caught:
            run_ktir(kernel.build(), args=args, machine=tiny(1920), check_scratchpad=True)
        assert {e.operation for e in caught.value.live} == {"ktdp.load", "ktdp.construct_memory_view"}

    @pytest.mark.parametrize("schedule", ["sequential", "random"])
    def test_tiles_by_themselves(self, schedule: str) -> None:
        with pytest.raises(ScratchpadFault):
            run_ktir(
                three_tensors(), args=self.ARGS, machine=tiny(2944), check_scratchpad=True, schedule=schedule
            )
        run_ktir(
            three_tensors(), args=self.ARGS, machine=tiny(3072), check_scratchpad=True, schedule=schedule
        )


def tiny(size: int) -> Machine:
    return Machine(scratchpad_bytes=size, scratchpad_reserved_bytes=0)


# -- values are values


def test_an_output_that_is_also_an_input() -> None:
    """A structured operation whose initial value is used again: nothing is written in place."""
    text = k.function(
        "%p: index, %q: index",
        [
            "%c0 = arith.constant 0 : index",
            "%k = arith.constant dense<1.0> : tensor<8xf16>",
            k.view("v", "p", (8,)),
            k.view("w", "q", (2, 8)),
            k.tile("s", "v", "%c0", (8,), (8,)),
            k.load("x", "s", (8,)),
            "%a = linalg.add ins(%x, %k : tensor<8xf16>, tensor<8xf16>) outs(%x : tensor<8xf16>) -> tensor<8xf16>",
            "%b = linalg.add ins(%a, %k : tensor<8xf16>, tensor<8xf16>) outs(%k : tensor<8xf16>) -> tensor<8xf16>",
            "%i = tensor.insert_slice %x into %b [0] [8] [1] : tensor<8xf16> into tensor<8xf16>",
            "%c = arith.addf %x, %k : tensor<8xf16>",
            "%d = arith.subf %b, %c : tensor<8xf16>",
            *(
                line
                for n, name in enumerate("cd")
                for line in (
                    f"%{name}e = tensor.expand_shape %{name} [[0, 1]] output_shape [1, 8] : tensor<8xf16> into "
                    "tensor<1x8xf16>",
                    f"%n{n} = arith.constant {n} : index",
                    k.tile(f"d{n}", "w", f"%n{n}, %c0", (2, 8), (1, 8)),
                    k.store(f"{name}e", f"d{n}", (1, 8)),
                )
            ),
        ],
    )
    p = np.arange(8, dtype=np.float16)
    got = run_ktir(module(text), args={"p": p}).outputs["q"]
    assert got.tolist() == [(p + 1).tolist(), [1] * 8]


# -- constant addresses


def at_constants(source: int = 1024) -> str:
    """Doubles 2 x 64 numbers from byte 0x800 (or twice `source`) to byte 0x2000."""
    return k.function(
        "",
        [
            "%c0 = arith.constant 0 : index",
            f"%from = arith.constant {source} : index",
            "%to = arith.constant 4096 : index",
            "%t = ktdp.get_compute_tile_id : index",
            k.view("v", "from", (2, 64)),
            k.view("w", "to", (2, 64)),
            k.tile("s", "v", "%t, %c0", (2, 64), (1, 64)),
            k.tile("d", "w", "%t, %c0", (2, 64), (1, 64)),
            k.load("x", "s", (1, 64)),
            "%e = tensor.empty() : tensor<1x64xf16>",
            "%y = linalg.add ins(%x, %x : tensor<1x64xf16>, tensor<1x64xf16>) outs(%e : tensor<1x64xf16>) -> "
            "tensor<1x64xf16>",
            k.store("y", "d", (1, 64)),
        ],
        [2],
    )


class TestConstantAddresses:
    """Readings 4: buffers are named by byte address, at every level."""

    def test_every_level_takes_and_gives_the_same_names(self) -> None:
        source = module(at_constants())
        args = {"@0x800": half(2, 64)}
        compiled = dfsched.compile(source, "sample")
        for result in (run_ktir(source, args=args), run_dataflow(compiled, args), run_device(compiled, args)):
            assert list(result.outputs) == ["@0x2000"]
            assert np.array_equal(result.outputs["@0x2000"], args["@0x800"] * 2)

    def test_a_view_that_begins_where_the_implicit_argument_does(self) -> None:
        """Its name is that of the implicit argument, which is bytes."""
        source = module(at_constants(0))
        args = {"@0x0": half(2, 64)}
        compiled = dfsched.compile(source, "sample")
        for result in (run_ktir(source, args=args), run_dataflow(compiled, args), run_device(compiled, args)):
            assert list(result.outputs) == ["@0x2000"]
            assert np.array_equal(result.outputs["@0x2000"], args["@0x0"] * 2)

    def test_a_folder_knows_addresses_only(self, tmp_path: Path) -> None:
        """The implicit argument of bytes, or arrays by address; outputs are the bytes."""
        compiled = dfsched.compile(module(at_constants()), "sample")
        folder = compiled.write(tmp_path)
        x = half(2, 64)
        whole = np.zeros(0x2000 + 256, np.uint8)
        whole[0x800 : 0x800 + 256] = x.reshape(-1).view(np.uint8)
        for args in ({"@0x800": x}, {"@0x0": whole}):
            for level in (run_dataflow, run_device):
                out = level(folder, args).outputs["@0x0"]
                assert np.array_equal(out[0x2000:].view(np.float16), (x * 2).ravel())

    @pytest.mark.parametrize("level", [run_dataflow, run_device])
    def test_bad_arguments(self, level: Any) -> None:
        compiled = dfsched.compile(module(at_constants()), "sample")
        for args, message in (
            ({}, r"argument '@0x800' of 'kernel' \(input, f16 of shape \(2, 64\)\) is missing"),
            (
                {"@0x800": half(2, 64), "@0x900": half(2, 64)},
                r"'kernel' has no argument '@0x900'; its arguments: @0x800, @0x2000",
            ),
            ({"@0x800": half(3, 64)}, r"must have shape \(2, 64\), but the array has shape \(3, 64\)"),
            ({"@0x800": 1}, "must be an array, not int"),
        ):
            with pytest.raises(ArgumentError, match=message):
                level(compiled, args)
