"""What stands in front of a program's execution: its image and its correction tensor (runtime spec 5.4)."""

from __future__ import annotations

from spyrert.constants import PROG_OFFSET_BASE
from spyrert.device.memory import TranslatedMemory
from spyrert.device.protocol import ComputeCB
from spyrert.errors import ComputeFault, SpyreCodeImageError, StaleCorrection
from spyrert.spyrecode.correction import Correction
from spyrert.spyrecode.image import HEADER_BYTES, Image

MAX_CACHED_IMAGES = 256


class ImageCache:
    """Decoded images by their bytes (whose header holds the digest of the payload)."""

    def __init__(self) -> None:
        self._images: dict[bytes, tuple[Image, str]] = {}

    def load(self, block: ComputeCB, memory: TranslatedMemory) -> tuple[Image, str]:
        """The image at the entry of a launch, and the SHA-256 (hex) of its payload.

        Raises ``ComputeFault`` if magic, version, CRC or payload digest are wrong.
        """
        length = block.segments[7].length - block.entry_offset
        head = memory.read(PROG_OFFSET_BASE + block.entry_offset, min(HEADER_BYTES, length))
        size = int.from_bytes(head[16:24], "little") if len(head) == HEADER_BYTES else 0
        data = memory.read(PROG_OFFSET_BASE + block.entry_offset, min(size, length)) if size else head
        found = self._images.get(data)
        if found is None:
            try:
                found = (Image.decode(data), data[64:96].hex())
            except SpyreCodeImageError as error:
                raise ComputeFault(f"bad image at {block.entry_offset:#x}: {error.reason}") from None
            if len(self._images) >= MAX_CACHED_IMAGES:
                self._images.clear()
            self._images[data] = found
        return found

    def clear(self) -> None:
        self._images.clear()


def read_symbols(block: ComputeCB, image: Image, memory: TranslatedMemory) -> tuple[int, ...]:
    """Values of the correction tensor in slot order; ``()`` if the image takes none.

    Raises ``ComputeFault`` (damaged, of another plan, wrong number of entries) or ``StaleCorrection`` (of
    another launch).
    """
    if image.correction_offset is None:
        return ()
    data = memory.read(PROG_OFFSET_BASE + image.correction_offset, image.correction_size)
    try:
        correction = Correction.decode(data)
    except SpyreCodeImageError as error:
        raise ComputeFault(f"bad correction: {error.reason}") from None
    if len(correction.entries) != image.num_symbols:
        raise ComputeFault(
            f"correction has {len(correction.entries)} entries, the image {image.num_symbols} symbols"
        )
    if correction.plan_digest64 != block.plan_digest64:
        raise ComputeFault("the correction belongs to another plan")
    if correction.launch_seq != block.launch_seq:
        raise StaleCorrection(
            f"the correction is of launch {correction.launch_seq}, this is launch {block.launch_seq}"
        )
    slots = {entry.index: entry.value for entry in correction.entries}
    if sorted(slots) != list(range(image.num_symbols)):
        raise ComputeFault(f"correction slots {sorted(slots)} are not 0..{image.num_symbols - 1}")
    return tuple(slots[index] for index in range(image.num_symbols))
