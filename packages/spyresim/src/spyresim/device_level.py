"""The device level: an image launched on a simulated device through the runtime.

Nothing here knows the program: it needs a SpyreCode folder (or artefact) with its launch spec.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import NoneType

import numpy as np

from dfsched import Compiled
from dfsched.architecture import Architecture
from dfsched.architecture.loading import load_architecture
from ktir.interface import ConstantBuffer, constant_buffers
from ktir.layout import layout_from_json
from spyrert import Runtime, SpyreCode
from spyrert.errors import ComputeFault, SpyreError
from spyrert.spyrecode import ArgSpec, LaunchSpec
from spyrert.spyrecode import Role as ArgRole
from spyrert.tensor import DeviceTensor
from spyresim.constant_addresses import ConstantAddresses
from spyresim.device import SimDevice
from spyresim.devices import architecture_of
from spyresim.engine import Options
from spyresim.errors import ArgumentError, ExecutionFault, UnsupportedError, require, require_arguments
from spyresim.meaning.formats import Array
from spyresim.report import Counters, Report, Result
from spyresim.watch import Watch

__all__ = ["run_device"]


def run_device(
    code: SpyreCode | Compiled | str | Path,
    args: Mapping[str, object] | None = None,
    *,
    device: Architecture | str | Path | None = None,
    options: Options | None = None,
    watch: Watch | None = None,
) -> Result:
    """Prepare a kernel, launch it once, and read its outputs.

    Args:
        code: an artefact, what `dfsched.compile` gave, or the folder (or archive) that holds an artefact.
        args: arrays and numbers by argument name; arrays of role output may be left out.
        device: the architecture; default the package device that the launch spec was made for.
        options: strictness, seed, trace of the engine.
        watch: is told who writes an element.

    Returns:
        outputs by argument name; `report.details` is the `KernelRun` of the device.

    Raises:
        ArgumentError: the arguments do not fit, or no device fits the artefact.
        ExecutionFault: the device reports a fault.
        spyrert.SpyreError: the artefact is bad.
        CallError: an argument of another type.
    """
    require("run_device", "code", code, SpyreCode, Compiled, str, Path)
    require_arguments("run_device", args)
    require("run_device", "device", device, Architecture, str, Path, NoneType)
    require("run_device", "options", options, Options, NoneType)
    buffers: tuple[ConstantBuffer, ...] = ()
    if isinstance(code, Compiled):
        buffers = constant_buffers(code.source, code.kernel)
        device = code.architecture if device is None else device
        code = code.spyrecode
    elif not isinstance(code, SpyreCode):
        code = SpyreCode.read(code)
    spec = code.launch
    if spec is None:
        raise UnsupportedError("an artefact without a launch spec")
    if device is None:
        architecture = architecture_of(spec)
    else:
        architecture = device if isinstance(device, Architecture) else load_architecture(device)
    simulated = SimDevice(0, device=architecture, f16_format=spec.f16_format, options=options or Options())
    runtime = Runtime(device_factory=lambda index: simulated)
    try:
        constants = ConstantAddresses.of(spec, buffers)
        result = _launch(runtime, simulated, code, spec, constants.pack(args or {}), watch)
        return constants.unpack(result, args or {})
    finally:
        runtime.shutdown()
        simulated.release()


def _launch(
    runtime: Runtime,
    simulated: SimDevice,
    code: SpyreCode,
    spec: LaunchSpec,
    args: dict[str, object],
    watch: Watch | None,
) -> Result:
    plan = runtime.prepare_kernel(code)
    arrays, bindings = _split(spec, args)
    tensors = [_tensor(runtime, spec, arg, arrays.get(_name(arg)), bindings) for arg in spec.args]
    if watch is not None:
        for arg, tensor in zip(spec.args, tensors, strict=True):
            if _name(arg) == watch.output and len(tensor.addresses()) == 1:
                layout = layout_from_json(arg.layout.to_json(), tensor.shape)
                watch.address = tensor.addresses()[0] + layout.offset_bytes(watch.index)
        simulated.watch = watch
    try:
        ticket = runtime.launch(plan, tensors, bindings=bindings)
        runtime.synchronize()
        error = ticket.error
    except SpyreError as failure:
        if not isinstance(failure, ComputeFault) and not simulated.runs and not runtime.refused_launches:
            raise
        error = failure
    if error is not None:
        if runtime.refused_launches:
            raise ArgumentError(str(error), None, code.kernel_name) from error
        raise ExecutionFault(str(error)) from error
    outputs = {
        _name(arg): _host(runtime, tensor, arrays.get(_name(arg)))
        for arg, tensor in zip(spec.args, tensors, strict=True)
        if arg.role is not ArgRole.INPUT
    }
    run = simulated.runs[-1]
    counters = Counters()
    counters.bytes_read["global"] = run.report.bytes_read
    counters.bytes_written["global"] = run.report.bytes_written
    cores = len({unit.core for unit in run.units if unit.core >= 0})
    report = Report("device", run.kernel, cores, counters, cycles=run.report.cycles, details=run)
    return Result(outputs, report)


def _name(arg: ArgSpec) -> str:
    return arg.name or f"arg{arg.kernel_position}"


def _split(spec: LaunchSpec, args: dict[str, object]) -> tuple[dict[str, Array], dict[str, object]]:
    """Arrays and numbers under the names of the launch spec."""
    names = {_name(arg): _name(arg) for arg in spec.args} | {s.name: s.name for s in spec.symbols}
    positions = {
        f"arg{entry.kernel_position}": name
        for entry, name in [(a, _name(a)) for a in spec.args] + [(s, s.name) for s in spec.symbols]
        if entry.kernel_position is not None
    }
    scalars = {symbol.name for symbol in spec.symbols}
    arrays: dict[str, Array] = {}
    bindings: dict[str, object] = {}
    for given, value in args.items():
        name = names.get(given) or positions.get(given)
        if name is None:
            known = ", ".join(names) or "none"
            raise ArgumentError(
                f"'{spec.kernel_name}' has no argument '{given}'; its arguments: {known}",
                given,
                spec.kernel_name,
            )
        if name in arrays or name in bindings:
            raise ArgumentError(f"argument '{name}' is given twice", name, spec.kernel_name)
        if name in scalars:
            bindings[name] = value
        elif isinstance(value, np.ndarray):
            arrays[name] = value
        else:
            raise ArgumentError(
                f"argument '{name}' must be an array, not {type(value).__name__}", name, spec.kernel_name
            )
    missing = [name for name in sorted(scalars) if name not in bindings]
    if missing:
        raise ArgumentError(f"argument '{missing[0]}' (scalar) is missing", missing[0], spec.kernel_name)
    return arrays, bindings


def _tensor(
    runtime: Runtime, spec: LaunchSpec, arg: ArgSpec, array: Array | None, sizes: Mapping[str, object]
) -> DeviceTensor:
    name = _name(arg)
    shape = tuple(extent if isinstance(extent, int) else _size(name, sizes[extent]) for extent in arg.shape)
    if array is None:
        if arg.role is not ArgRole.OUTPUT:
            raise ArgumentError(
                f"argument '{name}' ({arg.role.value}, {arg.dtype} of shape {shape}) is missing",
                name,
                spec.kernel_name,
            )
        return runtime.empty(shape, arg.dtype, arg.layout)
    if array.shape != shape:
        raise ArgumentError(
            f"argument '{name}' must have shape {shape}, but the array has shape {array.shape}",
            name,
            spec.kernel_name,
        )
    dtype = "df16" if arg.dtype == "df16" and array.dtype == np.uint16 else None
    try:
        return runtime.to_device(array, arg.layout, dtype=dtype)
    except SpyreError as error:
        raise ArgumentError(f"argument '{name}': {error}", name, spec.kernel_name) from error


def _size(name: str, value: object) -> int:
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(value)
    raise ArgumentError(f"a size of argument '{name}' must be an integer, not {value!r}", name)


def _host(runtime: Runtime, tensor: DeviceTensor, given: Array | None) -> Array:
    array = runtime.to_host(tensor)
    return array if given is None else array.astype(given.dtype, copy=False)
