"""The dialects of dfsched, and their registration with a `ktir.Context` (entry point ``ktir.dialects``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dfsched.dialects.agen import AGEN
from dfsched.dialects.dataflow import DATAFLOW
from dfsched.dialects.ktdf import KTDF
from dfsched.dialects.ktdf_arch import KTDF_ARCH
from dfsched.dialects.ktdf_lowering import KTDF_LOWERING
from dfsched.dialects.pdl import PDL
from dfsched.dialects.symbol import SYMBOL
from dfsched.dialects.uniform import UNIFORM
from dfsched.dialects.vectorchain import VECTORCHAIN

if TYPE_CHECKING:
    from ktir.context import Context, Dialect

__all__ = ["DIALECTS", "register"]

DIALECTS: tuple[Dialect, ...] = (
    KTDF,
    KTDF_ARCH,
    KTDF_LOWERING,
    PDL,
    DATAFLOW,
    AGEN,
    VECTORCHAIN,
    UNIFORM,
    SYMBOL,
)


def register(context: Context) -> None:
    """Make every dialect of this package known to a context."""
    for dialect in DIALECTS:
        context.register(dialect)
