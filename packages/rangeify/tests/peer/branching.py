"""Forward graphs of networks whose values live on beside the main path, in the shared vocabulary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from peer.backends import Backend
from peer.programs import softmax


def _conv(b: Backend, x: Any, out: int, kernel: int = 3, stride: int = 1) -> Any:
    y = b.conv2d(x, b.t(out, x.shape[1], kernel, kernel), stride=stride, padding=kernel // 2)
    return (y + b.t(out, 1, 1)).relu()


def _double(x: Any) -> Any:
    """Each pixel four times."""
    n, c, h, w = x.shape
    return x.reshape(n, c, h, 1, w, 1).expand(n, c, h, 2, w, 2).reshape(n, c, 2 * h, 2 * w)


def u_net(b: Backend, size: int = 32, width: int = 8, depth: int = 3) -> list[Any]:
    """Values of each level wait for the way up."""
    x, waiting = b.t(1, 3, size, size), []
    for level in range(depth):
        x = _conv(b, _conv(b, x, width << level), width << level)
        waiting.append(x)
        x = b.max_pool(x, 2, 2)
    x = _conv(b, x, width << depth)
    for level in reversed(range(depth)):
        x = b.cat([_double(_conv(b, x, width << level, 1)), waiting[level]], 1)
        x = _conv(b, _conv(b, x, width << level), width << level)
    return [_conv(b, x, 2, 1)]


def dense_net(b: Backend, size: int = 16, growth: int = 8, layers: int = 6) -> list[Any]:
    """Every layer reads all values before it; two blocks."""
    x = _conv(b, b.t(1, 3, size, size), 2 * growth)
    for _ in range(2):
        parts = [x]
        for _ in range(layers):
            parts.append(_conv(b, _conv(b, b.cat(parts, 1), 4 * growth, 1), growth))
        x = b.max_pool(_conv(b, b.cat(parts, 1), 2 * growth, 1), 2, 2)
    return [b.sum(x, (2, 3))]


def inception(b: Backend, size: int = 16, width: int = 8, blocks: int = 3) -> list[Any]:
    """Four ways of different length through each block."""
    x = _conv(b, b.t(1, 3, size, size), 4 * width)
    for _ in range(blocks):
        ways = [_conv(b, x, width, 1)]
        ways.append(_conv(b, _conv(b, x, 2 * width, 1), width))
        ways.append(_conv(b, _conv(b, _conv(b, x, 3 * width, 1), 2 * width), width))
        ways.append(_conv(b, b.max_pool(x, 3, 1, 1), width, 1))
        x = b.cat(ways, 1)
    return [b.sum(x, (2, 3))]


def experts(b: Backend, tokens: int = 32, width: int = 32, count: int = 6) -> list[Any]:
    """A gate weighs the results of several feed-forward networks; two layers."""
    x = b.t(tokens, width)
    for _ in range(2):
        gate = softmax(b, x @ b.t(width, count))
        hidden = [(x @ b.t(width, 4 * width)).relu() for _ in range(count)]
        parts = [(h @ b.t(4 * width, width)) * gate[:, i : i + 1] for i, h in enumerate(hidden)]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        x = x + total
    return [x]


def beams(b: Backend, width: int = 48, count: int = 5, steps: int = 3) -> list[Any]:
    """Several hypotheses grow by themselves and are compared at the end of each step."""
    hypotheses = [b.t(8, width) for _ in range(count)]
    for _ in range(steps):
        wide = [(h @ b.t(width, 4 * width)).relu() for h in hypotheses]
        new = [w @ b.t(4 * width, width) for w in wide]
        best = new[0]
        for n in new[1:]:
            best = best.maximum(n)
        hypotheses = [(h + n - b.max(best, 1, True)) for h, n in zip(hypotheses, new, strict=True)]
    total = hypotheses[0]
    for h in hypotheses[1:]:
        total = total + h
    return [total]


BRANCHING: Final[dict[str, Callable[[Backend], list[Any]]]] = {
    "u-net": u_net,
    "densenet": dense_net,
    "inception": inception,
    "experts": experts,
    "beams": beams,
}
