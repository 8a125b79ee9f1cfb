"""Cast [32, 128] from f16 to f32: every stick of 64 becomes two sticks of 32, eight rows a tile."""

import ktir
from ktir.builder import Kernel


def build() -> ktir.Module:
    """The module with the kernel."""
    k = Kernel("upcast", grid=(4,))
    x, y = k.pointer("x"), k.pointer("y")
    (core,) = k.tile_id()
    rows = slice(core * 8, core * 8 + 8)
    wide = k.view(x, (2, 32, 64), "f16")[:, rows].load().to("f32").reshape(2, 8, 2, 32)
    k.view(y, (2, 2, 32, 32), "f32")[:, :, rows] = wide.transpose(0, 2, 1, 3)
    return k.build()


if __name__ == "__main__":
    print(ktir.print_module(build()), end="")
