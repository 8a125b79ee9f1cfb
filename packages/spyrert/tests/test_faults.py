"""Section 6 of the runtime specification, row by row: the condition, the exception, the state afterwards, and that
nothing else is lost.

"Unchanged" means: memory statistics, stream states, cached plans and device counters are as before the call, a
tensor keeps its bytes, and a good kernel still runs.
"""

from __future__ import annotations

import contextlib
import copy
import gc
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

from spyrert import (
    AllocationDirective,
    MicroDevice,
    PlacementPolicy,
    Progress,
    Runtime,
    RuntimeConfig,
    SymbolicArg,
    SymbolicKind,
    errors,
)
from spyrert.constants import PROG_OFFSET_BASE as BASE
from spyrert.correction import program_correction
from spyrert.device import DeviceProperties, FaultKind, FaultSpec, Match
from spyrert.device.protocol import Engine, MemoryDomain, MemoryType
from spyrert.execution import ErrorCode, HostCall, OpState
from spyrert.spyrecode import (
    Addr,
    Addressing,
    ArgSpec,
    DimKind,
    DimSpec,
    Hcm,
    HcmSymbol,
    LaunchSpec,
    LinearLayout,
    PayloadKind,
    Role,
    SpyreCode,
    StickLayout,
    assemble,
)

MakeAdd = Callable[..., SpyreCode]
SHAPE = (4, 70)


def micro(rt: Runtime) -> MicroDevice:
    device = rt.device()
    assert isinstance(device, MicroDevice)
    return device


@attrs.define
class World:
    """A runtime with a good plan, its tensors, and a witness whose bytes must survive everything."""

    rt: Runtime
    code: SpyreCode
    plan: Any
    a: Any
    b: Any
    c: Any
    witness: Any

    def launch(self, stream: Any = None) -> Any:
        return self.rt.launch(self.plan, [self.a, self.b, self.c], bindings={"n": 3}, stream=stream)

    def state(self) -> Any:
        gc.collect()
        stats = {k: v for k, v in self.rt.memory_stats().items() if k != "num_ooms"}
        accumulated = {k for k in stats if k.endswith((".allocated", ".freed", ".peak"))}
        context = self.rt._context(0)
        return (
            {k: v for k, v in stats.items() if k not in accumulated},
            [(s.id, s.status) for s in context.stream_states()],
            sorted(key[1] for key in self.rt._plans),
            self.rt.device().counters(),
            context.inflight,
        )

    def works(self, stream: Any = None) -> None:
        """Nothing is lost: the witness is intact and the good kernel runs (on a new stream)."""
        stream = stream or self.rt.Stream()
        self.launch(stream).wait()
        assert (self.rt.to_host(self.c, stream) == 6).all()
        assert (self.rt.to_host(self.witness, stream) == 42).all()
        self.rt._context(0).allocator.check_invariants()

    @contextlib.contextmanager
    def unchanged(self, error: type[Exception], text: str | None = None) -> Iterator[None]:
        """The block raises this error and changes nothing."""
        self.rt._context(0).scheduler.wait_for(self.rt._context(0).scheduler.idle, 20, "idle")
        before = self.state()
        with self.rt.op_log() as log, pytest.raises(error, match=text):
            yield
        assert log == []
        assert self.state() == before
        self.works()


def made(rt: Runtime, code: SpyreCode) -> World:
    ones = [rt.to_device(np.ones(SHAPE, np.float16)) for _ in range(2)]
    witness = rt.to_device(np.full(100, 42, np.int32))
    return World(rt, code, rt.prepare_kernel(code), *ones, rt.empty(SHAPE, "float16"), witness)


@pytest.fixture
def world(make_add: MakeAdd) -> Iterator[World]:
    """For what is refused at once: progress does not matter."""
    config = RuntimeConfig(
        progress=Progress.MANUAL,
        tensor_region_bytes=1 << 20,
        program_region_bytes=1 << 18,
        dynamic_region_bytes=1 << 18,
    )
    with Runtime(MicroDevice, config) as rt:
        yield made(rt, make_add())


@pytest.fixture
def live(rt: Runtime, make_add: MakeAdd) -> World:
    """For what fails later: with a worker thread and by hand."""
    return made(rt, make_add())


# -- 6.1 artefact and prepare ----------------------------------------------------------------------


def plain() -> tuple[dict[str, Any], dict[str, bytes]]:
    """An upstream artefact (version 0) with all kinds of commands."""
    host = {
        "ihandle": "",
        "ishape": ["1"],
        "ohandle": "T1",
        "size": "1024",
        "hcm": {"vdci": {}, "senConstants": []},
    }
    move = {"dirn": "false", "host_handle": "T1", "dev_ptr": str(BASE + 128), "size": "1024"}
    load = {"init_bin_file": "init.bin", "dev_ptr": str(BASE + 2048), "size": "1024"}
    return {
        "JobPreparationPlan": [
            {"command": "Allocate", "properties": {"size": "4096"}},
            {"command": "InitTransfer", "properties": load},
        ],
        "JobExecPlan": [
            {"command": "ComputeOnHost", "properties": host},
            {"command": "DataTransfer", "properties": move},
            {"command": "ComputeOnDevice", "properties": {"job_bin_ptr": str(BASE + 2048)}},
        ],
    }, {"init.bin": bytes(1024)}


def folder(path: Path, manifest: Any, files: dict[str, bytes]) -> Path:
    inner = path / "spyreCodeDir"
    inner.mkdir(parents=True)
    (inner / "spyrecode.json").write_text(manifest if isinstance(manifest, str) else json.dumps(manifest))
    for name, data in files.items():
        (inner / name).write_bytes(data)
    return path


