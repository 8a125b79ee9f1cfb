"""Byte-addressed memories: filled with 0xCD, and per stick known who has written (readings 8 and 11).

A `Bank` is the same memory in several instances (the scratchpads of all cores, or device memory once).
`DeviceMemory` is a set of allocations, each a bank of one instance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from spyresim.errors import (
    ConflictFault,
    MisalignedFault,
    OutOfRangeFault,
    Site,
    StaleReadFault,
    UnwrittenReadFault,
)
from spyresim.meaning.formats import Array, stretch
from spyresim.sequential.access import IntArray, Nest, Pattern
from spyresim.sequential.order import OrderShadow
from spyresim.sequential.work import Meter

__all__ = ["FILL_BYTE", "HOST", "Access", "Bank", "DeviceMemory", "Memory"]

FILL_BYTE = 0xCD
NOBODY = 0
HOST = -1
"""Owner of what belongs to nobody in particular: uploads, and everything that a kernel's own views write."""
_FIRST_BYTES = 1 << 14


@attrs.frozen
class Access:
    """One access of a batch of tiles.

    `tiles` are flat tile numbers (one a row of the data), `rows` the memory instance of each, `starts` the
    byte address where the pattern has offset 0; all of the same length.  `site` makes the place of the
    access for a tile; `owner` says on whose behalf the tiles act. With `everyone`, the only entry stands for
    all these tiles, which do the same.
    """

    tiles: IntArray
    rows: IntArray
    starts: IntArray
    pattern: Pattern
    dtype: np.dtype[Any]
    site: Callable[[int | None], Site]
    owner: int = HOST
    everyone: IntArray | None = None

    @property
    def item(self) -> int:
        return self.dtype.itemsize

    @property
    def lows(self) -> IntArray:
        """First byte that each tile touches."""
        return self.starts + self.pattern.low * self.item

    @property
    def ends(self) -> IntArray:
        """First byte behind what each tile touches."""
        return self.starts + (self.pattern.high + 1) * self.item

    def of(self, positions: IntArray) -> Access:
        """The same access by some of the tiles."""
        return attrs.evolve(
            self, tiles=self.tiles[positions], rows=self.rows[positions], starts=self.starts[positions]
        )


def check_alignment(access: Access, memory: str) -> None:
    """Addresses must be multiples of the element size (ktir spec 4.3)."""
    crooked = access.starts % access.item != 0
    if crooked.any():
        position = int(np.argmax(crooked))
        address = int(access.starts[position])
        raise MisalignedFault(
            f"misaligned address {address:#x} for elements of {access.item} bytes",
            site=access.site(int(access.tiles[position])),
            memory=memory,
            address=address,
            size=access.item,
            alignment=access.item,
        )


class Memory:
    """Something that tiles can load from and store to."""

    label: str

    def load(self, access: Access) -> Array:
        """Data of shape (tiles, *extents)."""
        raise NotImplementedError

    def store(self, access: Access, data: Array) -> None:
        """Store data of shape (tiles, *extents); two tiles may not write different values to one place."""
        raise NotImplementedError


