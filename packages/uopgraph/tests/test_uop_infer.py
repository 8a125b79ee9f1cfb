"""Dtypes, inference, specifications."""

from __future__ import annotations

import itertools
import math
import random
import struct
import weakref
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from uopgraph import (
    ArityError,
    AxisType,
    BufferizeOpts,
    ConstFloat,
    DeviceError,
    DTypeError,
    EncodingError,
    KernelInfo,
    Ops,
    ShapeError,
    SpecError,
    UOp,
    can_lossless_cast,
    checking,
    dtypes,
    full_spec,
    kernel_graph_spec,
    least_upper_dtype,
    least_upper_float,
    minifloat,
    program_spec,
    strong_dtype,
    sum_acc_dtype,
    tensor_spec,
    truncate,
    type_verify,
)
from uopgraph.args import CallInfo
from uopgraph.dtype import bitcast, from_bytes, to_bytes
from uopgraph.ops import GroupOp


def buf(*shape: int, dtype: Any = dtypes.float32, device: Any = "cpu", slot: int = 0) -> UOp:
    return UOp.new_buffer(device, math.prod(shape), dtype, slot).reshape(shape)


# dtypes -----------------------------------------------------------------------------------------


def test_promotion_examples() -> None:
    """uopgraph checklist 16."""
    up = least_upper_dtype
    assert up(dtypes.int8, dtypes.uint8) is dtypes.int16
    assert up(dtypes.uint64, dtypes.int64) is dtypes.weakfloat
    assert up(dtypes.float16, dtypes.bfloat16) is dtypes.float32
    assert up(dtypes.bool, dtypes.int32) is dtypes.int32
    assert up(dtypes.weakint, dtypes.int8) is dtypes.int8
    assert up(dtypes.weakfloat, dtypes.float16) is dtypes.float16
    assert up(dtypes.int32, dtypes.weakfloat) is dtypes.weakfloat
    assert least_upper_float(dtypes.weakint) is dtypes.weakfloat
    assert least_upper_float(dtypes.int8) is dtypes.float32
    assert strong_dtype(dtypes.weakint) is dtypes.int32
    assert [sum_acc_dtype(d) for d in (dtypes.uint8, dtypes.bool, dtypes.int64, dtypes.float16)] == [
        dtypes.uint32,
        dtypes.int32,
        dtypes.int64,
        dtypes.float32,
    ]
    with pytest.raises(DTypeError):
        up(dtypes.void, dtypes.int8)


def test_promotion_is_a_join() -> None:
    """uopgraph checklist 17. Two different fp8 formats have float16 and bfloat16 above them, of which the order takes
    float16: joins with both an fp8 pair and bfloat16 are not associative, so a triple has one fp8 format here."""
    for a, b in itertools.product(dtypes.all, repeat=2):
        assert least_upper_dtype(a, b) is least_upper_dtype(b, a)
        assert least_upper_dtype(a, a) is a
        for c in dtypes.all:
            if len({a, b, c} & set(dtypes.fp8s)) > 1:
                continue
            want = least_upper_dtype(a, b, c)
            assert least_upper_dtype(least_upper_dtype(a, b), c) is want


@pytest.mark.parametrize("form", minifloat.FORMATS.values(), ids=lambda f: f.name)
def test_fp8_codes(form: minifloat.Format) -> None:
    """uopgraph checklist 18."""
    kind = {
        "fp8e4m3": ml_dtypes.float8_e4m3fn,
        "fp8e5m2": ml_dtypes.float8_e5m2,
        "fp8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
        "fp8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    }[form.name]
    values = np.arange(256, dtype=np.uint8).view(kind).astype(np.float64)
    for code in range(256):
        x = minifloat.decode(code, form)
        assert (math.isnan(x) and math.isnan(values[code])) or x == values[code]
        if not math.isnan(x):
            assert minifloat.encode(x, form) == code
    top = max(v for v in values if math.isfinite(v))
    for x in np.random.default_rng(0).normal(size=500) * np.exp2(np.arange(500) % 40 - 25):
        if abs(x) <= top:
            want = np.array([x]).astype(kind).astype(np.float64)[0]
            assert minifloat.decode(minifloat.encode(float(x), form), form) == want
    assert minifloat.decode(minifloat.encode(1e30, form), form) == top
    assert math.isnan(minifloat.decode(minifloat.encode(math.nan, form), form))


def test_fp8_overflow() -> None:
    """uopgraph checklist 18."""
    e4m3, e5m2 = minifloat.FORMATS["fp8e4m3"], minifloat.FORMATS["fp8e5m2"]
    assert minifloat.encode(math.inf, e4m3) == 0x7F
    assert minifloat.encode(-math.inf, e4m3) == 0xFF
    assert minifloat.encode(math.inf, e5m2) == 0x7C
    assert minifloat.encode(500.0, e4m3) == 0x7E


def test_rounding_agrees_with_numpy() -> None:
    """uopgraph checklist 19."""
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2**32, 3000, dtype=np.uint32)
    halfway = (rng.integers(0, 2**16, 1000, dtype=np.uint32) << 16) | 0x8000
    with np.errstate(all="ignore"):
        for x in np.concatenate([bits, halfway, halfway - 1, halfway + 1]).view(np.float32):
            for d, kind in ((dtypes.bfloat16, ml_dtypes.bfloat16), (dtypes.float16, np.float16)):
                got, want = truncate(float(x), d), float(np.float32(x).astype(kind))
                assert got == want or (math.isnan(float(got)) and math.isnan(want))  # type: ignore[arg-type]
    for d, kind in ((dtypes.int8, np.int8), (dtypes.uint16, np.uint16), (dtypes.int32, np.int32)):
        for v in rng.integers(-(2**40), 2**40, 200):
            assert truncate(int(v), d) == int(np.int64(v).astype(kind))


