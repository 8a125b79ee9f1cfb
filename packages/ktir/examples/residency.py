"""Three kernels that keep a tensor in scratchpads and change who owns what: rows first, then sticks.

[16, 256] f16 over four tiles. The scratchpad addresses are scalar arguments; scratchpads persist between the
kernels.
"""

import ktir
from ktir.affine import AffineSet
from ktir.builder import Kernel, build_module
from ktir.dialects.ktdp import MemorySpace, Space


def produce() -> Kernel:
    """Doubles four rows into the tile's own scratchpad."""
    k = Kernel("produce", grid=(4,))
    x, s1 = k.pointer("x"), k.index("s1")
    (core,) = k.tile_id()
    data = k.view(x, (4, 16, 64), "f16")[:, core * 4 : core * 4 + 4].load()
    k.scratchpad(s1, (4, 4, 64), "f16").store(data + data)
    return k


def relayout() -> Kernel:
    """Collects one stick of all rows from the four scratchpads."""
    k = Kernel("relayout", grid=(4,))
    s1, s2 = k.index("s1"), k.index("s2")
    (core,) = k.tile_id()
    parts = [
        k.view(
            s1,
            (4, 4, 64),
            "f16",
            space=MemorySpace(Space.CT_LOCAL, owner),
            coordinates=AffineSet.box(4, (4 * owner, 4 * owner + 4), 64),
        )
        for owner in range(4)
    ]
    k.scratchpad(s2, (1, 16, 64), "f16").store(k.distributed(parts, (4, 16, 64))[core].load())
    return k


def consume() -> Kernel:
    """Writes each tile's stick to device memory."""
    k = Kernel("consume", grid=(4,))
    s2, y = k.index("s2"), k.pointer("y")
    (core,) = k.tile_id()
    k.view(y, (4, 16, 64), "f16")[core] = k.scratchpad(s2, (1, 16, 64), "f16").load()
    return k


def build() -> ktir.Module:
    """The module with the three kernels."""
    return build_module(produce(), relayout(), consume())


if __name__ == "__main__":
    print(ktir.print_module(build()), end="")
