"""The builder: kernels in Python give the modules that one would write by hand."""

from __future__ import annotations

import operator
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ktir
from ktir.affine import AffineMap, affine_map, affine_set
from ktir.attributes import IntegerAttr, StringAttr
from ktir.builder import BuilderError, Index, Kernel, build_module
from ktir.dialects import arith
from ktir.dialects.ktdp import MemorySpace, Space
from ktir.ir import BlockArgument, Operation, Value
from ktir.layout import StickLayout
from ktir.types import F16, INDEX


def text_of(kernel: Kernel) -> str:
    """The kernel's text, after a round trip through custom and generic form."""
    module = kernel.build()
    text = ktir.print_module(module)
    assert ktir.print_module(ktir.parse(text)) == text
    assert ktir.print_module(ktir.parse(ktir.print_module(module, generic=True))) == text
    return text


def body_of(kernel: Kernel) -> list[str]:
    lines = text_of(kernel).splitlines()
    start = next(i for i, line in enumerate(lines) if "func.func" in line)
    return [line.strip() for line in lines[start + 1 : -3]]


def test_bias_relu_is_the_kernel_written_by_hand() -> None:
    """The kernel of planning spec A.1: stick-major views, three rows a core."""
    k = Kernel("bias_relu", grid=(32,))
    x, b, y = (k.pointer(name) for name in ("x", "b", "y"))
    (core,) = k.tile_id()
    xv = k.view(x, (10, 96, 64), "f16")
    bv = k.view(b, (10, 64), "f16")
    yv = k.view(y, (10, 96, 64), "f16")
    rows = slice(core * 3, core * 3 + 3)
    s = xv[:, rows].load() + bv.load().broadcast((10, 3, 64), 1)
    yv[:, rows] = s.maximum(0)
    by_hand = ktir.parse(
        """
        #all = affine_set<(t, r, e) : (t >= 0, t <= 9, r >= 0, r <= 95, e >= 0, e <= 63)>
        #mine = affine_set<(t, r, e) : (t >= 0, t <= 9, r >= 0, r <= 2, e >= 0, e <= 63)>
        #vec = affine_set<(t, e) : (t >= 0, t <= 9, e >= 0, e <= 63)>
        #id3 = affine_map<(t, r, e) -> (t, r, e)>
        #id2 = affine_map<(t, e) -> (t, e)>
        func.func @bias_relu(%x: index, %b: index, %y: index) attributes {grid = [32]} {
          %z = arith.constant dense<0.0> : tensor<10x3x64xf16>
          %core = ktdp.get_compute_tile_id : index
          %xv = ktdp.construct_memory_view %x, sizes: [10, 96, 64], strides: [6144, 64, 1] {
            coordinate_set = #all, memory_space = #ktdp.memory_space<global> } : memref<10x96x64xf16>
          %bv = ktdp.construct_memory_view %b, sizes: [10, 64], strides: [64, 1] {
            coordinate_set = #vec, memory_space = #ktdp.memory_space<global> } : memref<10x64xf16>
          %yv = ktdp.construct_memory_view %y, sizes: [10, 96, 64], strides: [6144, 64, 1] {
            coordinate_set = #all, memory_space = #ktdp.memory_space<global> } : memref<10x96x64xf16>
          %xt = ktdp.construct_access_tile %xv[0, %core * 3, 0] {
            access_tile_set = #mine, access_tile_order = #id3 } : memref<10x96x64xf16> -> <10x3x64xindex>
          %xd = ktdp.load %xt : <10x3x64xindex> -> tensor<10x3x64xf16>
          %bt = ktdp.construct_access_tile %bv[0, 0] {
            access_tile_set = #vec, access_tile_order = #id2 } : memref<10x64xf16> -> <10x64xindex>
          %bd = ktdp.load %bt : <10x64xindex> -> tensor<10x64xf16>
          %e0 = tensor.empty() : tensor<10x3x64xf16>
          %bb = linalg.broadcast ins(%bd : tensor<10x64xf16>) outs(%e0 : tensor<10x3x64xf16>) dimensions = [1]
          %s = arith.addf %xd, %bb : tensor<10x3x64xf16>
          %r = arith.maximumf %s, %z : tensor<10x3x64xf16>
          %yt = ktdp.construct_access_tile %yv[0, %core * 3, 0] {
            access_tile_set = #mine, access_tile_order = #id3 } : memref<10x96x64xf16> -> <10x3x64xindex>
          ktdp.store %r, %yt : tensor<10x3x64xf16>, <10x3x64xindex>
          return
        }"""
    )
    assert text_of(k) == ktir.print_module(by_hand)