def edit(place: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """A change of the manifest: ``plan/index/property``, or of the whole command or plan."""

    def change(manifest: dict[str, Any]) -> None:
        plan, *rest = place.split("/")
        if not rest:
            manifest[plan] = value
        elif len(rest) == 1:
            manifest[plan][int(rest[0])] = value
        elif value is None:
            del manifest[plan][int(rest[0])]["properties"][rest[1]]
        else:
            manifest[plan][int(rest[0])]["properties"][rest[1]] = value

    return change


PREP, EXEC = "JobPreparationPlan", "JobExecPlan"
BAD_MANIFESTS: list[tuple[str, Callable[[dict[str, Any]], None], type[errors.SpyreError]]] = [
    ("A4", edit(EXEC, {}), errors.SpyreCodeSchemaError),
    ("A4", lambda m: m.pop(PREP), errors.SpyreCodeSchemaError),
    ("A5", lambda m: m[PREP].pop(0), errors.SpyreCodeSchemaError),
    ("A5", lambda m: m[PREP].append(m[PREP][0]), errors.SpyreCodeSchemaError),
    ("A5", lambda m: m[PREP].pop(1), errors.SpyreCodeSchemaError),
    ("A6", edit(f"{EXEC}/2", {"command": "Jump", "properties": {}}), errors.SpyreCodeSchemaError),
    ("A6", lambda m: m[EXEC].append(m[PREP][0]), errors.SpyreCodeSchemaError),
    ("A7", edit(f"{EXEC}/0/ohandle", None), errors.SpyreCodeSchemaError),
    ("A7", edit(f"{EXEC}/0/size", 1024), errors.SpyreCodeSchemaError),
    ("A7", edit(f"{EXEC}/0/ishape", "1"), errors.SpyreCodeSchemaError),
    ("A7", edit(f"{EXEC}/0/ishape", [1]), errors.SpyreCodeSchemaError),
    ("A7", edit(f"{EXEC}/0/hcm", "{}"), errors.SpyreCodeSchemaError),
    ("A7", edit(f"{EXEC}/0/hcm", None), errors.SpyreCodeSchemaError),
    ("A7", edit(f"{EXEC}/0/hcm_file", "hcm.json"), errors.SpyreCodeSchemaError),
    ("A8", edit(f"{EXEC}/1/size", "-1"), errors.SpyreCodeSchemaError),
    ("A8", edit(f"{EXEC}/1/size", "0x400"), errors.SpyreCodeSchemaError),
    ("A8", edit(f"{EXEC}/1/size", " 1024"), errors.SpyreCodeSchemaError),
    ("A8", edit(f"{EXEC}/1/size", str(2**64)), errors.SpyreCodeSchemaError),
    ("A9", edit(f"{EXEC}/1/dirn", "0"), errors.SpyreCodeSchemaError),
    ("A10", edit(f"{EXEC}/1/dev_ptr", "128"), errors.SpyreCodeAddressError),
    ("A10", edit(f"{EXEC}/1/dev_ptr", str(BASE + 130)), errors.SpyreCodeAddressError),
    ("A10", edit(f"{EXEC}/1/dev_ptr", str(BASE + 4096)), errors.SpyreCodeAddressError),
    ("A10", edit(f"{EXEC}/2/job_bin_ptr", str(BASE + 4096)), errors.SpyreCodeAddressError),
    ("A11", lambda m: m[PREP].append(copy.deepcopy(m[PREP][1])), errors.SpyreCodeAddressError),
    ("A13", edit(f"{EXEC}/1/host_handle", "T9"), errors.SpyreCodeHandleError),
    ("A13", edit(f"{EXEC}/0/ihandle", "T9"), errors.SpyreCodeHandleError),
    ("A13", lambda m: m[EXEC].insert(1, copy.deepcopy(m[EXEC][0])), errors.SpyreCodeHandleError),
    ("A14", edit(f"{EXEC}/0/size", "512"), errors.SpyreCodeOrderError),
    ("A14", lambda m: m[EXEC].pop(), errors.SpyreCodeOrderError),
    ("A15", edit(f"{PREP}/1/init_bin_file", "gone.bin"), errors.SpyreCodeNotFound),
    ("A15", edit(f"{PREP}/1/size", "1152"), errors.SpyreCodeAddressError),
    ("A15", edit(f"{PREP}/1/init_bin_file", "../init.bin"), errors.SpyreCodePathError),
    ("A15", edit(f"{PREP}/1/init_bin_file", "/etc/passwd"), errors.SpyreCodePathError),
    ("A17", edit("version", 99), errors.SpyreCodeVersionError),
    ("A20", edit(f"{PREP}/0/size", "0"), errors.SpyreCodeAddressError),
    ("A20", edit(f"{PREP}/0/size", str(2**34 + 128)), errors.SpyreCodeAddressError),
]


@pytest.mark.parametrize(
    ("row", "change", "error"), BAD_MANIFESTS, ids=[f"{r[0]}-{k}" for k, r in enumerate(BAD_MANIFESTS)]
)
def test_bad_manifests(
    world: World,
    tmp_path: Path,
    row: str,
    change: Callable[[dict[str, Any]], None],
    error: type[errors.SpyreError],
) -> None:
    """faults A4-A11, A13-A15, A17, A20: refused before any contact with the device.

    dataflowir checklist B10: among them an odd address, one outside of segment 7, regions that overlap.
    """
    manifest, files = plain()
    change(manifest)
    path = folder(tmp_path / "k", manifest, files)
    with world.unchanged(error):
        world.rt.prepare_kernel(path)


def test_missing_places(world: World, tmp_path: Path) -> None:
    """faults A1, A2: the path is missing, is a file, has no manifest."""
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "none", tmp_path / "file", tmp_path):
        with world.unchanged(errors.SpyreCodeNotFound):
            world.rt.prepare_kernel(path)


@pytest.mark.parametrize(
    "text",
    ["{", '{"a": 1, "a": 2}', "{} {}", "[" * 100 + "]" * 100, "\ufeff{}", '{"a": NaN}', ""],
    ids=["cut", "duplicate", "trailing", "deep", "mark", "nan", "empty"],
)
def test_bad_json(world: World, tmp_path: Path, text: str) -> None:
    """fault A3"""
    with world.unchanged(errors.SpyreCodeParseError):
        world.rt.prepare_kernel(folder(tmp_path / "k", text, {}))


def test_overlap_of_correction_and_image(world: World) -> None:
    """fault A12: an error in version 1; version 0 is prepared with a warning."""
    moved = [
        attrs.evolve(c, dev_ptr=c.dev_ptr + 256) if hasattr(c, "host_handle") else c
        for c in world.code.execution
    ]
    with world.unchanged(errors.SpyreCodeAddressError):
        world.rt.prepare_kernel(attrs.evolve(world.code, execution=tuple(moved)))
    manifest, files = plain()
    manifest[EXEC][1]["properties"]["dev_ptr"] = str(BASE + 2048 - 128)
    with pytest.warns(errors.SpyreCodeWarning):
        plan = world.rt.prepare_kernel(SpyreCode.from_memory(manifest, files))
    assert plan.num_steps() == 3
    world.works()


def test_digests_and_versions(world: World, tmp_path: Path) -> None:
    """faults A16, A17: damage of image or manifest, and features that nobody here knows."""
    image = tmp_path / "a" / "spyreCodeDir" / "init_binary.bin"
    world.code.write(tmp_path / "a")
    data = bytearray(image.read_bytes())
    data[200] ^= 1
    image.write_bytes(data)
    with world.unchanged(errors.SpyreCodeDigestError):
        world.rt.prepare_kernel(tmp_path / "a")
    world.code.write(tmp_path / "b")
    path = tmp_path / "b" / "spyreCodeDir" / "spyrecode.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"kernel_name": "other"}))
    with world.unchanged(errors.SpyreCodeError):
        world.rt.prepare_kernel(tmp_path / "b")
    path.write_text(json.dumps(document | {"features": ["teleport"]}))
    with world.unchanged(errors.UnsupportedFeature):
        world.rt.prepare_kernel(tmp_path / "b")


