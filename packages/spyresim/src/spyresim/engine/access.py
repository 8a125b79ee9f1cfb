"""Address generators: from registers to byte addresses."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs
import numpy as np

from dfsched.image import AddressGenerator, Side, View
from spyresim.engine.footprint import Footprint
from spyresim.engine.state import ViewValue
from spyresim.engine.values import Scalar, plus, times
from spyresim.errors import ControlFault, OutOfRangeFault, Site


@attrs.frozen(eq=False)
class Pattern:
    """What of an access does not depend on registers, for one side under one view.

    The `footprint` has the byte offsets of all elements (time steps, then lanes) from the address of the
    base index; `low` and `high` are the least and greatest offset of every index from its base.
    """

    footprint: Footprint
    low: tuple[int, ...]
    high: tuple[int, ...]
    lanes: int
    steps: int


def pattern(side: Side, time_extents: Sequence[int], view: View) -> Pattern:
    """The pattern of a side; `ControlFault` if it does not fit the view. Elements have whole bytes."""
    if side.rank != len(view.coefficients):
        raise ControlFault(f"access of rank {side.rank} to a view of rank {len(view.coefficients)}")
    points = np.array(side.lanes.points(), np.int64).reshape(side.lanes.lanes, side.rank)
    count = math.prod(time_extents)
    times = np.indices(tuple(time_extents), np.int64).reshape(len(time_extents), count).T
    moves = times @ np.array(side.time_coefficients, np.int64).reshape(side.rank, len(time_extents)).T
    indices = moves[:, None, :] + points[None, :, :]
    flat = indices.reshape(count * len(points), side.rank)
    step = view.element.storage_bits // 8
    offsets = flat @ np.array(view.coefficients, np.int64) * step
    low = tuple(int(n) for n in flat.min(axis=0)) if len(flat) else ()
    high = tuple(int(n) for n in flat.max(axis=0)) if len(flat) else ()
    return Pattern(Footprint(offsets.astype(np.int64), step), low, high, len(points), len(times))


class Patterns:
    """Patterns by (generator, side, view); the generator and view tables belong to one image."""

    def __init__(self, generators: Sequence[AddressGenerator]) -> None:
        self._generators = generators
        self._cache: dict[tuple[int, int, View], Pattern] = {}

    def get(self, generator: int, side: int, view: View) -> Pattern:
        key = (generator, side, view)
        found = self._cache.get(key)
        if found is None:
            described = self._generators[generator]
            found = pattern(described.sides[side], described.time_extents, view)
            self._cache[key] = found
        return found


def base_index(side: Side, scalars: Sequence[Scalar | None], undefined: Site) -> tuple[Scalar, ...]:
    """The index vector of the first lane at time zero."""
    from spyresim.engine.faults import undefined_register

    indices: list[Scalar] = []
    for constant, row in zip(side.base, side.coefficients, strict=True):
        value: Scalar = constant
        for register, coefficient in zip(side.registers, row, strict=True):
            if coefficient == 0:
                continue
            scalar = scalars[register]
            if scalar is None:
                raise undefined_register("s", register, undefined)
            value = plus(value, times(scalar, coefficient))
        indices.append(value)
    return tuple(indices)


def addresses(view: ViewValue, indices: Sequence[Scalar], shape: Pattern, strict: bool, site: Site) -> Scalar:
    """The byte address of the base index, in every row or the same in all.

    With `strict` an index outside of the view's shape is a fault ``index out of view bounds``.
    """
    if strict:
        _check(view.view, indices, shape, site)
    total: Scalar = view.view.constant
    for index, coefficient in zip(indices, view.view.coefficients, strict=True):
        total = plus(total, times(index, coefficient))
    return plus(view.start, times(total, shape.footprint.step))


def _check(view: View, indices: Sequence[Scalar], shape: Pattern, site: Site) -> None:
    if not shape.low:
        return
    for dimension, (index, extent) in enumerate(zip(indices, view.shape, strict=True)):
        first, last = (index, index) if isinstance(index, int) else (int(index.min()), int(index.max()))
        low, high = first + shape.low[dimension], last + shape.high[dimension]
        if low < 0 or high >= extent:
            bad = low if low < 0 else high
            raise OutOfRangeFault(
                f"index out of view bounds: index {bad} of dimension {dimension}, which has extent {extent}",
                site=site,
                memory="view",
                coordinate=(bad,),
                limit=extent,
            )
