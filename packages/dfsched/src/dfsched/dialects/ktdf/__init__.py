"""The `ktdf` dialect: pipelines of stages over queues and buffers (scheduler spec 1)."""

from dfsched.dialects.ktdf.indirect import IndirectDataTransfer
from dfsched.dialects.ktdf.opaque import Opaque
from dfsched.dialects.ktdf.parallel import Parallel, ParallelYield
from dfsched.dialects.ktdf.pipeline import Pipeline, Private, PrivateYield, Stage
from dfsched.dialects.ktdf.queue import CreateToken, FifoAllocate, ReadFromFifo, WriteToFifo
from dfsched.dialects.ktdf.tiling import (
    BufferPhase,
    DeriveSize,
    LinearizeIndex,
    ReserveSize,
    SelectMemref,
)
from dfsched.dialects.ktdf.transfer import DYNAMIC, TRANSFER_MODE, Cell, DataTransfer
from dfsched.dialects.ktdf.types import FifoSlotType, LoopKind, LoopTypeAttr, TokenType
from ktir.context import Dialect

__all__ = [
    "DYNAMIC",
    "KTDF",
    "TRANSFER_MODE",
    "BufferPhase",
    "Cell",
    "CreateToken",
    "DataTransfer",
    "DeriveSize",
    "FifoAllocate",
    "FifoSlotType",
    "IndirectDataTransfer",
    "LinearizeIndex",
    "LoopKind",
    "LoopTypeAttr",
    "Opaque",
    "Parallel",
    "ParallelYield",
    "Pipeline",
    "Private",
    "PrivateYield",
    "ReadFromFifo",
    "ReserveSize",
    "SelectMemref",
    "Stage",
    "TokenType",
    "WriteToFifo",
]

KTDF = Dialect(
    "ktdf",
    operations=(
        BufferPhase,
        CreateToken,
        DataTransfer,
        DeriveSize,
        FifoAllocate,
        IndirectDataTransfer,
        LinearizeIndex,
        Opaque,
        Parallel,
        ParallelYield,
        Pipeline,
        Private,
        PrivateYield,
        ReadFromFifo,
        ReserveSize,
        SelectMemref,
        Stage,
        WriteToFifo,
    ),
    attributes=(LoopTypeAttr,),
    types=(FifoSlotType, TokenType),
)
