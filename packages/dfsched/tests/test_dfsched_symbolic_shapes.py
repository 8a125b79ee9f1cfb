"""`bind-symbolic-shapes`: text in, text out, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

import dfsched
import ktir
from dfsched.passes import symbolic_shapes
from dfsched.passes.base import PassContext
from dfsched.passes.ir_tools import Definitions
from dfsched.passes.promises import Promise, Promises
from ktir.analysis import DefUse
from ktir.attributes import ArrayAttr, IntegerAttr
from ktir.dialects import arith, func, ktdp, scf
from ktir.types import I64, INDEX

QUAD = str(Path(__file__).parent / "devices" / "quad.mlir")
DEVICES = ["sample", QUAD]
GLOBAL = "#ktdp.memory_space<global>"
ROWS = "affine_set<(r, c)[n] : (r >= 0, -r + n - 1 >= 0, c >= 0, -c + 39 >= 0)>"
LANE = "affine_set<(i)[n] : (i >= 0, -i + n - 1 >= 0)>"
ID1, ID2 = "affine_map<(i) -> (i)>", "affine_map<(r, c) -> (r, c)>"
N = "!ktdp.runtime_arg<index, granularity=4, upperbound=100>"
EXTRACT = f"%m = ktdp.runtime_arg_extract value from %n : {N} -> index\n"


def view(name: str, size: str = "%m", strides: str = "40, 1", space: str = GLOBAL, points: str = ROWS) -> str:
    return (
        f"%{name}v = ktdp.construct_memory_view %{name}, sizes: [{size}, 40], strides: [{strides}] "
        f"{{coordinate_set = {points}, memory_space = {space}}} : memref<?x40xf16>\n"
    )


def tile(name: str, symbol: str = "%m", start: str = "0, 0", points: str = ROWS) -> str:
    return (
        f"%{name}t = ktdp.construct_access_tile %{name}v[{start}] symbols({symbol}) "
        f"{{access_tile_set = {points}, access_tile_order = {ID2}}} : memref<?x40xf16> -> "
        "!ktdp.access_tile<?x40xindex>\n"
    )


LOAD = "%x = ktdp.load %at : <?x40xindex> -> tensor<?x40xf16>\n"
STORE = "ktdp.store %y, %bt : tensor<?x40xf16>, <?x40xindex>\n"
DOUBLE = "%y = arith.addf %x, %x : tensor<?x40xf16>\n"


def kernel(*lines: str, arguments: str = f"%a: index, %b: index, %n: {N}") -> ktir.Module:
    body = "".join(lines)
    return ktir.parse(f"func.func @k({arguments}) attributes {{grid = [2]}} {{\n{body}return\n}}")


def bound(module: ktir.Module, device: str = "sample") -> func.Func:
    context = PassContext(dfsched.load_architecture(device))
    new = symbolic_shapes.run(module, context)
    ktir.verify(new)
    (found,) = (op for op in new.walk() if isinstance(op, func.Func))
    return found


GROUP = (EXTRACT, view("a"), view("b"), tile("a"), tile("b"), LOAD, DOUBLE, STORE)


@pytest.mark.parametrize("device", DEVICES)
def test_loops_over_tiles_of_constant_size(device: str) -> None:
    """Sizes are multiples of the promise, each divides the one before; views are as large as they can be."""
    function = bound(kernel(*GROUP), device)
    loops = [op for op in function.walk() if isinstance(op, scf.For)]
    assert len(loops) == 2
    shapes = [op.result.type.shape for op in function.walk() if isinstance(op, ktdp.Load)]
    assert shapes == [(32, 40), (4, 40)]
    views = [op.result.type for op in function.walk() if isinstance(op, ktdp.ConstructMemoryView)]
    assert [type.shape for type in views] == [(100, 40), (100, 40)]
    assert [str(argument.type) for argument in function.arguments] == ["index", "index", "index"]
    assert not any(isinstance(op, ktdp.RuntimeArgExtract) for op in function.walk())


def test_without_symbols_nothing_changes() -> None:
    module = ktir.parse("func.func @k(%a: index) {\nreturn\n}")
    assert symbolic_shapes.run(module, PassContext(dfsched.load_architecture("sample"))) is module
    symbolic = kernel(*GROUP)
    v1 = PassContext(dfsched.load_architecture("sample"), dfsched.Options(profile="v1"))
    assert symbolic_shapes.run(symbolic, v1) is symbolic


def test_a_second_run_changes_nothing() -> None:
    context = PassContext(dfsched.load_architecture("sample"))
    once = symbolic_shapes.run(kernel(*GROUP), context)
    assert symbolic_shapes.run(once, context) is once


def test_what_a_type_promises_is_a_constant() -> None:
    lines = (
        f"%g = ktdp.runtime_arg_extract granularity from %n : {N} -> index\n",
        f"%u = ktdp.runtime_arg_extract upperbound from %n : {N} -> index\n",
        view("a", "%u", points="affine_set<(r, c)[n] : (r >= 0, -r + n - 1 >= 0, c >= 0, -c + 39 >= 0)>"),
        "%i = arith.addi %g, %u : index\n",
        '"keep"(%av, %i) : (memref<?x40xf16>, index) -> ()\n',
    )
    module = ktir.parse(f"func.func @k(%a: index, %n: {N}) {{\n{''.join(lines)}return\n}}")
    context = PassContext(dfsched.load_architecture("sample"))
    text = ktir.print_module(symbolic_shapes.run(module, context))
    assert "arith.constant 4 : index" in text
    assert "arith.constant 100 : index" in text
    assert "memref<100x40xf16>" in text


SUM = (
    "%z = arith.constant dense<0.0> : tensor<40xf16>\n"
    "%y = linalg.reduce { arith.addf } ins(%x : tensor<?x40xf16>) outs(%z : tensor<40xf16>) dimensions = [0]\n"
    "%bw = ktdp.construct_memory_view %b, sizes: [40], strides: [1] {coordinate_set = "
    f"affine_set<(i) : (i >= 0, -i + 39 >= 0)>, memory_space = {GLOBAL}}} : memref<40xf16>\n"
    "%bt = ktdp.construct_access_tile %bw[0] {access_tile_set = affine_set<(i) : (i >= 0, -i + 39 >= 0)>, "
    f"access_tile_order = {ID1}}} : memref<40xf16> -> !ktdp.access_tile<40xindex>\n"
    "ktdp.store %y, %bt : tensor<40xf16>, <40xindex>\n"
)
SIZE = 1 << 20  # bytes of the scratchpad of the device
TWICE = "%w = arith.addf %y, %y : tensor<40xf16>\n"


def test_a_reduction_keeps_its_partial_results_where_the_result_goes() -> None:
    """The initial value is stored in front of the loops; each part goes on from what is stored."""
    function = bound(kernel(EXTRACT, view("a"), tile("a"), LOAD, SUM))
    block = function.body.block.operations
    assert [type(op) for op in block if isinstance(op, ktdp.Store | scf.For)] == [
        ktdp.Store,
        scf.For,
        scf.For,
    ]
    loads = [op.result.type.shape for op in function.walk() if isinstance(op, ktdp.Load)]
    assert loads == [(32, 40), (40,), (4, 40), (40,)]


def test_what_is_folded_and_used_again_lies_in_the_scratchpad() -> None:
    """The end of it, where neither the kernel nor others keep anything: all loads and stores of it agree."""
    used = SUM.replace("ktdp.store %y", f"{TWICE}ktdp.store %w")
    module = kernel(EXTRACT, view("a"), tile("a"), LOAD, used)
    keepout = ArrayAttr((ArrayAttr((IntegerAttr(SIZE - 128, I64), IntegerAttr(SIZE, I64))),))
    function = bound(module.replace(attributes={"ktdp.scratchpad_keepout": keepout}))
    places = [
        op for op in function.walk() if isinstance(op, ktdp.ConstructMemoryView) and "ct_local" in str(op)
    ]
    assert [place.type.shape for place in places] == [(40,)]
    definitions = DefUse(function)
    (offset,) = {definitions.definer(place.offset) for place in places}
    assert isinstance(offset, arith.Constant)
    assert offset.value == IntegerAttr((SIZE - 256) // 2, INDEX)
    (access,) = definitions.users(places[0].result)
    users = [type(op) for op in definitions.users(access.results[0])]
    assert users == [ktdp.Store, ktdp.Load, ktdp.Store, ktdp.Load, ktdp.Store, ktdp.Load]


def test_a_place_needs_room() -> None:
    """A kernel that keeps the whole scratchpad for itself."""
    used = SUM.replace("ktdp.store %y", f"{TWICE}ktdp.store %w")
    module = kernel(EXTRACT, view("a"), tile("a"), LOAD, used)
    keepout = ArrayAttr((ArrayAttr((IntegerAttr(0, I64), IntegerAttr(SIZE, I64))),))
    with pytest.raises(dfsched.UnsupportedKernel, match="finds no room beside what the kernel keeps"):
        bound(module.replace(attributes={"ktdp.scratchpad_keepout": keepout}))


BOTH = "affine_set<(r, c)[n, m] : (r >= 0, -r + n - 1 >= 0, c >= 0, -c + m - 1 >= 0)>"


def test_two_symbolic_extents_are_cut_one_after_the_other() -> None:
    """The outer one in few pieces, so that the inner one, along which memory is contiguous, is cut in long ones."""
    wide = [
        tile(name, "%m, %m", points=BOTH).replace("access_tile<?x40xindex>", "access_tile<?x?xindex>")
        for name in "ab"
    ]
    lines = [line.replace("?x40", "?x?") for line in (LOAD, DOUBLE, STORE)]
    function = bound(kernel(EXTRACT, view("a"), view("b"), *wide, *lines))
    shapes = [op.result.type.shape for op in function.walk() if isinstance(op, ktdp.Load)]
    assert shapes == [(4, 32), (4, 4)]


REFUSED = {
    "two extents": (
        (
            EXTRACT,
            "%c1 = arith.constant 1 : index\n%m1 = arith.subi %m, %c1 : index\n",
            view("a"),
            view("b"),
            tile("a"),
            tile("b", "%m1"),
            LOAD,
            DOUBLE,
            STORE,
        ),
        "the access tiles of one compute group have different symbolic extents",
    ),
    "strides": (
        (EXTRACT, view("a", strides="%m, 1").replace("xf16>", "xf16, strided<[?, 1]>>")),
        "the strides of a memory view must be known at compile time",
    ),
    "no box": (
        (
            EXTRACT,
            view("a"),
            view("b"),
            tile("a", points=ROWS.replace("-r + n - 1", "-r - c + n - 1")),
            tile("b"),
            LOAD,
            DOUBLE,
            STORE,
        ),
        "an access tile with symbols must be a box, such as",
    ),
    "in place, elsewhere": (
        (
            EXTRACT,
            view("a"),
            tile("a"),
            tile("a", start="4, 0").replace("%at", "%bt"),
            LOAD,
            DOUBLE,
            STORE,
        ),
        "a compute group that is cut into parts overwrites memory that it also touches elsewhere",
    ),
    "scratchpad without bound": (
        ("%m = arith.addi %n, %n : index\n", view("a", space="#ktdp.memory_space<ct_local>")),
        "nothing bounds a size of the memory view",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_built_is_said_at_its_place(name: str) -> None:
    lines, message = REFUSED[name]
    plain = "scratchpad" in name
    module = kernel(*lines, arguments="%a: index, %b: index, %n: index") if plain else kernel(*lines)
    with pytest.raises(dfsched.UnsupportedKernel) as caught:
        dfsched.compile(module, "sample", dfsched.Options(verify=False))
    (diagnostic,) = caught.value.diagnostics
    assert message in diagnostic.message
    assert diagnostic.location is not None
    assert diagnostic.location.file_line_column() is not None


def test_a_view_without_bound_is_as_large_as_the_memory() -> None:
    lines = (view("a", "%n"), '"keep"(%av) : (memref<?x40xf16>) -> ()\n')
    function = bound(kernel(*lines, arguments="%a: index, %n: index"))
    (found,) = (op for op in function.walk() if isinstance(op, ktdp.ConstructMemoryView))
    memory = dfsched.load_architecture("sample").device_memory
    assert memory is not None
    assert memory.size is not None
    assert found.result.type.shape == (memory.size // 80, 40)


ARITHMETIC = """
func.func @k(%n: index, %x: index) {
  %c3 = arith.constant 3 : index
  %c64 = arith.constant 64 : index
  %sum = arith.addi %n, %n : index
  %scaled = arith.muli %n, %c3 : index
  %least = arith.minsi %x, %c64 : index
  %clamped = arith.maxsi %least, %c3 : index
  %part = arith.divui %scaled, %c64 : index
  %up = arith.ceildivui %scaled, %c64 : index
  %rest = arith.remui %x, %c64 : index
  %product = arith.muli %x, %n : index
  return
}
"""


def test_bounds_of_values() -> None:
    """What is promised of n (a multiple of 8, at most 40) bounds what is computed from it."""
    (function,) = (op for op in ktir.parse(ARITHMETIC).walk() if isinstance(op, func.Func))
    promises = Promises(Definitions(function), {function.arguments[0]: Promise(8, 40)})
    values = {op.results[0].name: op.results[0] for op in function.walk() if op.results}
    upper = {
        name: promises.upper(value) for name, value in values.items() if name[0] != "c" or name == "clamped"
    }
    assert upper == {
        "sum": 80,
        "scaled": 120,
        "least": 64,
        "clamped": 64,
        "part": 1,
        "up": 2,
        "rest": 63,
        "product": None,
    }
    assert [promises.divisor(values[name]) for name in ("sum", "scaled", "rest", "c64")] == [8, 24, 1, 64]
    assert [promises.is_natural(values[name]) for name in ("scaled", "least", "clamped")] == [
        True,
        False,
        True,
    ]
