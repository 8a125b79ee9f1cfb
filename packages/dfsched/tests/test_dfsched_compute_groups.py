"""Device declaration, legality and compute groups: text in, text out, on two devices (scheduler spec 3.1 - 3.3)."""

from __future__ import annotations

from pathlib import Path

import pytest

import dfsched
import ktir
from dfsched.errors import ArchitectureError
from dfsched.passes import compute_group_extraction, ensure_device_declaration, ktir_legality_check
from dfsched.passes.base import PassContext
from dfsched.passes.ensure_device_declaration import declare

QUAD = str(Path(__file__).parent / "devices" / "quad.mlir")
DEVICES = ["sample", QUAD]


def context(device: str = "sample", profile: str = "default") -> PassContext:
    return PassContext(dfsched.load_architecture(device), dfsched.Options(profile=profile))


def view(name: str, base: str, rows: int = 8) -> str:
    return (
        f"%{name} = ktdp.construct_memory_view {base}, sizes: [{rows}, 64], strides: [64, 1] "
        f"{{coordinate_set = affine_set<(d0, d1) : (d0 >= 0, -d0 + {rows - 1} >= 0, d1 >= 0, -d1 + 63 >= 0)>, "
        f"memory_space = #ktdp.memory_space<global>}} : memref<{rows}x64xf16>\n"
    )


def tile(name: str, base: str, row: str, rows: int = 8) -> str:
    return (
        f"%{name} = ktdp.construct_access_tile %{base}[{row}, %c0] {{access_tile_set = affine_set<(d0, d1) : "
        "(d0 >= 0, -d0 + 1 >= 0, d1 >= 0, -d1 + 63 >= 0)>, access_tile_order = affine_map<(d0, d1) -> "
        f"(d0, d1)>}} : memref<{rows}x64xf16> -> !ktdp.access_tile<2x64xindex>\n"
    )


def load(name: str, source: str) -> str:
    return f"%{name} = ktdp.load %{source} : <2x64xindex> -> tensor<2x64xf16>\n"


def store(value: str, target: str) -> str:
    return f"ktdp.store %{value}, %{target} : tensor<2x64xf16>, <2x64xindex>\n"


def add(name: str, a: str, b: str) -> str:
    return f"%{name} = arith.addf %{a}, %{b} : tensor<2x64xf16>\n"


HEAD = (
    "%c0 = arith.constant 0 : index\n%c2 = arith.constant 2 : index\n%c6 = arith.constant 6 : index\n"
    "%t = ktdp.get_compute_tile_id : index\n"
)


def kernel(body: str, arguments: str = "%a: index, %b: index, %c: index", grid: str = "[2]") -> ktir.Module:
    return ktir.parse(
        f"func.func @k({arguments}) attributes {{grid = {grid}, note}} {{\n{HEAD}{body}return\n}}"
    )


def extract(module: ktir.Module, device: str = "sample") -> ktir.Module:
    ktir.verify(module)
    result = compute_group_extraction.run(module, context(device))
    ktir.verify(result)
    return result


def lines(module: ktir.Module, *needles: str) -> list[str]:
    return [
        line.strip()
        for line in ktir.print_module(module).splitlines()
        if any(needle in line for needle in needles)
    ]


# -- device


@pytest.mark.parametrize("device", DEVICES)
def test_declaration_is_inserted_first(device: str) -> None:
    """Checklist E2, P3."""
    module = ktir.parse("func.func @k() {\nreturn\n}")
    declared, architecture = declare(module, device)
    first = ktir.print_module(declared).splitlines()[1]
    path = "sample" if device == "sample" else device
    assert first == f'  ktdf_arch.device @{architecture.name} import("{path}")'
    again, _ = declare(declared, "spyre")
    assert again is declared