def test_bytes_and_bits() -> None:
    for d in (*dtypes.ints, *dtypes.strong_floats, dtypes.bool):
        for v in (0, 1):
            assert from_bytes(to_bytes(v, d), d) == v
            assert len(to_bytes(v, d)) == d.itemsize
    assert bitcast(1.0, dtypes.float32, dtypes.uint32) == 0x3F800000
    assert bitcast(0x3F80, dtypes.uint16, dtypes.bfloat16) == 1.0
    with pytest.raises(DTypeError):
        bitcast(1, dtypes.int8, dtypes.int16)


def test_lossless_casts() -> None:
    for a, b in itertools.product(dtypes.ints, repeat=2):
        assert can_lossless_cast(a, b) == (b.min <= a.min and a.max <= b.max)
    assert can_lossless_cast(dtypes.float16, dtypes.float32)
    assert not can_lossless_cast(dtypes.float16, dtypes.bfloat16)
    assert can_lossless_cast(dtypes.int32, dtypes.float64)
    assert not can_lossless_cast(dtypes.int32, dtypes.float32)


def test_const_floats() -> None:
    assert ConstFloat(0.0) != ConstFloat(-0.0)
    assert ConstFloat(math.nan) == ConstFloat(-math.nan)
    assert ConstFloat(0.0) == 0
    assert hash(ConstFloat(math.nan)) == hash(
        ConstFloat(struct.unpack("<d", b"\x01" + b"\0" * 5 + b"\xf8\x7f")[0])
    )


# derivation -------------------------------------------------------------------------------------


def test_derived_dtypes() -> None:
    """uopgraph checklist 15."""
    i8, f16, i32 = (
        UOp.variable(n, 0, 3, d) for n, d in (("a", dtypes.int8), ("b", dtypes.float16), ("c", dtypes.int32))
    )
    with checking(1):  # the specification asks for equal dtypes, the derivation promotes
        assert (i8 + i32).dtype is dtypes.int32
        assert (i8 + 1.5).dtype is dtypes.weakfloat
    assert (i8 + 1).dtype is dtypes.int8
    assert (f16 + 1).dtype is dtypes.float16
    assert (i8 < 3).dtype is dtypes.bool
    assert i8.exp().dtype is dtypes.float32
    assert f16.sqrt().dtype is dtypes.float16
    assert (i8 / i8).dtype is dtypes.float32
    assert (i8 << 2).dtype is dtypes.int8
    assert (i8 < 1).where(f16, 1).dtype is dtypes.float16
    assert i8.cast(dtypes.uint64).dtype is dtypes.uint64
    assert UOp.const((1, 2.5)).dtype is dtypes.weakfloat
    with pytest.raises(DTypeError):
        UOp(Ops.ADD, dtypes.int64, (i8, i8))
    with pytest.raises(DTypeError):
        i8.where(f16, f16)
    with pytest.raises(DTypeError):
        f16 << 2


def variable(name: str, dtype: Any) -> UOp:
    return UOp.variable(name, 0, 1, dtype)


KINDS = [
    dtypes.bool,
    dtypes.weakint,
    dtypes.int8,
    dtypes.uint16,
    dtypes.int64,
    dtypes.float16,
    dtypes.float32,
]


