"""The devices of a runtime: how many, which is current, starting and resetting them (runtime spec 2)."""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from spyrert import arguments
from spyrert.config import RuntimeConfig
from spyrert.context import DeviceContext
from spyrert.device.protocol import Device, DeviceFactory, missing_members
from spyrert.errors import (
    ArgumentTypeError,
    ConfigError,
    DeviceIndexError,
    DeviceMismatch,
    RuntimeUnavailable,
    SpyreError,
)
from spyrert.execution import Scheduler

if TYPE_CHECKING:
    from spyrert.graph.capture import Capture


class Devices:
    """The device contexts of a runtime, each started at first use."""

    def __init__(
        self,
        device_factory: Callable[..., Device] | None = None,
        config: RuntimeConfig | None = None,
        devices: int | None = None,
    ) -> None:
        self.config = RuntimeConfig.from_environment() if config is None else config
        self._factory = factory_by_index(device_factory)
        self._count = count_devices(devices)
        self._lock = threading.RLock()
        self._contexts: dict[int, DeviceContext] = {}
        self._local = threading.local()
        self._schedulers: list[Scheduler] = []
        self._device = _number("LOCAL_RANK", os.environ.get("LOCAL_RANK") or "0")
        self._closed = False
        self._process = os.getpid()

    def device_count(self) -> int:
        return self._count

    def set_device(self, index: int) -> None:
        """Choose the device of later calls that name none."""
        self._check_index(index)
        self._device = index

    def current_device(self) -> int:
        return self._device

    def device(self, index: int | None = None) -> Device:
        """The device itself, for its counters and faults."""
        return self._context(index).device

    def _check_index(self, index: int) -> None:
        arguments.integer(index, "device index")
        if not 0 <= index < self._count:
            raise DeviceIndexError(f"device index {index} is not in 0..{self._count - 1}", device=index)

    def _context(self, index: int | None = None) -> DeviceContext:
        index = self._device if index is None else index
        if os.getpid() != self._process:
            raise RuntimeUnavailable("the runtime belongs to the parent process; make a new one after fork")
        if self._closed:
            raise RuntimeUnavailable("the runtime was shut down")
        if type(index) is not int:
            arguments.integer(index, "device index")
        found = self._contexts.get(index)
        if found is not None:
            return found
        self._check_index(index)
        with self._lock:
            if index not in self._contexts:
                context = DeviceContext(index, self._make(index), self.config)
                self._schedulers.append(context.scheduler)
                context.scheduler.peers = self._schedulers
                self._contexts[index] = context
            return self._contexts[index]

    def _make(self, index: int) -> Device:
        device = self._factory(index)
        if missing := missing_members(device):
            raise ArgumentTypeError(
                f"the device factory made {type(device).__name__!r}, which is no device: it has no "
                f"{', '.join(missing)}"
            )
        return device

    def _own(self, context: DeviceContext) -> DeviceContext:
        """Refuse what belongs to another runtime."""
        if self._context(context.index) is not context:
            raise DeviceMismatch("the tensor belongs to another runtime")
        return context

    def _capture(self) -> Capture | None:
        """The recording of the calling thread, if it records a graph."""
        found: Capture | None = getattr(self._local, "capture", None)
        return found if found is not None and found.going() else None

    def _refuse_recording(self, what: str) -> None:
        """Raise ``GraphError`` (and abort the recording) if the calling thread records a graph."""
        capture = self._capture()
        if capture is not None:
            capture.refuse(what)

    def synchronize(self, device: int | None = None) -> None:
        """Wait for every stream of a device (of all devices); then raise the first error in stream order."""
        self._refuse_recording("synchronize")
        indices = sorted(self._contexts) if device is None else [device]
        error: SpyreError | None = None
        for index in indices:
            context = self._context(index)
            for state in context.stream_states():
                context.scheduler.wait_for(lambda state=state: state.idle, None, f"stream {state.id}")  # type: ignore[misc]
                error = error or state.error
        if error is not None:
            raise error.with_traceback(None)

    def device_state(self, index: int | None = None) -> str:
        """``NOT_INITIALIZED``, ``OK``, ``STREAM_ERROR`` or ``LOST``."""
        index = self._device if index is None else index
        self._check_index(index)
        context = self._contexts.get(index)
        if context is None:
            return "NOT_INITIALIZED"
        if context.scheduler.lost:
            return "LOST"
        return "STREAM_ERROR" if any(s.error for s in context.stream_states()) else "OK"

    def reset_device(self, index: int | None = None) -> None:
        """Cancel everything on a device and start it anew, e.g. after it was lost.

        Tensors raise "stale allocation" from then on, plans ``PlanReleased``; old stream handles are
        destroyed.
        """
        self._refuse_recording("resetting a device")
        context = self._context(index)
        self._forget_device(context.index)
        context.reset()

    def _forget_device(self, index: int) -> None:
        """Drop what is cached for a device that is about to be reset."""

    def pump(self, max_steps: int | None = None, device: int | None = None) -> int:
        """Make progress by hand (``Progress.MANUAL``); returns the number of steps."""
        return self._context(device).scheduler.pump(max_steps)


def count_devices(devices: int | None, environ: Mapping[str, str] | None = None) -> int:
    """Number of devices: explicit, else ``AIU_WORLD_SIZE`` (1), of which ``SPYRE_DEVICES`` may name some."""
    environ = os.environ if environ is None else environ
    mode = environ.get("FLEX_DEVICE", "MOCK")
    if mode not in ("PF", "VF", "MOCK"):
        raise ConfigError(f"FLEX_DEVICE={mode!r} is not understood (PF, VF or MOCK)")
    count = _number("AIU_WORLD_SIZE", environ.get("AIU_WORLD_SIZE", "1")) if devices is None else devices
    if count < 1:
        raise ConfigError(f"there must be at least one device, not {count}")
    listed = environ.get("SPYRE_DEVICES")
    if devices is None and listed:
        named = {_number("SPYRE_DEVICES", part) for part in listed.split(",")}
        count = sum(0 <= index < count for index in named)
        if count == 0:
            raise ConfigError(f"SPYRE_DEVICES={listed!r} names no device")
    return count


def _number(variable: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"{variable}={text!r} is not understood") from None


def factory_by_index(given: Callable[..., Device] | None) -> DeviceFactory:
    if given is None:
        from spyrert.device import MicroDevice

        return MicroDevice.factory
    try:
        parameters = list(inspect.signature(given).parameters.values())
    except (TypeError, ValueError):
        return given
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    wants = any(p.name == "index" for p in parameters)
    if not wants and (not positional or all(p.default is not p.empty for p in positional)):
        return lambda index: given()
    if wants and not any(p.name == "index" for p in positional[:1]):
        return lambda index: given(index=index)
    return given