def test_softmax() -> None:
    k = Kernel("softmax", grid=(32,))
    x, y = k.pointer("x"), k.pointer("y")
    (core,) = k.tile_id()
    rows = slice(core * 3, core * 3 + 3)
    data = k.view(x, (10, 96, 64), "f16")[:, rows].load()
    shape, axes = (10, 3, 64), (0, 2)
    p = (data - data.max(axes).broadcast(shape, axes)).exp()
    k.view(y, (10, 96, 64), "f16")[:, rows] = p / p.sum(axes).broadcast(shape, axes)
    body = body_of(k)
    assert "%cst = arith.constant dense<0xFC00> : tensor<3xf16>" in body
    assert sum("linalg.reduce { arith.maximumf }" in line for line in body) == 1
    assert sum("tensor.empty" in line for line in body) == 1, "the same empty tensor serves all"
    assert any("arith.divf" in line for line in body)


def test_matmul_with_carried_accumulator() -> None:
    """The kernel of planning spec A.6."""
    k = Kernel("mm", grid=(4, 2))
    x, w, y = (k.pointer(name) for name in ("x", "w", "y"))
    n, m = k.tile_id()
    xv, wv = k.view(x, (3, 32, 64), "f16"), k.view(w, (4, 192, 64), "f16")
    rows = slice(m * 16, m * 16 + 16)
    with k.loop(0, 3, carry=[k.full((16, 64), 0, "f16")]) as loop:
        i = loop.index
        a = xv[i, rows].load().reshape(16, 64)
        b = wv[n, i * 64 : i * 64 + 64].load().reshape(64, 64)
        loop.carry(a.matmul(b, loop.carried[0]))
    k.view(y, (4, 32, 64), "f16")[n, rows] = loop.results[0].reshape(1, 16, 64)
    body = body_of(k)
    assert "%3 = scf.for %arg0 = %c0 to %c3 step %c1 iter_args(%arg1 = %cst) -> (tensor<16x64xf16>) {" in body
    assert any("ktdp.construct_access_tile %1[%arg0, %0#1 * 16, 0] {" in line for line in body)
    assert any("ktdp.construct_access_tile %2[%0#0, %arg0 * 64, 0] {" in line for line in body)
    assert any("outs(%arg1 : tensor<16x64xf16>)" in line for line in body)
    assert "scf.yield %10 : tensor<16x64xf16>" in body
    assert any("tensor.expand_shape" in line and "[[0, 1], [2]]" in line for line in body)
    signature = ktir.signature(k.build())
    assert [a.role for a in signature] == ["input", "input", "output"]


def test_column_sum_over_tiles() -> None:
    """The kernel of planning spec A.2: partial sums in f32, folded over groups of three tiles."""
    k = Kernel("colsum", grid=(3, 10))
    x, y = k.pointer("x"), k.pointer("y")
    part, t = k.tile_id()
    rows = slice(part * 32, part * 32 + 32)
    partial = k.view(x, (10, 96, 64), "f16")[t, rows].load().to("f32").sum(1)
    team = affine_set("(i)[g] : (i - 3*g >= 0, -i + 3*g + 2 >= 0)")
    zero = k.full((1, 64), 0, "f32")
    total = k.reduce_tiles(partial, operator.add, zero, team, affine_set("(g) : (g >= 0, -g + 9 >= 0)"))
    with k.when(part.equal(0)):
        k.view(y, (10, 64), "f16")[t, :] = total.to("f16")
    body = body_of(k)
    assert any(
        line.startswith("%5 = ktdp.inter_tile_produce producer_tiles_per_group = #set") for line in body
    )
    assert "ktdp.yield_partial %reduced : tensor<1x64xf32>" in body
    assert "%8 = arith.addf %arg0, %arg1 : tensor<1x64xf32>" in body
    assert "ktdp.yield_reduced %8 : tensor<1x64xf32>" in body
    assert "%7 = arith.cmpi eq, %0#0, %c0 : index" in body
    assert "scf.if %7 {" in body