def test_every_row_of_the_derivation_table() -> None:
    """uopgraph checklist 15."""
    x32 = buf(4, 6)
    i, j = UOp.range(4, 0), UOp.range(6, 1)
    with checking(0):
        for a, b in itertools.product(KINDS, repeat=2):
            x, y, c = variable("x", a), variable("y", b), variable("c", dtypes.bool)
            for op in GroupOp.Comparison:
                assert UOp(op, None, (x, y)).dtype is dtypes.bool
            for op in GroupOp.Binary - GroupOp.Comparison - GroupOp.Shift:
                assert UOp(op, None, (x, y)).dtype is least_upper_dtype(a, b), op
            assert UOp(Ops.WHERE, None, (c, x, y)).dtype is least_upper_dtype(a, b)
            assert UOp(Ops.MULACC, None, (x, y, x)).dtype is least_upper_dtype(a, b)
            assert UOp(Ops.STACK, None, (x, y)).dtype is least_upper_dtype(a, b)
            for op in GroupOp.Cast:
                assert UOp(op, None, (x,), b).dtype is b
            for op in GroupOp.Shift:
                if a.is_int and b.is_int:
                    assert UOp(op, None, (x, y)).dtype is a
                else:
                    with pytest.raises(DTypeError):
                        UOp(op, None, (x, y))
        for d in KINDS:
            x = variable("x", d)
            for op in GroupOp.Transcendental:
                assert UOp(op, None, (x,)).dtype is least_upper_float(d)
                assert UOp(op, None, (UOp.invalid(),)).dtype is dtypes.bool
            for op in GroupOp.Rounding | {Ops.NEG}:
                assert UOp(op, None, (x,)).dtype is d
    assert UOp(Ops.STACK, None, ()).dtype is dtypes.void
    first = [
        *(
            x32.permute(1, 0),
            x32.flip(0),
            x32[1:],
            x32.pad([(1, 0), (0, 0)]),
            x32.expand(2, 4, 6),
            x32.reshape(24),
        ),
        *(
            x32.sum(),
            x32.index(i, j),
            x32.index(i, j).load(),
            x32.contiguous((1,)),
            x32.detach(),
            x32.after(x32.store(x32)),
        ),
        *(
            x32.copy_to_device("d"),
            x32.shard(("a", "b"), 0),
            x32.shard(("a", "b")).mselect(0),
            x32.shard(("a", "b")).allreduce(Ops.ADD, "a"),
        ),
        *(UOp.mstack(x32, x32), x32.index(i, j).load().stage(i, opts=BufferizeOpts("cpu"))),
    ]
    assert {n.dtype for n in first} == {dtypes.float32}
    assert i.dtype is dtypes.weakint
    store = x32.index(i, j).store(1.0)
    void = [
        store,
        store.end(i, j),
        UOp.group(store, store),
        store.sink(),
        UOp.make_tuple(x32),
        store.end(i, j).sink().call(x32),
    ]
    assert {n.dtype for n in void} == {dtypes.void}
    assert (x32 + 1).call(x32).gettuple(0).dtype is dtypes.float32
    assert UOp(Ops.GETADDR, None, (x32,), "cpu").dtype is dtypes.uint64
    for op in (Ops.NOOP, Ops.CUSTOM, Ops.CUSTOMI):
        with pytest.raises(DTypeError, match="must be given"):
            UOp(op, None, ())
    for node in [*first, *void, i, x32 + 1, x32.cast(dtypes.int8)]:
        with pytest.raises((DTypeError, SpecError)):
            UOp(node.op, dtypes.uint32, node.src, node.arg)


def test_nodes_in_arguments_are_rejected() -> None:
    """uopgraph checklist 14."""
    with pytest.raises(SpecError, match="UOp must not stand in arg"):
        UOp(Ops.CUSTOM, dtypes.int32, (), (1, UOp.const(1)))
    for arg in (UOp.const(1), ((UOp.const(1),),), frozenset({UOp.const(1)}), CallInfo(aux=UOp.const(1))):
        with pytest.raises(SpecError, match="UOp must not stand in arg"):
            UOp(Ops.CUSTOM, dtypes.int32, (), arg)


def test_check_levels() -> None:
    i8 = UOp.variable("a", 0, 3, dtypes.int8)
    with checking(0):
        UOp(Ops.ADD, dtypes.int64, (i8, i8))
    with checking(3), pytest.raises(ShapeError):
        UOp(Ops.RESHAPE, None, (buf(4, 6), UOp.shape_arg((5, 5))))
    with checking(4), pytest.raises(EncodingError):
        UOp(Ops.CUSTOM, dtypes.int32, (), object())


