"""What DataflowIR does: order, queues, signals, addresses, lanes; the worked example and small programs."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

import dfsched
import ktir
from dfsched import image as im
from ktir.builder import Kernel
from spyresim import run_dataflow
from spyresim.dataflow import ConstantStarts, DataflowFiles, kernel_image
from spyresim.engine import FlatGlobal, Machine, Options, Outcome
from spyresim.engine.instructions import HANDLERS
from spyresim.errors import (
    ConflictFault,
    DeadlockFault,
    MisalignedFault,
    OutOfRangeFault,
    QueueFault,
    UnwrittenReadFault,
)

EXAMPLE = (Path(__file__).parent / "data" / "double_buffered_max.mlir").read_text()
DEVICE = files("dfsched").joinpath("devices/sample.mlir").read_text(encoding="utf-8")
SAMPLE = dfsched.load_architecture("sample")
ADDRESSES = (4096, 8192, 12288)


TIMED = Options()
USUAL = ConstantStarts()


def device(tmp_path: Path, depth: int) -> dfsched.Architecture:
    """`sample` with queues of one depth."""
    text, count = re.subn(r"depth = \d+", f"depth = {depth}", DEVICE)
    assert count
    path = tmp_path / f"depth{depth}.mlir"
    path.write_text(text)
    return dfsched.load_architecture(path)


def execute(
    text: str,
    memory: np.ndarray,
    arguments: tuple[int, ...] = ADDRESSES,
    *,
    on: dfsched.Architecture = SAMPLE,
    options: Options = TIMED,
    starts: ConstantStarts = USUAL,
) -> Outcome:
    """Run a kernel on bytes of device memory."""
    module = ktir.parse(text)
    ktir.verify(module)
    image = kernel_image(DataflowFiles.of({"global.mlir": module}), on, arguments, starts)
    return Machine(on).run(image, image.cells, FlatGlobal({0: memory}), options)


def maximum(
    text: str = EXAMPLE,
    addresses: tuple[int, int, int] = ADDRESSES,
    *,
    on: dfsched.Architecture = SAMPLE,
    options: Options = TIMED,
    starts: ConstantStarts = USUAL,
) -> tuple[np.ndarray, np.ndarray, Outcome]:
    """The example on two random tensors: what it stored, what it should have, the outcome."""
    rng = np.random.default_rng(1)
    p, q = (rng.standard_normal((16, 64)).astype(np.float16) for _ in range(2))
    memory = np.zeros(1 << 15, np.uint8)
    for array, address in ((p, addresses[0]), (q, addresses[1])):
        memory[address : address + 2048] = array.view(np.uint8).ravel()
    outcome = execute(text, memory, addresses, on=on, options=options, starts=starts)
    r = addresses[2]
    return memory[r : r + 2048].view(np.float16).reshape(16, 64), np.maximum(p, q), outcome


# -- the worked example ------------------------------------------------------------------------------


@pytest.mark.sweep(default=24, full=300)
def test_any_order_and_any_depth(tmp_path: Path, cases: int) -> None:
    """dataflowir checklist X1, X15: exact for depths 1, 2 and 16, timed and in random orders, nothing left over."""
    for depth in (1, 2, 16):
        on = device(tmp_path, depth)
        timed, expected, _ = maximum(on=on)
        np.testing.assert_array_equal(timed, expected)
        for seed in range(cases // 3):
            found, _, _ = maximum(on=on, options=Options(seed=seed))
            np.testing.assert_array_equal(found, expected)


def races(text: str) -> list[ConflictFault]:
    """The races that some orders of the units show; all orders give a fault."""
    found = []
    for seed in range(12):
        with pytest.raises((ConflictFault, UnwrittenReadFault)) as caught:
            maximum(text, options=Options(seed=seed))
        assert caught.value.memory.startswith("L1")
        if isinstance(caught.value, ConflictFault):
            found.append(caught.value)
    return found


def test_without_signals_there_is_a_race() -> None:
    """dataflowir checklist X2: whoever comes first, it is a fault; a race where the data happens to be there."""
    silent = re.sub(r"\n *dataflow.sync_(send|recv) .*", "", EXAMPLE)
    assert silent.count("\n") == EXAMPLE.count("\n") - 8
    assert races(silent)


def test_one_buffer_instead_of_two_is_a_race() -> None:
    """dataflowir checklist X3: both copies at one address; the loader overwrites what is still read."""
    single = EXAMPLE.replace("%c256 = arith.constant 256", "%c256 = arith.constant 0")
    with pytest.raises(ConflictFault, match="mnilu") as caught:
        maximum(single)
    assert caught.value.memory.startswith("L1")


def test_signals_wait_for_copies() -> None:
    """dataflowir checklist X8: a signal that does not wait for the copies in front of it lets others read too
    early."""
    loader = EXAMPLE.index("dataflow.program_unit")
    second = EXAMPLE.index("dataflow.program_unit", loader + 1)
    hasty = EXAMPLE[loader:second].replace("async_transfers = true", "async_transfers = false")
    maximum(EXAMPLE)
    assert races(EXAMPLE[:loader] + hasty + EXAMPLE[second:])


def test_addresses_of_symbols() -> None:
    """dataflowir checklist X10: whole words, inside of the memory."""
    with pytest.raises(MisalignedFault, match="address of symbol -4 is not a multiple of 64") as caught:
        maximum(addresses=(4096 + 2, 8192, 12288))
    assert (caught.value.address, caught.value.alignment) == (4098, 64)
    memory = np.zeros(1 << 13, np.uint8)
    with pytest.raises(OutOfRangeFault):
        execute(EXAMPLE, memory)


def test_cycles_do_not_depend_on_hashes() -> None:
    """dataflowir checklist X18: two interpreters with different hash seeds count the same."""
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from test_dataflow_execution import maximum\n"
        "print(maximum()[2].report.cycles)"
    )
    other = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    found = subprocess.run(
        [sys.executable, "-c", script, str(Path(__file__).parent)],
        env={**os.environ, "PYTHONHASHSEED": other},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert found == f"{maximum()[2].report.cycles}\n"


def test_a_kernel_launches_in_order() -> None:
    """dataflowir checklist X17: three launches from a loop, each working on what the one before it has left."""
    text = EXAMPLE.replace("binary_operator max", "binary_operator add").replace(
        "      call @local_schedule_0(%p, %q, %r) : (index, index, index) -> ()\n      return\n    }\n    func.func private",
        """      %z = arith.constant 0 : index
      %one = arith.constant 1 : index
      %three = arith.constant 3 : index
      scf.for %n = %z to %three step %one {
        func.call @local_schedule_0(%p, %q, %r) : (index, index, index) -> ()
      }
      return
    }
    func.func private""",
    )
    assert "scf.for %n" in text
    memory = np.zeros(1 << 15, np.uint8)
    rng = np.random.default_rng(3)
    p, q = (rng.standard_normal((16, 64)).astype(np.float16) for _ in range(2))
    memory[4096:6144], memory[8192:10240] = p.view(np.uint8).ravel(), q.view(np.uint8).ravel()
    outcome = execute(text, memory, (4096, 8192, 4096))
    np.testing.assert_array_equal(memory[4096:6144].view(np.float16).reshape(16, 64), ((p + q) + q) + q)
    once = np.zeros(1 << 15, np.uint8)
    assert outcome.report.cycles > 2 * execute(EXAMPLE, once).report.cycles


# -- small programs ----------------------------------------------------------------------------------

UNITS = """
    %a = dataflow.get_unit {core = 0 : i32, corelet = 0 : i32, name = "C0-l1lu", type = "l1lu"} : index
    %b = dataflow.get_unit {core = 0 : i32, corelet = 0 : i32, name = "C0-sfu", type = "sfu"} : index
    %c = dataflow.get_unit {core = 0 : i32, corelet = 0 : i32, name = "C0-l1su", type = "l1su"} : index
    %l1 = dataflow.get_unit {core = 0 : i32, name = "C0-l1", type = "l1"} : index
    %ddr = dataflow.get_unit {name = "ddr", type = "ddr"} : index
    %x = arith.constant dense<1.0> : vector<64xf16>