def test_pass_declares_the_context_device() -> None:
    """Checklist E1: text in, text out."""
    module = ktir.parse("func.func @k() {\nreturn\n}")
    declared = ensure_device_declaration.run(module, context())
    assert lines(declared, "ktdf_arch") == ['ktdf_arch.device @sample_device import("sample_device")']
    assert ensure_device_declaration.run(declared, context(QUAD)) is declared


def test_no_device_anywhere(tmp_path: Path) -> None:
    """Checklist P2, E3: every way to have no device has its own message."""
    module = ktir.parse("func.func @k() {\nreturn\n}")
    with pytest.raises(ArchitectureError, match="declares no device and none is given"):
        declare(module, None)
    with pytest.raises(dfsched.DfschedError, match="no device 'nowhere'"):
        declare(module, "nowhere")
    empty = tmp_path / "empty.mlir"
    empty.write_text("module {}")
    with pytest.raises(ArchitectureError):
        declare(module, str(empty))
    broken = tmp_path / "broken.mlir"
    broken.write_text("module {")
    with pytest.raises(ktir.ParseError):
        declare(module, str(broken))


# -- legality


def illegal(text: str, profile: str = "default") -> list[str]:
    module = ktir.parse(text)
    with pytest.raises(dfsched.UnsupportedKernel) as caught:
        ktir_legality_check.run(module, context(profile=profile))
    assert all(d.location is not None for d in caught.value.diagnostics)
    return [d.message for d in caught.value.diagnostics]


def legal(text: str, profile: str = "default") -> None:
    module = ktir.parse(text)
    assert ktir_legality_check.run(module, context(profile=profile)) is module


TENSORS = "%x: tensor<4x64xf16>, %e: tensor<4x64xf16>, %i: index"


def body(text: str) -> str:
    return f"func.func @k({TENSORS}) {{\n{text}\nreturn\n}}"


def generic(op: str) -> str:
    return body(
        "%y = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> "
        '(d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x64xf16>) '
        f"outs(%e : tensor<4x64xf16>) {{\n^bb0(%p: f16, %q: f16):\n{op}\nlinalg.yield %r : f16\n}} "
        "-> tensor<4x64xf16>"
    )


CARRIED = body(
    "%r = scf.for %j = %i to %i step %i iter_args(%v = %x) -> (tensor<4x64xf16>) {\n"
    "scf.yield %v : tensor<4x64xf16>\n}"
)
PLAIN = body("scf.for %j = %i to %i step %i {\nscf.for %l = %i to %i step %i {\n}\n}")
TYPE = "tensor<4x64xf16>"


def named(op: str) -> str:
    return body(f"%y = linalg.{op} ins(%x, %x : {TYPE}, {TYPE}) outs(%e : {TYPE}) -> {TYPE}")


def test_loops_with_carried_values_are_rejected() -> None:
    """Checklist L1."""
    assert illegal(CARRIED) == ["'scf.for': loop-carried values are not supported yet"]
    v1 = illegal(CARRIED, "v1")
    assert v1 == ["V1 does not support scf.for with loop-carried arguments (iter_args)"]
    legal(PLAIN)
    legal(PLAIN, "v1")


@pytest.mark.parametrize("profile", ["default", "v1"])
def test_a_grid_fits_the_device(profile: str) -> None:
    """A core a compute tile: refused before any work is spent on it."""
    for grid, tiles in (("[33]", 33), ("[4000]", 4000), ("[8, 5]", 40)):
        text = f"func.func @k() attributes {{grid = {grid}}} {{\nreturn\n}}"
        expected = f"the grid {grid} has {tiles} compute tiles, device 'sample_device' has 32 cores"
        assert illegal(text, profile) == [expected]
    assert illegal('func.func @k() attributes {grid = "four"} {\nreturn\n}', profile) == [
        'the grid must be an array of integers, not "four"'
    ]
    legal("func.func @k() attributes {grid = [8, 4]} {\nreturn\n}", profile)


