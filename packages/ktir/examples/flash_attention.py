"""Attention of 128 queries over 192 keys of 64 elements with a running softmax, 32 queries a tile."""

import ktir
from ktir.builder import Kernel


def build() -> ktir.Module:
    """The module with the kernel."""
    k = Kernel("flash_attention", grid=(4,))
    q, kt, v, o = (k.pointer(name) for name in ("q", "kT", "v", "o"))
    (core,) = k.tile_id()
    rows = slice(core * 32, core * 32 + 32)
    keys, values = k.view(kt, (3, 64, 64), "f16"), k.view(v, (1, 192, 64), "f16")
    queries = k.view(q, (1, 128, 64), "f16")[:, rows].load().reshape(32, 64) * 0.125
    start = [k.full((32,), float("-inf"), "f16"), k.full((32,), 0, "f16"), k.full((32, 64), 0, "f16")]
    with k.loop(0, 3, carry=start) as loop:
        largest, total, output = loop.carried
        block = loop.index
        scores = queries @ keys[block].load().reshape(64, 64)
        larger = largest.maximum(scores.max(1))
        shrink = (largest - larger).exp()
        power = (scores - larger.broadcast((32, 64), 1)).exp()
        weighted = values[:, block * 64 : block * 64 + 64].load().reshape(64, 64)
        loop.carry(
            larger,
            total * shrink + power.sum(1),
            power.matmul(weighted, output * shrink.broadcast((32, 64), 1)),
        )
    _, total, output = loop.results
    result = output / total.broadcast((32, 64), 1)
    k.view(o, (1, 128, 64), "f16")[:, rows] = result.reshape(1, 32, 64)
    return k.build()


if __name__ == "__main__":
    print(ktir.print_module(build()), end="")
