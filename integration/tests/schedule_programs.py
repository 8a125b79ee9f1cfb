"""The ten programs whose schedules are broken: one for each way in which units of a pipeline meet.

`PROGRAMS` are KTIR texts by name, `PINS` what is chosen by hand for some of them. All run on two tiles or one, and
small enough for an independent reading of everything that their units do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spyresim.testing.compute_kernels import SOFTMAX
from spyresim.testing.random_kernels import Operand, RandomKernel, Step
from spyresim.testing.text import dims, function, load, store, tile, view

CREDITS = "credits"
"""The program whose load and store units run ahead over three copies of every buffer."""
PINS: Mapping[str, Mapping[str, object]] = {
    CREDITS: {"tile_sizes": (2, 2), "buffer_depths": 3, "instances": 1}
}

FULL, ROW, COLUMN = Operand((True, True)), Operand((False, True)), Operand((True, False))


def _element_wise(steps: tuple[Step, ...], operands: tuple[Operand, ...], **more: Any) -> str:
    settings = {"dtype": "f16", "block": (2, 256), "grid": (2,), "fused": True, "loop": True, "shift": False}
    return RandomKernel(steps=steps, operands=operands, **{**settings, **more}).text


TURNS = 3


def _rows_in_a_loop(
    body: Sequence[str],
    arrays: Mapping[str, tuple[str, str]],
    block: tuple[int, int] = (2, 130),
    type: str = "f16",
    tiles: int = 2,
) -> str:
    """`TURNS` blocks per tile, one after the other: ``%M`` is the type of a block, ``%R`` of one value per row.

    `arrays` by name: "load" before the body, "store" behind it, or "tile" for what the body accesses itself; and
    "block", "rows" (one value per row) or "columns" (one row, the same for all blocks).
    """
    rows, columns = block
    total = rows * TURNS * tiles
    shapes = {
        "block": ((total, columns), block, "%r, %zero"),
        "rows": ((total,), (rows,), "%r"),
        "columns": ((columns,), (columns,), "%zero"),
    }
    lines = [
        "%zero = arith.constant 0 : index",
        "%one = arith.constant 1 : index",
        f"%turns = arith.constant {TURNS} : index",
        f"%height = arith.constant {rows} : index",
        "%tile = ktdp.get_compute_tile_id : index",
        "%first = arith.muli %tile, %turns : index",
        *(view(f"v_{name}", f"p_{name}", shapes[kind][0], type) for name, (_, kind) in arrays.items()),
        "scf.for %s = %zero to %turns step %one {",
        "%turn = arith.addi %first, %s : index",
        "%r = arith.muli %turn, %height : index",
    ]
    for name, (access, kind) in arrays.items():
        shape, extents, start = shapes[kind]
        lines.append(tile(f"t_{name}", f"v_{name}", start, shape, extents, type))
        if access == "load":
            lines.append(load(name, f"t_{name}", extents, type))
    full, row = f"tensor<{dims(block)}{type}>", f"tensor<{rows}x{type}>"
    lines += [line.replace("%M", full).replace("%R", row) for line in body]
    stored = {name: shapes[kind][1] for name, (access, kind) in arrays.items() if access == "store"}
    lines += [store(name, f"t_{name}", extents, type) for name, extents in stored.items()]
    return function(", ".join(f"%p_{name}: index" for name in arrays), [*lines, "}"], [tiles])


_SPREAD = "linalg.broadcast ins({} : %R) outs(%e : %M) dimensions = [1]"
_SUM = "linalg.reduce {{ arith.addf }} ins({} : %M) outs(%none : %R) dimensions = [1]"
_START = ("%none = arith.constant dense<0.0> : %R", "%e = tensor.empty() : %M")

_CENTRED = (
    *_START,
    f"%s2 = {_SUM.format('%x')}",
    f"%sb = {_SPREAD.format('%s2')}",
    "%y = arith.subf %x, %sb : %M",
    "%z = arith.subf %s2, %w : %R",
)

_LAYER_NORM = (
    *_START,
    "%share = arith.constant dense<0.007> : %R",
    "%eps = arith.constant dense<0.00001> : %R",
    f"%total = {_SUM.format('%x')}",
    "%mean = arith.mulf %total, %share : %R",
    f"%meanb = {_SPREAD.format('%mean')}",
    "%d = arith.subf %x, %meanb : %M",
    "%dd = arith.mulf %d, %d : %M",
    f"%q = {_SUM.format('%dd')}",
    "%var = arith.mulf %q, %share : %R",
    "%vare = arith.addf %var, %eps : %R",
    "%root = math.rsqrt %vare : %R",
    f"%rb = {_SPREAD.format('%root')}",
    "%n = arith.mulf %d, %rb : %M",
    "%gb = linalg.broadcast ins(%g : tensor<130xf32>) outs(%e : %M) dimensions = [0]",
    "%hb = linalg.broadcast ins(%h : tensor<130xf32>) outs(%e : %M) dimensions = [0]",
    "%ng = arith.mulf %n, %gb : %M",
    "%y = arith.addf %ng, %hb : %M",
)

_FETCH = "%{} = ktdp.load %t_{} : <2x130xindex> -> %M"
_PUT = "ktdp.store %{}, %t_{} : %M, <2x130xindex>"

_CONDITIONS = (
    "%two = arith.constant 2 : index",
    "%rest = arith.remui %s, %two : index",
    "%even = arith.cmpi eq, %rest, %zero : index",
    "scf.if %even {",
    _FETCH.format("x", "x"),
    _FETCH.format("w", "w"),
    _FETCH.format("v", "v"),
    "%d = arith.subf %x, %w : %M",
    "%p = arith.mulf %d, %v : %M",
    _PUT.format("p", "y"),
    "} else {",
    _FETCH.format("x2", "x"),
    _FETCH.format("w2", "w"),
    _FETCH.format("v2", "v"),
    "%d2 = arith.subf %v2, %x2 : %M",
    "%p2 = arith.mulf %d2, %w2 : %M",
    _PUT.format("p2", "y"),
    "}",
)

_TWICE = (
    "%d = arith.subf %x, %w : %M",
    _PUT.format("d", "y"),
    _FETCH.format("a", "y"),
    "%z = arith.subf %a, %x : %M",
)

_WIDE = "tensor<2x130xf32>"
_RMS_NORM = (
    "%none = arith.constant dense<0.0> : tensor<2xf32>",
    "%share = arith.constant dense<0.007> : tensor<2xf32>",
    f"%wide = arith.extf %x : %M to {_WIDE}",
    f"%squares = arith.mulf %wide, %wide : {_WIDE}",
    f"%q = linalg.reduce {{ arith.addf }} ins(%squares : {_WIDE}) outs(%none : tensor<2xf32>) dimensions = [1]",
    "%mean = arith.mulf %q, %share : tensor<2xf32>",
    "%root = math.rsqrt %mean : tensor<2xf32>",
    f"%e = tensor.empty() : {_WIDE}",
    f"%rb = linalg.broadcast ins(%root : tensor<2xf32>) outs(%e : {_WIDE}) dimensions = [1]",
    f"%n = arith.mulf %wide, %rb : {_WIDE}",
    f"%narrow = arith.truncf %n : {_WIDE} to %M",
    "%f = tensor.empty() : %M",
    "%gb = linalg.broadcast ins(%g : tensor<130xf16>) outs(%f : %M) dimensions = [0]",
    "%y = arith.mulf %narrow, %gb : %M",
)

_TWO_RESULTS = (
    "%less = arith.cmpf olt, %x, %w : %M",
    "%d = arith.subf %x, %w : %M",
    "%y = arith.select %less, %d, %x : tensor<2x130xi1>, %M",
    "%z = arith.subf %d, %v : %M",
)

BLOCK, STORED, TILE = ("load", "block"), ("store", "block"), ("tile", "block")

PROGRAMS: Mapping[str, str] = {
    "four streams": _element_wise(
        (Step("sub", 0, 1), Step("sub", 2, 3), Step("mul", 4, 5), Step("sub", 6, 0)),
        (FULL, FULL, ROW, COLUMN),
    ),
    "ragged": _element_wise(
        (Step("mul", 0, 1), Step("sub", 3, 2), Step("sub", 4, 0)), (FULL, ROW, FULL), block=(2, 130)
    ),
    CREDITS: _element_wise((Step("sub", 0, 1),), (FULL, FULL), block=(14, 128), grid=(1,), loop=False),
    "reduction": _rows_in_a_loop(
        _CENTRED, {"x": BLOCK, "w": ("load", "rows"), "y": STORED, "z": ("store", "rows")}
    ),
    "softmax": _rows_in_a_loop(SOFTMAX, {"x": BLOCK, "y": STORED}),
    "layer norm": _rows_in_a_loop(
        _LAYER_NORM, {"x": BLOCK, "g": ("load", "columns"), "h": ("load", "columns"), "y": STORED}, type="f32"
    ),
    "rms norm": _rows_in_a_loop(_RMS_NORM, {"x": BLOCK, "g": ("load", "columns"), "y": STORED}),
    "two results": _rows_in_a_loop(
        _TWO_RESULTS, {"x": BLOCK, "w": BLOCK, "v": BLOCK, "y": STORED, "z": STORED}
    ),
    "conditions": _rows_in_a_loop(_CONDITIONS, {"x": TILE, "w": TILE, "v": TILE, "y": TILE}),
    "twice": _rows_in_a_loop(_TWICE, {"x": BLOCK, "w": BLOCK, "y": TILE, "z": STORED}),
}
"""Texts by name."""
