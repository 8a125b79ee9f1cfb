"""Append one token to each of four sequences: a store scattered through page and slot numbers."""

import ktir
from ktir.builder import Kernel


def build() -> ktir.Module:
    """The module with the kernel."""
    k = Kernel("paged_append", grid=(1,))
    pool, page, slot, new = (k.pointer(name) for name in ("pool", "page", "slot", "new"))
    pages, slots = k.view(page, (1, 32), "i32"), k.view(slot, (1, 32), "i32")
    places = k.view(pool, (20, 16, 64), "f16").gather(
        (4, 1, 64), lambda b, _, e: (pages.at(0, b), slots.at(0, b), e)
    )
    places.store(k.view(new, (4, 1, 64), "f16").load())
    return k.build()


if __name__ == "__main__":
    print(ktir.print_module(build()), end="")
