"""Kernels with loops, guards, several groups and layouts: executed after every pass, compared with NumPy."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from schedule_oracle import Pointer, execute

import dfsched
import ktir
from dfsched.passes.base import Group
from dfsched.passes.memory_accesses import is_injective
from dfsched.passes.pinned_ranges import pinned_ranges
from ktir.attributes import StringAttr

QUAD = str(Path(__file__).parent / "devices" / "quad.mlir")
DEVICES = ["sample", "spyre", QUAD]


def box(shape: tuple[int, ...]) -> str:
    names = ", ".join(f"d{i}" for i in range(len(shape)))
    rules = ", ".join(f"d{i} >= 0, -d{i} + {n - 1} >= 0" for i, n in enumerate(shape))
    return f"affine_set<({names}) : ({rules})>"


def identity(rank: int) -> str:
    names = ", ".join(f"d{i}" for i in range(rank))
    return f"affine_map<({names}) -> ({names})>"


def strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def dims(shape: tuple[int, ...], element: str) -> str:
    return "x".join([*map(str, shape), element])


def view(
    name: str, base: str, shape: tuple[int, ...], element: str = "f16", space: str = "global",
    steps: tuple[int, ...] | None = None,
) -> str:  # fmt: skip
    return (
        f"%{name} = ktdp.construct_memory_view {base}, sizes: {list(shape)}, "
        f"strides: {list(steps or strides(shape))} {{coordinate_set = {box(shape)}, "
        f"memory_space = #ktdp.memory_space<{space}>}} : memref<{dims(shape, element)}>\n"
    )


def tile(
    name: str, source: str, view_shape: tuple[int, ...], indices: str, shape: tuple[int, ...],
    element: str = "f16", order: str | None = None, result: tuple[int, ...] | None = None,
) -> str:  # fmt: skip
    return (
        f"%{name} = ktdp.construct_access_tile %{source}[{indices}] {{access_tile_set = {box(shape)}, "
        f"access_tile_order = {order or identity(len(shape))}}} : memref<{dims(view_shape, element)}> -> "
        f"!ktdp.access_tile<{dims(result or shape, 'index')}>\n"
    )


def load(name: str, source: str, shape: tuple[int, ...], element: str = "f16") -> str:
    return f"%{name} = ktdp.load %{source} : <{dims(shape, 'index')}> -> tensor<{dims(shape, element)}>\n"


def store(value: str, target: str, shape: tuple[int, ...], element: str = "f16") -> str:
    return f"ktdp.store %{value}, %{target} : tensor<{dims(shape, element)}>, <{dims(shape, 'index')}>\n"


def kernel(arguments: str, grid: str, body: str) -> str:
    constants = "".join(f"%c{n} = arith.constant {n} : index\n" for n in (0, 1, 2, 3, 4, 8))
    return (
        f"func.func @k({arguments}) attributes {{grid = {grid}}} {{\n{constants}"
        f"%t = ktdp.get_compute_tile_id : index\n{body}return\n}}"
    )


def run(text: str, device: str, wanted: dict[str, np.ndarray], **arguments: Any) -> dfsched.Compiled:
    """Compile, execute after every pass from the first one with pipelines, compare the named arrays."""
    module = ktir.parse(text)
    compiled = dfsched.compile(module, device, dfsched.Options(emit="schedule"))
    names = [result.name for result in compiled.passes]
    done: list[ktir.Module] = []
    for result in compiled.passes[names.index("construct-three-stage-pipeline") :]:
        if result.group is Group.BACKEND:
            break
        if any(result.module is module for module in done):
            continue
        done.append(result.module)
        arrays = {n: a.copy() for n, a in arguments.items() if isinstance(a, np.ndarray)}
        values = {n: Pointer(arrays[n].reshape(-1)) if n in arrays else a for n, a in arguments.items()}
        execute(result.module, "k", values)
        for name, array in wanted.items():
            np.testing.assert_array_equal(arrays[name], array, err_msg=f"{name} after {result.name}")
    return compiled


def integers(shape: tuple[int, ...], dtype: type = np.float16, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(dtype)


@pytest.mark.parametrize("device", DEVICES)
def test_shifted_add(device: str) -> None:
    """Kernel (a) of the demo in small: rows shifted by a scalar argument, base addresses as arguments."""
    shape, block = (6, 72), (3, 72)
    body = (
        "%r = arith.muli %t, %c3 : index\n%s = arith.addi %r, %shift : index\n"
        + view("va", "%a", (8, 72)) + view("vb", "%b", (8, 72)) + view("vo", "%o", shape)
        + tile("ta", "va", (8, 72), "%s, %c0", block) + tile("tb", "vb", (8, 72), "%s, %c0", block)
        + tile("to", "vo", shape, "%r, %c0", block)
        + load("x", "ta", block) + load("y", "tb", block)
        + "%z = arith.addf %x, %y : tensor<3x72xf16>\n" + store("z", "to", block)
    )  # fmt: skip
    text = kernel("%a: index, %b: index, %o: index, %shift: index", "[2]", body)
    a, b = integers((8, 72)), integers((8, 72), seed=2)
    for shift in (0, 2):
        wanted = {"o": a[shift : shift + 6] + b[shift : shift + 6]}
        run(text, device, wanted, a=a, b=b, o=np.zeros(shape, np.float16), shift=shift)


def stick_tiled(array: np.ndarray, lanes: int = 64) -> np.ndarray:
    """``(rows, columns)`` as ``(sticks, rows, lanes)``, padded with zeros."""
    rows, columns = array.shape
    sticks = -(-columns // lanes)
    padded = np.zeros((rows, sticks * lanes), array.dtype)
    padded[:, :columns] = array
    return np.ascontiguousarray(padded.reshape(rows, sticks, lanes).transpose(1, 0, 2))


@pytest.mark.parametrize("device", DEVICES)
def test_stick_tiled_chain(device: str) -> None:
    """Kernel (b) of the demo in small, with stick-tiled views: a row and a column broadcast."""
    rows, columns = 8, 100
    x, y, z = integers((rows, columns)), integers((1, columns), seed=2), integers((rows, 1), seed=3)
    shape, block = (2, 8, 64), (2, 4, 64)
    maps = (
        "affine_map<(d0, d1, d2) -> (d0, 0, d2)>", "affine_map<(d0, d1, d2) -> (0, d1, 0)>",
    )  # fmt: skip
    kind = "tensor<2x4x64xf16>"
    body = (
        "%r = arith.muli %t, %c4 : index\n"
        + view("vx", "%x", shape)
        + view("vy", "%y", (2, 1, 64))
        + view("vz", "%z", (1, 8, 64))
        + view("vo", "%o", shape)
        + tile("tx", "vx", shape, "%c0, %r, %c0", block)
        + tile("ty", "vy", (2, 1, 64), "%c0, %c0, %c0", (2, 1, 64))
        + tile("tz", "vz", (1, 8, 64), "%c0, %r, %c0", (1, 4, 1))
        + tile("to", "vo", shape, "%c0, %r, %c0", block)
        + load("a", "tx", block)
        + load("b", "ty", (2, 1, 64))
        + load("c", "tz", (1, 4, 1))
        + f"%e = tensor.empty() : {kind}\n"
        + f"%m = linalg.generic {{indexing_maps = [{identity(3)}, {maps[0]}, {maps[1]}, {identity(3)}], "
        + 'iterator_types = ["parallel", "parallel", "parallel"]} '
        + f"ins(%a, %b, %c : {kind}, tensor<2x1x64xf16>, tensor<1x4x1xf16>) outs(%e : {kind}) {{\n"
        + "^bb0(%i: f16, %j: f16, %l: f16, %q: f16):\n%p = arith.mulf %i, %j : f16\n"
        + f"%s = arith.addf %p, %l : f16\nlinalg.yield %s : f16\n}} -> {kind}\n"
        + f"%k = arith.constant dense<0.0> : {kind}\n%w = arith.maximumf %m, %k : {kind}\n"
        + store("w", "to", block)
    )
    text = kernel("%x: index, %y: index, %z: index, %o: index", "[2]", body)
    wide = [np.pad(x, ((0, 0), (0, 28))), np.pad(y, ((0, 0), (0, 28))), z]
    wanted = {"o": stick_tiled(np.maximum(wide[0] * wide[1] + wide[2], np.float16(0)))}
    run(text, device, wanted, x=stick_tiled(x), y=stick_tiled(y), z=stick_tiled(z),
        o=np.zeros(shape, np.float16))  # fmt: skip


def rows_copy(view_rows: int, source: str, target: str, row: str, op: str) -> str:
    """Two rows from one tensor to another through an operation."""
    shape, block = (view_rows, 72), (2, 72)
    return (
        tile(f"t{source}{target}", f"v{source}", shape, f"{row}, %c0", block)
        + tile(f"u{source}{target}", f"v{target}", shape, f"{row}, %c0", block)
        + load(f"x{source}{target}", f"t{source}{target}", block)
        + f"%y{source}{target} = {op} : tensor<2x72xf16>\n".replace("$", f"%x{source}{target}")
        + store(f"y{source}{target}", f"u{source}{target}", block)
    )


@pytest.mark.parametrize("device", DEVICES)
def test_two_groups_in_a_uniform_loop(device: str) -> None:
    """The coordinator loops, two programs hand over through memory, the loop variable is a launch parameter."""
    views = "".join(view(f"v{n}", f"%{n}", (8, 72)) for n in "abc")
    body = (
        views + "scf.for %s = %c0 to %c8 step %c2 {\n"
        + rows_copy(8, "a", "b", "%s", "arith.addf $, $")
        + rows_copy(8, "b", "c", "%s", "arith.negf $") + "}\n"
    )  # fmt: skip
    a = integers((8, 72))
    zero = np.zeros_like(a)
    compiled = run(kernel("%a: index, %b: index, %c: index", "[1]", body), device,
                   {"b": a + a, "c": -(a + a)}, a=a, b=zero, c=zero)  # fmt: skip
    assert len(compiled.plans) == 2


@pytest.mark.parametrize("device", DEVICES)
def test_loops_and_guards_of_a_program(device: str) -> None:
    """A loop with bounds from arguments and another step, and a guard on the tile id, enter the program."""
    views = "".join(view(f"v{n}", f"%{n}", (16, 72)) for n in "ab")
    body = (
        views + "%half = arith.muli %t, %c8 : index\n%on = arith.cmpi ne, %t, %c0 : index\n"
        + "scf.if %on {\nscf.for %s = %first to %last step %c2 {\n%row = arith.addi %s, %half : index\n"
        + rows_copy(16, "a", "b", "%row", "arith.addf $, $") + "}\n}\n"
    )  # fmt: skip
    a = integers((16, 72))
    text = kernel("%a: index, %b: index, %first: index, %last: index", "[2]", body)
    for first, last in ((0, 8), (2, 5), (4, 4)):
        wanted = np.zeros_like(a)
        for row in range(8 + first, 8 + last, 2):
            wanted[row : row + 2] = 2 * a[row : row + 2]
        run(text, device, {"b": wanted}, a=a, b=np.zeros_like(a), first=first, last=last)


@pytest.mark.parametrize("device", DEVICES)
def test_in_place(device: str) -> None:
    """Reading and writing the same elements in the same order is fine."""
    body = view("va", "%a", (2, 72)) + rows_copy(2, "a", "a", "%c0", "arith.addf $, $")
    a = integers((2, 72))
    run(kernel("%a: index", "[1]", body), device, {"a": a + a}, a=a)


@pytest.mark.parametrize("device", DEVICES)
def test_rows_that_depend_on_the_row_before(device: str) -> None:
    """Loads and stores of one tensor are fine where their boxes are a constant apart."""
    shape, block = (6, 72), (1, 72)
    body = (
        view("va", "%a", shape) + "scf.for %s = %c0 to %c4 step %c1 {\n%n = arith.addi %s, %c1 : index\n"
        + tile("p", "va", shape, "%s, %c0", block) + tile("q", "va", shape, "%n, %c0", block)
        + load("x", "p", block) + "%y = arith.addf %x, %x : tensor<1x72xf16>\n" + store("y", "q", block) + "}\n"
    )  # fmt: skip
    a = integers(shape)
    wanted = a.copy()
    for row in range(4):
        wanted[row + 1] = wanted[row] + wanted[row]
    run(kernel("%a: index", "[1]", body), device, {"a": wanted}, a=a)


def test_in_place_in_another_order_is_refused() -> None:
    """Vectors are stored while others are still to be loaded, so a shifted in-place update cannot work."""
    body = (
        view("va", "%a", (8, 72)) + tile("p", "va", (8, 72), "%c0, %c0", (2, 72))
        + tile("u", "va", (8, 72), "%c1, %c0", (2, 72)) + load("x", "p", (2, 72)) + store("x", "u", (2, 72))
    )  # fmt: skip
    with pytest.raises(dfsched.UnsupportedKernel, match="also reads in another order") as caught:
        dfsched.compile(
            ktir.parse(kernel("%a: index", "[1]", body)), "sample", dfsched.Options(emit="schedule")
        )
    (diagnostic,) = caught.value.diagnostics
    (note,) = diagnostic.notes
    assert note.message == "it is read here"
    assert diagnostic.location.line == note.location.line + 1


@pytest.mark.parametrize("device", DEVICES)
def test_permuted_order(device: str) -> None:
    """An access tile whose order permutes the view, and a transposing generic."""
    shape, tile_shape = (3, 4, 64), (4, 2, 64)
    body = (
        view("va", "%a", shape) + view("vb", "%b", tile_shape)
        + tile("p", "va", shape, "%c1, %c0, %c0", (2, 4, 64), order="affine_map<(d0, d1, d2) -> (d1, d0, d2)>",
               result=tile_shape)
        + tile("u", "vb", tile_shape, "%c0, %c0, %c0", tile_shape)
        + load("x", "p", tile_shape) + store("x", "u", tile_shape)
    )  # fmt: skip
    a = integers(shape)
    wanted = np.ascontiguousarray(a[1:3].transpose(1, 0, 2))
    run(kernel("%a: index, %b: index", "[1]", body), device, {"b": wanted}, a=a, b=np.zeros_like(wanted))


@pytest.mark.parametrize("device", DEVICES)
def test_transpose_and_broadcast(device: str) -> None:
    """`linalg.transpose` and `linalg.broadcast` become maps of the fused generic."""
    body = (
        view("va", "%a", (72, 4)) + view("vb", "%b", (72,)) + view("vo", "%o", (4, 72))
        + tile("ta", "va", (72, 4), "%c0, %c0", (72, 4)) + tile("tb", "vb", (72,), "%c0", (72,))
        + tile("to", "vo", (4, 72), "%c0, %c0", (4, 72))
        + load("x", "ta", (72, 4)) + load("y", "tb", (72,)) + "%e = tensor.empty() : tensor<4x72xf16>\n"
        + "%p = linalg.transpose ins(%x : tensor<72x4xf16>) outs(%e : tensor<4x72xf16>) permutation = [1, 0]\n"
        + "%q = linalg.broadcast ins(%y : tensor<72xf16>) outs(%e : tensor<4x72xf16>) dimensions = [0]\n"
        + "%z = linalg.sub ins(%p, %q : tensor<4x72xf16>, tensor<4x72xf16>) outs(%e : tensor<4x72xf16>) "
        + "-> tensor<4x72xf16>\n" + store("z", "to", (4, 72))
    )  # fmt: skip
    a, b = integers((72, 4)), integers((72,), seed=2)
    run(kernel("%a: index, %b: index, %o: index", "[1]", body), device, {"o": a.T - b},
        a=a, b=b, o=np.zeros((4, 72), np.float16))  # fmt: skip


@pytest.mark.parametrize("device", DEVICES)
def test_two_stores_share_a_pipeline(device: str) -> None:
    """Checklist G9: load, add, store, mul, store."""
    views = "".join(view(f"v{n}", f"%{n}", (2, 72)) for n in "abc")
    tiles = "".join(tile(f"t{n}", f"v{n}", (2, 72), "%c0, %c0", (2, 72)) for n in "abc")
    body = (
        views + tiles + load("x", "ta", (2, 72)) + "%y = arith.addf %x, %x : tensor<2x72xf16>\n"
        + store("y", "tb", (2, 72)) + "%z = arith.mulf %y, %x : tensor<2x72xf16>\n" + store("z", "tc", (2, 72))
    )  # fmt: skip
    a = integers((2, 72))
    zero = np.zeros_like(a)
    compiled = run(kernel("%a: index, %b: index, %c: index", "[1]", body), device,
                   {"b": a + a, "c": (a + a) * a}, a=a, b=zero, c=zero)  # fmt: skip
    assert len(compiled.plans) == 1


@pytest.mark.parametrize("device", DEVICES)
def test_fill_and_mixed_precision(device: str) -> None:
    """A store of a constant has no loads; f32 arithmetic between f16 operands halves the vector."""
    body = (
        view("va", "%a", (2, 72)) + view("vb", "%b", (2, 72)) + view("vc", "%c", (2, 72), "f32")
        + "".join(tile(f"t{n}", f"v{n}", (2, 72), "%c0, %c0", (2, 72)) for n in "ab")
        + tile("tc", "vc", (2, 72), "%c0, %c0", (2, 72), "f32")
        + "%f = arith.constant 3.0 : f16\n%g = tensor.splat %f : tensor<2x72xf16>\n"
        + load("x", "ta", (2, 72)) + store("g", "tb", (2, 72))
        + "%w = arith.extf %x : tensor<2x72xf16> to tensor<2x72xf32>\n"
        + "%z = arith.mulf %w, %w : tensor<2x72xf32>\n" + store("z", "tc", (2, 72), "f32")
    )  # fmt: skip
    a = integers((2, 72))
    run(kernel("%a: index, %b: index, %c: index", "[1]", body), device,
        {"b": np.full_like(a, 3), "c": a.astype(np.float32) ** 2},
        a=a, b=np.zeros_like(a), c=np.zeros((2, 72), np.float32))  # fmt: skip


@pytest.mark.parametrize("device", DEVICES)
def test_constant_addresses_and_resident_tensors(device: str) -> None:
    """Checklist K6, X8: constant addresses; a tensor pinned in the scratchpad between two programs."""
    shape = (2, 64)
    body = (
        "%p0 = arith.constant 1024 : index\n%p1 = arith.constant 4096 : index\n%p2 = arith.constant 64 : index\n"
        + view("va", "%p0", shape) + view("vb", "%p1", shape) + view("vl", "%p2", shape, space="ct_local")
        + "".join(tile(f"t{n}", f"v{n}", shape, "%c0, %c0", shape) for n in "abl")
        + tile("tm", "vl", shape, "%c0, %c0", shape)
        + load("x", "ta", shape) + "%y = arith.addf %x, %x : tensor<2x64xf16>\n" + store("y", "tl", shape)
        + load("u", "tm", shape) + "%w = arith.negf %u : tensor<2x64xf16>\n" + store("w", "tb", shape)
    )  # fmt: skip
    module = ktir.parse(kernel("", "[1]", body))
    compiled = dfsched.compile(module, device, dfsched.Options(emit="schedule"))
    a = integers(shape)
    memory = bytearray(16384)
    np.frombuffer(memory, np.float16)[1024 : 1024 + 128] = a.reshape(-1)
    execute(compiled.schedule_ir, "k", {}, memory)
    result = np.frombuffer(memory, np.float16)[4096 : 4096 + 128].reshape(shape)
    np.testing.assert_array_equal(result, -(a + a))
    scratchpad = "BANK" if device == QUAD else "LX" if device == "spyre" else "L1"
    for program in compiled.report.programs:
        for pipeline in program.pipelines:
            for buffer in pipeline.buffers:
                if buffer.memory == scratchpad:
                    assert buffer.address + buffer.size <= 128 or buffer.address >= 384


@pytest.mark.parametrize(("unit", "expected"), [("element", (128, 384)), ("byte", (64, 320))])
def test_pinned_ranges_are_bytes(unit: str, expected: tuple[int, int]) -> None:
    """A view of the scratchpad from 64 on, counted as its module says."""
    body = "%p = arith.constant 64 : index\n" + view("v", "%p", (2, 64), space="ct_local")
    module = ktir.parse(kernel("", "[1]", body))
    module = module.replace(attributes={"ktdp.address_unit": StringAttr(unit)})
    assert pinned_ranges(module, dfsched.load_architecture("sample")) == {"L1": (expected,)}


def test_long_chains_and_wide_graphs() -> None:
    """Depth is no limit: 1100 operations in a row, and a value that is used twice 40 times over."""
    body = view("va", "%a", (2, 72)) + view("vb", "%b", (2, 72))
    body += "".join(tile(f"t{n}", f"v{n}", (2, 72), "%c0, %c0", (2, 72)) for n in "ab") + load(
        "x0", "ta", (2, 72)
    )
    body += "".join(f"%x{i + 1} = arith.negf %x{i} : tensor<2x72xf16>\n" for i in range(1100))
    body += "%y0 = arith.addf %x1100, %x1100 : tensor<2x72xf16>\n"
    body += "".join(f"%y{i + 1} = arith.maximumf %y{i}, %y{i} : tensor<2x72xf16>\n" for i in range(40))
    body += store("y40", "tb", (2, 72))
    module = ktir.parse(kernel("%a: index, %b: index", "[1]", body))
    compiled = dfsched.compile(module, "sample", dfsched.Options(emit="schedule", verify=False))
    a = integers((2, 72))
    out = np.zeros_like(a)
    execute(compiled.schedule_ir, "k", {"a": Pointer(a.reshape(-1)), "b": Pointer(out.reshape(-1))})
    np.testing.assert_array_equal(out, a + a)


def test_long_index_arithmetic() -> None:
    """Depth is no limit for addresses either."""
    body = "%s0 = arith.addi %t, %c1 : index\n"
    body += "".join(f"%s{i + 1} = arith.subi %s{i}, %c0 : index\n" for i in range(1100))
    body += view("va", "%a", (8, 72)) + tile("p", "va", (8, 72), "%s1100, %c0", (2, 72))
    body += view("vb", "%b", (8, 72)) + tile("q", "vb", (8, 72), "%s1100, %c0", (2, 72))
    body += load("x", "p", (2, 72)) + store("x", "q", (2, 72))
    module = ktir.parse(kernel("%a: index, %b: index", "[1]", body))
    compiled = dfsched.compile(module, "sample", dfsched.Options(emit="schedule", verify=False))
    a = integers((8, 72))
    out = np.zeros_like(a)
    execute(compiled.schedule_ir, "k", {"a": Pointer(a.reshape(-1)), "b": Pointer(out.reshape(-1))})
    np.testing.assert_array_equal(out[1:3], a[1:3])


def test_types_that_the_device_does_not_compute() -> None:
    """A located error instead of one element at a time."""
    body = (
        view("va", "%a", (2, 8), "f64") + tile("p", "va", (2, 8), "%c0, %c0", (2, 8), "f64")
        + load("x", "p", (2, 8), "f64") + "%y = arith.addf %x, %x : tensor<2x8xf64>\n" + store("y", "p", (2, 8), "f64")
    )  # fmt: skip
    with pytest.raises(dfsched.UnsupportedKernel, match="SFU does not compute on f64") as caught:
        dfsched.compile(
            ktir.parse(kernel("%a: index", "[1]", body)), "sample", dfsched.Options(emit="schedule")
        )
    (diagnostic,) = caught.value.diagnostics
    (note,) = diagnostic.notes
    assert note.message.startswith("it computes on ")
    names = note.message.removeprefix("it computes on ").split(", ")
    assert {"f16", "f32", "i32"} <= set(names)
    assert "f64" not in names


@pytest.mark.parametrize(
    ("sizes", "steps", "wanted"),
    [
        ((4, 8), (8, 1), True),
        ((4, 8), (2, 1), False),
        ((4, 8), (1, 4), True),
        ((4, 1), (0, 1), False),
        ((), (), True),
    ],
)
def test_views_whose_elements_overlap(sizes: tuple[int, ...], steps: tuple[int, ...], wanted: bool) -> None:
    """In-place updates need views whose indices are different elements."""
    assert is_injective(sizes, steps) is wanted
