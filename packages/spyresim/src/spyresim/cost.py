"""Cycle-approximate cost of a KTIR kernel, and its roofline (planning spec 7.2, device spec 5.2).

Per tile: memory plus computation plus what comes over the ring, one after another; the slowest tile counts.
Scratchpads cost nothing. This is an estimate for comparing kernels, not the timed engine.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs

from spyresim.errors import UnsupportedError

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["PROFILES", "Bottleneck", "Cost", "Profile", "TileCost", "cost_of", "profile_of"]


class Bottleneck(enum.StrEnum):
    """What the slowest tile spends most of its time on."""

    MEMORY = "memory"
    COMPUTE = "compute"
    RING = "ring"
    NOTHING = "nothing"


@attrs.frozen
class Profile:
    """The figures of a machine, per cycle.

    `device_bytes` of device memory, shared by all tiles that run; `ring_bytes` between tiles, for each tile;
    `lanes` elements and `matrix_flops` operations of one tile; a transcendental function takes
    `transcendental_steps` steps; products are done `matrix_rows` rows at a time; a machine has `tiles` tiles.
    """

    name: str
    device_bytes: int
    ring_bytes: int
    lanes: int
    transcendental_steps: int
    matrix_flops: int
    matrix_rows: int
    tiles: int

    @property
    def ridge(self) -> float:
        """Operations per byte of device memory above which products are limited by computation."""
        return self.matrix_flops * self.tiles / self.device_bytes


PROFILES = {"sim": Profile("sim", 128, 64, 64, 4, 1024, 8, 32)}


def profile_of(name: str) -> Profile:
    """The profile of a name; `UnsupportedError` if there is none."""
    found = PROFILES.get(name)
    if found is None:
        raise UnsupportedError(f"cost profile '{name}'; profiles: {', '.join(PROFILES)}")
    return found


@attrs.frozen
class TileCost:
    """Cycles of one tile."""

    memory: float
    vector: int
    matrix: int
    ring: float

    @property
    def compute(self) -> int:
        return self.vector + self.matrix

    @property
    def total(self) -> float:
        return self.memory + self.compute + self.ring


@attrs.frozen
class Cost:
    """The cost of a run; `flops` and `device_bytes` (whole sticks) are of all tiles together."""

    profile: Profile
    tiles: tuple[TileCost, ...]
    flops: int
    device_bytes: int

    @property
    def slowest(self) -> TileCost:
        return max(self.tiles, key=lambda tile: tile.total)

    @property
    def cycles(self) -> float:
        """Cycles of the slowest tile."""
        return self.slowest.total

    @property
    def bottleneck(self) -> Bottleneck:
        tile = self.slowest
        parts = {
            Bottleneck.MEMORY: tile.memory,
            Bottleneck.COMPUTE: float(tile.compute),
            Bottleneck.RING: tile.ring,
        }
        found = max(parts, key=lambda part: parts[part])
        return found if parts[found] else Bottleneck.NOTHING

    @property
    def intensity(self) -> float | None:
        """Operations per byte of device memory; None without traffic."""
        return self.flops / self.device_bytes if self.device_bytes else None

    @property
    def bound(self) -> float:
        """Cycles that nothing could beat: all traffic and all computation of the slowest tile at once."""
        return max(self.device_bytes / self.profile.device_bytes, *(float(t.compute) for t in self.tiles))

    @property
    def attained(self) -> float | None:
        """The bound as a fraction of the cycles; None for a kernel that takes none."""
        return self.bound / self.cycles if self.cycles else None

    @property
    def coverage(self) -> float:
        """Which part of the machine's tiles the grid has."""
        return len(self.tiles) / self.profile.tiles

    def rows(self) -> list[tuple[str, str]]:
        """Names and values to show to people."""
        tile = self.slowest
        return [
            ("cycles", f"{self.cycles:.1f}"),
            ("  device memory", f"{tile.memory:.1f}"),
            ("  vector unit", f"{tile.vector}"),
            ("  matrix unit", f"{tile.matrix}"),
            ("  ring", f"{tile.ring:.1f}"),
            ("bottleneck", str(self.bottleneck)),
            ("operations", f"{self.flops}"),
            ("bytes of device memory", f"{self.device_bytes}"),
            ("operations per byte", _number(self.intensity)),
            ("ridge", f"{self.profile.ridge:g}"),
            ("attained", "-" if self.attained is None else f"{self.attained:.0%}"),
            ("tiles", f"{len(self.tiles)} of {self.profile.tiles}"),
        ]

    def table(self) -> Table:
        """The rows as a table for a terminal."""
        from rich.table import Table

        shown = Table("slowest tile", f"profile {self.profile.name}", title="Roofline")
        shown.columns[1].justify = "right"
        for name, value in self.rows():
            shown.add_row(name, value)
        return shown

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "profile": self.profile.name,
            "cycles": self.cycles,
            "bottleneck": str(self.bottleneck),
            "flops": self.flops,
            "device_bytes": self.device_bytes,
            "intensity": self.intensity,
            "ridge": self.profile.ridge,
            "bound": self.bound,
            "attained": self.attained,
            "coverage": self.coverage,
            "tiles": [attrs.asdict(tile) for tile in self.tiles],
        }


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def cost_of(
    profile: Profile,
    stick_bytes: Sequence[int],
    vector: Sequence[int],
    matrix: Sequence[int],
    ring_bytes: Sequence[int],
    flops: int,
) -> Cost:
    """The cost from what each tile moves (bytes) and computes (cycles of its units)."""
    share = profile.device_bytes / len(stick_bytes)
    tiles = tuple(
        TileCost(moved / share, v, m, received / profile.ring_bytes)
        for moved, v, m, received in zip(stick_bytes, vector, matrix, ring_bytes, strict=True)
    )
    return Cost(profile, tiles, flops, sum(stick_bytes))