def test_masked_map_with_lanes() -> None:
    """The kernel of planning spec A.3: lanes behind column 130 are minus infinity."""
    k = Kernel("rowmax", grid=(4,))
    x = k.pointer("x")
    (core,) = k.tile_id()
    data = k.view(x, (3, 32, 64), "f16")[:, core * 8 : core * 8 + 8].load()

    def mask(value: ktir.builder.Scalar) -> ktir.builder.Element:
        column = k.lane(0) * 64 + k.lane(2)
        return (column < 130).where(value, float("-inf"))

    assert k.map(mask, data).max((0, 2)).shape == (8,)
    body = body_of(k)
    inside = body[body.index("^bb0(%in: f16, %out: f16):") :]
    assert inside[1:4] == [
        "%c64 = arith.constant 64 : index",
        "%c130 = arith.constant 130 : index",
        "%cst_0 = arith.constant 0xFC00 : f16",
    ]
    assert "%11 = arith.select %10, %in, %cst_0 : f16" in inside
    assert "linalg.yield %11 : f16" in inside


def test_maps_with_broadcast_operands() -> None:
    k = Kernel("k")
    a, b = k.full((4, 8), 1, "f16"), k.full((8,), 2, "f16")
    result = k.map(lambda p, q: p * q + 1, a, b, maps=[AffineMap.identity(2), affine_map("(i, j) -> (j)")])
    assert result.shape == (4, 8)
    assert any("indexing_maps = [#map, #map1, #map]" in line for line in body_of(k))