def test_bad_host_metadata(world: World) -> None:
    """fault A18: unknown function, duplicate ids, a unit of 0, an output that is too small."""
    host = world.code.execution[0]
    assert hasattr(host, "hcm")
    assert isinstance(host.hcm, Hcm)
    symbols = host.hcm.symbols
    for hcm in (
        attrs.evolve(host.hcm, function="nowhere"),
        attrs.evolve(host.hcm, symbols=(symbols[0], *symbols[:-1])),
        attrs.evolve(host.hcm, symbols=(attrs.evolve(symbols[0], unit=0), *symbols[1:])),
        attrs.evolve(host.hcm, output_size=64),
    ):
        bad = attrs.evolve(world.code, execution=(attrs.evolve(host, hcm=hcm), *world.code.execution[1:]))
        with world.unchanged(errors.SpyreCodeError):
            world.rt.prepare_kernel(bad)


def test_launch_spec_contradicts_the_manifest(world: World, tmp_path: Path) -> None:
    """fault A19: number of arguments, shapes, order of symbols."""
    changes: list[Callable[[dict[str, Any]], Any]] = [
        lambda s: s["args"].pop(),
        lambda s: s["args"][0].update(shape=[70, 4]),
        lambda s: s["args"][0].update(dtype="float32"),
        lambda s: s["symbols"].clear(),
    ]
    for number, change in enumerate(changes):
        path = tmp_path / str(number)
        world.code.write(path)
        spec = json.loads((path / "launch_spec.json").read_text())
        change(spec)
        (path / "launch_spec.json").write_text(json.dumps(spec))
        with world.unchanged(errors.LaunchSpecError):
            world.rt.prepare_kernel(path)


def renamed(code: SpyreCode, name: str) -> SpyreCode:
    return attrs.evolve(code, kernel_name=name, launch=attrs.evolve(code.launch, kernel_name=name))


def test_no_memory_for_a_program(world: World) -> None:
    """fault A21: replicas that were placed are freed, nothing is cached, the next call tries again."""
    with world.unchanged(errors.OutOfDeviceMemory, "fragmented|exhausted"):
        world.rt.prepare_kernel(renamed(world.code, "many"), replicas=1000)
    assert world.rt.prepare_kernel(renamed(world.code, "many"), replicas=2).num_steps() == 3


def test_prepare_on_a_dead_stream(live: World) -> None:
    """fault A22"""
    bad, gone = live.rt.Stream(), live.rt.Stream()
    micro(live.rt).faults.add(FaultSpec(FaultKind.DMA_ERROR))
    with pytest.raises(errors.DmaFault):
        live.rt.to_host(live.a, bad)
    gone.destroy()
    with live.unchanged(errors.StreamInErrorState):
        live.rt.prepare_kernel(renamed(live.code, "x"), stream=bad)
    with live.unchanged(errors.StreamDestroyed):
        live.rt.prepare_kernel(renamed(live.code, "x"), stream=gone)


def test_a_fault_while_loading(live: World) -> None:
    """fault A23: the block is freed, nothing is cached, only that stream is in ERROR."""
    stream = live.rt.Stream()
    before = live.rt.memory_allocated()
    micro(live.rt).faults.add(FaultSpec(FaultKind.DMA_ERROR))
    with pytest.raises(errors.DmaFault):
        live.rt.prepare_kernel(renamed(live.code, "x"), stream=stream)
    assert live.rt.memory_allocated() == before
    assert stream.get_error() is ErrorCode.SHUTDOWN
    assert stream.fault_class is ErrorCode.HARDWARE_FAULT
    live.works()
    assert live.rt.prepare_kernel(renamed(live.code, "x"), stream=live.rt.Stream()).num_steps() == 3


def test_too_many_baked_arguments(world: World) -> None:
    """fault A24"""
    args = tuple(
        ArgSpec(Role.INPUT_OUTPUT, (128,), "uint8", LinearLayout("uint8"), f"a{k}", None) for k in range(8)
    )
    spec = LaunchSpec("baked", args, bundle_symbolic_args=False)
    with world.unchanged(errors.UnsupportedFeature):
        world.rt.prepare_kernel(assemble(b"[]", PayloadKind.OP_LIST, spec, addressing=Addressing.BAKED))


def test_foreign_images_and_metadata(world: World) -> None:
    """fault A25: prepared with a warning; each launch is refused and changes nothing."""
    manifest, files = plain()
    foreign = copy.deepcopy(manifest)
    foreign[EXEC][0]["properties"]["hcm"] = {"vdci": {"x": 1}, "senConstants": []}
    image = world.code.files[0].data
    padded = {"init.bin": image.ljust(1024, b"\0")[:1024]}
    for document, data, error in (
        (manifest, files, errors.UnsupportedImage),
        (foreign, padded if len(image) <= 1024 else files, errors.UnsupportedError),
    ):
        with pytest.warns(errors.SpyreCodeWarning):
            plan = world.rt.prepare_kernel(SpyreCode.from_memory(document, data))
        with world.unchanged(error):
            world.rt.launch(plan, [])


# -- 6.2 launch ------------------------------------------------------------------------------------


def other_layout() -> StickLayout:
    return StickLayout.default(SHAPE, "float16", (1, 0))


def given(w: World, a: Any = None, c: Any = None, **call: Any) -> dict[str, Any]:
    """The arguments of a good launch, with changes."""
    return {"tensors": [w.a if a is None else a, w.b, w.c if c is None else c], "bindings": {"n": 1}} | call


def larger(w: World, shape: tuple[int, ...]) -> dict[str, Any]:
    return given(w, tensors=[w.rt.empty(shape, "float16") for _ in range(3)])


