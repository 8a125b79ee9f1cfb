"""One kernel at every level: what the tests compare, and the process that only has the artefact."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import dfsched
import ktir
from ktir.interface import Role
from spyresim import run_dataflow, run_ktir, run_schedule
from spyresim.verification import is_sequential

WORKER = Path(__file__).with_name("device_worker.py")
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 6e-8, 65504.0)

Array = Any


class DeviceProcess:
    """A process that simulates the device and is given artefacts, never IR."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(WORKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def launch(self, folder: Path, device: str, arguments: Mapping[str, Any]) -> dict[str, Array]:
        """Outputs by name of one launch of the artefact in `folder`.

        The process says which modules of the KTIR and DataflowIR levels it has imported; there must be none.
        """
        given, taken = folder / "given.npz", folder / "taken.npz"
        np.savez(given, **arguments)
        order = {"folder": str(folder), "device": device, "given": str(given), "taken": str(taken)}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(order), file=self._process.stdin, flush=True)
        reply = json.loads(self._process.stdout.readline())
        assert reply["imported"] == []
        assert reply["error"] is None, reply["error"]
        with np.load(taken) as loaded:
            return {name: loaded[name] for name in loaded.files}

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(timeout=60) == 0


@contextmanager
def device_process() -> Iterator[DeviceProcess]:
    process = DeviceProcess()
    yield process
    process.close()


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Moderate numbers, and now and then a special one."""
    values = rng.normal(scale=2.0, size=shape)
    with np.errstate(invalid="ignore", over="ignore"):  # integers take the special ones as they come
        return np.where(rng.random(shape) < 0.02, rng.choice(SPECIAL, shape), values).astype(dtype)


def random_arguments(module: ktir.Module, seed: int, **scalars: int) -> dict[str, Any]:
    """Arrays for all inputs of the only kernel, together with the scalars."""
    rng = np.random.default_rng(seed)
    given: dict[str, Any] = dict(scalars)
    for argument in ktir.signature(module, dfsched.kernels(module)[0]):
        if argument.is_pointer and argument.role is not Role.OUTPUT:
            assert argument.layout is not None
            given[argument.name] = numbers(rng, argument.layout.shape, argument.dtype)
    return given


def assert_same(got: Mapping[str, Array], expected: Mapping[str, Array], where: str) -> None:
    """Same names, shapes, dtypes and bytes; NaNs are equal to each other."""
    assert set(got) == set(expected), where
    for name, want in expected.items():
        have = got[name]
        assert (have.shape, have.dtype) == (want.shape, want.dtype), (where, name)
        word = np.dtype(f"u{want.dtype.itemsize}")
        a, b = (np.ascontiguousarray(value).view(word) for value in (have, want))
        with np.errstate(invalid="ignore"):
            nans = np.isnan(have) & np.isnan(want)
        wrong = (a != b) & ~nans.reshape(a.shape)
        assert not wrong.any(), f"{where}: {name} differs in {wrong.sum()} of {wrong.size} elements"


def check_levels(
    module: ktir.Module,
    device: str,
    arguments: Mapping[str, Any],
    process: DeviceProcess,
    folder: Path,
) -> dict[str, Array]:
    """Compile, execute every level, compare; the outputs of the KTIR level.

    KTIR; ScheduleIR after each pass; DataflowIR from memory; DataflowIR from a folder with nothing but
    ``global.mlir``, the programs and the launch spec; a launch in a process that has only the artefact.
    """
    compiled = dfsched.compile(module, device)
    machine = compiled.architecture.machine()
    expected = dict(run_ktir(module, compiled.kernel, arguments, machine).outputs)
    assert expected
    sequential = [result for result in compiled.passes if is_sequential(result.module)]
    assert len(sequential) > len(compiled.passes) // 2
    previous: ktir.Module | None = None
    for result in sequential:
        if result.module is not previous:  # else the pass has changed nothing
            outputs = run_schedule(compiled, arguments, module=result.module).outputs
            assert_same(outputs, expected, f"after {result.name}")
        previous = result.module
    assert_same(run_dataflow(compiled, arguments).outputs, expected, "DataflowIR")

    whole = compiled.write(folder / "whole")
    text = folder / "text"
    text.mkdir()
    for name in (*compiled.dataflow_ir, "launch_spec.json"):
        shutil.copy(whole / name, text)
    assert {path.suffix for path in text.iterdir()} == {".mlir", ".json"}
    assert_same(run_dataflow(text, arguments).outputs, expected, "DataflowIR from a folder")

    artefact = folder / "artefact"
    artefact.mkdir()
    shutil.copytree(whole / "spyreCodeDir", artefact / "spyreCodeDir")
    shutil.copy(whole / "launch_spec.json", artefact)
    assert_same(process.launch(artefact, device, arguments), expected, "device")
    return expected
