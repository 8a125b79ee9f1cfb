"""Launches artefacts on a simulated device; interprets no IR. One JSON order a line on stdin, one reply a line.

An order names a folder with ``spyreCodeDir/`` and ``launch_spec.json``, a device, the arguments (npz) and
where the outputs go (npz). The reply tells what went wrong, and which modules that read or interpret IR
have been imported.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

import spyrert
from spyrert.errors import SpyreError
from spyrert.spyrecode import Role
from spyresim import SimDevice

FORBIDDEN = (
    "spyresim.ktir_level",
    "spyresim.schedule_level",
    "spyresim.sequential",
    "spyresim.dataflow_level",
    "spyresim.dataflow",
    "spyresim.verification",
)


def launch(order: dict[str, str]) -> None:
    with spyrert.Runtime(device_factory=lambda index: SimDevice(index, order["device"])) as runtime:
        plan = runtime.prepare_kernel(order["folder"])
        with np.load(order["given"]) as loaded:
            given = {name: loaded[name] for name in loaded.files}
        tensors: list[Any] = []
        for arg in plan.args:
            if arg.role is Role.OUTPUT:
                shape = tuple(int(extent) for extent in arg.shape)
                tensors.append(runtime.empty(shape, arg.dtype, arg.layout))
            else:
                tensors.append(runtime.to_device(given[arg.name], arg.layout))
        assert plan.launch is not None
        bindings = {symbol.name: given[symbol.name].item() for symbol in plan.launch.symbols}
        runtime.launch(plan, tensors, bindings=bindings)
        outputs = {
            arg.name: runtime.to_host(tensor)
            for arg, tensor in zip(plan.args, tensors, strict=True)
            if arg.role is not Role.INPUT
        }
    np.savez(order["taken"], **outputs)


def main() -> None:
    for line in sys.stdin:
        problem = None
        try:
            launch(json.loads(line))
        except SpyreError as error:
            problem = f"{type(error).__name__}: {error}"
        imported = [name for name in FORBIDDEN if name in sys.modules]
        print(json.dumps({"error": problem, "imported": imported}), flush=True)


if __name__ == "__main__":
    main()
