"""The usual network functions as compositions of Tensor operations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rangeify.errors import ArgumentError, ShapeError
from rangeify.signatures import checked
from rangeify.tensor import Tensor


def _has_rank(function: str, x: Tensor, rank: int) -> None:
    if x.ndim != rank:
        raise ShapeError(f"{function} of a Tensor of shape {x.shape}: it needs {rank} dimensions")


def _is_something(function: str, parts: Sequence[Tensor]) -> None:
    if not parts:
        raise ArgumentError(f"{function} of nothing")


@checked
def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """exp(x - max) over its sum, along `axis`."""
    e = (x - x.max(axis, keepdims=True)).exp()
    return e / e.sum(axis, keepdims=True)


@checked
def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """The logarithm of :func:`softmax`, without forming it."""
    shifted = x - x.max(axis, keepdims=True)
    return shifted - shifted.exp().sum(axis, keepdims=True).log()


@checked
def layer_norm(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5, axis: int = -1
) -> Tensor:
    """(x - mean) / sqrt(variance + eps) along `axis`, times `weight`, plus `bias`."""
    centred = x - x.mean(axis, keepdims=True)
    out = centred * ((centred * centred).mean(axis, keepdims=True) + eps).rsqrt()
    return _affine(out, weight, bias)


@checked
def rms_norm(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6, axis: int = -1) -> Tensor:
    """x / sqrt(mean of squares + eps) along `axis`, times `weight`."""
    return _affine(x * ((x * x).mean(axis, keepdims=True) + eps).rsqrt(), weight, None)


def _affine(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    scaled = x if weight is None else x * weight
    return scaled if bias is None else scaled + bias


@checked
def gelu(x: Tensor) -> Tensor:
    """x times the normal distribution function: x * (1 + erf(x / sqrt 2)) / 2."""
    return x * ((x * (1 / math.sqrt(2))).erf() + 1) * 0.5


@checked
def silu(x: Tensor) -> Tensor:
    """x * sigmoid(x)."""
    return x * x.sigmoid()


@checked
def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x)), written so that it does not overflow."""
    return x.maximum(0) + ((-abs(x)).exp() + 1).log()


@checked
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x @ weight.T + bias; `weight` is (out, in)."""
    out = x @ weight.transpose()
    return out if bias is None else out + bias


@checked
def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, causal: bool = False
) -> Tensor:
    """softmax(query @ key.T / sqrt d) @ value over the last two axes.

    `mask`: bool (False is masked) or added to the scores. `causal`: position i sees 0 ... i. Fewer heads
    (third axis from the end) of key and value than of query are each used by as many heads of query as there
    are to one of theirs.
    """
    if query.ndim > 2 and key.ndim > 2 and query.shape[-3] != key.shape[-3]:
        key, value = (_repeated_heads(t, query.shape[-3]) for t in (key, value))
    scores = query @ key.transpose() * (1 / math.sqrt(query.shape[-1]))
    if causal:
        rows, columns = scores.shape[-2:]
        seen = Tensor.arange(rows).reshape(rows, 1) >= Tensor.arange(columns)
        scores = seen.where(scores, float("-inf"))
    if mask is not None:
        scores = mask.where(scores, float("-inf")) if mask.dtype.is_bool else scores + mask
    return softmax(scores) @ value


def _repeated_heads(x: Tensor, heads: int) -> Tensor:
    """Each head (third axis from the end) several times in a row, `heads` in all."""
    *lead, own, length, width = x.shape
    if own == 0 or heads % own:
        raise ShapeError(f"{heads} heads of query for {own} of key")
    wide = x.reshape((*lead, own, 1, length, width)).expand((*lead, own, heads // own, length, width))
    return wide.reshape((*lead, heads, length, width))


@checked
def embedding(table: Tensor, index: Tensor) -> Tensor:
    """Rows of `table` by an integer tensor; zeros for a row that does not exist."""
    _has_rank("embedding", table, 2)
    rows, width = table.shape
    chosen = index.reshape((*index.shape, 1, 1)) == Tensor.arange(rows, index.dtype).reshape(rows, 1)
    return chosen.where(table, 0).sum(-2).reshape((*index.shape, width))


@checked
def rope(x: Tensor, base: float = 10000.0) -> Tensor:
    """Rotary positions over the last two axes (position, even width): the two halves are rotated against
    each other.
    """
    if x.ndim < 2:
        raise ShapeError(f"rope of {x.ndim} dimensions: it needs positions and a width")
    length, width = x.shape[-2:]
    if width % 2:
        raise ShapeError(f"rope of an odd width {width}")
    half = width // 2
    frequency = (Tensor.arange(half, "float32") * (-2 * math.log(base) / width)).exp()
    angle = Tensor.arange(length, "float32").reshape(length, 1) * frequency
    cosine, sine = angle.cos().cast(x.dtype), angle.sin().cast(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return concatenate((first * cosine - second * sine, second * cosine + first * sine), -1)


@checked
def concatenate(parts: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Join along an existing axis."""
    _is_something("concatenate", parts)
    return Tensor(parts[0].uop.cat(*(p.uop for p in parts[1:]), dim=axis))


