"""Numbers of the device's address space (runtime spec 0.3). All sizes and offsets are bytes."""

from __future__ import annotations

from typing import Final

STICK_BYTES: Final = 128
"""Unit of alignment, of DMA and of SIMD access."""

DEVICE_ALIGNMENT: Final = 128
"""Allocation granule; every device address that a command names is a multiple of it."""

NUM_SEGMENTS: Final = 8
SEGMENT_SHIFT: Final = 34
SEGMENT_SIZE: Final = 1 << SEGMENT_SHIFT
"""Greatest length of one segment (16 GiB)."""

PROG_SEGMENT: Final = 7
"""Segment that holds the static block of a program: reserved words, correction area, images, spill."""

PROG_OFFSET_BASE: Final = PROG_SEGMENT << SEGMENT_SHIFT
DYN_SEGMENT: Final = 6
"""Segment of the scratch block that lives for one launch."""

DYN_OFFSET_BASE: Final = DYN_SEGMENT << SEGMENT_SHIFT
GUARD_SEGMENT: Final = 0
"""Never mapped in symbolic mode: address registers may underflow in front of a tensor."""

NUM_CORES: Final = 32
CORE_SPAN_LIMIT: Final = 256 << 20
"""Largest contiguous range of device memory that one core may address for one tensor."""

MAX_REGIONS: Final = 8
MAX_NAME_BYTES: Final = 255


def align_up(value: int, granule: int = DEVICE_ALIGNMENT) -> int:
    """Round ``value`` up to a multiple of ``granule``.

    >>> [align_up(n) for n in (0, 1, 127, 128, 129)]
    [0, 128, 128, 128, 256]
    """
    return -(-value // granule) * granule


def program_address(offset: int) -> int:
    """Virtual device address of byte ``offset`` of the static block (segment 7).

    >>> hex(program_address(128))
    '0x1c00000080'
    """
    return PROG_OFFSET_BASE + offset
