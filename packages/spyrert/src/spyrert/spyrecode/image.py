"""The ``SPYREBIN`` container: a binary image that a device without the closed back end can run (runtime spec
1.6).

All integers are little-endian; the total size is a multiple of 128, zero padded. The header is the first 128
bytes, the payload follows at :data:`PAYLOAD_OFFSET`. What the payload means is told by its kind; the
container treats it as opaque bytes.
"""

from __future__ import annotations

import enum
import hashlib
import struct
import zlib
from collections.abc import Iterator
from typing import Final

import attrs

from spyrert.constants import DEVICE_ALIGNMENT, NUM_CORES, align_up
from spyrert.errors import SpyreCodeImageError

MAGIC: Final = b"SPYREBIN"
MAJOR: Final = 1
HEADER_BYTES: Final = 128
PAYLOAD_OFFSET: Final = 128
NO_CORRECTION: Final = 2**64 - 1

_HEADER = struct.Struct("<8sHHIQQQIIQQ32sII20xI")
assert _HEADER.size == HEADER_BYTES


class PayloadKind(enum.IntEnum):
    """Kinds of payload with a fixed meaning. ``0x80`` and above are private to compilers and devices."""

    KTIR_TEXT = 1
    DATAFLOW_TEXT = 2
    OP_LIST = 3
    DFBIN = 0x80


class ImageFlags(enum.IntFlag):
    """Flag bits of the header. ``F16_DLFLOAT`` is ours: 16-bit floats are DLFloat16, not IEEE half."""

    NONE = 0
    HAS_CORRECTION = 1
    USES_DYNAMIC = 2
    READ_ONLY_IO = 4
    F16_DLFLOAT = 8


class Abi(enum.IntEnum):
    """How tensor addresses reach the program."""

    BAKED = 1
    SYMBOLIC = 2


