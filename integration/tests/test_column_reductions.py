"""Reductions in pieces whose results are used again: softmax, layer norm, means along columns and others."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

import dfsched
import ktir
import spyresim
from repository import ROOT
from spyresim.testing.text import LOCAL, dims, function, load, store, tile, view

SWEEPS = os.environ.get("SWEEPS", "") not in ("", "0")
QUAD = str(ROOT / "packages" / "dfsched" / "tests" / "devices" / "quad.mlir")
DEVICES = {"spyre": "spyre", "sample": "sample", "sample_h": "sample_h", "quad": QUAD}
SLAB, COLUMNS, ROWS = (4, 8), (8,), (12, 8)


def whole(name: str, shape: Sequence[int]) -> list[str]:
    """A view behind an argument and the tile that covers it."""
    return [
        view(f"{name}v", name, shape),
        tile(f"{name}t", f"{name}v", ", ".join("0" * len(shape)), shape, shape),
    ]


def fold(name: str, source: str, op: str, start: str, shape: Sequence[int], over: Sequence[int]) -> list[str]:
    """A reduction of a constant start, and its broadcast over what it has reduced as ``%<name>b``."""
    full = f"tensor<{dims(shape)}f16>"
    part = f"tensor<{dims([n for d, n in enumerate(shape) if d not in over])}f16>"
    return [
        f"%{name}i = arith.constant dense<{start}> : {part}",
        f"%{name} = linalg.reduce {{ arith.{op} }} ins(%{source} : {full}) outs(%{name}i : {part}) "
        f"dimensions = {list(over)}",
        f"%{name}e = tensor.empty() : {full}",
        f"%{name}b = linalg.broadcast ins(%{name} : {part}) outs(%{name}e : {full}) dimensions = {list(over)}",
    ]


def centered(shape: Sequence[int] = SLAB, over: Sequence[int] = (0,)) -> list[str]:
    """``%o``: ``%a`` less ``%m``, the sum of it."""
    return [
        *fold("m", "a", "addf", "0.0", shape, over),
        f"%o = arith.subf %a, %mb : tensor<{dims(shape)}f16>",
    ]


def softmax(shape: Sequence[int], over: int) -> list[str]:
    full = f"tensor<{dims(shape)}f16>"
    return [
        *fold("m", "a", "maximumf", "0xFC00", shape, [over]),
        f"%d = arith.subf %a, %mb : {full}",
        f"%n = math.exp %d : {full}",
        *fold("z", "n", "addf", "0.0", shape, [over]),
        f"%o = arith.divf %n, %zb : {full}",
    ]


def layer_norm(shape: Sequence[int]) -> list[str]:
    """With a scaled mean, and a variance of which the kernel takes no root."""
    full = f"tensor<{dims(shape)}f16>"
    return [
        f"%h = arith.constant dense<{1 / shape[0]}> : {full}",
        f"%s = arith.mulf %a, %h : {full}",
        *fold("m", "s", "addf", "0.0", shape, [0]),
        f"%d = arith.subf %a, %mb : {full}",
        f"%q = arith.mulf %d, %d : {full}",
        *fold("z", "q", "addf", "0.25", shape, [0]),
        f"%o = arith.mulf %d, %zb : {full}",
    ]


def kernel(shape: Sequence[int], body: Sequence[str], target: str = "y") -> str:
    """From one tensor to another of the same shape."""
    lines = [*whole("x", shape), *whole("y", shape), load("a", "xt", shape), *body]
    return function("%x: index, %y: index", [*lines, store("o", f"{target}t", shape)], [1])


def blocks(body: Sequence[str]) -> list[str]:
    """``%a`` is a block of four rows from row %r on, ``%xt`` and ``%yt`` are its tiles."""
    tiles = [tile(f"{n}t", f"{n}v", "%r, 0", ROWS, SLAB) for n in "xy"]
    return [*tiles, load("a", "xt", SLAB), *body]


def looped(before: Sequence[str], body: Sequence[str]) -> list[str]:
    constants = [f"%c{n} = arith.constant {n} : index" for n in (0, 4, 12)]
    return [*constants, *before, "scf.for %r = %c0 to %c12 step %c4 {", *body, "}"]


VIEWS = [view("xv", "x", ROWS), view("yv", "y", ROWS)]
CARRIED = [
    *VIEWS,
    *whole("z", COLUMNS),
]
SUM = [
    load("i", "zt", COLUMNS),
    "%m = linalg.reduce { arith.addf } ins(%a : tensor<4x8xf16>) outs(%i : tensor<8xf16>) dimensions = [0]",
]
ONE = [1]

KERNELS = {
    "column softmax": (kernel((4, 9), softmax((4, 9), 0)), "2"),
    "column softmax in place": (kernel(SLAB, softmax(SLAB, 0), "x"), "4"),
    "a softmax in the middle": (kernel((2, 4, 8), softmax((2, 4, 8), 1)), "2"),
    "a softmax of rows": (kernel((3, 8), softmax((3, 8), 1)), "2"),
    "layer norm": (kernel((6, 8), layer_norm((6, 8))), "3"),
    "two dimensions": (kernel((4, 2, 8), centered((4, 2, 8), (0, 1))), "4,2"),
    "everything": (kernel(SLAB, centered(SLAB, (0, 1))), "4,2"),
    "stored and used": (
        function(
            "%x: index, %y: index, %z: index",
            [
                *whole("x", SLAB),
                *whole("z", COLUMNS),
                *whole("y", SLAB),
                load("a", "xt", SLAB),
                *centered(),
                store("o", "yt", SLAB),
                store("m", "zt", COLUMNS),
            ],
            ONE,
        ),
        "2",
    ),
    "the last one is only stored": (
        function(
            "%x: index, %z: index",
            [
                *whole("x", SLAB),
                *whole("z", COLUMNS),
                load("a", "xt", SLAB),
                *centered(),
                "%q = arith.mulf %o, %o : tensor<4x8xf16>",
                *fold("v", "q", "addf", "0.0", SLAB, [0]),
                store("v", "zt", COLUMNS),
            ],
            ONE,
        ),
        "2",
    ),
    "blocks of a loop": (
        function("%x: index, %y: index", looped(VIEWS, blocks([*centered(), store("o", "yt", SLAB)])), ONE),
        "4",
    ),
    "blocks of a loop in place": (
        function("%x: index, %y: index", looped(VIEWS, blocks([*centered(), store("o", "xt", SLAB)])), ONE),
        "2",
    ),
    "a sum that a loop carries": (
        function(
            "%x: index, %y: index, %z: index",
            looped(CARRIED, blocks([*SUM, store("m", "zt", COLUMNS)])),
            ONE,
        ),
        "4",
    ),
    "a mean that a loop carries": (
        function(
            "%x: index, %y: index, %z: index",
            looped(
                CARRIED,
                blocks(
                    [
                        *SUM,
                        "%h = arith.constant dense<0.5> : tensor<8xf16>",
                        "%n = arith.mulf %m, %h : tensor<8xf16>",
                        "%e = tensor.empty() : tensor<4x8xf16>",
                        "%b = linalg.broadcast ins(%n : tensor<8xf16>) outs(%e : tensor<4x8xf16>) "
                        "dimensions = [0]",
                        "%o = arith.subf %a, %b : tensor<4x8xf16>",
                        store("n", "zt", COLUMNS),
                        store("o", "xt", SLAB),
                    ]
                ),
            ),
            ONE,
        ),
        "2",
    ),
    "blocks of a grid": (
        function(
            "%x: index, %y: index",
            [
                "%t = ktdp.get_compute_tile_id : index",
                "%c4 = arith.constant 4 : index",
                "%r = arith.muli %t, %c4 : index",
                *VIEWS,
                *blocks([*centered(), store("o", "yt", SLAB)]),
            ],
            [3],
        ),
        "2",
    ),
    "in the scratchpad of the kernel": (
        function(
            "%x: index, %y: index",
            [
                "%l = arith.constant 128 : index",
                *whole("x", SLAB),
                *whole("y", SLAB),
                view("lv", "l", SLAB, space=LOCAL),
                tile("lt", "lv", "0, 0", SLAB, SLAB),
                load("b", "xt", SLAB),
                "%c = arith.addf %b, %b : tensor<4x8xf16>",
                store("c", "lt", SLAB),
                load("a", "lt", SLAB),
                *centered(),
                store("o", "lt", SLAB),
                load("e", "lt", SLAB),
                "%f = arith.addf %e, %e : tensor<4x8xf16>",
                store("f", "yt", SLAB),
            ],
            ONE,
        ),
        "2",
    ),
}
"""Kernels and numbers of pieces."""


QUICK = {
    "column softmax": "spyre",
    "layer norm": "quad",
    "a mean that a loop carries": "sample",
    "in the scratchpad of the kernel": "sample_h",
}
"""What the default suite runs, and where."""


def cases() -> list[tuple[str, str]]:
    """Some kernels on one device each; all of them on all that can compute them with SWEEPS=1."""
    if not SWEEPS:
        return list(QUICK.items())
    found = [(name, device) for name in KERNELS for device in DEVICES]
    return [(name, device) for name, device in found if "softmax" not in name or device != "sample_h"]


@pytest.mark.parametrize(("name", "device"), cases())
def test_pieces_of_results_that_are_used_again(name: str, device: str) -> None:
    """The pass and DataflowIR give what the kernel means; every pass and level with SWEEPS=1."""
    text, chunks = KERNELS[name]
    options = dfsched.Options(settings={"reduction-dim-chunking.num-chunks": chunks})
    only = None if SWEEPS else ("reduction-dim-chunking", "dataflow")
    (found,) = spyresim.verify(ktir.parse(text), DEVICES[device], options=options, only=only)
    assert found.ok, found.first


@pytest.mark.parametrize("device", ["spyre", QUAD], ids=["spyre", "quad"])
def test_more_than_a_scratchpad_holds(device: str) -> None:
    """Operands of 4 MiB on one core: two folds in pieces, no slab."""
    shape = (32768, 64)
    options = dfsched.Options(stop_after=None if SWEEPS else "reduction-dim-chunking")
    compiled = dfsched.compile(ktir.parse(kernel(shape, softmax(shape, 0))), device, options)
    module = next(item.module for item in compiled.passes if item.name == "reduction-dim-chunking")
    assert sum(op.name == "scf.for" for op in module.walk()) == 2
