"""Statements on whole tensors."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from .numbers import DTYPES, Array, float_function, from_integers, integers, is_float
from .scalars import apply_binary
from .values import Environment, OneResult, Statement, Text, Value, comma, extents, run_block, tensor_type


@dataclass
class Splat(OneResult):
    scalar: Value
    result: Value
    fill: bool = False  # by linalg.fill

    def emit(self, out: Text) -> None:
        r = self.result
        if self.fill:
            empty = out.empty(r.element, r.shape or ())
            out(
                f"{r.name} = linalg.fill ins({self.scalar.name} : {self.scalar.type}) "
                f"outs({empty} : {r.type}) -> {r.type}"
            )
        else:
            out(f"{r.name} = tensor.splat {self.scalar.name} : {r.type}")

    def run(self, env: Environment) -> None:
        env[self.result] = np.full(self.result.shape or (), env[self.scalar], DTYPES[self.result.element])


@dataclass
class Extract(OneResult):
    tensor: Value
    at: tuple[int, ...]
    result: Value

    def emit(self, out: Text) -> None:
        names = [out.index(i) for i in self.at]
        out(f"{self.result.name} = tensor.extract {self.tensor.name}[{comma(names)}] : {self.tensor.type}")

    def run(self, env: Environment) -> None:
        env[self.result] = np.asarray(env[self.tensor][self.at])


@dataclass
class Insert(OneResult):
    scalar: Value
    tensor: Value
    at: tuple[int, ...]
    result: Value

    def emit(self, out: Text) -> None:
        names = [out.index(i) for i in self.at]
        out(
            f"{self.result.name} = tensor.insert {self.scalar.name} into {self.tensor.name}[{comma(names)}] "
            f": {self.tensor.type}"
        )

    def run(self, env: Environment) -> None:
        changed = env[self.tensor].copy()
        changed[self.at] = env[self.scalar]
        env[self.result] = changed


@dataclass
class FromElements(OneResult):
    scalars: tuple[Value, ...]
    result: Value

    def emit(self, out: Text) -> None:
        names = comma(s.name for s in self.scalars)
        out(f"{self.result.name} = tensor.from_elements {names} : {self.result.type}")

    def run(self, env: Environment) -> None:
        flat = np.array([env[s] for s in self.scalars], DTYPES[self.result.element])
        env[self.result] = flat.reshape(self.result.shape or ())


NAMED_FLOAT = {
    "add": "addf",
    "sub": "subf",
    "mul": "mulf",
    "div": "divf",
    "max": "maximumf",
    "min": "minimumf",
}
NAMED_INTEGER = {"add": "addi", "sub": "subi", "mul": "muli", "max": "maxsi", "min": "minsi"}
NAMED_UNARY = {"negf": "negf", "abs": "absf", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil"}


@dataclass
class Named(OneResult):
    """A named structured operation; `outs` gives only the type, its values are not read."""

    operation: str
    operands: tuple[Value, ...]
    outs: Value | None
    result: Value

    def emit(self, out: Text) -> None:
        r = self.result
        outs = self.outs.name if self.outs is not None else out.empty(r.element, r.shape or ())
        names, types = (comma(getattr(v, what) for v in self.operands) for what in ("name", "type"))
        out(f"{r.name} = linalg.{self.operation} ins({names} : {types}) outs({outs} : {r.type}) -> {r.type}")

    def run(self, env: Environment) -> None:
        element = self.result.element
        arrays = [env[v].astype(DTYPES[element]) for v in self.operands]  # widened first
        if len(arrays) == 1:
            env[self.result] = float_function(NAMED_UNARY[self.operation], arrays[0])
            return
        table = NAMED_FLOAT if is_float(element) else NAMED_INTEGER
        env[self.result] = apply_binary(table[self.operation], arrays[0], arrays[1], element)


@dataclass
class Broadcast(OneResult):
    a: Value
    dimensions: tuple[int, ...]
    result: Value

    def emit(self, out: Text) -> None:
        r = self.result
        empty = out.empty(r.element, r.shape or ())
        out(
            f"{r.name} = linalg.broadcast ins({self.a.name} : {self.a.type}) outs({empty} : {r.type}) "
            f"dimensions = [{comma(self.dimensions)}]"
        )

    def run(self, env: Environment) -> None:
        shape = self.result.shape or ()
        full = np.empty(shape, DTYPES[self.result.element])
        for point in np.ndindex(*shape):
            full[point] = env[self.a][tuple(i for d, i in enumerate(point) if d not in self.dimensions)]
        env[self.result] = full


@dataclass
class Transpose(OneResult):
    a: Value
    permutation: tuple[int, ...]
    result: Value

    def emit(self, out: Text) -> None:
        r = self.result
        empty = out.empty(r.element, r.shape or ())
        out(
            f"{r.name} = linalg.transpose ins({self.a.name} : {self.a.type}) outs({empty} : {r.type}) "
            f"permutation = [{comma(self.permutation)}]"
        )

    def run(self, env: Environment) -> None:
        shape = self.result.shape or ()
        turned = np.empty(shape, DTYPES[self.result.element])
        for point in np.ndindex(*shape):
            source = [0] * len(shape)
            for d, p in enumerate(self.permutation):
                source[p] = point[d]
            turned[point] = env[self.a][tuple(source)]
        env[self.result] = turned


@dataclass
class Reshape(OneResult):
    """collapse_shape or expand_shape, by the groups of dimensions of the larger rank."""

    a: Value
    groups: tuple[tuple[int, ...], ...]
    result: Value

    def emit(self, out: Text) -> None:
        groups = comma(f"[{comma(g)}]" for g in self.groups)
        before, after = len(self.a.shape or ()), len(self.result.shape or ())
        if before > after:
            out(
                f"{self.result.name} = tensor.collapse_shape {self.a.name} [{groups}] "
                f": {self.a.type} into {self.result.type}"
            )
        else:
            out(
                f"{self.result.name} = tensor.expand_shape {self.a.name} [{groups}] output_shape "
                f"[{comma(self.result.shape or ())}] : {self.a.type} into {self.result.type}"
            )

    def run(self, env: Environment) -> None:
        env[self.result] = env[self.a].reshape(self.result.shape or ())


@dataclass
class Slice(OneResult):
    """extract_slice; an offset may be a value (an index within bounds); `dropped` unit dimensions vanish."""

    a: Value
    offsets: tuple[int | Value, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    result: Value

    def emit(self, out: Text) -> None:
        offsets = comma(o if isinstance(o, int) else o.name for o in self.offsets)
        out(
            f"{self.result.name} = tensor.extract_slice {self.a.name}[{offsets}] [{comma(self.sizes)}] "
            f"[{comma(self.strides)}] : {self.a.type} to {self.result.type}"
        )

    def run(self, env: Environment) -> None:
        part = env[self.a][slices(self.offsets, self.sizes, self.strides, env)]
        env[self.result] = part.reshape(self.result.shape or ()).copy()


@dataclass
class InsertSlice(OneResult):
    part: Value
    whole: Value
    offsets: tuple[int | Value, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    result: Value

    def emit(self, out: Text) -> None:
        offsets = comma(o if isinstance(o, int) else o.name for o in self.offsets)
        out(
            f"{self.result.name} = tensor.insert_slice {self.part.name} into {self.whole.name}[{offsets}] "
            f"[{comma(self.sizes)}] [{comma(self.strides)}] : {self.part.type} into {self.whole.type}"
        )

    def run(self, env: Environment) -> None:
        changed = env[self.whole].copy()
        changed[slices(self.offsets, self.sizes, self.strides, env)] = env[self.part].reshape(self.sizes)
        env[self.result] = changed


def slices(
    offsets: Sequence[int | Value], sizes: Sequence[int], strides: Sequence[int], env: Environment
) -> tuple[slice, ...]:
    starts = [o if isinstance(o, int) else int(env[o]) for o in offsets]
    return tuple(
        slice(start, start + (n - 1) * step + 1, step)
        for start, n, step in zip(starts, sizes, strides, strict=True)
    )


@dataclass
class Concat(OneResult):
    dimension: int
    parts: tuple[Value, ...]
    result: Value

    def emit(self, out: Text) -> None:
        names, types = (comma(getattr(v, what) for v in self.parts) for what in ("name", "type"))
        out(
            f"{self.result.name} = tensor.concat dim({self.dimension}) {names} : ({types}) -> {self.result.type}"
        )

    def run(self, env: Environment) -> None:
        env[self.result] = np.concatenate([env[p] for p in self.parts], axis=self.dimension)


@dataclass
class Matmul(OneResult):
    """Products of integers (exact), added to what stands in outs."""

    operation: str
    a: Value
    b: Value
    init: Value
    result: Value

    def emit(self, out: Text) -> None:
        out(
            f"{self.result.name} = linalg.{self.operation} ins({self.a.name}, {self.b.name} : {self.a.type}, "
            f"{self.b.type}) outs({self.init.name} : {self.init.type}) -> {self.result.type}"
        )

    def run(self, env: Environment) -> None:
        def exact(v: Value) -> Array:
            return np.array(integers(env[v], v.element), object).reshape(env[v].shape)

        total = exact(self.init) + np.matmul(exact(self.a), exact(self.b))
        env[self.result] = from_integers(
            [int(x) for x in np.asarray(total, object).reshape(-1)],
            self.result.element,
            self.init.shape or (),
        )


@dataclass
class Reduce(OneResult):
    """A left fold in lexicographic order that begins with the init; one rounding an operation."""

    operation: str
    a: Value
    init: Value
    dimensions: tuple[int, ...]
    result: Value
    short: bool = True

    def emit(self, out: Text) -> None:
        r, e = self.result, self.result.element
        tail = (
            f"ins({self.a.name} : {self.a.type}) outs({self.init.name} : {r.type}) "
            f"dimensions = [{comma(self.dimensions)}]"
        )
        if self.short:
            out(f"{r.name} = linalg.reduce {{ arith.{self.operation} }} {tail}")
            return
        x, acc, s = (out.fresh(p) for p in ("x", "acc", "s"))
        out(f"{r.name} = linalg.reduce {tail} ({x}: {e}, {acc}: {e}) {{")
        with out.nested():
            out(f"{s} = arith.{self.operation} {x}, {acc} : {e}")
            out(f"linalg.yield {s} : {e}")
        out("}")

    def run(self, env: Environment) -> None:
        source, result = env[self.a], env[self.init].copy()
        for point in np.ndindex(*source.shape):
            kept = tuple(i for d, i in enumerate(point) if d not in self.dimensions)
            x, acc = np.asarray(source[point]), np.asarray(result[kept])
            result[kept] = apply_binary(self.operation, x, acc, self.a.element)
        env[self.result] = result


@dataclass
class Generic(OneResult):
    """linalg.generic: `maps` name the iteration dimension behind each dimension of an operand.

    A body of scalar statements computes `yielded` from the elements (`arguments`) of the operands and of the
    outs, and from `indices` (linalg.index). Dimensions that are not in the map of the result are reductions.
    """

    domain: tuple[int, ...]
    operands: tuple[Value, ...]
    maps: tuple[tuple[int, ...], ...]
    init: Value | None
    out_map: tuple[int, ...]
    arguments: tuple[Value, ...]  # of the body, the element of outs last
    indices: tuple[Value, ...]  # one a dimension of the domain
    body: list[Statement]
    yielded: Value
    result: Value
    mapped: bool = False  # spelled as linalg.map

    def emit(self, out: Text) -> None:
        r = self.result
        init = self.init.name if self.init is not None else out.empty(r.element, r.shape or ())
        names, types = (comma(getattr(v, what) for v in self.operands) for what in ("name", "type"))
        ins = f"ins({names} : {types}) " if self.operands else ""
        if self.mapped:
            arguments = comma(f"{v.name}: {v.type}" for v in self.arguments[:-1])
            out(f"{r.name} = linalg.map {ins}outs({init} : {r.type}) ({arguments}) {{")
            with out.nested():
                for statement in self.body:
                    statement.emit(out)
                out(f"linalg.yield {self.yielded.name} : {self.yielded.type}")
            out("}")
            return
        dims = comma(f"d{i}" for i in range(len(self.domain)))
        maps = [
            out.affine(f"affine_map<({dims}) -> ({comma(f'd{i}' for i in map)})>")
            for map in (*self.maps, self.out_map)
        ]
        kinds = comma('"parallel"' if d in self.out_map else '"reduction"' for d in range(len(self.domain)))
        out(
            f"{r.name} = linalg.generic {{indexing_maps = [{comma(maps)}], iterator_types = [{kinds}]}} "
            f"{ins}outs({init} : {r.type}) {{"
        )
        out(f"^bb0({comma(f'{v.name}: {v.type}' for v in self.arguments)}):")
        with out.nested():
            for d, index in enumerate(self.indices):
                out(f"{index.name} = linalg.index {d} : index")
            for statement in self.body:
                statement.emit(out)
            out(f"linalg.yield {self.yielded.name} : {self.yielded.type}")
        out(f"}} -> {r.type}")

    def run(self, env: Environment) -> None:
        shape = self.result.shape or ()
        if self.init is not None:
            result = env[self.init].copy()
        else:
            result = np.zeros(shape, DTYPES[self.result.element])
        for point in np.ndindex(*self.domain):
            inner = env.child()
            for v, argument, map in zip(self.operands, self.arguments, self.maps, strict=False):
                inner[argument] = np.asarray(env[v][tuple(point[d] for d in map)])
            place = tuple(point[d] for d in self.out_map)
            if not self.mapped:
                inner[self.arguments[-1]] = np.asarray(result[place])
            for index, i in zip(self.indices, point, strict=False):
                inner[index] = np.array(i, np.int64)
            run_block(self.body, inner)
            result[place] = inner[self.yielded]
        env[self.result] = result


@dataclass
class Generate(OneResult):
    indices: tuple[Value, ...]
    body: list[Statement]
    yielded: Value
    result: Value

    def emit(self, out: Text) -> None:
        out(f"{self.result.name} = tensor.generate {{")
        out(f"^bb0({comma(f'{v.name}: index' for v in self.indices)}):")
        with out.nested():
            for statement in self.body:
                statement.emit(out)
            out(f"tensor.yield {self.yielded.name} : {self.yielded.type}")
        out(f"}} : {self.result.type}")

    def run(self, env: Environment) -> None:
        shape = self.result.shape or ()
        result = np.zeros(shape, DTYPES[self.result.element])
        for point in np.ndindex(*shape):
            inner = env.child()
            for index, i in zip(self.indices, point, strict=True):
                inner[index] = np.array(i, np.int64)
            run_block(self.body, inner)
            result[point] = inner[self.yielded]
        env[self.result] = result


@dataclass
class Unknown(Statement):
    """Through a type of unknown extents and back (tensor.cast); `dim` asks for the extents in between."""

    a: Value
    known: tuple[bool, ...]
    result: Value
    total: Value = field(default_factory=lambda: Value("%none", "index"))

    def __post_init__(self) -> None:
        self.results = (self.result, self.total)

    def emit(self, out: Text) -> None:
        shape = self.a.shape or ()
        loose = tensor_type(
            self.a.element, [n if known else None for n, known in zip(shape, self.known, strict=True)]
        )
        c = out.fresh("cast")
        out(f"{c} = tensor.cast {self.a.name} : {self.a.type} to {loose}")
        sum = out.index(0)
        for d in range(len(shape)):
            number, extent, more = out.index(d), out.fresh("dim"), out.fresh("sum")
            out(f"{extent} = tensor.dim {c}, {number} : {loose}")
            out(f"{more} = arith.addi {sum}, {extent} : index")
            sum = more
        zero = out.index(0)
        out(f"{self.total.name} = arith.addi {sum}, {zero} : index")
        out(f"{self.result.name} = tensor.cast {c} : {loose} to {self.result.type}")

    def run(self, env: Environment) -> None:
        env[self.result] = env[self.a]
        env[self.total] = np.array(sum(self.a.shape or ()), np.int64)


def groupings(rank: int) -> list[tuple[tuple[int, ...], ...]]:
    """All ways to cut dimensions 0..rank-1 into runs."""
    found = []
    for cuts in itertools.product((False, True), repeat=max(rank - 1, 0)):
        groups: list[tuple[int, ...]] = [(0,)]
        for d, cut in enumerate(cuts, start=1):
            if cut:
                groups.append((d,))
            else:
                groups[-1] += (d,)
        found.append(tuple(groups))
    return found if rank else []


__all__ = [name for name in dir() if not name.startswith("_")]
_ = extents