def test_v1_named_operations() -> None:
    """Checklist L3: under the v1 profile only add, mul, sub and reduce."""
    message = "V1 only supports add/mul/sub/reduce compute ops; found unsupported compute op"
    for op in ("add", "mul", "sub"):
        legal(named(op), "v1")
    assert illegal(named("div"), "v1") == [message]
    legal(named("div"))
    fill = body(f"%f = arith.constant 1.0 : f16\n%y = linalg.fill ins(%f : f16) outs(%e : {TYPE}) -> {TYPE}")
    assert illegal(fill, "v1") == [message]
    legal(fill)


def test_v1_generic_bodies() -> None:
    """Checklist L4, L6, L7: the error is at the body operation; only the first one under v1."""
    legal(generic("%r = arith.addf %p, %q : f16"), "v1")
    text = generic("%k = arith.constant 2.0 : f16\n%r = arith.divf %p, %k : f16")
    module = ktir.parse(text)
    with pytest.raises(dfsched.UnsupportedKernel) as caught:
        ktir_legality_check.run(module, context(profile="v1"))
    (found,) = caught.value.diagnostics
    assert found.message == "V1 only supports add/mul/sub compute ops; found unsupported compute op"
    assert found.location is not None
    where = found.location.file_line_column()
    assert where is not None
    assert text.splitlines()[where[1] - 1].startswith("%k = arith.constant")
    legal(text)
    legal(body(f"%s = math.sqrt %x : {TYPE}"), "v1")


def test_everything_wrong_is_reported() -> None:
    """The default profile lists all violations, in program order."""
    text = body(
        f"%m = arith.addf %x, %x : {TYPE}\n"
        "%c = tensor.insert_slice %x into %x[0, 0] [4, 64] [1, 1] : tensor<4x64xf16> into tensor<4x64xf16>\n"
        "%w = scf.if %b -> (index) {\nscf.yield %i : index\n} else {\nscf.yield %i : index\n}"
    ).replace("%i: index", "%i: index, %b: i1")
    found = illegal(text)
    assert found == [
        "'tensor.insert_slice': tensors that are put together are not supported yet",
        "'scf.if': conditions with results are not supported yet",
    ]


# -- groups


@pytest.mark.parametrize("device", DEVICES)
def test_one_chain_becomes_one_program(device: str) -> None:
    """Checklist G2, G4, G5, G6, G7 (text in, text out)."""
    module = kernel(
        view("va", "%a") + view("vb", "%b") + "%r = arith.muli %t, %c2 : index\n"
        + tile("ta", "va", "%r") + tile("tb", "vb", "%r") + load("x", "ta") + add("y", "x", "x") + store("y", "tb")
    )  # fmt: skip
    module, _ = declare(module, device)
    text = ktir.print_module(extract(module, device))
    assert lines(ktir.parse(text), "module", "func.func", "call") == [
        "module {",
        "module {",
        "func.func @k(%a: index, %b: index, %c: index) attributes {grid = [2], note} {",
        "call @local_schedule_0(%a, %b) : (index, index) -> ()",
        "func.func private @local_schedule_0(index, index)",
        "module @local_schedule_0 {",
        "func.func @local_schedule_0(%a: index, %b: index) attributes {grid = [2], "
        'ktdf.arguments = ["address", "address"]} {',
    ]
    coordinator, program = text.split("module @local_schedule_0")
    assert "\n  ktdf_arch.device" in coordinator
    for op in ("get_compute_tile_id", "construct_memory_view", "ktdp.load", "ktdp.store"):
        assert op in program
        assert op not in coordinator


def test_a_kernel_without_stores_is_left_alone() -> None:
    """Checklist G1."""
    module = kernel("")
    assert compute_group_extraction.run(module, context()) is module


