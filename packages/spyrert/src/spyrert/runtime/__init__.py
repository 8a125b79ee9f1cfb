"""The runtime: devices, streams, tensors, kernels and reports in one object (runtime spec 2).

One module a layer, each built on the one before: :mod:`~spyrert.runtime.devices`, ``streams``, ``tensors``,
``kernels``, ``reports``.
"""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Callable

from spyrert.config import RuntimeConfig
from spyrert.device.protocol import Device
from spyrert.runtime.reports import Reports
from spyrert.runtime.tensors import CopyTicket


class Runtime(Reports):
    """A process's use of one or more devices.

    Args:
        device_factory: makes the device of an index; called at first use. A class whose constructor takes the
            index, or a function, or a class that takes nothing.
        config: explicit configuration; default: from the environment.
        devices: number of devices; default ``AIU_WORLD_SIZE`` or 1, of which ``SPYRE_DEVICES`` may name some.

    Starting nothing until it is needed; thread-safe; usable as a context manager, which shuts it down at the
    end.
    """

    def __init__(
        self,
        device_factory: Callable[..., Device] | None = None,
        config: RuntimeConfig | None = None,
        devices: int | None = None,
    ) -> None:
        super().__init__(device_factory, config, devices)
        atexit.register(_at_exit, weakref.ref(self))

    def shutdown(self) -> list[str]:
        """Drain, cancel what does not end in time, close the devices; returns the leak report."""
        with self._lock:
            if self._closed or os.getpid() != self._process:
                self._closed = True
                return []
            self._pools.clear()
            report = []
            for context in self._contexts.values():
                report += self.leak_report(context.index)
            self._closed = True
        for context in self._contexts.values():
            context.scheduler.close(self.config.shutdown_timeout)
            context.shutdown_arenas()
        return report

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()


def _at_exit(reference: weakref.ref[Runtime]) -> None:
    """At the end of the interpreter: drain what is pending, for a limited time."""
    runtime = reference()
    if runtime is not None:
        runtime.shutdown()


__all__ = ["CopyTicket", "Runtime"]
