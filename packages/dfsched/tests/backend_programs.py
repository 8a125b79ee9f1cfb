"""Programs for the tests of the backend: five stages over rows, and the two lowerings of a text."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

import dfsched
import ktir
from dfsched.dialects import dataflow
from dfsched.lowering.back_edges import BackedgeGuard
from dfsched.lowering.dfir import lower_to_dfir
from dfsched.lowering.errors import LoweringError
from dfsched.lowering.ktdflow import lower_to_ktdflow
from dfsched.options import Profile
from ktir.attributes import IntegerAttr
from ktir.dialects import arith
from ktir.dialects.builtin import Module
from ktir.ir import Operation

SAMPLE = dfsched.load_architecture("sample")

LOAD = 'ktdf.data_transfer from %src[%r, 0] size [1, 64] to %b0[0, 0] size [1, 64] : memref<16x64xf16, "DDR">, memref<1x64xf16, "L1">'
SEND = 'ktdf.data_transfer from %b0[0, 0] size [1, 64] to %f size [64] : memref<1x64xf16, "L1">, !ktdf.fifo.slot<"L1LU" -> "SFU", 64xf16>'
BODY = "%v = arith.addf %in, %in : f16"
VIEW = (
    "%{n}v = ktdp.construct_memory_view %{n}, sizes: [16, 64], strides: [64, 1] {{coordinate_set = #all, "
    "memory_space = #ktdp.memory_space<global>}} : memref<16x64xf16>\n"
    '%{s} = memref.memory_space_cast %{n}v : memref<16x64xf16> to memref<16x64xf16, "DDR">'
)
SLOT_IN = '!ktdf.fifo.slot<"L1LU" -> "SFU", 64xf16>'
SLOT_OUT = '!ktdf.fifo.slot<"SFU" -> "L1SU", 64xf16>'


COMPUTE = """%x = ktdf.read_from_fifo %f : <"L1LU" -> "SFU", 64xf16> -> tensor<1x64xf16>
        %e = tensor.empty() : tensor<1x64xf16>
        %z = linalg.generic {{indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}} ins(%x : tensor<1x64xf16>) outs(%e : tensor<1x64xf16>) {{
        ^bb0(%in: f16, %out: f16):
          {body}
          linalg.yield {result} : f16
        }} -> tensor<1x64xf16>
        ktdf.write_to_fifo %z, %g : tensor<1x64xf16>, <"SFU" -> "L1SU", 64xf16>"""


def pipeline(
    load: str = LOAD,
    send: str = SEND,
    body: str = BODY,
    result: str = "%v",
    out: str = "%dst",
    compute: str | None = None,
) -> str:
    """The usual five stages over one 1x64 tile at row %r; `compute` is all of the computing stage."""
    return f"""
    ktdf.pipeline {{
      %b0, %f, %g, %b1, %t0, %t1, %t2, %t3 = ktdf.private -> (memref<1x64xf16, "L1">, {SLOT_IN}, {SLOT_OUT}, memref<1x64xf16, "L1">, !ktdf.token, !ktdf.token, !ktdf.token, !ktdf.token) {{
        %a0 = arith.constant 0 : index
        %m0 = builtin.unrealized_conversion_cast %a0 : index to memref<1x64xf16, "L1">
        %a1 = arith.constant 128 : index
        %m1 = builtin.unrealized_conversion_cast %a1 : index to memref<1x64xf16, "L1">
        %q0 = ktdf.fifo.allocate() -> {SLOT_IN}
        %q1 = ktdf.fifo.allocate() -> {SLOT_OUT}
        %k0 = ktdf.create_token : !ktdf.token
        %k1 = ktdf.create_token : !ktdf.token
        %k2 = ktdf.create_token : !ktdf.token
        %k3 = ktdf.create_token : !ktdf.token
        ktdf.private_yield %m0, %q0, %q1, %m1, %k0, %k1, %k2, %k3 : memref<1x64xf16, "L1">, {SLOT_IN}, {SLOT_OUT}, memref<1x64xf16, "L1">, !ktdf.token, !ktdf.token, !ktdf.token, !ktdf.token
      }}
      ktdf.stage depends_in(none) depends_out(%t0) {{
        {load}
      }} {{applicable_units = ["MNILU"]}}
      ktdf.stage depends_in(%t0) depends_out(%t1) {{
        {send}
      }} {{applicable_units = ["L1LU"]}}
      ktdf.stage depends_in(%t1) depends_out(%t2) {{
        {compute or COMPUTE.format(body=body, result=result)}
      }} {{applicable_units = ["SFU"]}}
      ktdf.stage depends_in(%t2) depends_out(%t3) {{
        ktdf.data_transfer from %g size [64] to %b1[0, 0] size [1, 64] : {SLOT_OUT}, memref<1x64xf16, "L1">
      }} {{applicable_units = ["L1SU"]}}
      ktdf.stage depends_in(%t3) depends_out(none) {{
        ktdf.data_transfer from %b1[0, 0] size [1, 64] to {out}[%r, 0] size [1, 64] : memref<1x64xf16, "L1">, memref<16x64xf16, "DDR">
      }} {{applicable_units = ["MNISU"]}}
    }}"""


def nested(
    *,
    instances: int | None = None,
    loops: bool = True,
    stores_to: str = "%out",
    trips: str = "%c4",
    outer: bool = False,
    rows: int = 4,
) -> str:
    """Five stages over a tile of some rows; the computing stage walks rows in a pipeline of its own.

    `instances`: the rows are divided among so many; `loops`: whether there is a loop over rows at all;
    `stores_to`: the buffer that results go to (``%in``: where the operands are); `outer`: a loop ``%o`` around
    the rows whose variable selects them.
    """
    tile = f'memref<{rows}x64xf16, "L1">'
    row = "%o" if outer else "%j" if loops else "%c0"
    inner = f"""
      ktdf.pipeline {{
        %f, %g, %t0, %t1 = ktdf.private -> ({SLOT_IN}, {SLOT_OUT}, !ktdf.token, !ktdf.token) {{
          %q0 = ktdf.fifo.allocate() -> {SLOT_IN}
          %q1 = ktdf.fifo.allocate() -> {SLOT_OUT}
          %k0 = ktdf.create_token : !ktdf.token
          %k1 = ktdf.create_token : !ktdf.token
          ktdf.private_yield %q0, %q1, %k0, %k1 : {SLOT_IN}, {SLOT_OUT}, !ktdf.token, !ktdf.token
        }}
        ktdf.stage depends_in(none) depends_out(%t0) {{
          ktdf.data_transfer from %in[{row}, 0] size [1, 64] to %f size [64] : {tile}, {SLOT_IN}
        }} {{applicable_units = ["L1LU"]}}
        ktdf.stage depends_in(%t0) depends_out(%t1) {{
          %x = ktdf.read_from_fifo %f : <"L1LU" -> "SFU", 64xf16> -> tensor<64xf16>
          ktdf.write_to_fifo %x, %g : tensor<64xf16>, <"SFU" -> "L1SU", 64xf16>
        }} {{applicable_units = ["SFU"]}}
        ktdf.stage depends_in(%t1) depends_out(none) {{
          ktdf.data_transfer from %g size [64] to {stores_to}[{row}, 0] size [1, 64] : {SLOT_OUT}, {tile}
        }} {{applicable_units = ["L1SU"]}}
      }}"""
    if instances is not None:
        inner = (
            f"ktdf.parallel (%j, %n) = (%c0) to ({trips}) step (%c1) distribute(num_instances = {instances})"
            f" {{ {inner} ktdf.parallel_yield }}"
        )
    elif loops:
        inner = loop(inner, trips, "%j")
    if outer:
        inner = loop(inner, "%c4", "%o")
    return f"""
    ktdf.pipeline {{
      %in, %out, %t2, %t3 = ktdf.private -> ({tile}, {tile}, !ktdf.token, !ktdf.token) {{
        %a0 = arith.constant 0 : index
        %m0 = builtin.unrealized_conversion_cast %a0 : index to {tile}
        %a1 = arith.constant {128 * rows} : index
        %m1 = builtin.unrealized_conversion_cast %a1 : index to {tile}
        %k2 = ktdf.create_token : !ktdf.token
        %k3 = ktdf.create_token : !ktdf.token
        ktdf.private_yield %m0, %m1, %k2, %k3 : {tile}, {tile}, !ktdf.token, !ktdf.token
      }}
      ktdf.stage depends_in(none) depends_out(%t2) {{
        ktdf.data_transfer from %src[0, 0] size [{rows}, 64] to %in[0, 0] size [{rows}, 64] : memref<16x64xf16, "DDR">, {tile}
      }} {{applicable_units = ["MNILU"]}}
      ktdf.stage depends_in(%t2) depends_out(%t3) {{
        {inner}
      }} {{applicable_units = ["L1LU", "SFU", "L1SU"]}}
      ktdf.stage depends_in(%t3) depends_out(none) {{
        ktdf.data_transfer from {stores_to}[0, 0] size [{rows}, 64] to %dst[0, 0] size [{rows}, 64] : {tile}, memref<16x64xf16, "DDR">
      }} {{applicable_units = ["MNISU"]}}
    }}"""


def program(
    body: str, *, head: str = "", grid: str = "[2 : index]", arguments: str = "%p: index, %q: index"
) -> str:
    """A kernel with one program whose work is `body`; %src and %dst are views of %p and %q."""
    types = ", ".join(["index"] * arguments.count(":"))
    names = ", ".join(re.findall(r"%\w+", arguments))
    return f"""
    #id = affine_map<(d0, d1) -> (d0, d1)>
    #all = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 63 >= 0)>
    module {{
      module {{
        func.func @kernel({arguments}) attributes {{grid = {grid}}} {{
          call @local_schedule_0({names}) : ({types}) -> ()
          return
        }}
        func.func private @local_schedule_0({types})
      }}
      module @local_schedule_0 {{
        func.func @local_schedule_0({arguments}) attributes {{grid = {grid}}} {{
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %c4 = arith.constant 4 : index
          %c8 = arith.constant 8 : index
          %tid = ktdp.get_compute_tile_id : index
          {VIEW.format(n="p", s="src")}
          {VIEW.format(n="q", s="dst")}
          {head}
          {body}
          return
        }}
      }}
    }}"""


def loop(body: str, upper: str = "%c8", name: str = "%i") -> str:
    return f"scf.for {name} = %c0 to {upper} step %c1 {{ {body} }}"


ROW = "%base = arith.muli %tid, %c8 : index"
STEP = "%r = arith.addi %base, %i : index\n"
SIMPLE = program(loop(STEP + pipeline()), head=ROW)


def parse(text: str) -> Module:
    module = ktir.parse(text)
    ktir.verify(module)
    return module


def flow(text: str, guard: BackedgeGuard = BackedgeGuard.LINEAR) -> Module:
    module = lower_to_ktdflow(parse(text), SAMPLE, guard)
    ktir.verify(module)
    return module


def dfir(text: str, profile: Profile = Profile.DEFAULT) -> Module:
    module = lower_to_dfir(flow(text), SAMPLE, profile)
    ktir.verify(module)
    printed = ktir.print_module(module)
    assert ktir.print_module(ktir.parse(printed)) == printed
    return module


def find(module: Operation, *classes: type[Operation]) -> list[Operation]:
    return [op for op in module.walk() if isinstance(op, classes)]


def refused(text: str, message: str, profile: Profile = Profile.DEFAULT) -> None:
    with pytest.raises(LoweringError, match=re.escape(message)) as caught:
        dfir(text, profile)
    assert caught.value.diagnostics[0].location is not None


def unit(module: Module, kind: str) -> dataflow.ProgramUnit:
    """The program unit of a kind."""
    handles = {op.results[0]: op for op in module.walk() if isinstance(op, dataflow.GetUnit)}
    for op in module.walk():
        if isinstance(op, dataflow.ProgramUnit) and handles[op.units[0]].kind.value == kind:
            return op
    raise AssertionError(kind)


def names_in(op: Operation) -> list[str]:
    return [inner.name.partition(".")[2] for inner in op.walk()]


def constants(module: Module, values: Sequence[object]) -> list[int] | None:
    """The numbers behind values, None if one is no constant."""
    known = {op.results[0]: op for op in module.walk() if isinstance(op, arith.Constant)}
    found = []
    for value in values:
        op = known.get(value)  # type: ignore[call-overload]
        if op is None or not isinstance(op.value, IntegerAttr):
            return None
        found.append(op.value.value)
    return found
