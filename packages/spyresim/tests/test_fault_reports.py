"""What faults of DataflowIR say: who, where in the text, in which iteration, on which bytes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import ktir
from dfsched import load_architecture
from spyresim.dataflow import DataflowFiles, kernel_program
from spyresim.engine import FlatGlobal, Machine, Options
from spyresim.errors import (
    ConflictFault,
    DeadlockFault,
    OutOfRangeFault,
    QueueFault,
    SpyresimError,
    UnwrittenReadFault,
)

EXAMPLE = (Path(__file__).parent / "data" / "double_buffered_max.mlir").read_text()
SAMPLE = load_architecture("sample")
SEEDS = [None, 1, 2, 3, 4]


def execute(text: str, arguments: tuple[int, ...] = (), seed: int | None = None) -> np.ndarray:
    """Run a kernel on 32 KiB of device memory; its last state."""
    module = ktir.parse(text)
    ktir.verify(module)
    program = kernel_program(DataflowFiles.of({"global.mlir": module}), SAMPLE, arguments)
    memory = np.zeros(1 << 15, np.uint8)
    machine = Machine(SAMPLE)
    machine.run(
        program.image, program.image.cells, FlatGlobal({0: memory}), Options(seed=seed), program.sources
    )
    return memory


def fault(
    text: str, arguments: tuple[int, ...] = (4096, 8192, 12288), seed: int | None = None
) -> SpyresimError:
    with pytest.raises(SpyresimError) as caught:
        execute(text, arguments, seed)
    return caught.value


def line_of(text: str, what: str, number: int = 0) -> int:
    """The line (from 1) of an occurrence of something in the text."""
    return [at for at, line in enumerate(text.splitlines(), 1) if what in line][number]


def units(**bodies: str) -> str:
    """A program of one core with a body for each kind of unit; %l1 is its scratchpad, %ddr device memory."""
    handles = "\n".join(
        f'  %{kind} = dataflow.get_unit {{core = 0 : i32, corelet = 0 : i32, name = "C0-{kind}", type = "{kind}"}} : index'
        for kind in bodies
    )
    programs = "\n".join(
        f"  dataflow.program_unit iter_arg : %me{kind} -> (%{kind}) : {{\n{body}\n  }}"
        for kind, body in bodies.items()
    )
    numbers = "\n".join(f"  %c{n} = arith.constant {n} : index" for n in (0, 1, 2, 3, 64, 128, 256))
    return f"""
