"""The grid of a function: one reader, one set of messages (KTIR spec 1.2.2)."""

from __future__ import annotations

import pytest

import ktir


def function(grid: str) -> ktir.Operation:
    return ktir.parse(f"func.func @k() attributes {{{grid}}} {{ return }}", None, "g.mlir").operations[0]


@pytest.mark.parametrize(
    ("grid", "extents"),
    [
        ("grid = [4, 2]", (4, 2)),
        ("grid = [4 : index, 2 : i32]", (4, 2)),
        ("grid = [7]", (7,)),
        ("grid = [2, 3, 4, 5]", (2, 3, 4, 5)),
        ("other = [4]", None),
    ],
)
def test_extents(grid: str, extents: tuple[int, ...] | None) -> None:
    """ktir checklist 22. Integers of any type; no grid is no error."""
    assert ktir.grid_of(function(grid)) == extents


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ("grid = []", "Grid must have at least one dimension"),
        ("grid = [2, 0]", "Grid size must be positive (got 0)"),
        ("grid = [-3]", "Grid size must be positive (got -3)"),
        ('grid = ["a"]', "Grid size must be integer attribute"),
        ("grid = [1, 2.0 : f32]", "Grid size must be integer attribute"),
        ("grid = 4 : index", "the grid must be an array of integers, not 4 : index"),
        ('grid = "four"', 'the grid must be an array of integers, not "four"'),
    ],
)
def test_refused(grid: str, message: str) -> None:
    """S-GR1 to S-GR3; the place is that of the function."""
    with pytest.raises(ktir.GridError) as caught:
        ktir.grid_of(function(grid))
    assert caught.value.message == message
    assert str(caught.value) == f"g.mlir:1:1: error: {message}"
