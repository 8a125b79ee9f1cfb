"""The `agen` dialect: address generation (dataflowir spec 1.3).

Not built yet: the indirect composites, `composite_memory_interleave` and `set_transfer_mask_state`.
"""

from dfsched.dialects.agen.access import AgenDirection, Yield
from dfsched.dialects.agen.composite import CompositeLoadAndStore, CompositeSide
from dfsched.dialects.agen.indirect import IndirectVectorLoad, IndirectVectorStore
from dfsched.dialects.agen.one_sided import CompositeLoad, CompositeStore
from dfsched.dialects.agen.symbolic import SymbolicVectorLoad, SymbolicVectorStore
from dfsched.dialects.agen.vector import VectorLoad, VectorStore
from dfsched.dialects.enums import enum_reader
from ktir.context import Dialect

__all__ = [
    "AGEN",
    "AgenDirection",
    "CompositeLoad",
    "CompositeLoadAndStore",
    "CompositeSide",
    "CompositeStore",
    "IndirectVectorLoad",
    "IndirectVectorStore",
    "SymbolicVectorLoad",
    "SymbolicVectorStore",
    "VectorLoad",
    "VectorStore",
    "Yield",
]

AGEN = Dialect(
    "agen",
    operations=(
        Yield,
        VectorLoad,
        VectorStore,
        CompositeLoadAndStore,
        CompositeLoad,
        CompositeStore,
        IndirectVectorLoad,
        IndirectVectorStore,
        SymbolicVectorLoad,
        SymbolicVectorStore,
    ),
    attributes=(enum_reader("agen", AgenDirection),),
)
