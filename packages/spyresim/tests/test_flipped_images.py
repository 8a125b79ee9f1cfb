"""A changed image gives another result, or raises: the simulator executes what the bytes say (issue 2, point 4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

import dfsched
import ktir
from dfsched import image as im
from dfsched.image import instructions as ins
from spyrert import SpyreCode
from spyrert.errors import SpyreError
from spyrert.spyrecode.image import Image
from spyresim import SpyresimError, run_dataflow, run_device, run_schedule
from spyresim.testing import text as k
from spyresim.watch import Watch

RNG = np.random.default_rng(31)
A, B = RNG.normal(size=(100, 256)).astype(np.float16), RNG.normal(size=(96, 256)).astype(np.float16)
ARGUMENTS = {"a": A, "b": B, "shift": 2}
Flip = Callable[[im.Image], im.Image]


@pytest.fixture(scope="module")
def compiled() -> dfsched.Compiled:
    """One vector at a time through single buffers: the plainest schedule."""
    options = dfsched.Options(pins={"tile_sizes": 1, "buffer_depths": 1})
    return dfsched.compile(ktir.parse(k.shifted_add()), "sample", options)


def with_image(code: SpyreCode, flip: Flip) -> SpyreCode:
    """The artefact with a changed image."""
    (file,) = code.files
    container = Image.decode(file.data)
    changed = flip(im.decode(container.payload))
    data = attrs.evolve(container, payload=im.encode(changed)).encode()
    return attrs.evolve(code, files=(attrs.evolve(file, data=data),))


def run(compiled: dfsched.Compiled, flip: Flip) -> Any:
    code = with_image(compiled.spyrecode, flip)
    return run_device(code, ARGUMENTS, device=compiled.architecture).outputs["c"]


def replaced(
    image: im.Image, unit: str, old: type[Any], change: Callable[[Any], Any], nth: int = 0
) -> im.Image:
    """The n-th instruction of a class in the program of a unit kind, changed."""
    (program,) = image.programs
    parts = list(program.unit_programs)
    where = next(i for i, part in enumerate(parts) if part.label.endswith(f"/{unit}"))
    code = list(parts[where].code)
    at = [i for i, instruction in enumerate(code) if isinstance(instruction, old)][nth]
    code[at] = change(code[at])
    assert code[at] != parts[where].code[at]
    parts[where] = attrs.evolve(parts[where], code=tuple(code))
    return attrs.evolve(image, programs=(attrs.evolve(program, unit_programs=tuple(parts)),))


def stride(number: int, side: int) -> Flip:
    """The last register's coefficient of a generator, halved."""

    def flip(image: im.Image) -> im.Image:
        generators = list(image.generators)
        sides = list(generators[number].sides)
        rows = [list(row) for row in sides[side].coefficients]
        assert rows[-1][-1] == 64
        rows[-1][-1] = 32
        sides[side] = attrs.evolve(sides[side], coefficients=tuple(map(tuple, rows)))
        generators[number] = attrs.evolve(generators[number], sides=tuple(sides))
        return attrs.evolve(image, generators=tuple(generators))

    return flip


def exchanged(first: int, second: int) -> Flip:
    """Two corrections go to each other's cell. (The cells name their symbol, so the image stays valid.)"""

    def flip(image: im.Image) -> im.Image:
        relocations, cells = list(image.relocations), list(image.cells)
        a, b = relocations[first], relocations[second]
        relocations[first], relocations[second] = attrs.evolve(a, slot=b.slot), attrs.evolve(b, slot=a.slot)
        cells[a.cell], cells[b.cell] = cells[b.cell], cells[a.cell]
        return attrs.evolve(image, relocations=tuple(relocations), cells=tuple(cells))

    return flip


FLIPS: dict[str, Flip] = {
    "add becomes subtract": lambda i: replaced(
        i, "sfu", ins.VectorBinary, lambda x: attrs.evolve(x, op=ins.BinaryOperator.SUB)
    ),
    "add of one operand to itself": lambda i: replaced(
        i, "sfu", ins.VectorBinary, lambda x: attrs.evolve(x, b=x.a)
    ),
    "one row less": lambda i: replaced(
        i, "mnilu", ins.LoadImmediate, lambda x: attrs.evolve(x, value=x.value - 1), 1
    ),
    "the other buffer": lambda i: replaced(
        i, "l1lu", ins.VectorLoad, lambda x: attrs.evolve(x, view=1 - x.view)
    ),
    "no shift": lambda i: replaced(
        i, "mnilu", ins.ScalarBinary, lambda x: attrs.evolve(x, op=ins.ScalarOp.SUB)
    ),
    "stride of the first input": stride(0, 0),
    "stride of the second input": stride(1, 0),
    "stride of the output": stride(4, 1),
    "corrections of the shift and an address": exchanged(0, 1),
    "corrections of both inputs": exchanged(1, 2),
    "corrections of two cores": exchanged(2, 5),
}


def test_an_image_that_is_only_decoded_and_encoded_is_the_same(compiled: dfsched.Compiled) -> None:
    assert np.array_equal(run(compiled, lambda image: image), A[2:98] + B)
    assert with_image(compiled.spyrecode, lambda image: image).digest == compiled.spyrecode.digest


@pytest.mark.parametrize("name", sorted(FLIPS))
def test_flips_show(name: str, compiled: dfsched.Compiled) -> None:
    try:
        got = run(compiled, FLIPS[name])
    except (SpyresimError, SpyreError):
        return
    assert not np.array_equal(got, A[2:98] + B)


@pytest.mark.parametrize("index", [(0, 0), (50, 200), (95, 255)])
def test_who_wrote_an_element(compiled: dfsched.Compiled, index: tuple[int, int]) -> None:
    """Level dataflow, ScheduleIR and an image tell who wrote an element of an output last: 3 rows a core."""
    watches = [Watch("c", index) for _ in range(4)]
    run_schedule(compiled, ARGUMENTS, watch=watches[0])
    run_dataflow(compiled, ARGUMENTS, watch=watches[1])
    run_device(compiled, ARGUMENTS, watch=watches[2])
    flipped = with_image(compiled.spyrecode, FLIPS["add becomes subtract"])
    run_device(flipped, ARGUMENTS, device=compiled.architecture, watch=watches[3])
    core = index[0] // 3
    for watch in watches:
        assert watch.writer is not None
        assert watch.writer.tile == core
    assert watches[0].writer is not None
    assert watches[0].writer.operation == "ktdf.data_transfer"
    for watch, operation in zip(watches[1:], ("agen.composite_load_and_store", "dma", "dma"), strict=True):
        assert watch.writer is not None
        assert watch.writer.operation == operation
        assert watch.writer.unit is not None
        assert watch.writer.unit.startswith(f"C{core}-mnisu")
