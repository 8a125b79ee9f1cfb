"""Time alone and fast-forward: the same report, to the last cycle of every unit, as a run with values."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dfsched
import ktir
from dfsched import image as im
from dfsched import load_architecture
from ktir.interface import Role
from spyresim import run_dataflow
from spyresim.engine import FlatGlobal, Machine, Options, Outcome
from spyresim.engine.report import Report
from spyresim.errors import SpyresimError
from spyresim.testing.compute_kernels import KERNELS
from spyresim.testing.random_kernels import RandomKernel, random_kernels

SWEEPS = os.environ.get("SWEEPS", "") not in ("", "0")
ARCHITECTURE = load_architecture("spyre")
SLOW, FAST = Options(time_only=True, fast_forward=False), Options(time_only=True)


def plain(report: Report) -> Report:
    return attrs.evolve(report, skipped=())


# -- compiled kernels


def three(made: dfsched.Compiled, arguments: dict[str, Any]) -> tuple[Report, Report, Report]:
    """The engine's reports of a run with values, of time alone, and of time with fast-forward."""
    scalars = {name: value for name, value in arguments.items() if not isinstance(value, np.ndarray)}
    details = [
        run_dataflow(made, given, options=options).report.details
        for given, options in ((arguments, None), (scalars, SLOW), (scalars, FAST))
    ]
    with_values, slow, fast = (d.report for d in details if isinstance(d, Outcome))
    return with_values, slow, fast


def arguments_of(made: dfsched.Compiled) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    found: dict[str, Any] = {}
    for argument in ktir.signature(made.source, made.kernel):
        if not argument.is_pointer:
            found[argument.name] = 2
        elif argument.role is not Role.OUTPUT:
            assert argument.layout is not None
            found[argument.name] = rng.integers(0, 2, argument.layout.shape).astype(argument.dtype)
    return found


@pytest.mark.parametrize("name", list(KERNELS) if SWEEPS else list(KERNELS)[::3])
def test_time_of_kernels(name: str) -> None:
    """Every kind of computation, in tiles as small as they come."""
    made = dfsched.compile(ktir.parse(KERNELS[name]), "spyre", dfsched.Options(pins={"tile_sizes": 1}))
    with_values, slow, fast = three(made, arguments_of(made))
    assert slow == with_values
    assert plain(fast) == with_values


@pytest.mark.sweep(default=5, full=300)
@given(kernel=random_kernels())
def test_time_of_random_kernels(kernel: RandomKernel) -> None:
    made = dfsched.compile(ktir.parse(kernel.text), "spyre", dfsched.Options(pins={"tile_sizes": 1}))
    with_values, slow, fast = three(made, kernel.arguments(2))
    assert slow == with_values
    assert plain(fast) == with_values


# -- random programs

KINDS = ("MNILU", "LXLU", "SFP", "LXSU", "MNISU")
COPYING = (0, 4)
PREDICATES = (im.Predicate.EQ, im.Predicate.NE, im.Predicate.SLT, im.Predicate.SGE)

Node = tuple[Any, ...]
"""``loop``, trips (one a core), body; ``guard``, predicate, number, body (on the innermost loop); ``phase``,
body (every other time); ``item`` and ``signal``, from, to; ``work``, unit, slow; ``copy``, unit; ``store``, unit (of a vector, to its place in the scratchpad)."""


def nodes(depth: int = 3) -> st.SearchStrategy[list[Node]]:
    unit = st.integers(0, len(KINDS) - 1)
    pairs = st.tuples(unit, unit).filter(lambda p: p[0] != p[1])
    leaf = st.one_of(
        pairs.map(lambda p: ("item", *p)),
        pairs.map(lambda p: ("signal", *p)),
        st.tuples(st.just("work"), unit, st.booleans()),
        st.tuples(st.just("copy"), st.sampled_from(COPYING)),
        st.tuples(st.just("store"), unit),
    )
    if depth == 0:
        return st.lists(leaf, min_size=1, max_size=4)
    inner = nodes(depth - 1)
    few = st.sampled_from([0, 1, 2, 3, 5, 9, 30])
    trips = st.one_of(few.map(lambda n: (n, n)), few.map(lambda n: (n, n)), st.tuples(few, few))
    loop = st.tuples(st.just("loop"), trips, inner)
    guard = st.tuples(st.just("guard"), st.sampled_from(PREDICATES), st.integers(0, 9), inner)
    phase = st.tuples(st.just("phase"), inner)
    return st.lists(st.one_of(leaf, leaf, loop, loop, guard, phase), min_size=1, max_size=4)


