"""`broadcast-promotion`: text in, text out."""

from __future__ import annotations

import pytest
from schedule_oracle import elementwise

import dfsched
import ktir
from dfsched.dialects.ktdf import DataTransfer
from dfsched.passes import broadcast_promotion
from dfsched.passes.base import PassContext
from ktir.analysis import DefUse
from ktir.dialects import scf
from ktir.types import MemRefType

HEAD = """
%c0 = arith.constant 0 : index
%c1 = arith.constant 1 : index
%c2 = arith.constant 2 : index
%c8 = arith.constant 8 : index
%p = arith.constant 0 : index
%q = arith.constant 65536 : index
%w0 = ktdp.construct_memory_view %p, sizes: [8, 64], strides: [64, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<8x64xf16>
%x0 = ktdp.construct_memory_view %q, sizes: [8, 64], strides: [64, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<8x64xf16>
%w = memref.memory_space_cast %w0 : memref<8x64xf16> to memref<8x64xf16, "DDR">
%x = memref.memory_space_cast %x0 : memref<8x64xf16> to memref<8x64xf16, "DDR">
"""

BUFFER = 'memref<1x64xf16, "L1">'
VIEW = 'memref<8x64xf16, "DDR">'
SLOT = '!ktdf.fifo.slot<"L1LU" -> "SFU", 64xf16>'


def program(first: str = "%c0", second: str = "%i", extra: str = "", outer: str = "%c2") -> str:
    """Two loops around a pipeline that loads row `first` of w and row `second` of x (`extra` runs with it)."""
    return f"""
    #all = affine_set<(d0, d1) : (d0 >= 0, -d0 + 7 >= 0, d1 >= 0, -d1 + 63 >= 0)>
    module {{
    ktdf_arch.device @sample_device import("sample")
    module @local_schedule_0 {{
    func.func @local_schedule_0() attributes {{grid = [1 : index]}} {{
      {HEAD}
      scf.for %o = %c0 to {outer} step %c1 {{
        scf.for %i = %c0 to %c8 step %c1 {{
          ktdf.pipeline {{
            %v:5 = ktdf.private -> ({BUFFER}, {BUFFER}, {SLOT}, {SLOT}, !ktdf.token) {{
              %a = memref.alloc() : {BUFFER}
              %b = memref.alloc() : {BUFFER}
              %f:2 = ktdf.fifo.allocate() -> {SLOT}, {SLOT}
              %t = ktdf.create_token : !ktdf.token
              ktdf.private_yield %a, %b, %f#0, %f#1, %t : {BUFFER}, {BUFFER}, {SLOT}, {SLOT}, !ktdf.token
            }}
            ktdf.stage depends_in(none) depends_out(%v#4) {{
              ktdf.data_transfer from %w[{first}, 0] size [1, 64] to %v#0[0, 0] size [1, 64] : {VIEW}, {BUFFER}
              ktdf.data_transfer from %x[{second}, 0] size [1, 64] to %v#1[0, 0] size [1, 64] : {VIEW}, {BUFFER}
              {extra}
            }} {{applicable_units = ["MNILU"]}}
            ktdf.stage depends_in(%v#4) depends_out(none) {{
              ktdf.data_transfer from %v#0[0, 0] size [1, 64] to %v#2 size [64] : {BUFFER}, {SLOT}
              ktdf.data_transfer from %v#1[0, 0] size [1, 64] to %v#3 size [64] : {BUFFER}, {SLOT}
            }} {{applicable_units = ["L1LU"]}}
          }}
        }} {{loop_type = #ktdf.loop_type<parallel_loop>}}
      }} {{loop_type = #ktdf.loop_type<parallel_loop>}}
      return
    }} }} }}
    """


