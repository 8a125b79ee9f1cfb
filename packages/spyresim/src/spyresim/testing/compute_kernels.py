"""Kernels of every kind of computation that the scheduler takes, as text: for tests of levels and devices.

`KERNELS` are named texts. All arrays are small.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import attrs

from spyresim.testing.text import dims, function, load, store, tile, view

__all__ = ["KERNELS", "SOFTMAX", "Array", "chain", "generic", "kernel", "reduction", "row_kernel"]


@attrs.frozen
class Array:
    """An array argument: shape over all tiles, element type, whether tiles split the first dimension."""

    shape: tuple[int, ...]
    type: str = "f16"
    split: bool = True
    strides: tuple[int, ...] | None = None

    def block(self, tiles: int) -> tuple[int, ...]:
        """The shape that one tile has."""
        return (self.shape[0] // tiles, *self.shape[1:]) if self.split and self.shape else self.shape

    def tensor(self, tiles: int) -> str:
        """The tensor type of one tile."""
        return f"tensor<{dims(self.block(tiles))}{self.type}>"


def kernel(
    inputs: Mapping[str, Array],
    outputs: Mapping[str, Array],
    body: Sequence[str],
    tiles: int = 2,
    scalars: Iterable[str] = (),
) -> str:
    """A kernel over `tiles` tiles: loads of inputs as ``%name``, the body, stores of ``%name`` for outputs.

    Array arguments are ``%p_name``; `scalars` are further arguments with their types.
    """
    arrays = {**inputs, **outputs}
    lines = ["%zero = arith.constant 0 : index", "%tile = ktdp.get_compute_tile_id : index"]
    for name, array in arrays.items():
        block = array.block(tiles)
        start = []
        if array.shape:
            start = ["%zero"] * len(array.shape)
        if array.split and array.shape:
            lines.append(f"%n_{name} = arith.constant {block[0]} : index")
            lines.append(f"%b_{name} = arith.muli %tile, %n_{name} : index")
            start[0] = f"%b_{name}"
        lines.append(view(f"v_{name}", f"p_{name}", array.shape, array.type, strides=array.strides))
        lines.append(tile(f"t_{name}", f"v_{name}", ", ".join(start), array.shape, block, array.type))
    for name, array in inputs.items():
        lines.append(load(name, f"t_{name}", array.block(tiles), array.type))
    lines += body
    for name, array in outputs.items():
        lines.append(store(name, f"t_{name}", array.block(tiles), array.type))
    arguments = [f"%p_{name}: index" for name in arrays]
    return function(", ".join([*arguments, *scalars]), lines, [tiles])


def reduction(
    shape: tuple[int, ...],
    over: Sequence[int],
    op: str = "arith.addf",
    type: str = "f16",
    init: str = "0.0",
    tiles: int = 2,
) -> str:
    """``linalg.reduce`` of one array."""
    split = 0 not in over
    x = Array(shape, type, split)
    y = Array(tuple(n for d, n in enumerate(shape) if d not in over), type, split)
    return kernel(
        {"x": x},
        {"y": y},
        [
            f"%i = arith.constant dense<{init}> : {y.tensor(tiles)}",
            f"%y = linalg.reduce {{ {op} }} ins(%x : {x.tensor(tiles)}) outs(%i : {y.tensor(tiles)}) "
            f"dimensions = {list(over)}",
        ],
        tiles,
    )


def chain(
    type: str, shape: tuple[int, ...], body: Sequence[str], out: str | None = None, tiles: int = 2
) -> str:
    """Element-wise operations on tensors of one shape, ``%x`` and ``%w`` to ``%y``.

    ``T<f16>`` stands for a tensor type of that shape.
    """
    x, y = Array(shape, type), Array(shape, out or type)
    shaped = f"tensor<{dims(x.block(tiles))}"
    return kernel({"x": x, "w": x}, {"y": y}, [line.replace("T<", shaped) for line in body], tiles)


def generic(
    operands: Sequence[tuple[str, str, str]],
    result: tuple[str, str, str, str],
    iterators: Sequence[str],
    body: Sequence[str],
) -> str:
    """``%name = linalg.generic``: operands (value, type, map), result (name, init, type, map)."""
    maps = ", ".join(f"affine_map<{map}>" for map in (*(m for _, _, m in operands), result[3]))
    kinds = ", ".join(f'"{kind}"' for kind in iterators)
    ins = ""
    if operands:
        values, types = ", ".join(v for v, _, _ in operands), ", ".join(t for _, t, _ in operands)
        ins = f"ins({values} : {types}) "
    elements = [
        t[:-1].split("x")[-1].removeprefix("tensor<") for t in (*(t for _, t, _ in operands), result[2])
    ]
    arguments = ", ".join(
        f"%{name}: {element}"
        for name, element in zip([*(f"a{i}" for i in range(len(operands))), "acc"], elements, strict=True)
    )
    lines = "\n    ".join(body)
    return (
        f"%{result[0]} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}} {ins}"
        f"outs({result[1]} : {result[2]}) {{\n  ^bb0({arguments}):\n    {lines}\n  }} -> {result[2]}"
    )


def row_kernel(
    body: Sequence[str], shape: tuple[int, int] = (4, 136), type: str = "f16", **more: Array
) -> str:
    """A kernel over rows: ``R`` is the type of one value per row, ``M`` that of the tile."""
    x = Array(shape, type)
    rows = x.block(2)
    full, row = f"tensor<{dims(rows)}{type}>", f"tensor<{rows[0]}x{type}>"
    text = [line.replace("%M", full).replace("%R", row) for line in body]
    return kernel({"x": x, **more}, {"y": x}, text)


SOFTMAX = (
    "%lowest = arith.constant dense<0xFC00> : %R",
    "%none = arith.constant dense<0.0> : %R",
    "%m = linalg.reduce { arith.maximumf } ins(%x : %M) outs(%lowest : %R) dimensions = [1]",
    "%e = tensor.empty() : %M",
    "%mb = linalg.broadcast ins(%m : %R) outs(%e : %M) dimensions = [1]",
    "%d = arith.subf %x, %mb : %M",
    "%p = math.exp %d : %M",
    "%l = linalg.reduce { arith.addf } ins(%p : %M) outs(%none : %R) dimensions = [1]",
    "%lb = linalg.broadcast ins(%l : %R) outs(%e : %M) dimensions = [1]",
    "%y = arith.divf %p, %lb : %M",
)

LAYER_NORM = (
    "%none = arith.constant dense<0.0> : %R",
    "%share = arith.constant dense<0.007> : %R",
    "%eps = arith.constant dense<0.00001> : %R",
    "%e = tensor.empty() : %M",
    "%s = linalg.reduce { arith.addf } ins(%x : %M) outs(%none : %R) dimensions = [1]",
    "%mean = arith.mulf %s, %share : %R",
    "%meanb = linalg.broadcast ins(%mean : %R) outs(%e : %M) dimensions = [1]",
    "%d = arith.subf %x, %meanb : %M",
    "%dd = arith.mulf %d, %d : %M",
    "%q = linalg.reduce { arith.addf } ins(%dd : %M) outs(%none : %R) dimensions = [1]",
    "%var = arith.mulf %q, %share : %R",
    "%vare = arith.addf %var, %eps : %R",
    "%r = math.rsqrt %vare : %R",
    "%rb = linalg.broadcast ins(%r : %R) outs(%e : %M) dimensions = [1]",
    "%n = arith.mulf %d, %rb : %M",
    "%gb = linalg.broadcast ins(%g : tensor<136xf32>) outs(%e : %M) dimensions = [0]",
    "%hb = linalg.broadcast ins(%h : tensor<136xf32>) outs(%e : %M) dimensions = [0]",
    "%ng = arith.mulf %n, %gb : %M",
    "%y = arith.addf %ng, %hb : %M",
)

_PAR, _RED = "parallel", "reduction"


def _reductions() -> dict[str, str]:
    found = {
        "row sums": reduction((4, 200), [1]),
        "row sums of one vector": reduction((4, 64), [1], init="1.5"),
        "row sums of less than a vector": reduction((4, 40), [1], type="f32"),
        "row maxima": reduction((4, 130), [1], "arith.maximumf", init="0xFC00"),
        "row minima that drop NaNs": reduction((4, 70), [1], "arith.minnumf", "f32", "0x7F800000"),
        "row products": reduction((4, 67), [1], "arith.mulf", "f32", "1.0"),
        "integer row sums": reduction((4, 72), [1], "arith.addi", "i32", "7"),
        "integer row maxima": reduction((4, 33), [1], "arith.maxsi", "i32", "-2147483648"),
        "row ors": reduction((4, 33), [1], "arith.ori", "i32", "0"),
        "bytes": reduction((4, 150), [1], "arith.minsi", "i8", "127"),
        "bfloat16": reduction((4, 80), [1], "arith.addf", "bf16"),
        "column sums": reduction((4, 200), [0], tiles=1, init="2.0"),
        "column maxima": reduction((4, 70), [0], "arith.maximumf", "f32", "0xFF800000", 1),
        "the middle": reduction((6, 5, 64), [1], init="-1.0"),
        "the middle and the last": reduction((6, 5, 70), [1, 2]),
        "two that are apart": reduction((4, 6, 3, 64), [1, 3]),
        "everything": reduction((4, 70), [0, 1], tiles=1, type="f32"),
        "a single element": reduction((4, 1), [1]),
    }
    x, w, y = Array((4, 50), "f32"), Array((50,), "f32", False), Array((4,), "f32")
    maps = "(d0, d1) -> (d0, d1)", "(d0, d1) -> (d1)", "(d0, d1) -> (d0)"
    product = ["%p = arith.mulf %a0, %a1 : f32", "%q = arith.addf %acc, %p : f32", "linalg.yield %q : f32"]
    found["weighted row sums from an array"] = kernel(
        {"x": x, "w": w, "z": y},
        {"y": y},
        [
            generic(
                [("%x", x.tensor(2), maps[0]), ("%w", w.tensor(2), maps[1])],
                ("y", "%z", y.tensor(2), maps[2]),
                [_PAR, _RED],
                product,
            )
        ],
    )
    square = [
        "%n = arith.negf %a0 : f32",
        "%q = arith.subf %n, %acc : f32",
        "linalg.yield %q : f32",
    ]
    found["a fold without another order"] = kernel(
        {"x": x},
        {"y": y},
        [
            f"%z = arith.constant dense<0.5> : {y.tensor(2)}",
            generic([("%x", x.tensor(2), maps[0])], ("y", "%z", y.tensor(2), maps[2]), [_PAR, _RED], square),
        ],
    )
    full, one = Array((4, 96)), Array((4,))
    m, r = full.tensor(2), one.tensor(2)
    found["sums and what is centred, both stored"] = kernel(
        {"x": full},
        {"s": one, "y": full},
        [
            f"%z = arith.constant dense<0.0> : {r}",
            f"%s = linalg.reduce {{ arith.addf }} ins(%x : {m}) outs(%z : {r}) dimensions = [1]",
            f"%e = tensor.empty() : {m}",
            f"%sb = linalg.broadcast ins(%s : {r}) outs(%e : {m}) dimensions = [1]",
            f"%y = arith.subf %x, %sb : {m}",
        ],
    )
    return found


def _kept_rank() -> dict[str, str]:
    """Reductions whose results keep the rank of the input: extents of 1 at the subscript 0."""
    found: dict[str, str] = {}
    shape, x = (4, 70), Array((4, 70), "f32", False)
    kinds = {"rows": (0,), "columns": (1,), "everything": (0, 1)}
    for name, over in kinds.items():
        y = Array(tuple(1 if d in over else n for d, n in enumerate(shape)), "f32", False)
        out = ", ".join("0" if d in over else f"d{d}" for d in range(2))
        lines = [
            f"%i = arith.constant dense<1.0> : {y.tensor(1)}",
            generic(
                [("%x", x.tensor(1), "(d0, d1) -> (d0, d1)")],
                ("y", "%i", y.tensor(1), f"(d0, d1) -> ({out})"),
                ["reduction" if d in over else _PAR for d in range(2)],
                ["%s = arith.addf %a0, %acc : f32", "linalg.yield %s : f32"],
            ),
        ]
        found[f"rank kept, {name} reduced"] = kernel({"x": x}, {"y": y}, lines, 1)
    full, rows = Array((4, 67)), Array((4, 1))
    t, r = full.tensor(2), rows.tensor(2)
    maps = "(d0, d1) -> (d0, d1)", "(d0, d1) -> (d0, 0)"
    found["row softmax, rank kept"] = kernel(
        {"x": full},
        {"y": full},
        [
            f"%low = arith.constant dense<0xFC00> : {r}",
            f"%none = arith.constant dense<0.0> : {r}",
            f"%e = tensor.empty() : {t}",
            generic(
                [("%x", t, maps[0])],
                ("m", "%low", r, maps[1]),
                [_PAR, "reduction"],
                ["%s = arith.maximumf %a0, %acc : f16", "linalg.yield %s : f16"],
            ),
            generic(
                [("%x", t, maps[0]), ("%m", r, maps[1])],
                ("p", "%e", t, maps[0]),
                [_PAR, _PAR],
                ["%d = arith.subf %a0, %a1 : f16", "%q = math.exp %d : f16", "linalg.yield %q : f16"],
            ),
            generic(
                [("%p", t, maps[0])],
                ("l", "%none", r, maps[1]),
                [_PAR, "reduction"],
                ["%s = arith.addf %acc, %a0 : f16", "linalg.yield %s : f16"],
            ),
            generic(
                [("%p", t, maps[0]), ("%l", r, maps[1])],
                ("y", "%e", t, maps[0]),
                [_PAR, _PAR],
                ["%q = arith.divf %a0, %a1 : f16", "linalg.yield %q : f16"],
            ),
        ],
    )
    return found


def _copies() -> dict[str, str]:
    """Reductions over dimensions along which nothing is loaded."""
    column, full, row = Array((4,)), Array((4, 70)), Array((70,), "f16", False)
    t, m, r = column.tensor(2), full.tensor(2), row.tensor(2)
    spread = f"%b = linalg.broadcast ins(%x : {t}) outs(%e : {m}) dimensions = [1]"
    zeros, empty = f"%z = arith.constant dense<0.5> : {t}", f"%e = tensor.empty() : {m}"
    total = f"linalg.reduce {{ arith.addf }} ins(%b : {m}) outs(%z : {t}) dimensions = [1]"
    found = {
        "a sum of copies": kernel({"x": column}, {"y": column}, [zeros, empty, spread, f"%y = {total}"]),
        "a sum of copies and what was copied": kernel(
            {"x": column},
            {"y": column},
            [zeros, empty, spread, f"%s = {total}", f"%y = arith.mulf %s, %x : {t}"],
        ),
        "a product of copies of a maximum": kernel(
            {"w": full},
            {"y": column},
            [
                f"%low = arith.constant dense<0xFC00> : {t}",
                f"%one = arith.constant dense<1.0> : {t}",
                f"%x = linalg.reduce {{ arith.maximumf }} ins(%w : {m}) outs(%low : {t}) dimensions = [1]",
                "%e = tensor.empty() : tensor<2x3xf16>",
                f"%b = linalg.broadcast ins(%x : {t}) outs(%e : tensor<2x3xf16>) dimensions = [1]",
                f"%y = linalg.reduce {{ arith.mulf }} ins(%b : tensor<2x3xf16>) outs(%one : {t}) "
                "dimensions = [1]",
            ],
        ),
        "a sum of copies of a row": kernel(
            {"x": row},
            {"y": row},
            [
                f"%z = arith.constant dense<0.0> : {r}",
                empty,
                f"%b = linalg.broadcast ins(%x : {r}) outs(%e : {m}) dimensions = [0]",
                f"%y = linalg.reduce {{ arith.addf }} ins(%b : {m}) outs(%z : {r}) dimensions = [0]",
            ],
            1,
        ),
        "a sum of nothing that is loaded": kernel(
            {},
            {"y": column, "u": full},
            [
                zeros,
                f"%b = arith.constant dense<2.0> : {m}",
                f"%y = {total}",
                f"%l = linalg.broadcast ins(%y : {t}) outs(%b : {m}) dimensions = [1]",
                f"%u = math.sqrt %l : {m}",
            ],
        ),
    }
    found["a sum of copies of a row"] = found["a sum of copies of a row"].replace("2x70", "4x70")
    return found


def _rows() -> dict[str, str]:
    weights = Array((136,), "f32", False)
    return {
        "row softmax": row_kernel(SOFTMAX),
        "row softmax of whole vectors": row_kernel(SOFTMAX, (2, 128)),
        "layer norm": row_kernel(LAYER_NORM, type="f32", g=weights, h=weights),
    }


def _element_wise() -> dict[str, str]:
    found: dict[str, str] = {}
    shape = (4, 70)
    casts = {
        "f16 to f32": ("f16", "f32", ["%y = arith.extf %x : T<f16> to T<f32>"]),
        "f32 to f16": ("f32", "f16", ["%y = arith.truncf %x : T<f32> to T<f16>"]),
        "bf16 to f32": ("bf16", "f32", ["%y = arith.extf %x : T<bf16> to T<f32>"]),
        "f32 to bf16": ("f32", "bf16", ["%y = arith.truncf %x : T<f32> to T<bf16>"]),
        "f32 to i32": ("f32", "i32", ["%y = arith.fptosi %x : T<f32> to T<i32>"]),
        "i32 to f32": ("i32", "f32", ["%y = arith.sitofp %x : T<i32> to T<f32>"]),
        "i32 to f16, unsigned": ("i32", "f16", ["%y = arith.uitofp %x : T<i32> to T<f16>"]),
        "i8 to i32": ("i8", "i32", ["%y = arith.extsi %x : T<i8> to T<i32>"]),
        "i8 to i32, unsigned": ("i8", "i32", ["%y = arith.extui %x : T<i8> to T<i32>"]),
        "i32 to i8": ("i32", "i8", ["%y = arith.trunci %x : T<i32> to T<i8>"]),
        "f16 to i8": ("f16", "i8", ["%y = arith.fptosi %x : T<f16> to T<i8>"]),
        "i8 to bf16": ("i8", "bf16", ["%y = arith.sitofp %x : T<i8> to T<bf16>"]),
    }
    for name, (source, target, body) in casts.items():
        x, y = Array(shape, source), Array(shape, target)
        text = [line.replace("T<", f"tensor<{dims(x.block(2))}") for line in body]
        found[f"cast {name}"] = kernel({"x": x}, {"y": y}, text)
    for predicate in ("oeq", "une", "olt", "ole", "ogt", "oge", "ult", "uno", "ord", "ueq", "one"):
        found[f"where {predicate}"] = chain(
            "f16",
            shape,
            [
                f"%c = arith.cmpf {predicate}, %x, %w : T<f16>",
                "%y = arith.select %c, %x, %w : T<i1>, T<f16>",
            ],
        )
    for predicate in ("eq", "slt", "sge", "ult", "uge"):
        found[f"integers where {predicate}"] = chain(
            "i32",
            shape,
            [f"%c = arith.cmpi {predicate}, %x, %w : T<i32>", "%y = arith.select %c, %x, %w : T<i1>, T<i32>"],
        )
    found["masks combined"] = chain(
        "f16",
        shape,
        [
            "%zero16 = arith.constant dense<0.0> : T<f16>",
            "%p = arith.cmpf ogt, %x, %zero16 : T<f16>",
            "%q = arith.cmpf olt, %w, %zero16 : T<f16>",
            "%both = arith.andi %p, %q : T<i1>",
            "%any = arith.xori %both, %q : T<i1>",
            "%s = arith.select %any, %x, %w : T<i1>, T<f16>",
            "%y = arith.select %both, %zero16, %s : T<i1>, T<f16>",
        ],
    )
    found["a mask as a number"] = chain(
        "f16",
        shape,
        ["%p = arith.cmpf ogt, %x, %w : T<f16>", "%y = arith.uitofp %p : T<i1> to T<f16>"],
    )
    found["integer arithmetic"] = chain(
        "i32",
        shape,
        [
            "%k = arith.constant dense<3> : T<i32>",
            "%a = arith.shli %x, %k : T<i32>",
            "%b = arith.xori %a, %w : T<i32>",
            "%c = arith.remsi %b, %k : T<i32>",
            "%d = arith.maxsi %c, %x : T<i32>",
            "%y = arith.muli %d, %d : T<i32>",
        ],
    )
    found["named operations"] = chain(
        "f32",
        shape,
        [
            "%e = tensor.empty() : T<f32>",
            "%a = linalg.abs ins(%x : T<f32>) outs(%e : T<f32>) -> T<f32>",
            "%b = linalg.sqrt ins(%a : T<f32>) outs(%e : T<f32>) -> T<f32>",
            "%c = linalg.max ins(%b, %w : T<f32>, T<f32>) outs(%e : T<f32>) -> T<f32>",
            "%d = linalg.square ins(%c : T<f32>) outs(%e : T<f32>) -> T<f32>",
            "%g = linalg.div ins(%d, %b : T<f32>, T<f32>) outs(%e : T<f32>) -> T<f32>",
            "%y = linalg.tanh ins(%g : T<f32>) outs(%e : T<f32>) -> T<f32>",
        ],
    )
    return found


def _indices() -> dict[str, str]:
    found: dict[str, str] = {}
    maps = "(d0, d1) -> (d0, d1)"
    x = Array((4, 70))
    t = x.tensor(2)
    body = [
        "%k = arith.constant 67 : index",
        "%zero16 = arith.constant 0.0 : f16",
        "%j = linalg.index 1 : index",
        "%c = arith.cmpi slt, %j, %k : index",
        "%s = arith.select %c, %a0, %zero16 : f16",
        "linalg.yield %s : f16",
    ]
    empty = f"%e = tensor.empty() : {t}"
    found["padding is cut off"] = kernel(
        {"x": x}, {"y": x}, [empty, generic([("%x", t, maps)], ("y", "%e", t, maps), [_PAR, _PAR], body)]
    )
    body = [
        "%i = linalg.index 0 : index",
        "%j = linalg.index 1 : index",
        "%row = arith.addi %i, %b_x : index",
        "%k = arith.constant 70 : index",
        "%m = arith.muli %row, %k : index",
        "%n = arith.addi %m, %j : index",
        "%v = arith.index_cast %n : index to i32",
        "%f = arith.sitofp %v : i32 to f32",
        "linalg.yield %f : f32",
    ]
    y = Array((4, 70), "f32")
    found["a range over tiles"] = kernel(
        {},
        {"x": y},
        [
            f"%e = tensor.empty() : {y.tensor(2)}",
            generic([], ("x", "%e", y.tensor(2), maps), [_PAR, _PAR], body),
        ],
    )
    found["positions in i64"] = found["a range over tiles"].replace("i32", "i64")
    body = [
        "%i = linalg.index 0 : index",
        "%j = linalg.index 1 : index",
        "%c = arith.cmpi sge, %i, %j : index",
        "%low = arith.constant 0xFC00 : f16",
        "%s = arith.select %c, %a0, %low : f16",
        "linalg.yield %s : f16",
    ]
    for predicate in ("slt", "ult"):  # nothing bounds the argument %n
        compared = [
            "%j = linalg.index 1 : index",
            "%zero16 = arith.constant 0.0 : f16",
            f"%c = arith.cmpi {predicate}, %j, %n : index",
            "%s = arith.select %c, %a0, %zero16 : f16",
            "linalg.yield %s : f16",
        ]
        found[f"compared with an argument, {predicate}"] = kernel(
            {"x": x},
            {"y": x},
            [empty, generic([("%x", t, maps)], ("y", "%e", t, maps), [_PAR, _PAR], compared)],
            scalars=["%n: index"],
        )
    square, rows = Array((8, 72)), Array((8,))
    found["causal row maxima"] = kernel(
        {"x": square},
        {"y": rows},
        [
            f"%e = tensor.empty() : {square.tensor(2)}",
            generic(
                [("%x", square.tensor(2), maps)], ("m", "%e", square.tensor(2), maps), [_PAR, _PAR], body
            ),
            f"%z = arith.constant dense<0xFC00> : {rows.tensor(2)}",
            f"%y = linalg.reduce {{ arith.maximumf }} ins(%m : {square.tensor(2)}) "
            f"outs(%z : {rows.tensor(2)}) dimensions = [1]",
        ],
    )
    return found


def _tables() -> dict[str, str]:
    """Constant tensors of different elements."""
    x = Array((4, 70))
    t = x.tensor(2)
    wide = ", ".join(["1.5"] * 30 + ["-2.0"] * 20 + ["0.25"] * 20)
    return {
        "a scale per column": kernel(
            {"x": x},
            {"y": x},
            [
                f"%k = arith.constant dense<[{wide}]> : tensor<70xf16>",
                f"%e = tensor.empty() : {t}",
                f"%b = linalg.broadcast ins(%k : tensor<70xf16>) outs(%e : {t}) dimensions = [0]",
                f"%y = arith.mulf %x, %b : {t}",
            ],
        ),
        "a bias per element": kernel(
            {"x": Array((4, 2, 3), "f32")},
            {"y": Array((4, 2, 3), "f32")},
            [
                "%k = arith.constant dense<[[[1.0, -0.0, 2.5], [2.5, 2.5, 3.5]], [[0.5, 1.0, 2.5], "
                "[2.5, 7.0, 3.5]]]> : tensor<2x2x3xf32>",
                "%y = arith.addf %x, %k : tensor<2x2x3xf32>",
            ],
        ),
        "whole numbers in equal steps": kernel(
            {"x": Array((4, 7), "i32")},
            {"y": Array((4, 7), "i32")},
            [
                "%k = arith.constant dense<[9, 6, 3, 0, -3, -6, -9]> : tensor<7xi32>",
                "%e = tensor.empty() : tensor<2x7xi32>",
                "%b = linalg.broadcast ins(%k : tensor<7xi32>) outs(%e : tensor<2x7xi32>) dimensions = [0]",
                "%y = arith.muli %x, %b : tensor<2x7xi32>",
            ],
        ),
        "a mask that is given": kernel(
            {"x": Array((4, 5)), "w": Array((4, 5))},
            {"y": Array((4, 5))},
            [
                "%k = arith.constant dense<[[true, true, false, true, false], [false, true, true, true, "
                "false]]> : tensor<2x5xi1>",
                "%y = arith.select %k, %x, %w : tensor<2x5xi1>, tensor<2x5xf16>",
            ],
        ),
        "row sums from given numbers": kernel(
            {"x": x},
            {"y": Array((4,))},
            [
                "%k = arith.constant dense<[1.0, -4.0]> : tensor<2xf16>",
                f"%y = linalg.reduce {{ arith.addf }} ins(%x : {t}) outs(%k : tensor<2xf16>) "
                "dimensions = [1]",
            ],
        ),
        "one of several given numbers": kernel(
            {"x": x},
            {"y": x},
            [
                "%k = arith.constant dense<[1.0, -4.0, 0.5]> : tensor<3xf16>",
                "%one = arith.constant 1 : index",
                "%v = tensor.extract %k[%one] : tensor<3xf16>",
                f"%b = tensor.splat %v : {t}",
                f"%y = arith.mulf %x, %b : {t}",
            ],
        ),
        "a given tensor that is stored": kernel(
            {},
            {"y": Array((4, 2))},
            ["%y = arith.constant dense<[[1.0, 2.0], [3.0, 2.0]]> : tensor<2x2xf16>"],
        ),
    }


def _shapes() -> dict[str, str]:
    found: dict[str, str] = {}
    flat, tall = Array((256,)), Array((4, 64))
    found["expanded"] = kernel(
        {"x": flat},
        {"y": tall},
        [
            "%e = tensor.expand_shape %x [[0, 1]] output_shape [2, 64] "
            ": tensor<128xf16> into tensor<2x64xf16>",
            "%y = arith.negf %e : tensor<2x64xf16>",
        ],
    )
    found["collapsed"] = kernel(
        {"x": tall},
        {"y": flat},
        [
            "%c = tensor.collapse_shape %x [[0, 1]] : tensor<2x64xf16> into tensor<128xf16>",
            "%y = arith.negf %c : tensor<128xf16>",
        ],
    )
    found["a unit dimension added"] = kernel(
        {"x": Array((4, 64))},
        {"y": Array((4, 1))},
        [
            "%z = arith.constant dense<0.0> : tensor<2xf16>",
            "%s = linalg.reduce { arith.addf } ins(%x : tensor<2x64xf16>) outs(%z : tensor<2xf16>) "
            "dimensions = [1]",
            "%y = tensor.expand_shape %s [[0, 1]] output_shape [2, 1] : tensor<2xf16> into tensor<2x1xf16>",
        ],
    )
    found["a slice"] = kernel(
        {"x": Array((4, 128))},
        {"y": Array((4, 64))},
        ["%y = tensor.extract_slice %x[0, 32] [2, 64] [1, 1] : tensor<2x128xf16> to tensor<2x64xf16>"],
    )
    found["a transpose"] = kernel(
        {"x": Array((64, 6), split=False)},
        {"y": Array((6, 64), split=False)},
        [
            "%e = tensor.empty() : tensor<6x64xf16>",
            "%y = linalg.transpose ins(%x : tensor<64x6xf16>) outs(%e : tensor<6x64xf16>) "
            "permutation = [1, 0]",
        ],
        1,
    )
    found["strided views"] = kernel(
        {"x": Array((4, 64), strides=(200, 1)), "w": Array((4, 64), strides=(1, 4))},
        {"y": Array((4, 64))},
        ["%y = arith.addf %x, %w : tensor<2x64xf16>"],
    )
    found["one number for all"] = kernel(
        {"x": Array((4, 70), split=False), "w": Array((4, 70))},
        {"y": Array((4, 70))},
        [
            "%one = arith.constant 1 : index",
            "%v = tensor.extract %x[%one, %zero] : tensor<4x70xf16>",
            "%h = arith.addf %v, %v : f16",
            "%b = tensor.splat %h : tensor<2x70xf16>",
            "%y = arith.mulf %w, %b : tensor<2x70xf16>",
        ],
    )
    return found


def _scalars() -> dict[str, str]:
    x = Array((4, 70))
    found = {
        "a float argument": kernel(
            {"x": x},
            {"y": x},
            ["%b = tensor.splat %s : tensor<2x70xf16>", "%y = arith.mulf %x, %b : tensor<2x70xf16>"],
            scalars=["%s: f16"],
        ),
        "arithmetic on float arguments": kernel(
            {"x": x},
            {"y": x},
            [
                "%t = arith.truncf %s : f32 to f16",
                "%u = arith.mulf %t, %t : f16",
                "%b = tensor.splat %u : tensor<2x70xf16>",
                "%y = arith.mulf %x, %b : tensor<2x70xf16>",
            ],
            scalars=["%s: f32"],
        ),
        "an integer argument": kernel(
            {"x": Array((4, 70), "i32")},
            {"y": Array((4, 70), "i32")},
            ["%b = tensor.splat %s : tensor<2x70xi32>", "%y = arith.maxsi %x, %b : tensor<2x70xi32>"],
            scalars=["%s: i32"],
        ),
        "a condition on the tile": kernel(
            {},
            {},
            [
                "%q = arith.cmpi eq, %tile, %zero : index",
                "scf.if %q {",
                *_block("x", "y", "arith.negf %x : tensor<2x64xf16>"),
                "} else {",
                *_block("x", "y", "arith.addf %x, %x : tensor<2x64xf16>", "2"),
                "}",
            ],
        ).replace("@kernel()", "@kernel(%p_x: index, %p_y: index)"),
    }
    again = "ktdp.load %t_y : <2x70xindex> -> tensor<2x70xf16>"
    type = x.tensor(2)
    found["stored, loaded and stored again"] = kernel(
        {"x": x},
        {"y": x},
        [
            f"%s = arith.addf %x, %x : {type}",
            f"ktdp.store %s, %t_y : {type}, <2x70xindex>",
            f"%z = {again}",
            f"%y = arith.mulf %z, %x : {type}",
        ],
    )
    return found


def _loop(bound: str, row_numbers: bool) -> str:
    """A softmax of two rows per iteration of a kernel loop; `row_numbers`: each row has its number added."""
    type, row, shape, block = "tensor<2x130xf16>", "tensor<2xf16>", (12, 130), (2, 130)
    body = [line.replace("%M", type).replace("%R", row) for line in SOFTMAX]
    if row_numbers:
        map = "(d0, d1) -> (d0, d1)"
        number = [
            "%i = linalg.index 0 : index",
            "%g = arith.addi %i, %r : index",
            "%h = arith.index_cast %g : index to i32",
            "%f = arith.sitofp %h : i32 to f16",
            "%v = arith.addf %a0, %f : f16",
            "linalg.yield %v : f16",
        ]
        body.append(generic([("%y", type, map)], ("w", "%e", type, map), [_PAR, _PAR], number))
    lines = [
        "%zero = arith.constant 0 : index",
        "%one = arith.constant 1 : index",
        "%two = arith.constant 2 : index",
        "%three = arith.constant 3 : index",
        "%six = arith.constant 6 : index",
        "%tile = ktdp.get_compute_tile_id : index",
        "%base = arith.muli %tile, %six : index",
        view("v_x", "p_x", shape),
        view("v_y", "p_y", shape),
        f"scf.for %s = %zero to {bound} step %one {{",
        "%o = arith.muli %s, %two : index",
        "%r = arith.addi %base, %o : index",
        tile("t_x", "v_x", "%r, %zero", shape, block),
        tile("t_y", "v_y", "%r, %zero", shape, block),
        load("x", "t_x", block),
        *body,
        store("w" if row_numbers else "y", "t_y", block),
        "}",
    ]
    extra = ", %count: index" if bound == "%count" else ""
    return function(f"%p_x: index, %p_y: index{extra}", lines, [2])


def _loops() -> dict[str, str]:
    return {
        "softmax in a loop": _loop("%three", False),
        "softmax in a loop with a bound from outside": _loop("%count", False),
        "a loop variable in a computation": _loop("%three", True),
    }


def _block(source: str, target: str, operation: str, suffix: str = "") -> list[str]:
    """A load, an operation and a store of two rows per tile of 4x64 arrays, with views of their own."""
    lines = ["%two = arith.constant 2 : index", "%base = arith.muli %tile, %two : index"]
    for name in (source, target):
        lines.append(view(f"v_{name}", f"p_{name}", (4, 64)))
        lines.append(tile(f"t_{name}", f"v_{name}", "%base, %zero", (4, 64), (2, 64)))
    lines.append(load(source, f"t_{source}", (2, 64)))
    lines.append(f"%{target} = {operation}")
    lines.append(store(target, f"t_{target}", (2, 64)))
    if not suffix:
        return lines
    names = ("two", "base", "v_x", "v_y", "t_x", "t_y", "x", "y")
    return [_renamed(line, names, suffix) for line in lines]


def _renamed(line: str, names: Sequence[str], suffix: str) -> str:
    for name in names:
        line = re.sub(rf"%{name}\b", f"%{name}{suffix}", line)
    return line


KERNELS: Mapping[str, str] = {
    **_reductions(),
    **_kept_rank(),
    **_copies(),
    **_rows(),
    **_element_wise(),
    **_indices(),
    **_shapes(),
    **_scalars(),
    **_loops(),
    **_tables(),
}
"""Kernels by name."""
