"""An image in which one thing is wrong gives another result or a fault: nothing in it is decoration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np
import pytest

import dfsched
import ktir
import spyrert
from dfsched import image as im
from spyrert.device import ControlBlock, DmaCB
from spyrert.errors import SpyreError
from spyrert.spyrecode import Correction, PayloadKind, Role, assemble
from spyresim import SimDevice
from spyresim.testing.random_kernels import Operand, RandomKernel, Step

# Two tiles with two rows of three ragged sticks, one row at a time; a scalar shifts the rows.
KERNEL = RandomKernel(
    dtype="f16",
    block=(2, 130),
    grid=(2,),
    operands=(Operand((True, True)), Operand((False, True))),
    steps=(Step("mul", 0, 1), Step("sub", 2, 1)),
    loop=True,
    shift=True,
    fused=True,
)
ARCHITECTURE = dfsched.load_architecture("spyre")


class Tampering(SimDevice):
    """A device on whose way in one entry of the correction tensor changes."""

    entry: int | None = None

    def submit(self, block: ControlBlock) -> int:
        if self.entry is not None and isinstance(block, DmaCB) and block.host is not None:
            data = bytes(block.host)
            if data[:8] == b"SPYCORR1":
                tensor = Correction.decode(data)
                entries = list(tensor.entries)
                old = entries[self.entry]
                entries[self.entry] = attrs.evolve(old, value=old.value + 1)
                changed = attrs.evolve(tensor, entries=tuple(entries)).encode(len(data))
                block = attrs.evolve(block, host=memoryview(changed))
        return super().submit(block)


def launch(code: spyrert.SpyreCode, entry: int | None = None) -> np.ndarray[Any, Any]:
    """The output of one launch; all numbers are such that every mistake shows."""
    rng = np.random.default_rng(5)
    device = Tampering(0, ARCHITECTURE)
    device.entry = entry
    with spyrert.Runtime(device_factory=lambda index: device) as runtime:
        plan = runtime.prepare_kernel(code)
        tensors = []
        for arg in plan.args:
            shape = tuple(int(extent) for extent in arg.shape)
            tensors.append(runtime.to_device(rng.uniform(1, 2, shape).astype(arg.dtype), arg.layout))
        runtime.launch(plan, tensors, bindings={"shift": 1})
        (out,) = (k for k, arg in enumerate(plan.args) if arg.role is Role.OUTPUT)
        return runtime.to_host(tensors[out])


@pytest.fixture(scope="module")
def compiled() -> dfsched.Compiled:
    return dfsched.compile(ktir.parse(KERNEL.text), ARCHITECTURE)


@pytest.fixture(scope="module")
def good(compiled: dfsched.Compiled) -> np.ndarray[Any, Any]:
    result = launch(compiled.spyrecode)
    rng = np.random.default_rng(5)
    spec = compiled.spyrecode.launch
    assert spec is not None
    given: dict[str, Any] = {"shift": 1}
    for arg in spec.args:
        given[arg.name] = rng.uniform(1, 2, [int(extent) for extent in arg.shape]).astype(arg.dtype)
    np.testing.assert_array_equal(result, KERNEL.expected(given))
    return result


def image_of(compiled: dfsched.Compiled) -> im.Image:
    return compiled.generated.built.image


def with_image(compiled: dfsched.Compiled, image: im.Image) -> spyrert.SpyreCode:
    """The artefact with another image in it."""
    spec = compiled.spyrecode.launch
    assert spec is not None
    symbols = compiled.generated.built.symbols
    return assemble(im.encode(image), PayloadKind.DFBIN, spec, symbols, core_count=image.grid)


def is_noticed(compiled: dfsched.Compiled, image: im.Image, good: np.ndarray[Any, Any]) -> bool:
    try:
        code = with_image(compiled, image)
        return not np.array_equal(launch(code), good)
    except (im.InvalidImage, SpyreError):
        return True


def test_the_same_image_gives_the_same_result(compiled: dfsched.Compiled, good: np.ndarray[Any, Any]) -> None:
    image = image_of(compiled)
    assert im.decode(im.encode(image)) == image
    assert not is_noticed(compiled, image, good)


def with_instruction(image: im.Image, number: int, index: int, new: im.Instruction) -> im.Image:
    """Another instruction at `index` of unit program `number` (in order over all programs)."""
    parts = list(image.unit_programs)
    code = list(parts[number].code)
    code[index] = new
    parts[number] = attrs.evolve(parts[number], code=tuple(code))
    programs = []
    for program in image.programs:
        count = len(program.unit_programs)
        programs.append(attrs.evolve(program, unit_programs=tuple(parts[:count])))
        parts = parts[count:]
    return attrs.evolve(image, programs=tuple(programs))


def other_instructions(image: im.Image) -> Iterator[tuple[str, im.Image]]:
    for number, part in enumerate(image.unit_programs):
        for index, old in enumerate(part.code):
            new: im.Instruction | None = None
            match old:
                case im.VectorBinary():
                    new = attrs.evolve(old, op=im.BinaryOperator.ADD)
                case im.Dma() | im.Send() | im.VectorLoad() | im.VectorStore() | im.SyncSend():
                    new = im.Move(0, 0)
                case im.Receive():
                    new = attrs.evolve(old, lanes=old.lanes // 2)
                case im.SyncReceive():
                    new = im.SyncReceive(old.unit + 1) if old.unit + 1 < part.columns else None
            if new is not None:
                yield (
                    f"{part.label}[{index}] {type(old).__name__}",
                    with_instruction(image, number, index, new),
                )


def test_one_instruction(compiled: dfsched.Compiled, good: np.ndarray[Any, Any]) -> None:
    changed = list(other_instructions(image_of(compiled)))
    kinds = {name.split()[-1] for name, _ in changed}
    assert {"VectorBinary", "Dma", "Send", "Receive", "VectorLoad", "VectorStore", "SyncSend"} <= kinds
    unnoticed = [name for name, image in changed if not is_noticed(compiled, image, good)]
    assert not unnoticed


def other_strides(image: im.Image) -> Iterator[tuple[str, im.Image]]:
    """One more in each coefficient that an access uses: of generators, and of the views in device memory."""
    for number, generator in enumerate(image.generators):
        for which, side in enumerate(generator.sides):
            for name in ("coefficients", "time_coefficients"):
                rows = getattr(side, name)
                for i, row in enumerate(rows):
                    for j, value in enumerate(row):
                        if not value:
                            continue
                        new_row = (*row[:j], value + 1, *row[j + 1 :])
                        new_side = attrs.evolve(side, **{name: (*rows[:i], new_row, *rows[i + 1 :])})
                        sides = (*generator.sides[:which], new_side, *generator.sides[which + 1 :])
                        new = attrs.evolve(generator, sides=sides)
                        generators = (*image.generators[:number], new, *image.generators[number + 1 :])
                        label = f"generator {number} side {which} {name}[{i}][{j}]"
                        yield label, attrs.evolve(image, generators=generators)
    for number, view in enumerate(image.views):
        for i, value in enumerate(view.coefficients):
            if view.shape[i] == 1 or not view.symbolic:
                continue  # who writes and who reads a buffer in a scratchpad use one view of it
            row = (*view.coefficients[:i], value + 1, *view.coefficients[i + 1 :])
            views = (*image.views[:number], attrs.evolve(view, coefficients=row), *image.views[number + 1 :])
            yield f"view {number} {view.shape} coefficient {i}", attrs.evolve(image, views=views)


def test_one_stride(compiled: dfsched.Compiled, good: np.ndarray[Any, Any]) -> None:
    changed = list(other_strides(image_of(compiled)))
    assert {name.split()[0] for name, _ in changed} == {"generator", "view"}
    unnoticed = [name for name, image in changed if not is_noticed(compiled, image, good)]
    assert not unnoticed


def test_one_correction_entry(compiled: dfsched.Compiled, good: np.ndarray[Any, Any]) -> None:
    """On the way to the device the value of one entry changes by one word."""
    symbols = image_of(compiled).symbols
    assert symbols
    for entry in range(len(symbols)):
        try:
            result = launch(compiled.spyrecode, entry)
        except SpyreError:
            continue
        assert not np.array_equal(result, good), symbols[entry]


def test_one_relocation(compiled: dfsched.Compiled, good: np.ndarray[Any, Any]) -> None:
    """A cell that receives the value of another symbol, or none at all."""
    image = image_of(compiled)
    count = len(image.symbols)
    assert count > 1
    for number, old in enumerate(image.relocations):
        other = attrs.evolve(old, slot=(old.slot + 1) % count)
        rest = (image.relocations[:number], image.relocations[number + 1 :])
        for new in ((*rest[0], other, *rest[1]), (*rest[0], *rest[1])):
            assert is_noticed(compiled, attrs.evolve(image, relocations=new), good), old
