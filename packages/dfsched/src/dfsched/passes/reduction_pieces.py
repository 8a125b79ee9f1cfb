"""Into how many pieces reductions are cut, and if their operands can be (scheduler spec 4.12)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from dfsched.architecture import Architecture
from dfsched.passes.errors import ScheduleError
from dfsched.passes.generics import loop_extents
from dfsched.passes.ir_tools import Definitions
from dfsched.passes.memory_accesses import tile_of
from dfsched.passes.pipeline_parts import scalar_types
from dfsched.passes.reductions import combine_of
from dfsched.passes.tile_lattices import lattice_of
from ktir.affine import AffineMap, Dim
from ktir.dialects import ktdp, linalg
from ktir.types import TensorType, bit_width

__all__ = ["Limits", "chunk_counts", "divisors", "piece_counts", "reads_pieces", "room"]


@frozen
class Limits:
    """How much a reduction may move at a time: `bytes`, or the numbers of pieces that are `given`."""

    architecture: Architecture
    bytes: int
    given: tuple[int, ...] = ()


def room(architecture: Architecture) -> int:
    """The smallest memory between device memory and the compute unit, in bytes."""
    sizes = [
        memory.size
        for memory in architecture.memories
        if memory.size is not None
        and not architecture.is_global(memory.kind)
        and not architecture.is_private(memory.kind)
        and not architecture.is_address_buffer(memory.kind)
    ]
    return min(sizes, default=1 << 62)


def chunk_counts(extents: Sequence[int], total_bytes: int, limit: int) -> tuple[int, ...] | None:
    """The least numbers of pieces, outermost dimension first, that bring `total_bytes` down to `limit`.

    A dimension is only cut after all in front of it are down to one element, which keeps the order of the
    elements. None if even single elements are too much. Of the numbers of pieces only `divisors` are tried.

    >>> chunk_counts([16384], 2 << 20, 1 << 20)
    (2,)
    >>> chunk_counts([12289], 3145984, 1 << 20)
    (12289,)
    >>> chunk_counts([4, 1000], 8000, 500)
    (4, 4)
    """
    counts: list[int] = []
    rest = total_bytes
    for extent in extents:
        counts.append(next((n for n in divisors(extent) if rest // n <= limit), extent))
        rest //= counts[-1]
    return tuple(counts) if rest <= limit else None


def divisors(number: int) -> list[int]:
    """Divisors of a positive number, ascending; in numbers above 2**32, large prime factors count as one.

    >>> divisors(60)
    [1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60]
    """
    found = [1]
    rest, prime = number, 2
    while prime * prime <= rest and prime < 1 << 16:
        known = len(found)
        while rest % prime == 0:
            rest //= prime
            found += [prime * divisor for divisor in found[-known:]]
        prime += 1
    if rest > 1:
        found += [rest * divisor for divisor in found]
    return sorted(found)


def piece_counts(generic: linalg.Generic, limits: Limits) -> Mapping[int, int] | None:
    """Pieces of the reduced dimensions that have several; None to leave all of them whole.

    `ScheduleError` if there are other than one given number for each reduced dimension.
    """
    extents = loop_extents(generic)
    dims = [d for d, kind in enumerate(generic.iterators) if kind == "reduction"]
    if len(extents) != len(generic.iterators):
        return None
    given = limits.given
    counts: tuple[int, ...] | None
    if given:
        if len(given) != len(dims):
            raise ScheduleError.at(
                generic.location,
                f"the reduction has {len(dims)} dimensions, but {len(given)} numbers of chunks",
            )
        divides = all(n > 0 and extents[d] % n == 0 for d, n in zip(dims, given, strict=True))
        counts = given if divides and _keeps_order(generic, [extents[d] for d in dims], given) else None
    else:
        total = _bytes_at_a_time(generic, extents, limits.architecture)
        counts = chunk_counts([extents[d] for d in dims], total, limits.bytes)
    if counts is None or all(n == 1 for n in counts):
        return None
    return {d: n for d, n in zip(dims, counts, strict=True) if n > 1}


def _keeps_order(generic: linalg.Generic, extents: Sequence[int], counts: Sequence[int]) -> bool:
    """Whether pieces in order have the elements in order, or the order does not matter."""
    combine = combine_of(generic)
    if combine is not None and not combine.depends_on_order:
        return True
    cut = max((j for j, n in enumerate(counts) if n > 1), default=0)
    return all(counts[j] == extents[j] for j in range(cut))


def _bytes_at_a_time(generic: linalg.Generic, extents: Mapping[int, int], architecture: Architecture) -> int:
    """What one step of the loops over the other dimensions moves: all operands, a vector along the last."""
    lanes = architecture.vector_length(dict.fromkeys(scalar_types(generic)))
    total = 0
    for value, map in dict(zip(generic.inputs, generic.maps, strict=False)).items():
        type = value.type
        if not isinstance(type, TensorType):
            continue
        count = 1
        for position, expr in enumerate(map.results):
            for dim in expr.dims():
                if generic.iterators[dim] == "reduction":
                    count *= extents[dim]
                elif position == map.num_results - 1:
                    count *= min(lanes, extents[dim])
        total += count * -(-bit_width(type.element) // 8)
    return total


def reads_pieces(
    load: ktdp.Load, map: AffineMap, counts: Mapping[int, int], definitions: Definitions
) -> bool:
    """Whether each piece of the cut dimensions reads a box of its own."""
    cut = [expr for expr in map.results if set(expr.dims()) & set(counts)]
    if any(not isinstance(expr, Dim) for expr in cut) or len(set(cut)) != len(cut):
        return False
    return not cut or _is_box(tile_of(load, definitions))


def _is_box(tile: ktdp.ConstructAccessTile) -> bool:
    """A box in row-major order that starts at the subscripts."""
    if tile.symbol_operands or tile.base_map.map.num_symbols:
        return False
    try:
        lattice = lattice_of(tile)
    except ScheduleError:
        return False
    return (
        lattice is not None and not any(lattice.start) and lattice.order == tuple(range(len(lattice.start)))
    )
