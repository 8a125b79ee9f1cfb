"""Byte-addressed memories: filled with 0xCD, and per stick known who has written (readings 8 and 11).

A `Bank` is the same memory in several instances (the scratchpads of all cores, or device memory once).
`DeviceMemory` is a set of allocations, each a bank of one instance.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
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
_FEW = 64
"""Up to so many numbers Python is faster than NumPy."""


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
    def span(self) -> tuple[int, int]:
        """From the first byte that a tile touches to behind the last."""
        low, high = _extremes(self.starts)
        return low + self.pattern.low * self.item, high + (self.pattern.high + 1) * self.item

    @property
    def crooked(self) -> bool:
        """Whether a start is no multiple of the element size."""
        item = self.item
        if len(self.starts) > _FEW:
            return bool(np.count_nonzero(self.starts % item))
        return item > 1 and any(start % item for start in self.starts.tolist())

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
        if needed <= self._held:
            return
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
        self._flat_data, self._flat_owner = data.reshape(-1), owner.reshape(-1)
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
        places = self._flat_starts(access)
        if not self._owned(access, places):
            self._check_owners(access, _blocks(access, places, self.grain))
        if self.order is not None or self.meter is not None:
            sticks = _blocks(access, places, self.stick)
            if self.order is not None:
                self.order.note(access, sticks, False)
            if self.meter is not None:
                self.meter(access, sticks, False)
        return self._gather(access, places)

    def store(self, access: Access, data: Array) -> None:
        pattern = access.pattern
        if not pattern.size or not len(access.tiles):
            return
        self._check(access, "write")
        places = self._flat_starts(access)
        data = stretch(data, (len(access.tiles), *pattern.extents))
        if self.order is not None or self.meter is not None:
            sticks = _blocks(access, places, self.stick)
            if self.order is not None:
                self.order.note(access, sticks, True, data)
            if self.meter is not None:
                self.meter(access, sticks, True)
        self._claim(access, places)
        self._scatter(access, places, data)
        if self.watched is not None:
            self._note_writer(access, self.watched)
        if not isinstance(pattern, Nest) or _overlapping(access, places):
            self._check_conflict(access, data)

    def _note_writer(self, access: Access, byte: int) -> None:
        places = _element_places(access, self._flat_starts(access)) * access.item
        hit = ((places <= byte) & (byte < places + access.item)).reshape(len(access.tiles), -1).any(axis=1)
        for position in np.flatnonzero(hit).tolist():
            self.writer = access.site(int(access.tiles[position]))

    def _check(self, access: Access, verb: str) -> None:
        """The access must lie in the memory, at multiples of its elements' size."""
        first, last = access.span
        if first < 0 or last > self.size or not self._has_rows(access.rows):
            self._refuse(access, verb)
        if access.crooked:
            check_alignment(access, self.label)
        self._grow(last)

    def _has_rows(self, rows: IntArray) -> bool:
        low, high = _extremes(rows)
        return low >= 0 and high < self.instances

    def _refuse(self, access: Access, verb: str) -> None:
        lows, ends = access.lows, access.ends
        bad = (lows < 0) | (ends > self.size) | (access.rows < 0) | (access.rows >= self.instances)
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

    def _flat_starts(self, access: Access) -> IntArray:
        """The byte of all instances together at which each tile starts."""
        if self.instances == 1:
            return access.starts
        return np.asarray(access.rows * self._held + access.starts)

    def _window(self, access: Access, pattern: Nest) -> Array:
        """The flat memory seen through the nest from every element."""
        found = self._windows.get((pattern, access.dtype))
        if found is None:
            flat = self._flat_data.view(access.dtype)
            steps = (access.item, *(s * access.item for s in pattern.strides))
            found = np.lib.stride_tricks.as_strided(flat, (flat.size, *pattern.extents), steps)
            self._windows[pattern, access.dtype] = found
        return found

    def _gather(self, access: Access, places: IntArray) -> Array:
        """The elements; `places` are the flat starts."""
        pattern = access.pattern
        if isinstance(pattern, Nest):
            window = self._window(access, pattern)
            if len(places) == 1:
                return np.array(window[int(places[0]) // access.item + pattern.start][None])
            return np.asarray(window[places // access.item + pattern.start])
        return np.asarray(self._flat_data.view(access.dtype)[_element_places(access, places)])

    def _scatter(self, access: Access, places: IntArray, data: Array) -> None:
        pattern = access.pattern
        if isinstance(pattern, Nest):
            window = self._window(access, pattern)
            window[places // access.item + pattern.start] = data
        else:
            self._flat_data.view(access.dtype)[_element_places(access, places)] = data

    def blocks(self, access: Access, block: int) -> IntArray:
        """Flat numbers of all blocks of bytes that are touched (some more than once); (tiles, k)."""
        return _blocks(access, self._flat_starts(access), block)

    def _owned(self, access: Access, places: IntArray) -> bool:
        """Whether all that is touched is of the owner that touches it."""
        pattern, grain = access.pattern, self.grain
        if len(places) > 1 or not pattern.is_contiguous:
            blocks = _blocks(access, places, grain)
            return not np.count_nonzero(self._flat_owner[blocks] != access.owner)
        start, item = int(places[0]), access.item
        first, last = (start + pattern.low * item) // grain, (start + pattern.high * item + item - 1) // grain
        if first == last:
            return self._flat_owner.item(first) == access.owner
        return not np.count_nonzero(self._flat_owner[first : last + 1] != access.owner)

    def _check_owners(self, access: Access, blocks: IntArray) -> None:
        owners = self._flat_owner[blocks]
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
            f"{where}, which holds {_name_of_owner(owner)}, for {_name_of_owner(access.owner)}",
            site=site,
            memory=self.name(row),
            address=address,
            size=self.grain,
            owner=str(owner),
        )

    def _claim(self, access: Access, places: IntArray) -> None:
        """Mark as written; what a partial store leaves of a never-written stick becomes zero."""
        if self._owned(access, places):
            return
        blocks = _blocks(access, places, self.grain)
        sticks = blocks if self.grain == self.stick else _blocks(access, places, self.stick)
        grains = self._owner.reshape(-1, self.stick // self.grain)
        fresh = sticks[(grains[sticks] == NOBODY).all(axis=-1)]
        if fresh.size:
            self._data.reshape(-1, self.stick)[fresh] = 0
            grains[fresh] = access.owner
        if self.grain == self.stick:
            grains[sticks] = access.owner
        else:
            self._flat_owner[blocks] = access.owner

    def changed_blocks(self, access: Access, data: Array, block: int) -> IntArray:
        """Flat numbers of the blocks of bytes that storing `data` changes, ascending."""
        word = np.dtype(f"u{access.item}")
        places = self._flat_starts(access)
        found = np.ascontiguousarray(self._gather(access, places)).view(word)
        changed = found != np.ascontiguousarray(data).view(word)
        first = np.broadcast_to(_element_places(access, places), changed.shape)[changed] * access.item
        steps = np.arange(0, access.item, min(block, access.item))
        return np.unique((first[:, None] + steps) // block)

    def _check_conflict(self, access: Access, data: Array) -> None:
        """Read back: an element that differs was overwritten by another tile of the same operation."""
        word = np.dtype(f"u{access.item}")
        wanted = np.ascontiguousarray(data).view(word)
        starts = self._flat_starts(access)
        found = np.ascontiguousarray(self._gather(access, starts)).view(word)
        if np.array_equal(found, wanted):
            return
        places = np.broadcast_to(_element_places(access, starts), wanted.shape)
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


def _blocks(access: Access, places: IntArray, block: int) -> IntArray:
    """Numbers of the blocks of bytes that are touched from flat starts; (tiles, k)."""
    return np.asarray((places[:, None] + access.pattern.touched(access.item, block)) // block)


def _element_places(access: Access, places: IntArray) -> IntArray:
    """The flat number of every element."""
    offsets = access.pattern.offsets()
    return (places // access.item).reshape(-1, *([1] * offsets.ndim)) + offsets


def _overlapping(access: Access, places: IntArray) -> bool:
    """Whether the byte ranges of two tiles meet."""
    if len(places) == 1:
        return False
    size = (access.pattern.high + 1 - access.pattern.low) * access.item
    ordered = np.sort(places)
    return bool(np.count_nonzero(ordered[1:] - ordered[:-1] < size))


def _extremes(numbers: IntArray) -> tuple[int, int]:
    """The least and the greatest of some numbers."""
    if len(numbers) > _FEW:
        return int(numbers.min()), int(numbers.max())
    plain = numbers.tolist()
    return min(plain), max(plain)


def _name_of_owner(owner: int) -> str:
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
        self._set(())

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
        self._set([*self._allocations, Allocation(name, base, bank)])

    def _set(self, allocations: Sequence[Allocation]) -> None:
        self._allocations = sorted(allocations, key=lambda a: a.base)
        self._bases = [a.base for a in self._allocations]

    @property
    def banks(self) -> tuple[Bank, ...]:
        """What is behind the allocations, by ascending address."""
        return tuple(a.bank for a in self._allocations)

    def only(self, base: int) -> DeviceMemory:
        """Nothing but the allocation that begins at `base` (bytes): accesses elsewhere are faults."""
        part = DeviceMemory(self.label, self.stick)
        part._set([a for a in self._allocations if a.base == base])
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
        return Access(
            access.tiles,
            np.zeros(len(access.rows), np.int64),
            access.starts - home.base,
            access.pattern,
            access.dtype,
            access.site,
            access.owner,
            access.everyone,
        )

    def _homes(self, access: Access, verb: str) -> Allocation | None:
        """The allocation that holds the whole access; None if there are several."""
        first, last = access.span
        number = bisect.bisect_right(self._bases, first) - 1
        if number >= 0 and last <= self._allocations[number].end and not access.crooked:
            return self._allocations[number]
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
