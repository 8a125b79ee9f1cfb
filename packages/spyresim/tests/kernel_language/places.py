"""Views, access tiles, gathers, scratchpads, and values that go from tile to tile."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .numbers import DTYPES, Array
from .scalars import apply_binary
from .values import Environment, OneResult, Statement, Text, Value, comma, extents, tensor_type


@dataclass(frozen=True)
class Buffer:
    """A host array of one argument; the first dimension has one entry a tile unless `shared`."""

    name: str
    element: str
    shape: tuple[int, ...]
    shared: bool = False


@dataclass(frozen=True)
class View:
    """A memory view: `offset` is constant, in elements behind the start of the buffer (or scratchpad)."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0


@dataclass(frozen=True)
class PointSet:
    """Points of an access tile, relative to its anchor: a box with steps, cut by a rule between two dimensions."""

    starts: tuple[int, ...]
    counts: tuple[int, ...]
    steps: tuple[int, ...]
    rule: str = "box"  # box, lower (d1 <= d0), upper (d1 >= d0), checker (d0 + d1 even)

    def text(self) -> str:
        rank = len(self.starts)
        rules = []
        for d, (start, count, step) in enumerate(zip(self.starts, self.counts, self.steps, strict=True)):
            last = start + (count - 1) * step
            rules.append(f"d{d} - {start} >= 0" if start else f"d{d} >= 0")
            rules.append(f"-d{d} + {last} >= 0" if d % 2 == 0 else f"d{d} <= {last}")
            if step > 1:
                rules.append(f"(d{d} - {start}) mod {step} == 0")
        cut = {"lower": ["d1 <= d0"], "upper": ["d1 - d0 >= 0"], "checker": ["(d0 + d1) mod 2 == 0"]}
        rules += cut.get(self.rule, [])
        return f"affine_set<({comma(f'd{i}' for i in range(rank))}) : ({comma(rules)})>"

    def points(self) -> list[tuple[int, ...]]:
        ranges = [
            range(start, start + count * step, step)
            for start, count, step in zip(self.starts, self.counts, self.steps, strict=True)
        ]
        keep: dict[str, Callable[[tuple[int, ...]], bool]] = {
            "box": lambda p: True,
            "lower": lambda p: p[1] <= p[0],
            "upper": lambda p: p[1] >= p[0],
            "checker": lambda p: (p[0] + p[1]) % 2 == 0,
        }
        return [p for p in itertools.product(*ranges) if keep[self.rule](p)]


def order_text(order: Sequence[int]) -> str:
    dims = comma(f"d{i}" for i in range(len(order)))
    return f"affine_map<({dims}) -> ({comma(f'd{i}' for i in order)})>"


def box_text(sizes: Sequence[int]) -> str:
    return (
        PointSet((0,) * len(sizes), tuple(sizes), (1,) * len(sizes)).text()
        if sizes
        else "affine_set<() : (0 == 0)>"
    )


def in_order(points: list[tuple[int, ...]], order: Sequence[int]) -> list[tuple[int, ...]]:
    """Sorted by the permuted point: the order in which they stand, row by row, in the tile."""
    return sorted(points, key=lambda p: tuple(p[d] for d in order))


def space_text(out: Text, local: bool) -> str:
    if out.style.older:
        return f"#ktdp.spyre_memory_space<{'LX' if local else 'HBM'}>"
    return f"#ktdp.memory_space<{'ct_local' if local else 'global'}>"


def emit_view(
    out: Text, base: str, view: View, element: str, local: bool = False, set: str | None = None
) -> str:
    """A view of its own at a constant distance behind `base`."""
    if view.offset:
        distance, moved = out.index(view.offset), out.fresh("at")
        out(f"{moved} = arith.addi {base}, {distance} : index")
        base = moved
    name = out.fresh("view")
    gap = " :" if out.style.blanks else ":"
    domain = out.affine(set or box_text(view.sizes))
    out(
        f"{name} = ktdp.construct_memory_view {base}, sizes{gap} [{comma(view.sizes)}], strides{gap} "
        f"[{comma(view.strides)}] {{coordinate_set = {domain}, memory_space = {space_text(out, local)}}} "
        f": memref<{extents(view.sizes)}{element}>"
    )
    return name


