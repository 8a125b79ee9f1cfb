"""Address generators: the subscripts, element sets and time domains of `agen` operations."""

from __future__ import annotations

from collections.abc import Sequence

from dfsched.codegen.errors import CodegenError
from dfsched.codegen.scalars import ScalarEmitter, constant_integer
from dfsched.dialects.agen import CompositeLoadAndStore, CompositeSide
from dfsched.image import AddressGenerator, BoxLanes, ElementType, ExplicitLanes, GeneratorKind, Side
from ktir.affine import AffineMap, AffineSet, Dim, linear
from ktir.ir import Operation, Value

__all__ = ["build_generator", "single_access", "time_domain"]


def anchored_box(set: AffineSet) -> tuple[int, ...] | None:
    """Extents of a non-empty box at the origin, None for other sets."""
    bounds = set.bounding_box() if set.num_symbols == 0 else None
    if bounds is None or any(low != 0 for low, _ in bounds) or not set.is_rectangular():
        return None
    return tuple(high + 1 for _, high in bounds)


def lanes_of(set: AffineSet, order: AffineMap, lanes: int, op: Operation) -> BoxLanes | ExplicitLanes:
    """The element set in lane order."""
    if set.num_symbols:
        raise CodegenError.at(op.location, "an element set with symbols is not supported")
    extents, permutation = anchored_box(set), order.as_permutation()
    points: BoxLanes | ExplicitLanes
    if extents is not None and permutation is not None:
        points = BoxLanes(extents, permutation)
    else:
        rows = [tuple(int(x) for x in row) for row in set.points()]
        points = ExplicitLanes(tuple(sorted(rows, key=lambda point: tuple(order.evaluate(point)))))
    if points.lanes != lanes:
        raise CodegenError.at(op.location, f"set has {points.lanes} points but vector has {lanes} lanes")
    return points


def time_domain(op: CompositeLoadAndStore) -> list[tuple[int, int]]:
    """Time dimensions with more than one step, slowest first: (number in the time set, extent)."""
    extents = anchored_box(op.time_set.set)
    order = op.time_order.map.as_permutation()
    maps = (op.load_time_addr_map.map, op.store_time_addr_map.map)
    if extents is None or order is None or op.time_symbols or any(map.num_symbols for map in maps):
        raise CodegenError.at(op.location, "unsupported time domain")
    return [(dimension, extents[dimension]) for dimension in order if extents[dimension] > 1]


def build_side(
    emitter: ScalarEmitter,
    op: Operation,
    side: CompositeSide,
    element: ElementType,
    lanes: int,
    times: Sequence[int] = (),
) -> Side:
    """One end of an access, with virtual registers."""
    registers: list[int] = []
    base: list[int] = []
    rows: list[dict[int, int]] = []
    for expr in side.map.results:
        flat = linear(expr)
        if flat is None:
            raise emitter.unsupported(op, f"the subscript {expr}")
        constant, row = flat.constant, dict[int, int]()
        for term, coefficient in flat.terms:
            if isinstance(term, Dim):
                number = constant_integer(emitter.definitions, side.indices[term.position])
                if number is not None:
                    constant += coefficient * number
                    continue
                register = emitter.scalar(side.indices[term.position])
            else:
                register = emitter.affine(term, side.indices, op)
            if register not in registers:
                registers.append(register)
            row[register] = row.get(register, 0) + coefficient
        base.append(constant)
        rows.append(row)
    moves: list[tuple[int, ...]] = []
    for position, expr in enumerate(side.time_map.results):
        flat = linear(expr)
        if flat is None or not flat.is_linear:
            raise CodegenError.at(op.location, "unsupported time domain")
        base[position] += flat.constant
        moves.append(tuple(flat.coefficient(Dim(time)) for time in times))
    return Side(
        element,
        tuple(registers),
        tuple(base),
        tuple(tuple(row.get(register, 0) for register in registers) for row in rows),
        tuple(moves),
        lanes_of(side.set, side.order, lanes, op),
    )


def single_access(
    kind: GeneratorKind,
    emitter: ScalarEmitter,
    op: Operation,
    memory: Value,
    map: AffineMap,
    indices: Sequence[Value],
    set: AffineSet,
    order: AffineMap,
    element: ElementType,
    lanes: int,
) -> AddressGenerator:
    """The generator of a vector load or store."""
    still = AffineMap(0, 0, (0,) * map.num_results)
    side = CompositeSide(memory, map, tuple(indices), set, order, still)
    return AddressGenerator(kind, (build_side(emitter, op, side, element, lanes),))


def build_generator(
    emitter: ScalarEmitter, op: CompositeLoadAndStore, element: ElementType, lanes: int
) -> AddressGenerator:
    """The generator of a copy."""
    domain = time_domain(op)
    times = [dimension for dimension, _ in domain]
    sides = tuple(build_side(emitter, op, side, element, lanes, times) for side in op.sides)
    return AddressGenerator(GeneratorKind.DMA, sides, tuple(extent for _, extent in domain))
