"""Which numbers of a device make sense: at least what means something, at most what can be computed with.

The verifier of `ktdf_arch` refuses what the language refuses (zero bandwidths, negative sizes). These rules
hold for our own attributes and for devices made in Python, too. The upper bounds are those of the image
format, of tables with an entry a lane, and of clocks in 64 bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Final

from dfsched.architecture.description import Description
from dfsched.architecture.features import Features, Transfer
from dfsched.architecture.kinds import Kind, kind_text
from dfsched.architecture.resources import Datapath, Memory, Resource, Switch

__all__ = ["description_findings", "resource_findings"]

MAX_CORES: Final = 1 << 16
MAX_LANES: Final = 1 << 16
MAX_BYTES: Final = 1 << 48
MAX_STICK_BYTES: Final = 1 << 20
MAX_CLOCK_HZ: Final = 10**15
MAX_COUNT: Final = (1 << 31) - 1
"""Cycles of a latency, words, entries, bytes of a beat, numerators and denominators of a bandwidth."""


def description_findings(device: Description) -> Iterator[str]:
    """What is wrong with the numbers of the device itself, and with its memory spaces."""
    timing = device.timing
    yield from _within("number of cores ('ktdf_ext.num_cores')", device.cores, 1, MAX_CORES)
    yield from _within("stick ('ktdf_ext.stick_bytes')", device.stick_bytes, 1, MAX_STICK_BYTES)
    yield from _within("core span ('ktdf_ext.core_span_bytes')", device.core_span_bytes, 1, MAX_BYTES)
    yield from _within("clock ('ktdf_ext.clock_hz')", timing.clock_hz, 1, MAX_CLOCK_HZ)
    for name in ("sync_latency", "fifo_latency", "memory_latency"):
        yield from _within(f"latency 'ktdf_ext.{name}'", getattr(timing, name), 0, MAX_COUNT)
    known = dict.fromkeys(memory.kind for memory in device.memories)
    for space, kind in device.mem_space_mapping:
        if isinstance(kind, str) and kind not in known:
            memories = ", ".join(f"'{kind_text(k)}'" for k in known) or "none"
            yield (
                f"'mem_space_mapping' says that {kind_text(space)} is '{kind}', "
                f"but the device has no memory of that kind; memories: {memories}"
            )


def resource_findings(resource: Resource) -> Iterator[str]:
    """What is wrong with the numbers of one part of a device."""
    match resource:
        case Memory():
            yield from _within("size", resource.size, 1, MAX_BYTES)
            most = MAX_BYTES if resource.size is None else resource.size
            yield from _within("reserved part ('ktdf_ext.reserved')", resource.reserved, 0, most)
            yield from _within("latency ('ktdf_ext.latency')", resource.latency, 0, MAX_COUNT)
            yield from _rate(resource.bandwidth)
        case Datapath():
            for size in resource.granularity or ():
                yield from _within("transfer granularity", size, 0, MAX_COUNT)
            yield from _rate(resource.bandwidth)
        case Switch():
            yield from _within("number of ports", resource.ports, 1, MAX_COUNT)
        case _:
            pass
    yield from _features(resource.features)


def _features(features: Features) -> Iterator[str]:
    for name, transfer in (("load", features.load), ("store", features.store)):
        if transfer is not None:
            yield from _transfer(name, transfer)
    if features.simd is not None:
        for element, lanes in features.simd.lanes:
            yield from _within(f"number of lanes for {element}", lanes, 1, MAX_LANES)
    if features.queue is not None:
        yield from _within("queue 'size'", features.queue.size, 1, MAX_BYTES)
        yield from _within("queue 'depth'", features.queue.depth, 1, MAX_COUNT)
    if features.address_buffer is not None:
        yield from _within("'num_entries'", features.address_buffer.num_entries, 1, MAX_COUNT)
    if features.register_file is not None:
        yield from _within("register 'word_size'", features.register_file.word_size, 1, MAX_COUNT)


def _transfer(name: str, transfer: Transfer) -> Iterator[str]:
    for kind, size in transfer.word_sizes:
        yield from _within(f"{name} 'word_size' for {_quoted(kind)}", size, 1, MAX_COUNT)
    for kind, accesses in transfer.accesses:
        for access in accesses:
            for field in ("size_in_words", "align_in_words"):
                yield from _within(
                    f"{name} '{field}' for {_quoted(kind)}", getattr(access, field), 1, MAX_COUNT
                )


def _quoted(kind: Kind) -> str:
    return f"'{kind_text(kind)}'"


def _rate(bandwidth: Fraction | None) -> Iterator[str]:
    if bandwidth is None:
        return
    if bandwidth <= 0:
        yield f"bandwidth must be positive, but is {bandwidth}"
    elif _above((bandwidth.numerator, bandwidth.denominator)):
        yield f"numerator and denominator of bandwidth {bandwidth} must be at most {MAX_COUNT}"


def _above(parts: Iterable[int]) -> bool:
    return any(part > MAX_COUNT for part in parts)


def _within(what: str, value: int | None, least: int, most: int) -> Iterator[str]:
    if value is not None and not least <= value <= most:
        yield f"{what} must be in {least}..{most}, but is {value}"
