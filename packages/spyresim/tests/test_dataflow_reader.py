"""DataflowIR executed by the engine: the double-buffered maximum of two tensors on two cores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ktir
from dfsched import image as im
from dfsched import load_architecture
from dfsched.codegen import BuiltImage, build_image
from dfsched.split import split
from ktir.transforms import alpha_equivalent
from spyrert.spyrecode import ArgSpec, LaunchSpec, LinearLayout, Role
from spyresim.dataflow import DataflowFiles, kernel_image
from spyresim.engine import FlatGlobal, Machine, Options
from spyresim.errors import ControlFault, SpyresimError, UnsupportedError

TEXT = (Path(__file__).parent / "data" / "double_buffered_max.mlir").read_text()
ARCHITECTURE = load_architecture("sample")
P, Q, R = 4096, 8192, 12288


def run(
    text: str = TEXT, seed: int | None = None, addresses: tuple[int, int, int] = (P, Q, R)
) -> tuple[np.ndarray, np.ndarray]:
    module = ktir.parse(text)
    ktir.verify(module)
    image = kernel_image(DataflowFiles.of({"global.mlir": module}), ARCHITECTURE, addresses)
    rng = np.random.default_rng(1)
    p, q = (rng.standard_normal((16, 64)).astype(np.float16) for _ in range(2))
    memory = np.zeros(1 << 15, np.uint8)
    for array, address in ((p, addresses[0]), (q, addresses[1])):
        memory[address : address + 2048] = array.view(np.uint8).ravel()
    Machine(ARCHITECTURE).run(image, image.cells, FlatGlobal({0: memory}), Options(seed=seed))
    r = addresses[2]
    return memory[r : r + 2048].view(np.float16).reshape(16, 64), np.maximum(p, q)


def test_the_example_prints_as_it_reads() -> None:
    """dataflowir checklist T1: a whole module, symbols, units and loops."""
    module = ktir.parse(TEXT)
    ktir.verify(module)
    for generic in (False, True):
        again = ktir.parse(ktir.print_module(module, generic=generic))
        ktir.verify(again)
        assert alpha_equivalent(again, module)


def built_image() -> BuiltImage:
    """What code generation makes of the example."""
    roles = {"p": Role.INPUT, "q": Role.INPUT, "r": Role.OUTPUT}
    launch = LaunchSpec(
        "upper_env",
        args=tuple(
            ArgSpec(role, (16, 64), "float16", LinearLayout("float16"), name, position)
            for position, (name, role) in enumerate(roles.items())
        ),
    )
    return build_image(split(ktir.parse(TEXT)), launch, ARCHITECTURE)


def test_figures_of_the_image() -> None:
    """dataflowir checklist B3: slots, relocations, tables."""
    image = built_image().image
    assert [symbol.id for symbol in image.symbols] == [-4, -5, -6, -7, -8, -9]
    assert len(image.relocations) == 6
    assert len({relocation.cell for relocation in image.relocations}) == 6
    assert {image.symbols[relocation.slot].id for relocation in image.relocations} == set(range(-9, -3))
    assert len(image.units) == 10
    assert len(image.unit_programs) == 5
    assert {memory.name: memory.used_bytes for memory in image.memories} == {
        "ddr": 0,
        "C0-l1": 1536,
        "C1-l1": 1536,
    }


def test_text_and_image_do_the_same() -> None:
    """dataflowir checklist B2: equal memory, equal items through every queue, at equal times."""
    image = im.decode(im.encode(built_image().image))
    values = [64, 80, 128, 144, 192, 208]  # symbols -4 to -9 in words
    text = kernel_image(DataflowFiles.of({"global.mlir": ktir.parse(TEXT)}), ARCHITECTURE, (P, Q, R))
    seen = []
    for program, cells in ((text, text.cells), (image, im.patch(image, values))):
        memory = np.random.default_rng(1).standard_normal(1 << 14).astype(np.float16).view(np.uint8)
        outcome = Machine(ARCHITECTURE).run(program, cells, FlatGlobal({0: memory}), Options(trace=True))
        assert outcome.trace is not None
        names = [unit.name for unit in program.units]
        traffic = sorted(
            (names[source], names[target], int(sent), int(received))
            for flow in outcome.trace.flows
            for source, target, sent, received in zip(
                flow.sources, flow.targets, np.ravel(flow.sent), np.ravel(flow.received), strict=True
            )
        )
        seen.append((memory.tobytes(), outcome.report.cycles, traffic))
    assert seen[0][2]
    assert seen[0] == seen[1]


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_result_for_any_order_of_ready_units(seed: int | None) -> None:
    """One launch of the worked example: symbols -4 to -9 in words of 64 bytes (dataflowir spec 4.4, 5.4)."""
    found, expected = run(seed=seed)
    np.testing.assert_array_equal(found, expected)


def test_other_addresses() -> None:
    found, expected = run(addresses=(16384, 0, 8192))
    np.testing.assert_array_equal(found, expected)


def test_split_files_are_the_same_kernel(tmp_path: Path) -> None:
    """Functions are found wherever they stand: one module or several files."""
    (tmp_path / "global.mlir").write_text(TEXT)
    files = DataflowFiles.load(tmp_path)
    assert files.kernel.symbol == "upper_env"
    assert set(files.functions) == {"upper_env", "local_schedule_0", "local_schedule_0_body"}


@pytest.mark.parametrize(
    ("old", "new", "fault", "message"),
    [
        ("symbol.create_id %0 {symbol_id = -4 : si64} : index", "", ControlFault, "unbound symbol -4"),
        ("[%u3 -> %l1c1]", "[%u2 -> %l1c1]", ControlFault, "no entry for key in query_map"),
        ("layout_map = #lin} : index, index, memref<16x64xf16>", "layout_map = affine_map<(a, b) -> (a * 64 + b mod 64)>} : index, index, memref<16x64xf16>", UnsupportedError, "layout map that is not linear"),
    ],
    ids=["no symbol", "no entry", "layout"],
)  # fmt: skip
def test_wrong_programs(old: str, new: str, fault: type[Exception], message: str) -> None:
    """What the text gets wrong is a fault that names it."""
    assert old in TEXT
    with pytest.raises(fault, match=message):
        run(TEXT.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("binary_operator max", "binary_operator min"),
        ("[%t * 2, 0]", "[%t, 0]"),
        ("%c1280 = arith.constant 1280", "%c1280 = arith.constant 1408"),
    ],
    ids=["operator", "subscript", "buffer"],
)
def test_mutants_change_the_result_or_fail(old: str, new: str) -> None:
    assert old in TEXT
    try:
        found, expected = run(TEXT.replace(old, new))
    except SpyresimError:
        return
    assert (found != expected).any()
