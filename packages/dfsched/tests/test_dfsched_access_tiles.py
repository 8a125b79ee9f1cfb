"""Access tiles as lattices, and `split-access-tiles`: sets against enumeration, text in and text out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dfsched
import ktir
from dfsched.passes import split_access_tiles
from dfsched.passes.base import PassContext
from dfsched.passes.tile_lattices import lattice_of, ordered_points
from ktir.dialects import func, ktdp, scf

GLOBAL = "#ktdp.memory_space<global>"
LOWER = "affine_set<(r, c) : (r >= 0, -r + 11 >= 0, c >= 0, r - c >= 0)>"
UPPER = "affine_set<(r, c) : (r >= 0, -c + 11 >= 0, c - r >= 0)>"
ID, SWAP = "affine_map<(r, c) -> (r, c)>", "affine_map<(r, c) -> (c, r)>"


def tile_of(points: str, shape: tuple[int, ...], order: str = ID) -> ktdp.ConstructAccessTile:
    sizes = "x".join(str(n) for n in shape)
    text = (
        f'%v = "v"() : () -> memref<40x40xf16>\n%t = ktdp.construct_access_tile %v[0, 0] {{access_tile_set = '
        f"{points}, access_tile_order = {order}}} : memref<40x40xf16> -> !ktdp.access_tile<{sizes}xindex>\n"
    )
    module = ktir.parse(f"func.func @k() {{\n{text}return\n}}")
    (found,) = (op for op in module.walk() if isinstance(op, ktdp.ConstructAccessTile))
    return found


@given(st.data())
def test_lattices_are_the_enumerated_points(data: st.DataObject) -> None:
    """Boxes with a step, skewed by a factor, in both orders: element (i, j) is where the sorted list has it."""
    rows, columns = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 6))
    step, first, slope = (data.draw(st.integers(*ends)) for ends in ((1, 3), (0, 4), (-2, 2)))
    turned = data.draw(st.booleans())
    low = f"c - {slope} * r - {first}"
    points = (
        f"affine_set<(r, c) : (r >= 0, -r + {rows - 1} >= 0, {low} >= 0, "
        f"-({low}) + {step * (columns - 1)} >= 0, ({low}) mod {step} == 0)>"
    )
    shape = (columns, rows) if turned and not slope else (rows, columns)
    tile = tile_of(points, shape, SWAP if turned and not slope else ID)
    lattice = lattice_of(tile)
    assert lattice is not None
    expected = ordered_points(tile)
    found = [
        np.array(lattice.start) + sum(n * np.array(s) for n, s in zip(index, lattice.steps, strict=True))
        for index in itertools.product(*map(range, shape))
    ]
    np.testing.assert_array_equal(np.array(found), expected)
    strides = (40, 1)
    assert lattice.strides(strides) == tuple(s[0] * 40 + s[1] for s in lattice.steps)
    if not lattice.goes_backwards:
        np.testing.assert_array_equal(expected.max(axis=0) - expected.min(axis=0), lattice.spans)


def test_orders() -> None:
    """A box has an order of dimensions; steps of two or of two dimensions at once are none."""
    box = "affine_set<(r, c) : (r >= 0, -r + 2 >= 0, c >= 0, -c + 3 >= 0)>"
    lattice = lattice_of(tile_of(box, (3, 4)))
    assert lattice is not None
    assert lattice.order == (0, 1)
    lattice = lattice_of(tile_of(box, (4, 3), SWAP))
    assert lattice is not None
    assert lattice.order == (1, 0)
    even = box.replace("-c + 3 >= 0", "-c + 6 >= 0, c mod 2 == 0")
    lattice = lattice_of(tile_of(even, (3, 4)))
    assert lattice is not None
    assert lattice.order is None
    assert lattice_of(tile_of(LOWER, (78, 1))) is None


def test_a_type_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(dfsched.ScheduleError, match="has 78 points, but its type is"):
        lattice_of(tile_of(LOWER, (78, 2)))
    box = "affine_set<(r, c) : (r >= 0, -r + 2 >= 0, c >= 0, -c + 3 >= 0)>"
    with pytest.raises(dfsched.ScheduleError, match=r"has extents \[3, 4\], but its type is"):
        lattice_of(tile_of(box, (4, 3)))
    wide = "affine_set<(r, c) : (r >= 0, -r + 1999 >= 0, c >= 0, r - c >= 0)>"
    with pytest.raises(dfsched.UnsupportedKernel, match="that is no box may have at most 1048576 elements"):
        lattice_of(tile_of(wide, (2001000, 1)))


# -- split-access-tiles


def access(name: str, points: str = LOWER, order: str = ID, shape: str = "78x1", start: str = "0, 0") -> str:
    return (
        f"%{name}v = ktdp.construct_memory_view %{name}, sizes: [40, 40], strides: [40, 1] {{coordinate_set = "
        f"affine_set<(r, c) : (r >= 0, -r + 39 >= 0, c >= 0, -c + 39 >= 0)>, memory_space = {GLOBAL}}} "
        f": memref<40x40xf16>\n%{name}t = ktdp.construct_access_tile %{name}v[{start}] {{access_tile_set = "
        f"{points}, access_tile_order = {order}}} : memref<40x40xf16> -> !ktdp.access_tile<{shape}xindex>\n"
    )


def kernel(*lines: str) -> ktir.Module:
    return ktir.parse(f"func.func @k(%a: index, %b: index) {{\n{''.join(lines)}return\n}}")


def group(compute: str = "%y = arith.addf %x, %x : tensor<78x1xf16>\n", shape: str = "78x1") -> str:
    return (
        f"%x = ktdp.load %at : <{shape}xindex> -> tensor<{shape}xf16>\n{compute}"
        f"ktdp.store %y, %bt : tensor<{shape}xf16>, <{shape}xindex>\n"
    )


def split(module: ktir.Module) -> func.Func:
    new = split_access_tiles.run(module, PassContext(dfsched.load_architecture("sample")))
    ktir.verify(new)
    (found,) = (op for op in new.walk() if isinstance(op, func.Func))
    return found


def test_a_triangle_is_a_loop_over_rows() -> None:
    """One loop over the rows, inside of it one for each size of tiles; every tile left is a lattice."""
    function = split(kernel(access("a"), access("b"), group()))
    outer = [op for op in function.body.block.operations if isinstance(op, scf.For)]
    assert len(outer) == 1
    inner = [op for op in outer[0].body.block.operations if isinstance(op, scf.For)]
    assert len(inner) == 2
    shapes = [op.results[0].type.shape for op in function.walk() if isinstance(op, ktdp.Load)]
    assert shapes == [(1, 8), (1, 1)]
    tiles = [op for op in function.walk() if isinstance(op, ktdp.ConstructAccessTile)]
    assert all(lattice_of(tile) is not None for tile in tiles)


def test_boxes_are_left_alone() -> None:
    box = "affine_set<(r, c) : (r >= 0, -r + 11 >= 0, c >= 0, -c + 5 >= 0)>"
    module = kernel(
        *(access(name, box, shape="12x6") for name in "ab"),
        group("%y = math.exp %x : tensor<12x6xf16>\n", "12x6"),
    )
    context = PassContext(dfsched.load_architecture("sample"))
    assert split_access_tiles.run(module, context) is module
    ragged = kernel(access("a"), access("b"), group())
    v1 = PassContext(dfsched.load_architecture("sample"), dfsched.Options(profile="v1"))
    assert split_access_tiles.run(ragged, v1) is ragged


REFUSED = {
    "reduction of nothing": (
        access("a")
        + access("b")
        + group(
            "%z = arith.constant dense<0.0> : tensor<78xf16>\n"
            "%s = linalg.reduce { arith.addf } ins(%x : tensor<78x1xf16>) outs(%z : tensor<78xf16>) "
            "dimensions = [1]\n%y = tensor.expand_shape %s [[0, 1]] output_shape [78, 1] : tensor<78xf16> into "
            "tensor<78x1xf16>\n"
        ),
        "only element-wise operations and reductions of all elements are supported",
    ),
    "in place, turned": (
        access("a") + access("a", UPPER, SWAP).replace("%at", "%bt").replace("%av", "%bv") + group(),
        "a compute group that is cut into parts overwrites memory that it also touches elsewhere",
    ),
    "steps of two dimensions": (
        access(
            "a",
            "affine_set<(r, c) : (r >= 0, -r + 9 >= 0, c - r >= 0, r - c + r floordiv 9 >= 0)>",
            shape="11x1",
        )
        + access("b", "affine_set<(r, c) : (r >= 0, -r + 10 >= 0, c == 0)>", shape="11x1")
        + group("%y = arith.addf %x, %x : tensor<11x1xf16>\n", "11x1"),
        "the rows of the access tile run in steps of [1, 1], not along one dimension",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_split_is_said_at_its_place(name: str) -> None:
    text, message = REFUSED[name]
    with pytest.raises(dfsched.UnsupportedKernel) as caught:
        dfsched.compile(kernel(text), "sample", dfsched.Options(verify=False))
    (diagnostic,) = caught.value.diagnostics
    assert message in diagnostic.message
    assert diagnostic.location is not None
    assert diagnostic.location.file_line_column() is not None


EVEN = "affine_set<(r, c) : (r >= 0, -r + 2 >= 0, c >= 0, -c + 18 >= 0, c mod 2 == 0)>"


@pytest.mark.parametrize(
    ("start", "apart"), [("0, 1", True), ("0, 3", True), ("0, 2", False), ("3, 2", True)]
)
def test_sets_that_miss_each_other(start: str, apart: bool) -> None:
    """Odd columns computed from even ones of the same rows; columns that are both are refused."""
    lines = access("a", EVEN, shape="3x10") + access("a", EVEN, shape="3x10", start=start).replace(
        "%at", "%bt"
    ).replace("%av", "%bv")
    text = lines + group("%y = arith.addf %x, %x : tensor<3x10xf16>\n", "3x10")
    module = kernel(text.replace("%bv = ktdp", "%unused = ktdp").replace("%bv[", "%av["))
    if apart:
        dfsched.compile(module, "sample", dfsched.Options(emit="schedule"))
        return
    with pytest.raises(
        dfsched.UnsupportedKernel, match="overwrites memory that it also reads in another order"
    ):
        dfsched.compile(module, "sample", dfsched.Options(emit="schedule"))
