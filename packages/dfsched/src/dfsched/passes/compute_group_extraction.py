"""`compute-group-extraction`: cut a kernel into programs and a coordinator (scheduler spec 3.3).

Takes KTIR that passed the legality check. A compute group is what hangs together by tensor values in one
block: loads, compute operations, stores. Each group becomes a function in a module of its own; what it needs
from outside (views, index arithmetic, tile ids) is copied in, and enclosing loop variables and kernel arguments
become its arguments. A loop or branch that holds a single group, or whose bounds or condition depend on the tile
id, goes into the program whole; what is the same for all tiles and holds several groups stays in the coordinator,
with calls in the place of the groups.

Leaves the top-level module with the device, one anonymous module with the coordinator and private declarations,
and one module ``@local_schedule_N`` per group. Programs carry the kernel's ``grid`` and
``ktdf.arguments = ["address" | "parameter", ...]``. A module without any store is returned unchanged.

Before::

    func.func @k(%a: index, %b: index) attributes {grid = [8]} {
      ... views and tiles of %a and %b ...
      %x = ktdp.load %ta ...
      %y = linalg.add ins(%x, %x ...) ...
      ktdp.store %y, %tb ...
      return
    }

After::

    module {
      func.func @k(%a: index, %b: index) attributes {grid = [8]} { call @local_schedule_0(%a, %b) ... return }
      func.func private @local_schedule_0(index, index)
    }
    module @local_schedule_0 {
      func.func @local_schedule_0(%a: index, %b: index) attributes {grid = [8], ktdf.arguments = [...]} { ... }
    }
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import define, field

from dfsched.dialects.ktdf_arch import DeviceOp
from dfsched.passes import build
from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.errors import ScheduleError, UnsupportedKernel
from dfsched.passes.index_arithmetic import leaves_of
from dfsched.passes.ir_tools import Definitions, captured, clone_all, prune
from dfsched.passes.memory_accesses import (
    accesses,
    address_argument,
    may_alias,
    root_of,
    tile_of,
    view_of,
)
from ktir.analysis import is_pure
from ktir.attributes import ArrayAttr, StringAttr
from ktir.dialects import func, ktdp, scf
from ktir.dialects.builtin import Module
from ktir.ir import BlockArgument, Operation, Region, Value, symbol_name
from ktir.types import TensorType

__all__ = ["ARGUMENTS", "PASS", "run"]

ARGUMENTS = "ktdf.arguments"
"""Attribute of a program: what each argument is, ``"address"`` or ``"parameter"``."""


def run(module: Module, context: PassContext) -> Module:
    """Cut every kernel of the module."""
    if not any(isinstance(op, ktdp.Store) for op in module.walk()):
        return module
    state = _Extraction({name for op in module.walk() if (name := symbol_name(op)) is not None})
    devices = [op for op in module.operations if isinstance(op, DeviceOp)]
    coordinator: list[Operation] = []
    for op in module.operations:
        if op in devices:
            continue
        if isinstance(op, func.Func) and not op.is_declaration:
            op = state.kernel(op)
        coordinator.append(op)
    inner = Module.create(regions=[Region.of([*coordinator, *state.declarations])])
    return module.with_operations((*devices, inner, *state.programs))


PASS = Pass(
    "compute-group-extraction",
    Group.FRONTEND,
    run,
    "cut kernels into programs and a coordinator that calls them",
)


@define(eq=False)
class _Item:
    """Operations of one block that become one program; runs where its first operation stands."""

    members: list[Operation]
    positions: list[int]
    call: Operation | None = None


@define(eq=False)
class _Extraction:
    """What has been made so far."""

    names: set[str]
    programs: list[Module] = field(factory=list)
    declarations: list[func.Func] = field(factory=list)

    def kernel(self, kernel: func.Func) -> func.Func:
        definitions = Definitions(kernel)
        cutter = _Cutter(self, kernel, definitions)
        body = cutter.block(kernel.body.block.operations)
        new = kernel.replace(regions=[Region((kernel.body.block.replace(operations=body),))])
        pruned = prune(new)
        assert isinstance(pruned, func.Func)
        _check_complete(pruned)
        return pruned

    def fresh_name(self) -> str:
        number = 0
        while f"local_schedule_{number}" in self.names:
            number += 1
        name = f"local_schedule_{number}"
        self.names.add(name)
        return name


@define(eq=False)
class _Cutter:
    """Cuts the blocks of one kernel."""

    state: _Extraction
    kernel: func.Func
    definitions: Definitions

    def block(self, operations: Sequence[Operation]) -> list[Operation]:
        """The coordinator's operations for one block; its programs are recorded."""
        replaced: dict[Operation, Operation] = {}
        items: list[_Item] = []
        for position, op in enumerate(operations):
            if not _is_control(op) or next(accesses(op), None) is None:
                continue
            if op.results:
                raise UnsupportedKernel.at(op.location, f"'{op.name}' around compute may not have results")
            if _count_groups(op, self.definitions) == 1 or not self._is_uniform(op):
                items.append(_Item([op], [position]))
                items[-1].call = self._program(items[-1].members)
            else:
                regions = [
                    Region(tuple(b.replace(operations=self.block(b.operations)) for b in region.blocks))
                    for region in op.regions
                ]
                replaced[op] = op.replace(regions=regions)
        index = {op: position for position, op in enumerate(operations)}
        for members in _groups(operations, self.definitions):
            item = _Item(members, [index[op] for op in members])
            item.call = self._program(members)
            items.append(item)
        self._check_order(operations, items, set(replaced))
        starts = {item.positions[0]: item for item in items}
        gone = {op for item in items for op in item.members}
        result: list[Operation] = []
        for position, op in enumerate(operations):
            if (item_here := starts.get(position)) is not None:
                assert item_here.call is not None
                result.append(item_here.call)
            if op not in gone:
                result.append(replaced.get(op, op))
        return result

    def _is_uniform(self, op: Operation) -> bool:
        return not leaves_of(op.operands, self.definitions).tile_ids

    def _check_order(
        self, operations: Sequence[Operation], items: Sequence[_Item], kept: set[Operation]
    ) -> None:
        """A program runs as a whole where its first operation stands: nothing may overtake a conflicting access."""
        moved = [
            (item.positions[0], position, op)
            for item in items
            for op, position in zip(item.members, item.positions, strict=True)
            if position != item.positions[0]
        ]
        for start, position, op in moved:
            for access in accesses(op):
                between = [
                    (other, item)
                    for item in items
                    if op not in item.members
                    for other, p in zip(item.members, item.positions, strict=True)
                    if (start < item.positions[0] and p < position)
                    or (start > item.positions[0] and p > position)
                ]
                for other, _ in between:
                    if any(self._conflict(access, theirs) for theirs in accesses(other)):
                        raise ScheduleError.at(
                            op.location,
                            "this access belongs to a compute group that is interleaved with another one that "
                            "touches the same memory",
                        )
                for other in operations[start + 1 : position]:
                    if other in kept and any(self._conflict(access, theirs) for theirs in accesses(other)):
                        raise ScheduleError.at(
                            op.location, "a loop inside this compute group touches the same memory"
                        )

    def _conflict(self, a: ktdp.Load | ktdp.Store, b: ktdp.Load | ktdp.Store) -> bool:
        if isinstance(a, ktdp.Load) and isinstance(b, ktdp.Load):
            return False
        roots = [
            root_of(view_of(tile_of(op, self.definitions), self.definitions), self.definitions)
            for op in (a, b)
        ]
        return may_alias(roots[0], roots[1])

    def _program(self, members: Sequence[Operation]) -> func.Call:
        """Make the program of some operations of a block; its call."""
        inside = set(members)
        arguments: dict[Value, None] = {}
        prelude: dict[Operation, None] = {}

        def need(value: Value) -> None:
            definer = self.definitions.definer(value)
            if definer is None:
                arguments.setdefault(value)
            elif definer not in inside and definer not in prelude:
                if not is_pure(definer):
                    raise ScheduleError.at(
                        definer.location,
                        f"the result of '{definer.name}' is used by a compute group elsewhere",
                    )
                for operand in captured(definer):
                    need(operand)
                prelude.setdefault(definer)

        for op in members:
            for value in captured(op):
                need(value)
        kinds = self._argument_kinds(tuple(arguments), [*prelude, *members])
        name = self.state.fresh_name()
        inner = [BlockArgument(a.type, a.name, _location(a)) for a in arguments]
        mapping: dict[Value, Value] = dict(zip(arguments, inner, strict=True))
        body = clone_all([*prelude, *members], mapping)
        entries = {ARGUMENTS: ArrayAttr(tuple(StringAttr(kind) for kind in kinds))}
        if (grid := self.kernel.attributes.get("grid")) is not None:
            entries["grid"] = grid  # type: ignore[assignment]
        program = build.function(name, inner, body, entries, self.kernel.location)
        self.state.programs.append(
            Module.create(attributes={"sym_name": StringAttr(name)}, regions=[Region.of([program])])
        )
        types = [a.type for a in arguments]
        self.state.declarations.append(build.declaration(name, types, self.kernel.location))
        return build.call(name, tuple(arguments), members[0].location)

    def _argument_kinds(self, arguments: Sequence[Value], operations: Sequence[Operation]) -> list[str]:
        addresses: set[Value] = set()
        starts: set[Operation] = set()
        for op in operations:
            for inner in op.walk():
                if isinstance(inner, ktdp.ConstructMemoryView):
                    starts.add(inner)
                    argument = address_argument(inner, self.definitions, self.kernel)
                    if argument is not None:
                        addresses.add(argument)
        for op in operations:
            for inner in op.walk():
                uses: tuple[Value, ...] = ()
                match inner:
                    case ktdp.ConstructAccessTile():
                        uses = inner.operands[1:]
                    case scf.For() | scf.If():
                        uses = inner.operands
                found = addresses.intersection(leaves_of(uses, self.definitions).arguments)
                if found:
                    raise ScheduleError.at(
                        inner.location, "a kernel argument is used as an address and as a scalar"
                    )
        return ["address" if argument in addresses else "parameter" for argument in arguments]


