"""The sequential executor of ScheduleIR: pipelines, queues, transfers, ownership of scratchpads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dfsched
import ktir
from spyresim import run_schedule
from spyresim.errors import (
    ArgumentError,
    ExecutionFault,
    OutOfRangeFault,
    QueueFault,
    StaleReadFault,
    UnsupportedError,
    UnwrittenReadFault,
)
from spyresim.schedule_level import interface_of
from spyresim.testing import text as k

RNG = np.random.default_rng(5)


@pytest.fixture(scope="module")
def compiled() -> dfsched.Compiled:
    """One vector at a time through single buffers: the plainest schedule."""
    options = dfsched.Options(pins={"tile_sizes": 1, "buffer_depths": 1})
    return dfsched.compile(ktir.parse(k.shifted_add()), "sample", options)


@pytest.fixture(scope="module")
def arguments() -> dict[str, Any]:
    numbers = RNG.normal(size=(196, 256)).astype(np.float16)
    return {"a": numbers[:100], "b": numbers[100:], "shift": 2}


def text_after(compiled: dfsched.Compiled, name: str) -> str:
    return ktir.print_module(next(r.module for r in reversed(compiled.passes) if r.name == name))


def run(compiled: dfsched.Compiled, text: str, arguments: dict[str, Any]) -> Any:
    module = ktir.parse(text)
    return run_schedule(compiled, arguments, module=module).outputs["c"]


def test_after_every_pass(compiled: dfsched.Compiled, arguments: dict[str, Any]) -> None:
    """Coordinator, programs with parameters, casts, pipelines, KTDFLow."""
    expected = arguments["a"][2:98] + arguments["b"]
    names = []
    for result in compiled.passes:
        if any(op.name == "symbol.create_id" for op in result.module.walk()):
            break
        names.append(result.name)
        assert np.array_equal(
            run_schedule(compiled, arguments, module=result.module).outputs["c"], expected
        ), result.name
    assert "ktdf-to-ktdflowering" in names


def test_a_module_by_itself(compiled: dfsched.Compiled, arguments: dict[str, Any]) -> None:
    """The interface comes from the KTIR; the device from the module's own declaration."""
    module = compiled.schedule_ir
    with pytest.raises(ArgumentError, match="views of this module have moved into programs"):
        run_schedule(module, arguments)
    got = run_schedule(module, arguments, interface=interface_of(compiled.source)).outputs["c"]
    assert np.array_equal(got, arguments["a"][2:98] + arguments["b"])
    assert np.array_equal(run_schedule(compiled.source, arguments).outputs["c"], got)


def test_report(compiled: dfsched.Compiled, arguments: dict[str, Any]) -> None:
    report = run_schedule(compiled, arguments).report
    assert report.level == "schedule"
    assert report.counters.operations["ktdf.pipeline"] == 32 * 3 * 4
    assert report.counters.bytes_read["device memory"] == 2 * 96 * 256 * 2


class TestWhatGoesWrong:
    """A schedule that is wrong shows: as a wrong value or as a fault with its place."""

    def changed(self, compiled: dfsched.Compiled, *changes: tuple[str, str]) -> str:
        text = text_after(compiled, "normalize-grid-to-1d")
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        return text

    def test_wrong_subscript(self, compiled: dfsched.Compiled, arguments: dict[str, Any]) -> None:
        text = self.changed(compiled, ("%arg1 * 64]", "%arg1 * 32]"))
        assert not np.array_equal(run(compiled, text, arguments), arguments["a"][2:98] + arguments["b"])

    def test_outside_of_a_view(self, compiled: dfsched.Compiled, arguments: dict[str, Any]) -> None:
        text = self.changed(compiled, ("%arg1 * 64]", "%arg1 * 65]"))
        with pytest.raises(OutOfRangeFault, match=r"coordinate \(.*, 258\) is outside the view") as caught:
            run(compiled, text, arguments)
        assert caught.value.site.operation == "ktdf.data_transfer"
        assert caught.value.site.tile == 0

    def test_overlapping_buffers(self, compiled: dfsched.Compiled, arguments: dict[str, Any]) -> None:
        """Both operands in one buffer: the second transfer destroys the first operand."""
        text = self.changed(compiled, ("arith.constant 128 : index", "arith.constant 0 : index"))
        assert np.array_equal(run(compiled, text, arguments), arguments["b"] + arguments["b"])

    def test_buffer_behind_the_scratchpad(
        self, compiled: dfsched.Compiled, arguments: dict[str, Any]
    ) -> None:
        text = self.changed(compiled, ("arith.constant 128 : index", "arith.constant 1048512 : index"))
        with pytest.raises(OutOfRangeFault, match="scratchpad of core 0, which has 0x100000 bytes"):
            run(compiled, text, arguments)

    def test_queue_left_full(self, compiled: dfsched.Compiled, arguments: dict[str, Any]) -> None:
        line = next(
            line for line in self.changed(compiled).split("\n") if "read_from_fifo" in line and "#3" in line
        )
        text = self.changed(compiled, (line, line.replace("#3", "#2")))
        with pytest.raises(QueueFault, match="a read from an empty queue"):
            run(compiled, text, arguments)

    def test_queue_not_drained(self, compiled: dfsched.Compiled, arguments: dict[str, Any]) -> None:
        lines = self.changed(compiled).split("\n")
        index = next(i for i, line in enumerate(lines) if "data_transfer from" in line and "to %8#3" in line)
        lines.insert(index, lines[index])
        with pytest.raises(QueueFault, match="1 entries are left in the queues"):
            run(compiled, "\n".join(lines), arguments)

    def test_buffer_that_nobody_fills(self, compiled: dfsched.Compiled, arguments: dict[str, Any]) -> None:
        lines = [line for line in self.changed(compiled).split("\n") if "to %8#1[0, 0]" not in line]
        with pytest.raises(
            UnwrittenReadFault, match="scratchpad of core 0 at 0x80, which nobody has written"
        ):
            run(compiled, "\n".join(lines), arguments)

    def test_stages_in_a_circle(self, compiled: dfsched.Compiled, arguments: dict[str, Any]) -> None:
        text = self.changed(
            compiled, ("depends_in(none) depends_out(%8#6)", "depends_in(%8#9) depends_out(%8#6)")
        )
        with pytest.raises(ExecutionFault, match="stages of a pipeline wait for each other"):
            run(compiled, text, arguments)