class Bank(Memory):
    """`instances` memories of `size` bytes each; the backing store grows to what is touched.

    Who has written is known for every `grain` bytes (a divisor of the stick): only that owner may read them.
    A `forgiving` bank lets everybody read what nobody has written.
    """

    def __init__(
        self,
        label: str,
        instances: int,
        size: int,
        stick: int = 128,
        numbered: bool = True,
        grain: int | None = None,
    ) -> None:
        self.label = label
        self.instances = instances
        self.size = size
        self.stick = stick
        self.grain = stick if grain is None else grain
        self.order: OrderShadow | None = None
        self.meter: Meter | None = None
        self.forgiving = False
        self.watched: int | None = None
        """A byte of the first instance whose last writer is noted in `writer`."""
        self.writer: Site | None = None
        self._numbered = numbered
        self._held = 0
        self._windows: dict[tuple[Nest, np.dtype[Any]], Array] = {}
        self._data: npt.NDArray[np.uint8] = np.empty((instances, 0), np.uint8)
        self._owner: npt.NDArray[np.int32] = np.empty((instances, 0), np.int32)
        self._grow(min(size, _FIRST_BYTES))

    def _grow(self, needed: int) -> None:
        held = max(self._held, 1)
        while held < needed:
            held *= 2
        held = -(-held // self.stick) * self.stick
        if held <= self._held:
            return
        data = np.full((self.instances, held), FILL_BYTE, np.uint8)
        owner = np.full((self.instances, held // self.grain), NOBODY, np.int32)
        data[:, : self._held] = self._data
        owner[:, : self._held // self.grain] = self._owner
        self._data, self._owner, self._held = data, owner, held
        self._windows.clear()

    @property
    def held(self) -> int:
        """Bytes of each instance that the backing store holds; a multiple of the stick."""
        return self._held

    def name(self, row: int) -> str:
        """The label of one instance."""
        return f"{self.label} of core {row}" if self._numbered else self.label

    # -- whole ranges, for the host

    def write_bytes(self, row: int, start: int, data: npt.NDArray[np.uint8], owner: int = HOST) -> None:
        """Store bytes; the sticks that they touch count as written (uploads are whole sticks)."""
        end = start + len(data)
        self._grow(end)
        first, last = start // self.stick, -(-end // self.stick)
        grains = self._owner[row].reshape(-1, self.stick // self.grain)
        fresh = first + np.flatnonzero((grains[first:last] == NOBODY).all(axis=1))
        self._data[row].reshape(-1, self.stick)[fresh] = 0
        self._data[row, start:end] = data
        grains[first:last] = owner

    def read_bytes(self, row: int, start: int, size: int) -> npt.NDArray[np.uint8]:
        """A copy of bytes, whoever has written them."""
        self._grow(start + size)
        return self._data[row, start : start + size].copy()

    # -- tiles

    def load(self, access: Access) -> Array:
        pattern = access.pattern
        if not pattern.size or not len(access.tiles):
            return np.empty((len(access.tiles), *pattern.extents), access.dtype)
        self._check(access, "read")
        blocks = self.blocks(access, self.grain)
        self._check_owners(access, blocks)
        sticks = blocks if self.grain == self.stick else self.blocks(access, self.stick)
        if self.order is not None:
            self.order.note(access, sticks, False)
        if self.meter is not None:
            self.meter(access, sticks, False)
        return self._gather(access)

    def store(self, access: Access, data: Array) -> None:
        pattern = access.pattern
        if not pattern.size or not len(access.tiles):
            return
        self._check(access, "write")
        sticks = self.blocks(access, self.stick)
        data = stretch(data, (len(access.tiles), *pattern.extents))
        if self.order is not None:
            self.order.note(access, sticks, True, data)
        if self.meter is not None:
            self.meter(access, sticks, True)
        self._claim(access, sticks)
        self._scatter(access, data)
        if self.watched is not None:
            self._note_writer(access, self.watched)
        if not isinstance(pattern, Nest) or self._overlapping(access):
            self._check_conflict(access, data)

    def _note_writer(self, access: Access, byte: int) -> None:
        places = self._element_places(access) * access.item
        hit = ((places <= byte) & (byte < places + access.item)).reshape(len(access.tiles), -1).any(axis=1)
        for position in np.flatnonzero(hit).tolist():
            self.writer = access.site(int(access.tiles[position]))

    def _overlapping(self, access: Access) -> bool:
        """Whether the byte ranges of two tiles meet."""
        if len(access.tiles) == 1:
            return False
        lows = self._flat_starts(access) + access.pattern.low * access.item
        order = np.argsort(lows, kind="stable")
        lows, size = lows[order], (access.pattern.high + 1 - access.pattern.low) * access.item
        return bool((lows[1:] < lows[:-1] + size).any())

    def _check(self, access: Access, verb: str) -> None:
        lows, ends = access.lows, access.ends
        bad = (lows < 0) | (ends > self.size) | (access.rows < 0) | (access.rows >= self.instances)
        if bad.any():
            position = int(np.argmax(bad))
            tile, row = int(access.tiles[position]), int(access.rows[position])
            low, size = int(lows[position]), int(ends[position] - lows[position])
            if not 0 <= row < self.instances:
                message = f"core_id={row} is out of range [0, {self.instances}) for this grid"
                raise OutOfRangeFault(message, site=access.site(tile), memory=self.label, size=size)
            raise OutOfRangeFault(
                f"{verb} of bytes [{low:#x}, {low + size:#x}) of {self.name(row)}, which has "
                f"{self.size:#x} bytes",
                site=access.site(tile),
                memory=self.name(row),
                address=low,
                size=size,
                limit=self.size,
            )
        check_alignment(access, self.label)
        self._grow(int(ends.max()))

    def _flat_starts(self, access: Access) -> IntArray:
        return np.asarray(access.rows * self._held + access.starts)

    def _window(self, access: Access, pattern: Nest) -> tuple[Array, IntArray]:
        """The flat memory seen through the nest from every element, and each tile's place in that."""
        found = self._windows.get((pattern, access.dtype))
        if found is None:
            flat = self._data.reshape(-1).view(access.dtype)
            steps = (access.item, *(s * access.item for s in pattern.strides))
            found = np.lib.stride_tricks.as_strided(flat, (flat.size, *pattern.extents), steps)
            self._windows[pattern, access.dtype] = found
        return found, self._flat_starts(access) // access.item + pattern.start

    def _gather(self, access: Access) -> Array:
        if isinstance(access.pattern, Nest):
            window, places = self._window(access, access.pattern)
            if len(places) == 1:
                return np.array(window[int(places[0])][None])
            return np.asarray(window[places])
        flat = self._data.reshape(-1).view(access.dtype)
        return np.asarray(flat[self._element_places(access)])

    def _scatter(self, access: Access, data: Array) -> None:
        if isinstance(access.pattern, Nest):
            window, places = self._window(access, access.pattern)
            window[places] = data
        else:
            flat = self._data.reshape(-1).view(access.dtype)
            flat[self._element_places(access)] = data

    def _element_places(self, access: Access) -> IntArray:
        places = self._flat_starts(access) // access.item
        offsets = access.pattern.offsets()
        return places.reshape(-1, *([1] * offsets.ndim)) + offsets

    def blocks(self, access: Access, block: int) -> IntArray:
        """Flat numbers of all blocks of bytes that are touched (some more than once); (tiles, k)."""
        touched = self._flat_starts(access)[:, None] + access.pattern.touched(access.item, block)
        return np.asarray(touched // block)

    def _check_owners(self, access: Access, blocks: IntArray) -> None:
        owners = self._owner.reshape(-1)[blocks]
        bad = owners != access.owner
        if self.forgiving:
            bad &= owners != NOBODY
        if not bad.any():
            return
        position, column = (int(v) for v in np.argwhere(bad)[0])
        row = int(access.rows[position])
        address = int(blocks[position, column]) * self.grain - row * self._held
        owner = int(owners[position, column])
        site = access.site(int(access.tiles[position]))
        where = f"read of {self.name(row)} at {address:#x}"
        if owner == NOBODY:
            raise UnwrittenReadFault(
                f"{where}, which nobody has written",
                site=site,
                memory=self.name(row),
                address=address,
                size=self.grain,
            )
        raise StaleReadFault(
            f"{where}, which holds {_owned(owner)}, for {_owned(access.owner)}",
            site=site,
            memory=self.name(row),
            address=address,
            size=self.grain,
            owner=str(owner),
        )

    def _claim(self, access: Access, sticks: IntArray) -> None:
        """Mark as written; what a partial store leaves of a never-written stick becomes zero."""
        grains = self._owner.reshape(-1, self.stick // self.grain)
        fresh = sticks[(grains[sticks] == NOBODY).all(axis=-1)]
        if fresh.size:
            self._data.reshape(-1, self.stick)[fresh] = 0
            grains[fresh] = access.owner
        if self.grain == self.stick:
            grains[sticks] = access.owner
        else:
            self._owner.reshape(-1)[self.blocks(access, self.grain)] = access.owner

    def changed_blocks(self, access: Access, data: Array, block: int) -> IntArray:
        """Flat numbers of the blocks of bytes that storing `data` changes, ascending."""
        word = np.dtype(f"u{access.item}")
        found = np.ascontiguousarray(self._gather(access)).view(word)
        changed = found != np.ascontiguousarray(data).view(word)
        first = np.broadcast_to(self._element_places(access), changed.shape)[changed] * access.item
        steps = np.arange(0, access.item, min(block, access.item))
        return np.unique((first[:, None] + steps) // block)

    def _check_conflict(self, access: Access, data: Array) -> None:
        """Read back: an element that differs was overwritten by another tile of the same operation."""
        word = np.dtype(f"u{access.item}")
        wanted = np.ascontiguousarray(data).view(word)
        found = np.ascontiguousarray(self._gather(access)).view(word)
        if np.array_equal(found, wanted):
            return
        places = np.broadcast_to(self._element_places(access), wanted.shape)
        last: dict[int, tuple[int, int]] = {}
        for position, tile in enumerate(access.tiles.tolist()):
            values = zip(places[position].ravel().tolist(), wanted[position].ravel().tolist(), strict=True)
            for place, value in values:
                before = last.get(place)
                if before is not None and before[0] != tile and before[1] != value:
                    raise self._conflict(access, before[0], tile, place)
                last[place] = (tile, value)

    def _conflict(self, access: Access, first: int, second: int, place: int) -> ConflictFault:
        row, address = divmod(place * access.item, self._held)
        return ConflictFault(
            f"tiles {first} and {second} write different values to {self.name(row)} at {address:#x} "
            "in the same operation",
            site=access.site(second),
            memory=self.name(row),
            address=address,
            size=access.item,
            first=access.site(first),
            second=access.site(second),
        )


def _owned(owner: int) -> str:
    return "data of a view" if owner == HOST else f"a temporary of program call {owner}"


@attrs.frozen(eq=False)
class Allocation:
    """A named range of device memory."""

    name: str
    base: int
    bank: Bank

    @property
    def end(self) -> int:
        return self.base + self.bank.size


class DeviceMemory(Memory):
    """Allocations at fixed byte addresses; an access must lie inside one of them."""

    def __init__(self, label: str = "device memory", stick: int = 128) -> None:
        self.label = label
        self.stick = stick
        self._allocations: list[Allocation] = []

    def allocate(self, name: str, base: int, size: int) -> Bank:
        """Room for `size` bytes at `base`; the bank behind it.  Ranges must not overlap (ValueError)."""
        bank = Bank(name, 1, size, self.stick, numbered=False)
        self.attach(name, base, bank)
        return bank

    def attach(self, name: str, base: int, bank: Bank) -> None:
        """Put existing memory at `base`. The same memory may be there under several names."""
        if any(a.bank is bank for a in self._allocations):
            return
        for other in self._allocations:
            if base < other.end and other.base < base + bank.size:
                raise ValueError(f"'{name}' at {base:#x} overlaps '{other.name}' at {other.base:#x}")
        self._allocations.append(Allocation(name, base, bank))
        self._allocations.sort(key=lambda a: a.base)

    @property
    def banks(self) -> tuple[Bank, ...]:
        """What is behind the allocations, by ascending address."""
        return tuple(a.bank for a in self._allocations)

    def only(self, base: int) -> DeviceMemory:
        """Nothing but the allocation that begins at `base` (bytes): accesses elsewhere are faults."""
        part = DeviceMemory(self.label, self.stick)
        part._allocations = [a for a in self._allocations if a.base == base]
        return part

    def allocation(self, name: str) -> Allocation:
        """The allocation of a name; KeyError if there is none."""
        for found in self._allocations:
            if found.name == name:
                return found
        raise KeyError(name)

    def load(self, access: Access) -> Array:
        if not access.pattern.size:
            return np.empty((len(access.tiles), *access.pattern.extents), access.dtype)
        homes = self._homes(access, "read")
        if homes is not None:
            return homes.bank.load(self._inside(access, homes))
        out = np.empty((len(access.tiles), *access.pattern.extents), access.dtype)
        for home, positions in self._groups(access, "read"):
            out[positions] = home.bank.load(self._inside(access.of(positions), home))
        return out

    def store(self, access: Access, data: Array) -> None:
        if not access.pattern.size:
            return
        homes = self._homes(access, "write")
        if homes is not None:
            homes.bank.store(self._inside(access, homes), data)
            return
        data = stretch(data, (len(access.tiles), *access.pattern.extents))
        for home, positions in self._groups(access, "write"):
            home.bank.store(self._inside(access.of(positions), home), data[positions])

    def _inside(self, access: Access, home: Allocation) -> Access:
        return attrs.evolve(access, starts=access.starts - home.base, rows=np.zeros_like(access.rows))

    def _homes(self, access: Access, verb: str) -> Allocation | None:
        """The allocation that holds the whole access; None if there are several."""
        numbers = self._numbers(access, verb)
        return self._allocations[int(numbers[0])] if (numbers == numbers[0]).all() else None

    def _groups(self, access: Access, verb: str) -> list[tuple[Allocation, IntArray]]:
        numbers = self._numbers(access, verb)
        return [(self._allocations[n], np.flatnonzero(numbers == n)) for n in np.unique(numbers).tolist()]

    def _numbers(self, access: Access, verb: str) -> IntArray:
        check_alignment(access, self.label)
        bases = np.array([a.base for a in self._allocations], np.int64)
        limits = np.array([a.end for a in self._allocations], np.int64)
        lows, ends = access.lows, access.ends
        numbers = np.searchsorted(bases, lows, "right") - 1
        bad = numbers < 0
        if len(bases):
            bad |= ends > limits[np.maximum(numbers, 0)]
        if bad.any():
            position = int(np.argmax(bad))
            low, end = int(lows[position]), int(ends[position])
            where = self._nearest(low)
            raise OutOfRangeFault(
                f"{verb} of bytes [{low:#x}, {end:#x}) of {self.label}, {where}",
                site=access.site(int(access.tiles[position])),
                memory=self.label,
                address=low,
                size=end - low,
            )
        return numbers.astype(np.int64)

    def _nearest(self, address: int) -> str:
        for a in reversed(self._allocations):
            if a.base <= address or len(self._allocations) == 1:
                return f"which leaves '{a.name}' at [{a.base:#x}, {a.end:#x})"
        return "where nothing is allocated"
