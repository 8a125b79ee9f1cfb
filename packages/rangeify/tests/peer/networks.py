"""Forward graphs of networks in the shared vocabulary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from peer.backends import Backend
from peer.programs import norm, rms, softmax, swish


def transformer(
    b: Backend, layers: int = 12, width: int = 256, heads: int = 8, tokens: int = 64, grow: int = 0
) -> list[Any]:
    """Pre-norm layers with biases nowhere; batch 2. Each feed-forward is `grow` wider than the one before."""
    x = b.t(2, tokens, width)
    for i in range(layers):
        h = norm(b, x) * b.t(width) + b.t(width)
        x = x + _attention(b, h, width, heads, tokens, heads, None) @ b.t(width, width)
        h, wide = norm(b, x) * b.t(width) + b.t(width), 4 * width + i * grow
        x = x + swish(h @ b.t(width, wide)) @ b.t(wide, width)
    return [x]


def _attention(
    b: Backend, h: Any, width: int, heads: int, tokens: int, key_heads: int, turn: Callable[[Any], Any] | None
) -> Any:
    size = width // heads
    q = (h @ b.t(width, width)).reshape(2, tokens, heads, size).permute(0, 2, 1, 3)
    k, v = (
        (h @ b.t(width, key_heads * size)).reshape(2, tokens, key_heads, size).permute(0, 2, 1, 3)
        for _ in range(2)
    )
    if turn is not None:
        q, k = turn(q), turn(k)
    if key_heads < heads:
        k, v = (
            t.reshape(2, key_heads, 1, tokens, size)
            .expand(2, key_heads, heads // key_heads, tokens, size)
            .reshape(2, heads, tokens, size)
            for t in (k, v)
        )
    scores = softmax(b, q @ k.transpose(-2, -1) * size**-0.5 + b.t(tokens, tokens))
    return (scores @ v).permute(0, 2, 1, 3).reshape(2, tokens, width)


def bert(b: Backend, layers: int = 4, width: int = 128, heads: int = 4, tokens: int = 32) -> list[Any]:
    """Post-norm encoder with biases; a pooled output."""
    x = norm(b, b.t(2, tokens, width) + b.t(tokens, width)) * b.t(width) + b.t(width)
    for _ in range(layers):
        a = _attention(b, x, width, heads, tokens, heads, None) @ b.t(width, width) + b.t(width)
        x = norm(b, x + a) * b.t(width) + b.t(width)
        y = swish(x @ b.t(width, 4 * width) + b.t(4 * width)) @ b.t(4 * width, width) + b.t(width)
        x = norm(b, x + y) * b.t(width) + b.t(width)
    return [(x[:, 0] @ b.t(width, width)).maximum(-1.0), x]


def llama(b: Backend, layers: int = 4, width: int = 128, heads: int = 4, tokens: int = 32) -> list[Any]:
    """RMS norms, rotated queries and keys, fewer heads of keys, a gated feed-forward."""
    x, size = b.t(2, tokens, width), width // heads
    c, s = b.t(tokens, size // 2), b.t(tokens, size // 2)

    def turn(q: Any) -> Any:
        lo, hi = q[:, :, :, : size // 2], q[:, :, :, size // 2 :]
        return b.cat([lo * c - hi * s, hi * c + lo * s], 3)

    for _ in range(layers):
        h = rms(b, x) * b.t(width)
        x = x + _attention(b, h, width, heads, tokens, heads // 2, turn) @ b.t(width, width)
        h = rms(b, x) * b.t(width)
        x = x + (swish(h @ b.t(width, 3 * width)) * (h @ b.t(width, 3 * width))) @ b.t(3 * width, width)
    return [rms(b, x) * b.t(width)]


def resnet50(b: Backend, size: int = 64, blocks: tuple[int, ...] = (3, 4, 6, 3)) -> list[Any]:
    """Bottleneck blocks, their number by stage; batch norms as affine maps of their statistics."""

    def conv(x: Any, out: int, kernel: int, stride: int = 1) -> Any:
        x = b.conv2d(x, b.t(out, x.shape[1], kernel, kernel), stride=stride, padding=kernel // 2)
        mean, var, weight, bias = (b.t(out).reshape(out, 1, 1) for _ in range(4))
        return (x - mean) * (var + 1e-5).rsqrt() * weight + bias

    x = b.max_pool(conv(b.t(1, 3, size, size), 64, 7, 2).relu(), 3, 2, 1)
    for stage, count in enumerate(blocks):
        width = 64 << stage
        for i in range(count):
            stride = 2 if stage and i == 0 else 1
            y = conv(x, width, 1).relu()
            y = conv(y, width, 3, stride).relu()
            y = conv(y, 4 * width, 1)
            x = ((conv(x, 4 * width, 1, stride) if i == 0 else x) + y).relu()
    pooled = b.sum(x, (2, 3)) * (1.0 / (x.shape[2] * x.shape[3]))
    return [pooled @ b.t(pooled.shape[1], 1000) + b.t(1000)]


NETWORKS: Final[dict[str, Callable[[Backend], list[Any]]]] = {
    "transformer": transformer,
    "resnet50": resnet50,
    "bert": bert,
    "llama": llama,
}
