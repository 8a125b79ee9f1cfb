"""`SimDevice`: a device for `spyrert.Runtime` that executes SpyreCode images.

It knows nothing of KTIR or DataflowIR: everything it executes it decodes from the image in its memory.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from dfsched import image as im
from dfsched import load_architecture
from dfsched.architecture import Architecture
from ktir import dlfloat
from ktir.machine import F16Format
from spyrert.device import (
    ControlBlock,
    CostModel,
    DeviceProperties,
    Direction,
    DmaCB,
    EventDevice,
    ExecResult,
    Phases,
    Program,
    SegmentMemory,
)
from spyrert.errors import ComputeFault
from spyrert.spyrecode import PayloadKind, is_spyrebin
from spyresim.engine.machine import DEFAULT_OPTIONS, Machine, Options
from spyresim.engine.report import Report
from spyresim.engine.trace import Trace
from spyresim.errors import SpyresimError, one_of, require
from spyresim.watch import Watch

RUNS_KEPT = 64
"""How many runs `SimDevice.runs` remembers."""


_FLOATS: dict[str, np.dtype[Any]] = {"float16": np.dtype(np.float16), "float32": np.dtype(np.float32)}
"""Host formats that transfers convert to and from DLFloat16."""


def _to_dlfloat(dtype: np.dtype[Any], raw: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Raw codes of a host format as DLFloat16 codes, rounded once."""
    return np.asarray(dlfloat.encode(raw.view(dtype)))


def _from_dlfloat(dtype: np.dtype[Any], raw: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """DLFloat16 codes as raw codes of a host format, rounded once."""
    with np.errstate(all="ignore"):
        return dlfloat.decode(raw).astype(dtype).view(f"<u{dtype.itemsize}")


@attrs.frozen(eq=False)
class KernelRun:
    """One execution of an image: its report, the units that the report and trace speak of, the trace."""

    kernel: str
    launch_seq: int
    report: Report
    units: tuple[im.Unit, ...]
    trace: Trace | None


class SimDevice(EventDevice):
    """A simulated device.

    Args:
        index: number of the device in the machine (what `spyrert.Runtime` passes).
        device: package device name, path of a description, or an `Architecture`.
        f16_format: ``"ieee"`` or ``"dlfloat"``; images made for the other are refused.
        options: how programs are run (strictness, seed, trace).

    `runs` holds the last runs, newest last; `watch`, if set, is told who writes its element.
    """

    def __init__(
        self,
        index: int = 0,
        device: str | Path | Architecture = "spyre",
        *,
        f16_format: str = "ieee",
        options: Options = DEFAULT_OPTIONS,
        cost: CostModel | None = None,
    ) -> None:
        require("SimDevice", "index", index, int)
        require("SimDevice", "device", device, str, Path, Architecture)
        require("SimDevice", "options", options, Options)
        require("SimDevice", "cost", cost, CostModel, NoneType)
        one_of("SimDevice", "f16_format", f16_format, F16Format)
        architecture = device if isinstance(device, Architecture) else load_architecture(device)
        props = DeviceProperties(
            name=f"sim:{architecture.name}",
            index=index,
            num_cores=architecture.cores,
            f16_format=f16_format,
            architecture=(architecture.name, architecture.digest),
        )
        super().__init__(props, cost)
        self.architecture = architecture
        self.options = options
        self.runs: deque[KernelRun] = deque(maxlen=RUNS_KEPT)
        self.watch: Watch | None = None
        self._machine = Machine(architecture)
        self._decoded: dict[str, im.Image] = {}
        self.register_executor(PayloadKind.DFBIN, self._execute)
        for name, dtype in _FLOATS.items():
            self.register_converter(name, "df16", partial(_to_dlfloat, dtype))
            self.register_converter("df16", name, partial(_from_dlfloat, dtype))

    def submit(self, block: ControlBlock) -> int:
        """Queue a control block; transfers of program images are counted as ``image_transfers``."""
        ticket = super().submit(block)
        if isinstance(block, DmaCB) and block.direction is Direction.TO_DEVICE and block.host is not None:
            self._counters["image_transfers"] += is_spyrebin(block.host)
        return ticket

    def release(self) -> None:
        """Free the memory of the scratchpads; the device is not to be used any more."""
        self._machine.scratchpads.clear()

    def reset_counters(self) -> None:
        super().reset_counters()
        self._counters["image_transfers"] = 0

    def _image_of(self, program: Program) -> im.Image:
        found = self._decoded.get(program.digest)
        if found is None:
            try:
                found = im.decode(program.payload)
            except im.InvalidImage as error:
                raise ComputeFault(str(error)) from error
            if found.architecture_digest != self.architecture.digest:
                raise ComputeFault(
                    f"unsupported image: it is for architecture {found.architecture} "
                    f"({found.architecture_digest[:12]}), the device is {self.architecture.name} "
                    f"({self.architecture.digest[:12]})"
                )
            if found.f16_format != program.f16_format:
                raise ComputeFault(
                    f"the program has f16 format {found.f16_format}, its container {program.f16_format}"
                )
            self._decoded[program.digest] = found
        return found

    def _execute(self, program: Program, memory: SegmentMemory, core_mask: int) -> ExecResult:
        image = self._image_of(program)
        missing = [u.core for u in image.units if u.core >= 0 and not core_mask >> u.core & 1]
        if missing:
            raise ComputeFault(f"the image uses core {min(missing)}, which the launch may not use")
        try:
            cells = im.patch(image, program.symbols)
        except ValueError as error:
            raise ComputeFault(str(error)) from error
        try:
            outcome = self._machine.run(image, cells, memory, self.options, watch=self.watch)
        except SpyresimError as error:
            raise ComputeFault(f"{type(error).__name__}: {error}") from error
        report = outcome.report
        self.runs.append(KernelRun(image.kernel, program.launch_seq, report, image.units, outcome.trace))
        return ExecResult(report.cycles, Phases(0, report.cycles, 0))
