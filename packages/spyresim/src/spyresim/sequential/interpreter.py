"""The driver: blocks, frames, and the table of handlers keyed by operation class.

A handler gives the results of one operation for a whole batch of tiles.  Element-wise operations have no
handler: their meaning is in `spyresim.meaning`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, cast

import attrs
import numpy as np

import ktir
from ktir.dialects.func import Func
from ktir.ir import Block, Operation, Value
from ktir.machine import Machine
from ktir.opdef import TERMINATOR
from spyresim.errors import BudgetFault, ExecutionFault, HostMemoryFault, Site, UnsupportedError, unsupported
from spyresim.meaning import has_meaning
from spyresim.meaning.formats import Array
from spyresim.meaning.table import Application
from spyresim.report import Counters
from spyresim.sequential.access import IntArray
from spyresim.sequential.checks import STRICT, Checks
from spyresim.sequential.clocks import Clocks
from spyresim.sequential.live import LiveTensors
from spyresim.sequential.memory import Bank, DeviceMemory
from spyresim.sequential.turns import Turns
from spyresim.sequential.values import RuntimeValue, merge, take, uniform
from spyresim.sequential.work import Work

__all__ = ["Diverged", "Frame", "Handler", "Handlers", "Interpreter", "grid_of"]

DEFAULT_BUDGET = 20_000_000
"""Dynamic operations after which a run is given up."""
MAX_CALLS = 64
"""Calls that may be open at once."""


class Diverged(Exception):
    """Tiles of a batch must go on separately; `groups` are positions in the batch."""

    def __init__(self, groups: Sequence[IntArray]) -> None:
        super().__init__("tiles diverge")
        self.groups = groups


class Frame:
    """The values that a batch of tiles holds.  A restricted frame sees its parent's, for its own tiles."""

    def __init__(
        self,
        tiles: IntArray,
        grid: tuple[int, ...],
        parent: Frame | None = None,
        positions: IntArray | None = None,
    ) -> None:
        self.tiles = tiles
        self.grid = grid
        self._parent = parent
        self._positions = positions
        self._values: dict[Value, RuntimeValue] = {}

    @property
    def batch(self) -> int:
        return len(self.tiles)

    def __setitem__(self, key: Value, value: RuntimeValue) -> None:
        self._values[key] = value

    def __getitem__(self, key: Value) -> RuntimeValue:
        found = self._values.get(key)
        if found is None:
            if self._parent is None:
                raise KeyError(key)
            found = self._parent[key]
            if self._positions is not None:
                found = take(found, self._positions)
            self._values[key] = found
        return found

    def bind(self, keys: Sequence[Value], values: Sequence[RuntimeValue]) -> None:
        """Set several values."""
        for key, value in zip(keys, values, strict=True):
            self._values[key] = value

    def array(self, key: Value) -> Array:
        """A value that is a scalar or a tensor."""
        found = self[key]
        assert isinstance(found, np.ndarray), f"{key!r} is no array"
        return found

    def number(self, key: Value) -> int:
        """A scalar integer on which all tiles agree; otherwise the batch diverges."""
        array = self.array(key)
        same = uniform(array)
        if same is None:
            raise Diverged(groups_of(array))
        return int(same[0])

    def restrict(self, positions: IntArray) -> Frame:
        """The frame of some of the tiles."""
        return Frame(self.tiles[positions], self.grid, self, positions)


def groups_of(array: Array) -> list[IntArray]:
    """Positions with equal entries, in order of first occurrence."""
    flat = array.reshape(len(array), -1)
    keys: dict[tuple[Any, ...], list[int]] = {}
    for position, row in enumerate(flat.tolist()):
        keys.setdefault(tuple(row), []).append(position)
    return [np.array(positions, np.int64) for positions in keys.values()]


O = TypeVar("O", bound=Operation)
P = TypeVar("P")
Results: TypeAlias = Sequence[RuntimeValue]
Handler: TypeAlias = Callable[["Interpreter", Frame, Any], Results]


class Handlers:
    """A table of handlers; `extended` makes a larger one that shares nothing."""

    def __init__(self, entries: Mapping[type[Operation], Handler] | None = None) -> None:
        self.entries: dict[type[Operation], Handler] = dict(entries or {})

    def executes(self, *classes: type[Operation]) -> Callable[[Handler], Handler]:
        """Decorator: the function executes these operation classes."""

        def register(function: Handler) -> Handler:
            for op_class in classes:
                self.entries[op_class] = function
            return function

        return register

    def extended(self, *others: Handlers) -> Handlers:
        merged = dict(self.entries)
        for other in others:
            merged.update(other.entries)
        return Handlers(merged)