LAUNCHES: list[tuple[str, Callable[[World], dict[str, Any]], type[Exception]]] = [
    ("L1", lambda w: given(w, tensors=[w.a, w.b]), errors.ArgumentCountError),
    ("L2", lambda w: given(w, np.ones(SHAPE)), errors.ArgumentError),
    ("L2", lambda w: given(w, tensors=[None, w.b, w.c]), errors.ArgumentError),
    ("L3", lambda w: given(w, w.rt.empty(SHAPE, "float32")), errors.DtypeMismatch),
    ("L3", lambda w: given(w, w.a[0]), errors.ShapeMismatch),
    ("L4", lambda w: given(w, w.a[:2]), errors.ShapeMismatch),
    (
        "L5",
        lambda w: given(w, w.rt.empty((8, 70), "float16"), allow_tiled_launch=False),
        errors.ShapeMismatch,
    ),
    ("L6", lambda w: larger(w, (9, 70)), errors.TilingError),
    ("L7", lambda w: larger(w, (8, 140)), errors.TilingError),
    ("L9", lambda w: larger(w, (8, 70)), errors.TilingError),
    ("L10", lambda w: given(w, w.rt.empty((4, 140), "float16")[:, 70:]), errors.LayoutMismatch),
    ("L12", lambda w: given(w, w.rt.empty(SHAPE, "float16", other_layout())), errors.LayoutMismatch),
    ("L13", lambda w: given(w, bindings=None), errors.SymbolBindingError),
    ("L13", lambda w: given(w, bindings={"n": 1001}), errors.SymbolBindingError),
    (
        "L13",
        lambda w: given(w, symbolic_args=[SymbolicArg(SymbolicKind.ADDRESS, 7)] * 4),
        errors.SymbolBindingError,
    ),
    (
        "L13",
        lambda w: given(w, symbolic_args=[SymbolicArg(SymbolicKind.ADDRESS, 0)]),
        errors.SymbolBindingError,
    ),
    ("L14", lambda w: given(w, c=w.a), errors.AliasError),
]


@pytest.mark.parametrize(
    ("row", "call", "error"), LAUNCHES, ids=[f"{r[0]}-{k}" for k, r in enumerate(LAUNCHES)]
)
def test_refused_launches(
    world: World, row: str, call: Callable[[World], dict[str, Any]], error: type[Exception]
) -> None:
    """faults L1-L7, L9, L10, L12-L14: nothing is enqueued or allocated; only the counter of refusals moves."""
    refused, arguments = world.rt.refused_launches, call(world)
    with world.unchanged(error):
        world.rt.launch(world.plan, **arguments)
    assert world.rt.refused_launches == refused + 1


def matmul(
    kind: DimKind = DimKind.PARALLEL, accumulate: str | None = None, tileable: bool = True
) -> SpyreCode:
    layouts = [StickLayout.default(s, "float32") for s in ((8, 32), (32, 32), (8, 32))]
    names = (("M", "K"), ("K", "N"), ("M", "N"))
    roles = (Role.INPUT, Role.INPUT, Role.INPUT_OUTPUT)
    args = tuple(
        ArgSpec(r, s, "float32", lay, n, dims=d)
        for r, s, lay, n, d in zip(roles, ((8, 32), (32, 32), (8, 32)), layouts, "abc", names, strict=True)
    )
    dim = DimSpec("K", kind, tileable=tileable, accumulate=accumulate)
    return assemble(
        b"[]", PayloadKind.OP_LIST, LaunchSpec("product", args, dims=(dim,)), [HcmSymbol(-1, Addr(0))]
    )


def test_refused_tilings(world: World) -> None:
    """faults L7, L8, L11: not tileable, an output without the dimension, an undeclared reduction, too many tiles."""
    big = [world.rt.empty(s, "float32") for s in ((8, 64), (64, 32), (8, 32))]
    for code, text in (
        (matmul(tileable=False), "may not be tiled"),
        (matmul(), "output not tiled"),
        (matmul(DimKind.REDUCTION), "does not say how to accumulate"),
    ):
        plan = world.rt.prepare_kernel(code)
        with world.unchanged(errors.TilingError, text):
            world.rt.launch(plan, big)
    with Runtime(MicroDevice, RuntimeConfig(progress=Progress.MANUAL, max_tiles=1)) as small:
        plan = small.prepare_kernel(matmul(DimKind.REDUCTION, "kernel"))
        tensors = [small.empty(s, "float32") for s in ((8, 64), (64, 32), (8, 32))]
        before = small.memory_stats(), small.device().counters()
        with pytest.raises(errors.TilingError, match="2 tiles exceed the limit of 1"):
            small.launch(plan, tensors)
        assert (small.memory_stats(), small.device().counters()) == before


def test_stale_and_dropped_storage(world: World) -> None:
    """fault L2: memory that was freed behind the tensor's back, and a tensor of another device."""
    stale = world.rt.empty(SHAPE, "float16")
    world.rt._context(0).allocator.free(stale.storage.root)
    with world.unchanged(errors.ArgumentError, "stale allocation"):
        world.rt.launch(world.plan, [stale, world.b, world.c], bindings={"n": 1})
    with Runtime(MicroDevice.factory, RuntimeConfig(progress=Progress.MANUAL), devices=2) as rt:
        plan = rt.prepare_kernel(world.code, device=0)
        tensors = [rt.empty(SHAPE, "float16", device=1)] + [
            rt.empty(SHAPE, "float16", device=0) for _ in range(2)
        ]
        with pytest.raises(errors.DeviceMismatch, match="is on device 1, the plan on device 0"):
            rt.launch(plan, tensors, bindings={"n": 1})


def test_interleaved_tensors_and_plans_of_one_chunk(make_add: MakeAdd) -> None:
    """fault L15"""
    props = DeviceProperties(domains=tuple(MemoryDomain(k, 8 << 20) for k in range(2)))
    with Runtime(lambda: MicroDevice(props), RuntimeConfig(progress=Progress.MANUAL)) as rt:
        plan = rt.prepare_kernel(make_add())
        spread = rt.empty(SHAPE, "float16", directive=AllocationDirective(PlacementPolicy.INTERLEAVE))
        others = [rt.empty(SHAPE, "float16") for _ in range(2)]
        before = rt.memory_stats(), rt.device().counters()
        with pytest.raises(errors.LayoutMismatch, match="interleaved over 2 chunks"):
            rt.launch(plan, [spread, *others], bindings={"n": 1})
        assert (rt.memory_stats(), rt.device().counters()) == before


def test_span_of_a_core() -> None:
    """fault L16: an argument that its cores cannot reach; enough cores can."""
    props = DeviceProperties(core_span_limit=1024)
    with Runtime(lambda: MicroDevice(props), RuntimeConfig(progress=Progress.MANUAL)) as rt:
        spec = LaunchSpec(
            "wide", (ArgSpec(Role.INPUT_OUTPUT, (1024,), "float16", LinearLayout("float16"), "x"),)
        )
        tensor = rt.empty((1024,), "float16", LinearLayout("float16"))
        one, two = (assemble(b"[]", PayloadKind.OP_LIST, spec, core_count=cores) for cores in (1, 2))
        plan = rt.prepare_kernel(one)
        before = rt.memory_stats(), rt.device().counters()
        with pytest.raises(errors.LayoutMismatch, match=r"'x'\) spans 2048 bytes .* 1 cores reach 1024"):
            rt.launch(plan, [tensor])
        assert (rt.memory_stats(), rt.device().counters()) == before
        rt.launch(rt.prepare_kernel(two), [tensor]).wait()


