"""What a program consists of and what it moves, counted on its text: nothing is run.

Traffic is an interval, because text alone does not say which branch is taken or how often a loop with
computed bounds runs.  Counted are ``ktdp.load`` and ``ktdp.store`` by the size of their tensors, what an
indirect access tile reads from its index views, and ``memref.load``, ``memref.store`` and ``memref.copy``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from ktir.affine import AffineError, AffineSet
from ktir.analysis import DefUse
from ktir.attribute import Attribute
from ktir.attributes import IntegerAttr, StringAttr, SymbolRefAttr
from ktir.dialects import arith, ktdp, memref, scf
from ktir.dialects.func import Call, Func
from ktir.dtypes import element_bytes
from ktir.errors import UnsupportedError
from ktir.grid import grid_of
from ktir.ir import Block, Operation, Region, Value, symbol_name
from ktir.types import IntegerType, MemRefType, ShapedType, Type

__all__ = ["Count", "FunctionStatistics", "ModuleStatistics", "Traffic", "statistics", "to_json"]


@attrs.frozen
class Count:
    """A number known to lie between `low` and `high` (inclusive; None: without bound)."""

    low: int
    high: int | None

    def __add__(self, other: Count) -> Count:
        high = None if self.high is None or other.high is None else self.high + other.high
        return Count(self.low + other.low, high)

    def __mul__(self, times: Count) -> Count:
        if self.high == 0 or times.high == 0:
            return NOTHING
        high = None if self.high is None or times.high is None else self.high * times.high
        return Count(self.low * times.low, high)

    def __or__(self, other: Count) -> Count:
        """The smallest interval around both: one of them, it is not known which."""
        high = None if self.high is None or other.high is None else max(self.high, other.high)
        return Count(min(self.low, other.low), high)

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.low:,}"
        return f"{self.low:,} or more" if self.high is None else f"{self.low:,} to {self.high:,}"


NOTHING = Count(0, 0)
ONCE = Count(1, 1)
ANY_NUMBER = Count(0, None)


@attrs.frozen
class Traffic:
    """Bytes that one compute tile loads and stores, by memory space (``global``, ``ct_local``, ...)."""

    loaded: Mapping[str, Count] = attrs.Factory(dict)
    stored: Mapping[str, Count] = attrs.Factory(dict)

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(_merged(self.loaded, other.loaded), _merged(self.stored, other.stored))

    def __mul__(self, times: Count) -> Traffic:
        return Traffic(
            {space: count * times for space, count in self.loaded.items()},
            {space: count * times for space, count in self.stored.items()},
        )

    def __or__(self, other: Traffic) -> Traffic:
        return Traffic(_either(self.loaded, other.loaded), _either(self.stored, other.stored))


def _merged(a: Mapping[str, Count], b: Mapping[str, Count]) -> dict[str, Count]:
    return {space: a.get(space, NOTHING) + b.get(space, NOTHING) for space in sorted({*a, *b})}


def _either(a: Mapping[str, Count], b: Mapping[str, Count]) -> dict[str, Count]:
    return {space: a.get(space, NOTHING) | b.get(space, NOTHING) for space in sorted({*a, *b})}


@attrs.frozen
class FunctionStatistics:
    """One function with a body: its grid (None: none given), operations by dialect, traffic of one tile."""

    name: str
    grid: tuple[int, ...] | None
    operations: Mapping[str, int]
    traffic: Traffic


@attrs.frozen
class ModuleStatistics:
    """A module: operations by dialect over everything, and each function in program order."""

    operations: Mapping[str, int]
    functions: tuple[FunctionStatistics, ...]


def statistics(module: Operation) -> ModuleStatistics:
    """Count a verified module.  `GridError` if a ``grid`` is no list of positive integers."""
    counting = _Counting(module)
    functions = [op for op in module.walk() if isinstance(op, Func) and op.body.blocks]
    return ModuleStatistics(
        _by_dialect(module.walk()),
        tuple(
            FunctionStatistics(
                symbol_name(f) or "", grid_of(f), _by_dialect(_inside(f)), counting.function(f)
            )
            for f in functions
        ),
    )


def to_json(found: ModuleStatistics) -> dict[str, Any]:
    """As JSON values; a count is ``{"low": bytes, "high": bytes or null}``."""
    return {
        "operations": dict(found.operations),
        "functions": [
            {
                "name": function.name,
                "grid": None if function.grid is None else list(function.grid),
                "operations": dict(function.operations),
                "loaded_bytes_per_tile": _counts_json(function.traffic.loaded),
                "stored_bytes_per_tile": _counts_json(function.traffic.stored),
            }
            for function in found.functions
        ],
    }


def _counts_json(counts: Mapping[str, Count]) -> dict[str, Any]:
    return {space: attrs.asdict(count) for space, count in counts.items()}


def _inside(op: Operation) -> Iterable[Operation]:
    return (inner for inner in op.walk() if inner is not op)


def _by_dialect(operations: Iterable[Operation]) -> dict[str, int]:
    counts = Counter(op.name.partition(".")[0] for op in operations)
    return {dialect: counts[dialect] for dialect in sorted(counts)}


class _Counting:
    """The traffic of functions; calls are followed, recursion is any number of times."""

    def __init__(self, module: Operation) -> None:
        self._defuse = DefUse(module)
        self._known: dict[Func, Traffic | None] = {}

    def function(self, function: Func) -> Traffic:
        if function not in self._known:
            self._known[function] = None
            self._known[function] = self._whole(function)
        return self._known[function] or Traffic()

    def _whole(self, root: Operation) -> Traffic:
        """Inner operations first, so that depth is no limit."""
        done: dict[Operation, Traffic] = {}
        for op in reversed(list(root.walk())):
            done[op] = self._one(op, done)
        return done[root]

    def _one(self, op: Operation, done: Mapping[Operation, Traffic]) -> Traffic:
        match op:
            case scf.For(body=body):
                return _region(body, done) * self._trips(op)
            case scf.If(then_region=first, else_region=second):
                return _region(first, done) | _region(second, done)
            case scf.While(before=before, after=after):
                return _region(before, done) * Count(1, None) + _region(after, done) * ANY_NUMBER
            case Func(body=body):
                return _region(body, done)
            case Call(callee=SymbolRefAttr(root=name)):
                return self._called(op, name)
            case ktdp.ConstructIndirectAccessTile():  # its region is hidden: it holds names, not code
                return self._access(op)
            case _ if op.regions:
                return sum((_region(region, done) for region in op.regions), Traffic()) * ANY_NUMBER
            case _:
                return self._access(op)

    def _called(self, op: Operation, name: str) -> Traffic:
        callee = self._defuse.symbol(op, name)
        if not isinstance(callee, Func) or not callee.body.blocks:
            return Traffic()
        if callee in self._known and self._known[callee] is None:  # being counted: it calls itself
            return sum((self._access(inner) for inner in callee.walk()), Traffic()) * ANY_NUMBER
        return self.function(callee)

    def _access(self, op: Operation) -> Traffic:
        """What an operation moves by itself, once."""
        match op:
            case ktdp.Load(access_tile=tile, result=result):
                return Traffic(loaded={self._space_of_tile(tile): _bytes(result.type)})
            case ktdp.Store(access_tile=tile, data_tile=data):
                return Traffic(stored={self._space_of_tile(tile): _bytes(data.type)})
            case ktdp.ConstructIndirectAccessTile():
                return self._index_reads(op)
            case memref.Load(memref=source, result=result):
                return Traffic(loaded={self._space(source): _element(result.type)})
            case memref.Store(memref=target, value=value):
                return Traffic(stored={self._space(target): _element(value.type)})
            case memref.Copy(source=source, target=target):
                return Traffic(
                    {self._space(source): _bytes(source.type)}, {self._space(target): _bytes(target.type)}
                )
            case _:
                return Traffic()

    def _index_reads(self, op: ktdp.ConstructIndirectAccessTile) -> Traffic:
        """An element of an index view for each combination of the variables that its subscript uses."""
        maps = [subscript for subscript, indirect in zip(op.maps, op.kinds, strict=True) if indirect]
        captured = len(op.captured_variables)
        reads = Traffic()
        for view, subscript in zip(op.indirect_memrefs, maps, strict=True):
            dims = {d - captured for expr in subscript.results for d in expr.dims() if d >= captured}
            count = _combinations(op.variables_space_set.set, sorted(dims))
            reads += Traffic(loaded={self._space(view): _element(view.type) * count})
        return reads

    def _trips(self, op: scf.For) -> Count:
        lower, upper, step = (self._constant(v) for v in (op.lower, op.upper, op.step))
        if lower is None or upper is None or step is None or step <= 0:
            return ANY_NUMBER
        type = op.lower.type
        if op.unsigned_cmp is not None and isinstance(type, IntegerType):
            lower, upper = lower % (1 << type.width), upper % (1 << type.width)
        trips = max(0, -((lower - upper) // step))
        return Count(trips, trips)

    def _constant(self, value: Value) -> int | None:
        match self._defuse.definer(value):
            case arith.Constant(value=IntegerAttr(value=number)):
                return number
            case _:
                return None

    def _space_of_tile(self, tile: Value) -> str:
        match self._defuse.definer(tile):
            case ktdp.ConstructAccessTile(base=base) | ktdp.ConstructIndirectAccessTile(base=base):
                return self._space(base)
            case _:
                return UNKNOWN

    def _space(self, view: Value) -> str:
        """The kind of memory behind a view or memref: whose scratchpad it is plays no role."""
        match self._defuse.definer(view):
            case ktdp.ConstructMemoryView(memory_space=space):
                return _space_name(space)
            case ktdp.ConstructDistributedMemoryView(memrefs=parts):
                spaces = {self._space(part) for part in parts}
                return spaces.pop() if len(spaces) == 1 else "mixed"
            case memref.Cast(source=source) | memref.SubView(source=source):
                return self._space(source)
            case _:
                return _space_name(view.type.memory_space) if isinstance(view.type, MemRefType) else UNKNOWN


POINTS_LIMIT = 1 << 20
"""Sets that are no boxes are counted out up to this many points."""

UNKNOWN = "unknown"
"""The name of the memory space where the text does not say."""


def _space_name(space: Attribute | None) -> str:
    match space:
        case ktdp.MemorySpace(space=kind) | ktdp.SpyreMemorySpace(space=kind):
            return str(kind)
        case StringAttr(value=name):
            return name
        case _:
            return UNKNOWN


def _combinations(space: AffineSet, dims: Sequence[int]) -> Count:
    """How many different values the dimensions `dims` take together in a set."""
    if space.num_symbols:
        return ANY_NUMBER
    try:
        factors = space.factors(limit=POINTS_LIMIT)
        if factors is not None:
            number = 0 if any(not f for f in factors) else math.prod(len(factors[d]) for d in dims)
        else:
            number = len({tuple(row) for row in space.points(limit=POINTS_LIMIT)[:, list(dims)].tolist()})
    except AffineError:
        return ANY_NUMBER
    return Count(number, number)


def _region(region: Region, done: Mapping[Operation, Traffic]) -> Traffic:
    """The first block runs once, the others any number of times."""
    total = Traffic()
    for number, block in enumerate(region.blocks):
        total += _block(block, done) * (ANY_NUMBER if number else ONCE)
    return total


def _block(block: Block, done: Mapping[Operation, Traffic]) -> Traffic:
    return sum((done[op] for op in block.operations), Traffic())


def _element(type: Type) -> Count:
    element = type.element if isinstance(type, ShapedType) else type
    try:
        size = element_bytes(element)
    except UnsupportedError:
        return ANY_NUMBER
    return Count(size, size)


def _bytes(type: Type) -> Count:
    if not isinstance(type, ShapedType) or not type.is_static:
        return ANY_NUMBER
    elements = type.num_elements()
    return _element(type) * Count(elements, elements)
