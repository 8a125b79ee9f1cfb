"""Tiled launch (runtime spec 3.14)."""

from __future__ import annotations

import gc
import json
import math
import random
from typing import Any

import numpy as np
import pytest

from spyrert import MicroDevice, Overlap, Progress, Runtime, RuntimeConfig, errors
from spyrert.binding import stride_mismatches
from spyrert.device import FaultKind, FaultSpec, Match
from spyrert.dtypes import numpy_dtype
from spyrert.elements import element_offsets
from spyrert.spyrecode import (
    Addr,
    ArgSpec,
    Bounds,
    Dim,
    DimKind,
    DimSpec,
    HcmSymbol,
    LaunchSpec,
    LinearLayout,
    PayloadKind,
    Role,
    SpyreCode,
    StickLayout,
    Stride,
    SymbolSpec,
    Tile,
    assemble,
    item_bytes,
)
from spyrert.spyrecode.layout import Layout
from spyrert.tensor import DeviceTensor


@pytest.fixture
def rt() -> Any:
    with Runtime(MicroDevice, RuntimeConfig(progress=Progress.MANUAL)) as runtime:
        yield runtime


def operand(slot: int, shape: Any, layout: Layout, dtype: str = "float16") -> dict[str, Any]:
    return {"addr": {"slot": slot}, "shape": list(shape), "dtype": dtype, "layout": layout.to_json()}