def _location(value: Value):  # type: ignore[no-untyped-def]
    from ktir.location import UNKNOWN

    return value.location if isinstance(value, BlockArgument) else UNKNOWN


def _is_control(op: Operation) -> bool:
    return isinstance(op, scf.For | scf.If)


def _blocks(op: Operation) -> Iterator[Sequence[Operation]]:
    for region in op.regions:
        for block in region.blocks:
            yield block.operations


def _count_groups(op: Operation, definitions: Definitions) -> int:
    """Compute groups in a loop or branch, nested ones included."""
    count = 0
    for operations in _blocks(op):
        count += len(_groups(operations, definitions))
        count += sum(_count_groups(inner, definitions) for inner in operations if _is_control(inner))
    return count


def _groups(operations: Sequence[Operation], definitions: Definitions) -> list[list[Operation]]:
    """Groups of operations directly in a block that hang together by tensor values; in order of first member."""
    here = {op: position for position, op in enumerate(operations)}
    leader: dict[Operation, Operation] = {}

    def find(op: Operation) -> Operation:
        while leader[op] is not op:
            leader[op] = leader[leader[op]]
            op = leader[op]
        return op

    for store in operations:
        if not isinstance(store, ktdp.Store):
            continue
        leader.setdefault(store, store)
        stack: list[Operation] = [store]
        seen = {store}
        while stack:
            op = stack.pop()
            for value in op.operands:
                if not isinstance(value.type, TensorType):
                    continue
                definer = definitions.definer(value)
                if definer is None:
                    raise UnsupportedKernel.at(op.location, "loop-carried tensors are not supported")
                if _is_leaf(definer):
                    continue
                if definer not in here:
                    raise ScheduleError.at(
                        store.location,
                        f"the stored value comes from a '{definer.name}' in another block",
                    )
                leader.setdefault(definer, definer)
                leader[find(definer)] = find(store)
                if definer not in seen:
                    seen.add(definer)
                    stack.append(definer)
    for op in operations:
        if isinstance(op, ktdp.Load) and op not in leader:
            raise ScheduleError.at(op.location, "this load feeds no store of its block")
    members: dict[Operation, list[Operation]] = {}
    for op in sorted(leader, key=lambda member: here[member]):
        members.setdefault(find(op), []).append(op)
    return sorted(members.values(), key=lambda group: here[group[0]])


def _is_leaf(op: Operation) -> bool:
    """Whether a tensor comes from nothing: a constant, a splat, an empty tensor; each group gets its own."""
    return is_pure(op) and not op.regions and not any(isinstance(v.type, TensorType) for v in op.operands)


def _check_complete(kernel: func.Func) -> None:
    """Nothing that stayed may use what went into a program."""
    definitions = Definitions(kernel)
    for op in kernel.walk():
        for value in op.operands:
            if definitions.definer(value) is None and definitions.region_owner(value) is None:
                raise ScheduleError.at(
                    op.location, "this uses a tensor of a compute group, which is supported for stores only"
                )
