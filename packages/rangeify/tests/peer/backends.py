"""The same tensor operations on this package and on tinygrad (whose device NULL allocates and computes
nothing).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Protocol

import rangeify
from rangeify import Config, Tensor
from rangeify import functions as f

os.environ.setdefault("DEV", "NULL")  # read when tinygrad is imported


class Backend(Protocol):
    """What a program may use besides the operators and methods that both kinds of tensors have."""

    def t(self, *shape: int) -> Any: ...
    def sum(self, x: Any, axis: Any = None, keep: bool = False) -> Any: ...
    def max(self, x: Any, axis: Any = None, keep: bool = False) -> Any: ...
    def where(self, c: Any, x: Any, y: Any) -> Any: ...
    def cat(self, parts: Sequence[Any], axis: int) -> Any: ...
    def stack(self, parts: Sequence[Any]) -> Any: ...
    def conv2d(self, x: Any, weight: Any, stride: int = 1, padding: int = 0) -> Any: ...
    def max_pool(self, x: Any, size: int, stride: int, padding: int = 0) -> Any: ...
    def arange(self, n: int) -> Any: ...


class Ours:
    """This package."""

    name = "rangeify"

    def t(self, *shape: int) -> Tensor:
        return Tensor.empty(*shape)

    def sum(self, x: Tensor, axis: Any = None, keep: bool = False) -> Tensor:
        return x.sum(axis, keepdims=keep)

    def max(self, x: Tensor, axis: Any = None, keep: bool = False) -> Tensor:
        return x.max(axis, keepdims=keep)

    def where(self, c: Tensor, x: Any, y: Any) -> Tensor:
        return c.where(x, y)

    def cat(self, parts: Sequence[Tensor], axis: int) -> Tensor:
        return f.concatenate(parts, axis)

    def stack(self, parts: Sequence[Tensor]) -> Tensor:
        return f.stack(parts)

    def conv2d(self, x: Tensor, weight: Tensor, stride: int = 1, padding: int = 0) -> Tensor:
        return f.conv2d(x, weight, stride=(stride, stride), padding=(padding, padding))

    def max_pool(self, x: Tensor, size: int, stride: int, padding: int = 0) -> Tensor:
        return f.max_pool(x, (size, size), (stride, stride), padding=(padding, padding))

    def arange(self, n: int) -> Tensor:
        return Tensor.arange(n)

    def schedule(self, outputs: Sequence[Tensor], fusion: str = "reference") -> rangeify.Schedule:
        return rangeify.schedule(*outputs, config=Config(fusion=fusion, fast_math=True))


class Theirs:
    """tinygrad."""

    name = "tinygrad"

    def t(self, *shape: int) -> Any:
        import tinygrad

        return tinygrad.Tensor.empty(*shape, device="NULL")

    def sum(self, x: Any, axis: Any = None, keep: bool = False) -> Any:
        return x.sum(axis, keepdim=keep)

    def max(self, x: Any, axis: Any = None, keep: bool = False) -> Any:
        return x.max(axis, keepdim=keep)

    def where(self, c: Any, x: Any, y: Any) -> Any:
        return c.where(x, y)

    def cat(self, parts: Sequence[Any], axis: int) -> Any:
        return parts[0].cat(*parts[1:], dim=axis)

    def stack(self, parts: Sequence[Any]) -> Any:
        return parts[0].stack(*parts[1:])

    def conv2d(self, x: Any, weight: Any, stride: int = 1, padding: int = 0) -> Any:
        return x.conv2d(weight, stride=stride, padding=padding)

    def max_pool(self, x: Any, size: int, stride: int, padding: int = 0) -> Any:
        return x.max_pool2d((size, size), stride, padding=padding)

    def arange(self, n: int) -> Any:
        import tinygrad

        return tinygrad.Tensor.arange(n)

    def schedule(self, outputs: Sequence[Any]) -> Any:
        """The LINEAR of the items."""
        return outputs[0].schedule_linear(*outputs[1:])