@checked
def stack(parts: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Join along a new axis."""
    _is_something("stack", parts)
    return Tensor(parts[0].uop.stack(*(p.uop for p in parts[1:]), dim=axis))


@checked
def windows(x: Tensor, size: tuple[int, ...], stride: tuple[int, ...]) -> Tensor:
    """Sliding windows over the last ``len(size)`` axes: (..., positions..., offsets...), by movement
    alone.
    """
    n = len(size)
    if n > x.ndim or len(stride) != n:
        raise ShapeError(f"windows of {size} in steps of {stride} over a Tensor of shape {x.shape}")
    lead = x.shape[: x.ndim - n]
    out, positions = x, []
    for i, (k, s) in enumerate(zip(size, stride, strict=True)):
        axis = len(lead) + 2 * i
        extent = out.shape[axis]
        if not 0 < k <= extent or s < 1:
            raise ShapeError(f"a window of {k} on an axis of {extent} in steps of {s}")
        count = (extent - k) // s + 1
        out = _unfold(out, axis, k, s, count)
        positions.append(count)
    order = [
        *range(len(lead)),
        *(len(lead) + 2 * i for i in range(n)),
        *(len(lead) + 2 * i + 1 for i in range(n)),
    ]
    return out.permute(tuple(order))


def _unfold(x: Tensor, axis: int, size: int, stride: int, count: int) -> Tensor:
    """Axis `axis` of extent e becomes (count, size): entry (p, o) is element p * stride + o.

    The axis is repeated `size` times and read with one more column a row, so that row o is shifted by o.
    """
    extent = x.shape[axis]
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    repeated = x.reshape((*before, 1, extent, *after)).expand((*before, size + 1, extent, *after))
    flat = repeated.reshape((*before, (size + 1) * extent, *after))
    keep: list[Any] = [slice(None)] * len(before)
    skewed = flat[(*keep, slice(0, size * (extent + 1)))].reshape((*before, size, extent + 1, *after))
    rows = skewed[(*keep, slice(None), slice(0, (count - 1) * stride + 1, stride))]
    a = len(before)
    return rows.permute((*range(a), a + 1, a, *range(a + 2, rows.ndim)))


def _padded(x: Tensor, padding: tuple[int, ...] | None, value: bool | int | float) -> Tensor:
    """The last axes padded on both sides."""
    if padding is None or not any(padding):
        return x
    if len(padding) > x.ndim or min(padding) < 0:
        raise ShapeError(f"padding by {padding} of a Tensor of shape {x.shape}")
    widths = [(0, 0)] * (x.ndim - len(padding)) + [(p, p) for p in padding]
    return x.pad(widths, value)


@checked
def max_pool(
    x: Tensor,
    size: tuple[int, ...],
    stride: tuple[int, ...] | None = None,
    padding: tuple[int, ...] | None = None,
) -> Tensor:
    """The maximum over windows of the last axes; `stride` defaults to `size`; padding is below every
    value."""
    n = len(size)
    least = -math.inf if x.dtype.is_float else x.dtype.min
    return windows(_padded(x, padding, least), size, stride or size).max(tuple(range(-n, 0)))


@checked
def avg_pool(
    x: Tensor,
    size: tuple[int, ...],
    stride: tuple[int, ...] | None = None,
    padding: tuple[int, ...] | None = None,
) -> Tensor:
    """The mean over windows of the last axes; `stride` defaults to `size`; padding counts as zeros."""
    n = len(size)
    return windows(_padded(x, padding, 0), size, stride or size).mean(tuple(range(-n, 0)))


@checked
def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: tuple[int, int] = (1, 1),
    padding: tuple[int, int] = (0, 0),
    dilation: tuple[int, int] = (1, 1),
    groups: int = 1,
) -> Tensor:
    """Convolution of (batch, channels, height, width) with (out, channels / groups, kh, kw).

    `dilation`: the distance of the elements that a window takes. `groups`: the channels of x and of the
    result in so many parts that do not mix.
    """
    _has_rank("conv2d", x, 4)
    _has_rank("conv2d", weight, 4)
    batch, channels = x.shape[:2]
    out, inner, kh, kw = weight.shape
    if groups < 1 or channels % groups or out % groups or inner != channels // groups:
        raise ShapeError(f"conv2d of {channels} channels in {groups} groups with a weight of {weight.shape}")
    dh, dw = dilation
    seen = windows(_padded(x, padding, 0), ((kh - 1) * dh + 1, (kw - 1) * dw + 1), stride)
    if dilation != (1, 1):
        seen = seen[..., ::dh, ::dw]
    height, width = seen.shape[2:4]
    product = seen.reshape(batch, groups, 1, inner, height, width, kh, kw) * weight.reshape(
        groups, out // groups, inner, 1, 1, kh, kw
    )
    total = product.sum((3, 6, 7)).reshape(batch, out, height, width)
    return total if bias is None else total + bias.reshape(out, 1, 1)