def two_groups(first: str = "", last: str = "") -> str:
    return (
        view("va", "%a") + view("vb", "%b") + view("vc", "%c") + first
        + tile("ta", "va", "%s") + tile("tb", "vb", "%s") + load("x", "ta") + add("y", "x", "x") + store("y", "tb")
        + tile("td", "vb", "%s") + tile("tc", "vc", "%s") + load("u", "td") + add("w", "u", "u") + store("w", "tc")
        + last
    )  # fmt: skip


def test_uniform_loops_with_several_groups_stay_in_the_coordinator() -> None:
    """Checklist G3, G5, G7, G8; readings item 1."""
    module = kernel(two_groups("scf.for %s = %c0 to %c6 step %c2 {\n", "}\n"))
    text = ktir.print_module(extract(module))
    assert lines(ktir.parse(text), "call", "scf.for", "ktdf.arguments") == [
        "scf.for %arg0 = %c0 to %c6 step %c2 {",
        "func.call @local_schedule_0(%a, %arg0, %b) : (index, index, index) -> ()",
        "func.call @local_schedule_1(%b, %arg0, %c) : (index, index, index) -> ()",
        "func.func @local_schedule_0(%a: index, %s: index, %b: index) attributes {grid = [2], "
        'ktdf.arguments = ["address", "parameter", "address"]} {',
        "func.func @local_schedule_1(%b: index, %s: index, %c: index) attributes {grid = [2], "
        'ktdf.arguments = ["address", "parameter", "address"]} {',
    ]


def test_loops_of_one_group_enter_the_program() -> None:
    """Readings item 1: the units loop; a bound may be a launch parameter."""
    inner = (
        tile("ta", "va", "%s") + tile("tb", "vb", "%s") + load("x", "ta") + add("y", "x", "x") + store("y", "tb")
    )  # fmt: skip
    module = kernel(
        view("va", "%a") + view("vb", "%b") + "scf.for %s = %c0 to %n step %c2 {\n" + inner + "}\n",
        "%a: index, %b: index, %n: index",
    )
    coordinator, program = ktir.print_module(extract(module)).split("module @local_schedule_0")
    assert "scf.for" in program
    assert "scf.for" not in coordinator
    assert '["parameter", "address", "address"]' in program


def test_loops_that_depend_on_the_tile_enter_the_program_whole() -> None:
    """Readings item 1: bounds that differ between tiles cannot stay in the coordinator."""
    module = kernel(two_groups("scf.for %s = %c0 to %t step %c2 {\n", "}\n"))
    text = ktir.print_module(extract(module))
    assert text.count("module @local_schedule") == 1
    assert text.count("ktdp.store") == 2


def test_two_stores_of_one_chain_are_one_group() -> None:
    """Checklist G9."""
    module = kernel(
        view("va", "%a") + view("vb", "%b") + view("vc", "%c")
        + tile("ta", "va", "%c0") + tile("tb", "vb", "%c0") + tile("tc", "vc", "%c0")
        + load("x", "ta") + add("y", "x", "x") + store("y", "tb") + add("z", "y", "x") + store("z", "tc")
    )  # fmt: skip
    text = ktir.print_module(extract(module))
    assert text.count("module @local_schedule") == 1
    assert text.count("ktdp.store") == 2


def test_names_avoid_those_of_the_kernel() -> None:
    """Fixes a name clash of scheduler spec 3.3."""
    module = kernel(two_groups().replace("%s", "%c0"))
    other = ktir.parse("func.func private @local_schedule_0()").operations
    both = module.with_operations((*other, *module.operations))
    text = ktir.print_module(compute_group_extraction.run(both, context()))
    assert "module @local_schedule_1" in text
    assert "module @local_schedule_2" in text


def rejected(body: str, arguments: str = "%a: index, %b: index, %c: index") -> str:
    with pytest.raises(dfsched.ScheduleError) as caught:
        compute_group_extraction.run(kernel(body, arguments), context())
    assert caught.value.diagnostics[0].location is not None
    return caught.value.diagnostics[0].message


VIEWS = view("va", "%a") + view("vb", "%b")


