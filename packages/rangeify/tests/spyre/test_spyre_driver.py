"""The driver: compiled kernels launched on the right storage. The device is replaced by byte memory and
NumPy.
"""

from __future__ import annotations

import json
from typing import Any

import attrs
import numpy as np
import pytest

import dfsched
import rangeify
import rangeify.spyre
from ktir.layout import layout_from_json
from rangeify import InputError, Tensor, UnsupportedError
from rangeify.executor.kernel import run_kernel
from rangeify.spyre import Executable, devices
from spyrert import LinearLayout, SpyreCode

Array = np.ndarray[Any, Any]


@attrs.define(eq=False)
class ByteTensor:
    """A piece of :class:`ByteRuntime`'s memory under a layout."""

    memory: Array
    start: int
    shape: tuple[int, ...]
    dtype: str
    layout: Any

    def addresses(self) -> tuple[int, ...]:
        return (self.start,)

    def cells(self) -> Array:
        layout = layout_from_json(self.layout.to_json(), self.shape)
        raw = self.memory[self.start : self.start + layout.device_bytes]
        return raw.view(self.dtype)

    def places(self) -> Array:
        return layout_from_json(self.layout.to_json(), self.shape).element_offsets()

    def read(self) -> Array:
        return self.cells()[self.places()].copy()

    def write(self, array: Array) -> None:
        self.cells()[self.places()] = array


@attrs.frozen
class Prepared:
    """What the driver needs of a plan."""

    name: str
    args: Any


