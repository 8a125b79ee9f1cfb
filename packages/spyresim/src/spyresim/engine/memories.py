"""Byte-addressed memories of a device: global, scratchpads of all cores, register files of a gang."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt

from spyresim.engine.values import Array
from spyresim.errors import OutOfRangeFault, Site, StaleReadFault, UnwrittenReadFault

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


def contiguous(offsets: npt.NDArray[np.int64], step: int) -> bool:
    """Whether byte offsets of elements of `step` bytes follow one another."""
    return bool((np.diff(offsets) == step).all())


def load_global(
    memory: GlobalMemory, base: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64], step: int
) -> Array:
    """Elements of `step` bytes at ``base[row] + offsets[i]``: uint8 of shape (rows, n * step)."""
    runs = runs_of(offsets, step)
    out = np.empty((len(base), len(offsets) * step), np.uint8)
    for row, start in enumerate(base.tolist()):
        for at, offset, size in runs:
            out[row, at : at + size] = np.frombuffer(memory.read(start + offset, size), np.uint8)
    return out


def store_global(
    memory: GlobalMemory, base: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64], step: int, data: Array
) -> None:
    """Store uint8 of shape (rows, n * step) at ``base[row] + offsets[i]``."""
    runs = runs_of(offsets, step)
    for row, start in enumerate(base.tolist()):
        for at, offset, size in runs:
            memory.write(start + offset, data[row, at : at + size].tobytes())


def runs_of(offsets: npt.NDArray[np.int64], step: int) -> list[tuple[int, int, int]]:
    """Maximal contiguous runs as (position in the data, byte offset, bytes)."""
    breaks = np.flatnonzero(np.diff(offsets) != step) + 1
    starts = [0, *breaks.tolist()]
    ends = [*breaks.tolist(), len(offsets)]
    return [
        (start * step, int(offsets[start]), (end - start) * step)
        for start, end in zip(starts, ends, strict=True)
        if end > start
    ]


class Scratchpads:
    """The scratchpads of one kind: one of `size` bytes for every core.

    `owner` tells for every stick which program of which launch wrote it last (0: nobody): reading a stick
    that nobody wrote, or that holds a temporary of another program, is a fault (readings 8 and 11).  A
    partial store to a stick of somebody else zero-fills its rest.  `pinned` ranges are exempt from the
    second rule.
    """

    def __init__(self, name: str, cores: int, size: int, pinned: tuple[tuple[int, int], ...] = ()) -> None:
        self.name = name
        self.size = size
        # never-written bytes need no fill value: reading one is a fault; zeros are mapped lazily
        self.data = np.zeros((cores, size), np.uint8)
        self.owner = np.zeros((cores, -(-size // STICK_BYTES)), np.int32)
        self.pinned = pinned

    def _index(
        self,
        cores: npt.NDArray[np.int64],
        base: npt.NDArray[np.int64],
        offsets: Array,
        step: int,
        verb: str,
        site: Site,
    ) -> Array:
        low, high = int(offsets.min()), int(offsets.max()) + step
        bad = (base < -low) | (base > self.size - high)  # not `base + high`, which may wrap
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            address = int(base[row]) + low
            where = f"{self.name} of core {int(cores[row])}"
            raise out_of_range(verb, where, address, high - low, ((0, self.size),), site)
        addresses: Array = base[:, None] + offsets[None, :]
        return addresses

    def load(
        self,
        cores: npt.NDArray[np.int64],
        base: npt.NDArray[np.int64],
        offsets: npt.NDArray[np.int64],
        step: int,
        epoch: int,
        site: Site,
    ) -> Array:
        """Elements of `step` bytes at ``base[row] + offsets[i]`` of each core: uint8 (rows, n * step)."""
        addresses = self._index(cores, base, offsets, step, "read", site)
        sticks = addresses // STICK_BYTES
        owners = self.owner[cores[:, None], sticks]
        if (owners != epoch).any():
            self._refuse(cores, addresses, owners, epoch, site)
        if step == 1 or contiguous(offsets, step):
            wide = base[:, None] + int(offsets[0]) + np.arange(len(offsets) * step)
        else:
            wide = (addresses[:, :, None] + np.arange(step)).reshape(len(base), -1)
        found: Array = self.data[cores[:, None], wide]
        return found

    def _refuse(
        self, cores: npt.NDArray[np.int64], addresses: Array, owners: Array, epoch: int, site: Site
    ) -> None:
        for row, column in zip(*np.nonzero(owners != epoch), strict=True):
            address, core = int(addresses[row, column]), int(cores[row])
            where = f"{self.name} of core {core}"
            if owners[row, column] == 0:
                raise UnwrittenReadFault(
                    f"read of {where} at {address:#x}, which nobody has written",
                    site=site,
                    memory=where,
                    address=address,
                    size=1,
                )
            if not any(low <= address < high for low, high in self.pinned):
                raise StaleReadFault(
                    f"read of {where} at {address:#x}, which holds a temporary of another program",
                    site=site,
                    memory=where,
                    address=address,
                    size=1,
                    owner=str(int(owners[row, column])),
                )

    def store(
        self,
        cores: npt.NDArray[np.int64],
        base: npt.NDArray[np.int64],
        offsets: npt.NDArray[np.int64],
        step: int,
        data: Array,
        epoch: int,
        site: Site,
    ) -> None:
        """Store uint8 (rows, n * step) at ``base[row] + offsets[i]`` of each core."""
        addresses = self._index(cores, base, offsets, step, "write", site)
        self._claim(cores, addresses, step, epoch)
        if step == 1 or contiguous(offsets, step):
            wide = base[:, None] + int(offsets[0]) + np.arange(len(offsets) * step)
        else:
            wide = (addresses[:, :, None] + np.arange(step)).reshape(len(base), -1)
        self.data[cores[:, None], wide] = data

    def _claim(self, cores: npt.NDArray[np.int64], addresses: Array, step: int, epoch: int) -> None:
        first, last = addresses // STICK_BYTES, (addresses + step - 1) // STICK_BYTES
        for sticks in (first, last):
            owners = self.owner[cores[:, None], sticks]
            foreign = owners != epoch
            if foreign.any():
                rows, columns = np.nonzero(foreign)
                for core, stick in {
                    (int(cores[row]), int(sticks[row, column]))
                    for row, column in zip(rows, columns, strict=True)
                }:
                    start = stick * STICK_BYTES
                    self.data[core, start : start + STICK_BYTES] = 0
                    self.owner[core, stick] = epoch


class Registers:
    """The private register memory of every row of a gang: grows to what is used."""

    def __init__(self, rows: int, size: int, name: str) -> None:
        self.name = name
        self.data = np.full((rows, size), FILL_BYTE, np.uint8)
        self.written = np.zeros((rows, size), np.bool_)

    def take(self, rows: npt.NDArray[np.intp]) -> Registers:
        """The registers of some rows."""
        part = Registers(len(rows), self.data.shape[1], self.name)
        part.data, part.written = self.data[rows].copy(), self.written[rows].copy()
        return part

    def _wide(self, base: npt.NDArray[np.int64], offsets: Array, step: int, verb: str, site: Site) -> Array:
        wide: Array = (base[:, None, None] + offsets[None, :, None] + np.arange(step)).reshape(len(base), -1)
        if wide.size and (wide.min() < 0 or wide.max() >= self.data.shape[1]):
            address = int(wide.min()) if wide.min() < 0 else int(wide.max())
            raise out_of_range(verb, self.name, address, step, ((0, self.data.shape[1]),), site)
        return wide

    def load(
        self, base: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64], step: int, site: Site
    ) -> Array:
        """Elements of `step` bytes: uint8 (rows, n * step)."""
        wide = self._wide(base, offsets, step, "read", site)
        rows = np.arange(len(base))[:, None]
        if not self.written[rows, wide].all():
            raise UnwrittenReadFault(
                f"read of {self.name} at {int(wide.min()):#x}, which nobody has written",
                site=site,
                memory=self.name,
                address=int(wide.min()),
                size=step,
            )
        found: Array = self.data[rows, wide]
        return found

    def store(
        self, base: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64], step: int, data: Array, site: Site
    ) -> None:
        """Store uint8 (rows, n * step)."""
        wide = self._wide(base, offsets, step, "write", site)
        rows = np.arange(len(base))[:, None]
        self.data[rows, wide] = data
        self.written[rows, wide] = True