class UnitCode:
    """The instructions of one unit of a program of nodes; columns 0 to 4 hold the units of the core."""

    def __init__(self, unit: int) -> None:
        self.unit = unit
        self.scalars = 2
        self.phases: list[im.Instruction] = []
        self.columns: list[tuple[int, ...]] = []

    def program(self, body: Sequence[Node]) -> list[im.Instruction]:
        inner = self.code(body, None)
        views: list[im.Instruction] = [
            im.LoadImmediate(0, 0),
            im.MakeView(0, im.MemoryId(0), im.Register(0), 0),
            im.LoadImmediate(0, 128 * self.unit),
            im.MakeView(1, im.Column(len(KINDS)), im.Register(0), 1),
        ]
        constant = im.VectorConstant(0, 0)
        return [*views, constant, *self.phases, *inner, im.Halt()]

    def new(self) -> int:
        self.scalars += 1
        return self.scalars - 1

    def code(self, body: Sequence[Node], innermost: int | None) -> list[im.Instruction]:
        return [instruction for node in body for instruction in self.node(node, innermost)]

    def node(self, node: Node, innermost: int | None) -> list[im.Instruction]:
        match node:
            case ("loop", trips, body):
                iv, lower, upper = self.new(), self.new(), self.new()
                self.columns.append(trips)
                inner = self.code(body, iv)
                bounds = [im.LoadImmediate(lower, 0), im.LoadColumn(upper, len(KINDS) + len(self.columns))]
                if trips[0] == trips[1]:
                    bounds[1] = im.LoadImmediate(upper, trips[0])
                far = len(inner) + 1
                return [*bounds, im.For(iv, lower, upper, 1, far), *inner, im.EndFor(-far)]
            case ("guard", predicate, number, body):
                if innermost is None:
                    return self.code(body, None)
                right, truth = self.new(), self.new()
                inner = self.code(body, innermost)
                return [
                    im.LoadImmediate(right, number),
                    im.ScalarCompare(predicate, truth, innermost, right),
                    im.BranchIfZero(truth, len(inner) + 1),
                    *inner,
                ]
            case ("phase", body):
                one, phase = self.new(), self.new()
                self.phases += [im.LoadImmediate(one, 1), im.LoadImmediate(phase, 0)]
                inner = self.code(body, innermost)
                toggle = im.ScalarBinary(im.ScalarOp.SUB, phase, one, im.Register(phase))
                return [toggle, im.BranchIfZero(phase, len(inner) + 1), *inner]
            case ("item", source, target):
                if source == self.unit:
                    return [im.Send(0, target, 0)]
                return [im.Receive(1, source, im.ElementType.F16, 64)] if target == self.unit else []
            case ("signal", source, target):
                if source == self.unit:
                    return [im.SyncSend(target, True)]
                return [im.SyncReceive(source)] if target == self.unit else []
            case ("work", unit, slow):
                op = im.UnaryOperator.FAST_EXP if slow else im.UnaryOperator.NEG
                return [im.VectorUnary(op, 0, 0, None)] if unit == self.unit else []
            case ("copy", unit):
                return [im.Dma(0, 1, 0)] if unit == self.unit else []
            case ("store", unit):
                return [im.VectorStore(0, 1, 1)] if unit == self.unit else []
            case _:
                raise AssertionError(node)


