"""What is ordered and what is not: races over split cohorts, cores and corelets; limited queues."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import attrs
import numpy as np
import pytest

from dfsched import image as im
from spyresim.engine import Options
from spyresim.errors import ConflictFault, UnsupportedError


def _examples() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "engine_image_examples", Path(__file__).with_name("test_engine_images.py")
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ex = _examples()
NOTHING = im.LoadImmediate(3, 0)
Edit = Callable[[list[im.Instruction], int], None]


def edited(image: im.Image, edits: dict[str, tuple[Sequence[Sequence[int]], Edit]]) -> im.Image:
    """The image with columns added to unit programs (by kind: rows of new cells, then a change of the code
    that is told the number of the first new column)."""
    (program,) = image.programs
    cells: list[int] = []
    parts: list[im.UnitProgram] = []
    for part in program.unit_programs:
        first, code = len(cells), list(part.code)
        more: Sequence[Sequence[int]] = [[] for _ in part.units]
        kind = part.label.rsplit("/", 1)[1]
        if kind in edits:
            more, edit = edits[kind]
            edit(code, part.columns)
        for row, extra in enumerate(more):
            cells += [*(image.cells[part.cell(row, column)] for column in range(part.columns)), *extra]
        columns = part.columns + len(more[0])
        parts.append(attrs.evolve(part, code=tuple(code), first_cell=first, columns=columns))
    return attrs.evolve(
        image,
        programs=(attrs.evolve(program, unit_programs=tuple(parts)),),
        cells=tuple(cells),
        coordinator=attrs.evolve(image.coordinator, first_cell=len(cells)),
    )


def test_a_split_after_writes_is_no_race() -> None:
    """Cores part ways after they have written device memory: nobody wrote those bytes twice."""

    def part_ways(code: list[im.Instruction], column: int) -> None:
        code[-1:] = [im.LoadColumn(3, column), im.BranchIfZero(3, 1), im.Halt()]

    image = edited(ex.add_image(4), {"MNISU": ([[0], [1], [0], [2]], part_ways)})
    found, expected, _ = ex.run(image)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("signals", [True, False])
def test_addresses_of_one_core_meet_addresses_of_all(signals: bool, split: bool) -> None:
    """The loads write two buffers at the same addresses of all cores; the reader reads the first buffer
    first on core 0, the second one on core 1: without the write-after-read signal that is a race."""

    def read(code: list[im.Instruction], column: int) -> None:
        if split:
            code[:0] = [im.LoadColumn(3, column), im.BranchIfZero(3, 1)]
        makes = [at for at, i in enumerate(code) if isinstance(i, im.MakeView)]
        for number, at in enumerate(makes):
            code[at] = attrs.evolve(code[at], start=im.Column(column + number))

    image = edited(ex.add_image(2), {"LXLU": ([[0, 128], [128, 0]], read)})
    if not signals:
        image = ex.without(ex.without(image, "MNILU", im.SyncReceive), "LXLU", im.SyncSend)
        with pytest.raises(ConflictFault, match="data race on LX"):
            ex.run(image)
        return
    found, expected, _ = ex.run(image)
    np.testing.assert_array_equal(found, expected)


def test_a_race_with_what_happened_before_a_split() -> None:
    """The buffer is filled, the cores part ways, and only then it is overwritten."""

    def load(code: list[im.Instruction], column: int) -> None:
        at = next(i for i, instruction in enumerate(code) if isinstance(instruction, im.EndFor))
        code[at:at] = [im.LoadColumn(3, column), im.BranchIfZero(3, 1)]
        head = next(i for i, instruction in enumerate(code) if isinstance(instruction, im.For))
        code[head] = attrs.evolve(code[head], end=at + 2 - head)
        code[at + 2] = im.EndFor(head - at - 2)

    image = edited(ex.add_image(3), {"MNILU": ([[0], [1], [1]], load)})
    found, expected, _ = ex.run(image)
    np.testing.assert_array_equal(found, expected)
    image = ex.without(ex.without(image, "MNILU", im.SyncReceive), "LXLU", im.SyncSend)
    with pytest.raises(ConflictFault, match="data race on LX"):
        ex.run(image)


@pytest.mark.parametrize("signal", [True, False])
def test_a_signal_orders_device_memory_between_cores(signal: bool) -> None:
    """Core 1 loads what core 0 stored, after a signal from it (dataflowir spec 5.10)."""
    image = ex.add_image(2)
    load, *_, store = image.programs[0].unit_programs
    cells = list(image.cells)
    cells[load.cell(1, 1)] = cells[store.cell(0, 1)]
    image = attrs.evolve(image, cells=tuple(cells))

    def receive(code: list[im.Instruction], column: int) -> None:
        code[:0] = [im.LoadColumn(3, column + 1), im.BranchIfZero(3, 2), im.SyncReceive(column)]

    def send(code: list[im.Instruction], column: int) -> None:
        end = [im.LoadColumn(3, column + 1), im.BranchIfZero(3, 2), im.SyncSend(column, True), im.Halt()]
        code[-1:] = end

    image = edited(
        image,
        {
            "MNILU": ([[store.units[1], 0], [store.units[0], int(signal)]], receive),
            "MNISU": ([[load.units[1], int(signal)], [load.units[0], 0]], send),
        },
    )
    if not signal:
        with pytest.raises(ConflictFault, match="data race on device memory"):
            ex.run(image)
        return
    found, _, _ = ex.run(image)
    rng = np.random.default_rng(7)
    a, b = (rng.standard_normal(64 * 6).astype(np.float16) for _ in range(2))
    first = a[:192] + b[:192]
    np.testing.assert_array_equal(found, np.concatenate([first, first + b[192:]]))


def test_a_scratchpad_of_every_corelet_is_its_own() -> None:
    """Two memories of one kind and core in different corelets (same addresses) are two memories."""
    image = ex.add_image(2)
    other = [
        attrs.evolve(memory, name=memory.name + "-1", corelet=1)
        for memory in image.memories
        if memory.memory_class is im.MemoryClass.SCRATCHPAD
    ]
    first = len(image.memories)
    image = attrs.evolve(image, memories=(*image.memories, *other))

    def second(code: list[im.Instruction], column: int) -> None:
        makes = [at for at, i in enumerate(code) if isinstance(i, im.MakeView) and i.descriptor == 1]
        code[makes[1]] = attrs.evolve(code[makes[1]], memory=im.Column(column))
        code[makes[1] - 1] = im.LoadImmediate(3, 0)

    rows = [[first], [first + 1]]
    found, expected, _ = ex.run(edited(image, {"MNILU": (rows, second), "LXLU": (rows, second)}))
    np.testing.assert_array_equal(found, expected)


def test_register_memories_of_every_core_survive_a_split() -> None:
    """Each core has its own name for the registers of its unit; their contents go with the core."""
    image = ex.add_image(3)
    first = len(image.memories)
    registers = [im.Memory(f"C{c}-reg", "SFP_REG", im.MemoryClass.REGISTER, c, 0, 2048) for c in range(3)]
    image = attrs.evolve(image, memories=(*image.memories, *registers))

    def compute(code: list[im.Instruction], column: int) -> None:
        at = next(i for i, instruction in enumerate(code) if isinstance(instruction, im.Send))
        code[at:at] = [
            im.VectorStore(2, 0, 2),
            im.LoadColumn(3, column + 1),
            im.BranchIfZero(3, 1),
            im.VectorLoad(2, 0, 1),
        ]
        head = next(i for i, instruction in enumerate(code) if isinstance(instruction, im.For))
        end = next(i for i, instruction in enumerate(code) if isinstance(instruction, im.EndFor))
        code[head] = attrs.evolve(code[head], end=end - head)
        code[end] = im.EndFor(head - end)
        code[:0] = [im.LoadImmediate(3, 0), im.MakeView(0, im.Column(column), im.Register(3), 1)]

    rows = [[first + core, core % 2] for core in range(3)]
    found, expected, _ = ex.run(edited(image, {"SFP": (rows, compute)}))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("seed", [None, 3])
def test_a_queue_limited_by_bytes_is_one_limited_by_items(seed: int | None) -> None:
    """Room for one vector of bytes is a depth of one, in results and in cycles (dataflowir spec 5.5)."""
    image = ex.add_image(2)
    by_bytes = tuple(attrs.evolve(fifo, depth=16, size_bytes=128 + 64) for fifo in image.fifos)
    found, expected, limited = ex.run(attrs.evolve(image, fifos=by_bytes), Options(seed=seed))
    np.testing.assert_array_equal(found, expected)
    _, _, deep = ex.run(image, Options(seed=seed))
    if seed is None:
        assert limited.report.cycles == deep.report.cycles
        assert limited.report.units == deep.report.units


def test_the_depth_of_a_queue_costs_nothing() -> None:
    image = ex.add_image(1)
    fifos = tuple(attrs.evolve(fifo, depth=2**32 - 1) for fifo in image.fifos)
    found, expected, _ = ex.run(attrs.evolve(image, fifos=fifos))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda i: attrs.evolve(i.memories[1], core=32), "no core 32"),
        (lambda i: attrs.evolve(i.memories[1], kind="XX"), "no memory of kind 'XX'"),
        (lambda i: attrs.evolve(i.memories[1], memory_class=im.MemoryClass.GLOBAL), "a global memory of kind 'LX'"),
        (lambda i: attrs.evolve(i.memories[1], kind="SFP_REG", memory_class=im.MemoryClass.REGISTER, size_bytes=1 << 40), "1099511627776 bytes of registers"),
    ],
    ids=["core", "kind", "class", "size"],
)  # fmt: skip
def test_memories_that_the_device_does_not_have(change: Callable[[im.Image], im.Memory], text: str) -> None:
    image = ex.add_image(1)
    with pytest.raises(UnsupportedError, match=text):
        ex.run(attrs.evolve(image, memories=(image.memories[0], change(image))))


def test_an_access_without_end() -> None:
    """Time steps multiply: more elements than any memory holds are refused, not enumerated."""
    image = ex.add_image(1)
    first = image.generators[0]
    sides = tuple(
        attrs.evolve(side, time_coefficients=tuple((0,) * 4 for _ in range(side.rank)))
        for side in first.sides
    )
    endless = attrs.evolve(first, sides=sides, time_extents=(2**31,) * 4)
    with pytest.raises(UnsupportedError, match="elements in one access"):
        ex.run(attrs.evolve(image, generators=(endless, *image.generators[1:])))


def test_accesses_and_views_of_different_rank() -> None:
    image = ex.add_image(1)
    views = (attrs.evolve(image.views[0], shape=(3,), coefficients=(1,)), image.views[1])
    with pytest.raises(ex.ControlFault, match="access of rank 2 to a view of rank 1"):
        ex.run(attrs.evolve(image, views=views))


def stored_by_both(same: bool, own: bool, there: bool) -> im.Image:
    """Core 1 stores where core 0 does, and then core 0 loads it back (into its scratchpad).

    `same`: both store the same bytes; `own`: core 0 stores before it loads; `there`: the bytes are there
    before the program begins.
    """
    image = ex.add_image(2, vectors=1)
    store = image.programs[0].unit_programs[4]
    cells = list(image.cells)
    cells[store.cell(1, 1)] = cells[store.cell(0, 1)]
    image = attrs.evolve(image, cells=tuple(cells))

    def read_back(code: list[im.Instruction], column: int) -> None:
        load = attrs.evolve(image.generators[0])
        assert load.kind is im.GeneratorKind.DMA
        part_ways = [im.LoadColumn(3, column), im.BranchIfZero(3, 2), im.Dma(1, 0, 0)]
        if own:
            code[-1:] = [*part_ways, im.Halt()]
        else:
            at = ex.where(code, im.Dma)
            code[at:at] = [im.LoadColumn(3, column + 1), im.BranchIfZero(3, 2)]
            code[-1:] = [*part_ways, im.Halt()]
            head, end = ex.where(code, im.For), ex.where(code, im.EndFor)
            code[head] = attrs.evolve(code[head], end=end - head)
            code[end] = im.EndFor(head - end)

    return edited(image, {"MNISU": ([[1, int(own)], [0, 1]], read_back)})


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_a_load_of_what_several_cores_have_stored(
    same: bool, own: bool, there: bool, seed: int | None
) -> None:
    """The same bytes by two cores, read by one of them: no race if the reader finds them in every order."""
    image = stored_by_both(same, own, there)
    a = np.arange(128, dtype=np.float16)
    if same:
        a[64:] = a[:64]
    blocks = {
        ex.BASES["a"]: a.view(np.uint8).copy(),
        ex.BASES["b"]: np.zeros(256, np.uint8),
        ex.BASES["c"]: (a if there else np.full(128, 7, np.float16)).view(np.uint8).copy(),
    }
    options = Options(seed=seed)

    def run() -> None:
        ex.Machine(ex.ARCHITECTURE).run(image, image.cells, ex.FlatGlobal(blocks), options)

    if same and (own or there):
        run()
        found = blocks[ex.BASES["c"]].view(np.float16)[:64]
        np.testing.assert_array_equal(found, a[:64])
    else:
        with pytest.raises(ConflictFault, match="data race on device memory"):
            run()
