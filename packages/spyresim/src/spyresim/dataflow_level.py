"""The DataflowIR level: what the schedule does, executed from its text (dataflowir spec 5)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import NoneType
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from dfsched import Architecture, Compiled, load_architecture
from ktir.dialects.builtin import Module
from ktir.dtypes import element_type
from ktir.interface import Argument, ArgumentKind, ConstantBuffer, Role, constant_buffers
from ktir.layout import layout_from_json
from ktir.machine import AddressUnit, F16Format, Machine
from ktir.types import INDEX
from spyrert.errors import SpyreCodeError
from spyrert.spyrecode import ArgSpec, LaunchSpec, LinearLayout, read_launch_spec
from spyresim.arguments import Binding, bind
from spyresim.constant_addresses import ConstantAddresses
from spyresim.dataflow import USUAL_STARTS, ConstantStarts, DataflowFiles, KernelProgram, kernel_program
from spyresim.dataflow.files import GLOBAL
from spyresim.devices import architecture_of
from spyresim.engine import FlatGlobal
from spyresim.engine import Machine as Device
from spyresim.engine import Options as EngineOptions
from spyresim.errors import ArgumentError, UnsupportedError, require, require_arguments
from spyresim.report import Counters, Report, Result
from spyresim.watch import Watch

__all__ = ["DataflowRun", "prepare_dataflow", "run_dataflow"]

Bytes = npt.NDArray[np.uint8]

LAUNCH_SPEC = "launch_spec.json"


@attrs.frozen(eq=False)
class DataflowRun:
    """A kernel of DataflowIR with its arguments, ready for the engine."""

    program: KernelProgram
    kernel: str
    architecture: Architecture
    binding: Binding
    constants: ConstantAddresses
    args: Mapping[str, object]

    def run(self, options: EngineOptions | None = None, watch: Watch | None = None) -> Result:
        """Execute it; see `run_dataflow`."""
        options = options or EngineOptions()
        image, binding = self.program.image, self.binding
        blocks: dict[int, Bytes] = {}
        if not options.time_only:
            blocks = {b.address: _initial(b.data, b.size) for b in binding.buffers}
        if watch is not None:
            watch.locate(binding.buffers)
        machine = Device(self.architecture)
        outcome = machine.run(image, image.cells, FlatGlobal(blocks), options, self.program.sources, watch)
        outputs = {
            buffer.name: binding.output(buffer, blocks[buffer.address][: buffer.size])
            for buffer in binding.buffers
            if buffer.is_output and not options.time_only
        }
        counters = Counters()
        counters.bytes_read["global"] = outcome.report.bytes_read
        counters.bytes_written["global"] = outcome.report.bytes_written
        report = Report(
            "dataflow",
            self.kernel,
            image.grid,
            counters,
            cycles=outcome.report.cycles,
            details=outcome,
        )
        result = Result(outputs, report)
        return result if options.time_only else self.constants.unpack(result, self.args)


def run_dataflow(
    compiled: Compiled | str | Path,
    args: Mapping[str, object] | None = None,
    *,
    device: Architecture | str | Path | None = None,
    options: EngineOptions | None = None,
    constant_starts: ConstantStarts = USUAL_STARTS,
    module: Module | None = None,
    watch: Watch | None = None,
) -> Result:
    """Execute the DataflowIR of one compiled kernel.

    Args:
        compiled: what `dfsched.compile` gave, or a folder that holds ``global.mlir``, the program files and
            ``launch_spec.json`` (nothing else is read).
        args: arrays and numbers by argument name, as for `run_ktir`.
        device: the architecture; default that of the compilation, or the one that the launch spec names.
        constant_starts: what constant start addresses count, for DataflowIR of other tools.
        options: strictness, seed, trace of the engine. With `time_only`, arrays may be left out, and there
            are no outputs.
        module: of a compiled kernel, the DataflowIR to run (the result of one of its passes).
        watch: is told who writes an element.

    Returns:
        outputs by argument name; `report.cycles`, and `report.details` with the outcome of the engine.

    Raises:
        ArgumentError: the arguments do not fit, or the launch spec is bad.
        SpyresimError subclasses: the program does something that has no meaning.
        CallError: an argument of another type.
    """
    require("run_dataflow", "compiled", compiled, Compiled, str, Path)
    require_arguments("run_dataflow", args)
    require("run_dataflow", "device", device, Architecture, str, Path, NoneType)
    require("run_dataflow", "options", options, EngineOptions, NoneType)
    require("run_dataflow", "module", module, Module, NoneType)
    options = options or EngineOptions()
    prepared = prepare_dataflow(
        compiled,
        args,
        device=device,
        constant_starts=constant_starts,
        module=module,
        time_only=options.time_only,
    )
    return prepared.run(options, watch)


def prepare_dataflow(
    compiled: Compiled | str | Path,
    args: Mapping[str, object] | None = None,
    *,
    device: Architecture | str | Path | None = None,
    constant_starts: ConstantStarts = USUAL_STARTS,
    module: Module | None = None,
    time_only: bool = False,
) -> DataflowRun:
    """What `run_dataflow` executes: arguments as there."""
    buffers: tuple[ConstantBuffer, ...] = ()
    if isinstance(compiled, Compiled):
        modules = compiled.dataflow_ir if module is None else {GLOBAL: module}
        files, spec = DataflowFiles.of(modules), compiled.spyrecode.launch
        device = compiled.architecture if device is None else device
        buffers = constant_buffers(compiled.source, compiled.kernel)
    else:
        folder = Path(compiled)
        files, spec = DataflowFiles.load(folder), _read_spec(folder / LAUNCH_SPEC)
        device = architecture_of(spec) if device is None else device
    architecture = device if isinstance(device, Architecture) else load_architecture(device)
    if spec is None:
        raise UnsupportedError("DataflowIR without a launch spec")
    constants = ConstantAddresses.of(spec, buffers)
    binding = _bind(spec, files, constants.pack(args or {}), time_only)
    values = [_word(value) for value in binding.values]
    program = kernel_program(files, architecture, values, constant_starts)
    return DataflowRun(program, files.kernel.symbol, architecture, binding, constants, args or {})


def _word(value: np.ndarray[Any, Any]) -> int:
    """A scalar argument as programs hold it: a number, or the bit pattern of a float."""
    bits = value if value.dtype.kind in "iub" else value.view(np.dtype(f"u{value.dtype.itemsize}"))
    return int(bits[0])


def _read_spec(path: Path) -> LaunchSpec:
    if not path.is_file():
        raise UnsupportedError(f"a DataflowIR folder without {LAUNCH_SPEC}")
    try:
        return read_launch_spec(path)
    except SpyreCodeError as error:
        raise ArgumentError(f"{path}: {error}") from error


def _initial(data: Bytes | None, size: int) -> Bytes:
    whole = -(-max(size, 1) // 128) * 128
    block = np.full(whole, 0xCD, np.uint8)
    if data is not None:
        block[: len(data)] = data
        block[len(data) :] = 0
    return block


def _bind(spec: LaunchSpec, files: DataflowFiles, args: Mapping[str, object], time_only: bool) -> Binding:
    arguments: dict[int, Argument] = {}
    constants: list[ConstantBuffer] = []
    for arg in spec.args:
        if arg.kernel_position is None:
            constants.append(_constant(arg))
        else:
            arguments[arg.kernel_position] = _pointer(arg, arg.kernel_position)
    for symbol in spec.symbols:
        if symbol.kernel_position is not None:
            arguments[symbol.kernel_position] = Argument(
                symbol.kernel_position,
                symbol.name,
                ArgumentKind.SCALAR,
                symbol.dtype,
                INDEX if symbol.dtype == "index" else element_type(symbol.dtype),
            )
    if time_only:  # places without contents, as those of outputs
        arguments = {
            position: attrs.evolve(argument, role=Role.OUTPUT) if argument.is_pointer else argument
            for position, argument in arguments.items()
        }
        constants = [attrs.evolve(constant, role=Role.OUTPUT) for constant in constants]
    machine = Machine(f16_format=F16Format(spec.f16_format), address_unit=AddressUnit.BYTE)
    ordered = [arguments[position] for position in sorted(arguments)]
    return bind(files.kernel.symbol, ordered, constants, args, machine)


def _pointer(arg: ArgSpec, position: int) -> Argument:
    shape = tuple(arg.shape)
    static = tuple(extent for extent in shape if isinstance(extent, int))
    layout = layout_from_json(arg.layout.to_json(), static) if len(static) == len(shape) else None
    if layout is None and not isinstance(arg.layout, LinearLayout):
        raise UnsupportedError(f"argument '{arg.name}' with symbolic extents {shape} in sticks")
    return Argument(
        position,
        arg.name or f"arg{position}",
        ArgumentKind.POINTER,
        arg.dtype,
        element_type(arg.layout.device_dtype) if layout is None else layout.element,
        shape,
        Role(arg.role.value),
        layout,
    )


def _constant(arg: ArgSpec) -> ConstantBuffer:
    address = int(arg.name.removeprefix("@"), 16)
    extents = tuple(extent for extent in arg.shape if isinstance(extent, int))
    return ConstantBuffer(
        arg.name, address, arg.dtype, element_type(arg.dtype), extents, Role(arg.role.value)
    )