def test_stages_go_by_their_tokens(compiled: dfsched.Compiled, arguments: dict[str, Any]) -> None:
    """The order of the stages in the text carries no meaning."""
    module = compiled.schedule_ir
    with ktir.edit(module) as editor:
        for node in list(editor.walk(dfsched.dialects.ktdf.Pipeline)):
            stages = [
                op
                for op in node.regions[0].blocks[0].operations()
                if op.op_class.definition.name == "ktdf.stage"
            ]
            for stage in stages[:-1]:
                editor.move_after(stage, stages[-1])
    shuffled = editor.module
    assert ktir.print_module(shuffled) != ktir.print_module(module)
    got = run_schedule(compiled, arguments, module=shuffled).outputs["c"]
    assert np.array_equal(got, arguments["a"][2:98] + arguments["b"])


def test_temporaries_belong_to_one_program_call(
    compiled: dfsched.Compiled, arguments: dict[str, Any]
) -> None:
    """Reading 8: what another call has left behind may not be read."""
    text = text_after(compiled, "normalize-grid-to-1d")
    call = next(line for line in text.split("\n") if "call @local_schedule_0(" in line)
    names = call[call.index("(") + 1 : call.index(")")]
    # A second program, the same but for the transfer that fills the second buffer.
    start = text.index("  module @local_schedule_0 {")
    program = text[start : text.rindex("}")]
    second = "\n".join(
        line for line in program.replace("local_schedule_0", "local_schedule_1").split("\n")
        if "to %8#1[0, 0]" not in line
    )  # fmt: skip
    both = text[:start].replace(
        call, call + "\n" + call.replace("local_schedule_0", "local_schedule_1")
    ).replace(
        "func.func private @local_schedule_0(index, index, index, index)",
        "func.func private @local_schedule_0(index, index, index, index)\n"
        "    func.func private @local_schedule_1(index, index, index, index)",
    ) + program + second + "}\n"  # fmt: skip
    assert names.count(",") == 3
    with pytest.raises(
        StaleReadFault, match="holds a temporary of program call 1, for a temporary of program call 2"
    ):
        run(compiled, both, arguments)


def test_instruction_templates_on_registers() -> None:
    """`ktdf.opaque` on registers: its meaning is the table's, by name (readings 13)."""
    registers = 'dataflow_scheduler.register_names = ["in0", "in1", "out0"]'
    lines = [
        "%c0 = arith.constant 0 : index",
        "%t = ktdp.get_compute_tile_id : index",
        k.view("v", "p", (2, 72)),
        k.view("w", "q", (2, 72)),
        k.tile("vt", "v", "%t, %c0", (2, 72), (1, 72)),
        k.tile("wt", "w", "%t, %c0", (2, 72), (1, 72)),
        k.load("x", "vt", (1, 72)),
        "%e = tensor.empty() : tensor<1x72xf16>",
        f"""%y = linalg.generic {{indexing_maps = [{k.identity(2)}, {k.identity(2)}],
            iterator_types = ["parallel", "parallel"]}}
            ins(%x : tensor<1x72xf16>) outs(%e : tensor<1x72xf16>) {{
        ^bb0(%a: f16, %o: f16):
          %two = arith.constant 2.0 : f16
          %r0 = memref.alloca() : memref<f16, "SFU_REG">
          %r1 = memref.alloca() : memref<f16, "SFU_REG">
          %r2 = memref.alloca() : memref<f16, "SFU_REG">
          memref.store %a, %r0[] : memref<f16, "SFU_REG">
          memref.store %two, %r1[] : memref<f16, "SFU_REG">
          ktdf.opaque "math.powf" {{{registers}}} ins(%r0, %r1 : memref<f16, "SFU_REG">, memref<f16, "SFU_REG">)
            outs(%r2 : memref<f16, "SFU_REG">)
          %z = memref.load %r2[] : memref<f16, "SFU_REG">
          linalg.yield %z : f16
        }} -> tensor<1x72xf16>""",
        k.store("y", "wt", (1, 72)),
    ]
    text = k.function("%p: index, %q: index", lines, [2])
    module = ktir.parse(f'module {{ ktdf_arch.device @sample_device import("sample")\n{text}}}')
    p = RNG.normal(size=(2, 72)).astype(np.float16)
    assert np.array_equal(run_schedule(module, {"p": p}).outputs["q"], p * p)


