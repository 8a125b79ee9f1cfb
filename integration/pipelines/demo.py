"""The main job: kernels from text and from tensors, compiled, launched on the simulator, compared with NumPy.

Everything that is made stays in ``out/demo`` (or the folder given as argument): one folder a kernel with the
IR of every stage, the artefact, and a trace that Perfetto opens.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import attrs
import numpy as np
import numpy.typing as npt
from references import REFERENCES
from rich.console import Console
from rich.table import Table

import dfsched
import ktir
import rangeify
import rangeify.ktir
import rangeify.spyre
from ktir.interface import Role

HERE = Path(__file__).parent
DEVICE = "spyre"
LAUNCHES = 3
T = TypeVar("T")
Array = npt.NDArray[Any]


Launched = tuple[dict[str, Array], dict[str, Any]]
"""Outputs by name, and what the launching process reports."""

Done = tuple[str, dict[str, Any], float, float]
"""Kernel, report of its process, largest relative difference from NumPy, the one allowed."""


@attrs.frozen
class Stage:
    """One line of the table: what a step made, how large it is, how long it took (seconds)."""

    kernel: str
    stage: str
    artefact: str
    size: int
    seconds: float


def timed(step: Callable[[], T]) -> tuple[T, float]:
    """The value of a step and its duration in seconds."""
    start = time.perf_counter()
    value = step()
    return value, time.perf_counter() - start


def size_of(*paths: Path) -> int:
    """Bytes of files and folders."""
    return sum(
        file.stat().st_size
        for path in paths
        for file in (path.rglob("*") if path.is_dir() else [path])
        if file.is_file()
    )


def compile_to(folder: Path, module: ktir.Module, kernel: str, stages: list[Stage]) -> None:
    """KTIR -> ScheduleIR -> DataflowIR -> SpyreCode, each written to the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "kernel.mlir"
    source.write_text(ktir.print_module(module), encoding="utf-8")
    _, reading = timed(lambda: ktir.verify(ktir.load(source)))
    stages.append(Stage(kernel, "KTIR", source.name, size_of(source), reading))
    seconds: dict[dfsched.Emit, float] = {}
    for emit in (dfsched.Emit.SCHEDULE, dfsched.Emit.DFIR, dfsched.Emit.SPYRECODE):
        options = dfsched.Options(emit=emit)
        compiled, seconds[emit] = timed(partial(dfsched.compile, module, DEVICE, options))
        compiled.write(folder)
    made = [folder / name for name in compiled.dataflow_ir]
    schedule, dataflow, whole = seconds.values()
    for stage, paths, duration in (
        ("ScheduleIR", [folder / "schedule.mlir"], schedule),
        ("DataflowIR", made, max(0.0, dataflow - schedule)),
        ("SpyreCode", [folder / "spyreCodeDir"], max(0.0, whole - dataflow)),
    ):
        names = ", ".join(path.name for path in paths)
        stages.append(Stage(kernel, stage, names, size_of(*paths), duration))


def launch_alone(folder: Path, kernel: str, inputs: Mapping[str, Array]) -> Launched:
    """Launch in a fresh process that is given only the artefact: outputs and what the process reports."""
    alone = folder / "artefact"
    shutil.rmtree(alone, ignore_errors=True)
    alone.mkdir()
    shutil.copytree(folder / "spyreCodeDir", alone / "spyreCodeDir")
    shutil.copy(folder / "launch_spec.json", alone)
    given, taken = folder / "inputs.npz", folder / "outputs.npz"
    arrays: dict[str, Any] = dict(inputs)
    np.savez(given, **arrays)
    command = [sys.executable, str(HERE / "launcher.py"), *map(str, (alone, DEVICE, given, taken))]
    subprocess.run(command, check=True)
    with np.load(taken) as loaded:
        outputs = {name: loaded[name] for name in loaded.files}
    report: dict[str, Any] = json.loads(str(outputs.pop("report")))
    check_report(kernel, report)
    return outputs, report


def check_report(kernel: str, report: Mapping[str, Any]) -> None:
    """The image went over once, no two buffers overlap, their order differs, no IR was imported."""
    flat = [address for launch in report["addresses"] for address in launch]
    orders = {tuple(np.argsort(launch).tolist()) for launch in report["addresses"]}
    problems = [
        text
        for bad, text in (
            (report["image_transfers"] != 1, f"{report['image_transfers']} image transfers"),
            (len(set(flat)) != len(flat), "two launches share an address"),
            (len(orders) < 2, "the buffers of all launches are in one order"),
            (report["imported"], f"the device process imported {report['imported']}"),
        )
        if bad
    ]
    if problems:
        raise SystemExit(f"{kernel}: {'; '.join(problems)}")