@attrs.frozen
class Image:
    """One executable image.

    Args:
        payload: opaque bytes.
        payload_kind: a :class:`PayloadKind` or any private number (``>= 0x80``).
        core_count: number of cores the program runs on (1..32).
        abi: :class:`Abi`; ``BAKED`` means fixed tensor addresses. Whether symbols are bound is told by
            ``correction_offset`` alone, so a baked program may still take scalars.
        correction_offset: byte offset of the correction area in segment 7, ``None`` if there is none.
        correction_size: bytes of the correction area.
        num_symbols: number of entries that the correction tensor must hold.
        uses_dynamic: the program uses the per-launch block in segment 6.
        read_only_io: the program never writes through its tensor segments.
        f16_format: ``"ieee"`` or ``"dlfloat"``: what a 16-bit float means to the program.
        minor: minor version of the container.

    >>> image = Image(b"[]", PayloadKind.OP_LIST)
    >>> Image.decode(image.encode()) == image, len(image.encode())
    (True, 256)
    """

    payload: bytes
    payload_kind: int
    core_count: int = 1
    abi: Abi = Abi.SYMBOLIC
    correction_offset: int | None = None
    correction_size: int = 0
    num_symbols: int = 0
    uses_dynamic: bool = False
    read_only_io: bool = False
    f16_format: str = "ieee"
    minor: int = 0

    @property
    def flags(self) -> ImageFlags:
        flags = ImageFlags.NONE
        if self.correction_offset is not None:
            flags |= ImageFlags.HAS_CORRECTION
        if self.uses_dynamic:
            flags |= ImageFlags.USES_DYNAMIC
        if self.read_only_io:
            flags |= ImageFlags.READ_ONLY_IO
        if self.f16_format == "dlfloat":
            flags |= ImageFlags.F16_DLFLOAT
        return flags

    @property
    def encoded_size(self) -> int:
        """Bytes of the container, header and padding included."""
        return align_up(PAYLOAD_OFFSET + len(self.payload))

    def encode(self) -> bytes:
        """The bytes of the container. Deterministic."""
        for problem in self.problems():
            raise SpyreCodeImageError(problem)
        head = _HEADER.pack(
            MAGIC,
            MAJOR,
            self.minor,
            int(self.flags),
            self.encoded_size,
            NO_CORRECTION if self.correction_offset is None else self.correction_offset,
            self.correction_size,
            self.num_symbols,
            self.payload_kind,
            PAYLOAD_OFFSET,
            len(self.payload),
            hashlib.sha256(self.payload).digest(),
            self.core_count,
            int(self.abi),
            0,
        )[:-4]
        head += struct.pack("<I", zlib.crc32(head))
        return (head + self.payload).ljust(self.encoded_size, b"\0")

    @classmethod
    def decode(cls, data: bytes | bytearray | memoryview, path: str = "") -> Image:
        """Read a container; ``data`` may go on behind it.

        Raises ``SpyreCodeImageError`` naming what is wrong: magic, version, CRC of the header, reserved
        bytes, sizes, or the payload's SHA-256.
        """

        def check(condition: bool, message: str) -> None:
            if not condition:
                raise SpyreCodeImageError(message, path=path)

        head = bytes(data[:HEADER_BYTES])
        check(
            len(head) == HEADER_BYTES, f"image has {len(head)} bytes, the header alone needs {HEADER_BYTES}"
        )
        (
            magic, major, minor, flags, image_size, correction_offset, correction_size, num_symbols,
            payload_kind, payload_offset, payload_size, digest, core_count, abi, crc,
        ) = _HEADER.unpack(head)  # fmt: skip
        check(magic == MAGIC, f"image magic is {magic!r}, not {MAGIC!r}")
        check(crc == zlib.crc32(head[:-4]), "image header CRC does not match")
        check(major == MAJOR, f"image major version {major} is not supported")
        check(not any(head[104:124]), "reserved bytes of the image header are not zero")
        check(flags < 16, f"unknown image flags {flags:#x}")
        check(image_size % DEVICE_ALIGNMENT == 0, f"image size {image_size} is not a multiple of 128")
        check(image_size <= len(data), f"image size {image_size} exceeds the {len(data)} bytes present")
        check(
            payload_offset >= HEADER_BYTES
            and payload_offset % DEVICE_ALIGNMENT == 0
            and payload_offset + payload_size <= image_size,
            f"payload {payload_offset}+{payload_size} does not lie in the image of {image_size} bytes",
        )
        check(abi in tuple(Abi), f"unknown image abi {abi}")
        payload = bytes(data[payload_offset : payload_offset + payload_size])
        check(hashlib.sha256(payload).digest() == digest, "payload digest does not match")
        has_correction = bool(flags & ImageFlags.HAS_CORRECTION)
        check(
            has_correction == (correction_offset != NO_CORRECTION),
            "correction flag and correction offset contradict each other",
        )
        image = cls(
            payload,
            payload_kind,
            core_count,
            Abi(abi),
            correction_offset if has_correction else None,
            correction_size,
            num_symbols,
            bool(flags & ImageFlags.USES_DYNAMIC),
            bool(flags & ImageFlags.READ_ONLY_IO),
            "dlfloat" if flags & ImageFlags.F16_DLFLOAT else "ieee",
            minor,
        )
        for problem in image.problems():
            raise SpyreCodeImageError(problem, path=path)
        return image

    def problems(self) -> Iterator[str]:
        """What makes the fields illegal, one text each."""
        if not 1 <= self.core_count <= NUM_CORES:
            yield f"core count {self.core_count} is not in 1..{NUM_CORES}"
        if not 0 < self.payload_kind < 1 << 32:
            yield f"payload kind {self.payload_kind} is not in 1..2**32-1"
        if self.f16_format not in ("ieee", "dlfloat"):
            yield f"f16 format {self.f16_format!r} is neither 'ieee' nor 'dlfloat'"
        if self.correction_offset is None:
            if self.correction_size or self.num_symbols:
                yield "an image without correction area has a correction size or symbols"
        elif self.correction_offset % DEVICE_ALIGNMENT or self.correction_size % DEVICE_ALIGNMENT:
            yield "correction offset and size must be multiples of 128"
        elif self.correction_size < required_correction_size(self.num_symbols):
            yield f"correction size {self.correction_size} is too small for {self.num_symbols} symbols"


def required_correction_size(count: int) -> int:
    """Bytes of a ``SPYCORR1`` tensor with ``count`` entries (runtime spec 1.7.4)."""
    return HEADER_BYTES + align_up(16 * count)


def is_spyrebin(data: bytes | bytearray | memoryview) -> bool:
    """Whether the bytes start with our magic; anything else is a *foreign* image."""
    return bytes(data[:8]) == MAGIC


def read_hex_image(text: str, path: str = "") -> bytes:
    """Read the older hex form of an image: one line = 256 digits = 128 bytes, last two digits first.

    ``#`` starts a comment line; blank lines are skipped; anything else is ``SpyreCodeImageError`` with the
    line.
    """
    out = bytearray()
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if len(line) != 256:
            raise SpyreCodeImageError(f"line {number} has {len(line)} hex digits, not 256", path=path)
        try:
            out += bytes.fromhex(line)[::-1]
        except ValueError:
            raise SpyreCodeImageError(f"line {number} is not hexadecimal", path=path) from None
    return bytes(out)