class ByteRuntime:
    """The part of a runtime that the driver uses, on a poisoned byte array; a launch runs the schedule's
    kernel body on what lies at the addresses that it is given."""

    def __init__(self, executable: Executable) -> None:
        kernels = zip(executable.program.items, executable.schedule.kernels, strict=True)
        buffers = executable.program.buffers
        self.bodies: dict[str, tuple[Any, list[list[int]]]] = {}
        for item, kernel in kernels:
            held = [b if buffers[b].source is None else buffers[b].source for b in item.buffers]
            slots = [[p for p, h in enumerate(held) if h == b] for b in kernel.buffers]
            self.bodies[item.function] = (kernel.body, slots)
        self.memory = np.full(1 << 20, 0xCD, np.uint8)
        self.end = 128
        self.prepared: list[str] = []
        self.launched: list[str] = []
        self.uploads = 0

    def empty(self, shape: tuple[int, ...], dtype: str, layout: Any) -> ByteTensor:
        size = (
            shape[0]
            if isinstance(layout, LinearLayout)
            else int(np.prod(layout.device_size)) * np.dtype(dtype).itemsize
        )
        tensor = ByteTensor(self.memory, self.end, shape, dtype, layout)
        self.end += -(-size // 128) * 128 + 128
        return tensor

    def to_device(self, array: Array, layout: Any) -> ByteTensor:
        tensor = self.empty(array.shape, str(array.dtype), layout)
        tensor.write(array)
        self.uploads += 1
        return tensor

    def tensor_at(self, address: int, shape: tuple[int, ...], dtype: str, layout: Any) -> ByteTensor:
        assert address % 128 == 0
        return ByteTensor(self.memory, address, shape, dtype, layout)

    def to_host(self, tensor: ByteTensor) -> Array:
        return tensor.read()

    def prepare_kernel(self, code: SpyreCode) -> Any:
        assert code.launch is not None
        self.prepared.append(code.kernel_name)
        return Prepared(code.kernel_name, code.launch.args)

    def launch(self, code: Prepared, tensors: list[ByteTensor]) -> None:
        by_position: dict[int, ByteTensor] = {}
        for argument, tensor in zip(code.args, tensors, strict=True):
            assert argument.shape == tensor.shape
            assert argument.dtype == tensor.dtype
            assert argument.layout == tensor.layout
            by_position[argument.kernel_position] = tensor
        body, slots = self.bodies[code.name]
        wanted = {n.arg.slot: n.dtype.name for n in body.toposort() if n.op.name == "PARAM"}
        arrays = []
        for slot, positions in enumerate(slots):
            values = [by_position[p].read().astype(wanted[slot]) for p in positions]
            assert all(np.array_equal(v, values[0]) for v in values[1:])
            arrays.append(values[0])
        run_kernel(body, arrays)
        by_position[0].write(arrays[0])
        self.launched.append(code.name)


def array(*shape: int, seed: int = 0, dtype: str = "float16") -> Array:
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(dtype)


def compiled(*tensors: Tensor) -> tuple[Executable, ByteRuntime]:
    executable = rangeify.spyre.compile(rangeify.schedule(*tensors), "spyre")
    return executable, ByteRuntime(executable)


def check(*tensors: Tensor) -> tuple[Executable, ByteRuntime]:
    executable, runtime = compiled(*tensors)
    got = executable.run(runtime=runtime)  # type: ignore[arg-type]
    results = got if isinstance(got, tuple) else (got,)
    for a, b in zip(results, rangeify.run(executable.schedule), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    return executable, runtime


def test_demo_prepares_once_and_launches_with_other_arrays() -> None:
    arrays = [array(96, 640), array(640, seed=1), array(96, 1, seed=2)]
    a, b, c = map(Tensor, arrays)
    executable, runtime = check((a * b + c).relu() * 0.5)
    assert [i.shape for i in executable.inputs] == [(96, 640), (640,), (96, 1)]
    for seed in (3, 4):
        x, y, z = (array(*i.shape, seed=seed) for i in executable.inputs)
        got = executable.run(x, y, z, runtime=runtime)  # type: ignore[arg-type]
        np.testing.assert_array_equal(got, np.maximum(x * y + z, np.float16(0)) * np.float16(0.5))
    assert len(runtime.prepared) == 1
    assert len(runtime.launched) == 3
    assert runtime.uploads == 9


def test_intermediates_live_in_one_arena() -> None:
    x = Tensor(array(36, 40))
    value = ((x + 1).contiguous().T * 2).contiguous() + Tensor(array(40, 36, seed=1))
    _, runtime = check(value, (Tensor(array(7, 70)) * 3).contiguous())
    assert len(runtime.launched) == 4


def test_an_input_in_two_layouts_is_uploaded_twice_and_given_once() -> None:
    x = Tensor(array(70, 70))
    executable, runtime = check(x + x.T)
    assert len(executable.inputs) == 1
    assert runtime.uploads == 2
    (item,) = executable.program.items
    assert len(item.buffers) == 3
    (copy,) = [b for b in executable.program.buffers if b.source is not None]
    assert executable.program.buffers[copy.source or 0].name == "in0"
    assert rangeify.ktir.Program.from_json(executable.program.to_json()).buffers == executable.program.buffers


def test_equal_kernels_are_compiled_and_prepared_once() -> None:
    value = Tensor(array(5, 70))
    for _ in range(3):
        value = (value + 1).contiguous()
    executable, runtime = check(value)
    assert len(executable.kernels) == len(runtime.prepared) == 1
    assert len(runtime.launched) == 3


def test_bools_are_stored_as_numbers_and_come_back_as_bools() -> None:
    """Reading 7."""
    a, mask = Tensor(array(5, 70)), Tensor(array(5, 70, seed=1) > 0)
    check(a < 0, mask.where(a, 1.5))


def test_writes_in_place_keep_the_callers_array() -> None:
    """Reading 32: one argument of role input_output; the array that was given is not changed."""
    x = Tensor(array(6, 70))
    x[2:4] = Tensor(array(70, seed=1))
    executable, runtime = check(x)
    (compiled_kernel,) = executable.kernels.values()
    assert compiled_kernel.spyrecode.launch is not None
    given = array(6, 70, seed=2)
    executable.run(given, array(70, seed=3), runtime=runtime)  # type: ignore[arg-type]
    np.testing.assert_array_equal(given, array(6, 70, seed=2))


def test_nothing_to_launch() -> None:
    x = Tensor(array(4, 6))
    _, runtime = check(x.T, Tensor.full((2,), 3.0))
    assert runtime.launched == []
    assert runtime.uploads == 0


def test_wrong_arrays_are_refused_before_anything_is_launched() -> None:
    executable, runtime = compiled(Tensor(array(4, 70)) + Tensor(array(70)))
    for bad, message in (
        ([array(4, 70)], "1 arrays for 2 inputs"),
        ([array(4, 70), array(71)], "in1 must be float16"),
        ([array(4, 70, dtype="float32"), array(70)], "got float32"),
    ):
        with pytest.raises(InputError, match=message):
            executable.run(*bad, runtime=runtime)  # type: ignore[arg-type]
    assert runtime.launched == []
    assert runtime.uploads == 0


def test_what_has_no_lowering_is_named_at_compile_time() -> None:
    with pytest.raises(UnsupportedError, match="REDUCE ADD"):
        rangeify.spyre.compile(rangeify.schedule(Tensor(array(4, 70)).sum(1)), "spyre")


def test_written_artefacts(tmp_path: Any) -> None:
    executable, _ = compiled(Tensor(array(4, 70)) + 1)
    executable.write(tmp_path)
    program = rangeify.ktir.Program.from_json((tmp_path / "program.json").read_text())
    (item,) = program.items
    launch = json.loads((tmp_path / item.function / "launch_spec.json").read_text())
    assert [a["name"] for a in launch["args"]] == ["out", "in1"]
    assert SpyreCode.read(tmp_path / item.function).kernel_name == item.function


def test_without_any_device_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "entry_points", lambda group: [])
    executable, _ = compiled(Tensor(array(4, 70)) + 1)
    devices.default_runtime.cache_clear()
    with pytest.raises(UnsupportedError, match=r"spyrert\.devices"):
        executable.run()


def test_an_announced_device_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The factory gets the number of the device and the architecture."""
    calls: list[tuple[int, dfsched.Architecture]] = []

    class Announced:
        name = "test"

        @staticmethod
        def load() -> Any:
            def make(index: int, device: dfsched.Architecture) -> Any:
                calls.append((index, device))
                raise RuntimeError("made")

            return make

    monkeypatch.setattr(devices, "entry_points", lambda group: [Announced])
    devices.default_runtime.cache_clear()
    executable, _ = compiled(Tensor(array(4, 70)) + 1)
    with pytest.raises(RuntimeError, match="made"):
        executable.run()
    assert calls == [(0, executable.architecture)]
    devices.default_runtime.cache_clear()
