"""`SimDevice` behind spyrert's device interface."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import numpy as np
import pytest

import ktir
from dfsched import compile as compile_kernel
from dfsched import image as im
from dfsched import load_architecture
from ktir import dlfloat
from spyrert import Runtime
from spyrert.errors import ComputeFault
from spyrert.spyrecode import PayloadKind
from spyrert.testing import CASES, Subject
from spyresim import SimDevice

SPYRE = load_architecture("spyre")


def idle(f16_format: str = "ieee") -> bytes:
    """A device image that does nothing."""
    coordinator = im.Coordinator((im.Halt(),), 0, 0, 0)
    image = im.Image("idle", SPYRE.name, SPYRE.digest, 1, coordinator=coordinator, f16_format=f16_format)
    return im.encode(image)


def dlfloat_device() -> SimDevice:
    return SimDevice(f16_format="dlfloat")


SUBJECTS = {
    "ieee": Subject(SimDevice, idle(), PayloadKind.DFBIN),
    "dlfloat": Subject(dlfloat_device, idle("dlfloat"), PayloadKind.DFBIN),
}


@pytest.mark.parametrize("subject", SUBJECTS.values(), ids=list(SUBJECTS))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_conformance(case: Callable[[Subject], None], subject: Subject) -> None:
    """The conformance suite of the device interface (runtime spec 5)."""
    case(subject)


def test_host_floats_become_dlfloat() -> None:
    """In dlfloat mode transfers convert, with one rounding, and back (readings 7)."""
    runtime = Runtime(device_factory=lambda index: dlfloat_device())
    values = np.array([1.0, -2.5, 0.1, 65504.0, 0.0], np.float16)
    back = runtime.to_host(runtime.to_device(values))
    with np.errstate(over="ignore"):
        expected = dlfloat.decode(dlfloat.encode(values)).astype(np.float16)
    np.testing.assert_array_equal(back, expected)


KERNEL = """
#all = affine_set<(r, c) : (r >= 0, 3 - r >= 0, c >= 0, 63 - c >= 0)>
#id = affine_map<(r, c) -> (r, c)>
func.func @twice(%x: index, %y: index) {
  %c0 = arith.constant 0 : index
  %xv = ktdp.construct_memory_view %x, sizes: [4, 64], strides: [64, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<4x64xf16>
  %yv = ktdp.construct_memory_view %y, sizes: [4, 64], strides: [64, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<4x64xf16>
  %xt = ktdp.construct_access_tile %xv[%c0, 0] {access_tile_order = #id, access_tile_set = #all} : memref<4x64xf16> -> !ktdp.access_tile<4x64xindex>
  %yt = ktdp.construct_access_tile %yv[%c0, 0] {access_tile_order = #id, access_tile_set = #all} : memref<4x64xf16> -> !ktdp.access_tile<4x64xindex>
  %v = ktdp.load %xt : <4x64xindex> -> tensor<4x64xf16>
  %w = arith.addf %v, %v : tensor<4x64xf16>
  ktdp.store %w, %yt : tensor<4x64xf16>, <4x64xindex>
  return
}
"""


def test_image_of_another_architecture_is_refused() -> None:
    """A mismatch of the architecture's digest is an error before anything runs (readings 22)."""
    compiled = compile_kernel(ktir.parse(KERNEL), "sample")
    runtime = Runtime(device_factory=SimDevice)
    with pytest.raises(Exception, match="sample") as caught:
        runtime.prepare_kernel(compiled.spyrecode)
    assert type(caught.value).__module__.startswith("spyrert")


def test_faults_of_programs_reach_the_caller() -> None:
    """A fault of the simulator arrives as the error of the launch, with its text."""
    compiled = compile_kernel(ktir.parse(KERNEL), "spyre")
    device = SimDevice()

    def broken(program: object, *rest: object) -> object:
        image = device._image_of(program)  # type: ignore[arg-type]
        views = tuple(attrs.evolve(view, shape=(1,) * len(view.shape)) for view in image.views)
        device._decoded[program.digest] = attrs.evolve(image, views=views)  # type: ignore[attr-defined]
        return device._execute(program, *rest)  # type: ignore[arg-type]

    device.register_executor(PayloadKind.DFBIN, broken)  # type: ignore[arg-type]
    runtime = Runtime(device_factory=lambda index: device)
    plan = runtime.prepare_kernel(compiled.spyrecode)
    x = runtime.to_device(np.ones((4, 64), np.float16), plan.args[0].layout)
    y = runtime.empty((4, 64), "float16", plan.args[1].layout)
    with pytest.raises(ComputeFault, match="index out of view bounds"):
        runtime.launch(plan, [x, y]).wait()


def test_runs_are_remembered() -> None:
    compiled = compile_kernel(ktir.parse(KERNEL), "spyre")
    device = SimDevice()
    runtime = Runtime(device_factory=lambda index: device)
    plan = runtime.prepare_kernel(compiled.spyrecode)
    x = runtime.to_device(np.ones((4, 64), np.float16), plan.args[0].layout)
    y = runtime.empty((4, 64), "float16", plan.args[1].layout)
    for _ in range(3):
        runtime.launch(plan, [x, y])
    np.testing.assert_array_equal(runtime.to_host(y), np.full((4, 64), 2, np.float16))
    assert [run.kernel for run in device.runs] == ["twice"] * 3
    assert len({run.report.cycles for run in device.runs}) == 1
    assert device.counters()["image_transfers"] == 1


def test_prepared_once_launched_for_any_addresses() -> None:
    """dataflowir checklist B12: one plan, two launches with tensors in different places, both right."""
    compiled = compile_kernel(ktir.parse(KERNEL), "spyre")
    device = SimDevice()
    runtime = Runtime(device_factory=lambda index: device)
    plan = runtime.prepare_kernel(compiled.spyrecode)
    rng = np.random.default_rng(2)
    inputs = [rng.standard_normal((4, 64)).astype(np.float16) for _ in range(2)]
    tensors = [runtime.to_device(x, plan.args[0].layout) for x in inputs]
    outputs = [runtime.empty((4, 64), "float16", plan.args[1].layout) for _ in range(2)]
    assert len({id(t.storage) for t in (*tensors, *outputs)}) == 4
    for x, y in zip(tensors, outputs, strict=True):
        runtime.launch(plan, [x, y])
    for x, y in zip(inputs, outputs, strict=True):
        np.testing.assert_array_equal(runtime.to_host(y), x * 2)
    assert device.counters()["image_transfers"] == 1
