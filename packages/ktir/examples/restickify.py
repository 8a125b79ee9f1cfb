"""Change the dimension that runs inside a stick: [128, 192] in blocks of 64 by 64 on a grid of 2 by 3."""

import ktir
from ktir.builder import Kernel


def build() -> ktir.Module:
    """The module with the kernel."""
    k = Kernel("restickify", grid=(2, 3))
    x, y = k.pointer("x"), k.pointer("y")
    i, j = k.tile_id()
    block = k.view(x, (3, 128, 64), "f16")[j, i * 64 : i * 64 + 64].load()
    k.view(y, (2, 192, 64), "f16")[i, j * 64 : j * 64 + 64] = block.transpose(0, 2, 1)
    return k.build()


if __name__ == "__main__":
    print(ktir.print_module(build()), end="")
