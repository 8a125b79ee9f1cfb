"""Tensors that stay in the scratchpad: between the programs of a kernel, and beside operands in device memory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import dfsched
import ktir
from dfsched import image as im
from dfsched.image.listing import listing
from spyresim import run_dataflow, verify
from spyresim.errors import StaleReadFault, UnsupportedError
from spyresim.testing.text import LOCAL, function, load, store, tile, view

SHAPE = (4, 200)
BYTES = 4 * 200 * 2
DEVICES = ("spyre", "sample")


def constant(name: str, value: int) -> str:
    return f"%{name} = arith.constant {value} : index"


def views(grid: int, resident: Sequence[int]) -> list[str]:
    """Blocks of rows of %a, %b and %c, and residents %v0, %v1, ... that start at these elements of a tile's
    scratchpad."""
    whole = (SHAPE[0] * grid, SHAPE[1])
    lines = [
        constant("c0", 0),
        constant("rows", SHAPE[0]),
        "%t = ktdp.get_compute_tile_id : index",
        "%r = arith.muli %t, %rows : index",
    ]
    for name in "abc":
        lines += [view(f"w{name}", name, whole), tile(f"t{name}", f"w{name}", "%r, %c0", whole, SHAPE)]
    for number, start in enumerate(resident):
        lines += [
            constant(f"s{number}", start),
            view(f"v{number}", f"s{number}", SHAPE, space=LOCAL),
            tile(f"u{number}", f"v{number}", "%c0, %c0", SHAPE, SHAPE),
        ]
    return lines


def kernel(lines: Sequence[str], resident: Sequence[int], grid: int = 2, name: str = "kernel") -> str:
    return function("%a: index, %b: index, %c: index", [*views(grid, resident), *lines], [grid], name)


def apply(name: str, *operands: str) -> str:
    type = f"tensor<{SHAPE[0]}x{SHAPE[1]}xf16>"
    op = {1: "arith.negf", 2: "arith.subf"}[len(operands)]
    return f"%{name} = {op} {', '.join('%' + o for o in operands)} : {type}"


def step(name: str, inputs: Sequence[str], output: str) -> list[str]:
    """A compute group: loads `inputs`, stores the negative or the difference to `output`."""
    names = [f"{name}{number}" for number in range(len(inputs))]
    loads = [load(n, i, SHAPE) for n, i in zip(names, inputs, strict=True)]
    return [*loads, apply(name, *names), store(name, output, SHAPE)]


PROGRAMS = {
    "handed on": ([*step("x", ["ta", "tb"], "u0"), *step("y", ["u0"], "tc")], [128]),
    "two residents": (
        [*step("x", ["ta"], "u0"), *step("y", ["tb"], "u1"), *step("z", ["u0", "u1"], "tc")],
        [0, 4096],
    ),
    "scratchpad only": (
        [*step("x", ["ta", "tb"], "u0"), *step("y", ["u0"], "u1"), *step("z", ["u1"], "tc")],
        [64, 1024],
    ),
    "mixed": ([*step("x", ["ta"], "u0"), *step("y", ["u0", "tb"], "tc")], [192]),
    "changed in place": (
        [*step("x", ["ta", "tb"], "u0"), *step("y", ["u0", "tb"], "u0"), *step("z", ["u0"], "tc")],
        [512],
    ),
    "read twice": (
        [*step("x", ["ta"], "u0"), *step("y", ["u0", "u0"], "tb"), *step("z", ["u0"], "tc")],
        [128],
    ),
}


@pytest.mark.parametrize(("name", "device"), list(zip(PROGRAMS, 3 * DEVICES, strict=True)))
def test_residents_between_programs(name: str, device: str) -> None:
    """Every level agrees (readings, item 8): what a program keeps in a pinned range, the next one reads."""
    lines, resident = PROGRAMS[name]
    (found,) = verify(ktir.parse(kernel(lines, resident)), device)
    assert found.first is None
    assert {outcome.level for outcome in found.outcomes} == {"ktir", "schedule", "dataflow", "device"}


def test_buffers_stay_out_of_pinned_ranges() -> None:
    """The image tells the ranges; no view of a program's own starts in them."""
    lines, resident = PROGRAMS["two residents"]
    text = (
        "module attributes {ktdp.scratchpad_keepout = [[16384, 20480]]} {\n" + kernel(lines, resident) + "}"
    )
    made = dfsched.compile(ktir.parse(text), "spyre")
    image = made.generated.built.image
    wanted = [(0, BYTES), (8192, 8192 + BYTES), (16384, 20480)]
    assert [(pinned.low, pinned.high) for pinned in image.pinned] == wanted
    assert {pinned.kind for pinned in image.pinned} == {"LX"}
    assert im.decode(im.encode(image)).pinned == image.pinned
    assert re.search("pinned: bytes 16384 to 20480 of every LX", listing(image))
    for program in made.report.programs:
        for pipeline in program.pipelines:
            for buffer in pipeline.buffers:
                if buffer.memory == "LX":
                    ends = buffer.address, buffer.address + buffer.size
                    assert all(ends[1] <= low or ends[0] >= high for low, high in wanted), buffer


def test_other_kernels_of_the_module_keep_their_ranges() -> None:
    """Pinned are the ranges of all kernels of a module, not only of the one that is compiled."""
    lines, _ = PROGRAMS["handed on"]
    other = kernel(lines, [0], name="other")
    text = kernel(step("x", ["ta", "tb"], "tc"), []) + other
    made = dfsched.compile(ktir.parse(text), "spyre", dfsched.Options(kernel="kernel"))
    image = made.generated.built.image
    assert [(pinned.low, pinned.high) for pinned in image.pinned] == [(0, BYTES)]
    addresses = [
        b.address for p in made.report.programs for q in p.pipelines for b in q.buffers if b.memory == "LX"
    ]
    assert addresses
    assert min(addresses) >= BYTES


def test_a_temporary_of_another_program_is_still_a_fault(tmp_path: Path) -> None:
    """Without its pinned range, the same resident is what an earlier program left behind."""
    lines, resident = PROGRAMS["handed on"]
    made = dfsched.compile(ktir.parse(kernel(lines, resident)), "spyre")
    made.write(tmp_path)
    rng = np.random.default_rng(1)
    arguments = {name: rng.normal(size=(8, 200)).astype(np.float16) for name in "ab"}
    run_dataflow(tmp_path, arguments)
    files = {path: path.read_text() for path in tmp_path.glob("*.mlir")}
    pin = "dataflow.pinned = {LX = [[256, 1856]]}"
    assert sum(pin in text for text in files.values()) == 4  # the schedule, the kernel, and each program

    def change(to: str) -> None:
        for path, text in files.items():
            path.write_text(text.replace(pin, to))

    change("dataflow.pinned = {LX = [[256, 1854]]}")
    with pytest.raises(StaleReadFault, match="read of LX of core 0 at 0x73e"):
        run_dataflow(tmp_path, arguments)
    change("dataflow.pinned = 1")
    with pytest.raises(UnsupportedError, match="must be a dictionary of ranges by memory kind"):
        run_dataflow(tmp_path, arguments)