def image_of(
    body: Sequence[Node],
    depth: int,
    dropped: int | None = None,
    architecture: dfsched.Architecture = ARCHITECTURE,
) -> im.Image:
    """An image on two cores; `dropped` (a position among all communication) is left out of one unit."""
    cores = 2
    units = [im.Unit(f"C{core}-{kind}", kind, core, 0) for kind in KINDS for core in range(cores)]
    memories = (
        im.Memory("hbm", "HBM", im.MemoryClass.GLOBAL, -1, -1, 0),
        *(im.Memory(f"C{c}-lx", "LX", im.MemoryClass.SCRATCHPAD, c, -1, 2 << 20) for c in range(cores)),
    )
    count = len(KINDS)
    fifos = [
        im.Fifo(a * cores + core, b * cores + core, depth)
        for a in range(count)
        for b in range(count)
        if a != b
        for core in range(cores)
    ]
    line = im.Side(im.ElementType.F16, (), (0,), ((),), ((),), im.BoxLanes((64,), (0,)))
    cells: list[int] = []
    parts: list[im.UnitProgram] = []
    met = 0
    for number in range(count):
        writer = UnitCode(number)
        code = writer.program(body)
        for at, instruction in enumerate(code):
            if isinstance(instruction, im.Send | im.Receive | im.SyncSend | im.SyncReceive):
                if met == dropped:
                    code[at] = im.LoadImmediate(1, 0)
                met += 1
        first = len(cells)
        for core in range(cores):
            cells += [other * cores + core for other in range(count)]
            cells += [1 + core, *(trips[core] for trips in writer.columns)]
        members = tuple(number * cores + core for core in range(cores))
        columns = count + 1 + len(writer.columns)
        parts.append(
            im.UnitProgram(f"p/{KINDS[number]}", members, tuple(code), first, columns, writer.scalars, 2, 2)
        )
    return im.Image(
        "p",
        architecture.name,
        architecture.digest,
        cores,
        memories,
        tuple(units),
        tuple(fifos),
        (im.Program("p", tuple(parts)),),
        im.Coordinator((im.Launch(0, 0), im.Halt()), len(cells), 0, 1),
        tuple(cells),
        (im.View(im.ElementType.F16, (64,), (1,), 0, 128), im.View(im.ElementType.F16, (64,), (1,))),
        (
            im.AddressGenerator(im.GeneratorKind.DMA, (line, line)),
            im.AddressGenerator(im.GeneratorKind.STORE, (line,)),
        ),
        (im.Constant(im.ElementType.F16, 64, bytes(128)),),
    )


def outcome(
    image: im.Image, options: Options, architecture: dfsched.Architecture = ARCHITECTURE
) -> Report | tuple[str, str]:
    """The report, or what went wrong."""
    memory = FlatGlobal({0: np.zeros(256, np.uint8)})
    try:
        return plain(Machine(architecture).run(image, image.cells, memory, options).report)
    except SpyresimError as error:
        return type(error).__name__, str(error)


@pytest.fixture(scope="module")
def port_architecture(tmp_path_factory: pytest.TempPathFactory) -> dfsched.Architecture:
    """`spyre` with scratchpads that have one port of 40 bytes a cycle."""
    text = files("dfsched").joinpath("devices/spyre.mlir").read_text(encoding="utf-8")
    plain_pad = 'kind = "LX", size'
    assert plain_pad in text
    path = tmp_path_factory.mktemp("port") / "device.mlir"
    path.write_text(text.replace(plain_pad, 'kind = "LX", ktdf_ext.bandwidth = 40, size'))
    return load_architecture(path)


@pytest.mark.sweep(default=20, full=2000)
@given(
    body=nodes(),
    depth=st.sampled_from([1, 2, 16]),
    dropped=st.none() | st.integers(0, 40),
    port=st.booleans(),
)
def test_random_programs(
    port_architecture: dfsched.Architecture, body: list[Node], depth: int, dropped: int | None, port: bool
) -> None:
    """Loops, guards, phases, cores that part ways, deadlocks and left-over items: all ends are the same."""
    device = port_architecture if port else ARCHITECTURE
    image = image_of([("loop", (12, 12), body)], depth, dropped, device)
    limits = {"max_instructions": 60_000 if SWEEPS else 12_000}
    expected = outcome(image, Options(**limits, races=False), device)
    slow = outcome(image, attrs.evolve(SLOW, **limits), device)
    fast = outcome(image, attrs.evolve(FAST, **limits), device)
    assert slow == expected
    assert fast == expected


def chain(trips: int) -> list[Node]:
    """Every unit hands items to the next, with copies at both ends; the first one skips a signal at first."""
    steps: list[Node] = [("copy", 0), ("work", 2, True), ("copy", 4)]
    steps += [("item", n, n + 1) for n in range(4)]
    steps += [("guard", im.Predicate.NE, 0, [("signal", 1, 0)]), ("phase", [("work", 2, False)])]
    return [("loop", (trips, trips), steps)]


