"""The state of device memory as text for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from spyrert.memory.allocator import FlexAllocator

UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
SHOWN: Final = 8
"""Tensors that are listed, the largest first."""


@attrs.frozen
class Resident:
    """One live tensor storage: what it is, and its bytes on the host and on the device."""

    what: str
    host_bytes: int
    device_bytes: int


def size(count: int) -> str:
    """A number of bytes with a binary unit.

    >>> size(0), size(1000), size(1536), size(5 << 30)
    ('0 B', '1000 B', '1.5 KiB', '5.0 GiB')
    """
    value, unit = float(count), 0
    while value >= 1024 and unit < len(UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{count} B" if unit == 0 else f"{value:.1f} {UNITS[unit]}"


def summary(allocator: FlexAllocator, device: int, residents: Iterable[Resident] = ()) -> str:
    """Totals, one line a region, and the largest tensors with what padding costs them."""
    stats = allocator.stats()
    lines = [
        f"device {device}: {size(stats['allocated_bytes.all.current'])} in "
        f"{stats['allocation.all.current']} allocations (peak {size(stats['allocated_bytes.all.peak'])}) "
        f"of {size(stats['reserved_bytes.all.current'])}",
        f"  {size(stats['deferred_bytes'])} freed, waiting for operations in flight; "
        f"{stats['num_ooms']} requests did not fit",
        "",
    ]
    table = [("region", "segment", "domain", "holds", "size", "used", "free", "largest block")]
    for region in sorted(allocator.regions, key=lambda r: r.segment):
        table.append(
            (
                str(region.region_id),
                str(region.segment),
                str(region.domain_id),
                region.memory_type.value,
                size(region.size),
                size(region.size - region.free),
                size(region.free),
                size(region.largest_free),
            )
        )
    lines += _aligned(table)
    largest = sorted(residents, key=lambda r: (-r.device_bytes, r.what))
    if largest:
        rows = [("tensor", "host", "device", "padding factor")]
        for one in largest[:SHOWN]:
            factor = f"{one.device_bytes / one.host_bytes:.1f}" if one.host_bytes else "-"
            rows.append((one.what, size(one.host_bytes), size(one.device_bytes), factor))
        lines += ["", *_aligned(rows)]
        if len(largest) > SHOWN:
            lines.append(f"... and {len(largest) - SHOWN} smaller tensors")
    return "\n".join(lines)


def _aligned(table: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[k]) for row in table) for k in range(len(table[0]))]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in table]
