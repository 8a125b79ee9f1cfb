"""Kernels of every kind of computation that the scheduler takes, as text: for tests of levels and devices.

`KERNELS` are named texts. All arrays are small.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs

from spyresim.testing.text import dims, function, load, store, tile, view

__all__ = ["KERNELS", "Array", "kernel"]


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


def _row_kernel(
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


def _rows() -> dict[str, str]:
    weights = Array((136,), "f32", False)
    return {
        "row softmax": _row_kernel(SOFTMAX),
        "row softmax of whole vectors": _row_kernel(SOFTMAX, (2, 128)),
        "layer norm": _row_kernel(LAYER_NORM, type="f32", g=weights, h=weights),
    }


KERNELS: Mapping[str, str] = {**_reductions(), **_rows()}
"""Kernels by name."""
