"""Random programs in the shared vocabulary; one seed is one program on every backend."""

from __future__ import annotations

import random
from typing import Any

from peer.backends import Backend

MOST = 8192


def _size(x: Any) -> int:
    size = 1
    for d in x.shape:
        size *= d
    return size


def _fit(x: Any, y: Any) -> bool:
    pairs = zip(reversed(x.shape), reversed(y.shape), strict=False)
    return all(a == b or 1 in (a, b) for a, b in pairs)


def _unary(b: Backend, rng: random.Random, x: Any) -> Any:
    match rng.randrange(11):
        case 0:
            return x * 0.5 + 1
        case 1:
            return x.exp2()
        case 2:
            return x.maximum(0.25)
        case 3:
            return x.permute(*rng.sample(range(x.ndim), x.ndim)) if x.ndim else x
        case 4:
            return x.flip(rng.randrange(x.ndim)) if x.ndim else x
        case 5:
            return x.reshape(_size(x)) if x.ndim else x
        case 6 if x.ndim:
            return x.pad(tuple((rng.randrange(2), rng.randrange(2)) for _ in x.shape))
        case 7 if x.ndim and x.shape[0] > 2:
            return x[1:] if rng.random() < 0.5 else x[:-1]
        case 8 if x.ndim:
            return b.sum(x, rng.randrange(x.ndim), keep=rng.random() < 0.5)
        case 9 if x.ndim:
            return b.max(x, rng.randrange(x.ndim), keep=True)
        case 10:
            return x.contiguous()
    return -x


def random_program(seed: int, b: Backend) -> list[Any]:
    """One to three outputs after four to twelve steps over two to four inputs."""
    rng = random.Random(seed)
    shape = tuple(rng.choice((1, 2, 3, 4, 6, 8)) for _ in range(rng.randint(1, 3)))
    values = [b.t(*shape) for _ in range(rng.randint(1, 2))]
    values += [b.t(*(d if rng.random() < 0.7 else 1 for d in shape)) for _ in range(rng.randint(1, 2))]
    for _ in range(rng.randint(4, 12)):
        x, y = rng.choice(values), rng.choice(values[-3:])
        if rng.random() < 0.5:
            new = _unary(b, rng, y)
        elif _fit(x, y):
            kind = rng.randrange(4)
            new = (
                x + y
                if kind == 0
                else x * y
                if kind == 1
                else x.maximum(y)
                if kind == 2
                else b.where(x < y, x, y)
            )
        elif x.ndim == 2 and y.ndim == 2 and x.shape[1] == y.shape[0]:
            new = x @ y
        else:
            new = y + 1
        if 0 < _size(new) <= MOST:
            values.append(new)
    return (
        [values[-1], *rng.sample(values[4:], min(len(values) - 4, rng.randrange(3)))]
        if len(values) > 4
        else values[-1:]
    )