def test_broken_groups_are_located_errors() -> None:
    """Checklist G10 and the demands of scheduler spec 3.3."""
    tiles = tile("ta", "va", "%c0") + tile("tb", "vb", "%c0")
    assert rejected(VIEWS + tiles + load("x", "ta") + load("y", "ta") + store("y", "tb")) == (
        "this load feeds no store of its block"
    )
    loop = "scf.for %s = %c0 to %c6 step %c2 {\n" + store("x", "tb") + "}\n"
    assert "comes from a 'ktdp.load' in another block" in rejected(VIEWS + tiles + load("x", "ta") + loop)


def test_interleaved_groups_that_touch_the_same_memory() -> None:
    """A group runs as a whole: a conflicting access in between is an error, a harmless one is not."""
    tiles = "".join(tile(f"t{v}{i}", f"v{v}", "%c0") for v in "ab" for i in "12") + tile("tc", "vc", "%c0")
    text = VIEWS + view("vc", "%c") + tiles
    interleaved = load("x", "ta1") + load("u", "tb1") + store("x", "tb2") + store("u", "tc")
    message = "this access is interleaved with a compute group that touches the same memory"
    order = load("u", "tb1") + load("x", "ta1") + store("x", "tb2") + store("u", "tc")
    assert rejected(text + interleaved) == message
    extract(kernel(text + order))


def test_starts_of_views() -> None:
    """Readings item 1, 5: a start is an argument plus what is constant for the tile."""
    good = "%o = arith.muli %t, %c6 : index\n%p = arith.addi %a, %o : index\n" + view("va", "%p")
    rest = (
        view("vb", "%b")
        + tile("ta", "va", "%c0")
        + tile("tb", "vb", "%c0")
        + load("x", "ta")
        + store("x", "tb")
    )
    extract(kernel(good + rest))
    two = "%p = arith.addi %a, %c : index\n" + view("va", "%p")
    assert "more than one kernel argument" in rejected(two + rest)
    scaled = "%p = arith.muli %a, %c2 : index\n" + view("va", "%p")
    assert "may only add to the kernel argument" in rejected(scaled + rest)
    loop = (
        "scf.for %s = %c0 to %c6 step %c2 {\n%p = arith.addi %a, %s : index\n"
        + view("va", "%p")
        + rest
        + "}\n"
    )
    assert "only exists while the program runs" in rejected(loop)
    both = view("va", "%a") + view("vb", "%b") + tile("ta", "va", "%a") + tile("tb", "vb", "%c0")
    assert "an address and as a scalar" in rejected(both + load("x", "ta") + store("x", "tb"))


def test_a_load_behind_a_store_to_the_same_memory() -> None:
    """All loads of a vector precede its stores, so a group cannot read what it has stored itself."""
    row = "%r = arith.muli %t, %c2 : index\n"
    views = "".join(view(f"{n}v", f"%{n}") + tile(f"{n}t", f"{n}v", "%r") for n in "abc")
    first = load("x", "at") + load("y", "bt")
    in_place = first + add("s", "x", "y") + store("s", "bt")
    dfsched.compile(kernel(row + views + in_place), "sample")
    again = in_place + load("z", "bt") + add("u", "z", "x") + store("u", "ct")
    passes = {r.name: r.module for r in dfsched.compile(kernel(row + views + again), "sample").passes}
    loads = [op for op in passes["forward-stores"].walk() if op.name == "ktdp.load"]
    assert len(loads) == 2  # what was stored is taken from the computation
    one = "%one = arith.constant 1 : index\n"
    other = one + "%r1 = arith.addi %r, %one : index\n" + tile("bu", "bv", "%r1")
    overlapping = in_place + other + load("z", "bu") + add("u", "z", "x") + store("u", "ct")
    with pytest.raises(dfsched.UnsupportedKernel, match="loads memory that it has stored to before"):
        dfsched.compile(kernel(row + views + overlapping), "sample")