def largest_difference(actual: Array, expected: Array) -> float:
    """The largest relative difference; 0 if all bits agree (NaNs compare as NaN)."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        raise SystemExit(f"{actual.dtype}{actual.shape} instead of {expected.dtype}{expected.shape}")
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(all="ignore"):
        return float(np.where(same, 0.0, np.abs(a - b) / np.maximum(np.abs(b), 2.0**-14)).max())


def random_array(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    return rng.standard_normal(shape).astype(dtype)


def from_text(out: Path, stages: list[Stage]) -> list[Done]:
    """The KTIR files of this folder, through the whole road."""
    done = []
    rng = np.random.default_rng(2026)
    for kernel, reference in REFERENCES.items():
        module = ktir.load(HERE / f"{kernel}.mlir")
        compile_to(out / kernel, module, kernel, stages)
        inputs: dict[str, Array] = {}
        expected: dict[str, Array] = {}
        for launch in range(LAUNCHES):
            values: dict[str, Any] = dict(reference.scalars[launch])
            for argument in ktir.signature(module, kernel):
                if argument.is_pointer and argument.role is not Role.OUTPUT:
                    assert argument.layout is not None
                    values[argument.name] = random_array(rng, argument.layout.shape, argument.dtype)
            inputs |= {f"{launch}/{name}": np.asarray(value) for name, value in values.items()}
            results = reference.compute(**values)
            expected |= {f"{launch}/{name}": value for name, value in results.items()}
        outputs, report = launch_alone(out / kernel, kernel, inputs)
        worst = max(largest_difference(outputs[name], expected[name]) for name in expected)
        done.append((kernel, report, worst, reference.rtol))
    return done


def from_tensors(out: Path, stages: list[Stage]) -> list[Done]:
    """A tensor expression, scheduled, lowered, compiled and run; then its kernels in fresh processes."""
    rng = np.random.default_rng(7)
    a, b, c = (rng.standard_normal(shape).astype(np.float16) for shape in ((96, 640), (640,), (96, 1)))

    def expression(a: Any, b: Any, c: Any) -> Any:
        return (a * b + c).relu() * 0.5

    expected = np.maximum(a * b + c, np.float16(0)) * np.float16(0.5)
    tensors = [rangeify.Tensor(value) for value in (a, b, c)]
    schedule, seconds = timed(lambda: rangeify.schedule(expression(*tensors)))
    found = f"kernels: {len(schedule.kernels)}"
    stages.append(Stage("tensors", "Schedule", found, len(schedule.explain()), seconds))
    executable, seconds = timed(lambda: rangeify.spyre.compile(schedule, DEVICE))
    text = executable.program.to_json()
    stages.append(Stage("tensors", "Program", "program.json", len(text), seconds))
    executable.write(out / "tensors")
    given = {0: (a, b, c)}
    worst = largest_difference(np.asarray(executable.run(*given[0])), expected)
    done = []
    for item in executable.program.items:
        kernel = item.function
        folder = out / "tensors" / kernel
        compile_to(folder, executable.program.modules[kernel], kernel, stages)
        report, difference = _launch_item(folder, executable, item, expression, rng)
        done.append((kernel, report, max(worst, difference), 0.0))
    return done


def _launch_item(
    folder: Path, executable: Any, item: Any, expression: Callable[..., Any], rng: np.random.Generator
) -> tuple[dict[str, Any], float]:
    """One kernel alone, with fresh inputs; which buffer is which input stands in the program."""
    program = executable.program
    spec = executable.kernels[item.function].spyrecode.launch
    inputs: dict[str, Array] = {}
    expected: dict[str, Array] = {}
    for launch in range(LAUNCHES):
        arrays = {
            buffer: random_array(rng, tuple(program.buffers[buffer].shape), program.buffers[buffer].dtype)
            for buffer in program.inputs
        }
        oracle = expression(*(rangeify.Tensor(arrays[buffer]) for buffer in program.inputs))
        (value,) = rangeify.run(rangeify.schedule(oracle))
        for arg in spec.args:
            buffer = item.buffers[arg.kernel_position]
            if buffer in arrays:
                inputs[f"{launch}/{arg.name}"] = arrays[buffer]
            else:
                expected[f"{launch}/{arg.name}"] = value
    outputs, report = launch_alone(folder, item.function, inputs)
    worst = max(largest_difference(outputs[name], expected[name]) for name in expected)
    return report, worst


def print_tables(console: Console, stages: list[Stage], done: list[Done]) -> None:
    table = Table(title="Stages")
    for title in ("kernel", "stage", "artefact", "bytes", "ms"):
        table.add_column(title, justify="right" if title in ("bytes", "ms") else "left", overflow="fold")
    for stage in stages:
        milliseconds = f"{stage.seconds * 1e3:.1f}"
        table.add_row(stage.kernel, stage.stage, stage.artefact, f"{stage.size:,}", milliseconds)
    console.print(table)
    table = Table(title=f"{LAUNCHES} launches each on '{DEVICE}'")
    for title in ("kernel", "programs", "units", "cycles", "bytes", "bound", "against NumPy"):
        table.add_column(title, justify="left" if title == "kernel" else "right", overflow="fold")
    for kernel, report, worst, rtol in done:
        verdict = "bit for bit" if worst == 0.0 else f"within {worst:.1e} (allowed {rtol:.1e})"
        table.add_row(
            kernel,
            str(report["programs"]),
            str(report["units"]),
            f"{report['cycles']:,}",
            f"{report['bytes']:,}",
            "-" if report["bound"] is None else f"{report['bound']:,}",
            verdict if worst <= rtol else f"WRONG: {worst:.1e}",
        )
    console.print(table)


def main() -> int:
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("out") / "demo"
    out.mkdir(parents=True, exist_ok=True)
    stages: list[Stage] = []
    done = from_text(out, stages) + from_tensors(out, stages)
    console = Console()
    print_tables(console, stages, done)
    console.print(f"Artefacts: {out}/<kernel>/", soft_wrap=True)
    console.print("Traces (open in Perfetto): outputs.trace.json beside them", soft_wrap=True)
    return 1 if any(worst > rtol for _, _, worst, rtol in done) else 0


if __name__ == "__main__":
    sys.exit(main())