def memref(view: View, element: str) -> str:
    return f"memref<{extents(view.sizes)}{element}>"


def tile_type(shape: Sequence[int]) -> str:
    return f"!ktdp.access_tile<{extents(shape)}index>"


def short(out: Text, type: str) -> str:
    return type if out.style.long_types else type.removeprefix("!ktdp.access_tile")


@dataclass
class Access:
    """A direct access tile of a buffer: anchor per dimension of the view (a number, or a value times a factor)."""

    buffer: Buffer
    view: View
    anchor: tuple[int | Value, ...]
    points: PointSet
    order: tuple[int, ...]
    shape: tuple[int, ...]
    parts: int = 0  # > 1: the view is composed of so many along dimension 0

    def emit(self, out: Text) -> str:
        element = self.buffer.element
        view = (
            self._emit_distributed(out)
            if self.parts > 1
            else emit_view(out, f"%{self.buffer.name}", self.view, element)
        )
        subscripts = comma(a if isinstance(a, int) else a.name for a in self.anchor)
        tile = out.fresh("tile")
        out(
            f"{tile} = ktdp.construct_access_tile {view}[{subscripts}] {{access_tile_set = "
            f"{out.affine(self.points.text())}, access_tile_order = {out.affine(order_text(self.order))}}} "
            f": {memref(self.view, element)} -> {tile_type(self.shape)}"
        )
        return tile

    def _emit_distributed(self, out: Text) -> str:
        """Views of runs of dimension 0, composed; each has its coordinates in the whole as its set."""
        total = self.view.sizes[0]
        cuts = [total * k // self.parts for k in range(self.parts + 1)]
        names, types = [], []
        for low, high in itertools.pairwise(cuts):
            sizes = (high - low, *self.view.sizes[1:])
            part = View(sizes, self.view.strides, self.view.offset + low * self.view.strides[0])
            starts = (low,) + (0,) * (len(sizes) - 1)
            domain = PointSet(starts, sizes, (1,) * len(sizes)).text()
            names.append(emit_view(out, f"%{self.buffer.name}", part, self.buffer.element, set=domain))
            types.append(memref(part, self.buffer.element))
        whole = out.fresh("whole")
        out(
            f"{whole} = ktdp.construct_distributed_memory_view({comma(names)} : {comma(types)}) "
            f": {memref(self.view, self.buffer.element)}"
        )
        return whole

    def addresses(self, env: Environment) -> list[int]:
        anchor = [a if isinstance(a, int) else int(env[a]) for a in self.anchor]
        return [
            self.view.offset + sum((a + x) * s for a, x, s in zip(anchor, p, self.view.strides, strict=True))
            for p in in_order(self.points.points(), self.order)
        ]


@dataclass
class Gather:
    """An indirect access tile: dimension `by` of the buffer comes from a row of the table, others are direct.

    `rest` gives for each other dimension of the base either a variable number or a value (captured).
    """

    buffer: Buffer
    table: Buffer
    row: Value  # which row of the table
    counts: tuple[int, ...]  # of the variables
    by: int
    index_variable: int
    rest: tuple[int | Value, ...]
    order: tuple[int, ...]
    shape: tuple[int, ...]

    def emit(self, out: Text) -> str:
        base = View(self.buffer.shape, c_strides(self.buffer.shape))
        rows = View(self.table.shape, c_strides(self.table.shape))
        b = emit_view(out, f"%{self.buffer.name}", base, self.buffer.element)
        t = emit_view(out, f"%{self.table.name}", rows, self.table.element)
        variables = [out.fresh("v") for _ in self.counts]
        subscripts = [f"({variables[r]})" if isinstance(r, int) else f"({r.name})" for r in self.rest]
        subscripts.insert(self.by, f"ind({t}[{self.row.name}, {variables[self.index_variable]}])")
        tile = out.fresh("tile")
        gap = " " if out.style.blanks else ""
        out(
            f"{tile} = ktdp.construct_indirect_access_tile intermediate_variables{gap}({comma(variables)}) "
            f"{b}[{comma(subscripts)}] {{variables_space_set = {out.affine(box_text(self.counts))}, "
            f"variables_space_order = {out.affine(order_text(self.order))}}} : {memref(base, self.buffer.element)}, "
            f"{memref(rows, self.table.element)} -> {tile_type(self.shape)}"
        )
        return tile

    def addresses(self, env: Environment) -> list[int]:
        table = env.buffers[self.table.name].reshape(self.table.shape)
        strides = c_strides(self.buffer.shape)
        found = []
        for p in in_order(list(itertools.product(*map(range, self.counts))), self.order):
            coordinates = [p[r] if isinstance(r, int) else int(env[r]) for r in self.rest]
            coordinates.insert(self.by, int(table[int(env[self.row]), p[self.index_variable]]))
            found.append(sum(c * s for c, s in zip(coordinates, strides, strict=True)))
        return found


def c_strides(shape: Sequence[int]) -> tuple[int, ...]:
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


@dataclass
class LoadTile(OneResult):
    access: Access | Gather
    result: Value

    def emit(self, out: Text) -> None:
        tile = self.access.emit(out)
        out(
            f"{self.result.name} = ktdp.load {tile} : {short(out, tile_type(self.access.shape))} -> {self.result.type}"
        )

    def run(self, env: Environment) -> None:
        data = env.buffers[self.access.buffer.name]
        env[self.result] = data[self.access.addresses(env)].reshape(self.access.shape)


@dataclass
class StoreTile(Statement):
    value: Value
    access: Access | Gather

    def emit(self, out: Text) -> None:
        tile = self.access.emit(out)
        out(
            f"ktdp.store {self.value.name}, {tile} : {self.value.type}, {short(out, tile_type(self.access.shape))}"
        )

    def run(self, env: Environment) -> None:
        data = env.buffers[self.access.buffer.name]
        for address, x in zip(self.access.addresses(env), env[self.value].reshape(-1), strict=True):
            data[address] = x


@dataclass
class Keep(OneResult):
    """A value goes to the tile's scratchpad and comes back, turned by `order`."""

    value: Value
    address: int  # bytes
    order: tuple[int, ...]
    result: Value

    def emit(self, out: Text) -> None:
        shape, element = self.value.shape or (), self.value.element
        view = View(shape, c_strides(shape))
        at = out.index(self.address // DTYPES[element].itemsize)
        name = emit_view(out, at, view, element, local=True)
        zeros = comma("0" for _ in shape)
        domain, type = out.affine(box_text(shape)), memref(view, element)
        tiles = []
        for order in (tuple(range(len(shape))), self.order):
            tile, turned = out.fresh("tile"), tile_type([shape[d] for d in order])
            out(
                f"{tile} = ktdp.construct_access_tile {name}[{zeros}] {{access_tile_set = {domain}, "
                f"access_tile_order = {out.affine(order_text(order))}}} : {type} -> {turned}"
            )
            tiles.append((tile, turned))
        (into, whole), (from_, turned) = tiles
        out(f"ktdp.store {self.value.name}, {into} : {self.value.type}, {short(out, whole)}")
        out(f"{self.result.name} = ktdp.load {from_} : {short(out, turned)} -> {self.result.type}")

    def run(self, env: Environment) -> None:
        env.scratchpad[self.address] = env[self.value].copy()
        env[self.result] = env.scratchpad[self.address].transpose(self.order).copy()


@dataclass
class Stretch(Statement):
    """Load a run of a length that the launch gives, add it to itself, store it: everything between is `?`."""

    source: Buffer  # (tiles, longest)
    target: Buffer
    row: Value
    operation: str
    limit: int  # the length is min(%n, limit)

    def emit(self, out: Text) -> None:
        n, limit = out.fresh("len"), out.index(self.limit)
        out(f"{n} = arith.minui %n, {limit} : index")
        domain = out.affine("affine_set<(d0, d1)[s0] : (d0 == 0, d1 >= 0, -d1 + s0 - 1 >= 0)>")
        order, e = out.affine(order_text((0, 1))), self.source.element
        tiles = []
        for buffer in (self.source, self.target):
            view = emit_view(out, f"%{buffer.name}", View(buffer.shape, c_strides(buffer.shape)), e)
            tile = out.fresh("tile")
            out(
                f"{tile} = ktdp.construct_access_tile {view}[{self.row.name}, 0] symbols({n}) {{access_tile_set = {domain}, "
                f"access_tile_order = {order}}} : memref<{extents(buffer.shape)}{e}> -> !ktdp.access_tile<1x?xindex>"
            )
            tiles.append(tile)
        d, s, t = out.fresh("d"), out.fresh("s"), tensor_type(e, (1, None))
        out(f"{d} = ktdp.load {tiles[0]} : {short(out, '!ktdp.access_tile<1x?xindex>')} -> {t}")
        out(f"{s} = arith.{self.operation} {d}, {d} : {t}")
        out(f"ktdp.store {s}, {tiles[1]} : {t}, {short(out, '!ktdp.access_tile<1x?xindex>')}")

    def run(self, env: Environment) -> None:
        n = min(int(env.buffers["n"][0]), self.limit)
        longest, row = self.source.shape[1], int(env[self.row])
        where = slice(row * longest, row * longest + n)
        d = env.buffers[self.source.name][where]
        env.buffers[self.target.name][where] = apply_binary(self.operation, d, d, self.source.element)


@dataclass
class Team(Statement):
    """All tiles of a group fold what they have, or get it from the next one in the group (`shift`)."""

    operation: str  # an operation, or "shift"
    value: Value
    identity: Value
    size: int  # tiles in a group
    groups: int
    strided: bool
    result: Value
    members: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.results = (self.result,)
        n = self.size * self.groups
        self.members = [
            [i for i in range(n) if (i % self.groups if self.strided else i // self.size) == g]
            for g in range(self.groups)
        ]

    def emit(self, out: Text) -> None:
        t, f, g = self.value.type, out.fresh("future"), out.fresh("g")
        last = self.size * self.groups - 1
        if self.strided:
            who = f"affine_set<(i)[g] : ((i - g) mod {self.groups} == 0, i - g >= 0, -i + {last} >= 0)>"
        else:
            who = f"affine_set<(i)[g] : (i - {self.size} * g >= 0, -i + {self.size} * g + {self.size - 1} >= 0)>"
        team, all = out.affine(who), out.affine(f"affine_set<(g) : (g >= 0, -g + {self.groups - 1} >= 0)>")
        future = f"<({t}), groups = {all}>"
        if out.style.older:
            future = f"!ktdp.tile_future<{t}, groups = {all}>"
            out(f"{f} = ktdp.inter_tile_produce producer_tiles_per_group = {team} : {t} -> {future} {{")
        else:
            out(f"{f} = ktdp.inter_tile_produce producer_tiles_per_group = {team} -> {future} {{")
        out(f"^bb0({g}: index):")
        with out.nested():
            out(f"ktdp.yield_partial {self.value.name} : {t}")
        out("}")
        if self.operation == "shift":
            step = self.groups if self.strided else 1
            if self.strided:
                next = (
                    f"affine_set<(p)[c] : ((p - c - {step}) mod {last + 1} == 0, p >= 0, -p + {last} >= 0)>"
                )
            else:
                next = (
                    f"affine_set<(p)[c, g] : ((p - c - 1) mod {self.size} == 0, p - {self.size} * g >= 0, "
                    f"-p + {self.size} * g + {self.size - 1} >= 0)>"
                )
            out(
                f"{self.result.name} = ktdp.inter_tile_consume({f}) consumer_tiles_per_group = {team}, "
                f"producer_dependency_per_consumer = {out.affine(next)} : {future} -> {t}"
            )
            return
        a, b, s = (out.fresh(p) for p in "abs")
        out(
            f"{self.result.name} = ktdp.inter_tile_reduce({f}) consumer_tiles_per_group = {team}, "
            f"identity({self.identity.name} : {t}) : {future} -> {t} {{"
        )
        out(f"^bb0({a}: {t}, {b}: {t}):")
        with out.nested():
            out(f"{s} = arith.{self.operation} {a}, {b} : {t}")
            out(f"ktdp.yield_reduced {s} : {t}")
        out("}")

    def run_all(self, tiles: Sequence[Environment]) -> None:
        values = {env.tile: env[self.value] for env in tiles}
        for env in tiles:
            (team,) = [m for m in self.members if env.tile in m]
            if self.operation == "shift":
                env[self.result] = values[team[(team.index(env.tile) + 1) % len(team)]]
                continue
            total: Array = values[team[0]]
            for other in team[1:]:
                total = apply_binary(self.operation, total, values[other], self.value.element)
            env[self.result] = total
