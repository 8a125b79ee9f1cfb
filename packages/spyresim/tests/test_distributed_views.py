"""Boxes of distributed views: part by part is the same as point by point, and as NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ktir
from spyresim import run_ktir
from spyresim.errors import ConflictFault
from spyresim.sequential import kernels
from spyresim.testing import text as k

ROWS, COLUMNS = 12, 10


@attrs.frozen
class Case:
    """Cuts of rows and columns into parts; for each of three tiles the corner of the box that it touches."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    corners: tuple[tuple[int, int], ...]
    extents: tuple[int, int]
    swapped: bool

    def bands(self) -> list[tuple[int, int, int, int]]:
        """Parts as inclusive bounds: rows, columns."""
        rows, columns = [0, *self.rows, ROWS], [0, *self.columns, COLUMNS]
        return [
            (a, b - 1, c, d - 1) for a, b in itertools.pairwise(rows) for c, d in itertools.pairwise(columns)
        ]

    def text(self, store: bool) -> str:
        """Loads boxes of the distributed view into `q`, or stores what is in `q` there and reads all parts."""
        bands = self.bands()
        lines = [
            "%z = arith.constant 0 : index",
            "%t = ktdp.get_compute_tile_id : index",
            k.view("cv", "c", (3, 2), "i32"),
            k.tile("ct", "cv", "%t, %z", (3, 2), (1, 2), "i32"),
            k.load("corner", "ct", (1, 2), "i32"),
            "%one = arith.constant 1 : index",
            "%ri = tensor.extract %corner[%z, %z] : tensor<1x2xi32>",
            "%ci = tensor.extract %corner[%z, %one] : tensor<1x2xi32>",
            "%r = arith.index_cast %ri : i32 to index",
            "%s = arith.index_cast %ci : i32 to index",
        ]
        names = []
        for number, (a, b, c, d) in enumerate(bands):
            shape = (b - a + 1, d - c + 1)
            set = f"affine_set<(r, c) : (r - {a} >= 0, -r + {b} >= 0, c - {c} >= 0, -c + {d} >= 0)>"
            lines.append(
                f"%part{number} = ktdp.construct_memory_view %p{number}, sizes: {list(shape)}, strides: "
                f"[{shape[1]}, 1] {{coordinate_set = {set}, memory_space = {k.GLOBAL}}} : "
                f"memref<{shape[0]}x{shape[1]}xf32>"
            )
            names.append(f"memref<{shape[0]}x{shape[1]}xf32>")
        parts = ", ".join(f"%part{n}" for n in range(len(bands)))
        lines.append(
            f"%d = ktdp.construct_distributed_memory_view({parts} : {', '.join(names)}) : "
            f"memref<{ROWS}x{COLUMNS}xf32>"
        )
        result = self.extents[::-1] if self.swapped else self.extents
        order = "affine_map<(a, b) -> (b, a)>" if self.swapped else None
        lines += [
            k.tile("dt", "d", "%r, %s", (ROWS, COLUMNS), self.extents, "f32", order=order, result=result),
            k.view("qv", "q", (3, *result), "f32"),
            k.tile("qt", "qv", "%t, %z, %z", (3, *result), (1, *result), "f32"),
        ]
        flat, whole = f"tensor<{result[0]}x{result[1]}xf32>", f"tensor<1x{result[0]}x{result[1]}xf32>"
        if store:
            lines += [
                k.load("w", "qt", (1, *result), "f32"),
                f"%x = tensor.collapse_shape %w [[0, 1], [2]] : {whole} into {flat}",
                k.store("x", "dt", result, "f32"),
            ]
        else:
            lines += [
                k.load("x", "dt", result, "f32"),
                f"%w = tensor.expand_shape %x [[0, 1], [2]] output_shape [1, {result[0]}, {result[1]}] : {flat} "
                f"into {whole}",
                k.store("w", "qt", (1, *result), "f32"),
            ]
        arguments = ", ".join([*(f"%p{n}: index" for n in range(len(bands))), "%c: index", "%q: index"])
        return k.function(arguments, lines, [3])

    def arguments(self, whole: Any) -> dict[str, Any]:
        given = {f"p{n}": whole[a : b + 1, c : d + 1].copy() for n, (a, b, c, d) in enumerate(self.bands())}
        return {**given, "c": np.array(self.corners, np.int32)}


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rows = draw(st.lists(st.integers(1, ROWS - 1), max_size=3, unique=True))
    columns = draw(st.lists(st.integers(1, COLUMNS - 1), max_size=2, unique=True))
    extents = (draw(st.integers(1, ROWS)), draw(st.integers(1, COLUMNS)))
    corner = st.tuples(st.integers(0, ROWS - extents[0]), st.integers(0, COLUMNS - extents[1]))
    corners = draw(st.lists(corner, min_size=3, max_size=3))
    return Case(tuple(sorted(rows)), tuple(sorted(columns)), tuple(corners), extents, draw(st.booleans()))


def box(case: Case, whole: Any, tile: int) -> Any:
    row, column = case.corners[tile]
    part = whole[row : row + case.extents[0], column : column + case.extents[1]]
    return part.T if case.swapped else part


WHOLE = np.random.default_rng(3).normal(size=(ROWS, COLUMNS)).astype(np.float32)


@pytest.mark.sweep(default=20, full=500)
@given(case=cases())
def test_loads(case: Case) -> None:
    """ktir checklist 39. Boxes that cross any number of parts, transposed or not, at another place in each tile."""
    module = ktir.parse(case.text(store=False))
    ktir.verify(module)
    got = run_ktir(module, args=case.arguments(WHOLE), strict=True)
    assert np.array_equal(got.outputs["q"], np.stack([box(case, WHOLE, tile) for tile in range(3)]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "load_box", lambda *arguments: None)
        points = run_ktir(module, args=case.arguments(WHOLE), strict=True)
    assert np.array_equal(points.outputs["q"], got.outputs["q"])
    assert got.report.counters == points.report.counters


@pytest.mark.sweep(default=20, full=500)
@given(case=cases(), data=st.data())
def test_stores(case: Case, data: st.DataObject) -> None:
    """ktir checklist 39. Each tile writes its box and nothing else; different numbers in one place are a conflict."""
    module = ktir.parse(case.text(store=True))
    ktir.verify(module)
    after = WHOLE.copy()
    fill = np.arange(3) if data.draw(st.booleans()) else np.zeros(3)
    shape = case.extents[::-1] if case.swapped else case.extents
    q = np.broadcast_to(fill.astype(np.float32)[:, None, None], (3, *shape)).copy()
    touched = np.zeros(WHOLE.shape, np.int64)
    for tile in range(3):
        box(case, after, tile)[...] = fill[tile]
        box(case, touched, tile)[...] += 1
    arguments = {**case.arguments(WHOLE), "q": q}
    if fill.any() and (touched > 1).any():
        with pytest.raises(ConflictFault):
            run_ktir(module, args=arguments, strict=True)
        return
    got = run_ktir(module, args=arguments, strict=True).outputs
    for name, part in case.arguments(after).items():
        if name in got:
            assert np.array_equal(got[name], part)
