"""The ``ktdp`` dialect: kernels over tiles (KTIR spec 1)."""

from __future__ import annotations

from ktir.context import Dialect
from ktir.dialects.ktdp.inter_tile import (
    Delivery,
    InterTileConsume,
    InterTileProduce,
    InterTileReduce,
    YieldPartial,
    YieldReduced,
)
from ktir.dialects.ktdp.memory_space import (
    CT_LOCAL,
    GLOBAL,
    MemorySpace,
    MemorySpaceAttr,
    Space,
    SpyreMemorySpace,
    SpyreSpace,
)
from ktir.dialects.ktdp.proposed import (
    PROPOSED,
    InterTileAllToAll,
    InterTileGather,
    InterTileReduceScatter,
    InterTileScatter,
    ProposedDelivery,
)
from ktir.dialects.ktdp.tiles import (
    ConstructAccessTile,
    ConstructIndirectAccessTile,
    Load,
    RegionTerminator,
    Store,
)
from ktir.dialects.ktdp.types import AccessTileType, RuntimeArgType, TileFutureType
from ktir.dialects.ktdp.views import (
    ConstructDistributedMemoryView,
    ConstructMemoryView,
    ExtractKind,
    GetComputeTileId,
    RuntimeArgExtract,
)
from ktir.layout import Layout

DIALECT = Dialect(
    "ktdp",
    operations=(
        GetComputeTileId,
        ConstructMemoryView,
        ConstructDistributedMemoryView,
        ConstructAccessTile,
        ConstructIndirectAccessTile,
        Load,
        Store,
        RuntimeArgExtract,
        InterTileProduce,
        InterTileConsume,
        InterTileReduce,
        YieldPartial,
        YieldReduced,
        RegionTerminator,
    ),
    attributes=(Layout, MemorySpace, SpyreMemorySpace),
    types=(AccessTileType, RuntimeArgType, TileFutureType),
)

PROPOSED_DIALECT = Dialect(
    "ktdp", (*DIALECT.operations, *PROPOSED), attributes=DIALECT.attributes, types=DIALECT.types
)
"""The dialect with the proposed deliveries."""

__all__ = [
    "CT_LOCAL",
    "DIALECT",
    "GLOBAL",
    "PROPOSED",
    "PROPOSED_DIALECT",
    "AccessTileType",
    "ConstructAccessTile",
    "ConstructDistributedMemoryView",
    "ConstructIndirectAccessTile",
    "ConstructMemoryView",
    "Delivery",
    "ExtractKind",
    "GetComputeTileId",
    "InterTileAllToAll",
    "InterTileConsume",
    "InterTileGather",
    "InterTileProduce",
    "InterTileReduce",
    "InterTileReduceScatter",
    "InterTileScatter",
    "Load",
    "MemorySpace",
    "MemorySpaceAttr",
    "ProposedDelivery",
    "RegionTerminator",
    "RuntimeArgExtract",
    "RuntimeArgType",
    "Space",
    "SpyreMemorySpace",
    "SpyreSpace",
    "Store",
    "TileFutureType",
    "YieldPartial",
    "YieldReduced",
]
