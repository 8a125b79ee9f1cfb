"""What a runtime tells: memory, counters, error records, operation logs, profiles (runtime spec 3.23)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from spyrert.dtypes import numpy_dtype
from spyrert.execution import Operation
from spyrert.memory import MemoryEvent
from spyrert.memory.summary import Resident, summary
from spyrert.profiling import MemorySample, Profile
from spyrert.runtime.kernels import Kernels


class Reports(Kernels):
    """Kernels, and everything that can be asked about what happened."""

    def memory_stats(self, device: int | None = None) -> dict[str, Any]:
        return self._context(device).allocator.stats()

    def memory_allocated(self, device: int | None = None) -> int:
        return int(self.memory_stats(device)["allocated_bytes.all.current"])

    def max_memory_allocated(self, device: int | None = None) -> int:
        return int(self.memory_stats(device)["allocated_bytes.all.peak"])

    def memory_reserved(self, device: int | None = None) -> int:
        return int(self.memory_stats(device)["reserved_bytes.all.current"])

    def reset_peak_memory_stats(self, device: int | None = None) -> None:
        self._context(device).allocator.reset_peak()

    def reset_accumulated_memory_stats(self, device: int | None = None) -> None:
        self._context(device).allocator.reset_accumulated()

    def empty_cache(self, device: int | None = None) -> int:
        """Wait for memory in flight; returns the bytes that came back."""
        context = self._context(device)
        before = int(context.allocator.stats()["deferred_bytes"])
        if before:
            context.scheduler.wait_for(context.scheduler.idle, None, "memory in flight")
        return before - int(context.allocator.stats()["deferred_bytes"])

    def leak_report(self, device: int | None = None) -> list[str]:
        """One line per live allocation, empty if there is none."""
        context = self._context(device)
        return [
            f"{address.total_size} bytes at {context.allocator.addresses(address)[0]:#x}"
            for address in context.allocator.live()
        ]

    def memory_summary(self, device: int | None = None) -> str:
        """The state of device memory for people: totals, regions, the largest tensors and their padding."""
        context = self._context(device)
        live = {address.token for address in context.allocator.live()}
        residents = [
            Resident(
                f"{storage.dtype}{list(storage.shape)}",
                math.prod(storage.shape) * numpy_dtype(storage.dtype).itemsize,
                storage.nbytes,
            )
            for token, storage in sorted(context.storages.items())
            if token in live
        ]
        return summary(context.allocator, context.index, residents)

    def metrics(self, device: int | None = None) -> dict[str, int]:
        """Counters of the device, and of the runtime: ``launches``, ``refused_launches``, ``image_transfers``
        (images that were loaded by ``prepare_kernel``), ``spurious_completions``."""
        context = self._context(device)
        return context.device.counters() | {
            "launches": context.launches,
            "refused_launches": self.refused_launches,
            "image_transfers": context.image_transfers,
            "spurious_completions": context.scheduler.spurious_completions,
        }

    def error_log(self, device: int | None = None) -> list[dict[str, object]]:
        """Records of asynchronous failures, oldest first."""
        return list(self._context(device).scheduler.error_log)

    @contextmanager
    def op_log(self, device: int | None = None) -> Iterator[list[Operation]]:
        """Collect the operations that end inside of the block, in order of completion."""
        scheduler = self._context(device).scheduler
        log: list[Operation] = []
        scheduler.observers.append(log.append)
        try:
            yield log
        finally:
            scheduler.observers.remove(log.append)

    @contextmanager
    def profile(self, device: int | None = None) -> Iterator[Profile]:
        """Collect spans of the operations that end inside of the block; ``profile.write(path)`` gives a
        trace."""
        context = self._context(device)
        profile = Profile()

        def observe(operation: Operation) -> None:
            profile.add(operation, context.index)

        def sample(event: MemoryEvent) -> None:
            now = context.scheduler.now()
            profile.memory.append(MemorySample(context.index, now, event.allocated_bytes))

        context.scheduler.observers.append(observe)
        context.memory_observers.append(sample)
        try:
            yield profile
        finally:
            context.scheduler.observers.remove(observe)
            context.memory_observers.remove(sample)