SMALL = """
module {
  ktdf_arch.device @sample_device import("sample")
  func.func @kernel(%q: index) attributes {grid = [2]} {
    BODY
    return
  }
}
"""


def numbers(*lines: str) -> list[int]:
    """What `%n` (index) is, in every tile."""
    body = [
        "%c0 = arith.constant 0 : index",
        "%c1 = arith.constant 1 : index",
        "%c2 = arith.constant 2 : index",
        "%c3 = arith.constant 3 : index",
        "%c4 = arith.constant 4 : index",
        "%c5 = arith.constant 5 : index",
        "%c20 = arith.constant 20 : index",
        "%t = ktdp.get_compute_tile_id : index",
        *lines,
        "%i = arith.index_cast %n : index to i32",
        "%x = tensor.splat %i : tensor<1xi32>",
        k.view("w", "q", (2,), "i32"),
        k.tile("wt", "w", "%t", (2,), (1,), "i32"),
        k.store("x", "wt", (1,), "i32"),
    ]
    module = ktir.parse(SMALL.replace("BODY", "\n".join(body)))
    result: list[int] = run_schedule(module).outputs["q"].tolist()
    return result


def test_open_tile_sizes() -> None:
    """Least admissible value; remainders by the formula of scheduler spec 1.8."""
    reserve = "%n = ktdf.tiling.reserve_size {divisibility = 4 : index, min_value = 6 : index} : index"
    assert numbers(reserve) == [8, 8]
    assert numbers("%n = ktdf.tiling.derive_size [%c2 : %c5], total_size = %c20 : index") == [5, 5]
    assert numbers("%n = ktdf.tiling.derive_size [%c4 : %c5], total_size = %c20 : index") == [0, 0]
    assert numbers("%n = ktdf.tiling.derive_size [%c3 : %c5], [%t : %c3], total_size = %c20 : index") == [
        3,
        2,
    ]
    assert numbers("%n = ktdf.tiling.linearize_index [%t : %c5], [%c3 : %c1] : index") == [3, 8]


def test_phases_and_rotating_buffers() -> None:
    """buffer_phase counts iterations of the loops around it."""
    lines = [
        "%n = scf.for %a = %c0 to %c2 step %c1 iter_args(%s = %c0) -> (index) {",
        "%m = scf.for %b = %c0 to %c3 step %c1 iter_args(%r = %s) -> (index) {",
        "%p = ktdf.buffer_phase(%a, %b) {num_phases = 4 : i64} : index",
        "%d = arith.muli %r, %c5 : index",
        "%e = arith.addi %d, %p : index",
        "scf.yield %e : index",
        "}",
        "scf.yield %m : index",
        "}",
    ]
    value = 0
    for phase in (0, 1, 2, 3, 0, 1):
        value = value * 5 + phase
    assert numbers(*lines) == [value, value]


def test_parallel_instances() -> None:
    """Points in lexicographic order, cut into contiguous chunks (scheduler spec 1.9)."""
    lines = [
        "%buf = memref.alloc() : memref<1xi32>",
        "%z = arith.constant 0 : i32",
        "%five = arith.constant 10 : i32",
        "memref.store %z, %buf[%c0] : memref<1xi32>",
        "ktdf.parallel (%a, %b, %id) = (%c0, %c0) to (%c2, %c3) step (%c1, %c1) distribute(num_instances = 2) {",
        "%old = memref.load %buf[%c0] : memref<1xi32>",
        "%up = arith.muli %old, %five : i32",
        "%i32 = arith.index_cast %id : index to i32",
        "%new = arith.addi %up, %i32 : i32",
        "memref.store %new, %buf[%c0] : memref<1xi32>",
        "ktdf.parallel_yield",
        "}",
        "%last = memref.load %buf[%c0] : memref<1xi32>",
        "%n = arith.index_cast %last : i32 to index",
    ]
    assert numbers(*lines) == [111, 111]


def test_unknown_operations_name_the_level(compiled: dfsched.Compiled, arguments: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError, match="at level schedule"):
        run_schedule(compiled, arguments, module=compiled.passes[-1].module)
