"""Byte-addressed memories of a device: global, scratchpads of all cores, register files of a gang."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

import attrs
import numpy as np
import numpy.typing as npt

from spyresim.engine.footprint import Footprint
from spyresim.engine.values import Array, Scalar, spread, wrap64
from spyresim.errors import MemoryFault, OutOfRangeFault, Site, StaleReadFault, UnwrittenReadFault

STICK_BYTES = 128
FILL_BYTE = 0xCD


class GlobalMemory(Protocol):
    """Device memory as a program sees it; addresses are device virtual addresses in bytes."""

    def read(self, address: int, size: int) -> bytes:
        """Bytes of a range; raises a fault for an illegal range."""
        ...

    def write(self, address: int, data: bytes | memoryview) -> None:
        """Store bytes; raises a fault for an illegal range."""
        ...


class FlatGlobal:
    """Named arrays at fixed addresses; an access must lie inside one of them."""

    def __init__(self, blocks: Mapping[int, npt.NDArray[np.uint8]]) -> None:
        self._blocks = dict(sorted(blocks.items()))

    def _find(self, address: int, size: int, verb: str) -> tuple[npt.NDArray[np.uint8], int]:
        for base, block in self._blocks.items():
            if base <= address and address + size <= base + len(block):
                return block, address - base
        held = tuple((base, base + len(block)) for base, block in self._blocks.items())
        raise out_of_range(verb, "device memory", address, size, held, Site())

    def read(self, address: int, size: int) -> bytes:
        block, offset = self._find(address, size, "read")
        return block[offset : offset + size].tobytes()

    def write(self, address: int, data: bytes | memoryview) -> None:
        block, offset = self._find(address, len(data), "write")
        block[offset : offset + len(data)] = np.frombuffer(data, np.uint8)

    def block_of(self, first: int, last: int, size: int) -> tuple[npt.NDArray[np.uint8], int] | None:
        """The array (and its address) in which ranges of `size` bytes from `first` to `last` all lie."""
        for base, block in self._blocks.items():
            if base <= first and last + size <= base + len(block):
                return block, base
        return None


def out_of_range(
    verb: str, where: str, address: int, size: int, limits: tuple[tuple[int, int], ...], site: Site
) -> OutOfRangeFault:
    """The fault for an access outside the given byte ranges."""
    held = ", ".join(f"[{low:#x}, {high:#x})" for low, high in limits[:8])
    return OutOfRangeFault(
        f"{verb} of {size} bytes at {address:#x} of {where}, which has {held}",
        site=site,
        memory=where,
        address=address,
        size=size,
        limit=limits[-1][1] if limits else 0,
    )


@contextmanager
def at_site(site: Site) -> Iterator[None]:
    """A fault of device memory, which does not know who accesses it, is told."""
    try:
        yield
    except MemoryFault as fault:
        if fault.site != Site():
            raise
        raise attrs.evolve(fault, site=site) from fault


def load_global(
    memory: GlobalMemory, base: Scalar, rows: int, footprint: Footprint, *, observing: bool = False
) -> Array:
    """What a footprint holds from every row's base on: uint8 of shape (rows, bytes).

    `observing`: the simulator looks, not the program; a memory that counts has ``peek`` for that.
    """
    read = getattr(memory, "peek", memory.read) if observing else memory.read
    starts = spread(base, rows)
    out = np.empty((rows, footprint.size), np.uint8)
    for run in footprint.runs:
        part = slice(run.position, run.position + run.size)
        first, last = int(starts.min()) + run.offset, int(starts.max()) + run.offset
        held = memory.block_of(first, last, run.size) if isinstance(memory, FlatGlobal) else None
        if held is not None:
            block, address = held
            at = starts + (run.offset - address)
            out[:, part] = block[at[:, None] + np.arange(run.size)]
            continue
        for row, start in enumerate(starts.tolist()):
            out[row, part] = np.frombuffer(read(start + run.offset, run.size), np.uint8)
    return out


def store_global(memory: GlobalMemory, base: Scalar, footprint: Footprint, data: Array) -> None:
    """Store uint8 of shape (rows, bytes) from every row's base on; of equal addresses the last row wins."""
    starts = spread(base, len(data)).tolist()
    for run in footprint.runs:
        part = data[:, run.position : run.position + run.size]
        first, last = min(starts) + run.offset, max(starts) + run.offset
        held = memory.block_of(first, last, run.size) if isinstance(memory, FlatGlobal) else None
        for row, start in enumerate(starts):
            if held is None:
                memory.write(start + run.offset, part[row].tobytes())
            else:
                at = start + run.offset - held[1]
                held[0][at : at + run.size] = part[row]


