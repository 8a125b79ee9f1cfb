"""What every compute tile does: operations by name and unit, bytes by memory.

Memory traffic is counted twice: the bytes of the elements, and whole sticks, each once an access.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs
import numpy as np

from ktir.dialects import math, spyreop
from ktir.ir import Operation
from spyresim.cost import Cost, Profile, cost_of
from spyresim.sequential.access import IntArray

if TYPE_CHECKING:
    from spyresim.sequential.memory import Access

__all__ = ["Meter", "Space", "Tally", "Unit", "Work", "is_transcendental"]


class Space(enum.StrEnum):
    """A memory as a tile sees it."""

    DEVICE = "device memory"
    OWN = "scratchpad"
    OTHER = "scratchpad of another tile"


class Unit(enum.StrEnum):
    """Who computes."""

    VECTOR = "vector"
    TRANSCENDENTAL = "transcendental"
    MATRIX = "matrix"


Meter: TypeAlias = Callable[["Access", IntArray, bool], None]
"""Is told of an access, the sticks that it touches, and whether it writes."""

_ALL = slice(None)
_EXACT = (
    math.AbsF, math.AbsI, math.CopySign, math.Ceil, math.Floor, math.Fma, math.Round, math.RoundEven,
    math.Trunc,
)  # fmt: skip
_SLOW = (
    spyreop.Exp, spyreop.Sqrt, spyreop.Rsqrt, spyreop.Reciprocal, spyreop.Sigmoid, spyreop.Silu, spyreop.Gelu,
    spyreop.Softplus,
)  # fmt: skip


def is_transcendental(op: Operation) -> bool:
    """Whether an element-wise operation takes several steps of a vector unit."""
    return isinstance(op, _SLOW) or (op.name.startswith("math.") and not isinstance(op, _EXACT))


class Tally:
    """A number for every tile; what all tiles add together is kept once."""

    __slots__ = ("_own", "_same", "_tiles")

    def __init__(self, tiles: int) -> None:
        self._tiles = tiles
        self._same = 0
        self._own: IntArray | None = None

    def add(self, amount: IntArray | int, tiles: IntArray) -> None:
        """Add to some tiles, each once."""
        whole = len(tiles) == self._tiles
        if whole and isinstance(amount, int):
            self._same += amount
            return
        if self._own is None:
            self._own = np.zeros(self._tiles, np.int64)
        self._own[_ALL if whole else tiles] += amount

    @property
    def values(self) -> IntArray:
        """An array of shape (tiles,)."""
        own = np.zeros(self._tiles, np.int64) if self._own is None else self._own
        return np.asarray(own + self._same)


@attrs.define(eq=False)
class Work:
    """Totals of every tile.

    `flops` counts operations on elements (a multiplication and an addition for each step of a product),
    `cycles` what the units take for them; `ring_bytes` is what comes from other tiles.
    """

    tiles: int
    stick: int
    profile: Profile
    operations: dict[str, Tally] = attrs.field(factory=dict)
    flops: dict[Unit, Tally] = attrs.field(factory=dict)
    cycles: dict[Unit, Tally] = attrs.field(factory=dict)
    bytes_read: dict[Space, Tally] = attrs.field(factory=dict)
    bytes_written: dict[Space, Tally] = attrs.field(factory=dict)
    stick_bytes_read: dict[Space, Tally] = attrs.field(factory=dict)
    stick_bytes_written: dict[Space, Tally] = attrs.field(factory=dict)
    ring_bytes: Tally = attrs.field(init=False)
    _slow: dict[type[Operation], bool] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.ring_bytes = Tally(self.tiles)
        for unit in Unit:
            self.flops[unit], self.cycles[unit] = Tally(self.tiles), Tally(self.tiles)
        for space in Space:
            for table in self._traffic:
                table[space] = Tally(self.tiles)

    @property
    def _traffic(self) -> tuple[dict[Space, Tally], ...]:
        return self.bytes_read, self.bytes_written, self.stick_bytes_read, self.stick_bytes_written

    # -- operations

    def count(self, name: str, tiles: IntArray) -> None:
        """An operation that these tiles execute."""
        found = self.operations.get(name)
        if found is None:
            found = self.operations[name] = Tally(self.tiles)
        found.add(1, tiles)

    def vector(self, op: Operation, elements: int, tiles: IntArray) -> None:
        """An element-wise operation on some elements a tile."""
        slow = self._slow.get(type(op))
        if slow is None:
            slow = self._slow[type(op)] = is_transcendental(op)
        unit = Unit.TRANSCENDENTAL if slow else Unit.VECTOR
        steps = -(-elements // self.profile.lanes) * (self.profile.transcendental_steps if slow else 1)
        self.flops[unit].add(elements, tiles)
        self.cycles[unit].add(steps, tiles)

    def matrix(self, rows: int, others: int, tiles: IntArray) -> None:
        """A product with `rows` rows in the result, and so many steps for each."""
        padded = -(-rows // self.profile.matrix_rows) * self.profile.matrix_rows
        self.flops[Unit.MATRIX].add(2 * rows * others, tiles)
        self.cycles[Unit.MATRIX].add(-(-2 * padded * others // self.profile.matrix_flops), tiles)

    def receive(self, size: int, tiles: IntArray) -> None:
        """Bytes that come from other tiles."""
        self.ring_bytes.add(size, tiles)

    # -- memory

    def meter(self, device: bool) -> Meter:
        """The meter of device memory, or of the scratchpads."""
        return partial(self._note, device)

    def _note(self, device: bool, access: Access, sticks: IntArray, writing: bool) -> None:
        tiles, rows = access.tiles, access.rows
        raw: Any = access.pattern.size * access.item
        whole: IntArray | int
        if access.everyone is not None:
            raw *= len(tiles)
            whole = (
                len(np.unique(sticks))
                if len(tiles) > 1
                else access.pattern.distinct(access.item, self.stick, int(access.starts[0]))
            )
            tiles, rows = access.everyone, np.broadcast_to(rows[:1], access.everyone.shape)
        elif len(tiles) == 1 or (tiles[1:] > tiles[:-1]).all():
            whole = _distinct(access, sticks, self.stick)
        else:  # several entries a tile
            owners = np.repeat(tiles, sticks.shape[1])
            pairs = np.unique(np.stack([owners, sticks.reshape(-1)], axis=1), axis=0)
            whole = np.unique(pairs[:, 0], return_counts=True)[1]
            tiles, first, counts = np.unique(tiles, return_index=True, return_counts=True)
            rows, raw = rows[first], counts * raw
        raws, wholes = (
            (self.bytes_written, self.stick_bytes_written)
            if writing
            else (self.bytes_read, self.stick_bytes_read)
        )
        own = None if device else rows == tiles
        if own is None or own.all() or not own.any():
            space = Space.DEVICE if own is None else Space.OWN if own.all() else Space.OTHER
            self._add(raws, wholes, space, tiles, raw, whole)
            return
        for space, which in ((Space.OWN, own), (Space.OTHER, ~own)):
            part = raw if isinstance(raw, int) else raw[which]
            self._add(
                raws, wholes, space, tiles[which], part, whole if isinstance(whole, int) else whole[which]
            )

    def _add(
        self,
        raws: dict[Space, Tally],
        wholes: dict[Space, Tally],
        space: Space,
        tiles: IntArray,
        raw: IntArray | int,
        whole: IntArray | int,
    ) -> None:
        raws[space].add(raw, tiles)
        wholes[space].add(whole * self.stick, tiles)
        if space is Space.OTHER:
            self.ring_bytes.add(raw, tiles)

    # -- results

    def cost(self) -> Cost:
        """What all that costs."""
        vector = self.cycles[Unit.VECTOR].values + self.cycles[Unit.TRANSCENDENTAL].values
        moved = self.stick_bytes_read[Space.DEVICE].values + self.stick_bytes_written[Space.DEVICE].values
        return cost_of(
            self.profile,
            moved.tolist(),
            vector.tolist(),
            self.cycles[Unit.MATRIX].values.tolist(),
            self.ring_bytes.values.tolist(),
            int(sum(tally.values.sum() for tally in self.flops.values())),
        )

    def executed(self) -> dict[str, int]:
        """How often all tiles together executed each operation."""
        return {name: int(tally.values.sum()) for name, tally in self.operations.items()}

    def to_json(self) -> dict[str, object]:
        """Lists over tiles, by name."""
        tables: dict[str, Mapping[Any, Tally]] = {
            "operations": self.operations,
            "flops": self.flops,
            "bytes_read": self.bytes_read,
            "bytes_written": self.bytes_written,
            "stick_bytes_read": self.stick_bytes_read,
            "stick_bytes_written": self.stick_bytes_written,
        }
        document: dict[str, object] = {
            name: {
                str(key): tally.values.tolist() for key, tally in sorted(table.items()) if tally.values.any()
            }
            for name, table in tables.items()
        }
        document["ring_bytes"] = self.ring_bytes.values.tolist()
        return document


def _distinct(access: Access, sticks: IntArray, stick: int) -> IntArray | int:
    """How many different sticks each row has."""
    rest = access.starts % stick
    if (rest == rest[0]).all():
        return access.pattern.distinct(access.item, stick, int(rest[0]))
    steps = np.diff(np.sort(sticks, axis=1), axis=1)
    return np.asarray(1 + np.count_nonzero(steps, axis=1))
