"""Softmax over rows that fit a tile: [96, 640] f16 over 32 tiles, three rows each."""

import ktir
from ktir.builder import Kernel


def build() -> ktir.Module:
    """The module with the kernel."""
    k = Kernel("softmax", grid=(32,))
    x, y = k.pointer("x"), k.pointer("y")
    (core,) = k.tile_id()
    rows = slice(core * 3, core * 3 + 3)
    shape, axes = (10, 3, 64), (0, 2)
    data = k.view(x, (10, 96, 64), "f16")[:, rows].load()
    power = (data - data.max(axes).broadcast(shape, axes)).exp()
    k.view(y, (10, 96, 64), "f16")[:, rows] = power / power.sum(axes).broadcast(shape, axes)
    return k.build()


if __name__ == "__main__":
    print(ktir.print_module(build()), end="")
