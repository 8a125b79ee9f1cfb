"""Compile every kernel of a Schedule and drive the launches with their storage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary

import attrs
import numpy as np
import numpy.typing as npt

import dfsched
from rangeify.errors import UnsupportedError
from rangeify.executor import evaluate_expression
from rangeify.executor.execute import InputLike, bind_inputs, with_values
from rangeify.ktir.lower import lower
from rangeify.ktir.program import Launch, Place, Program, ProgramBuffer
from rangeify.schedule_types import Schedule, bind
from rangeify.spyre.devices import default_runtime
from rangeify.storage import Array
from spyrert import LinearLayout, Runtime, SpyreCode, StickLayout

if TYPE_CHECKING:
    from spyrert import DeviceTensor, JobPlan

DeviceLike: TypeAlias = "dfsched.Architecture | str | Path"


def compile(
    schedule: Schedule, device: DeviceLike = "spyre", options: dfsched.Options | None = None
) -> Executable:
    """Lower `schedule` for a described device and compile each distinct kernel once.

    `device`: a :class:`dfsched.Architecture`, the name of a packaged device or a path. Raises
    :class:`rangeify.UnsupportedError` for what has no lowering, and the compiler's own located errors.
    """
    architecture = device if isinstance(device, dfsched.Architecture) else dfsched.load_architecture(device)
    program = lower(schedule, architecture.machine())
    compiled = {
        name: dfsched.compile(module, architecture, dfsched.Options() if options is None else options)
        for name, module in program.modules.items()
    }
    return Executable(schedule, program, architecture, compiled)


@attrs.frozen(eq=False)
class Executable:
    """A compiled Schedule.

    ``program``: what was lowered. ``kernels``: the compiled kernels by function name. A runtime prepares each
    kernel once and then launches it as often as :meth:`run` is called.
    """

    schedule: Schedule
    program: Program
    architecture: dfsched.Architecture
    kernels: Mapping[str, dfsched.Compiled]
    _plans: WeakKeyDictionary[Runtime, dict[str, JobPlan]] = attrs.field(
        factory=WeakKeyDictionary, repr=False
    )

    @property
    def inputs(self) -> tuple[ProgramBuffer, ...]:
        """What :meth:`run` takes, in order."""
        return tuple(self.program.buffers[i] for i in self.program.inputs)

    def write(self, directory: str | Path) -> Path:
        """Write ``program.json`` and, a folder a kernel, everything that its compilation made."""
        target = Path(directory)
        target.mkdir(parents=True, exist_ok=True)
        (target / "program.json").write_text(self.program.to_json(), encoding="utf-8")
        for name, compiled in self.kernels.items():
            compiled.write(target / name)
        return target

    def run(
        self,
        *arrays: npt.ArrayLike,
        runtime: Runtime | None = None,
        bindings: Mapping[str, int] | None = None,
    ) -> Any:
        """Execute on a device and return the value of the scheduled Tensor (a tuple for several).

        `arrays`: one per input, in the order of :attr:`inputs`; none at all means what the Tensors hold.
        `runtime`: where to run; by default one on an installed device that can stand for the architecture.
        `bindings`: values of Variables by name. Raises :class:`rangeify.InputError` for arrays that do not
        fit, before anything is launched.
        """
        chosen = default_runtime(self.architecture) if runtime is None else runtime
        given = self._bind(arrays)
        values = bind(self.program.variables, bindings)
        memory = _Memory(chosen, self.program, given)
        plans = self.prepare(chosen)
        for item in self.program.items:
            plan = plans[item.function]
            tensors = [memory.tensor(item.buffers[_position(item, a.kernel_position)]) for a in plan.args]
            chosen.launch(plan, tensors)
        results = tuple(
            np.array(
                evaluate_expression(with_values(out, values), lambda p: memory.host(p.arg.slot)), copy=True
            )
            for out in self.program.outputs
        )
        return results[0] if len(results) == 1 else results

    def prepare(self, runtime: Runtime) -> Mapping[str, JobPlan]:
        """The kernels made resident on `runtime`, each once."""
        plans = self._plans.setdefault(runtime, {})
        for name, compiled in self.kernels.items():
            if name not in plans:
                code: SpyreCode = compiled.spyrecode
                plans[name] = runtime.prepare_kernel(code)
        return plans

    def _bind(self, arrays: Sequence[npt.ArrayLike]) -> dict[int, Array]:
        given: InputLike = list(arrays) if arrays or not self.program.inputs else None
        return bind_inputs(self.schedule, given)


def _position(item: Launch, kernel_position: int | None) -> int:
    if kernel_position is None:
        raise UnsupportedError("a kernel with constant addresses", f"kernel {item.function}")
    return kernel_position


class _Memory:
    """Device tensors of one run: inputs uploaded, outputs and the arena allocated, on first use."""

    def __init__(self, runtime: Runtime, program: Program, given: dict[int, Array]) -> None:
        self._runtime = runtime
        self._program = program
        self._given = given
        self._tensors: dict[int, DeviceTensor] = {}
        self._arena: DeviceTensor | None = None

    def tensor(self, index: int) -> DeviceTensor:
        """The device tensor of a buffer."""
        if index not in self._tensors:
            self._tensors[index] = self._make(index)
        return self._tensors[index]

    def host(self, index: int) -> Array:
        """The contents of a buffer on the host. What no kernel touched is what was given."""
        if index not in self._tensors and index in self._given:
            return self._given[index]
        stored = self._runtime.to_host(self.tensor(index))
        return stored.astype(self._program.buffers[index].dtype, copy=False)

    def _make(self, index: int) -> DeviceTensor:
        buffer = self._program.buffers[index]
        layout, dtype = runtime_layout(buffer), buffer.stored_dtype
        if buffer.place in (Place.INPUT, Place.INPUT_OUTPUT):
            given = self._given[index if buffer.source is None else buffer.source]
            stored = given.astype(dtype) if given.dtype == np.bool_ else given
            return self._runtime.to_device(stored, layout=layout)
        if buffer.offset is None:
            return self._runtime.empty(buffer.shape, dtype, layout=layout)
        if self._arena is None:
            size = (self._program.arena_bytes,)
            self._arena = self._runtime.empty(size, "uint8", layout=LinearLayout("uint8"))
        (start,) = self._arena.addresses()
        return self._runtime.tensor_at(start + buffer.offset, buffer.shape, dtype, layout=layout)


def runtime_layout(buffer: ProgramBuffer) -> StickLayout:
    """The runtime's form of a buffer's layout; both are one JSON document (reading 6)."""
    document = buffer.layout.to_json()
    return StickLayout(
        tuple(document["device_size"]), tuple(document["stride_map"]), str(document["device_dtype"])
    )


__all__ = ["Executable", "compile", "runtime_layout"]
