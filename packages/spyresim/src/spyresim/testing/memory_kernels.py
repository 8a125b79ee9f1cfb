"""Kernels that differ in where their operands are and how they are walked, as text: for tests of levels.

`MEMORY_KERNELS` are named texts. All arrays are small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spyresim.testing.text import LOCAL, function, load, store, tile, view

__all__ = ["MEMORY_KERNELS"]

_HEAD = (
    "%zero = arith.constant 0 : index",
    "%one = arith.constant 1 : index",
    "%two = arith.constant 2 : index",
    "%tile = ktdp.get_compute_tile_id : index",
    "%row = arith.muli %tile, %two : index",
)
_M = "tensor<2x70xf16>"
_TURNED = "affine_map<(d0, d1) -> (d1, d0)>"
_SKEWED = "affine_set<(d0, d1) : (d0 >= 0, -d0 + 1 >= 0, d1 - d0 >= 0, -d1 + d0 + 69 >= 0)>"


def _global(name: str, subscripts: str = "%row, %zero", shape: Sequence[int] = (4, 70)) -> list[str]:
    """View and tile of two rows per compute tile of a device array ``%p_name``."""
    return [
        view(f"v_{name}", f"p_{name}", shape),
        tile(f"t_{name}", f"v_{name}", subscripts, shape, (2, 70)),
    ]


def _pinned(name: str, address: int) -> list[str]:
    """View and tile of two rows in the scratchpad of every compute tile, from an element on."""
    return [
        f"%a_{name} = arith.constant {address} : index",
        view(f"v_{name}", f"a_{name}", (2, 70), space=LOCAL),
        tile(f"t_{name}", f"v_{name}", "%zero, %zero", (2, 70), (2, 70)),
    ]


def _kernel(lines: Sequence[str], pointers: str = "xy", more: str = "", grid: int = 2) -> str:
    arguments = ", ".join([f"%p_{name}: index" for name in pointers])
    return function(arguments + more, [*_HEAD, *lines], [grid])


def _memories() -> dict[str, str]:
    return {
        "pinned, then used beside an array": _kernel(
            [
                *_global("x"),
                *_pinned("k", 8192),
                *_global("y"),
                load("x", "t_x", (2, 70)),
                f"%d = arith.addf %x, %x : {_M}",
                store("d", "t_k", (2, 70)),
                load("k", "t_k", (2, 70)),
                f"%y = arith.mulf %k, %x : {_M}",
                store("y", "t_y", (2, 70)),
            ]
        ),
        "from scratchpad to scratchpad": _kernel(
            [
                *_global("x"),
                *_pinned("k", 8192),
                *_pinned("l", 16384),
                *_global("y"),
                load("x", "t_x", (2, 70)),
                f"%n = arith.negf %x : {_M}",
                store("n", "t_k", (2, 70)),
                load("k", "t_k", (2, 70)),
                f"%s = arith.addf %k, %k : {_M}",
                store("s", "t_l", (2, 70)),
                load("l", "t_l", (2, 70)),
                f"%y = arith.maximumf %l, %k : {_M}",
                store("y", "t_y", (2, 70)),
            ]
        ),
        "a row sum of what is pinned": _kernel(
            [
                *_global("x"),
                *_pinned("k", 8192),
                view("v_y", "p_y", (4,)),
                tile("t_y", "v_y", "%row", (4,), (2,)),
                load("x", "t_x", (2, 70)),
                f"%n = arith.negf %x : {_M}",
                store("n", "t_k", (2, 70)),
                load("k", "t_k", (2, 70)),
                "%z = arith.constant dense<0.0> : tensor<2xf16>",
                f"%y = linalg.reduce {{ arith.maximumf }} ins(%k : {_M}) outs(%z : tensor<2xf16>) "
                "dimensions = [1]",
                store("y", "t_y", (2,)),
            ]
        ),
        "in place": _kernel(
            [
                *_global("x"),
                load("x", "t_x", (2, 70)),
                f"%y = arith.addf %x, %x : {_M}",
                store("y", "t_x", (2, 70)),
            ],
            "x",
        ),
        "one array read twice": _kernel(
            [
                view("v_x", "p_x", (6, 70)),
                tile("t_x", "v_x", "%row, %zero", (6, 70), (2, 70)),
                "%next = arith.addi %row, %two : index",
                tile("t_n", "v_x", "%next, %zero", (6, 70), (2, 70)),
                *_global("y"),
                load("x", "t_x", (2, 70)),
                load("n", "t_n", (2, 70)),
                f"%y = arith.subf %n, %x : {_M}",
                store("y", "t_y", (2, 70)),
            ]
        ),
    }


def _tiles() -> dict[str, str]:
    strided = "affine_set<(d0, d1) : (d0 >= 0, -d0 + 1 >= 0, d1 >= 0, -d1 + 138 >= 0, d1 mod 2 == 0)>"
    return {
        "every second column": _kernel(
            [
                view("v_x", "p_x", (4, 140)),
                tile("t_x", "v_x", "%row, %zero", (4, 140), (2, 70), set=strided),
                *_global("y"),
                load("x", "t_x", (2, 70)),
                f"%y = arith.negf %x : {_M}",
                store("y", "t_y", (2, 70)),
            ]
        ),
        "a tile in the other order": _kernel(
            [
                view("v_x", "p_x", (70, 4)),
                tile("t_x", "v_x", "%zero, %row", (70, 4), (70, 2), order=_TURNED, result=(2, 70)),
                *_global("y"),
                load("x", "t_x", (2, 70)),
                f"%y = arith.addf %x, %x : {_M}",
                store("y", "t_y", (2, 70)),
            ]
        ),
        "a skewed tile": _kernel(
            [
                view("v_x", "p_x", (4, 72)),
                tile("t_x", "v_x", "%row, %zero", (4, 72), (2, 70), set=_SKEWED),
                *_global("y"),
                load("x", "t_x", (2, 70)),
                f"%y = arith.negf %x : {_M}",
                store("y", "t_y", (2, 70)),
            ]
        ),
    }


def _addresses() -> dict[str, str]:
    row = [
        load("x", "t_x", (2, 70)),
        f"%y = arith.mulf %x, %x : {_M}",
        store("y", "t_y", (2, 70)),
    ]
    return {
        "a start for every tile": _kernel(
            [
                "%k = arith.constant 140 : index",
                "%o = arith.muli %tile, %k : index",
                "%s_x = arith.addi %p_x, %o : index",
                view("v_x", "s_x", (2, 70)),
                tile("t_x", "v_x", "%zero, %zero", (2, 70), (2, 70)),
                *_global("y"),
                *row,
            ]
        ),
        "a start behind the first rows": _kernel(
            [
                "%k = arith.constant 140 : index",
                "%s_x = arith.addi %p_x, %k : index",
                view("v_x", "s_x", (4, 70)),
                tile("t_x", "v_x", "%row, %zero", (4, 70), (2, 70)),
                *_global("y"),
                *row,
            ]
        ),
        "a transposed start": _kernel(
            [
                "%k = arith.constant 3 : index",
                "%s_x = arith.addi %p_x, %k : index",
                view("v_x", "s_x", (70, 4)),
                tile(
                    "t_x",
                    "v_x",
                    "%zero, %row",
                    (70, 4),
                    (70, 2),
                    order="affine_map<(d0, d1) -> (d1, d0)>",
                    result=(2, 70),
                ),
                *_global("y"),
                *row,
            ]
        ),
        "a skewed tile from an odd element on": _kernel(
            [
                "%k = arith.constant 9 : index",
                "%o = arith.muli %tile, %k : index",
                "%s_x = arith.addi %p_x, %o : index",
                view("v_x", "s_x", (4, 72)),
                tile("t_x", "v_x", "%zero, %zero", (4, 72), (2, 70), set=_SKEWED),
                *_global("y"),
                *row,
            ]
        ),
        "stores from an odd element on": _kernel(
            [
                "%k = arith.constant 141 : index",
                "%o = arith.muli %tile, %k : index",
                "%s_y = arith.addi %p_y, %o : index",
                view("v_y", "s_y", (2, 70)),
                tile("t_y", "v_y", "%zero, %zero", (2, 70), (2, 70)),
                *_global("x"),
                *row,
            ]
        ),
        "constant addresses": _kernel(
            [
                "%p_x = arith.constant 1024 : index",
                "%p_y = arith.constant 4096 : index",
                *_global("x"),
                *_global("y"),
                *row,
            ],
            "",
        ),
        "constant addresses within words": _kernel(
            [
                "%p_x = arith.constant 1027 : index",
                "%p_y = arith.constant 4101 : index",
                *_global("x"),
                *_global("y"),
                *row,
            ],
            "",
        ),
        "rows from a scalar argument on": _kernel(
            [
                "%first = arith.addi %row, %shift : index",
                *_global("x", "%first, %zero", (8, 70)),
                *_global("y"),
                *row,
            ],
            more=", %shift: index",
        ),
        "loops in loops": _kernel(
            [
                "%three = arith.constant 3 : index",
                "scf.for %i = %zero to %two step %one {",
                "scf.for %j = %zero to %three step %one {",
                "%n = arith.muli %i, %three : index",
                "%m = arith.addi %n, %j : index",
                "%twelve = arith.constant 12 : index",
                "%base = arith.muli %tile, %twelve : index",
                "%r2 = arith.muli %m, %two : index",
                "%r = arith.addi %base, %r2 : index",
                *_global("x", "%r, %zero", (24, 70)),
                *_global("y", "%r, %zero", (24, 70)),
                *row,
                "}",
                "}",
            ]
        ),
    }


MEMORY_KERNELS: Mapping[str, str] = {**_memories(), **_tiles(), **_addresses()}
"""Kernels by name."""
