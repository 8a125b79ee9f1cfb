"""Memories of the sequential levels against a model of single bytes: contents, who has written, and faults."""

from __future__ import annotations

import itertools
from collections import Counter

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spyresim.errors import (
    ConflictFault,
    ExecutionFault,
    MisalignedFault,
    OutOfRangeFault,
    Site,
    StaleReadFault,
    UnwrittenReadFault,
)
from spyresim.sequential.access import IntArray, Pattern, Scattered, nest
from spyresim.sequential.memory import Access, Bank, DeviceMemory

STICK, SIZE, BASE = 16, 48, 160
SEEN: Counter[str] = Counter()


@attrs.frozen
class Step:
    """A load (without `values`) or a store of one tile per entry of `starts` (bytes) and `rows`."""

    pattern: Pattern
    item: int
    rows: tuple[int, ...]
    starts: tuple[int, ...]
    owner: int
    values: tuple[int, ...] | None

    def access(self, base: int) -> Access:
        return Access(
            np.arange(len(self.rows)),
            np.array(self.rows, np.int64),
            np.array(self.starts, np.int64) + base,
            self.pattern,
            np.dtype(f"u{self.item}"),
            lambda tile: Site("test", None, tile),
            self.owner,
        )

    def data(self) -> IntArray:
        """The values of a store, repeated over the elements."""
        shape = (len(self.rows), *self.pattern.extents)
        return np.resize(np.array(self.values, f"u{self.item}"), shape)