def test_gather_through_a_page_table() -> None:
    """Spec 1.8's example, checklist 54: captured values in front of intermediate variables."""
    k = Kernel("paged")
    pool, table, y = (k.pointer(name) for name in ("pool", "table", "y"))
    sequence = k.index("sequence")
    pages = k.view(table, (5, 3), "i32")
    tile = k.view(pool, (12, 8, 16), "f16").gather(
        (24, 16), lambda t, l: (pages.at(sequence, t // 8), t % 8, l)
    )
    k.view(y, (24, 16), "f16").store(tile.load())
    assert any(
        "%1[ind(%0[%sequence, %arg0 floordiv 8]), (%arg0 mod 8), (%arg1)] {" in line for line in body_of(k)
    )


def test_slices() -> None:
    k = Kernel("k", grid=(2,))
    x, n = k.pointer("x"), k.index("n")
    (t,) = k.tile_id()
    v = k.view(x, (50, 160), "f32")
    assert v[:].shape == (50, 160)
    assert v[..., 3].shape == (50, 1)
    assert v[5, 0:160:2].shape == (1, 80)
    assert v[t * 10 : t * 10 + 10, 1:40:3].shape == (10, 13)
    assert v[0:n, :].shape == (None, 160)
    assert v.tile((slice(0, 6), slice(0, 20)), order=(1, 0)).shape == (20, 6)
    text = text_of(k)
    assert "affine_set<(d0, d1) : (d0 >= 0, -d0 >= 0, d1 >= 0, -d1 + 158 >= 0, d1 mod 2 == 0)>" in text
    assert "symbols(%n)" in text
    assert "affine_set<(d0, d1)[s0] : (d0 >= 0, -d0 + s0 - 1 >= 0, d1 >= 0, -d1 + 159 >= 0)>" in text


def test_dynamic_views_runtime_arguments_and_layouts() -> None:
    k = Kernel("k")
    layout = StickLayout.default((37, 130), F16)
    x = k.pointer("x", layout=layout)
    rows = k.index("rows", granularity=4, upperbound=64)
    k.view(x, (rows, 64), "f16")
    k.view(x + rows * 64, (111, 64), "f16")
    k.scratchpad(256, (4, 4), "f16")
    k.view(0, (4, 4), "f16", space=MemorySpace(Space.CT_LOCAL, 1))
    text = text_of(k)
    assert (
        f"%x: index {{ktdp.layout = {layout}}}, %rows: !ktdp.runtime_arg<index, granularity=4, upperbound=64>"
        in text
    )
    assert "sizes: [%0, 64], strides: [64, 1]" in text
    assert "affine_set<(d0, d1)[s0] : (d0 >= 0, -d0 + s0 - 1 >= 0, d1 >= 0, -d1 + 63 >= 0)>" in text
    assert "#ktdp.memory_space<ct_local, ct_id = 1>" in text
    assert ktir.signature(k.build())[0].shape == (37, 130)


def test_distributed_views() -> None:
    k = Kernel("k")
    parts = [
        k.view(0, (4, 64), "f16", space=MemorySpace(Space.CT_LOCAL, i), coordinates=affine_set(
            f"(r, c) : (r - {4 * i} >= 0, -r + {4 * i + 3} >= 0, c >= 0, -c + 63 >= 0)")) for i in range(2)
    ]  # fmt: skip
    assert k.distributed(parts, (8, 64))[2:6, :].shape == (4, 64)
    assert any("construct_distributed_memory_view(%0, %1 :" in line for line in body_of(k))


def test_element_operations_print_as_expected() -> None:
    k = Kernel("k")
    h, n = k.scalar("h", "f16"), k.scalar("n", "i32")
    results = {
        "arith.addf": h + 1, "arith.subf": 1 - h, "arith.mulf": 2 * h, "arith.divf": h / h, "arith.negf": -h,
        "arith.maximumf": h.maximum(0), "arith.minimumf": h.minimum(0), "math.exp": h.exp(), "math.log": h.log(),
        "math.sqrt": h.sqrt(), "math.rsqrt": h.rsqrt(), "math.tanh": h.tanh(), "math.erf": h.erf(),
        "math.absf": h.abs(), "math.floor": h.floor(), "arith.extf": h.to("f32"), "arith.fptosi": h.to("i32"),
        "arith.cmpf": h < 2, "arith.addi": n + 1, "arith.muli": n * n, "arith.subi": -n, "arith.maxsi": n.maximum(3),
        "arith.andi": n & 1, "arith.ori": n | 1, "arith.xori": n ^ 1, "arith.cmpi": n >= 0, "arith.sitofp": n.to("f16"),
        "arith.index_cast": n.index(), "arith.select": (h > 0).where(h, 0), "arith.extui": (h.equal(0)).to("i8"),
        "arith.truncf": h.to("f32").to("bf16"), "arith.extsi": n.to("i64"), "arith.trunci": n.to("i8"),
    }  # fmt: skip
    body = "\n".join(body_of(k))
    for name in results:
        assert f"= {name} " in body


def test_shapes_of_tensors() -> None:
    k = Kernel("k")
    t = k.full((2, 3, 4), 0, "f32")
    assert t.transpose().shape == (4, 3, 2)
    assert t.transpose(1, 0, 2).shape == (3, 2, 4)
    assert t.reshape(6, 4).shape == (6, 4)
    assert t.reshape(24).reshape(1, 4, 6).shape == (1, 4, 6)
    assert t.reshape(3, 8).shape == (3, 8)
    assert t.sum(0).shape == (3, 4)
    assert t.min((0, -1)).shape == (3,)
    assert t.to("i32").max(1).shape == (2, 4)
    assert (t.reshape(6, 4) @ t.reshape(4, 6)).shape == (6, 6)
    assert t.matmul(k.full((2, 4, 5), 0, "f32")).shape == (2, 3, 5)
    assert t.item(0, 1, 2).type == t.element
    assert (t * k.number(2, "f32")).shape == (2, 3, 4)
    assert k.full((1, 1), 0, "f32").reshape().shape == ()
    text_of(k)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda k: k.full((2,), 0, "f16") + k.full((3,), 0, "f16"), "types tensor<2xf16> and tensor<3xf16> do not fit"),
        (lambda k: k.full((2,), 0, "i8") / 2, "no such operation on tensor<2xi8>"),
        (lambda k: k.full((2,), 0, "i8").exp(), "no such operation on tensor<2xi8>"),
        (lambda k: k.full((2,), 300, "i8"), "300 does not fit i8"),
        (lambda k: k.full((2,), 0.5, "i8"), "0.5 is no constant of type i8"),
        (lambda k: k.full((2,), 0, "f17"), "'f17' is no element type"),
        (lambda k: k.full((2, 3), 0, "f16").reshape(5), r"cannot reshape \(2, 3\) to \(5,\)"),
        (lambda k: k.full((2, 3), 0, "f16") @ k.full((2, 3), 0, "f16"), "do not fit a matrix product"),
        (lambda k: k.full((2,), 0, "f16").broadcast((3, 4), 0), r"shape \(2,\) is not \(3, 4\) without axes \(0,\)"),
        (lambda k: k.view(0, (8,), "f16")[4:9], r"subscript 0 selects \[4, 9\) of an extent of 8"),
        (lambda k: k.view(0, (8,), "f16")[-1], "subscript 0 selects"),
        (lambda k: k.view(0, (8,), "f16")[4, 4], "2 subscripts for a view of rank 1"),
        (lambda k: k.view(0, (8,), "f16")[0:8:0], "the step of a slice must be a positive number, not 0"),
        (lambda k: k.view(0, (8,), "f16").store(k.full((8,), 0, "f32")), "cannot store a tensor<8xf32> to a tile that holds"),
        (lambda k: k.view(0, (8,), "f16", strides=(1, 1)), "2 strides for 1 extents"),
        (lambda k: k.view(0, (8,), "f16").gather((2,), lambda i: (i, i)), "2 coordinates for a view of rank 1"),
        (lambda k: bool(k.full((2,), 0, "f16") < 1), "no truth value while the kernel is built"),
        (lambda k: bool(k.index("n")), "an index has no truth value"),
        (lambda k: bool(k.index("n") == 0), "no truth value while the kernel is built"),
        (lambda k: bool(k.full((2,), 0, "f16") != 1), "no truth value while the kernel is built"),
        (lambda k: range(k.index("n")), r"no number while the kernel is built; use Kernel\.loop"),
        (lambda k: k.index("n") + 0.5, "an index expression takes whole numbers, not 0.5"),
        (
            lambda k: k.index("n") < k.number(3, "i32"),
            r"takes whole numbers, not <Scalar i32>; index\(\) makes an index of it",
        ),
        (lambda k: k.when(True).__enter__(), "a condition is a comparison of values of the kernel, not True"),
        (lambda k: k.when(k.number(1, "i32")).__enter__(), "a condition is a comparison"),
        (lambda k: k.full((2, 3), 0, "f16").sum(2), r"axes \[2\] are not different axes of a tensor of shape \(2, 3\)"),
        (lambda k: k.full((2, 3), 0, "f16").max((0, -2)), r"axes \[0, -2\] are not different axes"),
        (lambda k: (k.pointer("x"), k.index("x")), "there is already an argument named 'x'"),
        (lambda k: k.scalar("n", "index"), "declare index arguments with Kernel.index"),
    ],
)  # fmt: skip
def test_mistakes_are_explained(build: Callable[[Kernel], object], message: str) -> None:
    with pytest.raises(BuilderError, match=message):
        build(Kernel("k"))


