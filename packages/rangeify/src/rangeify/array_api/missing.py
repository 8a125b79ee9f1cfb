"""What the standard has and this namespace does not, with the reason."""

from __future__ import annotations

from typing import Final

from rangeify.errors import MissingNameError

_DATA: Final = "the shape of its result depends on data"
_COMPLEX: Final = "complex dtypes are out of scope"
_SOLVER: Final = "decompositions and solvers are out of scope"

#: Name -> why it is not there.
MISSING: Final[dict[str, str]] = {
    **dict.fromkeys(("unique_all", "unique_counts", "unique_inverse", "unique_values", "nonzero"), _DATA),
    **dict.fromkeys(("complex64", "complex128", "conj", "imag"), _COMPLEX),
    "fft": _COMPLEX,
}
MISSING_LINALG: Final[dict[str, str]] = dict.fromkeys(
    (
        *(
            "cholesky",
            "det",
            "eigh",
            "eigvalsh",
            "inv",
            "matrix_norm",
            "matrix_power",
            "matrix_rank",
            "pinv",
            "qr",
        ),
        *("slogdet", "solve", "svd", "svdvals"),
    ),
    _SOLVER,
)


def missing(module: str, name: str, reasons: dict[str, str]) -> AttributeError:
    """The error for an attribute that a module does not have."""
    if name in reasons:
        return MissingNameError(f"{module}.{name}: {reasons[name]}")
    return AttributeError(f"module {module!r} has no attribute {name!r}")
