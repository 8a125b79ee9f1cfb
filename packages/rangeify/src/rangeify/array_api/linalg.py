"""The ``linalg`` extension, as far as it needs no solver."""

from typing import Any

from rangeify.array_api.linear_algebra import (
    cross,
    diagonal,
    matmul,
    matrix_transpose,
    outer,
    tensordot,
    trace,
    vecdot,
    vector_norm,
)
from rangeify.array_api.missing import MISSING_LINALG, missing


def __getattr__(name: str) -> Any:
    raise missing(__name__, name, MISSING_LINALG)


__all__ = [
    "cross",
    "diagonal",
    "matmul",
    "matrix_transpose",
    "outer",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]