def test_equality_is_a_value_of_the_kernel() -> None:
    """``==`` and ``!=`` compare when the kernel runs, like ``<``; the objects can still be keys."""
    k = Kernel("k", grid=(4,))
    y = k.view(k.pointer("y"), (4,), "f16")
    (tile,) = k.tile_id()
    one = k.full((1,), 1, "f16")
    with k.when(tile == 0):
        y[tile : tile + 1].store((one == one).to("f16"))
    with k.when(tile != 0):
        y[tile : tile + 1].store((one != one).to("f16"))
    lines = text_of(k)
    assert [line.split()[3] for line in lines.splitlines() if "arith.cmp" in line] == [
        "eq,",
        "oeq,",
        "ne,",
        "une,",
    ]
    assert len({tile, one}) == 2


def test_mistakes_with_dynamic_extents() -> None:
    """What needs the extents says so where it is written; what does not need them is taken."""
    k = Kernel("k")
    x, y = (k.view(k.pointer(name), (8, 64), "f16") for name in "xy")
    n = k.index("n")
    v = x[0:n, :].load()
    for wrong in (
        lambda: v * 2,
        lambda: v.sum(1),
        lambda: v.reshape(64, 8),
        lambda: v @ v,
        lambda: k.map(lambda e: e * 2, v),
    ):
        with pytest.raises(BuilderError, match=r"tensor<\?(x64)?xf16> needs static extents here"):
            wrong()
    y[0:n, :].store(v + v)
    assert "arith.addf" in text_of(k)


def test_mistakes_with_loops() -> None:
    k = Kernel("k")
    start = k.full((2,), 0, "f16")
    with pytest.raises(BuilderError, match=r"needs Loop\.carry"), k.loop(0, 2, carry=[start]):
        pass
    with k.loop(0, 2) as loop, pytest.raises(BuilderError, match="exist only behind its with block"):
        loop.results  # noqa: B018
    with k.loop(0, 2, carry=[start]) as loop:
        with pytest.raises(BuilderError, match="cannot go on with"):
            loop.carry(k.full((3,), 0, "f16"))
        loop.carry(start)
        with pytest.raises(BuilderError, match="still open"):
            k.function()
        with pytest.raises(BuilderError, match="outside of loops"):
            k.tile_id()
    with pytest.raises(BuilderError, match="at least one positive extent"):
        Kernel("k", grid=(0,))


