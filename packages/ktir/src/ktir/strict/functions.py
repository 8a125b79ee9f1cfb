"""Level S for functions: the grid, the tile id, the interface of a kernel (KTIR spec 1.2.2, 4.3, 5.1)."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ktir.dialects.func import Func
from ktir.dialects.ktdp import GetComputeTileId
from ktir.errors import Diagnostic, Note
from ktir.grid import GridError, grid_of
from ktir.interface import SignatureError, signature
from ktir.ir import Operation
from ktir.strict.facts import Facts

__all__ = ["check"]


def check(op: Operation, facts: Facts) -> Iterator[Diagnostic]:
    """S-GR1 to S-GR4, the size of the grid, and whether the kernel has an interface."""
    match op:
        case Func():
            yield from _grid(op, facts)
        case GetComputeTileId():
            yield from _tile_id(op, facts)


def _grid(function: Func, facts: Facts) -> Iterator[Diagnostic]:
    try:
        grid = grid_of(function)
    except GridError as error:
        note = Note("a grid is an array of positive integers, one per dimension, such as grid = [4, 2]")
        yield Diagnostic(error.message, function.location, notes=(note,))
        return
    if grid is None or function.is_declaration:
        return
    tiles = math.prod(grid)
    available = facts.machine(function).tiles
    if tiles > available:
        yield Diagnostic(
            f"the grid {list(grid)} has {tiles} compute tiles, the machine has {available}",
            function.location,
            notes=(
                Note(f"let every tile take several pieces in a loop, and the grid have {available} at most"),
            ),
        )
    try:
        signature(facts.module, function)
    except SignatureError as error:
        note = Note("the host cannot pass buffers to this kernel")
        yield Diagnostic(error.message, error.location or function.location, notes=(note,))


def _tile_id(op: GetComputeTileId, facts: Facts) -> Iterator[Diagnostic]:
    grid = facts.grid(op)
    count = len(op.results)
    if grid is None or count == len(grid) or (count == 1 and sum(extent != 1 for extent in grid) <= 1):
        return
    yield Diagnostic(
        f"get_compute_tile_id result count ({count}) does not match grid rank ({len(grid)})",
        op.location,
        notes=(Note(f"grid = {list(grid)} has one coordinate for each of its {len(grid)} dimensions"),),
    )