def test_no_memory_for_a_launch(world: World) -> None:
    """fault L17: the dynamic block does not fit; what was allocated for the launch is freed."""
    code = assemble(b"[]", PayloadKind.OP_LIST, LaunchSpec("scratch"), dynamic_size=200_000)
    plan = world.rt.prepare_kernel(code)
    hold = world.rt._context(0).allocator.allocate(
        100_000, world.rt._context(0).program_directive(MemoryType.PROGRAM_DYNAMIC)
    )
    with world.unchanged(errors.OutOfDeviceMemory):
        world.rt.launch(plan, [])
    world.rt._context(0).allocator.free(hold)
    world.rt.launch(plan, []).wait()


def test_released_plans_and_dead_streams(live: World) -> None:
    """faults L18, L19: plan released or of another runtime; stream in ERROR (with its cause) or destroyed."""
    released = live.rt.prepare_kernel(renamed(live.code, "released"))
    released.release()
    with live.unchanged(errors.PlanReleased):
        live.rt.launch(released, [live.a, live.b, live.c], bindings={"n": 1})
    bad, gone = live.rt.Stream(), live.rt.Stream()
    micro(live.rt).faults.add(FaultSpec(FaultKind.COMPUTE_FAULT))
    with pytest.raises(errors.ComputeFault):
        live.launch(bad).wait()
    gone.destroy()
    with live.unchanged(errors.StreamInErrorState):
        live.launch(bad)
    with pytest.raises(errors.StreamInErrorState) as caught:
        live.launch(bad)
    assert isinstance(caught.value.__cause__, errors.ComputeFault)
    with live.unchanged(errors.StreamDestroyed):
        live.launch(gone)


# -- 6.3 asynchronous ------------------------------------------------------------------------------


def with_function(code: SpyreCode, name: str) -> SpyreCode:
    """The kernel with a host function of the test."""
    host = code.execution[0]
    assert hasattr(host, "hcm")
    changed = attrs.evolve(host, hcm=attrs.evolve(host.hcm, function=name))
    return renamed(attrs.evolve(code, execution=(changed, *code.execution[1:])), name)


def failing(rt: Runtime, world: World, function: Callable[..., Any], name: str) -> tuple[Any, Any]:
    rt.register_host_function(name, function)
    plan = rt.prepare_kernel(with_function(world.code, name))
    stream = rt.Stream()
    return rt.launch(plan, [world.a, world.b, world.c], bindings={"n": 1}, stream=stream), stream


def test_host_functions_that_fail(live: World) -> None:
    """faults R1, R2: it raises, writes outside its buffer, waits, or enqueues: the stream is in ERROR, transfer and
    compute are cancelled, the correction buffer is free again."""

    def raises(inputs: Any, hcm: Any, out: memoryview) -> None:
        raise KeyError("why")

    def too_much(inputs: Any, hcm: Any, out: memoryview) -> None:
        out[:] = bytes(len(out) + 1)

    def waits(inputs: Any, hcm: Any, out: memoryview) -> None:
        live.rt.to_host(live.a)

    def enqueues(inputs: Any, hcm: Any, out: memoryview) -> None:
        live.launch(live.rt.Stream())

    for function, text in (
        (raises, "why"),
        (too_much, "wrote outside"),
        (waits, "re-entrant"),
        (enqueues, "re-entrant"),
    ):
        earlier = live.rt.to_device(np.ones(4))
        ticket, stream = failing(live.rt, live, function, function.__name__)
        with pytest.raises(errors.HostComputeError, match=text):
            ticket.wait()
        assert [o.state for o in ticket.operations] == [OpState.FAILED, OpState.CANCELLED, OpState.CANCELLED]
        assert isinstance(stream.error, errors.HostComputeError)
        assert live.rt._context(0).arena(stream.id).busy == 0
        assert (live.rt.to_host(earlier) == 1).all()
        live.works()


def test_a_host_function_that_writes_nothing(live: World) -> None:
    """fault R2: the device finds no correction and refuses the program; nothing of another launch is used."""
    live.works()
    ticket, _ = failing(live.rt, live, lambda inputs, hcm, out: None, "nothing")
    with pytest.raises(errors.ComputeFault, match="correction"):
        ticket.wait()
    live.works()


