"""The `agen` dialect: address generation (dataflowir spec 1.3)."""

from dfsched.dialects.agen.access import AgenDirection, Yield
from dfsched.dialects.agen.composite import CompositeLoadAndStore, CompositeSide
from dfsched.dialects.agen.vector import VectorLoad, VectorStore
from dfsched.dialects.enums import enum_reader
from ktir.context import Dialect

__all__ = [
    "AGEN",
    "AgenDirection",
    "CompositeLoadAndStore",
    "CompositeSide",
    "VectorLoad",
    "VectorStore",
    "Yield",
]

AGEN = Dialect(
    "agen",
    operations=(Yield, VectorLoad, VectorStore, CompositeLoadAndStore),
    attributes=(enum_reader("agen", AgenDirection),),
)
