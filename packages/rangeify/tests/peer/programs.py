"""More than sixty small tensor programs. They were written before the scheduler was measured against them,
and are not edited."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from peer.backends import Backend

Program = Callable[[Backend], list[Any]]


def softmax(b: Backend, x: Any, axis: int = -1) -> Any:
    e = (x - b.max(x, axis, keep=True)).exp2()
    return e * b.sum(e, axis, keep=True).reciprocal()


def norm(b: Backend, x: Any, axis: int = -1) -> Any:
    n = x.shape[axis]
    centred = x - b.sum(x, axis, keep=True) * (1.0 / n)
    return centred * (b.sum(centred * centred, axis, keep=True) * (1.0 / n) + 1e-5).rsqrt()


def rms(b: Backend, x: Any) -> Any:
    return x * (b.sum(x * x, -1, keep=True) * (1.0 / x.shape[-1]) + 1e-5).rsqrt()


def attention(b: Backend, q: Any, k: Any, v: Any) -> Any:
    return softmax(b, q @ k.transpose(-2, -1) * 0.125) @ v


def swish(x: Any) -> Any:
    return x * ((x * -1.5).exp2() + 1).reciprocal()


def _elementwise(b: Backend) -> list[Any]:
    return [(b.t(4, 8) + b.t(4, 8)) * b.t(4, 8)]


def _chain(b: Backend) -> list[Any]:
    x = y = b.t(16, 16)
    for i in range(12):
        y = (y * 1.5 + x).maximum(float(i))
    return [y]


def _permuted_chain(b: Backend) -> list[Any]:
    x = b.t(4, 6, 8)
    return [((x.permute(2, 0, 1) * 2).reshape(8, 24).flip(1) + 1).permute(1, 0)]


def _broadcast(b: Backend) -> list[Any]:
    return [b.t(4, 1, 8) * b.t(6, 1) + b.t(8)]


def _diamond(b: Backend) -> list[Any]:
    t = b.t(8, 8) + 1
    return [t * (t + 2)]


def _diamond_permuted(b: Backend) -> list[Any]:
    z = b.t(8, 8) + b.t(8, 8)
    return [z + z.permute(1, 0)]


def _diamond_of_four(b: Backend) -> list[Any]:
    z = b.t(8, 8) + b.t(8, 8) * b.t(8, 8) - b.t(8, 8)
    return [z + z.permute(1, 0)]


def _stored_diamond(b: Backend) -> list[Any]:
    z = (b.t(8, 8) + b.t(8, 8)).contiguous()
    return [z + z.permute(1, 0)]


def _pads(b: Backend) -> list[Any]:
    x = b.t(6, 6) * 2
    return [x.pad(((1, 0), (0, 1))) + x.pad(((0, 1), (1, 0)))]


def _pad_of_function(b: Backend) -> list[Any]:
    return [b.t(6, 6).exp2().pad(((2, 2), (0, 0))) * 3]


def _slices(b: Backend) -> list[Any]:
    x = b.t(10, 10)
    return [x[1:9, 2:] + x[2:, 1:9] * x[0:8, 0:8]]


def _strided(b: Backend) -> list[Any]:
    return [b.t(12, 8)[::3, ::-1] - 1]


def _cat(b: Backend) -> list[Any]:
    return [b.cat([b.t(3, 4), b.t(5, 4) * 2], 0).relu()]


def _stack(b: Backend) -> list[Any]:
    return [b.stack([b.t(4), b.t(4) + 1, b.t(4) * 2])]


def _where(b: Backend) -> list[Any]:
    x, y = b.t(8, 8), b.t(8, 8)
    return [b.where(x < y, x, y * 2)]


def _sum_all(b: Backend) -> list[Any]:
    return [b.sum(b.t(32, 32))]


def _sum_axis(b: Backend) -> list[Any]:
    return [b.sum(b.t(4, 8, 16), 1) * 2 + 1]


def _sum_sum(b: Backend) -> list[Any]:
    return [b.sum(b.sum(b.t(8, 8), 1), 0)]


def _two_sums(b: Backend) -> list[Any]:
    return [b.sum(b.t(8, 16), 1) + b.sum(b.t(8, 32), 1)]


def _max_minus(b: Backend) -> list[Any]:
    x = b.t(4, 8)
    return [b.sum(x - b.max(x, 1, keep=True), 1)]


def _softmax(b: Backend) -> list[Any]:
    return [softmax(b, b.t(32, 32))]


def _softmax_columns(b: Backend) -> list[Any]:
    return [softmax(b, b.t(16, 24), 0)]


def _log_softmax(b: Backend) -> list[Any]:
    x = b.t(16, 24)
    y = x - b.max(x, 1, keep=True)
    return [y - b.sum(y.exp2(), 1, keep=True).log2()]


def _layer_norm(b: Backend) -> list[Any]:
    return [norm(b, b.t(8, 32)) * b.t(32) + b.t(32)]


def _rms_norm(b: Backend) -> list[Any]:
    return [rms(b, b.t(8, 32)) * b.t(32)]


def _residual_rms(b: Backend) -> list[Any]:
    return [rms(b, b.t(8, 32) + b.t(8, 32))]


def _std(b: Backend) -> list[Any]:
    x = b.t(8, 32)
    d = x - b.sum(x, 1, keep=True) * (1 / 32)
    return [(b.sum(d * d, 1) * (1 / 31)).sqrt()]


def _matmul(b: Backend) -> list[Any]:
    return [b.t(16, 32) @ b.t(32, 8)]


def _matmul_bias(b: Backend) -> list[Any]:
    return [(b.t(16, 32) @ b.t(32, 8) + b.t(8)).relu()]


def _matmul_chain(b: Backend) -> list[Any]:
    return [b.t(16, 32) @ b.t(32, 8) @ b.t(8, 4)]


def _matmul_of_function(b: Backend) -> list[Any]:
    return [b.t(64, 64).exp2() @ b.t(64, 64)]


def _mlp(b: Backend) -> list[Any]:
    return [swish(b.t(16, 32) @ b.t(32, 64)) @ b.t(64, 32)]


def _gated_mlp(b: Backend) -> list[Any]:
    x = b.t(16, 32)
    return [(swish(x @ b.t(32, 64)) * (x @ b.t(32, 64))) @ b.t(64, 32)]


def _batched_matmul(b: Backend) -> list[Any]:
    return [b.t(4, 16, 32) @ b.t(4, 32, 8)]


def _attention(b: Backend) -> list[Any]:
    return [attention(b, b.t(2, 16, 8), b.t(2, 16, 8), b.t(2, 16, 8))]


def _masked_attention(b: Backend) -> list[Any]:
    q, k, v, mask = b.t(2, 16, 8), b.t(2, 16, 8), b.t(2, 16, 8), b.t(16, 16)
    return [softmax(b, q @ k.transpose(-2, -1) * 0.25 + mask) @ v]


def _heads(b: Backend) -> list[Any]:
    x = b.t(2, 16, 32)
    q, k, v = ((x @ b.t(32, 32)).reshape(2, 16, 4, 8).permute(0, 2, 1, 3) for _ in range(3))
    return [attention(b, q, k, v).permute(0, 2, 1, 3).reshape(2, 16, 32) @ b.t(32, 32)]


def _conv(b: Backend) -> list[Any]:
    return [b.conv2d(b.t(1, 3, 12, 12), b.t(4, 3, 3, 3))]


def _conv_relu(b: Backend) -> list[Any]:
    return [(b.conv2d(b.t(2, 3, 12, 12), b.t(4, 3, 3, 3), padding=1) + b.t(4, 1, 1)).relu()]


def _conv_strided(b: Backend) -> list[Any]:
    return [b.conv2d(b.t(1, 4, 16, 16), b.t(8, 4, 3, 3), stride=2, padding=1)]


def _two_convs(b: Backend) -> list[Any]:
    x = b.conv2d(b.t(1, 3, 12, 12), b.t(4, 3, 3, 3), padding=1).relu()
    return [b.conv2d(x, b.t(4, 4, 3, 3), padding=1).relu()]


def _residual_block(b: Backend) -> list[Any]:
    x = b.t(1, 4, 8, 8)
    y = b.conv2d(x, b.t(4, 4, 3, 3), padding=1).relu()
    return [(b.conv2d(y, b.t(4, 4, 3, 3), padding=1) + x).relu()]


def _pool(b: Backend) -> list[Any]:
    return [b.max_pool(b.t(1, 4, 16, 16), 2, 2)]


def _conv_pool(b: Backend) -> list[Any]:
    return [b.max_pool(b.conv2d(b.t(1, 3, 18, 18), b.t(4, 3, 3, 3)).relu(), 2, 2)]


def _batch_norm(b: Backend) -> list[Any]:
    x = b.conv2d(b.t(2, 3, 8, 8), b.t(4, 3, 3, 3))
    return [((x - b.t(4, 1, 1)) * b.t(4, 1, 1) + b.t(4, 1, 1)).relu()]


def _batch_statistics(b: Backend) -> list[Any]:
    x = b.t(4, 3, 8, 8)
    mean = b.sum(x, (0, 2, 3), keep=True) * (1 / 256)
    var = b.sum((x - mean) * (x - mean), (0, 2, 3), keep=True) * (1 / 256)
    return [(x - mean) * (var + 1e-5).rsqrt(), mean * 0.1]


def _two_outputs(b: Backend) -> list[Any]:
    r = b.sum(b.t(8, 16), 1)
    return [r, r.exp2()]


def _shared_reduce(b: Backend) -> list[Any]:
    a = b.t(8, 16)
    return [b.sum(a) + 2, b.sum(a) + 4]


def _outputs_of_one_value(b: Backend) -> list[Any]:
    x = b.t(8, 8) * 2
    return [x + 1, x.permute(1, 0) - 1, b.sum(x, 0)]


def _arange(b: Backend) -> list[Any]:
    return [b.t(10) * 2 + b.arange(10)]


def _one_hot(b: Backend) -> list[Any]:
    x = b.t(4, 10)
    return [b.sum(x * (b.arange(10) < 3), 1)]


def _long_sum(b: Backend) -> list[Any]:
    return [b.sum(b.t(65536))]


def _long_mean(b: Backend) -> list[Any]:
    return [b.sum(b.t(256, 32768), 1) * (1 / 32768)]


def _prime_sum(b: Backend) -> list[Any]:
    return [b.sum(b.t(32749))]


def _distances(b: Backend) -> list[Any]:
    x, y = b.t(16, 8), b.t(12, 8)
    d = x.reshape(16, 1, 8) - y.reshape(1, 12, 8)
    return [b.sum(d * d, 2)]


def _outer(b: Backend) -> list[Any]:
    return [b.sum(b.t(16).reshape(16, 1) * b.t(8).reshape(1, 8) + b.t(16, 8), 0)]


def _normalised_rows(b: Backend) -> list[Any]:
    x = b.t(16, 32)
    return [x * b.sum(x * x, 1, keep=True).rsqrt(), b.max(x, 1)]


def _windows(b: Backend) -> list[Any]:
    x = b.t(20)
    return [x[0:16] + x[1:17] + x[2:18] + x[3:19] + x[4:20]]


def _many_buffers(b: Backend) -> list[Any]:
    total = b.t(16)
    for _ in range(20):
        total = total + b.t(16)
    return [total]


def _assign(b: Backend) -> list[Any]:
    x = b.t(8, 8).contiguous()
    x = x + 1
    return [x * 2, b.sum(x, 1)]


def _gram(b: Backend) -> list[Any]:
    x = b.t(16, 8)
    return [softmax(b, x @ x.permute(1, 0)), b.sum(x * x, 1)]


def _mixture(b: Backend) -> list[Any]:
    x = b.t(16, 8)
    gates = softmax(b, x @ b.t(8, 3))
    parts = [swish(x @ b.t(8, 8)) for _ in range(3)]
    mixed = parts[0] * gates[:, 0:1]
    for i in (1, 2):
        mixed = mixed + parts[i] * gates[:, i : i + 1]
    return [mixed]


def _recurrent(b: Backend) -> list[Any]:
    h, w, u = b.t(4, 8), b.t(8, 8), b.t(8, 8)
    for _ in range(3):
        h = ((b.t(4, 8) @ w + h @ u) * 0.5).maximum(-1.0)
    return [h]


def _rotary(b: Backend) -> list[Any]:
    x, c, s = b.t(2, 16, 8), b.t(16, 4), b.t(16, 4)
    lo, hi = x[:, :, 0:4], x[:, :, 4:8]
    return [b.cat([lo * c - hi * s, hi * c + lo * s], 2)]


def _transposed_norm(b: Backend) -> list[Any]:
    return [norm(b, b.t(8, 32).permute(1, 0)) + 1]


def _loss(b: Backend) -> list[Any]:
    d = b.t(16, 10) @ b.t(10, 4) - b.t(16, 4)
    return [b.sum(d * d) * (1 / 64)]


#: name -> program, in the order of the file.
PROGRAMS: Final[dict[str, Program]] = {
    name[1:]: value
    for name, value in list(globals().items())
    if name[0] == "_" and callable(value) and name[1] != "_"
}
