"""Branching networks whose branches store what they give, as most frameworks do: the order decides what
waits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from peer.backends import Backend
from peer.programs import softmax


def _layer(b: Backend, x: Any, out: int, kernel: int = 3) -> Any:
    y = b.conv2d(x, b.t(out, x.shape[1], kernel, kernel), padding=kernel // 2)
    return (y + b.t(out, 1, 1)).relu().contiguous()


def _double(x: Any) -> Any:
    n, c, h, w = x.shape
    return x.reshape(n, c, h, 1, w, 1).expand(n, c, h, 2, w, 2).reshape(n, c, 2 * h, 2 * w)


def u_net(b: Backend) -> list[Any]:
    """Each skip path widens its value by a convolution of its own, which is needed on the way up only."""
    x, skips = b.t(1, 4, 16, 16), []
    for level in range(3):
        x = _layer(b, x, 4 << level)
        skips.append(_layer(b, x, 8 << level, 1))
        x = b.max_pool(x, 2, 2)
    x = _layer(b, x, 32)
    for level in reversed(range(3)):
        x = _layer(b, b.cat([_double(_layer(b, x, 4 << level, 1)), skips[level]], 1), 4 << level)
    return [x]


def dense_net(b: Backend) -> list[Any]:
    """Every layer reads all before it, through a bottleneck for each of them."""
    parts = [_layer(b, b.t(1, 3, 12, 12), 8)]
    for _ in range(3):
        narrow = [_layer(b, _layer(b, p, 16, 1), 4, 1) for p in parts]
        total = narrow[0]
        for n in narrow[1:]:
            total = total + n
        parts.append(_layer(b, total, 8))
    return [b.sum(parts[-1], (2, 3))]


def inception(b: Backend) -> list[Any]:
    """Ways of different length and width through each block."""
    x = _layer(b, b.t(1, 3, 12, 12), 16)
    for _ in range(2):
        ways = [_layer(b, x, 8, 1)]
        ways.append(_layer(b, _layer(b, x, 24, 1), 8))
        ways.append(_layer(b, _layer(b, _layer(b, x, 16, 1), 24), 8))
        ways.append(_layer(b, _layer(b, x, 32, 1), 8))
        x = _layer(b, b.cat(ways, 1), 16, 1)
    return [b.sum(x, (2, 3))]


def experts(b: Backend) -> list[Any]:
    """A gate weighs the results of several wide feed-forward networks."""
    x = b.t(32, 32)
    for _ in range(2):
        gate = softmax(b, x @ b.t(32, 6)).contiguous()
        parts = []
        for i in range(6):
            hidden = (x @ b.t(32, 128)).relu().contiguous()
            parts.append(((hidden @ b.t(128, 32)) * gate[:, i : i + 1]).contiguous())
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        x = (x + total).contiguous()
    return [x]


def beams(b: Backend) -> list[Any]:
    """Hypotheses grow one by one through a wide layer and are compared after each step."""
    hypotheses = [b.t(8, 48) for _ in range(5)]
    for _ in range(2):
        new = [((h @ b.t(48, 192)).relu().contiguous() @ b.t(192, 48)).contiguous() for h in hypotheses]
        best = new[0]
        for n in new[1:]:
            best = best.maximum(n)
        top = b.max(best, 1, True).contiguous()
        hypotheses = [(h + n - top).contiguous() for h, n in zip(hypotheses, new, strict=True)]
    total = hypotheses[0]
    for h in hypotheses[1:]:
        total = total + h
    return [total]


STORED_BRANCHES: Final[dict[str, Callable[[Backend], list[Any]]]] = {
    "u-net": u_net,
    "densenet": dense_net,
    "inception": inception,
    "experts": experts,
    "beams": beams,
}
