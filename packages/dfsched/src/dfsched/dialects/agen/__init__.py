"""The `agen` dialect: address generation (dataflowir spec 1.3)."""

from dfsched.dialects.agen.access import AgenDirection, Yield
from dfsched.dialects.agen.composite import CompositeLoadAndStore, CompositeSide
from dfsched.dialects.agen.composite_indirect import (
    CompositeIndirectLoad,
    CompositeIndirectLoadAndStore,
    CompositeIndirectStore,
)
from dfsched.dialects.agen.indirect import IndirectVectorLoad, IndirectVectorStore
from dfsched.dialects.agen.one_sided import CompositeLoad, CompositeStore
from dfsched.dialects.agen.symbolic import SymbolicVectorLoad, SymbolicVectorStore
from dfsched.dialects.agen.transfer_state import CompositeMemoryInterleave, SetTransferMaskState
from dfsched.dialects.agen.vector import VectorLoad, VectorStore
from dfsched.dialects.enums import enum_reader
from ktir.context import Dialect

__all__ = [
    "AGEN",
    "AgenDirection",
    "CompositeIndirectLoad",
    "CompositeIndirectLoadAndStore",
    "CompositeIndirectStore",
    "CompositeLoad",
    "CompositeLoadAndStore",
    "CompositeMemoryInterleave",
    "CompositeSide",
    "CompositeStore",
    "IndirectVectorLoad",
    "IndirectVectorStore",
    "SetTransferMaskState",
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
        CompositeIndirectLoad,
        CompositeIndirectStore,
        CompositeIndirectLoadAndStore,
        CompositeMemoryInterleave,
        SetTransferMaskState,
    ),
    attributes=(enum_reader("agen", AgenDirection),),
)