@attrs.define(eq=False)
class Interpreter:
    """One run: machine, memories, functions, counters.

    `lookup` finds the function that a call names, `definer` the operation of a value, `loop_of` the operation
    whose block argument a value is. `clocks` say what is ordered for which tile; `domains` are the iteration
    spaces of open structured operations, `elements` how many points each of their scalar operations stands
    for, `reductions` which of the loops are reductions; `plans` is what is known of an operation for the
    whole run; `turns` is there if tiles run alone, `live` if what is alive must fit into the scratchpads;
    `homes` is the memory that a view of device memory may reach, if that is not all of it.
    """

    machine: Machine
    handlers: Handlers
    device: DeviceMemory
    scratchpad: Bank
    lookup: Callable[[Operation, str], Func]
    definer: Callable[[Value], Operation | None]
    loop_of: Callable[[Value], Operation | None]
    counters: Counters
    clocks: Clocks
    work: Work
    level: str = "ktir"
    budget: int = DEFAULT_BUDGET
    cache: dict[Any, Any] = attrs.field(factory=dict)
    plans: dict[Operation, object] = attrs.field(factory=dict)
    warnings: dict[str, None] = attrs.field(factory=dict)
    domains: list[tuple[int, ...]] = attrs.field(factory=list)
    elements: list[int] = attrs.field(factory=list)
    reductions: list[tuple[int, ...]] = attrs.field(factory=list)
    turns: Turns[Any] | None = None
    checks: Checks = STRICT
    live: LiveTensors | None = None
    homes: dict[Operation, DeviceMemory] = attrs.field(factory=dict)
    depth: int = 0
    blocks: dict[Block, tuple[Sequence[tuple[Operation, Handler]], Sequence[Value]]] = attrs.field(
        factory=dict
    )
    _steps: int = 0

    def alone(self, turns: Turns[Any]) -> Interpreter:
        """The same run for one tile by itself."""
        return attrs.evolve(
            self,
            domains=[],
            reductions=[],
            elements=[],
            turns=turns,
            live=None if self.live is None else self.live.fork(),
            depth=0,
            steps=0,
        )

    def plan(self, op: O, make: Callable[[O], P]) -> P:
        """What `make` finds out about an operation, once for the whole run."""
        found = self.plans.get(op)
        if found is None:
            found = self.plans[op] = make(op)
        return cast(P, found)

    def site(self, op: Operation) -> Callable[[int | None], Site]:
        """Makes the place of `op` for a tile."""

        def at(tile: int | None = None) -> Site:
            return Site(op.name, op.location, tile)

        return at

    def call(self, function: Func, arguments: Sequence[RuntimeValue], frame: Frame) -> Results:
        """Run a function for the tiles of a frame; its results."""
        if self.depth >= MAX_CALLS:
            raise BudgetFault(
                f"calls nested deeper than {MAX_CALLS}",
                site=Site(function.name, function.location),
                limit=MAX_CALLS,
            )
        inner = Frame(frame.tiles, grid_of(function) or frame.grid)
        inner.bind(function.arguments, arguments)
        blocks = function.body.blocks
        if len(blocks) != 1:
            raise UnsupportedError(
                f"function '{function.symbol}' with {len(blocks)} blocks",
                Site(function.name, function.location),
            )
        self.depth += 1
        try:
            return self.run_block(blocks[0], inner)
        finally:
            self.depth -= 1

    def run_block(self, block: Block, frame: Frame) -> Results:
        """Run the operations of a block; the operands of its terminator (none without one)."""
        return self._run(block, 0, frame)

    def _run(self, block: Block, start: int, frame: Frame) -> Results:
        steps, handed_on = self._steps_of(block)
        for index in range(start, len(steps)):
            op, handler = steps[index]
            try:
                self.step(op)
                results = handler(self, frame, op)
            except Diverged as split:
                return self._run_apart(block, index, frame, split.groups)
            except MemoryError as error:
                raise HostMemoryFault(str(error), site=Site(op.name, op.location)) from error
            if op.results:
                frame.bind(op.results, results)
            if self.live is not None:
                self.live.define(op, results)
                self.live.drop(self.live.dead_after(block, index))
        return [frame[value] for value in handed_on]

    def _steps_of(self, block: Block) -> tuple[Sequence[tuple[Operation, Handler]], Sequence[Value]]:
        """The operations of a block that are executed, and what its terminator hands on."""
        found = self.blocks.get(block)
        if found is None:
            last = block.operations[-1] if block.operations else None
            ended = last is not None and last.definition_has(TERMINATOR)
            executed = block.operations[:-1] if ended else block.operations
            handed_on = last.operands if last is not None and ended else ()
            found = self.blocks[block] = [(op, self._handler(op)) for op in executed], handed_on
        return found

    def _run_apart(self, block: Block, index: int, frame: Frame, groups: Sequence[IntArray]) -> Results:
        """Go on with every group separately, and put the terminator's operands together again."""
        op = block.operations[index]
        if len(groups) < 2:
            raise ExecutionFault("tiles cannot be separated", site=Site(op.name, op.location))
        parts, before = [], self.live
        for group in groups:
            self.live = None if before is None else before.fork()
            parts.append((group, self._run(block, index, frame.restrict(group))))
        self.live = before
        return merge(frame.batch, parts, Site(op.name, op.location))

    def execute(self, op: Operation, frame: Frame) -> Results:
        """The results of one operation.  Raises `UnsupportedError` for operations that nobody knows."""
        self.step(op)
        return self._handler(op)(self, frame, op)

    def _handler(self, op: Operation) -> Handler:
        found = self.handlers.entries.get(type(op))
        if found is not None:
            return found
        return _apply if has_meaning(type(op)) else _refuse

    def step(self, op: Operation) -> None:
        """An operation, or an iteration of one, begins: others may go first, and the budget shrinks."""
        self._steps += 1
        if self._steps > self.budget:
            self.require(op, 0)
        if self.turns is not None:
            self.turns.pause()

    def require(self, op: Operation, iterations: int) -> None:
        """`BudgetFault` if so many iterations are more than what is left."""
        if self._steps + iterations > self.budget:
            loop = f": a loop of {iterations} iterations" if iterations else ""
            raise BudgetFault(
                f"more than {self.budget} operations{loop}",
                site=Site(op.name, op.location),
                limit=self.budget,
            )

    def elementwise(self, op: Operation, operands: Sequence[Array], frame: Frame) -> Results:
        """An operation of the table of meanings on arrays of equal rank (scalars broadcast to tensors)."""
        rank = max((array.ndim for array in operands), default=0)
        application = self.plan(op, self._application)
        if len(application.tensors) > 1:
            self._check_shapes(op, [operands[number] for number in application.tensors])
        aligned = [
            array if array.ndim == rank else array.reshape(array.shape + (1,) * (rank - array.ndim))
            for array in operands
        ]
        self.count(op, frame)
        tile = int(frame.tiles[0]) if frame.batch == 1 else None
        results = application.apply(aligned, tile)
        if self.elements:
            self.work.vector(op, self.elements[-1], frame.tiles)
        elif rank > 1 or (results and results[0].dtype.kind in "fV"):
            self.work.vector(op, math.prod(results[0].shape[1:]), frame.tiles)
        return results

    def count(self, op: Operation, frame: Frame) -> None:
        """Note that the tiles of a frame execute an operation."""
        self.work.count(op.name, frame.tiles)

    def _check_shapes(self, op: Operation, operands: Sequence[Array]) -> None:
        """Tensors must have equal shapes; only scalars are repeated."""
        shapes = [array.shape[1:] for array in operands]
        if any(shape != shapes[0] for shape in shapes):
            listed = " and ".join(str(shape) for shape in dict.fromkeys(shapes))
            raise ExecutionFault(f"tensors of shapes {listed}", site=Site(op.name, op.location))

    def _application(self, op: Operation) -> Application:
        return Application.of(op, self.machine.f16_format)

    def warn(self, message: str) -> None:
        """Report something once."""
        self.warnings[message] = None


def _apply(run: Interpreter, frame: Frame, op: Operation) -> Results:
    return run.elementwise(op, [frame.array(value) for value in op.operands], frame)


def _refuse(run: Interpreter, frame: Frame, op: Operation) -> Results:
    raise unsupported(op, f"operation '{op.name}' at level {run.level}")


def grid_of(function: Operation) -> tuple[int, ...] | None:
    """The ``grid`` attribute of a function, None if it has none."""
    try:
        return ktir.grid_of(function)
    except ktir.GridError as error:
        raise ExecutionFault(error.message, site=Site(function.name, function.location)) from None