#id = affine_map<(d0) -> (d0)>
#line = affine_set<(d0) : (d0 >= 0, -d0 + 63 >= 0)>
func.func @k() attributes {{grid = [1 : index]}} {{
{numbers}
  %ones = arith.constant dense<1.0> : vector<64xf16>
  %ddr = dataflow.get_unit {{name = "ddr", type = "ddr"}} : index
  %l1 = dataflow.get_unit {{core = 0 : i32, name = "C0-l1", type = "l1"}} : index
{handles}
{programs}
  return
}}
"""


VIEW = "    %w = dataflow.get_logical_memory_view %l1, %c128 {layout_map = #id} : index, index, memref<128xf16>\n"
LOAD = "    %v = agen.vector_load %w[{}] {{load_order = #id, load_set = #line}} : memref<128xf16>, vector<64xf16>\n"
STORE = "    agen.vector_store %ones, %w[{}] {{store_order = #id, store_set = #line}} : memref<128xf16>, vector<64xf16>\n"
NOTHING = "    %nothing = arith.constant 0 : index\n"


class TestRaces:
    def without_signals(self) -> str:
        return re.sub(r"\n *dataflow\.sync_(send|recv)[^\n]*", "", EXAMPLE)

    def test_both_accesses_are_named(self) -> None:
        """Both candidates of a double buffer at one address: the copy that fills it again meets the loads."""
        text = EXAMPLE.replace(
            "iter_args(%pi = %c256, %qi = %c768)", "iter_args(%pi = %c0, %qi = %c768)"
        ).replace("%pn = arith.subi %c256, %pi", "%pn = arith.subi %c0, %pi")
        found = fault(text)
        assert isinstance(found, ConflictFault), found
        assert "nothing orders them" in str(found)
        sites = {site.operation: site for site in (found.first, found.second)}
        assert set(sites) == {"agen.composite_load_and_store", "agen.vector_load"}
        assert sites["agen.vector_load"].unit == "C0-l1lu (local_schedule_0_body/L1LU)"
        assert sites["agen.composite_load_and_store"].unit == "C0-mnilu (local_schedule_0_body/MNILU)"
        location = sites["agen.vector_load"].location
        assert location is not None
        place = location.file_line_column()
        assert place is not None
        assert place[1] == line_of(text, "agen.vector_load %pw")
        assert found.address is not None
        assert 0 <= found.address < found.address + found.size <= 256
        assert any(len(iteration) == 2 for iteration in found.iterations)  # of the load: %t, %j
        assert re.search(r"the (read|write) of \[0x[0-9a-f]+, 0x[0-9a-f]+\) by 'agen\.", str(found))
        assert re.search(r"in iteration \(\d+, \d+\)", str(found))

    @pytest.mark.parametrize("seed", SEEDS)
    def test_no_order_of_units_hides_that_signals_are_missing(self, seed: int | None) -> None:
        assert isinstance(fault(self.without_signals(), seed=seed), ConflictFault | UnwrittenReadFault)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_no_order_of_units_changes_a_result(self, seed: int | None) -> None:
        assert (execute(EXAMPLE, (4096, 8192, 12288), seed) == execute(EXAMPLE, (4096, 8192, 12288))).all()


class TestDeadlocks:
    def test_a_circle_of_signals(self) -> None:
        """Two units that each wait for the other one first, beside a third that waits for one of them."""
        text = units(
            l1lu="    dataflow.sync_recv %sfu : index\n    dataflow.sync_send %sfu : index",
            sfu="    dataflow.sync_recv %l1lu : index\n    dataflow.sync_send %l1lu : index",
            l1su="    %x = dataflow.receive %sfu : vector<64xf16>",
        )
        found = fault(text, ())
        assert isinstance(found, DeadlockFault)
        assert set(found.circle) == {"C0-l1lu", "C0-sfu"}
        assert found.circle[0] == found.circle[-1]
        assert "cycle of waits: " + " -> ".join(found.circle) in str(found)
        assert len(found.waiting) == 3
        waits = dict(zip(("C0-l1lu", "C0-sfu", "C0-l1su"), found.waiting, strict=True))
        for unit, line in waits.items():
            assert line.startswith(f"{unit} at k/{unit[3:].upper()}[")
        assert "signal C0-sfu->C0-l1lu" in waits["C0-l1lu"]
        assert f":{line_of(text, 'sync_recv %sfu')}:" in waits["C0-l1lu"]
        assert "'dataflow.receive'" in waits["C0-l1su"]
        assert "queue empty C0-sfu->C0-l1su (0 of 16 items)" in waits["C0-l1su"]

    def test_a_full_queue(self) -> None:
        """Twenty items for a unit that waits for a signal behind them."""
        text = units(
            l1lu="    %c20 = arith.constant 20 : index\n"
            + "    scf.for %i = %c0 to %c20 step %c1 {\n      dataflow.send %sfu, %ones : vector<64xf16>\n    }\n"
            + "    dataflow.sync_send %sfu : index",
            sfu="    dataflow.sync_recv %l1lu : index",
        )
        found = fault(text, ())
        assert isinstance(found, DeadlockFault)
        assert "queue full C0-l1lu->C0-sfu (16 of 16 items)" in found.waiting[0]
        assert "'dataflow.send'" in found.waiting[0]
        assert "in iteration (16,)" in found.waiting[0]
        assert found.circle == ("C0-l1lu", "C0-sfu", "C0-l1lu")

    def test_a_wait_for_a_unit_that_has_ended(self) -> None:
        text = units(sfu="    %x = dataflow.receive %l1lu : vector<64xf16>", l1lu=NOTHING)
        found = fault(text, ())
        assert isinstance(found, DeadlockFault)
        assert found.circle == ("C0-sfu", "C0-l1lu")
        assert "waits for a unit that has ended: C0-sfu -> C0-l1lu" in str(found)


class TestMemory:
    def test_a_read_of_scratchpad_that_nobody_has_written(self) -> None:
        text = units(l1lu=VIEW + LOAD.format(0))
        found = fault(text, ())
        assert isinstance(found, UnwrittenReadFault)
        assert found.address == 128
        assert found.site.operation == "agen.vector_load"
        assert found.site.location is not None
        assert "core 0 at 0x80, which nobody has written" in str(found)

    def test_what_another_unit_has_written_may_be_read(self) -> None:
        execute(
            units(
                l1su=VIEW + STORE.format(0) + "    dataflow.sync_send %l1lu : index",
                l1lu="    dataflow.sync_recv %l1su : index\n" + VIEW + LOAD.format(0),
            )
        )

    @pytest.mark.parametrize("index", [65, -1])
    def test_an_index_outside_of_a_buffer(self, index: int) -> None:
        """The view has 128 elements; the first lane at 65 reaches to 128."""
        text = units(l1lu=VIEW + f"    %at = arith.constant {index} : index\n" + LOAD.format("%at"))
        found = fault(text, ())
        assert isinstance(found, OutOfRangeFault)
        assert "index out of view bounds" in str(found)
        assert found.coordinate == ((128,) if index > 0 else (-1,))
        assert found.site.operation == "agen.vector_load"

    def test_an_address_outside_of_a_memory(self) -> None:
        end = SAMPLE.memory("L1").size
        assert end is not None
        text = units(
            l1lu=f"    %end = arith.constant {end - 64} : index\n"
            + VIEW.replace("%c128", "%end")
            + LOAD.format(0)
        )
        found = fault(text, ())
        assert isinstance(found, OutOfRangeFault)
        assert found.limit == end
        assert found.site.location is not None

    def test_device_memory_outside_of_the_arrays(self) -> None:
        """The fault of device memory says who it was, too."""
        found = fault(EXAMPLE, (4096, 8192, 1 << 15))
        assert isinstance(found, OutOfRangeFault)
        assert found.site.operation == "agen.composite_load_and_store"
        assert found.site.unit is not None
        assert "C0-mnisu" in found.site.unit


class TestQueues:
    def test_types_differ(self) -> None:
        text = units(
            l1lu="    dataflow.send %sfu, %ones : vector<64xf16>",
            sfu="    %x = dataflow.receive %l1lu : vector<32xf16>",
        )
        found = fault(text, ())
        assert isinstance(found, QueueFault)
        assert "type mismatch on FIFO C0-l1lu->C0-sfu: sent 64xf16, received 32xf16" in str(found)
        assert found.site.operation == "dataflow.receive"
        text = text.replace("vector<32xf16>", "vector<64xbf16>")
        assert "sent 64xf16, received 64xbf16" in str(fault(text, ()))

    @pytest.mark.parametrize("seed", SEEDS)
    def test_what_is_left_over(self, seed: int | None) -> None:
        sends = "    dataflow.send %sfu, %ones : vector<64xf16>\n" * 3
        text = units(l1lu=sends, sfu="    %x = dataflow.receive %l1lu : vector<64xf16>")
        found = fault(text, (), seed)
        assert isinstance(found, QueueFault)
        assert "residual data in FIFO C0-l1lu->C0-sfu (2 items)" in str(found)
        text = units(l1lu="    dataflow.sync_send %sfu : index", sfu=NOTHING)
        assert "unmatched signal C0-l1lu->C0-sfu (1)" in str(fault(text, (), seed))
