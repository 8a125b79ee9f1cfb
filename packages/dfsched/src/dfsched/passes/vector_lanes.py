"""What stands on a generic over a slab, and indices of a part of an iteration space."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dfsched.architecture import Architecture, kind_text
from dfsched.passes.build import Emitter
from dfsched.passes.errors import UnsupportedKernel
from ktir.attributes import DenseArrayAttr
from ktir.dialects import arith, linalg
from ktir.errors import Note
from ktir.ir import Operation, Value
from ktir.location import Location
from ktir.types import Type

__all__ = ["REASSOCIATED", "VECTOR", "check_lanes", "shift_indices", "vector_of"]

VECTOR = "ktdf.vector"
"""Attribute ``array<i64: loop, lanes>`` of a generic: vectors of so many lanes lie along that loop."""

REASSOCIATED = "ktdf.reassociated"
"""Attribute of a reduction in the order of vectors: lane by lane, then over the lanes (readings, 16)."""


def check_lanes(types: Iterable[Type], architecture: Architecture, location: Location) -> None:
    """`UnsupportedKernel` for the first type that the compute unit has no lanes of, noting which it has."""
    unit = architecture.compute_unit
    assert unit is not None
    for type in types:
        if architecture.lanes(type) == 0:
            simd = unit.features.simd
            known = ", ".join(name for name, lanes in simd.lanes if lanes) if simd is not None else ""
            raise UnsupportedKernel.at(
                location,
                f"{kind_text(unit.kind)} does not compute on {type}",
                Note(f"it computes on {known or 'no type'}"),
            )


def vector_of(generic: linalg.Generic) -> tuple[int, int] | None:
    """Loop and lanes of a generic over a slab; None if it has no loop to vectorise."""
    match generic.attributes.get(VECTOR):
        case DenseArrayAttr(values=(dim, lanes)):
            return dim, lanes
        case _:
            return None


def shift_indices(
    operations: Sequence[Operation], bases: Mapping[int, Value], emitter: Emitter
) -> list[Operation]:
    """A body in which the index of loop d counts from ``bases[d]``, an index value (other loops from 0).

    The body must come from `narrow-index-lanes`: every `linalg.index` is used by `arith.index_cast` only.
    What is needed in front of the generic goes to `emitter`.
    """
    dims = {op.result: op.dim.value for op in operations if isinstance(op, linalg.Index)}
    if not dims:
        return list(operations)
    result: list[Operation] = []
    mapping: dict[Value, Value] = {}
    for op in operations:
        op = op.replace(operands=[mapping.get(value, value) for value in op.operands])
        result.append(op)
        if not isinstance(op, arith.IndexCast) or op.operands[0] not in dims:
            continue
        base = bases.get(dims[op.operands[0]])
        if base is None:
            continue
        scalar = emitter.add(arith.IndexCast.create([base], [op.results[0].type], location=op.location))
        total = arith.AddI.create([op.results[0], scalar], [op.results[0].type], location=op.location)
        result.append(total)
        mapping[op.results[0]] = total.results[0]
    return result
