"""[32, 192] times [192, 256] on a grid of 4 column blocks by 2 row blocks."""

import ktir
from ktir.builder import Kernel


def build() -> ktir.Module:
    """The module with the kernel."""
    k = Kernel("matmul", grid=(4, 2))
    x, w, y = (k.pointer(name) for name in ("x", "w", "y"))
    n, m = k.tile_id()
    rows = slice(m * 16, m * 16 + 16)
    left, right = k.view(x, (3, 32, 64), "f16"), k.view(w, (4, 192, 64), "f16")
    with k.loop(0, 3, carry=[k.full((16, 64), 0, "f16")]) as loop:
        i = loop.index
        a = left[i, rows].load().reshape(16, 64)
        b = right[n, i * 64 : i * 64 + 64].load().reshape(64, 64)
        loop.carry(a.matmul(b, loop.carried[0]))
    k.view(y, (4, 32, 64), "f16")[n, rows] = loop.results[0].reshape(1, 16, 64)
    return k.build()


if __name__ == "__main__":
    print(ktir.print_module(build()), end="")
