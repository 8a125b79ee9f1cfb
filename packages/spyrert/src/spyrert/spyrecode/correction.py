"""The correction tensor ``SPYCORR1``: symbol values on their way to the device (runtime spec 1.7.4)."""

from __future__ import annotations

import enum
import struct
import zlib
from typing import Final

import attrs

from spyrert.errors import SpyreCodeImageError
from spyrert.spyrecode.image import required_correction_size

MAGIC: Final = b"SPYCORR1"
_HEADER = struct.Struct("<8sIIQ8s96x")
_ENTRY = struct.Struct("<IIq")


class EntryKind(enum.IntEnum):
    """What a value is; informative, a device patches every kind alike."""

    ADDRESS = 0
    DIMENSION = 1
    STRIDE = 2
    CONSTANT = 3
    OTHER = 4


@attrs.frozen
class Entry:
    """One patched value. ``index`` is the position in ``hcm.symbols``, which is also the image's slot."""

    index: int
    kind: EntryKind
    value: int


@attrs.frozen
class Correction:
    """A decoded correction tensor.

    Args:
        launch_seq: number of the launch; equals the one in the compute control block.
        plan_digest64: first 8 bytes of the artefact's digest.
        entries: the values, any order.

    >>> tensor = Correction(7, bytes(8), (Entry(0, EntryKind.ADDRESS, 1 << 34),))
    >>> data = tensor.encode(256)
    >>> Correction.decode(data) == tensor
    True
    """

    launch_seq: int
    plan_digest64: bytes
    entries: tuple[Entry, ...] = ()

    def encode(self, size: int | None = None) -> bytes:
        """The tensor's bytes, zero padded to ``size`` (default: the least that is legal).

        Raises ``SpyreCodeImageError`` if ``size`` is too small, or a value is no signed 64-bit number.
        """
        needed = required_correction_size(len(self.entries))
        size = needed if size is None else size
        if size < needed:
            raise SpyreCodeImageError(
                f"a correction tensor of {len(self.entries)} entries needs {needed} bytes, not {size}"
            )
        try:
            body = b"".join(_ENTRY.pack(e.index, e.kind, e.value) for e in self.entries)
            head = _HEADER.pack(MAGIC, len(self.entries), 0, self.launch_seq, self.plan_digest64)
        except struct.error as error:
            raise SpyreCodeImageError(f"correction entry does not fit: {error}") from None
        crc = zlib.crc32(head[16:] + body)
        return (head[:12] + struct.pack("<I", crc) + head[16:] + body).ljust(size, b"\0")

    @classmethod
    def decode(cls, data: bytes | bytearray | memoryview) -> Correction:
        """Read a tensor; raises ``SpyreCodeImageError`` on bad magic, count, kind or CRC."""
        data = bytes(data)
        if len(data) < _HEADER.size:
            raise SpyreCodeImageError(f"correction tensor has {len(data)} bytes, fewer than its header")
        magic, count, crc, launch_seq, digest = _HEADER.unpack_from(data)
        if magic != MAGIC:
            raise SpyreCodeImageError(f"correction magic is {magic!r}, not {MAGIC!r}")
        end = _HEADER.size + _ENTRY.size * count
        if end > len(data):
            raise SpyreCodeImageError(f"correction tensor of {len(data)} bytes cannot hold {count} entries")
        if crc != zlib.crc32(data[16:end]):
            raise SpyreCodeImageError("correction CRC does not match")
        entries = []
        for position in range(count):
            index, kind, value = _ENTRY.unpack_from(data, _HEADER.size + _ENTRY.size * position)
            if kind not in tuple(EntryKind):
                raise SpyreCodeImageError(f"correction entry {position} has unknown kind {kind}")
            entries.append(Entry(index, EntryKind(kind), value))
        return cls(launch_seq, digest, tuple(entries))