def test_what_is_skipped() -> None:
    """A million iterations take no longer than a hundred, and each is accounted for."""
    reports = {}
    for trips in (100, 1000, 1_000_000):
        image = image_of(chain(trips), 4)
        limit = attrs.evolve(FAST, max_instructions=10**9)
        reports[trips] = Machine(ARCHITECTURE).run(image, image.cells, FlatGlobal({}), limit).report
    (first,), (last,) = reports[100].skipped, reports[1_000_000].skipped
    assert first.period == last.period
    assert last.periods > 400_000
    assert last.end - last.start == last.periods * last.period
    steps = reports[1000].cycles - reports[100].cycles, reports[1_000_000].cycles - reports[1000].cycles
    assert steps[0] * 999_000 == steps[1] * 900
    assert plain(reports[1000]) == outcome(image_of(chain(1000), 4), Options())


def test_the_trace_has_one_slice_for_it() -> None:
    image = image_of(chain(1000), 4)
    found = Machine(ARCHITECTURE).run(image, image.cells, FlatGlobal({}), attrs.evolve(FAST, trace=True))
    assert found.trace is not None
    (skipped,) = found.report.skipped
    slices = [event for event in found.trace.events if event.name == f"{skipped.periods} more periods"]
    tracks = {(unit, event.track) for event in slices for unit in event.units}
    assert len(tracks) == len(slices) * 2 == 2 * (5 + 2)
    for event in slices:
        assert (event.end - event.start == (skipped.end - skipped.start) * 1024).all()
    by_track: dict[tuple[int, str], list[tuple[int, int]]] = {}
    for event in found.trace.events:
        for row, unit in enumerate(event.units):
            by_track.setdefault((unit, event.track), []).append((int(event.start[row]), int(event.end[row])))
    for spans in by_track.values():
        spans.sort()
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))


@pytest.mark.parametrize("guard", range(0, 40, 7))
@pytest.mark.parametrize("predicate", PREDICATES)
def test_decisions_that_change_in_the_middle(guard: int, predicate: im.Predicate) -> None:
    """A guard whose truth changes at some iteration ends the fast-forward there."""
    body: list[Node] = [("item", 0, 1), ("guard", predicate, guard, [("work", 1, True), ("item", 1, 2)])]
    image = image_of([("loop", (40, 40), [*body, ("copy", 0)])], 2)
    assert outcome(image, FAST) == outcome(image, Options())


def launched(trips: int, body: list[Node], shown: bool) -> im.Image:
    """An image whose coordinator launches its program again and again; the number of the launch is where a
    view begins and, if `shown`, also a bound of its loops."""
    image = image_of(body, 4)
    (program,) = image.programs
    parts: list[im.UnitProgram] = []
    for part in program.unit_programs:
        number = part.scalar_registers
        code: list[im.Instruction] = [im.Move(number, 0), *part.code]
        views = [at for at, i in enumerate(code) if isinstance(i, im.MakeView)]
        code[views[1]] = attrs.evolve(code[views[1]], start=im.Register(number))
        if shown:
            code = [attrs.evolve(i, upper=number) if isinstance(i, im.For) else i for i in code]
        parts.append(attrs.evolve(part, code=tuple(code), scalar_registers=number + 1))
    run = im.Program("p", tuple(parts), ("n",))
    coordinator = im.Coordinator(
        (
            im.LoadImmediate(1, 0),
            im.LoadImmediate(2, trips * 128),
            im.For(0, 1, 2, 128, 2),
            im.Launch(0, 0),
            im.EndFor(-2),
            im.Halt(),
        ),
        len(image.cells),
        0,
        3,
    )
    return attrs.evolve(image, programs=(run,), coordinator=coordinator)


@pytest.mark.parametrize("shown", [False, True])
def test_launches_that_are_like_earlier_ones(shown: bool) -> None:
    """Launches that differ in addresses are simulated once; if the number is a bound of loops, each is."""
    count = 3 if shown else 10
    image = launched(count, chain(9), shown)
    expected = outcome(image, Options(races=False))
    assert isinstance(expected, Report), expected
    assert expected.programs == count
    found = Machine(ARCHITECTURE).run(image, image.cells, FlatGlobal({}), FAST).report
    assert plain(found) == expected == outcome(image, SLOW)
    again = [skip for skip in found.skipped if skip.periods == 1]
    assert len(again) == (0 if shown else count - 1)
