"""Sum the rows of [96, 640]: partial sums in f32 on a grid of 3 by 10, folded over groups of three tiles."""

import operator

import ktir
from ktir.affine import AffineSet, affine_set
from ktir.builder import Kernel


def build() -> ktir.Module:
    """The module with the kernel."""
    k = Kernel("column_sum", grid=(3, 10))
    x, y = k.pointer("x"), k.pointer("y")
    part, stick = k.tile_id()
    rows = slice(part * 32, part * 32 + 32)
    partial = k.view(x, (10, 96, 64), "f16")[stick, rows].load().to("f32").sum(1)
    total = k.reduce_tiles(
        partial,
        operator.add,
        identity=k.full((1, 64), 0, "f32"),
        members=affine_set("(i)[g] : (i - 3 * g >= 0, -i + 3 * g + 2 >= 0)"),
        groups=AffineSet.box(10),
    )
    with k.when(part.equal(0)):
        k.view(y, (10, 64), "f16")[stick, :] = total.to("f16")
    return k.build()


if __name__ == "__main__":
    print(ktir.print_module(build()), end="")