def promoted(text: str) -> str:
    module = ktir.parse(text)
    context = PassContext(dfsched.load_architecture("sample"), dfsched.Options())
    new = broadcast_promotion.run(module, context)
    ktir.verify(new)
    again = broadcast_promotion.run(new, context)
    assert ktir.print_module(again) == ktir.print_module(new)  # B5: a second run changes nothing
    return ktir.print_module(new)


def depth(text: str, what: str) -> int:
    """Loops around the only line with a text."""
    lines = text.splitlines()
    (number,) = (i for i, line in enumerate(lines) if what in line)
    indent = len(lines[number]) - len(lines[number].lstrip())
    open_loops = [
        line for line in lines[:number] if "scf.for" in line and len(line) - len(line.lstrip()) < indent
    ]
    closed = sum(1 for line in lines[:number] if "loop_type" in line)
    return len(open_loops) - closed


def test_invariant_in_both_loops_or_in_one() -> None:
    """scheduler checklist B1, B4, B5: in front of the outer loop, or of the inner one; donor's units, no tokens."""
    text = promoted(program("%c0", "%i"))
    assert depth(text, "from %memspacecast[%c0, 0]") == 0
    assert depth(text, "from %memspacecast_1[%arg1, 0]") == 2
    front = text[: text.index("scf.for")]
    assert "ktdf.stage depends_in(none) depends_out(none)" in front
    assert front.count('applicable_units = ["MNILU"]') == 1
    assert "from %alloc[0, 0] size [1, 64] to %2#1 size [64]" in text  # the reader takes the new buffer
    assert text.count("memref.alloc") == 2  # and the old one is gone
    text = promoted(program("%o", "%i"))
    assert depth(text, "from %memspacecast[%arg0, 0]") == 1


def test_the_farthest_goes_first() -> None:
    """scheduler checklist B3: both are moved, each as far as it goes."""
    text = promoted(program("%o", "%c0"))
    assert depth(text, "from %memspacecast_1[%c0, 0]") == 0
    assert depth(text, "from %memspacecast[%arg0, 0]") == 1
    assert text.count('applicable_units = ["MNILU"]') == 2  # the stage that gave both is gone


@pytest.mark.parametrize(
    "text",
    [
        program("%i", "%i"),
        program(
            extra=f"ktdf.data_transfer from %v#1[0, 0] size [1, 64] to %w[0, 0] size [1, 64] : {BUFFER}, {VIEW}"
        ).replace("%x[%i, 0] size", "%x[%i, 0] size"),
        program(
            extra=f"ktdf.data_transfer from %x[1, 0] size [1, 64] to %v#0[0, 0] size [1, 64] : {VIEW}, {BUFFER}"
        ),
        program("%c0", "%i", outer="%c0").replace("to %c8 step", "to %c0 step"),
    ],
    ids=["both vary", "source written", "destination written twice", "loops that do not run"],
)
def test_what_stays(text: str) -> None:
    """scheduler checklist B2: nothing that the loop changes, no queue, nothing in front of loops that do not run."""
    assert ktir.print_module(ktir.parse(text)) == promoted(text)


@pytest.mark.parametrize("sizes", [(16, 4), (3, 4), (3, 3)])
def test_a_row_for_all_rows(sizes: tuple[int, int]) -> None:
    """What the rows of a tile share is loaded in front of all tiles, if a tile holds whole rows; the loop over the
    rows of one tile, whose trips depend on the tile, does not change it.
    """
    options = dfsched.Options(emit="schedule", pins={"tile_sizes": sizes})
    made = dfsched.compile(ktir.parse(elementwise((40, 256), 1, True)), "sample", options)
    module = next(result.module for result in made.passes if result.name == "broadcast-promotion")
    uses = DefUse(module)
    loads = [op for op in module.walk() if isinstance(op, DataTransfer) and op.source_cell.sizes == (64,)]
    (row,) = [op for op in loads if isinstance(op.source.type, MemRefType)]
    around = [op for op in uses.ancestors(row) if isinstance(op, scf.For)]
    assert (len(around) == 1) is (sizes[1] == 4)
