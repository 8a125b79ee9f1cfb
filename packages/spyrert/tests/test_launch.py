"""prepare and launch: results, refusals, and that a refusal changes nothing (runtime spec 3.12, 3.13, 6.1, 6.2)."""

from __future__ import annotations

import gc
import json
import shutil
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

from spyrert import MicroDevice, Overlap, Progress, Runtime, RuntimeConfig, SymbolicArg, SymbolicKind, errors
from spyrert.device import DeviceProperties
from spyrert.spyrecode import (
    Addr,
    Addressing,
    ArchitectureId,
    ArgSpec,
    Bounds,
    Dim,
    Dyn,
    HcmSymbol,
    Image,
    LaunchSpec,
    LinearLayout,
    PayloadKind,
    Pool,
    Role,
    SpyreCode,
    StickLayout,
    Sym,
    SymbolSpec,
    assemble,
)

MakeAdd = Callable[..., SpyreCode]


def arrays(shape: tuple[int, ...] = (4, 70), seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return tuple(rng.integers(-50, 50, shape).astype(np.float16) for _ in range(2))  # type: ignore[return-value]


def snapshot(rt: Runtime) -> tuple[Any, ...]:
    counters = rt.device().counters()
    return rt.memory_stats(), rt.device_state(), counters["cb_dma_in"], counters["cb_compute"]


@pytest.mark.parametrize("linear", [False, True])
def test_prepare_once_launch_often(rt: Runtime, make_add: MakeAdd, tmp_path: Path, linear: bool) -> None:
    """runtime checklist R65, R67, R68: images are transferred once, launches differ in buffers and scalars."""
    code = make_add(linear=linear)
    code.write(tmp_path / "k")
    before = rt.device().counters()["cb_dma_in"]
    plan = rt.prepare_kernel(tmp_path / "k")
    assert rt.device().counters()["cb_dma_in"] == before + 1
    assert rt.prepare_kernel(tmp_path / "k" / "spyreCodeDir") is plan
    assert rt.prepare_kernel(code) is plan
    shutil.rmtree(tmp_path / "k")
    assert [plan.get_step_type(i) for i in range(plan.num_steps())] == ["HostCompute", "H2D", "Compute"]
    tensors = []
    for number in range(3):
        a, b = arrays(seed=number)
        ta, tb = (rt.to_device(x, plan.args[0].layout) for x in ((a, b) if number % 2 else (b, a)))
        tc = rt.empty((4, 70), "float16", plan.args[2].layout)
        with rt.op_log() as log:
            ticket = rt.launch(plan, [ta, tb, tc], bindings={"n": number + 1})
            ticket.wait()
        assert [op.kind for op in log] == ["HostCompute", "H2D", "Compute"]
        np.testing.assert_array_equal(rt.to_host(tc), (a + b) * (number + 1))
        tensors += [ta, tb, tc]
    counters = rt.device().counters()
    assert counters["cb_compute"] == 3
    assert counters["cb_fault"] == 0


def test_launch_returns_before_anything_runs(make_add: MakeAdd) -> None:
    """runtime checklist R49"""
    with Runtime(MicroDevice, RuntimeConfig(progress=Progress.MANUAL)) as rt:
        plan = rt.prepare_kernel(make_add())
        a, b = arrays()
        ta, tb = rt.to_device(a, non_blocking=True), rt.to_device(b, non_blocking=True)
        tc = rt.empty((4, 70), "float16")
        ticket = rt.launch(plan, [ta, tb, tc], bindings={"n": 1})
        assert not ticket.done()
        assert not rt.current_stream().query()
        assert rt.device().counters()["cb_compute"] == 0
        steps = rt.pump()
        assert steps > 0
        assert ticket.done()
        np.testing.assert_array_equal(rt.to_host(tc), a + b)


def test_views_as_arguments(rt: Runtime, make_add: MakeAdd) -> None:
    """runtime checklist R86: the address of a view includes its offset."""
    plan = rt.prepare_kernel(make_add((4, 64)))
    a, b = arrays((12, 64))
    ta, tb = rt.to_device(a), rt.to_device(b)
    tc = rt.to_device(np.zeros((12, 64), np.float16))
    rt.launch(plan, [ta[4:8], tb[0:4], tc[8:12]], bindings={"n": 1})
    expected = np.zeros((12, 64), np.float16)
    expected[8:12] = a[4:8] + b[0:4]
    np.testing.assert_array_equal(rt.to_host(tc), expected)


REFUSALS: list[tuple[str, Callable[[Runtime, list[Any]], Any], type[Exception], str]] = [
    ("too few", lambda rt, t: {"tensors": t[:2]}, errors.ArgumentCountError, "takes 3 tensors, got 2"),
    ("too many", lambda rt, t: {"tensors": [*t, t[0]]}, errors.ArgumentCountError, "got 4"),
    ("host array", lambda rt, t: {"tensors": [np.zeros((4, 70)), *t[1:]]}, errors.ArgumentError, "argument 0 ('a') is ndarray"),
    ("none", lambda rt, t: {"tensors": [None, *t[1:]]}, errors.ArgumentError, "NoneType"),
    ("dtype", lambda rt, t: {"tensors": [t[0], rt.empty((4, 70), "bfloat16"), t[2]]}, errors.DtypeMismatch, "argument 1 ('b') has dtype bfloat16, expected float16"),
    ("rank", lambda rt, t: {"tensors": [t[0][None], *t[1:]]}, errors.ShapeMismatch, "expected rank 2"),
    ("transposed", lambda rt, t: {"tensors": [rt.empty((70, 4), "float16"), *t[1:]]}, errors.ShapeMismatch, "argument 0 ('a') has shape (70, 4), expected (4, 70)"),
    ("smaller", lambda rt, t: {"tensors": [rt.empty((4, 64), "float16"), *t[1:]]}, errors.ShapeMismatch, "dimension 1 is below the tile"),
    ("larger", lambda rt, t: {"tensors": [rt.empty((8, 70), "float16"), *t[1:]], "allow_tiled_launch": False}, errors.ShapeMismatch, "tiled launch not permitted"),
    ("order", lambda rt, t: {"tensors": [rt.empty((4, 70), "float16", StickLayout.default((4, 70), "float16", (1, 0))), *t[1:]]}, errors.LayoutMismatch, "argument 0 ('a')"),
    ("linear", lambda rt, t: {"tensors": [rt.empty((4, 70), "float16", LinearLayout("float16")), *t[1:]]}, errors.LayoutMismatch, "LinearLayout"),
    ("strided view", lambda rt, t: {"tensors": [rt.empty((8, 70), "float16")[::2], *t[1:]]}, errors.LayoutMismatch, "stride"),
    ("off the stick", lambda rt, t: {"tensors": [rt.empty((4, 140), "float16")[:, 70:], *t[1:]]}, errors.LayoutMismatch, ""),
    ("alias", lambda rt, t: {"tensors": [t[0], t[1], t[0]]}, errors.AliasError, "argument 2 ('c') and argument 0 ('a') overlap"),
    ("empty", lambda rt, t: {"tensors": [t[0][:0], *t[1:]]}, errors.ArgumentError, "empty"),
    ("unbound", lambda rt, t: {"bindings": None}, errors.SymbolBindingError, "'n' of kernel 'add' is not bound"),
    ("unknown name", lambda rt, t: {"bindings": {"n": 1, "m": 2}}, errors.SymbolBindingError, "no symbol 'm' (known: n)"),
    ("too small", lambda rt, t: {"bindings": {"n": -1}}, errors.SymbolBindingError, "below its minimum 0"),
    ("too large", lambda rt, t: {"bindings": {"n": 1001}}, errors.SymbolBindingError, "above its maximum 1000"),
    ("wrong type", lambda rt, t: {"bindings": {"n": 1.5}}, errors.SymbolBindingError, "is of type index, got 1.5"),
    ("symbolic_args", lambda rt, t: {"symbolic_args": [SymbolicArg(SymbolicKind.ADDRESS, 0)]}, errors.SymbolBindingError, "1 symbolic_args for 4 symbols"),
    ("tensor_id", lambda rt, t: {"symbolic_args": [SymbolicArg(SymbolicKind.ADDRESS, 9)] * 4}, errors.SymbolBindingError, "not passed"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "error", "text"), [r[1:] for r in REFUSALS], ids=[r[0] for r in REFUSALS])
def test_refusals(rt: Runtime, make_add: MakeAdd, change: Any, error: Any, text: str) -> None:
    """runtime checklist R23, R68, R73; faults L1-L5, L10, L12-L14: a refusal enqueues and allocates nothing."""
    plan = rt.prepare_kernel(make_add())
    tensors = [rt.to_device(x) for x in arrays()] + [rt.empty((4, 70), "float16")]
    call: dict[str, Any] = {"tensors": tensors, "bindings": {"n": 1}} | change(rt, tensors)
    call["tensors"] = list(call["tensors"])
    rt.synchronize()
    before, refused = snapshot(rt), rt.refused_launches
    with rt.op_log() as log, pytest.raises(error) as caught:
        rt.launch(plan, **call)
    assert text in str(caught.value)
    assert isinstance(caught.value, errors.LaunchError)
    rt.synchronize()
    assert log == []
    assert snapshot(rt) == before
    assert rt.refused_launches == refused + 1
    rt.launch(plan, tensors, bindings={"n": 1}).wait()


def test_symbolic_args_override(rt: Runtime, make_add: MakeAdd) -> None:
    """runtime spec 3.11.2: explicit values for all symbols."""
    plan = rt.prepare_kernel(make_add())
    a, b = arrays()
    ta, tb, tc = rt.to_device(a), rt.to_device(b), rt.empty((4, 70), "float16")
    explicit = [SymbolicArg(SymbolicKind.ADDRESS, k) for k in (1, 0, 2)]
    explicit.append(SymbolicArg(SymbolicKind.DIMENSION, 0, dim_index=0))
    rt.launch(plan, [ta, tb, tc], bindings={"n": 1}, symbolic_args=explicit)
    np.testing.assert_array_equal(rt.to_host(tc), (a + b) * 4)


def test_released_plans(rt: Runtime, make_add: MakeAdd) -> None:
    """runtime checklist R99; faults L18, R16"""
    plan = rt.prepare_kernel(make_add())
    a, b = arrays()
    ta, tb, tc = rt.to_device(a), rt.to_device(b), rt.empty((4, 70), "float16")
    allocated = rt.memory_allocated()
    ticket = rt.launch(plan, [ta, tb, tc], bindings={"n": 1})
    plan.release()
    plan.release()
    ticket.wait()
    np.testing.assert_array_equal(rt.to_host(tc), a + b)
    assert rt.memory_allocated() == allocated - plan.job_allocation_size()
    with pytest.raises(errors.PlanReleased):
        rt.launch(plan, [ta, tb, tc], bindings={"n": 1})
    again = rt.prepare_kernel(make_add())
    assert again is not plan
    del again
    gc.collect()
    assert rt.memory_allocated() == allocated - plan.job_allocation_size()


def test_concurrent_prepare_loads_once(make_add: MakeAdd) -> None:
    """runtime checklist R65: sixteen callers, one transfer."""
    with Runtime(MicroDevice, RuntimeConfig(progress=Progress.THREAD)) as rt:
        code, plans = make_add(), []
        gate = threading.Barrier(16)

        def work() -> None:
            gate.wait()
            plans.append(rt.prepare_kernel(code))

        threads = [threading.Thread(target=work) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({id(plan) for plan in plans}) == 1
        assert rt.device().counters()["cb_dma_in"] == 1


def test_failed_prepare_leaves_nothing(rt: Runtime, make_add: MakeAdd) -> None:
    """runtime checklist R66; faults A21, A23: memory is unchanged and the next call tries again."""
    from spyrert.device import FaultKind, FaultSpec

    device = rt.device()
    assert isinstance(device, MicroDevice)
    before = rt.memory_allocated()
    device.faults.add(FaultSpec(FaultKind.DMA_ERROR))
    with pytest.raises(errors.DmaFault):
        rt.prepare_kernel(make_add())
    assert rt.memory_allocated() == before
    with pytest.raises(errors.StreamInErrorState) as caught:
        rt.prepare_kernel(make_add())
    assert isinstance(caught.value.__cause__, errors.DmaFault)
    rt.reset_stream()
    assert rt.prepare_kernel(make_add()).num_steps() == 3
    large = attrs.evolve(
        make_add(), kernel_name="large", launch=attrs.evolve(make_add().launch, kernel_name="large")
    )
    with pytest.raises(errors.OutOfDeviceMemory):
        rt.prepare_kernel(large, replicas=500)
    assert rt.prepare_kernel(large).num_steps() == 3


def test_devices_are_checked(make_add: MakeAdd) -> None:
    """reading 7, 22: f16 format, architecture, cores and payload kind."""
    code = make_add()
    assert code.launch is not None

    def runtime(**props: Any) -> Runtime:
        return Runtime(
            lambda index: MicroDevice(DeviceProperties(**props)), RuntimeConfig(progress=Progress.MANUAL)
        )

    with runtime(f16_format="dlfloat") as rt, pytest.raises(errors.UnsupportedImage, match="f16 format ieee"):
        rt.prepare_kernel(code)
    named = attrs.evolve(
        code, launch=attrs.evolve(code.launch, architecture=ArchitectureId("spyre", "ab" * 32))
    )
    with (
        runtime(architecture=("sample", "")) as rt,
        pytest.raises(errors.UnsupportedImage, match="made for spyre"),
    ):
        rt.prepare_kernel(named)
    with runtime(architecture=("spyre", "cd" * 32)) as rt, pytest.raises(errors.UnsupportedImage):
        rt.prepare_kernel(named)
    with runtime(architecture=("spyre", "ab" * 32)) as rt:
        rt.prepare_kernel(named)
    spec = LaunchSpec("wide")
    wide = assemble(b"[]", PayloadKind.OP_LIST, spec, core_count=32)
    with runtime(num_cores=4) as rt, pytest.raises(errors.UnsupportedImage, match="needs 32 cores"):
        rt.prepare_kernel(wide)
    foreign = assemble(b"x", 0x91, spec)
    with runtime() as rt:
        with pytest.warns(errors.SpyreCodeWarning, match="payload kind 0x91"):
            plan = rt.prepare_kernel(foreign)
        with pytest.raises(errors.UnsupportedImage):
            rt.launch(plan, [])


def test_plain_artefact_runs_unvalidated(rt: Runtime, tmp_path: Path) -> None:
    """runtime checklist R1, R88; fault A25: a version-0 folder is prepared, its foreign image is refused at launch."""
    base = 120259084288
    (tmp_path / "init.bin").write_bytes(bytes(1024))
    manifest = {
        "JobPreparationPlan": [
            {"command": "Allocate", "properties": {"size": "1024"}},
            {
                "command": "InitTransfer",
                "properties": {"init_bin_file": "init.bin", "dev_ptr": str(base), "size": "1024"},
            },
        ],
        "JobExecPlan": [{"command": "ComputeOnDevice", "properties": {"job_bin_ptr": str(base)}}],
    }
    (tmp_path / "spyrecode.json").write_text(json.dumps(manifest))
    with pytest.warns(errors.SpyreCodeWarning, match="foreign"):
        plan = rt.prepare_kernel(tmp_path)
    assert (plan.num_steps(), plan.get_step_type(0), plan.job_allocation_size()) == (1, "Compute", 1024)
    with pytest.raises(IndexError, match="Step index out of range"):
        plan.get_step_type(1)
    with pytest.raises(errors.UnsupportedImage):
        rt.launch(plan, [])


def plain_baked(path: Path, image: bytes, compute: dict[str, str] | None = None) -> Path:
    """A version-0 folder with one of our images; it starts at the base of the program segment."""
    base = 120259084288
    load = {"init_bin_file": "init.bin", "dev_ptr": str(base), "size": str(len(image))}
    manifest = {
        "JobPreparationPlan": [
            {"command": "Allocate", "properties": {"size": str(len(image))}},
            {"command": "InitTransfer", "properties": load},
        ],
        "JobExecPlan": [
            {"command": "ComputeOnDevice", "properties": {"job_bin_ptr": str(base)} | (compute or {})}
        ],
    }
    inner = path / "spyreCodeDir"
    inner.mkdir(parents=True)
    (inner / "init.bin").write_bytes(image)
    (inner / "spyrecode.json").write_text(json.dumps(manifest))
    return path


def test_plain_artefacts_warn_once(rt: Runtime, tmp_path: Path) -> None:
    """runtime checklist R88: a version-0 plan runs with tensors that nobody has checked, and says so once."""
    program = [{"op": "fill", "value": 7, "out": {"addr": 0, "shape": [64], "dtype": "int16"}}]
    image = Image(json.dumps(program).encode(), PayloadKind.OP_LIST, abi=1).encode()
    plan = rt.prepare_kernel(plain_baked(tmp_path / "k", image))
    tensor = rt.to_device(np.zeros(64, np.int16), LinearLayout("int16"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            rt.launch(plan, [tensor])
    assert (rt.to_host(tensor) == 7).all()
    found = [w for w in caught if w.category is errors.UnvalidatedLaunch]
    assert len(found) == 1
    assert "arguments are not checked" in str(found[0].message)
    other = rt.prepare_kernel(plain_baked(tmp_path / "l", image.ljust(len(image) + 128, b"\0")))
    with pytest.warns(errors.UnvalidatedLaunch):
        rt.launch(other, [tensor])


def test_names_in_traces(rt: Runtime, make_add: MakeAdd, tmp_path: Path) -> None:
    """runtime checklist R87: an explicit name and the step; else the property ``name``; else kernel or place, and step."""
    image = Image(b"[]", PayloadKind.OP_LIST, abi=1).encode()

    def names(plan: Any, *tensors: Any, **call: Any) -> list[str]:
        with rt.op_log() as log, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rt.launch(plan, list(tensors), **call).wait()
        return [operation.name for operation in log]

    place = plain_baked(tmp_path / "model" / "k0", image)
    assert names(rt.prepare_kernel(place)) == ["model/k0/bundle.mlir#0"]
    assert names(rt.prepare_kernel(place / "spyreCodeDir", cache=False)) == ["model/k0/bundle.mlir#0"]
    named = plain_baked(tmp_path / "k1", image, {"name": "softmax"})
    assert names(rt.prepare_kernel(named)) == ["softmax"]
    assert names(rt.prepare_kernel(named, name="mine")) == ["mine#0"]
    a, b, c = (rt.to_device(np.ones((4, 70), np.float16)) for _ in range(3))
    plan = rt.prepare_kernel(make_add(), name="layer 3")
    assert names(plan, a, b, c, bindings={"n": 1}) == ["layer 3#0", "layer 3#1", "layer 3#2"]
    assert rt.prepare_kernel(make_add(), name="layer 3") is plan
    assert names(rt.prepare_kernel(make_add()), a, b, c, bindings={"n": 1}) == ["add#0", "add#1", "add"]
    for bad in ("", "x" * 256, "\u00e4" * 128, "a\nb"):
        with pytest.raises(errors.ArgumentValueError, match="name"):
            rt.prepare_kernel(make_add(), name=bad)
    assert (
        names(rt.prepare_kernel(make_add(), name="x" * 253), a, b, c, bindings={"n": 1})[0]
        == "x" * 253 + "#0"
    )


def test_scalars_travel_as_bit_patterns(rt: Runtime) -> None:
    """reading 2: floats as bit patterns, integers and indices as themselves."""
    spec = LaunchSpec(
        "fill",
        (ArgSpec(Role.OUTPUT, (4,), "int64", LinearLayout("int64"), "out", 0),),
        (
            SymbolSpec("h", "float16", Bounds(), 1),
            SymbolSpec("f", "float32", Bounds(), 2),
            SymbolSpec("i", "int8", Bounds(None, None), 3),
            SymbolSpec("k", "index", Bounds(None, None, 4), 4),
        ),
    )

    def cell(index: int) -> dict[str, Any]:
        return {"addr": {"slot": 0, "offset": 8 * index}, "shape": [1], "dtype": "int64"}

    program = [{"op": "fill", "out": cell(k), "value": {"slot": k + 1}} for k in range(4)]
    symbols = [HcmSymbol(-1, Addr(0))] + [HcmSymbol(-2 - k, Sym(name)) for k, name in enumerate("hfik")]
    plan = rt.prepare_kernel(assemble(json.dumps(program).encode(), PayloadKind.OP_LIST, spec, symbols))
    out = rt.empty((4,), "int64", LinearLayout("int64"))
    rt.launch(plan, [out], bindings={"h": -1.5, "f": np.float32(0.1), "i": np.int8(-3), "k": 8})
    expected = [0xBE00, int(np.float32(0.1).view(np.uint32)), -3, 8]
    np.testing.assert_array_equal(rt.to_host(out), expected)
    for name, value in (("i", 200), ("k", 6), ("h", "x"), ("h", True), ("k", 2**63)):
        with pytest.raises(errors.SymbolBindingError, match=f"'{name}'"):
            rt.launch(plan, [out], bindings={"h": 1, "f": 1, "i": 1, "k": 4, name: value})


def test_symbolic_dimension(rt: Runtime) -> None:
    """reading 36: the size comes from the tensor or the bindings, strides are those of the maximal shape."""
    layout = StickLayout.default((8, 70), "float16")
    spec = LaunchSpec(
        "scale",
        (
            ArgSpec(Role.INPUT, ("m", 70), "float16", layout, "x", 0),
            ArgSpec(Role.OUTPUT, ("m", 70), "float16", layout, "y", 1),
        ),
        (SymbolSpec("m", "index", Bounds(2, 8, 2)),),
    )

    def operand(slot: int) -> dict[str, Any]:
        return {"addr": {"slot": slot}, "shape": [8, 70], "dtype": "float16", "layout": layout.to_json()}

    rows = {"addr": {"slot": 1}, "shape": [1], "dtype": "float16"}
    program = [
        {"op": "copy", "src": operand(0), "out": operand(1)},
        {"op": "fill", "out": rows, "value": {"slot": 2}},
    ]
    symbols = [HcmSymbol(-1, Addr(0)), HcmSymbol(-2, Addr(1)), HcmSymbol(-3, Dim(0, 0))]
    plan = rt.prepare_kernel(assemble(json.dumps(program).encode(), PayloadKind.OP_LIST, spec, symbols))
    x = rt.empty((4, 70), "float16", max_shape=(8, 70))
    y = rt.empty((4, 70), "float16", max_shape=(8, 70))
    data = arrays((4, 70))[0]
    rt.copy(data, x)
    rt.launch(plan, [x, y])
    data[0, 0] = 4
    np.testing.assert_array_equal(rt.to_host(y), data)
    rt.launch(plan, [x, y], bindings={"m": 4}).wait()
    with pytest.raises(
        errors.SymbolBindingError, match=r"'m' is 6 by the bindings, but argument 0 \('x'\) has size 4"
    ):
        rt.launch(plan, [x, y], bindings={"m": 6})
    odd = rt.empty((3, 70), "float16", max_shape=(8, 70))
    with pytest.raises(errors.SymbolBindingError, match="not a multiple of its granularity 2"):
        rt.launch(plan, [odd, odd])
    packed = rt.empty((4, 70), "float16")
    with pytest.raises(errors.LayoutMismatch):
        rt.launch(plan, [packed, y])


def test_units_must_divide(rt: Runtime) -> None:
    """fault L13: an address that is not a whole number of words."""
    spec = LaunchSpec(
        "odd", (ArgSpec(Role.OUTPUT, (64,), "float16", LinearLayout("float16"), "a", 0),), (SymbolSpec("n"),)
    )
    code = assemble(b"[]", PayloadKind.OP_LIST, spec, [HcmSymbol(-1, Addr(0) + Sym("n") * 2, 64)])
    plan = rt.prepare_kernel(code)
    out = rt.empty((64,), "float16", LinearLayout("float16"))
    rt.launch(plan, [out], bindings={"n": 32}).wait()
    with pytest.raises(errors.SymbolBindingError, match=r"symbol -1 = .* is not a multiple of its unit 64"):
        rt.launch(plan, [out], bindings={"n": 1})


def test_dynamic_and_pool_memory(rt: Runtime) -> None:
    """runtime checklist R81; fault L17: a scratch block per launch, and the pool that the runtime passes."""
    spec = LaunchSpec(
        "scratch", (ArgSpec(Role.OUTPUT, (64,), "float16", LinearLayout("float16"), "out", 0),), pool_size=300
    )

    def at(slot: int) -> dict[str, Any]:
        return {"addr": {"slot": slot}, "shape": [64], "dtype": "float16"}

    program = [
        {"op": "fill", "out": at(1), "value": 3},
        {"op": "fill", "out": at(2), "value": 4},
        {"op": "add", "lhs": at(1), "rhs": at(2), "out": at(0)},
    ]
    symbols = [HcmSymbol(-1, Addr(0)), HcmSymbol(-2, Dyn()), HcmSymbol(-3, Pool())]
    code = assemble(json.dumps(program).encode(), PayloadKind.OP_LIST, spec, symbols, dynamic_size=1 << 17)
    plan = rt.prepare_kernel(code)
    outs = [rt.empty((64,), "float16", LinearLayout("float16")) for _ in range(3)]
    rt.synchronize()
    rt.launch(plan, [outs[0]]).wait()
    assert (rt.to_host(outs[0]) == 7).all()
    stats = rt.memory_stats()
    assert stats["deferred_bytes"] == 0
    rt.launch(plan, [outs[1]]).wait()
    assert rt.memory_stats()["allocated_bytes.all.current"] == stats["allocated_bytes.all.current"]


def test_dynamic_memory_runs_out() -> None:
    """fault L17"""
    config = RuntimeConfig(progress=Progress.MANUAL, dynamic_region_bytes=1 << 17)
    with Runtime(MicroDevice, config) as rt:
        spec = LaunchSpec("scratch")
        plan = rt.prepare_kernel(
            assemble(b"[]", PayloadKind.OP_LIST, spec, [HcmSymbol(-1, Dyn())], dynamic_size=1 << 17)
        )
        rt.launch(plan, [])
        before = rt.memory_stats()
        with pytest.raises(errors.OutOfDeviceMemory):
            rt.launch(plan, [])
        assert rt.memory_stats() | {"num_ooms": 0} == before
        rt.synchronize()
        rt.launch(plan, []).wait()


def test_baked_addresses(rt: Runtime) -> None:
    """runtime checklist R79; reading 4: segment i is argument i with its exact extent."""
    linear = LinearLayout("float16")
    spec = LaunchSpec(
        "baked",
        (
            ArgSpec(Role.INPUT, (64,), "float16", linear, "@0x0"),
            ArgSpec(Role.OUTPUT, (64,), "float16", linear, "@0x400"),
        ),
        bundle_symbolic_args=False,
    )

    def at(address: int) -> dict[str, Any]:
        return {"addr": address, "shape": [64], "dtype": "float16"}

    def build(source: int) -> SpyreCode:
        program = [{"op": "add", "lhs": at(source), "rhs": at(source), "out": at(1 << 34)}]
        return assemble(json.dumps(program).encode(), PayloadKind.OP_LIST, spec, addressing=Addressing.BAKED)

    plan = rt.prepare_kernel(build(0))
    x, y = rt.to_device(np.arange(64, dtype=np.float16), linear), rt.empty((64,), "float16", linear)
    rt.launch(plan, [x, y]).wait()
    np.testing.assert_array_equal(rt.to_host(y), np.arange(64) * 2)
    with pytest.raises(errors.UnsupportedFeature, match="baked"):
        rt.prepare_kernel(build(0), allow_baked=False, cache=False)
    beyond = rt.prepare_kernel(build(128))
    with pytest.raises(errors.PageFault, match="read of 128 bytes at 0x80 of segment 0"):
        rt.launch(beyond, [x, y]).wait()


def test_inputs_are_not_writable(rt: Runtime) -> None:
    """runtime spec 3.2.5: a program that writes where it declared only reads is stopped (baked entries are exact)."""
    linear = LinearLayout("float16")
    spec = LaunchSpec(
        "w", (ArgSpec(Role.INPUT, (64,), "float16", linear, "@0x0"),), bundle_symbolic_args=False
    )
    program = [{"op": "fill", "out": {"addr": 0, "shape": [64], "dtype": "float16"}, "value": 1}]
    code = assemble(json.dumps(program).encode(), PayloadKind.OP_LIST, spec, addressing=Addressing.BAKED)
    plan = rt.prepare_kernel(code)
    with pytest.raises(errors.PageFault, match="read-only"):
        rt.launch(plan, [rt.empty((64,), "float16", linear)]).wait()


def test_regions_of_inputs_are_not_writable(rt: Runtime) -> None:
    """runtime spec 3.13.4: a symbolic program may write a tensor region only if an argument there is written."""
    spec = LaunchSpec("w", (ArgSpec(Role.INPUT, (64,), "float16", LinearLayout("float16"), "x"),))
    program = [{"op": "fill", "out": {"addr": {"slot": 0}, "shape": [64], "dtype": "float16"}, "value": 1}]
    plan = rt.prepare_kernel(
        assemble(json.dumps(program).encode(), PayloadKind.OP_LIST, spec, [HcmSymbol(-1, Addr(0))])
    )
    with pytest.raises(errors.PageFault, match="read-only segment"):
        rt.launch(plan, [rt.empty((64,), "float16", LinearLayout("float16"))]).wait()


def test_symbolic_program_stays_in_its_block(rt: Runtime) -> None:
    """runtime checklist R27, R80: one stick beyond the static block, segment 0, and unused regions fault."""
    for address in ((7 << 34) + 384, 0, 5 << 34, 6 << 34):
        program = [{"op": "fill", "out": {"addr": address, "shape": [64], "dtype": "float16"}, "value": 1}]
        plan = rt.prepare_kernel(
            assemble(json.dumps(program).encode().ljust(128), PayloadKind.OP_LIST, LaunchSpec("wild"))
        )
        ticket = rt.launch(plan, [], stream=rt.Stream())
        with pytest.raises(errors.PageFault):
            ticket.wait()


def test_wrong_runtime_and_stream(rt: Runtime, make_add: MakeAdd) -> None:
    """fault L2, L18, L19"""
    plan = rt.prepare_kernel(make_add())
    with Runtime(MicroDevice, RuntimeConfig(progress=Progress.MANUAL)) as other:
        strange = other.empty((4, 70), "float16")
        mine = [rt.empty((4, 70), "float16") for _ in range(2)]
        with pytest.raises(errors.DeviceMismatch):
            rt.launch(plan, [strange, *mine], bindings={"n": 1})
        with pytest.raises(errors.DeviceMismatch):
            other.launch(plan, [strange] * 3, bindings={"n": 1})
    stream = rt.Stream()
    stream.destroy()
    with pytest.raises(errors.StreamDestroyed):
        rt.launch(plan, [rt.empty((4, 70), "float16") for _ in range(3)], bindings={"n": 1}, stream=stream)


@pytest.mark.sweep(default=25, full=1000)
def test_overlap_changes_nothing(make_add: MakeAdd, cases: int) -> None:
    """runtime checklist R82, R85: random launch sequences give identical memory in all modes and with replicas."""
    import random

    code = make_add((2, 64))
    pipelined = [(Overlap.TWO_STREAM, 1), (Overlap.THREE_STAGE, 1), (Overlap.THREE_STAGE, 2)]
    for seed in range(cases):
        results = []
        others = pipelined if cases >= 1000 else [pipelined[seed % 3]]
        for overlap, replicas in [(Overlap.OFF, 1), *others]:
            rng = random.Random(seed)
            config = RuntimeConfig(
                progress=Progress.MANUAL, overlap=overlap, host_ns=rng.choice([0, 500, 5000])
            )
            with Runtime(MicroDevice, config) as rt:
                plan = rt.prepare_kernel(code, replicas=replicas)
                tensors = [rt.to_device(np.full((2, 64), k, np.float16)) for k in range(4)]
                streams = [rt.default_stream(), rt.Stream()]
                rt.synchronize()
                for _ in range(8):
                    chosen = rng.sample(tensors, 3)
                    stream = streams[0] if overlap is Overlap.OFF else rng.choice(streams)
                    if overlap is Overlap.OFF:
                        rng.choice(streams)
                    rt.launch(plan, chosen, bindings={"n": rng.randrange(3)}, stream=stream)
                rt.synchronize()
                results.append([rt.to_host(t).tobytes() for t in tensors])
        assert all(result == results[0] for result in results)
