"""Which tensors are alive, as if every tensor of a tile stood in its scratchpad (ktir spec 4.6).

A tensor is charged from the operation that makes it to its last use; the same one under several names once.
Views of the tile's own scratchpad are charged for the bytes that they span, from where they are made on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs
import numpy as np

from ktir.dtypes import element_bytes
from ktir.ir import Block, Operation, Value
from ktir.types import TensorType
from spyresim.errors import LiveBytes, ScratchpadFault, Site
from spyresim.meaning.formats import Array
from spyresim.sequential.access import nest
from spyresim.sequential.memory import HOST
from spyresim.sequential.values import RuntimeValue, View

__all__ = ["LiveTensors"]


@attrs.define(eq=False)
class _Tensor:
    array: Array
    names: set[Value]
    made: Site
    type: str
    size: int


@attrs.define(eq=False)
class LiveTensors:
    """The accounting of tiles that run together; `peak` bytes were alive at once."""

    capacity: int
    peak: int = 0
    _tensors: dict[int, _Tensor] = attrs.field(factory=dict)
    _names: dict[Value, int] = attrs.field(factory=dict)
    _pinned: dict[Operation, tuple[int, int]] = attrs.field(factory=dict)
    _last_uses: dict[Block, list[list[Value]]] = attrs.field(factory=dict)

    def fork(self) -> LiveTensors:
        """The same for tiles that go on by themselves."""
        tensors = {key: attrs.evolve(t, names=set(t.names)) for key, t in self._tensors.items()}
        return attrs.evolve(self, tensors=tensors, names=dict(self._names), pinned=dict(self._pinned))

    def define(self, op: Operation, results: Sequence[RuntimeValue]) -> None:
        """An operation has made values; `ScratchpadFault` if they do not fit."""
        for value, made in zip(op.results, results, strict=True):
            if isinstance(made, View) and made.row is None and made.owner == HOST:
                whole, item = nest(made.sizes, made.strides), element_bytes(made.element)
                low = int(made.base.min()) + whole.low * item
                self._pinned[op] = (low, low + (whole.high + 1 - whole.low) * item)
            elif isinstance(made, np.ndarray) and isinstance(value.type, TensorType):
                self._charge(value, made, Site(op.name, op.location))
        self._check(op)

    def bind(self, values: Sequence[Value], arrays: Sequence[RuntimeValue]) -> None:
        """Block arguments are further names of tensors."""
        for value, array in zip(values, arrays, strict=True):
            if isinstance(array, np.ndarray) and isinstance(value.type, TensorType):
                self._charge(value, array, Site(None))

    def _charge(self, value: Value, array: Array, made: Site) -> None:
        self.drop([value])
        key = id(array)
        found = self._tensors.get(key)
        if found is None:
            size = math.prod(array.shape[1:]) * array.itemsize
            found = self._tensors[key] = _Tensor(array, set(), made, str(value.type), size)
        found.names.add(value)
        self._names[value] = key

    def drop(self, values: Sequence[Value]) -> None:
        """Names that are not used any more."""
        for value in values:
            key = self._names.pop(value, None)
            if key is None:
                continue
            tensor = self._tensors[key]
            tensor.names.discard(value)
            if not tensor.names:
                del self._tensors[key]

    def dead_after(self, block: Block, index: int) -> Sequence[Value]:
        """Values of a block that nothing behind its operation number `index` uses."""
        found = self._last_uses.get(block)
        if found is None:
            found = self._last_uses[block] = _last_uses(block)
        return found[index]

    @property
    def pinned(self) -> int:
        """Bytes of the scratchpad that views span."""
        total, end = 0, 0
        for low, high in sorted(self._pinned.values()):
            total += max(0, high - max(low, end))
            end = max(end, high)
        return total

    def _check(self, op: Operation) -> None:
        total = self.pinned + sum(tensor.size for tensor in self._tensors.values())
        self.peak = max(self.peak, total)
        if total <= self.capacity:
            return
        live = [LiveBytes(t.size, t.type, t.made.operation, t.made.location) for t in self._tensors.values()]
        live += [
            LiveBytes(high - low, str(view.results[0].type), view.name, view.location)
            for view, (low, high) in self._pinned.items()
        ]
        live.sort(key=lambda entry: -entry.size)
        raise ScratchpadFault(
            f"{total} bytes are alive, the scratchpad has {self.capacity}",
            site=Site(op.name, op.location),
            memory="scratchpad",
            size=total,
            capacity=self.capacity,
            live=tuple(live),
        )


def _last_uses(block: Block) -> list[list[Value]]:
    """For each operation of a block, the block's own values that it is the last to use (or make)."""
    last: dict[Value, int] = dict.fromkeys(block.arguments, 0)
    for index, op in enumerate(block.operations):
        last.update(dict.fromkeys(op.results, index))
        used = {operand for inner in op.walk() for operand in inner.operands}
        last.update({value: index for value in used if value in last})
    found: list[list[Value]] = [[] for _ in block.operations]
    for value, index in last.items():
        found[index].append(value)
    return found
