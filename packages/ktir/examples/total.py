"""Sum all of [96, 640] to one number: lanes first, then tiles, then the lanes of one stick."""

import operator

import ktir
from ktir.affine import affine_set
from ktir.builder import Kernel


def build() -> ktir.Module:
    """The module with the kernel."""
    k = Kernel("total", grid=(32,))
    x, y = k.pointer("x"), k.pointer("y")
    (core,) = k.tile_id()
    data = k.view(x, (10, 96, 64), "f16")[:, core * 3 : core * 3 + 3].load()
    lanes = data.to("f32").reshape(1, 10, 3, 64).sum((1, 2))
    total = k.reduce_tiles(
        lanes,
        operator.add,
        identity=k.full((1, 64), 0, "f32"),
        members=affine_set("(i)[g] : (i - 32 * g >= 0, -i + 32 * g + 31 >= 0)"),
        groups=affine_set("(g) : (g == 0)"),
    )
    number = total.sum(1).item(0).to("f16")
    with k.when(core.equal(0)):
        k.view(y, (1, 64), "f16").store(k.splat(number, (1, 64)))
    return k.build()


if __name__ == "__main__":
    print(ktir.print_module(build()), end="")
