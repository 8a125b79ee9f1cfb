"""Host functions and the buffers that carry their results to the device (runtime spec 3.15, 3.16)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final

from spyrert.errors import HostComputeError
from spyrert.spyrecode import (
    Correction,
    Entry,
    EntryKind,
    ForeignHcm,
    Hcm,
    HostInputs,
    entry_kind,
    symbol_values,
)

HostFunction = Callable[[HostInputs, Hcm | ForeignHcm, memoryview], None]
"""``fn(inputs, hcm, out)``: fill all of ``out``. Pure with respect to the runtime; may not enqueue work."""


def program_correction(inputs: HostInputs, hcm: Hcm | ForeignHcm, out: memoryview) -> None:
    """The predefined host function: evaluate the symbols and write a ``SPYCORR1`` tensor.

    Values that were evaluated at launch are taken from ``inputs.values``. Empty foreign metadata gives zeros.
    """
    if isinstance(hcm, ForeignHcm):
        out[:] = bytes(len(out))
        return
    values = inputs.values if inputs.values is not None else symbol_values(hcm, inputs)
    entries = [
        Entry(index, entry_kind(symbol.expr), value)
        for index, (symbol, value) in enumerate(zip(hcm.symbols, values, strict=True))
    ]
    entries += [Entry(slot, EntryKind.CONSTANT, value) for slot, value in hcm.constants]
    out[:] = Correction(inputs.launch_seq, inputs.plan_digest64, tuple(entries)).encode(len(out))


BUILTIN: Final[Mapping[str, HostFunction]] = {"program_correction": program_correction}


class Slot:
    """A correction buffer that is in use, from its host function until its transfer is over."""

    def __init__(self, arena: CorrectionArena, data: bytearray, pooled: bool) -> None:
        self._arena = arena
        self._pooled = pooled
        self._released = False
        self.data = data

    def discard(self) -> None:
        """Give the place back, but not the bytes."""
        self._pooled = False

    def release(self) -> None:
        """Give the buffer back; further calls do nothing."""
        if not self._released:
            self._released = True
            self._arena._return(self.data if self._pooled else None)


class CorrectionArena:
    """A ring of at most ``depth`` correction buffers of one stream that runs host functions.

    Buffers up to ``region_bytes`` are reused; larger ones are made for one launch. A host function whose
    buffer is not there is simply not ready; nobody blocks.
    """

    def __init__(self, depth: int, region_bytes: int) -> None:
        self.depth = depth
        self._region_bytes = region_bytes
        self._busy = 0
        self._free: list[bytearray] = []
        self._lock = threading.Lock()
        self._closed = False

    @property
    def busy(self) -> int:
        return self._busy

    def available(self) -> bool:
        """Whether :meth:`checkout` would succeed."""
        return self._busy < self.depth or self._closed

    def checkout(self, size: int) -> Slot:
        """Take a buffer of ``size`` bytes. Raises ``HostComputeError`` after :meth:`shutdown`."""
        with self._lock:
            if self._closed:
                raise HostComputeError("the correction arena was shut down")
            self._busy += 1
            pooled = size <= self._region_bytes
            data = self._free.pop() if pooled and self._free else bytearray()
        if len(data) != size:
            data = bytearray(size)
        else:
            data[:] = bytes(size)  # a function that writes nothing must not pass on the correction of another
        return Slot(self, data, pooled)

    def _return(self, data: bytearray | None) -> None:
        with self._lock:
            self._busy -= 1
            if data is not None:
                self._free.append(data)

    def shutdown(self) -> None:
        """Refuse further buffers."""
        with self._lock:
            self._closed = True