class Scratchpads:
    """The scratchpads of one kind: one of `size` bytes for every core.

    `owner` tells for every stick which program of which launch wrote it last (0: nobody): reading a stick
    that nobody wrote, or that holds a temporary of another program, is a fault (readings 8 and 11).  A
    partial store to a stick of somebody else zero-fills its rest.  Pinned bytes are everybody's: what another
    program wrote there may be read, and stays when the rest of its stick is filled.
    """

    def __init__(self, name: str, cores: int, size: int) -> None:
        self.name = name
        self.size = size
        # never-written bytes need no fill value: reading one is a fault; zeros are mapped lazily
        self.data = np.zeros((cores, size), np.uint8)
        self.owner = np.zeros((cores, -(-size // STICK_BYTES)), np.int32)
        self._pinned: tuple[tuple[int, int], ...] = ()
        self._is_pinned = np.zeros(0, np.bool_)

    def pin(self, ranges: tuple[tuple[int, int], ...]) -> None:
        """From now on these byte ranges are pinned, and no others."""
        if ranges == self._pinned:
            return
        self._pinned = ranges
        self._is_pinned = np.zeros(self.size if ranges else 0, np.bool_)
        for low, high in ranges:
            self._is_pinned[low:high] = True

    def _check(
        self, cores: npt.NDArray[np.int64], base: Scalar, footprint: Footprint, verb: str, site: Site
    ) -> None:
        low, high = footprint.low, footprint.high
        if isinstance(base, int) and -low <= base <= self.size - high:
            return
        starts = spread(base, len(cores))
        bad = (starts < -low) | (starts > self.size - high)  # not `starts + high`, which may wrap
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            address = int(starts[row]) + low
            where = f"{self.name} of core {int(cores[row])}"
            raise out_of_range(verb, where, address, high - low, ((0, self.size),), site)

    def load(
        self,
        cores: npt.NDArray[np.int64],
        core_slice: slice | None,
        base: Scalar,
        footprint: Footprint,
        epoch: int,
        site: Site,
    ) -> Array:
        """What a footprint holds from every core's base on: uint8 of shape (cores, bytes).

        `core_slice` is the same as `cores`, where these follow one another.
        """
        self._check(cores, base, footprint, "read", site)
        if isinstance(base, int) and footprint.is_contiguous:
            start = base + footprint.low
            stop = start + footprint.size
            rows = cores if core_slice is None else core_slice
            owners = self.owner[rows, start // STICK_BYTES : -(-stop // STICK_BYTES)]
            if (owners == epoch).all():
                copied: Array = self.data[rows, start:stop].copy()
                return copied
        addresses = spread(base, len(cores))[:, None] + footprint.offsets
        owners = self.owner[cores[:, None], addresses // STICK_BYTES]
        bad = owners != epoch
        if self._pinned:
            bad &= (owners == 0) | ~self._is_pinned[addresses]
        if bad.any():
            self._refuse(cores, addresses, owners, bad, site)
        wide = spread(base, len(cores))[:, None] + footprint.bytes
        found: Array = self.data[cores[:, None], wide]
        return found

    def _refuse(
        self, cores: npt.NDArray[np.int64], addresses: Array, owners: Array, bad: Array, site: Site
    ) -> None:
        """Raise for the first bad byte."""
        row, column = (int(found[0]) for found in np.nonzero(bad))
        address, core, owner = int(addresses[row, column]), int(cores[row]), int(owners[row, column])
        where = f"{self.name} of core {core}"
        if owner == 0:
            raise UnwrittenReadFault(
                f"read of {where} at {address:#x}, which nobody has written",
                site=site,
                memory=where,
                address=address,
                size=1,
            )
        raise StaleReadFault(
            f"read of {where} at {address:#x}, which holds a temporary of another program",
            site=site,
            memory=where,
            address=address,
            size=1,
            owner=str(owner),
        )

    def store(
        self,
        cores: npt.NDArray[np.int64],
        core_slice: slice | None,
        base: Scalar,
        footprint: Footprint,
        data: Array,
        epoch: int,
        site: Site,
    ) -> None:
        """Store uint8 of shape (cores, bytes) from every core's base on."""
        self._check(cores, base, footprint, "write", site)
        if isinstance(base, int) and footprint.is_contiguous:
            start = base + footprint.low
            stop = start + footprint.size
            rows = cores if core_slice is None else core_slice
            first, behind = start // STICK_BYTES, -(-stop // STICK_BYTES)
            owners = self.owner[rows, first:behind]
            if (owners != epoch).any():
                self._claim(cores, range(first, behind), epoch)
            self.data[rows, start:stop] = data
            return
        wide = spread(base, len(cores))[:, None] + footprint.bytes
        sticks = wide // STICK_BYTES
        foreign = self.owner[cores[:, None], sticks] != epoch
        if foreign.any():
            for row in np.flatnonzero(foreign.any(axis=1)).tolist():
                touched = np.unique(sticks[row, foreign[row]]).tolist()
                self._claim(cores[row : row + 1], touched, epoch)
        self.data[cores[:, None], wide] = data

    def _claim(self, cores: npt.NDArray[np.int64], sticks: Iterable[int], epoch: int) -> None:
        """Sticks of somebody else (or nobody) become this program's, and zero but for pinned bytes."""
        for stick in sticks:
            foreign = cores[self.owner[cores, stick] != epoch]
            span = slice(stick * STICK_BYTES, (stick + 1) * STICK_BYTES)
            if self._is_pinned[span].any():
                rest = np.flatnonzero(~self._is_pinned[span]) + span.start
                self.data[foreign[:, None], rest] = 0
            else:
                self.data[foreign, span] = 0
            self.owner[foreign, stick] = epoch


def slice_of(numbers: npt.NDArray[np.int64]) -> slice | None:
    """Numbers that follow one another as a slice."""
    if len(numbers) and bool((np.diff(numbers) == 1).all()):
        return slice(int(numbers[0]), int(numbers[-1]) + 1)
    return None


class Registers:
    """The private register memory of every row of a gang: grows to what is used."""

    def __init__(self, rows: int, size: int, name: str) -> None:
        self.name = name
        self.data = np.full((rows, size), FILL_BYTE, np.uint8)
        self.written = np.zeros((rows, size), np.bool_)
        self._known: set[tuple[int, int]] = set()
        """Ranges that were found (or made) written on all rows: they stay so."""

    def take(self, rows: npt.NDArray[np.intp]) -> Registers:
        """The registers of some rows."""
        part = Registers(len(rows), self.data.shape[1], self.name)
        part.data, part.written = self.data[rows].copy(), self.written[rows].copy()
        return part

    def _check(self, base: Scalar, footprint: Footprint, verb: str, site: Site) -> None:
        if isinstance(base, int):
            first = last = wrap64(base)
        else:
            first, last = int(base.min()), int(base.max())
        low, high = first + footprint.low, last + footprint.high
        if low < 0 or high > self.data.shape[1]:
            address = low if low < 0 else high - 1
            held = ((0, self.data.shape[1]),)
            raise out_of_range(verb, self.name, address, footprint.step, held, site)

    def load(self, base: Scalar, footprint: Footprint, site: Site) -> Array:
        """What a footprint holds from every row's base on: uint8 of shape (rows, bytes)."""
        self._check(base, footprint, "read", site)
        rows: slice | Array = slice(None)
        where: slice | Array
        if isinstance(base, int) and footprint.is_contiguous:
            start = base + footprint.low
            where = slice(start, start + footprint.size)
            if (start, footprint.size) in self._known:
                copied: Array = self.data[:, where].copy()
                return copied
        else:
            rows = np.arange(len(self.data))[:, None]
            where = spread(base, len(self.data))[:, None] + footprint.bytes
        if not self.written[rows, where].all():
            address = int(spread(base, len(self.data)).min()) + footprint.low
            raise UnwrittenReadFault(
                f"read of {self.name} at {address:#x}, which nobody has written",
                site=site,
                memory=self.name,
                address=address,
                size=footprint.step,
            )
        found: Array = self.data[rows, where].copy()
        return found

    def store(self, base: Scalar, footprint: Footprint, data: Array, site: Site) -> None:
        """Store uint8 of shape (rows, bytes) from every row's base on."""
        self._check(base, footprint, "write", site)
        if isinstance(base, int) and footprint.is_contiguous:
            start = base + footprint.low
            where = slice(start, start + footprint.size)
            self.data[:, where] = data
            if (start, footprint.size) not in self._known:
                self.written[:, where] = True
                self._known.add((start, footprint.size))
            return
        rows = np.arange(len(self.data))[:, None]
        wide = spread(base, len(self.data))[:, None] + footprint.bytes
        self.data[rows, wide] = data
        self.written[rows, wide] = True
