"""RMS normalisation of [96, 640] with statistics in f32 and a weight for each column."""

import ktir
from ktir.builder import Kernel


def build() -> ktir.Module:
    """The module with the kernel."""
    k = Kernel("rms_norm", grid=(32,))
    x, g, y = (k.pointer(name) for name in ("x", "g", "y"))
    (core,) = k.tile_id()
    rows = slice(core * 3, core * 3 + 3)
    shape = (10, 3, 64)
    wide = k.view(x, (10, 96, 64), "f16")[:, rows].load().to("f32")
    weight = k.view(g, (10, 64), "f16").load()
    mean_square = (wide * wide).sum((0, 2)) * (1 / 640)
    scale = (mean_square + 1e-5).rsqrt()
    normal = (wide * scale.broadcast(shape, (0, 2))).to("f16")
    k.view(y, (10, 96, 64), "f16")[:, rows] = normal * weight.broadcast(shape, 1)
    return k.build()


if __name__ == "__main__":
    print(ktir.print_module(build()), end="")
