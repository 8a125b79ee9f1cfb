"""Kernels that go through every scalar operation, every named structured one, and every kind of reduction.

`OPERATIONS` are named texts, each of one tile. A kernel computes several operations on the same operands and
stores the result of each, so that a table of all of them stays cheap to execute.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from spyresim.testing.compute_kernels import Array, generic, kernel

__all__ = ["OPERATIONS", "SCALAR_OPERATIONS"]

SHAPE = (1, 21)
FLOATS = ("f16", "bf16", "f32")
INTEGERS = ("i8", "i32")
IDENTITY = "(d0, d1) -> (d0, d1)"
PARALLEL = ["parallel", "parallel"]

Row = tuple[str, str, str]
"""A label, the body on ``%a0`` (and ``%a1``, ``%a2``) that defines ``%r``, and the result type."""


def _kernel(type: str, rows: Sequence[Row]) -> str:
    """One generic a row, each on all three inputs; what a body does not use is loaded all the same."""
    arrays = {name: Array(SHAPE, type, False) for name in "xwv"}
    outputs = {f"y{number}": Array(SHAPE, out, False) for number, (_, _, out) in enumerate(rows)}
    lines: list[str] = []
    for number, (_, body, out) in enumerate(rows):
        result = Array(SHAPE, out, False).tensor(1)
        used = [n for n, argument in enumerate(("%a0", "%a1", "%a2")) if argument in body]
        names = [f"%{'xwv'[n]}" for n in used]
        text = body
        for position, n in enumerate(used):
            text = text.replace(f"%a{n}", f"%a{position}")
        lines.append(f"%e{number} = tensor.empty() : {result}")
        lines.append(
            generic(
                [(name, arrays["x"].tensor(1), IDENTITY) for name in names],
                (f"y{number}", f"%e{number}", result, IDENTITY),
                PARALLEL,
                [*text.split("\n"), f"linalg.yield %r : {out}"],
            )
        )
    wanted = "".join(body for _, body, _ in rows)
    inputs = {name: array for name, array in arrays.items() if f"%a{'xwv'.index(name)}" in wanted}
    return kernel(inputs, outputs, lines, 1)


def _batches(type: str, rows: Sequence[Row], size: int = 12) -> Iterator[tuple[str, str]]:
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        yield f"{type}: {', '.join(label for label, _, _ in part)}", _kernel(type, part)


# -- scalar operations -----------------------------------------------------------------------------------

_UNARY_MATH = (
    "absf", "acos", "asin", "atan", "cbrt", "ceil", "cos", "cosh", "erf", "exp", "exp2", "expm1", "floor",
    "log", "log10", "log1p", "log2", "round", "roundeven", "rsqrt", "sin", "sinh", "sqrt", "tan",
    "tanh", "trunc",
)  # fmt: skip
_BINARY_FLOATS = (
    "arith.addf", "arith.subf", "arith.mulf", "arith.divf", "arith.remf", "arith.maximumf", "arith.minimumf",
    "arith.maxnumf", "arith.minnumf", "math.atan2", "math.copysign", "math.powf", "spyreop.realdiv",
)  # fmt: skip
_UNARY_INTRINSICS = ("exp", "sqrt", "rsqrt", "reciprocal", "sigmoid", "silu")
_BINARY_INTEGERS = ("addi", "subi", "muli", "andi", "ori", "xori", "maxsi", "maxui", "minsi", "minui")
_DIVISIONS = ("divui", "divsi", "remui", "remsi", "ceildivui", "ceildivsi", "floordivsi")
_SHIFTS = ("shli", "shrui", "shrsi")
_COMPARE_FLOATS = (
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno",
    "true",
)  # fmt: skip
_COMPARE_INTEGERS = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")


def _float_rows(type: str) -> list[Row]:
    """What computes on numbers of one float type; intrinsics do not take bf16."""
    rows = _all_float_rows(type)
    return [row for row in rows if type != "bf16" or "spyreop" not in row[1]]


def _all_float_rows(type: str) -> list[Row]:
    unary = [f"math.{name}" for name in _UNARY_MATH] + [f"spyreop.{name}" for name in _UNARY_INTRINSICS]
    rows = [(name, f"%r = {name} %a0 : {type}", type) for name in ("arith.negf", *unary)]
    rows += [(name, f"%r = {name} %a0, %a1 : {type}", type) for name in _BINARY_FLOATS]
    rows.append(("math.fma", f"%r = math.fma %a0, %a1, %a2 : {type}", type))
    rows.append(("spyreop.select", f"%r = spyreop.select %a0, %a1, %a2 : {type}", type))
    rows += [
        (f"spyreop.compare {kind}", f"%r = spyreop.compare {kind} %a0, %a1 : {type}", type)
        for kind in ("equal", "notequal", "greaterthan", "greaterequal", "lesserthan", "lesserequal")
    ]
    rows += [
        (
            f"arith.cmpf {kind}",
            f"%c = arith.cmpf {kind}, %a0, %a1 : {type}\n%r = arith.select %c, %a0, %a1 : {type}",
            type,
        )
        for kind in _COMPARE_FLOATS
    ]
    if type != "f32":
        rows.append(("spyreop.gelu", f"%r = spyreop.gelu %a0 : {type}", type))
        soft = f"%r = spyreop.softplus %a0 beta 1.500000e+00 threshold 2.000000e+01 : {type}"
        rows.append(("spyreop.softplus", soft, type))
    rows.append(
        (
            "spyreop.layernormnorm",
            f"%r = spyreop.layernormnorm %a0 squares %a1 scale %a2 weight %a1 bias %a0 : {type}",
            type,
        )
    )
    rows.append(
        ("spyreop.layernormscale", f"%r = spyreop.layernormscale %a0 squares %a1 : {type}", type),
    )
    rows.append(
        (
            "spyreop.constant",
            f"%k = spyreop.constant 2.500000e+00 : {type}\n%r = arith.mulf %a0, %k : {type}",
            type,
        )
    )
    rows.append(
        (
            "arith.constant",
            f"%k = arith.constant 0.75 : {type}\n%r = arith.subf %k, %a0 : {type}",
            type,
        )
    )
    bits = {"f16": "i16", "bf16": "i16", "f32": "i32"}[type]
    rows.append(
        (
            "arith.bitcast",
            f"%b = arith.bitcast %a0 : {type} to {bits}\n%k = arith.constant 1 : {bits}\n"
            f"%s = arith.xori %b, %k : {bits}\n%r = arith.bitcast %s : {bits} to {type}",
            type,
        )
    )
    return rows


def _integer_rows(type: str) -> list[Row]:
    rows = [(name, f"%r = arith.{name} %a0, %a1 : {type}", type) for name in _BINARY_INTEGERS]
    odd = f"%k = arith.constant 7 : {type}\n%m = arith.andi %a1, %k : {type}\n"
    odd += f"%l = arith.constant 1 : {type}\n%d = arith.ori %m, %l : {type}\n"
    rows += [(name, f"{odd}%r = arith.{name} %a0, %d : {type}", type) for name in _DIVISIONS]
    seven = f"%k = arith.constant 7 : {type}\n%d = arith.andi %a1, %k : {type}\n"
    rows += [(name, f"{seven}%r = arith.{name} %a0, %d : {type}", type) for name in _SHIFTS]
    rows.append(("math.absi", f"%r = math.absi %a0 : {type}", type))
    rows += [
        (
            f"arith.cmpi {kind}",
            f"%c = arith.cmpi {kind}, %a0, %a1 : {type}\n%r = arith.select %c, %a0, %a1 : {type}",
            type,
        )
        for kind in _COMPARE_INTEGERS
    ]
    if type == "i32":
        rows.append(("spyreop.addi32toi32", "%r = spyreop.addi32toi32 %a0, %a1", type))
        rows.append(("spyreop.muli32toi32", "%r = spyreop.muli32toi32 %a0, %a1", type))
        rows.append(("spyreop.idx32toaddr", "%r = spyreop.idx32toaddr %a0 base %a1 stride %a2", type))
        rows.append(("spyreop.idx32toaddr, fixed", "%r = spyreop.idx32toaddr %a0 base 5 stride 12", type))
    return rows


def _casts() -> Iterator[tuple[str, str]]:
    """Between all of f16, bf16, f32, i32 and i8, and through truth values."""
    for source in (*FLOATS, *INTEGERS):
        rows = [
            (f"to {target}", _cast(source, target), target)
            for target in (*FLOATS, *INTEGERS)
            if target != source
        ]
        if source in FLOATS:
            rows += [
                (
                    f"fptoui to {t}",
                    f"%p = math.absf %a0 : {source}\n%r = arith.fptoui %p : {source} to {t}",
                    t,
                )
                for t in INTEGERS
            ]
            rows.append(
                (
                    "uitofp i1",
                    f"%c = arith.cmpf olt, %a0, %a1 : {source}\n%r = arith.uitofp %c : i1 to {source}",
                    source,
                )
            )
        else:
            rows += [(f"uitofp to {t}", f"%r = arith.uitofp %a0 : {source} to {t}", t) for t in FLOATS]
            compared = f"%c = arith.cmpi slt, %a0, %a1 : {source}\n"
            rows.append(("extui i1", f"{compared}%r = arith.extui %c : i1 to {source}", source))
            rows.append(("extsi i1", f"{compared}%r = arith.extsi %c : i1 to {source}", source))
        if source == "i8":
            rows.append(("extui to i32", "%r = arith.extui %a0 : i8 to i32", "i32"))
        for name, text in _batches(source, rows):
            yield f"casts of {name}", text


def _cast(source: str, target: str) -> str:
    float_source, float_target = source in FLOATS, target in FLOATS
    if float_source and float_target:
        if "f32" not in (source, target):
            return f"%wide = arith.extf %a0 : {source} to f32\n%r = arith.truncf %wide : f32 to {target}"
        name = "extf" if target == "f32" else "truncf"
    elif float_source:
        name = "fptosi"
    elif float_target:
        name = "sitofp"
    else:
        name = "extsi" if source == "i8" else "trunci"
    return f"%r = arith.{name} %a0 : {source} to {target}"


def _scalar_kernels() -> Iterator[tuple[str, str]]:
    for type in FLOATS:
        yield from _batches(type, _float_rows(type))
    for type in INTEGERS:
        yield from _batches(type, _integer_rows(type))
    yield from _casts()


# -- named structured operations -------------------------------------------------------------------------

_NAMED_UNARY = (
    "exp", "log", "abs", "ceil", "floor", "round", "negf", "sqrt", "rsqrt", "tanh", "erf", "square",
    "reciprocal",
)  # fmt: skip


def _named() -> Iterator[tuple[str, str]]:
    for type in ("f16", "f32", "i32"):
        tensor = Array(SHAPE, type, False).tensor(1)
        lines: list[str] = [f"%e = tensor.empty() : {tensor}"]
        if type == "i32":
            binary: tuple[str, ...] = ("add", "sub", "mul", "max", "min")
            unary: tuple[str, ...] = ()
        else:
            binary = ("add", "sub", "mul", "max", "min", "div", "powf")
            unary = _NAMED_UNARY
        for name in binary:
            operands = f"ins(%x, %w : {tensor}, {tensor})"
            lines.append(f"%{name} = linalg.{name} {operands} outs(%e : {tensor}) -> {tensor}")
        for name in unary:
            lines.append(f"%{name} = linalg.{name} ins(%x : {tensor}) outs(%e : {tensor}) -> {tensor}")
        names = [*binary, *unary]
        for number, part in enumerate([names[:7], names[7:14], names[14:]]):
            if part:
                used = [line for line in lines if line.split(" ")[0][1:] in (*part, "e")]
                yield _named_kernel(f"named operations of {type}, {number}", type, part, used)


def _named_kernel(name: str, type: str, results: Sequence[str], lines: Sequence[str]) -> tuple[str, str]:
    array = Array(SHAPE, type, False)
    inputs = {n: array for n in "xw" if any(f"%{n}" in line for line in lines)}
    return name, kernel(inputs, dict.fromkeys(results, array), list(lines), 1)


def _other_named() -> Iterator[tuple[str, str]]:
    array, tensor = Array(SHAPE, "f16", False), Array(SHAPE, "f16", False).tensor(1)
    mask = tensor.replace("f16", "i1")
    lines = [
        f"%e = tensor.empty() : {tensor}",
        f"%p = arith.cmpf olt, %x, %w : {tensor}",
        f"%sel = linalg.select ins(%p, %x, %w : {mask}, {tensor}, {tensor}) outs(%e : {tensor}) -> {tensor}",
        "%k = arith.constant 1.5 : f16",
        f"%fill = linalg.fill ins(%k : f16) outs(%e : {tensor}) -> {tensor}",
        f"%cp = linalg.copy ins(%x : {tensor}) outs(%e : {tensor}) -> {tensor}",
        f"%mp = linalg.map {{ arith.addf }} ins(%x, %w : {tensor}, {tensor}) outs(%e : {tensor})",
    ]
    yield _named_kernel("select, fill, copy and map", "f16", ["sel", "fill", "cp", "mp"], lines)
    ints, itensor = Array(SHAPE, "i32", False), Array(SHAPE, "i32", False).tensor(1)
    text = [
        f"%e = tensor.empty() : {itensor}",
        f"%k = arith.constant dense<3> : {itensor}",
        f"%q = linalg.div ins(%x, %k : {itensor}, {itensor}) outs(%e : {itensor}) -> {itensor}",
        f"%u = linalg.div_unsigned ins(%x, %k : {itensor}, {itensor}) outs(%e : {itensor}) -> {itensor}",
    ]
    yield "divisions by a constant", kernel({"x": ints}, {"q": ints, "u": ints}, text, 1)
    row = Array((21,), "f16", False)
    across = [
        f"%e = tensor.empty() : {tensor}",
        f"%b = linalg.broadcast ins(%r : {row.tensor(1)}) outs(%e : {tensor}) dimensions = [0]",
        f"%y = arith.addf %x, %b : {tensor}",
    ]
    yield "a broadcast row", kernel({"x": array, "r": row}, {"y": array}, across, 1)
    turned = Array((21, 1), "f16", False)
    transpose = [
        f"%e = tensor.empty() : {turned.tensor(1)}",
        f"%t = linalg.transpose ins(%x : {tensor}) outs(%e : {turned.tensor(1)}) permutation = [1, 0]",
    ]
    yield "a transpose", kernel({"x": array}, {"t": turned}, transpose, 1)


# -- several uses, several results, indices --------------------------------------------------------------


def _graphs() -> Iterator[tuple[str, str]]:
    array, tensor = Array(SHAPE, "f16", False), Array(SHAPE, "f16", False).tensor(1)
    diamond = [
        f"%a = arith.addf %x, %w : {tensor}",
        f"%s = arith.mulf %a, %a : {tensor}",
        f"%d = arith.subf %s, %a : {tensor}",
        f"%y = arith.mulf %d, %s : {tensor}",
    ]
    yield "a diamond", kernel({"x": array, "w": array}, {"y": array}, diamond, 1)
    yield (
        "every step is stored",
        kernel({"x": array, "w": array}, {"a": array, "s": array, "d": array, "y": array}, diamond, 1),
    )
    pair = [
        f"%e = tensor.empty() : {tensor}",
        f"%f = tensor.empty() : {tensor}",
        f"%y, %z = linalg.generic {{indexing_maps = [affine_map<{IDENTITY}>, affine_map<{IDENTITY}>, "
        f'affine_map<{IDENTITY}>], iterator_types = ["parallel", "parallel"]}} ins(%x : {tensor}) '
        f"outs(%e, %f : {tensor}, {tensor}) {{\n  ^bb0(%in: f16, %o: f16, %p: f16):\n"
        "    %s = arith.mulf %in, %in : f16\n    %n = arith.negf %s : f16\n"
        f"    linalg.yield %s, %n : f16, f16\n  }} -> ({tensor}, {tensor})",
    ]
    yield "a generic with two results", kernel({"x": array}, {"y": array, "z": array}, pair, 1)
    index = [
        f"%e = tensor.empty() : {tensor}",
        generic(
            [("%x", tensor, IDENTITY)],
            ("y", "%e", tensor, IDENTITY),
            PARALLEL,
            [
                "%i = linalg.index 0 : index",
                "%j = linalg.index 1 : index",
                "%s = arith.addi %i, %j : index",
                "%n = arith.index_cast %s : index to i32",
                "%f = arith.sitofp %n : i32 to f16",
                "%r = arith.addf %a0, %f : f16",
                "linalg.yield %r : f16",
            ],
        ),
    ]
    yield "indices", kernel({"x": array}, {"y": array}, index, 1)


# -- reductions ------------------------------------------------------------------------------------------

_COMBINATIONS: Mapping[str, Sequence[tuple[str, str]]] = {
    "f16": (("arith.addf", "0.5"), ("arith.mulf", "1.5"), ("arith.maximumf", "0xFC00"),
            ("arith.minimumf", "2.0"), ("arith.maxnumf", "0xFE00"), ("arith.minnumf", "0x7C00")),
    "bf16": (("arith.addf", "0.0"), ("arith.maximumf", "-1.0")),
    "f32": (("arith.addf", "3.0"), ("arith.mulf", "1.0"), ("arith.minimumf", "0x7F800000")),
    "i32": (("arith.addi", "7"), ("arith.muli", "1"), ("arith.maxsi", "-3"), ("arith.minsi", "2147483647"),
            ("arith.maxui", "0"), ("arith.minui", "-1"), ("arith.andi", "-1"), ("arith.ori", "0"),
            ("arith.xori", "5")),
    "i8": (("arith.addi", "0"), ("arith.maxsi", "-128"), ("arith.minui", "-1")),
}  # fmt: skip


def _reductions() -> Iterator[tuple[str, str]]:
    for type, combinations in _COMBINATIONS.items():
        for start in range(0, len(combinations), 3):
            part = combinations[start : start + 3]
            yield _several(f"{type}: {', '.join(op for op, _ in part)} over rows", (3, 37), [1], type, part)
    one = [("arith.addi", "-4")]
    shape = (2, 3, 5, 7)
    for count in (1, 2, 3, 4):
        for over in itertools.combinations(range(4), count):
            yield _several(f"sums over dimensions {list(over)} of 4", shape, list(over), "i32", one)


def _several(
    name: str, shape: tuple[int, ...], over: Sequence[int], type: str, combinations: Sequence[tuple[str, str]]
) -> tuple[str, str]:
    """The same array reduced in several ways."""
    x = Array(shape, type, False)
    y = Array(tuple(n for d, n in enumerate(shape) if d not in over), type, False)
    lines: list[str] = []
    for number, (op, init) in enumerate(combinations):
        lines.append(f"%i{number} = arith.constant dense<{init}> : {y.tensor(1)}")
        lines.append(
            f"%y{number} = linalg.reduce {{ {op} }} ins(%x : {x.tensor(1)}) outs(%i{number} : {y.tensor(1)}) "
            f"dimensions = {list(over)}"
        )
    return name, kernel({"x": x}, {f"y{n}": y for n in range(len(combinations))}, lines, 1)


SCALAR_OPERATIONS: Mapping[str, str] = dict(_scalar_kernels())
"""Bodies of generics: every operation of arith, math and spyreop on every element type."""

OPERATIONS: Mapping[str, str] = {
    **SCALAR_OPERATIONS,
    **dict(_named()),
    **dict(_other_named()),
    **dict(_graphs()),
    **dict(_reductions()),
}
"""Kernels by name."""
