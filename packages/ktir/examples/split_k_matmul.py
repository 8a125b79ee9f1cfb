"""[8, 512] times [512, 128] on a grid of 4 by 2: a group of tiles shares the inner dimension."""

import operator

import ktir
from ktir.affine import AffineSet, affine_set
from ktir.builder import Kernel


def build() -> ktir.Module:
    """The module with the kernel."""
    k = Kernel("split_k_matmul", grid=(4, 2))
    x, w, y = (k.pointer(name) for name in ("x", "w", "y"))
    part, n = k.tile_id()
    left, right = k.view(x, (8, 8, 64), "f16"), k.view(w, (2, 512, 64), "f16")
    with k.loop(part * 2, part * 2 + 2, carry=[k.full((8, 64), 0, "f32")]) as loop:
        i = loop.index
        a = left[i].load().reshape(8, 64)
        b = right[n, i * 64 : i * 64 + 64].load().reshape(64, 64)
        loop.carry(a.matmul(b, loop.carried[0]))
    total = k.reduce_tiles(
        loop.results[0].reshape(1, 8, 64),
        operator.add,
        identity=k.full((1, 8, 64), 0, "f32"),
        members=affine_set("(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)"),
        groups=AffineSet.box(2),
    )
    with k.when(part.equal(0)):
        k.view(y, (2, 8, 64), "f16")[n] = total.to("f16")
    return k.build()


if __name__ == "__main__":
    print(ktir.print_module(build()), end="")
