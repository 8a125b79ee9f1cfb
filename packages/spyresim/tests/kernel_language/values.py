"""Typed values, the writer of KTIR text, and the environment in which one tile evaluates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from .numbers import DTYPES, Array, is_float


@dataclass(frozen=True)
class Value:
    """An SSA value; `shape` None is a scalar."""

    name: str
    element: str
    shape: tuple[int, ...] | None = None

    @property
    def type(self) -> str:
        return self.element if self.shape is None else tensor_type(self.element, self.shape)

    def like(self, other: Value) -> bool:
        return self.element == other.element and self.shape == other.shape


def tensor_type(element: str, shape: Sequence[int | None]) -> str:
    return f"tensor<{extents(shape)}{element}>"


def extents(shape: Sequence[int | None]) -> str:
    return "".join(f"{'?' if n is None else n}x" for n in shape)


def comma(items: Iterable[object]) -> str:
    return ", ".join(map(str, items))


@dataclass(frozen=True)
class Style:
    """Spelling that carries no meaning."""

    older: bool = False  # the older names of memory spaces and forms of futures
    inline: bool = False  # maps and sets where they are used instead of aliases
    long_types: bool = False  # `!ktdp.access_tile<..>` in load and store
    one_line: bool = False
    blanks: bool = False  # `sizes : [..]`


@dataclass
class Text:
    """Lines of a function body; aliases go in front of the module."""

    style: Style
    lines: list[str] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)
    depth: int = 2
    count: int = 0

    def __call__(self, line: str) -> None:
        self.lines.append("  " * self.depth + line)

    @contextmanager
    def nested(self) -> Iterator[None]:
        self.depth += 1
        yield
        self.depth -= 1

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"%{prefix}_{self.count}"

    def affine(self, text: str) -> str:
        """An affine map or set: the text, or an alias of it."""
        if self.style.inline:
            return text
        return self.aliases.setdefault(text, f"#a{len(self.aliases)}")

    def index(self, value: int) -> str:
        """A fresh index constant."""
        name = self.fresh("n")
        self(f"{name} = arith.constant {value} : index")
        return name

    def empty(self, element: str, shape: Sequence[int]) -> str:
        name = self.fresh("e")
        self(f"{name} = tensor.empty() : {tensor_type(element, shape)}")
        return name


@dataclass
class Environment:
    """What one tile knows: values by name, its coordinates, and the memories."""

    tile: int
    coordinates: tuple[int, ...]
    buffers: dict[str, Array]  # host arrays, flat
    values: dict[str, Array] = field(default_factory=dict)
    scratchpad: dict[int, Array] = field(default_factory=dict)

    def __getitem__(self, value: Value) -> Array:
        return self.values[value.name]

    def __setitem__(self, value: Value, array: Array) -> None:
        expected = () if value.shape is None else value.shape
        assert array.shape == expected, (value, array.shape)
        assert array.dtype == DTYPES[value.element], (value, array.dtype)
        self.values[value.name] = array

    def child(self) -> Environment:
        return Environment(self.tile, self.coordinates, self.buffers, dict(self.values), self.scratchpad)


class Statement:
    """One step of a program: text and meaning."""

    results: tuple[Value, ...] = ()

    def emit(self, out: Text) -> None:
        raise NotImplementedError

    def run(self, env: Environment) -> None:
        raise NotImplementedError

    def run_all(self, tiles: Sequence[Environment]) -> None:
        for env in tiles:
            self.run(env)


class OneResult(Statement):
    """A statement with one value, its field `result`."""

    result: Value

    def __post_init__(self) -> None:
        self.results = (self.result,)


def run_block(body: Sequence[Statement], env: Environment) -> None:
    for statement in body:
        statement.run(env)


def literal(value: float | int | bool, element: str) -> str:
    """The text of a number of an element type."""
    if element == "i1":
        return "true" if value else "false"
    if not is_float(element):
        return str(int(value))
    bits = np.array(value, DTYPES[element]).view(np.dtype(f"u{DTYPES[element].itemsize}"))
    number = float(np.array(value, DTYPES[element]).astype(np.float64))
    if np.isfinite(number) and abs(number) < 1e6 and number == round(number, 4):
        text = f"{number:.4f}"
        return (
            text if float(text) == number and not (number == 0 and np.signbit(number)) else f"0x{int(bits):X}"
        )
    return f"0x{int(bits):0{2 * bits.dtype.itemsize}X}"
