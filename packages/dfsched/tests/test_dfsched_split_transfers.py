"""`split-transfers`: rows that are no whole number of vectors arrive in full, in few pieces."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dfsched
import ktir
from dfsched.dialects.ktdf import Cell, DataTransfer
from dfsched.passes import split_transfers
from dfsched.passes.base import PassContext
from ktir.dialects import arith, scf
from ktir.ir import Operation, Value

LANES = {"f16": 64, "f32": 32, "i8": 128}

Piece = tuple[tuple[int, ...], tuple[int, ...], int]
"""First element of the source, of the destination, and how many of the innermost dimension."""


def split(rows: int, columns: int, element: str = "f16", margin: int = 0) -> list[list[Piece]]:
    """What the pass makes of the copy of a box behind `margin` columns: the pieces of each transfer."""
    wide = f"{rows}x{columns + margin}x{element}"
    text = f"""
    func.func @f(%x: memref<{wide}, "DDR">, %y: memref<{rows}x1x{columns}x{element}, "L1">) {{
      ktdf.data_transfer from %x[0, {margin}] size [{rows}, {columns}] to %y[0, 0, 0] size [{rows}, 1, {columns}]
          : memref<{wide}, "DDR">, memref<{rows}x1x{columns}x{element}, "L1">
      return
    }}"""
    context = PassContext(dfsched.load_architecture("sample"), dfsched.Options())
    module = split_transfers.run(ktir.parse(text), context)
    found: list[list[Piece]] = []
    for function in module.operations:
        for block in function.regions[0].blocks:
            walk(block.operations, [{}], found)
    return found


def walk(operations: tuple[Operation, ...], points: list[dict[Value, int]], found: list[list[Piece]]) -> None:
    """Every transfer with the pieces that it moves over all iterations of the loops around it."""
    constants: dict[Value, int] = {}
    for op in operations:
        match op:
            case arith.Constant():
                constants[op.results[0]] = int(op.attributes["value"].value)  # type: ignore[attr-defined]
                points = [{**point, **constants} for point in points]
            case scf.For():
                inside = [
                    {**point, op.induction_variable: n}
                    for point in points
                    for n in range(point[op.lower], point[op.upper], point[op.step])
                ]
                walk(op.body.block.operations, inside, found)
            case DataTransfer():
                size = op.source_cell.static_sizes[-1]
                assert op.dest_cell.static_sizes[-1] == size
                found.append([(at(op.source_cell, p), at(op.dest_cell, p), size) for p in points])
            case _:
                pass


def at(cell: Cell, values: dict[Value, int]) -> tuple[int, ...]:
    assert cell.map is not None
    return cell.map.evaluate([values[index] for index in cell.indices], [])


def have_equal_pieces(columns: int, lanes: int) -> bool:
    """Whether as many pieces as vectors, of one size and one distance, can cover a row: all are tried."""
    trips = -(-columns // lanes)
    for size, step in itertools.product(range(1, lanes + 1), range(1, lanes + 1)):
        covered = {n for trip in range(trips) for n in range(trip * step, trip * step + size)}
        if covered == set(range(columns)):
            return True
    return False


@given(
    rows=st.integers(1, 4),
    columns=st.integers(1, 300),
    element=st.sampled_from(list(LANES)),
    margin=st.integers(0, 3),
)
def test_every_element_arrives(rows: int, columns: int, element: str, margin: int) -> None:
    """Each element of the box is moved to its place, none beside it, in vectors, and no more of them than needed."""
    lanes = LANES[element]
    transfers = split(rows, columns, element, margin)
    if columns * rows <= lanes or columns % lanes == 0:
        assert len(transfers) == 1  # for the memories to walk
        return
    moved = set()
    for source, dest, size in itertools.chain(*transfers):
        assert 0 < size <= lanes
        assert (dest[0], dest[2] + margin) == source
        assert dest[1] == 0
        moved |= {(dest[0], dest[2] + n) for n in range(size)}
    assert moved == set(itertools.product(range(rows), range(columns)))
    assert sum(map(len, transfers)) == rows * -(-columns // lanes)


@pytest.mark.parametrize("columns", [65, 67, 96, 100, 127, 129, 130, 131, 190, 191, 193, 200, 255, 320, 513])
def test_one_request_where_equal_pieces_fit(columns: int) -> None:
    """One transfer within loops, which is one request with one latency; two only where no equal pieces fit."""
    assert len(split(3, columns)) == (1 if have_equal_pieces(columns, 64) else 2)


def test_pieces_overlap_as_little_as_possible() -> None:
    """Rows of 127: two vectors that share an element; of 191 no three fit, so a rest of 63 is copied apart."""
    assert split(1, 127) == [[((0, 0), (0, 0, 0), 64), ((0, 63), (0, 0, 63), 64)]]
    assert [[(s[1], n) for s, _, n in pieces] for pieces in split(1, 191)] == [
        [(0, 64), (64, 64)],
        [(128, 63)],
    ]
    assert [[(s[1], n) for s, _, n in pieces] for pieces in split(1, 65)] == [[(0, 33), (32, 33)]]


@given(
    box=st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3)),
    room=st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 64)),
    permuted=st.booleans(),
)
def test_whole_vectors_out_of_a_wider_array(
    box: tuple[int, int, int], room: tuple[int, int, int], permuted: bool
) -> None:
    """Where the sides advance by different distances, loops walk: then the copy is one request."""
    a, b, c = box[0], box[1], 64 * box[2]
    wide = (a + room[0], b + room[1], c + room[2])
    strides = (wide[1] * wide[2], wide[2], 1)
    if permuted:
        wide, strides = (wide[1], wide[0], wide[2]), (wide[2], wide[1] * wide[2], 1)
        a, b = b, a
    view = "x".join(map(str, wide)) + "xf16"
    text = f"""
    func.func @f(%p: index, %y: memref<{a}x{b}x{c}xf16, "L1">) {{
      %v = ktdp.construct_memory_view %p, sizes: {list(wide)}, strides: {list(strides)} {{
        coordinate_set = affine_set<(d0, d1, d2) : (d0 >= 0, d1 >= 0, d2 >= 0)>,
        memory_space = #ktdp.memory_space<global>}} : memref<{view}>
      %x = memref.memory_space_cast %v : memref<{view}> to memref<{view}, "DDR">
      ktdf.data_transfer from %x[0, 0, 0] size [{a}, {b}, {c}] to %y[0, 0, 0] size [{a}, {b}, {c}]
          : memref<{view}, "DDR">, memref<{a}x{b}x{c}xf16, "L1">
      return
    }}"""
    context = PassContext(dfsched.load_architecture("sample"), dfsched.Options())
    module = split_transfers.run(ktir.parse(text), context)
    (transfer,) = (op for op in module.walk() if isinstance(op, DataTransfer))
    found: list[list[Piece]] = []
    for function in module.operations:
        walk(function.regions[0].block.operations, [{}], found)
    size = transfer.source_cell.static_sizes
    assert size == transfer.dest_cell.static_sizes
    walked = [d for d in range(3) if size[d] > (64 if d == 2 else 1)]
    dense = (b * c, c, 1)
    assert all(strides[d] == dense[d] for d in walked)
    boxes = [tuple(range(n, n + s) for n, s in zip(first, size, strict=True)) for first, _, _ in found[0]]
    moved = [point for box in boxes for point in itertools.product(*box)]
    assert sorted(moved) == list(itertools.product(range(a), range(b), range(c)))
    assert all(source == dest for source, dest, _ in found[0])
