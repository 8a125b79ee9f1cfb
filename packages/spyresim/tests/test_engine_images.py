"""The engine on images built by hand: results, time, and every way in which a program can be wrong."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest

from dfsched import image as im
from dfsched import load_architecture
from spyresim.engine import FlatGlobal, Machine, Options, Outcome
from spyresim.engine.activity import BANDWIDTH, EXECUTING, MOVING, Activity
from spyresim.engine.machine import DEFAULT_OPTIONS
from spyresim.engine.report import Report
from spyresim.errors import (
    ConflictFault,
    ControlFault,
    DeadlockFault,
    OutOfRangeFault,
    QueueFault,
    SpyresimError,
    UnwrittenReadFault,
)

ARCHITECTURE = load_architecture("spyre")
F16 = im.ElementType.F16
KINDS = ("MNILU", "LXLU", "SFP", "LXSU", "MNISU")
BASES = {"a": 0 << 34, "b": 1 << 34, "c": 2 << 34}


def add_image(cores: int = 4, vectors: int = 3) -> im.Image:
    """c = a + b, `vectors` vectors of 64 f16 a core, through one buffer each (no double buffering)."""
    units = [im.Unit(f"C{core}-{kind}", kind, core, 0) for kind in KINDS for core in range(cores)]

    def unit(kind: str, core: int) -> int:
        return KINDS.index(kind) * cores + core

    memories = [im.Memory("hbm", "HBM", im.MemoryClass.GLOBAL, -1, -1, 0)]
    memories += [
        im.Memory(f"C{core}-lx", "LX", im.MemoryClass.SCRATCHPAD, core, -1, 2 << 20) for core in range(cores)
    ]
    fifos = [
        im.Fifo(unit(a, core), unit(b, core), 1)
        for a, b in (("LXLU", "SFP"), ("SFP", "LXSU"))
        for core in range(cores)
    ]
    views = (
        im.View(F16, (vectors, 64), (64, 1), 0, 128),  # a core's part of a tensor, start in sticks
        im.View(F16, (64,), (1,)),  # a buffer, start in bytes
    )
    box = im.BoxLanes((1, 64), (0, 1))
    line = im.BoxLanes((64,), (0,))
    remote = im.Side(F16, (0,), (0, 0), ((1,), (0,)), ((), ()), box)
    local = im.Side(F16, (), (0,), ((),), ((),), line)
    generators = (
        im.AddressGenerator(im.GeneratorKind.DMA, (remote, local)),
        im.AddressGenerator(im.GeneratorKind.LOAD, (local,)),
        im.AddressGenerator(im.GeneratorKind.STORE, (local,)),
        im.AddressGenerator(im.GeneratorKind.DMA, (local, remote)),
    )
    memory, column, register = im.MemoryId(0), im.Column, im.Register

    def loop(*body: im.Instruction) -> list[im.Instruction]:
        return [
            im.LoadImmediate(1, 0),
            im.LoadImmediate(2, vectors),
            im.For(0, 1, 2, 1, len(body) + 1),
            *body,
            im.EndFor(-len(body) - 1),
            im.Halt(),
        ]

    def buffer(dst: int, address: int) -> list[im.Instruction]:
        return [im.LoadImmediate(3, address), im.MakeView(dst, column(0), register(3), 1)]

    codes = {
        "MNILU": [
            im.MakeView(0, memory, column(1), 0),
            im.MakeView(1, memory, column(2), 0),
            *buffer(2, 0),
            *buffer(3, 128),
            *loop(im.Dma(0, 2, 0), im.Dma(1, 3, 0), im.SyncSend(3, True), im.SyncReceive(3)),
        ],
        "LXLU": [
            *buffer(0, 0),
            *buffer(1, 128),
            *loop(
                im.SyncReceive(1),
                im.VectorLoad(0, 0, 1),
                im.Send(0, 2, 0),
                im.VectorLoad(1, 1, 1),
                im.Send(1, 2, 0),
                im.SyncSend(1, False),
            ),
        ],
        "SFP": [
            *loop(
                im.Receive(0, 0, F16, 64),
                im.Receive(1, 0, F16, 64),
                im.VectorBinary(im.BinaryOperator.ADD, 2, 0, 1, None),
                im.Send(2, 1, 0),
            )
        ],
        "LXSU": [
            *buffer(0, 256),
            *loop(
                im.Receive(0, 1, F16, 64), im.VectorStore(0, 0, 2), im.SyncSend(2, False), im.SyncReceive(2)
            ),
        ],
        "MNISU": [
            *buffer(0, 256),
            im.MakeView(1, memory, column(1), 0),
            *loop(im.SyncReceive(2), im.Dma(0, 1, 3), im.SyncSend(2, True)),
        ],
    }
    cells: list[int] = []
    programs: list[im.UnitProgram] = []
    for kind in KINDS:
        first = len(cells)
        for core in range(cores):
            sticks = core * vectors
            cells += {
                "MNILU": [
                    1 + core,
                    (BASES["a"] >> 7) + sticks,
                    (BASES["b"] >> 7) + sticks,
                    unit("LXLU", core),
                ],
                "LXLU": [1 + core, unit("MNILU", core), unit("SFP", core)],
                "SFP": [unit("LXLU", core), unit("LXSU", core)],
                "LXSU": [1 + core, unit("SFP", core), unit("MNISU", core)],
                "MNISU": [1 + core, (BASES["c"] >> 7) + sticks, unit("LXSU", core)],
            }[kind]
        columns = (len(cells) - first) // cores
        members = tuple(unit(kind, core) for core in range(cores))
        programs.append(im.UnitProgram(f"add/{kind}", members, tuple(codes[kind]), first, columns, 4, 3, 4))
    coordinator = im.Coordinator((im.Launch(0, 0), im.Halt()), len(cells), 0, 1)
    return im.Image(
        "add",
        ARCHITECTURE.name,
        ARCHITECTURE.digest,
        cores,
        tuple(memories),
        tuple(units),
        tuple(fifos),
        (im.Program("add", tuple(programs)),),
        coordinator,
        tuple(cells),
        views,
        generators,
    )


def run(image: im.Image, options: Options = DEFAULT_OPTIONS) -> tuple[np.ndarray, np.ndarray, Outcome]:
    rng = np.random.default_rng(7)
    count = 64 * 3 * image.grid
    a, b = (rng.standard_normal(count).astype(np.float16) for _ in range(2))
    blocks = {
        BASES["a"]: a.view(np.uint8).copy(),
        BASES["b"]: b.view(np.uint8).copy(),
        BASES["c"]: np.zeros(count * 2, np.uint8),
    }
    outcome = Machine(ARCHITECTURE).run(image, image.cells, FlatGlobal(blocks), options)
    return blocks[BASES["c"]].view(np.float16), a + b, outcome


def change(image: im.Image, kind: str, edit: object) -> im.Image:
    """The image with the code of one unit program changed by a function on its list of instructions."""
    (program,) = image.programs
    parts = []
    for part in program.unit_programs:
        code = list(part.code)
        if part.label.endswith(kind):
            edit(code)  # type: ignore[operator]
        parts.append(attrs.evolve(part, code=tuple(code)))
    return attrs.evolve(image, programs=(attrs.evolve(program, unit_programs=tuple(parts)),))


def where(code: list[im.Instruction], cls: type[im.Instruction], number: int = 0) -> int:
    return [i for i, instruction in enumerate(code) if isinstance(instruction, cls)][number]


def test_the_image_is_valid_and_survives_encoding() -> None:
    image = add_image()
    assert list(im.problems(image)) == []
    assert im.decode(im.encode(image)) == image


@pytest.mark.parametrize("cores", [1, 4, 32])
def test_result(cores: int) -> None:
    found, expected, outcome = run(add_image(cores))
    np.testing.assert_array_equal(found.view(np.uint16), expected.view(np.uint16))
    report = outcome.report
    assert report.bytes_read == 2 * report.bytes_written == cores * 3 * 256
    assert report.bound_cycles == -(-report.bytes_moved * 5 // 1024)
    assert report.cycles > report.bound_cycles
    assert report.programs == 1
    assert len(report.units) == 5 * cores
    assert_adds_up(report)


def assert_adds_up(report: Report) -> None:
    """Every unit is busy, waits or has nothing to do in every cycle, and in none twice."""
    for unit in report.units:
        assert unit.busy >= 0
        assert unit.idle >= 0
        assert all(waited > 0 for _, waited in unit.stall), unit
        assert unit.busy + sum(waited for _, waited in unit.stall) + unit.idle == report.cycles, unit


REASONS = {"input empty", "output full", "signal", "bandwidth"}


@pytest.mark.parametrize("cores", [1, 32])
@pytest.mark.parametrize("depth", [1, 16])
def test_what_units_wait_for(cores: int, depth: int) -> None:
    """Busy, waiting and idle cycles add up, also where a unit's process and its copies overlap: a unit that
    waits for its own copies is busy while they move, and waits for bandwidth while they share a port."""
    image = add_image(cores)
    fifos = tuple(attrs.evolve(fifo, depth=depth) for fifo in image.fifos)
    _, _, outcome = run(attrs.evolve(image, fifos=fifos))
    report = outcome.report
    assert_adds_up(report)
    waits = {(unit.kind, reason) for unit in report.units for reason, _ in unit.stall}
    assert {reason for _, reason in waits} <= REASONS
    assert {("SFP", "input empty"), ("LXLU", "signal"), ("MNISU", "signal")} <= waits
    assert (("MNILU", "bandwidth") in waits) == (cores == 32)


def test_overlapping_spans() -> None:
    """Against counting tick by tick: a process and copies that follow one another at random times."""
    rng = np.random.default_rng(11)
    for _ in range(200):
        activity = Activity(waited=np.zeros(1, np.int64))
        process, copies = np.full(120, "idle", object), np.full(120, "", object)
        outstanding = [int(rng.integers(0, 6)) for _ in range(6)]
        now = ended = executing = moving = 0
        waits: dict[str, Any] = {}
        issued: list[int] = []
        for count in outstanding:
            kind = str(rng.choice(["", "signal", "input empty"]))
            end = now + int(rng.integers(0, 9))
            process[now:end] = kind
            activity.process(kind, np.array([now]), np.array([end]), True)
            if kind:
                waits[kind] = waits.get(kind, 0) + np.array([end - now])
            else:
                executing += end - now
            now = end
            issued.append(now)
            for _ in range(min(count, len(issued))):
                start = max(issued.pop(0), ended)
                moves = start + int(rng.integers(0, 4))
                ended = moves + int(rng.integers(1, 5))
                copies[start:moves], copies[moves:ended] = BANDWIDTH, MOVING
                activity.copy(BANDWIDTH, np.array([start]), np.array([moves]))
                activity.copy(MOVING, np.array([moves]), np.array([ended]))
                moving += ended - moves
        is_busy = (process == EXECUTING) | (copies == MOVING)
        assert activity.busy(executing, np.array([moving])).tolist() == [is_busy.sum()]
        found = {reason: int(ticks[0]) for reason, ticks in activity.stalls(waits).items()}
        assert found.pop(BANDWIDTH) == ((copies == BANDWIDTH) & ~is_busy).sum()
        assert found == {reason: ((process == reason) & (copies == "")).sum() for reason in waits}


def test_results_do_not_depend_on_the_order_of_ready_units() -> None:
    """Ready units picked by seed: the same bytes (dataflowir spec 5.3)."""
    expected, _, _ = run(add_image())
    for seed in range(5):
        found, _, _ = run(add_image(), Options(seed=seed))
        np.testing.assert_array_equal(found, expected)


def test_cores_that_talk_to_each_other_run_one_by_one() -> None:
    """Batching over cores is an optimisation: without it the result and the cycles are the same."""
    image = add_image(4)
    batched, _, together = run(image)
    # a fifth unit program whose only unit waits for nobody makes no core special; crossing FIFOs does:
    # let the store units of cores 0 and 1 swap their partners
    cells = list(image.cells)
    su, sfp = image.programs[0].unit_programs[3], image.programs[0].unit_programs[2]
    cells[su.cell(0, 1)], cells[su.cell(1, 1)] = cells[su.cell(1, 1)], cells[su.cell(0, 1)]
    cells[sfp.cell(0, 1)], cells[sfp.cell(1, 1)] = cells[sfp.cell(1, 1)], cells[sfp.cell(0, 1)]
    fifos = (*image.fifos, im.Fifo(sfp.units[0], su.units[1], 1), im.Fifo(sfp.units[1], su.units[0], 1))
    crossed, _, apart = run(attrs.evolve(image, cells=tuple(cells), fifos=fifos))
    np.testing.assert_array_equal(crossed[: 64 * 3], batched[64 * 3 : 64 * 6])
    np.testing.assert_array_equal(crossed[64 * 3 : 64 * 6], batched[: 64 * 3])
    np.testing.assert_array_equal(crossed[64 * 6 :], batched[64 * 6 :])
    assert apart.report.bytes_moved == together.report.bytes_moved


def test_divergence_splits_the_cores() -> None:
    """A trip count that differs between cores: every core runs its own number of iterations."""
    image = add_image(4)
    cells = list(image.cells)
    (program,) = image.programs
    parts = []
    for part in program.unit_programs:
        first = len(cells)
        for row in range(4):
            cells += [*(cells[part.cell(row, c)] for c in range(part.columns)), 1 + row % 3]
        code = [
            im.LoadColumn(2, part.columns) if isinstance(i, im.LoadImmediate) and i.dst == 2 else i
            for i in part.code
        ]
        parts.append(attrs.evolve(part, code=tuple(code), first_cell=first, columns=part.columns + 1))
    image = attrs.evolve(
        image,
        programs=(attrs.evolve(program, unit_programs=tuple(parts)),),
        cells=tuple(cells),
        coordinator=attrs.evolve(image.coordinator, first_cell=len(cells)),
    )
    found, expected, _ = run(image)
    parts_found, parts_expected = found.reshape(4, 3, 64), expected.reshape(4, 3, 64).copy()
    for core in range(4):
        parts_expected[core, 1 + core % 3 :] = 0
    np.testing.assert_array_equal(parts_found, parts_expected)


@pytest.mark.parametrize(
    ("kind", "edit", "fault", "text"),
    [
        ("SFP", lambda code: code.__setitem__(where(code, im.Send), im.LoadImmediate(3, 0)), DeadlockFault, "deadlock"),
        ("LXLU", lambda code: code.__setitem__(where(code, im.SyncSend), im.LoadImmediate(3, 0)), DeadlockFault, "MNILU"),
        ("SFP", lambda code: code.__setitem__(where(code, im.Receive), im.Receive(0, 0, F16, 32)), QueueFault, "type mismatch on FIFO C0-LXLU->C0-SFP: sent 64xf16, received 32xf16"),
        ("SFP", lambda code: code.__setitem__(where(code, im.Receive), im.VectorMove(0, 0)), ControlFault, "register v0 is read before it is written"),
        ("MNISU", lambda code: code.__setitem__(where(code, im.LoadImmediate), im.LoadImmediate(3, 512)), UnwrittenReadFault, "which nobody has written"),
        ("LXSU", lambda code: code.__setitem__(where(code, im.LoadImmediate), im.LoadImmediate(3, (2 << 20) - 64)), OutOfRangeFault, "LX of core 0"),
        ("MNILU", lambda code: code.__setitem__(where(code, im.SyncSend), im.SyncSend(3, False)), None, ""),
    ],
    ids=["no send", "no signal", "type mismatch", "undefined", "unwritten", "out of range", "no drain"],
)  # fmt: skip
def test_wrong_programs_are_noticed(
    kind: str, edit: object, fault: type[SpyresimError] | None, text: str
) -> None:
    """A missing signal or send, a wrong type or address show as a fault, never as a good result."""
    image = change(add_image(), kind, edit)
    if fault is None:
        with pytest.raises(SpyresimError):
            run(image)
        return
    with pytest.raises(fault) as caught:
        run(image)
    assert text in str(caught.value)


def test_index_out_of_view_bounds() -> None:
    image = add_image()
    views = (attrs.evolve(image.views[0], shape=(2, 64)), image.views[1])
    with pytest.raises(OutOfRangeFault, match="index out of view bounds: index 2 of dimension 0"):
        run(attrs.evolve(image, views=views))
    found, expected, _ = run(attrs.evolve(image, views=views), Options(strict=False))
    np.testing.assert_array_equal(found, expected)


def test_residue_is_an_error() -> None:
    """A vector that nobody takes, a signal that nobody waits for (dataflowir spec 5.10)."""
    image = change(add_image(), "MNISU", lambda code: code.insert(-1, im.SyncSend(2, False)))
    with pytest.raises(QueueFault, match="unmatched signal C0-MNISU->C0-LXSU"):
        run(image)


def test_trace_is_chrome_json() -> None:
    image = add_image(2)
    _, _, outcome = run(image, Options(trace=True))
    assert outcome.trace is not None
    data = outcome.trace.to_chrome(image.units)
    slices = [event for event in data["traceEvents"] if event["ph"] == "X"]
    names = {event["args"]["name"] for event in data["traceEvents"] if event["name"] == "thread_name"}
    assert {"C0-SFP", "C1-SFP", "C0-MNILU copies"} <= names
    assert len([e for e in slices if e["name"] == "copy"]) == 2 * 3 * 3
    assert max(e["ts"] + e["dur"] for e in slices) <= outcome.report.cycles / 1000 + 1e-9


NOTHING = im.LoadImmediate(3, 0)


def without(image: im.Image, kind: str, cls: type[im.Instruction]) -> im.Image:
    """The image with one instruction of a unit program made to do nothing."""
    return change(image, kind, lambda code: code.__setitem__(where(code, cls), NOTHING))


@pytest.mark.parametrize("seed", [None, 0, 1])
@pytest.mark.parametrize(
    ("waiting", "signalling", "memory"),
    [(("MNILU", im.SyncReceive), ("LXLU", im.SyncSend), "LX"), (("LXSU", im.SyncReceive), ("MNISU", im.SyncSend), "LX")],
    ids=["load buffers", "store buffer"],
)  # fmt: skip
def test_a_missing_write_after_read_signal_is_a_race(
    waiting: tuple[str, type[im.Instruction]],
    signalling: tuple[str, type[im.Instruction]],
    memory: str,
    seed: int | None,
) -> None:
    """Both halves of the signal that frees a buffer are dropped (dataflowir spec 5.8, 5.10): whatever the
    order of ready units, the buffer is overwritten while nothing says that it was read."""
    image = without(without(add_image(), *waiting), *signalling)
    with pytest.raises(ConflictFault, match=f"data race on {memory}"):
        run(image, Options(seed=seed))


def test_two_cores_that_write_the_same_bytes_race() -> None:
    image = add_image(2)
    store = image.programs[0].unit_programs[4]
    cells = list(image.cells)
    cells[store.cell(1, 1)] = cells[store.cell(0, 1)] + 1
    with pytest.raises(
        ConflictFault,
        match=r"data race on device memory.* between the write of .* tile 1, unit C1-MNISU .* and the write",
    ):
        run(attrs.evolve(image, cells=tuple(cells)))


def test_a_core_that_reads_what_another_writes_races() -> None:
    image = add_image(2)
    load = image.programs[0].unit_programs[0]
    store = image.programs[0].unit_programs[4]
    cells = list(image.cells)
    cells[load.cell(1, 1)] = cells[store.cell(0, 1)]
    with pytest.raises(ConflictFault, match="data race on device memory"):
        run(attrs.evolve(image, cells=tuple(cells)))


def test_a_program_that_works_in_place_has_no_race() -> None:
    """Every core overwrites what it has read before: ordered through the queues."""
    image = add_image(4)
    load, store = image.programs[0].unit_programs[0], image.programs[0].unit_programs[4]
    cells = list(image.cells)
    for row in range(4):
        cells[load.cell(row, 1)] = cells[store.cell(row, 1)]
    run(attrs.evolve(image, cells=tuple(cells)))