def test_a_value_of_an_inner_block_is_refused_outside() -> None:
    """The verifier finds it, at the Python line."""
    k = Kernel("k")
    y = k.view(k.pointer("y"), (2,), "f16")
    with k.loop(0, 2) as loop:
        leaked = k.empty((2,), "f16") + 1
    y.store(leaked)
    assert loop.results == ()
    with pytest.raises(ktir.VerifyError, match=r"test_ktir_builder.py:\d+:1: error: .*dominate"):
        k.build()


def test_several_kernels_and_module_attributes() -> None:
    first, second = Kernel("a", grid=(2,)), Kernel("b")
    module = build_module(first, second, attributes={"ktdp.f16_format": StringAttr("dlfloat")})
    assert [f.symbol for f in module.operations if isinstance(f, ktir.dialects.func.Func)] == ["a", "b"]
    assert 'module attributes {ktdp.f16_format = "dlfloat"}' in ktir.print_module(module)
    with pytest.raises(ktir.VerifyError, match="redefinition of symbol named 'a'"):
        build_module(first, Kernel("a"))


# -- indices

LEAVES = st.integers(-40, 40)


def evaluate(value: Value, known: dict[Value, int], operations: list[Operation]) -> int:
    """Run the emitted arithmetic with Python integers."""
    table: dict[type[Operation], Callable[[int, int], int]] = {
        arith.AddI: operator.add,
        arith.SubI: operator.sub,
        arith.MulI: operator.mul,
        arith.FloorDivSI: operator.floordiv,
        arith.CeilDivSI: lambda a, b: -(-a // b),
        arith.MinSI: min,
        arith.MaxSI: max,
    }
    for op in operations:
        if isinstance(op, arith.Constant):
            assert isinstance(op.value, IntegerAttr)
            known[op.result] = op.value.value
        else:
            known[op.results[0]] = table[type(op)](*(known[v] for v in op.operands))
    return known[value]


@given(st.data())
def test_index_arithmetic(data: st.DataObject) -> None:
    """Any expression, symbolic or emitted, has the value that Python gives it."""
    k = Kernel("k")
    arguments = [BlockArgument(INDEX) for _ in range(2)]
    numbers = [data.draw(LEAVES), data.draw(LEAVES)]
    pool: list[tuple[Index, int]] = [
        (Index.leaf(k.emitter, a), n) for a, n in zip(arguments, numbers, strict=True)
    ]
    for _ in range(data.draw(st.integers(1, 6))):
        (a, x), (b, y) = data.draw(st.sampled_from(pool)), data.draw(st.sampled_from(pool))
        c = data.draw(st.integers(1, 7))
        pool.append(
            data.draw(
                st.sampled_from(
                    [
                        (a + b, x + y), (a - b, x - y), (c - a, c - x), (a * c, x * c), (-a, -x), (a // c, x // c),
                        (a % c, x % c), (a.ceildiv(c), -(-x // c)), (a.minimum(b), min(x, y)), (a * b, x * y),
                        (a.maximum(c), max(x, c)),
                    ]
                )
            )
        )  # fmt: skip
    index, expected = pool[-1]
    value = index.value()
    frame = k.emitter.frames[0]
    known: dict[Value, int] = dict(zip(arguments, numbers, strict=True))
    assert evaluate(value, known, list(frame.contents())) == expected


@pytest.mark.parametrize(
    ("type", "operations"),
    [
        ("i32", ["index_cast"]),
        ("i64", ["index_cast"]),
        ("f32", ["index_cast", "sitofp"]),
        ("f16", ["index_cast", "sitofp"]),
    ],
)
def test_positions_as_numbers(type: str, operations: list[str]) -> None:
    """What Index.to makes has the type, and floats come by way of i32, which devices have."""
    k = Kernel("f")
    n = k.index("n").to(type)
    assert str(n.type) == type
    k.view(k.pointer("x"), (1,), type)[:].store(k.splat(n, (1,)))
    text = ktir.print_module(k.build())
    assert [
        name for name in ("index_cast", "sitofp", "extsi", "trunci") if f"arith.{name}" in text
    ] == operations
    assert ("i64" in text) == (type == "i64")