"""


def kernel(constants: str = "", **bodies: str) -> str:
    """A program without arguments; the bodies of the units a (l1lu), b (sfu), c (l1su)."""
    units = "\n".join(
        f"    dataflow.program_unit iter_arg : %me -> (%{name}) : {{\n{body}\n    }}"
        for name, body in bodies.items()
    )
    return f"func.func @k() attributes {{grid = [1 : index]}} {{{UNITS}{constants}\n{units}\n    return\n}}"


def play(text: str, **options: object) -> Outcome:
    return execute(text, np.zeros(4096, np.uint8), (), **options)  # type: ignore[arg-type]


SEND = "      dataflow.send %b, %x : vector<64xf16>\n"
TAKE = "      %{} = dataflow.receive %a : vector<64xf16>\n"


def takes(count: int) -> str:
    return "".join(TAKE.format(f"t{n}") for n in range(count))


def test_what_nobody_takes_and_what_nobody_sends() -> None:
    """dataflowir checklist X4."""
    with pytest.raises(QueueFault, match=r"residual data in FIFO C0-l1lu->C0-sfu \(1 items\)"):
        play(kernel(a=2 * SEND, b=takes(1)))
    with pytest.raises(DeadlockFault) as caught:
        play(kernel(a=SEND, b=takes(2)))
    assert "C0-sfu" in str(caught.value)
    assert "C0-l1lu" in str(caught.value)


def test_two_that_wait_for_each_other() -> None:
    """dataflowir checklist X5: the report is the cycle of waits."""
    text = kernel(
        a="      dataflow.sync_recv %b : index\n" + SEND,
        b=takes(1) + "      dataflow.sync_send %a : index",
    )
    with pytest.raises(DeadlockFault) as caught:
        play(text)
    message = str(caught.value)
    assert "deadlock at cycle" in message
    assert "C0-sfu -> C0-l1lu -> C0-sfu" in message or "C0-l1lu -> C0-sfu -> C0-l1lu" in message


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_a_full_queue(tmp_path: Path, depth: int) -> None:
    """dataflowir checklist X6: as many sends as the queue is deep pass without a receive, one more does not."""

    def first_all_sends(count: int) -> str:
        signal = "      dataflow.sync_send %b : index\n"
        return kernel(a=count * SEND + signal, b="      dataflow.sync_recv %a : index\n" + takes(count))

    on = device(tmp_path, depth)
    play(first_all_sends(depth), on=on)
    with pytest.raises(DeadlockFault):
        play(first_all_sends(depth + 1), on=on)
    play(kernel(a=(depth + 1) * SEND, b=takes(depth + 1)), on=on)


def test_signals_count() -> None:
    """dataflowir checklist X7: two posts, two waits; one more post is left over."""
    post, wait = "      dataflow.sync_send %b : index\n", "      dataflow.sync_recv %a : index\n"
    play(kernel(a=2 * post + SEND, b=takes(1) + 2 * wait))
    with pytest.raises(QueueFault, match=r"unmatched signal C0-l1lu->C0-sfu \(1\)"):
        play(kernel(a=3 * post, b=2 * wait))


# -- addresses ---------------------------------------------------------------------------------------

VIEWS = """
    %c128 = arith.constant 128 : index
    %c64 = arith.constant 64 : index
