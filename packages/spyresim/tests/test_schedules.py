"""Tiles in lockstep, one after another, and at random: the same numbers, and what nothing orders is found."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dfsched
import ktir
from spyresim import ConflictFault, DeadlockFault, run_dataflow, run_ktir, verify
from spyresim.errors import CallError, OutOfRangeFault
from spyresim.report import Result
from spyresim.testing import text as k
from spyresim.testing.random_kernels import RandomKernel, random_kernels

RNG = np.random.default_rng(77)
SCHEDULES = ("lockstep", "sequential", "random")


def module(text: str) -> ktir.Module:
    parsed = ktir.parse(text)
    ktir.verify(parsed)
    return parsed


def bits(array: Any) -> Any:
    return array.view(f"u{array.dtype.itemsize}")


def assert_same(parsed: ktir.Module, args: Any, **options: Any) -> Result:
    """The result in lockstep, which is that of the other schedules bit for bit, counters included."""
    first, *others = (run_ktir(parsed, args=args, schedule=s, seed=3, **options) for s in SCHEDULES)
    for other in others:
        assert first.outputs.keys() == other.outputs.keys()
        for name, array in first.outputs.items():
            assert np.array_equal(bits(array), bits(other.outputs[name])), name
        assert first.report.counters == other.report.counters
        assert first.report.work is not None
        assert other.report.work is not None
        assert first.report.work.to_json() == other.report.work.to_json()
    return first


@pytest.mark.sweep(default=12, full=300)
@given(kernel=random_kernels())
def test_element_wise_kernels(kernel: RandomKernel) -> None:
    """Issue 3, point 10: batched and per-tile execution agree bit for bit."""
    assert_same(module(kernel.text), kernel.arguments(5), strict=True)


SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 65504, 6e-8, -1], np.float16)
REDUCERS = ("addf", "mulf", "maximumf", "minimumf", "maxnumf", "minnumf")


@st.composite
def divergent_kernels(draw: st.DrawFn) -> tuple[str, Any]:
    """Five tiles that loop as often as an array says, branch on its parity, and reduce with some operation."""
    width = draw(st.integers(1, 70))
    op = draw(st.sampled_from(REDUCERS))
    trips = draw(st.lists(st.integers(0, 4), min_size=5, max_size=5))
    text = k.function(
        "%n: index, %p: index, %q: index",
        [
            "%c0 = arith.constant 0 : index",
            "%c1 = arith.constant 1 : index",
            "%c2 = arith.constant 2 : index",
            "%start = arith.constant dense<1.0> : tensor<1xf16>",
            "%t = ktdp.get_compute_tile_id : index",
            k.view("nv", "n", (5,), "i32"),
            k.view("pv", "p", (5, width)),
            k.view("qv", "q", (5, width)),
            k.tile("nt", "nv", "%t", (5,), (1,), "i32"),
            k.tile("pt", "pv", "%t, %c0", (5, width), (1, width)),
            k.tile("qt", "qv", "%t, %c0", (5, width), (1, width)),
            k.load("nn", "nt", (1,), "i32"),
            "%ni = tensor.extract %nn[%c0] : tensor<1xi32>",
            "%trips = arith.index_cast %ni : i32 to index",
            k.load("x", "pt", (1, width)),
            f"%z = scf.for %i = %c0 to %trips step %c1 iter_args(%a = %x) -> (tensor<1x{width}xf16>) {{",
            "%m = arith.remui %i, %c2 : index",
            "%odd = arith.cmpi eq, %m, %c1 : index",
            "%parity = arith.remui %t, %c2 : index",
            "%mixed = arith.cmpi eq, %m, %parity : index",
            f"%b = scf.if %mixed -> (tensor<1x{width}xf16>) {{",
            f"%s = linalg.reduce {{ arith.{op} }} ins(%a : tensor<1x{width}xf16>) outs(%start : tensor<1xf16>) "
            "dimensions = [1]",
            f"%e = tensor.empty() : tensor<1x{width}xf16>",
            f"%w = linalg.broadcast ins(%s : tensor<1xf16>) outs(%e : tensor<1x{width}xf16>) dimensions = [1]",
            f"%d = arith.subf %a, %w : tensor<1x{width}xf16>",
            f"scf.yield %d : tensor<1x{width}xf16>",
            "} else {",
            f"%d2 = arith.addf %a, %a : tensor<1x{width}xf16>",
            f"scf.yield %d2 : tensor<1x{width}xf16>",
            "}",
            f"scf.yield %b : tensor<1x{width}xf16>",
            "}",
            k.store("z", "qt", (1, width)),
        ],
        [5],
    )
    values = draw(st.lists(st.sampled_from([*SPECIAL.tolist(), 0.5, 2.0, 3.0]), min_size=1, max_size=9))
    data = np.resize(np.array(values, np.float16), (5, width))
    return text, {"n": np.array(trips, np.int32), "p": data}


@pytest.mark.sweep(default=15, full=400)
@given(case=divergent_kernels())
def test_divergent_kernels(case: tuple[str, Any]) -> None:
    """Issue 3, point 10: a batch that splits and rejoins gives what each tile gives by itself; signs of zeros,
    infinities and NaNs included."""
    text, args = case
    parsed = module(text)
    lockstep, alone = (
        run_ktir(parsed, args=args, schedule=s).outputs["q"] for s in ("lockstep", "sequential")
    )
    assert np.array_equal(np.isnan(lockstep), np.isnan(alone))
    good = ~np.isnan(alone)
    assert np.array_equal(bits(lockstep)[good], bits(alone)[good])


# -- communication

ALL = "affine_set<(i)[g] : (i >= 0, -i + 3 >= 0)>"
PAIRS = "affine_set<(i)[g] : (i - 2 * g >= 0, -i + 2 * g + 1 >= 0)>"


def future(groups: int) -> str:
    return f"<(tensor<1x64xf16>), groups = affine_set<(g) : (g >= 0, -g + {groups - 1} >= 0)>>"


def barrier(name: str, tiles: str = ALL, groups: int = 1) -> str:
    """An all-reduce of `%x` in every group; nobody looks at the result."""
    return (
        f"%f{name} = ktdp.inter_tile_produce producer_tiles_per_group = {tiles} -> {future(groups)} {{\n"
        f"^bb0(%g{name}: index):\nktdp.yield_partial %x : tensor<1x64xf16>\n}}\n"
        f"%r{name} = ktdp.inter_tile_reduce(%f{name}) consumer_tiles_per_group = {tiles}, "
        f"identity(%x : tensor<1x64xf16>) : {future(groups)} -> tensor<1x64xf16> {{\n"
        f"^bb0(%a{name}: tensor<1x64xf16>, %b{name}: tensor<1x64xf16>):\n"
        f"%s{name} = arith.addf %a{name}, %b{name} : tensor<1x64xf16>\n"
        f"ktdp.yield_reduced %s{name} : tensor<1x64xf16>\n}}"
    )


def hand_over(middle: str, distance: int) -> ktir.Module:
    """Four tiles store their row into `m`; then each loads the row of the tile `distance` away (exclusive or)."""
    return module(
        k.function(
            "%p: index, %m: index, %q: index",
            [
                "%c0 = arith.constant 0 : index",
                f"%d = arith.constant {distance} : index",
                "%t = ktdp.get_compute_tile_id : index",
                "%other = arith.xori %t, %d : index",
                *(k.view(f"{name}v", name, (4, 64)) for name in "pmq"),
                *(k.tile(f"{name}t", f"{name}v", "%t, %c0", (4, 64), (1, 64)) for name in "pmq"),
                k.tile("ot", "mv", "%other, %c0", (4, 64), (1, 64)),
                k.load("x", "pt", (1, 64)),
                k.store("x", "mt", (1, 64)),
                middle,
                k.load("y", "ot", (1, 64)),
                k.store("y", "qt", (1, 64)),
            ],
            [4],
        )
    )


def arguments() -> dict[str, Any]:
    return {name: RNG.normal(size=(4, 64)).astype(np.float16) for name in "pm"}


class TestHandOver:
    """What one tile leaves in memory for another (ktir spec 1.13.7, 5.3)."""

    def test_behind_a_barrier(self) -> None:
        args = arguments()
        result = assert_same(hand_over(barrier("x"), 3), args, strict=True)
        assert np.array_equal(result.outputs["q"], args["p"][::-1])

    def test_behind_a_barrier_of_the_group(self) -> None:
        args = arguments()
        result = assert_same(hand_over(barrier("x", PAIRS, 2), 1), args, strict=True)
        assert np.array_equal(result.outputs["q"], args["p"][[1, 0, 3, 2]])

    @pytest.mark.parametrize("schedule", SCHEDULES)
    def test_a_barrier_of_another_group_orders_nothing(self, schedule: str) -> None:
        with pytest.raises(ConflictFault, match=r"only .* orders that"):
            run_ktir(hand_over(barrier("x", PAIRS, 2), 2), args=arguments(), strict=True, schedule=schedule)

    def test_what_a_tile_knows_is_handed_on(self) -> None:
        """Tile 0 to 1 in one group, then 1 to 2 in another: 2 may read what 0 wrote."""
        chain = (
            "affine_set<(i)[g] : (i - 2 * g + 1 >= 0, -i + 2 * g >= 0, i >= 0, -i + 3 >= 0)>"  # 0 | 1 2 | 3
        )
        both = f"{barrier('a', PAIRS, 2)}\n{barrier('b', chain, 3)}"
        text = hand_over(both, 2)
        result = run_ktir(text, args=arguments())
        assert len(result.report.warnings) == 1, "tile 0 learns nothing of tile 2, nor 3 of 1"
        assert "tile 0 reads what tile 2 has written" in result.report.warnings[0]

    def test_without_a_barrier(self) -> None:
        """ktir checklist 106: right under lockstep, with a warning; sequentially tile 0 reads too early."""
        args, parsed = arguments(), hand_over("", 1)
        together = run_ktir(parsed, args=args)
        assert np.array_equal(together.outputs["q"], args["p"][[1, 0, 3, 2]])
        assert any("only lockstep orders that" in w for w in together.report.warnings)
        alone = run_ktir(parsed, args=args, schedule="sequential")
        assert np.array_equal(alone.outputs["q"][0], args["m"][1])
        assert np.array_equal(alone.outputs["q"][1], args["p"][0])
        assert any("only the sequential schedule orders that" in w for w in alone.report.warnings)

    def test_overwriting_behind_a_barrier(self) -> None:
        """All tiles read one row, a barrier, tile 0 writes it: in order; without the barrier it is not."""

        def kernel(middle: str) -> ktir.Module:
            return module(
                k.function(
                    "%p: index, %q: index",
                    [
                        "%c0 = arith.constant 0 : index",
                        "%t = ktdp.get_compute_tile_id : index",
                        k.view("pv", "p", (1, 64)),
                        k.view("qv", "q", (4, 64)),
                        k.tile("pt", "pv", "%c0, %c0", (1, 64), (1, 64)),
                        k.tile("qt", "qv", "%t, %c0", (4, 64), (1, 64)),
                        k.load("x", "pt", (1, 64)),
                        k.store("x", "qt", (1, 64)),
                        middle,
                        "%first = arith.cmpi eq, %t, %c0 : index",
                        "scf.if %first {",
                        "%z = arith.negf %x : tensor<1x64xf16>",
                        k.store("z", "pt", (1, 64)),
                        "}",
                    ],
                    [4],
                )
            )

        args = {"p": RNG.normal(size=(1, 64)).astype(np.float16)}
        result = assert_same(kernel(barrier("x")), args, strict=True)
        assert np.array_equal(result.outputs["q"], np.repeat(args["p"], 4, axis=0))
        assert np.array_equal(result.outputs["p"], -args["p"])
        with pytest.raises(ConflictFault, match="tile 0 writes what another tile has read"):
            run_ktir(kernel(""), args=args, strict=True)


def test_a_long_history(monkeypatch: pytest.MonkeyPatch) -> None:
    """What happened before the history became too long to keep is still known."""
    monkeypatch.setattr("spyresim.sequential.order.MAX_LOG", 3)
    lines = [
        "%c0 = arith.constant 0 : index",
        "%t = ktdp.get_compute_tile_id : index",
        *(k.view(f"{name}v", name, (4, 64)) for name in "pq"),
        k.tile("pt", "pv", "%t, %c0", (4, 64), (1, 64)),
        k.tile("qt", "qv", "%t, %c0", (4, 64), (1, 64)),
        k.tile("last", "qv", "3, %c0", (4, 64), (1, 64)),
        *(
            line
            for n in range(6)
            for line in (k.load(f"x{n}", "pt", (1, 64)), k.store(f"x{n}", "qt", (1, 64)))
        ),
    ]
    args = {"p": RNG.normal(size=(4, 64)).astype(np.float16)}
    good = run_ktir(module(k.function("%p: index, %q: index", lines, [4])), args=args, strict=True)
    assert np.array_equal(good.outputs["q"], args["p"])
    bad = module(k.function("%p: index, %q: index", [*lines, k.load("y", "last", (1, 64))], [4]))
    with pytest.raises(ConflictFault, match=r"tile 0 reads what tile 3 has written|another tile reads"):
        run_ktir(bad, args={**args, "q": args["p"]}, strict=True)


# -- stores to one place


def common_store(value: str, condition: str = "true") -> ktir.Module:
    """Four tiles store a number into one place in two operations, one of them under a condition."""
    return module(
        k.function(
            "%q: index",
            [
                "%c0 = arith.constant 0 : index",
                "%c1 = arith.constant 1 : index",
                "%t = ktdp.get_compute_tile_id : index",
                f"%go = {condition}",
                f"%n = arith.index_cast {value} : index to i32",
                "%x = tensor.splat %n : tensor<1xi32>",
                k.view("qv", "q", (4,), "i32"),
                k.tile("qt", "qv", "%c0", (4,), (1,), "i32"),
                "scf.if %go {",
                k.store("x", "qt", (1,), "i32"),
                "} else {",
                k.store("x", "qt", (1,), "i32"),
                "}",
                k.load("y", "qt", (1,), "i32"),
                k.tile("ot", "qv", "%t", (4,), (1,), "i32"),
            ],
            [4],
        )
    )


class TestEqualStores:
    """Stores of the same bytes to one place are no conflict (ktir spec 5.3), of different ones they are."""

    EVEN = "arith.cmpi slt, %t, %c1 : index"

    @pytest.mark.parametrize("schedule", SCHEDULES)
    def test_equal_bytes_in_two_operations(self, schedule: str) -> None:
        args = {"q": np.zeros(4, np.int32)}
        result = run_ktir(common_store("%c1", self.EVEN), args=args, strict=True, schedule=schedule)
        assert result.outputs["q"].tolist() == [1, 0, 0, 0]

    @pytest.mark.parametrize("schedule", SCHEDULES)
    def test_different_bytes_in_two_operations(self, schedule: str) -> None:
        with pytest.raises(ConflictFault):
            run_ktir(
                common_store("%t", self.EVEN),
                args={"q": np.zeros(4, np.int32)},
                strict=True,
                schedule=schedule,
            )

    def test_all_tiles_add_to_one_place(self) -> None:
        """Each in lockstep with the others: every one of them reads what the others are about to overwrite."""
        text = k.function(
            "%q: index",
            [
                "%c0 = arith.constant 0 : index",
                "%one = arith.constant dense<1> : tensor<1xi32>",
                k.view("qv", "q", (1,), "i32"),
                k.tile("qt", "qv", "%c0", (1,), (1,), "i32"),
                k.load("x", "qt", (1,), "i32"),
                "%y = arith.addi %x, %one : tensor<1xi32>",
                k.store("y", "qt", (1,), "i32"),
            ],
            [4],
        )
        args = {"q": np.zeros(1, np.int32)}
        with pytest.raises(ConflictFault, match="another tile writes what another tile has read"):
            run_ktir(module(text), args=args, strict=True)
        assert run_ktir(module(text), args=args).outputs["q"].tolist() == [1]
        assert run_ktir(module(text), args=args, schedule="sequential").outputs["q"].tolist() == [4]


# -- the turns themselves


class TestTurns:
    def test_first_fault_ends_the_run(self) -> None:
        """No thread is left behind, whatever the others were waiting for."""
        text = hand_over(barrier("x"), 4)  # tile 0 looks for row 4
        before = threading.active_count()
        with pytest.raises(OutOfRangeFault, match=r"coordinate \(7, 63\)") as caught:
            run_ktir(text, args=arguments(), schedule="sequential")
        assert caught.value.site.tile == 3, "the last to produce is the first to go on"
        assert threading.active_count() == before

    def test_deadlock_names_all_who_wait(self) -> None:
        guarded = hand_over(
            "%first = arith.cmpi slt, %t, %d : index\nscf.if %first {\n" + barrier("x") + "\n}", 2
        )
        with pytest.raises(DeadlockFault) as caught:
            run_ktir(guarded, args=arguments(), schedule="sequential")
        assert caught.value.waiting == tuple(f"tile {t} waits for tile {p}" for t in (0, 1) for p in (2, 3))

    def test_unknown_schedule(self) -> None:
        with pytest.raises(CallError, match="'schedule' must be one of"):
            run_ktir(hand_over("", 1), args=arguments(), schedule="diagonal")

    def test_random_depends_on_the_seed_only(self) -> None:
        parsed, args = hand_over("", 1), arguments()
        runs = [
            run_ktir(parsed, args=args, schedule="random", seed=seed).outputs["q"].tobytes()
            for seed in (1, 1, *range(2, 12))
        ]
        assert runs[0] == runs[1]
        assert len(set(runs)) > 1


def test_equal_stores_of_all_tiles_at_every_level() -> None:
    """One rule for all levels: what every tile stores to one place is no race if it is the same; else it is."""

    def kernel(row: str) -> ktir.Module:
        return module(
            k.function(
                "%p: index, %q: index",
                [
                    "%c0 = arith.constant 0 : index",
                    "%t = ktdp.get_compute_tile_id : index",
                    k.view("pv", "p", (4, 64)),
                    k.view("qv", "q", (1, 64)),
                    k.tile("pt", "pv", f"{row}, %c0", (4, 64), (1, 64)),
                    k.tile("qt", "qv", "%c0, %c0", (1, 64), (1, 64)),
                    k.load("x", "pt", (1, 64)),
                    "%e = tensor.empty() : tensor<1x64xf16>",
                    "%y = linalg.add ins(%x, %x : tensor<1x64xf16>, tensor<1x64xf16>) outs(%e : "
                    "tensor<1x64xf16>) -> tensor<1x64xf16>",
                    k.store("y", "qt", (1, 64)),
                ],
                [4],
            )
        )

    (found,) = verify(kernel("%c0"), "sample")
    assert found.first is None, f"{found.first.where}: {found.first.difference or found.first.error}"
    args = {"p": RNG.normal(size=(4, 64)).astype(np.float16)}
    compiled = dfsched.compile(kernel("%t"), "sample")
    for run in (lambda: run_ktir(compiled.source, args=args), lambda: run_dataflow(compiled, args)):
        with pytest.raises(ConflictFault):
            run()
    args["p"][:] = args["p"][0]
    expected = args["p"][:1] * 2
    assert np.array_equal(run_ktir(compiled.source, args=args).outputs["q"], expected)
    assert np.array_equal(run_dataflow(compiled, args).outputs["q"], expected)