def test_devices_and_axes() -> None:
    """uopgraph checklist 22."""
    x = buf(8, 6)
    devices = ("d0", "d1")
    s = x.shard(devices, 0)
    assert s.shape == (8, 6)
    assert s.src[0].shape == (4, 6)
    assert s.device == devices
    assert s.axis == 0
    assert s.permute(1, 0).axis == 1
    assert s.expand(3, 8, 6).axis == 1
    assert s.reshape(2, 4, 6).axis == 0
    assert s.reshape(48).axis == 0
    assert s.rop(Ops.ADD, (1,)).axis == 0
    assert s.rop(Ops.ADD, (0,)).axis is None
    assert s.shrink([(0, 4), (0, 6)]).axis is None
    assert (s + buf(6, slot=1)).axis == 0
    assert x.shard(devices, 1).mselect(1).device == "d1"
    assert UOp.mstack(buf(2, device="d0"), buf(2, device="d1")).device == devices
    assert UOp.const(1.0).device is None
    assert x.copy_to_device("gpu").device == "gpu"
    with pytest.raises(DeviceError, match="moved items between shards"):
        _ = x.shard(devices, 1).reshape(3, 16).axis
    with pytest.raises(DeviceError, match="moved items between shards"):
        _ = buf(6, 4).shard(devices, 0).reshape(3, 8).axis  # three rows on two devices
    with pytest.raises(DeviceError):
        x.shard(("a", "b", "c"), 0)


def test_ranges() -> None:
    """uopgraph checklist 23."""
    i, j, k = UOp.range(4, 0), UOp.range(5, 1), UOp.range(6, 2)
    x = buf(4, 5, 6).index(i, j, k)
    assert list(x.ranges) == [i, j, k]
    red = UOp(Ops.REDUCE, None, (x, k), (Ops.ADD, 0))
    assert list(red.ranges) == [i, j]
    both = red + buf(6, slot=1).index(k)
    assert list(both.ranges) == [i, j, k]
    stage = red.stage(i, j, opts=BufferizeOpts("cpu"))
    assert list(stage.ranges) == []
    assert stage.shape == (4, 5)
    assert stage.index(i).ranges == {i: None}
    end = buf(4, slot=2).index(i).store(red).end(i, j)
    assert list(end.ranges) == []
    assert list(buf(4, slot=2).after(end).ranges) == []
    inner = UOp.range(i + 1, 3)
    assert set(inner.ranges) == {i, inner}


def test_storage_is_freed() -> None:
    """uopgraph checklist 10: what a side table keeps for a BUFFER goes with it"""

    class Memory:
        pass

    table: weakref.WeakKeyDictionary[UOp, Memory] = weakref.WeakKeyDictionary()
    b = UOp.new_buffer("cpu", 4, dtypes.float32)
    memory = Memory()
    gone = weakref.ref(memory)
    table[b] = memory
    x = (b.reshape(2, 2) + 1).sum()
    del memory, b
    assert gone() is not None
    del x
    assert gone() is None


# keys -------------------------------------------------------------------------------------------


def test_key_changes_with_everything() -> None:
    """uopgraph checklist 69."""
    a, b = UOp.variable("a", 0, 3), UOp.variable("b", 0, 3)
    nodes = [
        a + b,
        b + a,
        a * b,
        a + a,
        a.cast(dtypes.int8),
        a.cast(dtypes.int16),
        a + 1,
        a + 2,
        buf(4),
        buf(4, slot=1),
    ]
    nodes += [
        UOp.const(0.0),
        UOp.const(-0.0),
        UOp.const(0),
        UOp.const(False),
        a.sink(),
        a.sink(arg=KernelInfo("k")),
    ]
    assert len({n.key for n in nodes}) == len(nodes)
    assert a.sink().call(precompile=True, grad_fxn=print).key == a.sink().call(precompile=True).key


def test_unknown_arguments_do_not_hash() -> None:
    """uopgraph checklist 70."""
    with checking(0), pytest.raises(EncodingError):
        _ = UOp(Ops.CUSTOM, dtypes.int32, (), [1, 2].__len__).key


# specifications ---------------------------------------------------------------------------------


def specs(x: UOp) -> tuple[bool, bool, bool]:
    out = []
    for spec in (tensor_spec, kernel_graph_spec, program_spec):
        try:
            type_verify(x, spec, enter_calls=False)
            out.append(True)
        except SpecError:
            out.append(False)
    return out[0], out[1], out[2]


