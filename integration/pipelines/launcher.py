"""Launches one prepared kernel several times in a process that has nothing but its artefact.

    python launcher.py FOLDER DEVICE INPUTS.npz OUTPUTS.npz

FOLDER holds ``spyreCodeDir/`` and ``launch_spec.json`` and nothing else.  INPUTS.npz holds arrays named
``<launch>/<argument>``; every launch gets buffers of its own, allocated in another order than those of the
launch before.  OUTPUTS.npz receives arrays named the same way and, as JSON in ``report``, what happened.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import spyrert
from spyrert.spyrecode import Role
from spyresim import SimDevice
from spyresim.engine import Options

FORBIDDEN = ("spyresim.ktir_level", "spyresim.sequential", "spyresim.dataflow", "spyresim.dataflow_level")
"""The interpreters of KTIR, ScheduleIR and DataflowIR: a device needs none of them."""


def check_folder(folder: Path) -> None:
    """The folder holds the artefact and nothing else."""
    held = sorted(path.name for path in folder.iterdir())
    if held != ["launch_spec.json", "spyreCodeDir"]:
        raise SystemExit(f"{folder} should hold the artefact alone, but holds {held}")


def main(folder: Path, device_name: str, inputs_path: Path, outputs_path: Path) -> None:
    check_folder(folder)
    device = SimDevice(0, device_name, options=Options(trace=True))
    runtime = spyrert.Runtime(device_factory=lambda index: device)
    plan = runtime.prepare_kernel(folder)
    with np.load(inputs_path) as loaded:
        inputs = {name: loaded[name] for name in loaded.files}
    launches = sorted({name.partition("/")[0] for name in inputs})
    outputs: dict[str, Any] = {}
    addresses: list[list[int]] = []
    kept: list[Any] = []  # all buffers stay alive, so that no two launches share an address
    for number, launch in enumerate(launches):
        order = np.roll(np.arange(len(plan.args)), number + 1).tolist()
        tensors: dict[int, spyrert.DeviceTensor] = {}
        for position in order:
            arg = plan.args[position]
            if arg.role is Role.OUTPUT:
                shape = tuple(int(extent) for extent in arg.shape)
                tensors[position] = runtime.empty(shape, arg.dtype, arg.layout)
            else:
                tensors[position] = runtime.to_device(inputs[f"{launch}/{arg.name}"], arg.layout)
        names = {symbol.name for symbol in plan.launch.symbols} if plan.launch is not None else set()
        bindings = {name: int(inputs[f"{launch}/{name}"]) for name in sorted(names)}
        ordered = [tensors[position] for position in range(len(plan.args))]
        runtime.launch(plan, ordered, bindings=bindings)
        addresses.append([tensor.addresses()[0] for tensor in ordered])
        for position, arg in enumerate(plan.args):
            if arg.role is not Role.INPUT:
                outputs[f"{launch}/{arg.name}"] = runtime.to_host(tensors[position])
        kept += ordered
    last = device.runs[-1]
    assert last.trace is not None
    trace_path = outputs_path.with_suffix(".trace.json")
    last.trace.write(str(trace_path), last.units, device.architecture.timing.clock_hz)
    report = {
        "addresses": addresses,
        "image_transfers": device.counters()["image_transfers"],
        "launches": len(launches),
        "programs": last.report.programs,
        "units": len(last.report.units),
        "cycles": last.report.cycles,
        "bytes": last.report.bytes_moved,
        "bound": last.report.bound_cycles,
        "imported": sorted(name for name in sys.modules if name in FORBIDDEN),
    }
    np.savez(outputs_path, report=np.array(json.dumps(report)), **outputs)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
