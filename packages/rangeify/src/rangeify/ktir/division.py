"""Work division: which iteration variable is cut into how many slices (planning spec 2).

Sizes are counted in units that are never cut: elements of a row variable, sticks of the stick variable.
"""

from __future__ import annotations

from collections.abc import Sequence


def core_split(size: int, cores: int) -> int:
    """The largest divisor of `size` that is at most `cores` (planning spec 2.1); 1 when there is none."""
    return next((s for s in range(min(size, cores), 0, -1) if size % s == 0), 1)


def divide(sizes: Sequence[int], cores: int) -> tuple[int, ...]:
    """The default greedy division of the variables `sizes` over at most `cores` cores (planning spec 2.4).

    The largest variables are split first; a split always divides its size, and the product of all splits is
    at most `cores`. Returns one split per variable, in the order given.
    """
    if cores < 1:
        raise ValueError(f"cannot divide work over {cores} cores")
    splits = [1] * len(sizes)
    remaining = cores
    for variable in sorted(range(len(sizes)), key=lambda v: -sizes[v]):
        splits[variable] = core_split(sizes[variable], remaining)
        remaining //= splits[variable]
    return tuple(splits)
