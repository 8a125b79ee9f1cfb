"""The maximum of each row of [32, 130]: lanes behind column 130 are masked, one result a stick."""

import ktir
from ktir.builder import Element, Kernel, Scalar


def build() -> ktir.Module:
    """The module with the kernel."""
    k = Kernel("masked_row_max", grid=(4,))
    x, y = k.pointer("x"), k.pointer("y")
    (core,) = k.tile_id()
    rows = slice(core * 8, core * 8 + 8)
    data = k.view(x, (3, 32, 64), "f16")[:, rows].load()

    def mask(value: Scalar) -> Element:
        column = k.lane(0) * 64 + k.lane(2)
        return (column < 130).where(value, float("-inf"))

    largest = k.map(mask, data).max((0, 2))
    k.view(y, (32, 64), "f16")[rows, 0] = largest.reshape(8, 1)
    return k.build()


if __name__ == "__main__":
    print(ktir.print_module(build()), end="")
