"""Add a bias of 640 columns and clamp at zero: [96, 640] f16 over 32 tiles, three rows each.

All arrays are in stick layout: ten sticks of 64 columns, each with its 96 rows.
"""

import ktir
from ktir.builder import Kernel


def build() -> ktir.Module:
    """The module with the kernel."""
    k = Kernel("bias_relu", grid=(32,))
    x, b, y = (k.pointer(name) for name in ("x", "b", "y"))
    (core,) = k.tile_id()
    rows = slice(core * 3, core * 3 + 3)
    data = k.view(x, (10, 96, 64), "f16")[:, rows].load()
    bias = k.view(b, (10, 64), "f16").load().broadcast((10, 3, 64), 1)
    k.view(y, (10, 96, 64), "f16")[:, rows] = (data + bias).maximum(0)
    return k.build()


if __name__ == "__main__":
    print(ktir.print_module(build()), end="")
