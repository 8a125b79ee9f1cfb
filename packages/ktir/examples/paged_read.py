"""Read the pages of four sequences through a page table: 6 pages of 16 tokens, 2 heads."""

import ktir
from ktir.builder import Kernel


def build() -> ktir.Module:
    """The module with the kernel."""
    k = Kernel("paged_read", grid=(4,))
    pool, table, y = (k.pointer(name) for name in ("pool", "table", "y"))
    (sequence,) = k.tile_id()
    pages = k.view(table, (4, 32), "i32")
    tokens = k.view(pool, (20, 2, 16, 64), "f16").gather(
        (1, 2, 96, 64), lambda _, head, t, e: (pages.at(sequence, t // 16), head, t % 16, e)
    )
    k.view(y, (4, 2, 96, 64), "f16")[sequence] = tokens.load()
    return k.build()


if __name__ == "__main__":
    print(ktir.print_module(build()), end="")