@pytest.mark.parametrize("progress", list(Progress), ids=lambda p: p.value)
def test_a_host_function_that_never_returns(make_add: MakeAdd, progress: Progress) -> None:
    """fault R2: the watchdog fails the stream; what the function writes later reaches no other launch."""
    release = threading.Event()
    with Runtime(MicroDevice, RuntimeConfig(progress=progress, host_timeout=0.05)) as rt:
        world = made(rt, make_add())
        ended = threading.Event()

        def hangs(inputs: Any, hcm: Any, out: memoryview) -> None:
            release.wait(30)
            out[:] = bytes(range(256)) * (len(out) // 256)
            ended.set()

        ticket, stream = failing(rt, world, hangs, "hangs")
        with pytest.raises(
            errors.HostComputeError, match=r"timeout: host function .* did not return in 0.05 s"
        ):
            ticket.wait()
        assert rt._context(0).arena(stream.id).busy == 0
        world.works()
        with pytest.raises(errors.HostComputeError):
            stream.synchronize()
        release.set()
        assert ended.wait(30)
        world.works()


ASYNCHRONOUS: list[tuple[str, FaultKind, Engine, type[errors.SpyreError], int]] = [
    ("R3", FaultKind.DMA_ERROR, Engine.DMA_IN, errors.DmaFault, 1),
    ("R3", FaultKind.DMA_SHORT, Engine.DMA_IN, errors.DmaFault, 1),
    ("R4", FaultKind.COMPUTE_FAULT, Engine.COMPUTE, errors.ComputeFault, 2),
    ("R4", FaultKind.PAGE_FAULT, Engine.COMPUTE, errors.PageFault, 2),
    ("R4", FaultKind.CORE_UNAVAILABLE, Engine.COMPUTE, errors.CoreUnavailable, 2),
    ("R5", FaultKind.STALE_CORRECTION, Engine.COMPUTE, errors.StaleCorrection, 2),
    ("R6", FaultKind.COMPUTE_HANG, Engine.COMPUTE, errors.DeviceTimeout, 2),
    ("R6", FaultKind.DMA_HANG, Engine.DMA_IN, errors.DeviceTimeout, 1),
    ("R6", FaultKind.COMPLETION_LOST, Engine.COMPUTE, errors.DeviceTimeout, 2),
    ("R11", FaultKind.ECC_UNCORRECTABLE, Engine.DMA_IN, errors.EccError, 1),
]
CLASSES = {
    errors.DeviceTimeout: ErrorCode.TIMEOUT,
    errors.PageFault: ErrorCode.MEMORY_FAULT,
    errors.EccError: ErrorCode.MEMORY_FAULT,
    errors.CoreUnavailable: ErrorCode.CORE_UNAVAILABLE,
}


@pytest.mark.parametrize(
    ("row", "kind", "engine", "error", "step"),
    ASYNCHRONOUS,
    ids=[f"{r[0]}-{r[1].value}" for r in ASYNCHRONOUS],
)
@pytest.mark.parametrize("progress", list(Progress), ids=lambda p: p.value)
def test_device_faults(
    make_add: MakeAdd,
    progress: Progress,
    row: str,
    kind: FaultKind,
    engine: Engine,
    error: type[errors.SpyreError],
    step: int,
) -> None:
    """faults R3-R6, R11: the failing step is FAILED, those behind it are cancelled, the stream keeps the error;
    dynamic memory is freed, other streams and tensors go on, a record is kept."""
    config = RuntimeConfig(progress=progress, timeout_ns=10_000_000)
    with Runtime(MicroDevice, config) as rt:
        world = made(rt, make_add())
        before = rt.memory_allocated()
        stream = rt.Stream()
        micro(rt).faults.add(FaultSpec(kind, Match(op=engine)))
        ticket = world.launch(stream)
        for _ in range(2):
            with pytest.raises(error):
                stream.synchronize()
        with pytest.raises(error):
            ticket.wait()
        states = [o.state for o in ticket.operations]
        assert states == [OpState.DONE] * step + [OpState.FAILED] + [OpState.CANCELLED] * (2 - step)
        failed = ticket.operations[step]
        if kind in (FaultKind.COMPUTE_HANG, FaultKind.DMA_HANG):
            assert failed.end - failed.start == 10_000_000
        assert stream.get_error() is ErrorCode.SHUTDOWN
        assert stream.fault_class is CLASSES.get(error, ErrorCode.HARDWARE_FAULT)
        assert rt.device_state() == "STREAM_ERROR"
        record = rt.error_log()[-1]
        assert record["name"].startswith("RAS::")  # type: ignore[attr-defined]
        assert record["name"].endswith(f"::{error.__name__}")  # type: ignore[attr-defined]
        assert int(str(record["code"]), 16) < 1 << 16
        assert (record["op_id"], record["stream"], record["severity"]) == (failed.op_id, stream.id, "error")
        assert {"category", "type", "message", "description", "action", "step", "OpType", "kernel"} <= set(
            record
        )
        world.works()
        assert rt.memory_allocated() == before
        stream.destroy()
        assert rt.device_state() == "OK"


def test_a_damaged_header_or_correction(live: World) -> None:
    """fault R4: the device finds a damaged image."""
    address = live.plan.static_allocations[0].pieces()[0]
    image = live.code.memory_images()[0].offset if hasattr(live.code, "memory_images") else None
    offset = image if image is not None else live.plan.steps[-1].entry_offset
    byte = live.rt.device().peek(address.region_id, address.offset + offset, 1)
    live.rt.device().poke(address.region_id, address.offset + offset, bytes([byte[0] ^ 1]))
    with pytest.raises(errors.ComputeFault):
        live.launch(live.rt.Stream()).wait()
    live.rt.device().poke(address.region_id, address.offset + offset, byte)
    live.works()


def test_corrected_errors_are_recorded(live: World) -> None:
    """fault R10: a correctable error is counted and recorded, nothing fails."""
    micro(live.rt).faults.add(FaultSpec(FaultKind.ECC_CORRECTABLE))
    live.works()
    assert live.rt.metrics()["ecc_corrected"] == 1
    (record,) = live.rt.error_log()
    assert (record["name"], record["severity"]) == ("RAS::MEMORY::Corrected", "info")


def test_a_damaged_program_loses_the_device(live: World) -> None:
    """fault R11: an uncorrectable error in the program region is fatal; ``reset_device`` helps."""
    micro(live.rt).faults.add(
        FaultSpec(FaultKind.ECC_UNCORRECTABLE, Match(op=Engine.COMPUTE), params={"segment": 7})
    )
    ticket = live.launch(live.rt.Stream())
    with pytest.raises(errors.EccError):
        ticket.wait()
    assert live.rt.device_state() == "LOST"
    with pytest.raises(errors.StreamInErrorState):
        live.launch()
    live.rt.reset_device()
    assert live.rt.device_state() == "OK"
    tensor = live.rt.to_device(np.ones(4))
    assert (live.rt.to_host(tensor) == 1).all()


def test_a_lost_device_stays_lost_until_reset(make_add: MakeAdd) -> None:
    """fault R12: every stream of the device is in ERROR, also new ones refuse work; the other device goes on."""
    with Runtime(MicroDevice.factory, RuntimeConfig(progress=Progress.MANUAL), devices=2) as rt:
        here, there = (rt.to_device(np.ones(4), device=k) for k in range(2))
        idle = rt.Stream(device=0)
        micro(rt).faults.add(FaultSpec(FaultKind.DEVICE_LOST))
        with pytest.raises(errors.DeviceLost):
            rt.to_host(here)
        for stream in (rt.default_stream(0), idle):
            with pytest.raises(errors.DeviceLost):
                stream.synchronize()
        with pytest.raises(errors.SpyreError) as caught:
            rt.to_host(here, rt.Stream(device=0))
        assert isinstance(caught.value, (errors.DeviceLost, errors.StreamInErrorState))
        assert (rt.to_host(there) == 1).all()
        assert (rt.device_state(0), rt.device_state(1)) == ("LOST", "OK")


def test_hosts_arrays_are_held(live: World) -> None:
    """fault R14: a copy to or from a host array that was dropped is safe, the operation holds it."""
    array = np.arange(1000, dtype=np.float32)
    tensor = live.rt.to_device(array, non_blocking=True)
    del array
    gc.collect()
    ticket = live.rt.to_host_async(tensor)
    np.testing.assert_array_equal(ticket.wait(), np.arange(1000, dtype=np.float32))


def test_tensors_and_plans_dropped_in_flight(live: World) -> None:
    """faults R15, R16: memory in flight is quarantined and comes back when the launch is over."""
    rt = live.rt
    rt.synchronize()
    before = rt.memory_allocated()
    plan = rt.prepare_kernel(renamed(live.code, "second"))
    a, b, c = (rt.to_device(np.ones(SHAPE, np.float16)) for _ in range(3))
    ticket = rt.launch(plan, [a, b, c], bindings={"n": 1})
    plan.release()
    del a, b, c, plan
    gc.collect()
    ticket.wait()
    rt.synchronize()
    gc.collect()
    assert rt.memory_allocated() == before
    assert rt.memory_stats()["deferred_bytes"] == 0
    live.works()


def test_streams_destroyed_while_busy(live: World) -> None:
    """faults R17, R18: drained, or cancelled with ``StreamDestroyed`` in tickets and poisoned events."""
    rt = live.rt
    drained, cut, waiting = rt.Stream(), rt.Stream(), rt.Stream()
    ticket = live.launch(drained)
    drained.destroy()
    assert ticket.done()
    assert ticket.error is None
    gate = threading.Event()
    blocker = HostCall("gate", function=lambda: gate.wait(10))
    cut.scheduler.submit([(cut.state, blocker)]) if rt.config.progress is Progress.THREAD else None
    ended: list[Any] = []
    ticket = live.launch(cut)
    for operation in ticket.operations:
        operation.callbacks.append(lambda o: ended.append(o.state))
    event = cut.record_event()
    waiting.wait_event(event)
    release = threading.Timer(0.05, gate.set)
    release.start()
    cut.destroy(cancel=True)
    release.join()
    with pytest.raises(errors.StreamDestroyed):
        ticket.wait()
    with pytest.raises(errors.EventPoisoned):
        waiting.synchronize()
    assert len(ended) == 3
    live.works()


def test_exceptions_in_callbacks(live: World) -> None:
    """fault R19: logged, nothing else."""
    ticket = live.launch(stream := live.rt.Stream())

    def broken(_: Any) -> None:
        raise KeyError("mine")

    hold = HostCall("late", function=lambda: None)
    hold.callbacks.append(broken)
    stream.scheduler.submit([(stream.state, hold)])
    stream.synchronize()
    ticket.wait()
    assert any("mine" in str(record.get("message")) for record in live.rt.error_log())
    assert stream.error is None
    live.works()


def test_keyboard_interrupt(make_add: MakeAdd) -> None:
    """fault R22: it comes out of ``synchronize``; the stream is unaffected and may be waited for again."""
    with Runtime(MicroDevice, RuntimeConfig(progress=Progress.MANUAL)) as rt:
        stream = rt.Stream()
        calls: list[int] = []

        def interrupt() -> None:
            calls.append(1)
            if len(calls) == 1:
                raise KeyboardInterrupt

        original = stream.scheduler._step

        def step() -> bool:
            interrupt()
            return original()

        tensor = rt.to_device(np.ones(4), stream=stream, non_blocking=True)
        stream.scheduler._step = step  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            stream.synchronize()
        stream.synchronize()
        assert (rt.to_host(tensor, stream) == 1).all()


def test_an_interrupted_host_function(make_add: MakeAdd) -> None:
    """fault R22: an interrupt inside of a host function that the waiting thread runs; it is called again, and nothing
    is lost."""
    calls: list[int] = []

    def interrupted(inputs: Any, hcm: Any, out: memoryview) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        program_correction(inputs, hcm, out)

    with Runtime(MicroDevice, RuntimeConfig(progress=Progress.MANUAL)) as rt:
        world = made(rt, make_add())
        rt.register_host_function("interrupted", interrupted)
        plan = rt.prepare_kernel(with_function(world.code, "interrupted"))
        stream = rt.Stream()
        tickets = [
            rt.launch(plan, [world.a, world.b, world.c], bindings={"n": n}, stream=stream) for n in (1, 2, 3)
        ]
        with pytest.raises(KeyboardInterrupt):
            stream.synchronize()
        assert [ticket.done() for ticket in tickets] == [True, False, False]
        stream.synchronize()
        assert len(calls) == 4
        assert (rt.to_host(world.c) == 6).all()
        assert rt._context(0).arena(stream.id).busy == 0
        world.works()


@pytest.mark.parametrize("method", ["submit", "next_completion", "advance"])
@pytest.mark.parametrize("progress", list(Progress), ids=lambda p: p.value)
def test_a_device_that_raises(make_add: MakeAdd, progress: Progress, method: str) -> None:
    """runtime spec 3.8: whatever a device raises reaches those who wait; nobody hangs."""
    device = MicroDevice()
    with Runtime(lambda: device, RuntimeConfig(progress=progress, host_ns=5)) as rt:
        world = made(rt, make_add())
        stream = rt.Stream()

        def broken(*_: Any, **__: Any) -> Any:
            raise ZeroDivisionError("a bug of the device")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(device, method, broken)
            ticket = world.launch(stream)
            expected: Any = errors.DeviceError
            if progress is Progress.MANUAL and method != "submit":
                expected = ZeroDivisionError  # it comes out of the call that pumps
            with pytest.raises(expected, match="a bug of the device"):
                ticket.wait(timeout=20)
        if progress is Progress.MANUAL and method != "submit":
            stream.destroy(cancel=True)
            rt.reset_device()
        if rt.device_state() == "LOST":
            rt.reset_device()
            fresh = made(rt, make_add())
            fresh.works()


# -- 6.4 allocator and the rest --------------------------------------------------------------------


def test_allocation_failures(world: World) -> None:
    """faults M1-M4, M7, M8: each with its reason, and unchanged memory."""
    rt = world.rt
    allocator = rt._context(0).allocator
    with world.unchanged(ValueError):
        allocator.allocate(-1)
    with world.unchanged(errors.OutOfDeviceMemory, "too_large_for_any_region"):
        rt.empty((1 << 21,), "float16")
    with world.unchanged(errors.DirectiveError):
        rt.empty((4,), "float16", directive=AllocationDirective(PlacementPolicy.BIND, (9,)))
    with world.unchanged(errors.UnsupportedDtype):
        rt.empty((4,), "complex64")
    with world.unchanged(errors.LayoutMismatch):
        rt.empty((1, 2, 3, 1, 2, 3, 1), "float16")
    for huge in ((1 << 40, 1 << 30), (1 << 32, 1 << 32), (1 << 63,), (3, 1 << 62, 4)):
        for layout in (None, LinearLayout("float16")):  # products beyond 64 bits must not wrap around
            with world.unchanged(errors.OutOfDeviceMemory, "too_large_for_any_region"):
                rt.empty(huge, "float16", layout)
    before = world.state()
    empty = rt.empty((0, 5), "float16")
    assert empty.token == 0
    assert world.state() == before
    hold = [rt.empty((1 << 18,), "float16", LinearLayout("float16")) for _ in range(5)]
    with world.unchanged(errors.OutOfDeviceMemory, "exhausted|fragmented") as _:
        rt.empty((1 << 19,), "float16", LinearLayout("float16"))
    assert len(hold) == 5


def test_invalid_frees(world: World) -> None:
    """fault M6: double free, a view, a foreign address."""
    allocator = world.rt._context(0).allocator
    block = allocator.allocate(256)
    other = allocator.allocate(256)
    for bad in (block.slice(0, 128), attrs.evolve(block)):
        with world.unchanged(errors.InvalidFree):
            allocator.free(bad)
    allocator.free(block)
    with world.unchanged(errors.InvalidFree):
        allocator.free(block)
    allocator.free(other)


def test_copies_and_events_used_wrongly(world: World) -> None:
    """faults M9, M10: shapes that do not fit, times that nobody measured."""
    rt = world.rt
    with world.unchanged(errors.DmaSizeError):
        rt.copy(np.ones((3, 3), np.float16), world.a)
    turned = rt.empty((70, 4), "float16")
    with world.unchanged(errors.DmaSizeError):
        rt.copy(world.a, turned)
    timed, plain_event = rt.Event(enable_timing=True), rt.Event()
    with world.unchanged(errors.EventError, "enable_timing"):
        timed.elapsed_time(plain_event)
    with world.unchanged(errors.EventError, "reached"):
        timed.elapsed_time(rt.Event(enable_timing=True))


def test_environment_and_indices(monkeypatch: pytest.MonkeyPatch) -> None:
    """faults M11, M12: refused at start, before any device is made."""
    made: list[int] = []

    def factory(index: int) -> MicroDevice:
        made.append(index)
        return MicroDevice.factory(index)

    for variable, value in (
        ("SPYRE_HAZARD_TRACKER", "maybe"),
        ("SPYRE_CORRECTION_ARENA_DEPTH", "0"),
        ("TORCH_SPYRE_NUM_HOST_COMPUTE_STREAMS", "x"),
        ("AIU_WORLD_SIZE", "two"),
        ("LOCAL_RANK", "first"),
        ("SPYRE_DEVICES", "7"),
    ):
        with monkeypatch.context() as patched:
            patched.setenv(variable, value)
            with pytest.raises(errors.ConfigError, match=variable):
                Runtime(factory)
    with Runtime(factory, RuntimeConfig(progress=Progress.MANUAL), devices=2) as rt:
        for call in (
            lambda: rt.set_device(2),
            lambda: rt.device_state(-1),
            lambda: rt.empty((4,), "int8", device=7),
        ):
            with pytest.raises(errors.DeviceIndexError):
                call()
    assert made == []


def test_a_region_that_cannot_be_made() -> None:
    """runtime spec 5.6, ``alloc_fail``: the runtime says which region; it is not left half started."""
    device = MicroDevice()
    device.faults.add(FaultSpec(FaultKind.ALLOC_FAIL, params={"memory_type": MemoryType.TENSOR}))
    with Runtime(lambda: device, RuntimeConfig(progress=Progress.MANUAL)) as rt:
        with pytest.raises(errors.ConfigError, match=r"region of segment 1 .* does not fit"):
            rt.empty((4,), "float16")
        assert rt.device_state() == "NOT_INITIALIZED"
        assert (rt.to_host(rt.to_device(np.ones(4))) == 1).all()


def test_reordered_completions(make_add: MakeAdd) -> None:
    """runtime checklist R97: completions that arrive late or twice change no result."""
    results = []
    for kinds in (
        (),
        (FaultKind.COMPLETION_REORDER,),
        (FaultKind.COMPLETION_DUPLICATE, FaultKind.COMPLETION_REORDER),
    ):
        with Runtime(MicroDevice, RuntimeConfig(progress=Progress.MANUAL)) as rt:
            plan = rt.prepare_kernel(make_add())
            tensors = [rt.to_device(np.full(SHAPE, k, np.float16)) for k in range(6)]
            for k, kind in enumerate(kinds):
                micro(rt).faults.add(FaultSpec(kind, Match(nth=1 + k, every=2)))
            for n in range(4):
                with rt.Stream():
                    rt.launch(plan, [*tensors[:2], tensors[2 + n]], bindings={"n": n})
            rt.synchronize()
            assert bool(micro(rt).faults.log) == bool(kinds)
            micro(rt).faults.clear()
            results.append([rt.to_host(t).tobytes() for t in tensors])
            assert rt.memory_stats()["deferred_bytes"] == 0
    assert results[0] == results[1] == results[2]


def test_host_streams_are_waited_for(make_add: MakeAdd) -> None:
    """runtime checklist R62: ``synchronize`` of a device includes the streams that run host functions."""
    from spyrert import Overlap

    config = RuntimeConfig(progress=Progress.THREAD, overlap=Overlap.THREE_STAGE)
    with Runtime(MicroDevice, config) as rt:
        host = rt._handle(rt._context(0), 66)
        ended: list[float] = []

        def slow() -> None:
            time.sleep(0.05)
            ended.append(1)

        host.scheduler.submit([(host.state, HostCall("slow", function=slow))])
        rt.synchronize(0)
        assert ended
        failing_call = HostCall("bad", function=lambda: 1 // 0)
        host.scheduler.submit([(host.state, failing_call)])
        with pytest.raises(errors.HostComputeError, match="ZeroDivisionError"):
            rt.synchronize(0)


def test_conservation(make_add: MakeAdd) -> None:
    """runtime checklist R110: after random workloads with faults every submitted operation is accounted for, bytes are
    those of the transfers, and no engine was busy longer than time passed."""
    import random

    for seed in range(12):
        rng = random.Random(seed)
        with Runtime(MicroDevice, RuntimeConfig(progress=Progress.MANUAL, timeout_ns=10**7)) as rt:
            device = micro(rt)
            plan = rt.prepare_kernel(make_add())
            kinds = [FaultKind.DMA_ERROR, FaultKind.COMPUTE_FAULT, FaultKind.COMPUTE_HANG, FaultKind.SLOW]
            for kind in rng.sample(kinds, 2):
                device.faults.add(FaultSpec(kind, Match(nth=rng.randrange(2, 9), every=7)))
            with rt.op_log() as log:
                for _ in range(12):
                    with rt.Stream(), contextlib.suppress(errors.SpyreError):
                        a, b, c = (
                            rt.to_device(np.ones(SHAPE, np.float16), non_blocking=True) for _ in range(3)
                        )
                        rt.launch(plan, [a, b, c], bindings={"n": 1})
                        rt.to_host_async(c)
                with contextlib.suppress(errors.SpyreError):
                    rt.synchronize()
            counters = device.counters()
            submitted = sum(
                counters[k] for k in ("cb_compute", "cb_dma_in", "cb_dma_out", "cb_d2d", "cb_fill")
            )
            ended = counters["cb_ok"] + counters["cb_fault"] + counters["cb_cancelled"]
            assert submitted == ended
            assert device.in_flight() == 0
            assert device.faults.log
            moved = {"H2D": 0, "D2H": 0}
            for operation in log:
                if operation.kind in moved and operation.state is OpState.DONE:
                    moved[operation.kind] += operation.bytes
            image = len(make_add().files[0].data)
            assert counters["bytes_h2d"] == moved["H2D"] + image
            assert counters["bytes_d2h"] == moved["D2H"]
            for name in ("dma_in_busy_ns", "dma_out_busy_ns", "compute_busy_ns", "overlap_ns"):
                assert 0 <= counters[name] <= device.now(), name
            assert counters["overlap_ns"] <= counters["compute_busy_ns"]
            assert counters["cycles_compute"] == counters["cycles_busy_compute"]