class Model:
    """Bytes and their writers in plain lists; device memory looks at the alignment first."""

    def __init__(self, instances: int, grain: int, alignment_first: bool = False) -> None:
        self.grain = grain
        self.alignment_first = alignment_first
        self.bytes = [[0xCD] * SIZE for _ in range(instances)]
        self.owners: list[list[int | None]] = [[None] * (SIZE // grain) for _ in range(instances)]

    def elements(self, step: Step) -> list[list[tuple[int, int]]]:
        """Row and first byte of every element of every tile."""
        offsets = step.pattern.offsets().reshape(-1).tolist()
        return [
            [(row, start + offset * step.item) for offset in offsets]
            for row, start in zip(step.rows, step.starts, strict=True)
        ]

    def run(self, step: Step) -> IntArray | type[ExecutionFault] | None:
        """What a load gives, or the fault; a step that faults (but for conflicts) changes nothing."""
        places = self.elements(step)
        flat = [place for tile in places for place in tile]
        crooked = any(at % step.item for _, at in flat)
        if crooked and self.alignment_first:
            return MisalignedFault
        if any(not (0 <= row < len(self.bytes) and 0 <= at <= SIZE - step.item) for row, at in flat):
            return OutOfRangeFault
        if crooked:
            return MisalignedFault
        return self._load(step, flat) if step.values is None else self._store(step, places)

    def _load(self, step: Step, flat: list[tuple[int, int]]) -> IntArray | type[ExecutionFault]:
        for row, at in flat:
            for byte in range(at, at + step.item):
                owner = self.owners[row][byte // self.grain]
                if owner != step.owner:
                    return UnwrittenReadFault if owner is None else StaleReadFault
        words = [bytes(self.bytes[row][at : at + step.item]) for row, at in flat]
        return np.frombuffer(b"".join(words), f"u{step.item}").reshape(len(step.rows), *step.pattern.extents)

    def _store(self, step: Step, places: list[list[tuple[int, int]]]) -> type[ExecutionFault] | None:
        touched = {(row, b) for tile in places for row, at in tile for b in range(at, at + step.item)}
        for row, stick in {(row, byte // STICK) for row, byte in touched}:
            grains = range(stick * STICK // self.grain, (stick + 1) * STICK // self.grain)
            if all(self.owners[row][n] is None for n in grains):
                self.bytes[row][stick * STICK : (stick + 1) * STICK] = [0] * STICK
                for n in grains:
                    self.owners[row][n] = step.owner
        for row, byte in touched:
            self.owners[row][byte // self.grain] = step.owner
        written: dict[tuple[int, int], tuple[int, bytes]] = {}
        clash = False
        data = step.data().reshape(len(places), -1)
        for tile, (elements, values) in enumerate(zip(places, data, strict=True)):
            for (row, at), value in zip(elements, values, strict=True):
                word = value.tobytes()
                before = written.setdefault((row, at), (tile, word))
                clash |= before[0] != tile and before[1] != word
                self.bytes[row][at : at + step.item] = list(word)
        return ConflictFault if clash else None


@st.composite
def steps(draw: st.DrawFn, instances: int) -> Step:
    item = draw(st.sampled_from([1, 2, 4]))
    extents = tuple(draw(st.lists(st.integers(1, 2), max_size=3)))
    strides = [1] * len(extents)
    for d in reversed(range(len(extents) - 1)):
        strides[d] = strides[d + 1] * extents[d + 1] + draw(st.integers(0, 1))
    order = draw(st.permutations(range(len(extents))))
    pattern: Pattern = nest(tuple(extents[d] for d in order), tuple(strides[d] for d in order))
    if draw(st.integers(0, 4)) == 0:
        pattern = Scattered(pattern.extents, pattern.offsets())
    tiles = draw(st.sampled_from([1, 1, 2, 3]))
    outside, crooked = draw(st.integers(0, 5)) == 0, draw(st.integers(0, 5)) == 0
    last = max(0, SIZE - (pattern.high + 1) * item)
    places = st.integers(-1, last // item + 1) if outside else st.integers(0, last // item)
    within = st.integers(0, item - 1) if crooked else st.just(0)
    starts = tuple(draw(places) * item + draw(within) for _ in range(tiles))
    rows = tuple(draw(st.integers(0, instances - 1)) for _ in range(tiles))
    words = st.lists(st.integers(0, 2), min_size=1, max_size=4)
    values = tuple(draw(words)) if draw(st.booleans()) else None
    return Step(pattern, item, rows, starts, draw(st.sampled_from([-1, -1, 1])), values)


def check(bank: Bank | DeviceMemory, base: int, model: Model, sequence: list[Step]) -> None:
    for step in sequence:
        wanted = model.run(step)
        kind = wanted.__name__ if isinstance(wanted, type) else "load" if step.values is None else "store"
        SEEN[kind] += 1
        if isinstance(wanted, type):
            with pytest.raises(wanted):
                _do(bank, step, base)
            if wanted is ConflictFault:
                return  # who came last is open
        elif step.values is None:
            found = _do(bank, step, base)
            assert found is not None
            assert np.array_equal(found, wanted)  # type: ignore[arg-type]
        else:
            assert _do(bank, step, base) is None
    own = bank if isinstance(bank, Bank) else bank.allocation("it").bank
    assert [own.read_bytes(row, 0, SIZE).tolist() for row in range(own.instances)] == model.bytes


def _do(memory: Bank | DeviceMemory, step: Step, base: int) -> IntArray | None:
    if step.values is None:
        return memory.load(step.access(base))
    memory.store(step.access(base), step.data())
    return None


@settings(max_examples=60)
@given(st.data(), st.sampled_from([1, 3]), st.sampled_from([2, STICK]))
def test_banks(data: st.DataObject, instances: int, grain: int) -> None:
    """One or several instances; ownership by sticks or finer."""
    model = Model(instances, grain)
    fill = [Step(nest((SIZE - STICK,), (1,)), 1, (row,), (0,), -1, (1, 2, 3)) for row in range(instances)]
    sequence = fill + data.draw(st.lists(steps(instances), min_size=6, max_size=12))
    check(Bank("bank", instances, SIZE, STICK, grain=grain), 0, model, sequence)


@settings(max_examples=60)
@given(st.data())
def test_allocations(data: st.DataObject) -> None:
    """Device memory is its allocations: an access next to one is a fault, whatever lies behind."""
    memory = DeviceMemory(stick=STICK)
    memory.allocate("in front", 0, 64)
    memory.allocate("it", BASE, SIZE)
    memory.allocate("behind", 4 * BASE, 64)
    fill = Step(nest((SIZE - STICK,), (1,)), 1, (0,), (0,), -1, (1, 2, 3))
    sequence = [fill, *data.draw(st.lists(steps(1), min_size=6, max_size=12))]
    check(memory, BASE, Model(1, STICK, alignment_first=True), sequence)


def store(start: int, item: int, *values: int, owner: int = -1, tiles: int = 1, apart: int = 0) -> Step:
    """A store of neighbours by one tile or more, whose starts are `apart` bytes from each other."""
    pattern = nest((len(values) // tiles,), (1,))
    return Step(pattern, item, (0,) * tiles, tuple(start + n * apart for n in range(tiles)), owner, values)


@pytest.mark.parametrize("grain", [2, STICK])
def test_an_element_of_two_owners(grain: int) -> None:
    """The last bytes of a load count, too."""
    load = attrs.evolve(store(4, 4, 0), values=None)
    sequence = [store(0, 4, 1, 2, 1), load, store(6, 2, 1, owner=1), load, store(4, 4, 2), load]
    check(Bank("bank", 1, SIZE, STICK, grain=grain), 0, Model(1, grain), sequence)


def test_tiles_that_meet_in_one_byte() -> None:
    """A conflict only where the values differ."""
    for sequence in (
        [store(0, 1, 1, 2, 3, 3, 2, 1, tiles=2, apart=2)],
        [store(0, 1, 1, 2, 3, 4, 2, 1, tiles=2, apart=2)],
        [store(0, 1, 1, 2, 3, 4, 2, 1, tiles=2, apart=3)],
    ):
        check(Bank("bank", 1, SIZE, STICK), 0, Model(1, STICK), sequence)


def test_everything_was_seen() -> None:
    if not SEEN:
        test_banks()
        test_allocations()
    kinds = (ConflictFault, MisalignedFault, OutOfRangeFault, StaleReadFault, UnwrittenReadFault)
    assert all(SEEN[kind.__name__] for kind in kinds), SEEN
    assert min(SEEN["load"], SEEN["store"]) > 40, SEEN


def test_nests_are_the_same_object() -> None:
    """What a nest knows of itself is found out once; other numbers are another nest."""
    assert nest((2, 3), (3, 1)) is nest((2, 3), (3, 1))
    others = itertools.product([(2, 3), (3, 2)], [(3, 1), (1, 3)], [0, 1])
    assert len({id(nest(*numbers)) for numbers in others}) == 8