def test_each_spec_rejects_what_another_accepts() -> None:
    """uopgraph checklist 71."""
    x = buf(4, 6)
    i, j = UOp.range(4, 0), UOp.range(6, 1)
    p = UOp.param(0, dtypes.float32, (4, 6), "cpu")
    tensor = (x.permute(1, 0) + 1).sink()
    program = p.index(i, j).store(p.index(i, j).load() + 1).end(i, j).sink()
    kernels = x.base.after(program.replace(arg=KernelInfo("k")).call(x.base)).sink()
    assert specs(tensor) == (True, False, False)
    assert specs(program) == (False, False, True)
    assert specs(kernels) == (True, True, False)
    moved = p.permute(1, 0).index(j, i)
    for graph, spec, name in (
        (moved.store(1.0).end(i, j).sink(), program_spec, "PERMUTE"),
        (UOp.make_sink(x.index(i, j).load()), kernel_graph_spec, "INDEX"),
        (UOp.make_sink(p.index(i, j).load()), tensor_spec, "LOAD"),
    ):
        type_verify(graph, full_spec)
        with pytest.raises(SpecError, match=f"{name} float32 .*(forbidden|unknown)"):
            type_verify(graph, spec)


def test_violation_names_the_node() -> None:
    with checking(0):
        bad = UOp(Ops.REDUCE, None, (buf(4, 6),), (Ops.SUB, 1))
    with pytest.raises(SpecError, match=r"node \d+: REDUCE float32 \(RESHAPE:float32\)") as e:
        type_verify(bad.sink(), tensor_spec)
    assert e.value.node is bad
    assert e.value.index == list(bad.sink().toposort()).index(bad)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: UOp(Ops.CONST, dtypes.bool, (x,), True),
        lambda x: UOp(Ops.MSELECT, None, (x,), 0),
        lambda x: UOp(Ops.COPY, None, (x,), 3),
        lambda x: UOp(Ops.CONTIGUOUS, None, (x,), "opt"),
        lambda x: UOp(Ops.UNSHARD, None, (x, UOp.range(2, -1, AxisType.DEVICE)), (1, 0)),
        lambda x: UOp(Ops.GETTUPLE, dtypes.float32, (UOp.make_tuple(x),), 0).replace(arg="0"),
        lambda x: UOp(Ops.CALL, dtypes.void, (x.permute(1, 0),), CallInfo()),
        lambda x: x.alu(Ops.AND, x),
        lambda x: (x + 1).after(x.store(x)),
        lambda x: UOp(Ops.AFTER, dtypes.int8, (x, x.store(x))),
        lambda x: x.index(x),
        lambda x: UOp.range(4, 0).replace(arg=(0, 1)),
        lambda x: UOp(Ops.PARAM, dtypes.float32, (UOp.const(4),), "p"),
    ],
)
def test_bad_nodes_are_refused(make: Any) -> None:
    """graph spec 13"""
    with pytest.raises((SpecError, ArityError, DTypeError, DeviceError)):
        make(buf(4, 6))


def test_tensor_builders() -> None:
    """graph spec 16"""
    x, y = buf(2, 3), buf(2, 3, slot=1)
    assert x.cat(y, dim=1).shape == (2, 6)
    assert x.stack(y, dim=2).shape == (2, 3, 2)
    assert x.pad([(1, 1), (0, 0)], value=2.0).shape == (4, 3)
    assert x.sum(1, keepdim=True).shape == (2, 1)
    assert x.max().shape == ()
    assert x.contiguous() is x
    assert (x + 1).contiguous().contiguous() is (x + 1).contiguous()
    assert x.assign(y).src[0] is x
    assert x.const_like(3).shape == (2, 3)
    assert (x + 1).empty_like().shape == (2, 3)
    assert x.param_like(5).arg.slot == 5
    assert x.clone().shape == (2, 3)
    call = (x + 1).call(x, name="f")
    assert call.gettuple(0).shape == (2, 3)
    assert call.gettuple(0).dtype is dtypes.float32
    with pytest.raises(DTypeError):
        x.assign(y.cast(dtypes.float16))
    with pytest.raises(ShapeError):
        x.index(UOp.range(2, 0)).call()
    assert UOp.variable("n", 1, 8).param_like(2).expr == "p2"


def test_random_element_shapes() -> None:
    """uopgraph checklist 20: element-wise shapes equal NumPy's"""
    rng = random.Random(0)
    for _ in range(200):
        a = tuple(rng.choice([1, 2, 3]) for _ in range(rng.randint(0, 3)))
        b = tuple(rng.choice([1, 2, 3]) for _ in range(rng.randint(0, 3)))
        try:
            want = np.broadcast_shapes(a, b)
        except ValueError:
            with pytest.raises(ShapeError):
                _ = (buf(*a) + buf(*b)).shape
            continue
        assert (buf(*a) + buf(*b)).shape == want