def row_layout(shape: tuple[int, ...], dtype: str = "float16") -> StickLayout:
    """Rows outermost: device dims [rows, stick columns, lanes], so that row tiles are contiguous."""
    rows, columns = shape
    lanes = 128 // item_bytes(dtype)
    return StickLayout((rows, -(-columns // lanes), lanes), (columns, lanes, 1), dtype)


def double(
    tile: tuple[int, int],
    layout: Layout,
    dims: tuple[str | None, ...] = (),
    declared: tuple[DimSpec, ...] = (),
) -> SpyreCode:
    """``y = x + x`` for tiles of one shape."""
    args = tuple(
        ArgSpec(role, tile, "float16", layout, name, dims=dims)
        for role, name in ((Role.INPUT, "x"), (Role.OUTPUT, "y"))
    )
    program = [
        {
            "op": "add",
            "lhs": operand(0, tile, layout),
            "rhs": operand(0, tile, layout),
            "out": operand(1, tile, layout),
        }
    ]
    launch = LaunchSpec("double", args, dims=declared)
    return assemble(
        json.dumps(program).encode(),
        PayloadKind.OP_LIST,
        launch,
        [HcmSymbol(-1, Addr(0)), HcmSymbol(-2, Addr(1))],
    )


def matmul(tile: dict[str, int], **dims: DimSpec) -> SpyreCode:
    """``c (+)= a b`` with named dimensions, rows outermost."""
    m, n, k = (tile[d] for d in "MNK")
    reduce = "K" in dims and dims["K"].kind is DimKind.REDUCTION
    shapes = {"a": (m, k), "b": (k, n), "c": (m, n)}
    names = {"a": ("M", "K"), "b": ("K", "N"), "c": ("M", "N")}
    roles = {"a": Role.INPUT, "b": Role.INPUT, "c": Role.INPUT_OUTPUT if reduce else Role.OUTPUT}
    layouts = {key: StickLayout.default(shape, "float32") for key, shape in shapes.items()}
    args = tuple(
        ArgSpec(roles[key], shapes[key], "float32", layouts[key], key, dims=names[key]) for key in "abc"
    )
    operands = [operand(slot, shapes[key], layouts[key], "float32") for slot, key in enumerate("abc")]
    program = [
        {"op": "matmul", "lhs": operands[0], "rhs": operands[1], "out": operands[2], "accumulate": reduce}
    ]
    launch = LaunchSpec("matmul", args, dims=tuple(dims.values()))
    return assemble(
        json.dumps(program).encode(),
        PayloadKind.OP_LIST,
        launch,
        [HcmSymbol(-1 - s, Addr(s)) for s in range(3)],
    )


def values(shape: tuple[int, ...], dtype: str = "float16") -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).integers(-9, 9, shape).astype(dtype)


def test_rows(rt: Runtime) -> None:
    """runtime checklist R69: four tiles, twelve operations in the order host, transfer, compute."""
    plan = rt.prepare_kernel(double((16, 100), row_layout((16, 100))))
    x = values((64, 100))
    tx, ty = rt.to_device(x, row_layout((64, 100))), rt.empty((64, 100), "float16", row_layout((64, 100)))
    with rt.op_log() as log:
        ticket = rt.launch(plan, [tx, ty])
        ticket.wait()
    assert ticket.tiles == 4
    assert [op.kind for op in log] == ["HostCompute", "H2D", "Compute"] * 4
    assert [op.tile for op in log] == [k for k in range(4) for _ in range(3)]
    np.testing.assert_array_equal(rt.to_host(ty), x + x)


def test_tiling_may_be_refused(rt: Runtime) -> None:
    """runtime checklist R74; fault L5: the argument overrides the configuration."""
    code = double((16, 100), row_layout((16, 100)))
    layout = row_layout((64, 100))
    for allowed in (True, False):
        config = RuntimeConfig(progress=Progress.MANUAL, allow_tiled_launch=allowed)
        with Runtime(MicroDevice, config) as other:
            plan = other.prepare_kernel(code)
            tensors = [other.to_device(values((64, 100)), layout), other.empty((64, 100), "float16", layout)]
            for argument in (None, True, False):
                if argument or (argument is None and allowed):
                    other.launch(plan, tensors, allow_tiled_launch=argument).wait()
                else:
                    with pytest.raises(errors.ShapeMismatch, match="tiled launch not permitted"):
                        other.launch(plan, tensors, allow_tiled_launch=argument)


def tiling_error(rt: Runtime, plan: Any, tensors: list[Any], text: str, **details: Any) -> None:
    rt.synchronize()
    gc.collect()  # tensors that the traceback of an earlier refusal held
    before = rt.memory_stats()
    with rt.op_log() as log, pytest.raises(errors.TilingError) as caught:
        rt.launch(plan, tensors)
    assert text in str(caught.value)
    for key, value in details.items():
        assert caught.value.details[key] == value
    rt.synchronize()
    assert log == []
    assert rt.memory_stats() == before


def test_refusals(rt: Runtime) -> None:
    """runtime checklist R73, R78; faults L6, L7, L8, L11: each names tensor and dimension, and changes nothing."""
    layout = row_layout
    plan = rt.prepare_kernel(double((16, 64), layout((16, 64))))

    def pair(a: tuple[int, int], b: tuple[int, int]) -> list[Any]:
        return [rt.empty(s, "float16", layout(s)) for s in (a, b)]

    tiling_error(
        rt,
        plan,
        pair((40, 64), (40, 64)),
        "size 40 of dimension 0 is not a multiple of the tile size 16; pad it to 48",
        index=0,
        dim=0,
        padded=48,
    )
    tiling_error(rt, plan, pair((32, 128), (32, 128)), "ambiguous: argument 0 ('x')", index=0)
    tiling_error(rt, plan, pair((32, 64), (64, 64)), "ambiguous: ratios")
    named = rt.prepare_kernel(double((16, 64), layout((16, 64)), ("M", "N")))
    tiling_error(
        rt,
        named,
        pair((32, 64), (64, 64)),
        "inconsistent: dimension 'M' has 4 tiles in argument 1 ('y') and 2",
        dim="M",
    )
    fixed = rt.prepare_kernel(double((16, 64), layout((16, 64)), ("M", "N"), (DimSpec("M", tileable=False),)))
    tiling_error(rt, fixed, pair((32, 64), (32, 64)), "dimension 'M' may not be tiled")
    product = rt.prepare_kernel(matmul({"M": 8, "N": 32, "K": 32}))
    big = [rt.empty((8, 64), "float32"), rt.empty((64, 32), "float32"), rt.empty((8, 32), "float32")]
    tiling_error(
        rt, product, big, "output not tiled: argument 2 ('c') does not have the tiled dimension 'K'", index=2
    )
    declared = rt.prepare_kernel(matmul({"M": 8, "N": 32, "K": 32}, K=DimSpec("K", DimKind.REDUCTION)))
    tiling_error(rt, declared, big, "reduction dimension 'K' does not say how to accumulate")
    combine = rt.prepare_kernel(
        matmul({"M": 8, "N": 32, "K": 32}, K=DimSpec("K", DimKind.REDUCTION, accumulate="combine"))
    )
    with pytest.raises(errors.UnsupportedFeature, match="combine"):
        rt.launch(combine, big)
    with Runtime(MicroDevice, RuntimeConfig(progress=Progress.MANUAL, max_tiles=3)) as small:
        tight = small.prepare_kernel(double((16, 64), layout((16, 64))))
        tensors = [small.empty((64, 64), "float16", layout((64, 64))) for _ in range(2)]
        tiling_error(small, tight, tensors, "4 tiles exceed the limit of 3")


def test_strides_decide(rt: Runtime) -> None:
    """runtime checklist R72; faults L9, L10: rows of a stick-tiled tensor are not contiguous."""
    packed = rt.prepare_kernel(double((16, 128), StickLayout.default((16, 128), "float16")))
    tensors = [rt.to_device(values((64, 128))), rt.empty((64, 128), "float16")]
    tiling_error(
        rt,
        packed,
        tensors,
        "device dimension 0 has stride 8192 bytes in the tensor, the kernel uses 2048",
        index=0,
        dim=0,
    )
    columns = rt.prepare_kernel(double((64, 32), StickLayout.default((64, 32), "float16")))
    wide = [rt.to_device(values((64, 64))), rt.empty((64, 64), "float16")]
    tiling_error(rt, columns, wide, "stick")


def test_stride_symbols(rt: Runtime) -> None:
    """runtime checklist R72: a kernel that takes strides as symbols walks tiles inside of larger tensors."""
    tile, layout = (16, 128), StickLayout.default((16, 128), "float16")
    args = tuple(ArgSpec(role, tile, "float16", layout) for role in (Role.INPUT, Role.OUTPUT))
    columns = [
        {"addr": {"slot": slot}, "shape": [16, 64], "dtype": "float16"} for slot in range(4)
    ]  # both stick columns of x, then of y
    program = [{"op": "add", "lhs": columns[k], "rhs": columns[k], "out": columns[k + 2]} for k in range(2)]
    symbols = [
        HcmSymbol(-1, Addr(0)),
        HcmSymbol(-2, Addr(0) + Stride(0, 0)),
        HcmSymbol(-3, Addr(1)),
        HcmSymbol(-4, Addr(1) + Stride(1, 0)),
    ]
    plan = rt.prepare_kernel(
        assemble(json.dumps(program).encode(), PayloadKind.OP_LIST, LaunchSpec("k", args), symbols)
    )
    for rows in (16, 64):
        x = values((rows, 128))
        tx, ty = rt.to_device(x), rt.empty((rows, 128), "float16")
        assert rt.launch(plan, [tx, ty]).tiles == rows // 16
        np.testing.assert_array_equal(rt.to_host(ty), x + x)


@pytest.mark.parametrize("overlap", list(Overlap), ids=lambda o: o.value)
def test_staging(overlap: Overlap) -> None:
    """runtime checklist R72: with staging the packed kernel is correct on rows of a stick-tiled tensor; the ticket says how
    many copies that took, and nothing of it stays."""
    with Runtime(MicroDevice, RuntimeConfig(progress=Progress.MANUAL, overlap=overlap)) as rt:
        plan = rt.prepare_kernel(double((16, 130), StickLayout.default((16, 130), "float16")))
        x = values((64, 130))
        tx, ty = rt.to_device(x), rt.empty((64, 130), "float16")
        before = rt.memory_allocated()
        ticket = rt.launch(plan, [tx, ty], allow_staging=True)
        np.testing.assert_array_equal(rt.to_host(ty), x + x)
        assert (ticket.tiles, ticket.extra_copies) == (4, 8)
        gc.collect()
        assert rt.memory_allocated() == before
        assert rt.memory_stats()["deferred_bytes"] == 0
        with pytest.raises(errors.TilingError):
            rt.launch(plan, [tx, ty])
        columns = rt.prepare_kernel(double((64, 26), StickLayout.default((64, 26), "float16")))
        assert rt.launch(columns, [tx, ty], allow_staging=True).tiles == 5
        np.testing.assert_array_equal(rt.to_host(ty), x + x)


def test_two_dimensions(rt: Runtime) -> None:
    """runtime checklist R75: M x N tiles in row-major order give the untiled product."""
    code = matmul({"M": 1, "N": 32, "K": 32}, M=DimSpec("M"), N=DimSpec("N"))
    plan = rt.prepare_kernel(code)
    a, b = values((3, 32), "float32"), values((32, 64), "float32")
    ta, tb, tc = rt.to_device(a), rt.to_device(b), rt.empty((3, 64), "float32")
    ticket = rt.launch(plan, [ta, tb, tc])
    assert ticket.tiles == 6
    np.testing.assert_array_equal(rt.to_host(tc), a @ b)
    (whole,) = tc.storage.pieces
    written = [
        piece.offset - whole.offset
        for operation in ticket.operations
        if operation.kind == "Compute"
        for access in operation.footprint
        if access.writes
        for piece in access.pieces
    ]
    tiles = [tc[m : m + 1, n : n + 32] for m in range(3) for n in (0, 32)]
    assert written == [tile.device_offset() for tile in tiles]


def test_reduction(rt: Runtime) -> None:
    """runtime checklist R76: K tiles accumulate in the kernel; each output tile is filled once, before its first step."""
    reduction = DimSpec("K", DimKind.REDUCTION, accumulate="kernel")
    code = matmul({"M": 1, "N": 32, "K": 32}, M=DimSpec("M"), N=DimSpec("N"), K=reduction)
    plan = rt.prepare_kernel(code)
    a, b = values((2, 96), "float32"), values((96, 64), "float32")
    ta, tb = rt.to_device(a), rt.to_device(b, StickLayout((2, 96, 32), (32, 64, 1), "float32"))
    tc = rt.to_device(np.full((2, 64), np.nan, np.float32))
    with rt.op_log() as log:
        ticket = rt.launch(plan, [ta, tb, tc])
        ticket.wait()
    assert ticket.tiles == 12
    kinds = [op.kind for op in log]
    assert kinds == (["Memset"] + ["HostCompute", "H2D", "Compute"] * 3) * 4
    np.testing.assert_array_equal(rt.to_host(tc), a @ b)


def ragged(granularity: int) -> SpyreCode:
    layout = row_layout((64, 64))
    tile: tuple[int | str, ...] = ("m", 64)
    args = tuple(ArgSpec(role, tile, "float16", layout) for role in (Role.INPUT, Role.OUTPUT))
    shape = [{"slot": 2}, 64]
    x, y = (operand(slot, shape, LinearLayout("float16")) for slot in range(2))
    program = [{"op": "add", "lhs": x, "rhs": x, "out": y}]
    spec = LaunchSpec("ragged", args, (SymbolSpec("m", "index", Bounds(granularity, 64, granularity)),))
    symbols = [HcmSymbol(-1, Addr(0)), HcmSymbol(-2, Addr(1)), HcmSymbol(-3, Dim(0, 0))]
    return assemble(json.dumps(program).encode(), PayloadKind.OP_LIST, spec, symbols)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_accumulator_of_another_dtype(rt: Runtime, dtype: str) -> None:
    """runtime checklist R76: sums in float32 for an output of less precision are rounded once, at the end; without
    tiles the old output is added to as the kernel says."""
    declared = DimSpec("K", DimKind.REDUCTION, accumulate="kernel", acc_dtype="float32")
    plan = rt.prepare_kernel(matmul({"M": 8, "N": 32, "K": 32}, K=declared))
    rng = np.random.default_rng(3)
    a = (rng.integers(-50, 50, (8, 128)) / 64).astype(np.float32)
    b = (rng.integers(-50, 50, (128, 32)) / 64).astype(np.float32)
    before = rt.memory_allocated()
    out = rt.to_device(np.full((8, 32), 9, numpy_dtype(dtype)))
    tensors = [rt.to_device(a), rt.to_device(b), out]
    ticket = rt.launch(plan, tensors)
    assert ticket.tiles == 4
    np.testing.assert_array_equal(rt.to_host(out), (a @ b).astype(numpy_dtype(dtype)))
    small = [rt.to_device(a[:, :32].copy()), rt.to_device(b[:32].copy()), out]
    rt.copy(np.full((8, 32), 2, numpy_dtype(dtype)), out)
    rt.launch(plan, small).wait()
    exact = (2 + a[:, :32] @ b[:32]).astype(numpy_dtype(dtype))
    np.testing.assert_array_equal(rt.to_host(out), exact)
    with pytest.raises(errors.DtypeMismatch):
        rt.launch(plan, [small[0], small[1], rt.empty((8, 32), "int32")])
    plain = rt.prepare_kernel(
        matmul({"M": 8, "N": 32, "K": 32}, K=DimSpec("K", DimKind.REDUCTION, accumulate="kernel"))
    )
    with pytest.raises(errors.DtypeMismatch):
        rt.launch(plain, tensors)
    odd = [rt.empty((8, 33), "float32"), rt.empty((33, 32), "float32"), out]
    held = rt.memory_allocated()
    with pytest.raises(errors.TilingError) as refused:
        rt.launch(plan, odd)
    assert rt.memory_allocated() == held, "the accumulator of a refused launch is freed at once"
    del out, tensors, small, odd, ticket, refused
    gc.collect()
    assert rt.memory_allocated() == before + plain.job_allocation_size()


def test_ragged_tail(rt: Runtime) -> None:
    """runtime checklist R77: 100 rows over a symbolic tile of at most 64 run as 64 and 36; granularity 8 refuses."""
    plan = rt.prepare_kernel(ragged(4))
    x = values((100, 64))
    layout = row_layout((100, 64))
    tx, ty = rt.to_device(x, layout), rt.to_device(np.zeros((100, 64), np.float16), layout)
    ticket = rt.launch(plan, [tx, ty])
    assert ticket.tiles == 2
    np.testing.assert_array_equal(rt.to_host(ty), x + x)
    small = rt.launch(plan, [tx[:12], ty[50:62]])
    assert small.tiles == 1
    small.wait()
    coarse = rt.prepare_kernel(ragged(8))
    tiling_error(rt, coarse, [tx, ty], "the last tile of 'm' = 36 is not a multiple of its granularity 8")
    with pytest.raises(errors.SymbolBindingError, match="above its maximum 64"):
        rt.launch(plan, [tx, ty], allow_tiled_launch=False)


def test_failure_inside(rt: Runtime) -> None:
    """runtime checklist R92; fault R9: tiles before the failure are right, those behind it never start."""
    device = rt.device()
    assert isinstance(device, MicroDevice)
    plan = rt.prepare_kernel(double((16, 64), row_layout((16, 64))))
    x = values((64, 64))
    tx = rt.to_device(x, row_layout((64, 64)))
    ty = rt.to_device(np.zeros((64, 64), np.float16), row_layout((64, 64)))
    device.faults.add(FaultSpec(FaultKind.COMPUTE_FAULT, Match(nth=3)))
    stream = rt.Stream()
    ticket = rt.launch(plan, [tx, ty], stream=stream)
    with pytest.raises(errors.ComputeFault):
        ticket.wait()
    assert ticket.failed_tile == 2
    out = rt.to_host(ty)
    np.testing.assert_array_equal(out[:32], (x + x)[:32])
    assert (out[48:] == 0).all()
    assert device.counters()["cb_compute"] == 3


TABLE = [
    ((8, 128), None, (4, 128), False),
    ((8, 128), None, (8, 64), True),
    ((8, 64), None, (4, 64), True),
    ((8, 128), None, (4, 64), True),
    ((4, 6, 128), None, (4, 3, 128), True),
    ((4, 6, 128), None, (2, 6, 128), False),
    ((4, 6, 128), None, (4, 6, 64), False),
    ((256, 8), (1, 0), (64, 8), True),
    ((4096, 1024), None, (1024, 1024), False),
]


def tile_view(
    rt: Runtime, shape: tuple[int, ...], layout: StickLayout, tile: tuple[int, ...]
) -> DeviceTensor:
    whole = rt.empty(shape, "float16", layout)
    return whole[tuple(slice(0, n) for n in tile)]


@pytest.mark.parametrize(("shape", "order", "tile", "compatible"), TABLE)
def test_compatibility_table(rt: Runtime, shape: Any, order: Any, tile: Any, compatible: bool) -> None:
    """runtime checklist R71: the table of runtime spec 3.14.4."""
    view = tile_view(rt, shape, StickLayout.default(shape, "float16", order), tile)
    assert (not stride_mismatches(StickLayout.default(tile, "float16", order), tile, view)) is compatible


@pytest.mark.sweep(default=200, full=3000)
def test_compatibility_by_brute_force(rt: Runtime, cases: int) -> None:
    """runtime checklist R70, R71: the rule and the tile offsets against a comparison element by element."""
    rng = random.Random(7)
    seen = {True: 0, False: 0}
    for _ in range(cases):
        rank = rng.randint(1, 4)
        order = list(range(rank))
        rng.shuffle(order)
        tile = tuple(
            rng.choice([1, 2, 3, 64, 128] if axis == order[-1] else [1, 2, 3]) for axis in range(rank)
        )
        counts = tuple(rng.choice([1, 1, 2, 3]) for _ in range(rank))
        shape = tuple(n * c for n, c in zip(tile, counts, strict=True))
        if math.prod(shape) > 30_000:
            continue
        layout = StickLayout.default(shape, "float16", order)
        packed = StickLayout.default(tile, "float16", order)
        whole = rt.empty(shape, "float16", layout)
        origin = tuple(rng.randrange(c) * n for n, c in zip(tile, counts, strict=True))
        view = whole[tuple(slice(o, o + n) for o, n in zip(origin, tile, strict=True))]
        actual = element_offsets(layout, tile, whole.strides, view.offset)
        expected = element_offsets(packed, tile)
        start = layout.offset_bytes(view.offset)
        same = bool((actual * 2 == expected * 2 + start).all())
        try:
            claimed = not stride_mismatches(packed, tile, view) and start % 128 == 0
        except errors.LayoutMismatch:
            claimed = False
        if start % 128:
            assert not claimed
            continue
        assert claimed is same, (shape, tile, order, origin)
        seen[claimed] += 1
    assert min(seen.values()) > cases // 20


def test_tile_index_symbol(rt: Runtime) -> None:
    """runtime spec 1.7.2: ``["tile", name]`` is the index of the current tile."""
    layout = row_layout((1, 64))
    spec = LaunchSpec(
        "index",
        (ArgSpec(Role.OUTPUT, (1, 64), "float16", layout, "y", dims=("M", None)),),
        dims=(DimSpec("M"),),
    )
    program = [{"op": "fill", "out": operand(0, (1, 64), layout), "value": {"slot": 1}}]
    symbols = [HcmSymbol(-1, Addr(0)), HcmSymbol(-2, Tile("M"))]
    plan = rt.prepare_kernel(assemble(json.dumps(program).encode(), PayloadKind.OP_LIST, spec, symbols))
    y = rt.empty((5, 64), "float16", row_layout((5, 64)))
    rt.launch(plan, [y])
    np.testing.assert_array_equal(rt.to_host(y)[:, 0], np.arange(5))
