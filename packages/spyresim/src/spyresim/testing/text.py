"""KTIR text, piece by piece."""

from __future__ import annotations

from collections.abc import Sequence

GLOBAL = "#ktdp.memory_space<global>"
LOCAL = "#ktdp.memory_space<ct_local>"


def box(extents: Sequence[int]) -> str:
    """``affine_set<...>`` of the box [0, extents)."""
    names = [f"d{i}" for i in range(len(extents))]
    parts = [f"{n} >= 0, -{n} + {e - 1} >= 0" for n, e in zip(names, extents, strict=True)]
    return f"affine_set<({', '.join(names)}) : ({', '.join(parts) or '0 == 0'})>"


def identity(rank: int) -> str:
    names = ", ".join(f"d{i}" for i in range(rank))
    return f"affine_map<({names}) -> ({names})>"


def dims(extents: Sequence[int]) -> str:
    return "".join(f"{e}x" for e in extents)


def view(
    name: str,
    offset: str,
    shape: Sequence[int],
    type: str = "f16",
    space: str = GLOBAL,
    strides: Sequence[int] | None = None,
) -> str:
    """``%name = ktdp.construct_memory_view %offset ...``, packed unless strides are given."""
    if strides is None:
        strides = [1] * len(shape)
        for d in range(len(shape) - 2, -1, -1):
            strides[d] = strides[d + 1] * shape[d + 1]
    return (
        f"%{name} = ktdp.construct_memory_view %{offset}, sizes: {list(shape)}, strides: {list(strides)} "
        f"{{coordinate_set = {box(shape)}, memory_space = {space}}} : memref<{dims(shape)}{type}>"
    )


def tile(
    name: str,
    base: str,
    subscripts: str,
    shape: Sequence[int],
    extents: Sequence[int],
    type: str = "f16",
    set: str | None = None,
    order: str | None = None,
    result: Sequence[int] | None = None,
) -> str:
    """``%name = ktdp.construct_access_tile %base[subscripts] ...``: a box in row-major order by default."""
    return (
        f"%{name} = ktdp.construct_access_tile %{base}[{subscripts}] "
        f"{{access_tile_set = {set or box(extents)}, "
        f"access_tile_order = {order or identity(len(extents))}}} : memref<{dims(shape)}{type}> -> "
        f"!ktdp.access_tile<{dims(extents if result is None else result)}index>"
    )


def load(name: str, access: str, extents: Sequence[int], type: str = "f16") -> str:
    return f"%{name} = ktdp.load %{access} : <{dims(extents)}index> -> tensor<{dims(extents)}{type}>"


def store(name: str, access: str, extents: Sequence[int], type: str = "f16") -> str:
    return f"ktdp.store %{name}, %{access} : tensor<{dims(extents)}{type}>, <{dims(extents)}index>"


def function(
    arguments: str, lines: Sequence[str], grid: Sequence[int] | None = None, name: str = "kernel"
) -> str:
    attributes = f" attributes {{grid = {list(grid)}}}" if grid else ""
    body = "\n  ".join(lines)
    return f"func.func @{name}({arguments}){attributes} {{\n  {body}\n  return\n}}\n"


def shifted_add() -> str:
    """An add of 96x256 f16 over 32 tiles, three rows each; a scalar shifts the rows of the first operand."""
    lines = [
        "%c0 = arith.constant 0 : index",
        "%c3 = arith.constant 3 : index",
        "%t = ktdp.get_compute_tile_id : index",
        "%base = arith.muli %t, %c3 : index",
        "%row = arith.addi %base, %shift : index",
        view("av", "a", (100, 256)),
        view("bv", "b", (96, 256)),
        view("cv", "c", (96, 256)),
        tile("at", "av", "%row, %c0", (100, 256), (3, 256)),
        tile("bt", "bv", "%base, %c0", (96, 256), (3, 256)),
        tile("ct", "cv", "%base, %c0", (96, 256), (3, 256)),
        load("x", "at", (3, 256)),
        load("y", "bt", (3, 256)),
        "%e = tensor.empty() : tensor<3x256xf16>",
        "%s = linalg.add ins(%x, %y : tensor<3x256xf16>, tensor<3x256xf16>) outs(%e : tensor<3x256xf16>) "
        "-> tensor<3x256xf16>",
        store("s", "ct", (3, 256)),
    ]
    return function("%a: index, %b: index, %c: index, %shift: index", lines, [32], "shifted_add")
