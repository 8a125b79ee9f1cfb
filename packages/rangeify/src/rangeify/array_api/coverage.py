"""What of the standard is there: ``python -m rangeify.array_api.coverage`` prints the table of the
documentation."""

from __future__ import annotations

from typing import Final

from rangeify import array_api
from rangeify.array_api import linalg
from rangeify.array_api.missing import MISSING, MISSING_LINALG

#: The names of version 2024.12 by its own chapters.
STANDARD: Final[dict[str, tuple[str, ...]]] = {
    "Constants": ("e", "inf", "nan", "newaxis", "pi"),
    "Data types": (
        *(
            "bool",
            "int8",
            "int16",
            "int32",
            "int64",
            "uint8",
            "uint16",
            "uint32",
            "uint64",
            "float32",
            "float64",
        ),
        *("complex64", "complex128"),
    ),
    "Creation functions": (
        *("arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like", "linspace"),
        *("meshgrid", "ones", "ones_like", "tril", "triu", "zeros", "zeros_like"),
    ),
    "Data type functions": ("astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type"),
    "Element-wise functions": (
        *("abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and"),
        *(
            "bitwise_left_shift",
            "bitwise_invert",
            "bitwise_or",
            "bitwise_right_shift",
            "bitwise_xor",
            "ceil",
            "clip",
        ),
        *(
            "conj",
            "copysign",
            "cos",
            "cosh",
            "divide",
            "equal",
            "exp",
            "expm1",
            "floor",
            "floor_divide",
            "greater",
        ),
        *(
            "greater_equal",
            "hypot",
            "imag",
            "isfinite",
            "isinf",
            "isnan",
            "less",
            "less_equal",
            "log",
            "log1p",
        ),
        *("log2", "log10", "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor", "maximum"),
        *(
            "minimum",
            "multiply",
            "negative",
            "nextafter",
            "not_equal",
            "positive",
            "pow",
            "real",
            "reciprocal",
        ),
        *(
            "remainder",
            "round",
            "sign",
            "signbit",
            "sin",
            "sinh",
            "square",
            "sqrt",
            "subtract",
            "tan",
            "tanh",
        ),
        "trunc",
    ),
    "Indexing functions": ("take", "take_along_axis"),
    "Inspection": ("__array_namespace_info__",),
    "Linear algebra functions": ("matmul", "matrix_transpose", "tensordot", "vecdot"),
    "Manipulation functions": (
        *(
            "broadcast_arrays",
            "broadcast_to",
            "concat",
            "expand_dims",
            "flip",
            "moveaxis",
            "permute_dims",
            "repeat",
        ),
        *("reshape", "roll", "squeeze", "stack", "tile", "unstack"),
    ),
    "Searching functions": ("argmax", "argmin", "count_nonzero", "nonzero", "searchsorted", "where"),
    "Set functions": ("unique_all", "unique_counts", "unique_inverse", "unique_values"),
    "Sorting functions": ("argsort", "sort"),
    "Statistical functions": (
        *("cumulative_prod", "cumulative_sum", "max", "mean", "min", "prod", "std", "sum", "var"),
    ),
    "Utility functions": ("all", "any", "diff"),
    "Extension `fft`": ("fft",),
}
LINALG: Final = (
    *(
        "cholesky",
        "cross",
        "det",
        "diagonal",
        "eigh",
        "eigvalsh",
        "inv",
        "matmul",
        "matrix_norm",
        "matrix_power",
    ),
    *(
        "matrix_rank",
        "matrix_transpose",
        "outer",
        "pinv",
        "qr",
        "slogdet",
        "solve",
        "svd",
        "svdvals",
        "tensordot",
    ),
    *("trace", "vecdot", "vector_norm"),
)


def _row(chapter: str, names: tuple[str, ...], there: set[str], reasons: dict[str, str]) -> str:
    have = [f"`{n}`" for n in names if n in there]
    lacking: dict[str, list[str]] = {}
    for n in names:
        if n not in there:
            lacking.setdefault(reasons[n], []).append(f"`{n}`")
    why = "; ".join(f"{', '.join(ns)}: {reason}" for reason, ns in lacking.items())
    return f"| {chapter} | {', '.join(have)} | {why} |"


def table() -> str:
    """A Markdown table: chapter, names that are there, names that are not and why."""
    there = set(array_api.__all__)
    rows = [_row(chapter, names, there, MISSING) for chapter, names in STANDARD.items()]
    rows.append(_row("Extension `linalg`", LINALG, set(linalg.__all__), MISSING_LINALG))
    return "\n".join(["| chapter | there | not there |", "|---|---|---|", *rows]) + "\n"


if __name__ == "__main__":
    print(table(), end="")