"""
LINE = "load_order = affine_map<(d0) -> (d0)>, load_set = affine_set<(d0) : (d0 >= 0, -d0 + 63 >= 0)>"
COPY = f"""
      %from = dataflow.get_logical_memory_view %ddr, %c128 {{layout_map = affine_map<(d0) -> (d0)>}} : index, index, memref<64xf16>
      %to = dataflow.get_logical_memory_view %l1, %c64 {{layout_map = affine_map<(d0) -> (d0)>}} : index, index, memref<64xf16>
      agen.composite_load_and_store src:%from[0] dst:%to[0]
       time_symbols(), load_iv(%v:vector<64xf16>)
       {{{LINE}, load_time_addr_map = affine_map<(d0) -> (0)>, {LINE.replace("load", "store")}, store_time_addr_map = affine_map<(d0) -> (0)>, time_order = affine_map<(d0) -> (d0)>, time_set = affine_set<(d0) : (d0 == 0)>}}
      {{
        agen.yield
      }} : memref<64xf16>, memref<64xf16>
"""


@pytest.mark.parametrize(
    ("starts", "source", "target"),
    [
        (ConstantStarts(), 256, 64),
        (ConstantStarts(device_elements=False), 128, 64),
        (ConstantStarts(local_elements=True), 256, 128),
    ],
    ids=["default", "device in bytes", "scratchpad in elements"],
)
def test_what_constant_addresses_count(starts: ConstantStarts, source: int, target: int) -> None:
    """dataflowir checklist X11: elements in device memory, bytes in a scratchpad, unless the run says otherwise."""
    text = kernel(VIEWS, a=COPY).replace(
        'name = "C0-l1lu", type = "l1lu"', 'name = "C0-mnilu", type = "mnilu"'
    )
    memory = np.arange(4096, dtype=np.uint16).view(np.uint8)
    module = ktir.parse(text)
    image = kernel_image(DataflowFiles.of({"global.mlir": module}), SAMPLE, (), starts)
    machine = Machine(SAMPLE)
    machine.run(image, image.cells, FlatGlobal({0: memory}))
    (held,) = [m for m in image.memories if m.kind == "L1"]
    contents = np.asarray(machine.scratchpad(image, held).data).reshape(SAMPLE.cores, -1)[0]
    np.testing.assert_array_equal(contents[target : target + 128], memory[source : source + 128])


# -- lanes -------------------------------------------------------------------------------------------


def lanes(operations: str, *vectors: np.ndarray, element: str = "f16") -> np.ndarray:
    """What a unit computes from constants: `operations` on %v0, %v1, ... give %r."""
    count = len(vectors[0])
    constants = "".join(
        f"    %v{n} = vectorchain.constant_bitstream {{value = [{', '.join(hex(b) for b in v.view(np.uint16))}]}} : vector<{count}x{element}>\n"
        for n, v in enumerate(vectors)
    )
    store = f"""
      %to = dataflow.get_logical_memory_view %l1, %c0 {{layout_map = affine_map<(d0) -> (d0)>}} : index, index, memref<{count}x{element}>
      %got = dataflow.receive %b : vector<{count}x{element}>
      agen.vector_store %got, %to[0] {{{LINE.replace("load", "store").replace("63", str(count - 1))}}} : memref<{count}x{element}>, vector<{count}x{element}>
    """
    body = f"{constants}{operations}\n      dataflow.send %c, %r : vector<{count}x{element}>"
    text = kernel("    %c0 = arith.constant 0 : index\n    %c3 = arith.constant 3 : index\n", b=body, c=store)
    module = ktir.parse(text)
    ktir.verify(module)
    image = kernel_image(DataflowFiles.of({"global.mlir": module}), SAMPLE, ())
    machine = Machine(SAMPLE)
    machine.run(image, image.cells, FlatGlobal({0: np.zeros(64, np.uint8)}))
    (held,) = [m for m in image.memories if m.kind == "L1"]
    data = np.asarray(machine.scratchpad(image, held).data).reshape(SAMPLE.cores, -1)[0]
    return data[: 2 * count].view(vectors[0].dtype).copy()


def binary(operator: str, count: int) -> str:
    type = f"vector<{count}xf16>"
    return (
        f"      %r = vectorchain.binary %v0, %v1 {{binary_op = #vectorchain<binary_operator {operator}>, "
        f"op_specific_map = affine_map<(d0) -> (d0)>}} : {type}, {type}, {type}"
    )


def f16(*values: float) -> np.ndarray:
    return np.array(values, np.float16)


def test_rounding_and_nans() -> None:
    """dataflowir checklist X12."""
    total = lanes(binary("add", 4), f16(65504, 2048, 1, -65504), f16(65504, 1, 2, -65504))
    np.testing.assert_array_equal(total, f16(np.inf, 2048, 3, -np.inf))
    larger = lanes(binary("max", 4), f16(np.nan, 1, -0.0, 2), f16(1, np.nan, 0.0, 3))
    assert np.isnan(larger[:2]).all()
    assert larger[3] == 3
    assert not np.signbit(larger[2])


@pytest.mark.parametrize("order", ["left_to_right", "right_to_left"])
@pytest.mark.parametrize("gap", [1, 2, 5])
def test_scans(order: str, gap: int) -> None:
    """dataflowir checklist X13: every lane is the sum of those one, two, ... gaps before (behind) it."""
    values = np.arange(1, 17).astype(np.float16)
    found = lanes(
        f"      %r = vectorchain.scan_with_gap %v0 {{eval_order = #vectorchain<eval_order {order}>, gap = {gap} : index, "
        "reduction_op = #vectorchain<binary_operator add>} : vector<16xf16>, vector<16xf16>",
        values,
    )
    step = -gap if order == "left_to_right" else gap
    wanted = [
        sum(values[j] for j in itertools.takewhile(lambda j: 0 <= j < 16, range(i, i + 40 * step, step)))
        for i in range(16)
    ]
    np.testing.assert_array_equal(found, np.array(wanted, np.float16))


@pytest.mark.parametrize(("right", "moved"), [("true", 3), ("false", -3)])
def test_rotations(right: str, moved: int) -> None:
    """dataflowir checklist X13."""
    values = np.arange(16).astype(np.float16)
    found = lanes(
        f"      %r = vectorchain.rotate %v0, %c3 {{right_shift = {right}}} : vector<16xf16>, index, vector<16xf16>",
        values,
    )
    np.testing.assert_array_equal(found, np.roll(values, moved))


def test_slope_and_offset_of_a_sigmoid() -> None:
    """dataflowir checklist X14: slope * x + offset is the function within an ulp."""
    values = np.linspace(-6, 6, 32).astype(np.float16)
    type = "vector<32xf16>"
    estimate = (
        "      %{0} = vectorchain.sigmoid_estimate %v0 {{version = #vectorchain<estimate_versions {0}>}} : "
        + f"{type}, {type}\n"
    )
    body = estimate.format("slope") + estimate.format("offset")
    found = lanes(
        body
        + f"      %r = vectorchain.multiply_and_accumulate %slope, %v0, %offset {{reduction_map = affine_map<(d0) -> (d0)>}} : {type}, {type}, {type}, {type}",
        values,
    )
    exact = 1 / (1 + np.exp(-values.astype(np.float64)))
    error = np.abs(found.astype(np.float64) - exact)
    # the products are rounded on their own scale: an ulp of the larger of result and offset
    assert (error <= np.spacing(np.maximum(np.abs(exact), 0.5).astype(np.float16)).astype(np.float64)).all()


# -- compiled programs -------------------------------------------------------------------------------

IN_PLACE = """
#all = affine_set<(d0, d1) : (d0 >= 0, -d0 + 3 >= 0, d1 >= 0, -d1 + 4095 >= 0)>
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @k(%a: index) attributes {grid = [1]} {
  %c0 = arith.constant 0 : index
  %v = ktdp.construct_memory_view %a, sizes: [4, 4096], strides: [4096, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<4x4096xf16>
  %t = ktdp.construct_access_tile %v[%c0, %c0] {access_tile_set = #all, access_tile_order = #id} : memref<4x4096xf16> -> !ktdp.access_tile<4x4096xindex>
  %x = ktdp.load %t : <4x4096xindex> -> tensor<4x4096xf16>
  %y = arith.addf %x, %x : tensor<4x4096xf16>
  ktdp.store %y, %t : tensor<4x4096xf16>, <4x4096xindex>
  return
}
"""
PLAIN = ("tile-scf-for-loops", "stage-coarsening", "double-buffering", "parallelize-loops-across-instances")


@pytest.mark.parametrize("guard", ["and", "linear"])
def test_guards_over_two_loops(guard: str, tmp_path: Path) -> None:
    """dataflowir checklist X16: with `and`, a store waits for a load that the queues do not let through."""
    options = dfsched.Options(disabled=PLAIN, settings={"ktdf-to-ktdflowering.backedge-guard": guard})
    compiled = dfsched.compile(ktir.parse(IN_PLACE), device(tmp_path, 16), options)
    a = np.random.default_rng(0).standard_normal((4, 4096)).astype(np.float16)
    if guard == "and":
        with pytest.raises(DeadlockFault):
            run_dataflow(compiled, {"a": a.copy()})
        return
    np.testing.assert_array_equal(run_dataflow(compiled, {"a": a.copy()}).outputs["a"], a + a)


def test_every_instruction_runs() -> None:
    """Nothing that an image may hold is missing in the engine, with values or for time only."""
    assert set(im.INSTRUCTIONS) - {im.Launch} <= set(HANDLERS)  # launches belong to the coordinator


@pytest.mark.parametrize("name", ["sample", "spyre"])
def test_programs_of_the_first_version(name: str) -> None:
    """dataflowir spec 3.10: chunks whose views start where the corelet's rows do give the same result."""
    k = Kernel("add", grid=(2,))
    a, b, c = (k.view(k.pointer(n), (16, 256), "f16") for n in "abc")
    (tile,) = k.tile_id()
    rows = slice(tile * 8, tile * 8 + 8)
    c[rows, 0:256].store(a[rows, 0:256].load() + b[rows, 0:256].load())
    compiled = dfsched.compile(k.build(), name, dfsched.Options(profile="v1"))
    flow = next(result.module for result in compiled.passes if result.name == "ktdf-to-ktdflowering")
    assert "ktdf.parallel (" in ktir.print_module(flow)
    rng = np.random.default_rng(4)
    inputs = {n: rng.standard_normal((16, 256)).astype(np.float16) for n in "ab"}
    found = run_dataflow(compiled, inputs).outputs["c"]
    np.testing.assert_array_equal(found, inputs["a"] + inputs["b"])
