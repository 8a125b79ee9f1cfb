"""Gather 64 rows of a table of [300, 128] by an index tensor, 32 rows a tile."""

import ktir
from ktir.builder import Kernel


def build() -> ktir.Module:
    """The module with the kernel."""
    k = Kernel("embedding", grid=(2,))
    table, indices, y = (k.pointer(name) for name in ("table", "indices", "y"))
    (core,) = k.tile_id()
    rows = k.view(indices, (2, 32), "i32")
    found = k.view(table, (2, 300, 64), "f16").gather((2, 32, 64), lambda t, r, e: (t, rows.at(core, r), e))
    k.view(y, (2, 64, 64), "f16")[:, core * 32 : core * 32 + 32] = found.load()
    return k.build()


if __name__ == "__main__":
    print(ktir.print_module(build()), end="")
