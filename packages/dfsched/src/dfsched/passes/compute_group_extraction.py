"""`compute-group-extraction`: cut a kernel into programs and a coordinator (scheduler spec 3.3).

Takes KTIR that passed the legality check. A compute group is what hangs together by tensor values in one
block: loads, compute operations, stores. Each group becomes a function in a module of its own; what it
needs from outside (views, index arithmetic, tile ids) is copied in, and enclosing loop variables and
kernel arguments become its arguments. A loop or branch that holds a single group, or whose bounds or
condition depend on the tile id, goes into the program whole; what is the same for all tiles and holds
several groups stays in the coordinator, with calls in the place of the groups.

Leaves the top-level module with the device, one anonymous module with the coordinator and private
declarations, and one module ``@local_schedule_N`` per group. Programs carry the kernel's ``grid`` and
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
      func.func @local_schedule_0(%a: index, %b: index) attributes {grid = [8], ...} { ... }
    }

>>> from dfsched.passes.examples import after, kernel
>>> after("compute-group-extraction", kernel(),
... r"module|func|call|ktdp.load|ktdp.store")
module {
module {
func.func @k(%x: index, %y: index) attributes {grid = [1]} {
call @local_schedule_0(%x, %y) : (index, index) -> ()
func.func private @local_schedule_0(index, index)
module @local_schedule_0 {
func.func @local_schedule_0(%x: index, %y: index) attributes {grid = [1], ktdf.arguments =
    ["address", "address"]} {
%4 = ktdp.load %1 : <2x256xindex> -> tensor<2x256xf16>
ktdp.store %5, %3 : tensor<2x256xf16>, <2x256xindex>
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import define, field

from dfsched.dialects.ktdf_arch import DeviceOp
from dfsched.passes import build
from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.compute_groups import check_order, compute_groups, is_control
from dfsched.passes.errors import Findings, ScheduleError, UnsupportedKernel
from dfsched.passes.index_arithmetic import leaves_of
from dfsched.passes.ir_tools import Definitions, captured, clone_all, post_order
from dfsched.passes.memory_accesses import accesses, address_argument
from ktir.analysis import is_pure
from ktir.attribute import Attribute
from ktir.attributes import ArrayAttr, StringAttr
from ktir.dialects import func, ktdp, scf
from ktir.dialects.builtin import Module
from ktir.ir import BlockArgument, Operation, Region, Value, symbol_name
from ktir.location import UNKNOWN
from ktir.transforms import dce

__all__ = ["ARGUMENTS", "PASS", "run"]

ARGUMENTS = "ktdf.arguments"
"""Attribute of a program: what each argument is, ``"address"`` or ``"parameter"``."""


def run(module: Module, context: PassContext) -> Module:
    """Cut every kernel of the module; `ScheduleError` with everything that cannot be cut."""
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
    state.findings.check()
    inner = Module.create(regions=[Region.of([*coordinator, *state.declarations])])
    return module.with_operations((*devices, inner, *state.programs))


PASS = Pass(
    "compute-group-extraction",
    Group.FRONTEND,
    run,
    "cut kernels into programs and a coordinator that calls them",
)


@define(eq=False)
class _Extraction:
    """What has been made so far."""

    names: set[str]
    findings: Findings = field(factory=Findings)
    programs: list[Module] = field(factory=list)
    declarations: list[func.Func] = field(factory=list)

    def kernel(self, kernel: func.Func) -> func.Func:
        definitions = Definitions(kernel)
        cutter = _Cutter(self, kernel, definitions)
        body = cutter.block(kernel.body.block.operations)
        if self.findings.errors:
            return kernel
        new = kernel.replace(regions=[Region((kernel.body.block.replace(operations=body),))])
        pruned = dce(new)
        assert isinstance(pruned, func.Func)
        self.findings.errors += _incomplete(pruned)
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
        """The coordinator's operations for one block; its programs and what is wrong are recorded."""
        findings = self.state.findings
        kept: dict[Operation, Operation] = {}
        whole: list[Operation] = []
        for op in operations:
            if not is_control(op) or next(accesses(op), None) is None:
                continue
            with findings.noting():
                if op.results:
                    raise UnsupportedKernel.at(
                        op.location, f"'{op.name}' around compute may not have results"
                    )
                if _count_groups(op, self.definitions) == 1 or not self._is_uniform(op):
                    whole.append(op)
                    continue
                regions = [
                    Region(tuple(b.replace(operations=self.block(b.operations)) for b in region.blocks))
                    for region in op.regions
                ]
                kept[op] = op.replace(regions=regions)
        groups: list[list[Operation]] = []
        with findings.noting():
            groups = compute_groups(operations, self.definitions)
            check_order(operations, groups, 0, self.definitions)
        programs: dict[Operation, func.Call] = {}
        for group in [*([op] for op in whole), *groups]:
            with findings.noting():
                programs[group[0]] = self._program(group)
        members = {op for group in groups for op in group}.union(whole)
        result: list[Operation] = []
        for op in operations:
            if op in programs:
                result.append(programs[op])
            if op not in members:
                result.append(kept.get(op, op))
        return result

    def _is_uniform(self, op: Operation) -> bool:
        return not leaves_of(op.operands, self.definitions).tile_ids

    def _program(self, members: Sequence[Operation]) -> func.Call:
        """Make the program of some operations of a block; its call."""
        inside = set(members)
        arguments: dict[Value, None] = {}
        prelude: dict[Operation, None] = {}

        def outside(value: Value) -> list[Value]:
            definer = self.definitions.definer(value)
            return [] if definer is None or definer in inside else list(captured(definer))

        for op in members:
            for used in captured(op):
                for value in post_order(used, outside):
                    definer = self.definitions.definer(value)
                    if definer is None:
                        arguments.setdefault(value)
                    elif definer not in inside:
                        self._check_pure(definer)
                        prelude.setdefault(definer)
        kinds = self._argument_kinds(tuple(arguments), [*prelude, *members])
        name = self.state.fresh_name()
        inner = [_argument(value) for value in arguments]
        mapping: dict[Value, Value] = dict(zip(arguments, inner, strict=True))
        body = clone_all([*prelude, *members], mapping)
        entries: dict[str, Attribute] = {ARGUMENTS: ArrayAttr(tuple(StringAttr(kind) for kind in kinds))}
        if (grid := self.kernel.attributes.get("grid")) is not None:
            entries["grid"] = grid
        program = build.function(name, inner, body, entries, self.kernel.location)
        self.state.programs.append(
            Module.create(attributes={"sym_name": StringAttr(name)}, regions=[Region.of([program])])
        )
        types = [a.type for a in arguments]
        self.state.declarations.append(build.declaration(name, types, self.kernel.location))
        return build.call(name, tuple(arguments), members[0].location)

    def _check_pure(self, op: Operation) -> None:
        if not is_pure(op):
            with self.state.findings.noting():
                raise ScheduleError.at(
                    op.location, f"the result of '{op.name}' is used by a compute group elsewhere"
                )

    def _argument_kinds(self, arguments: Sequence[Value], operations: Sequence[Operation]) -> list[str]:
        addresses: set[Value] = set()
        for op in operations:
            for inner in op.walk():
                if isinstance(inner, ktdp.ConstructMemoryView):
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
                    with self.state.findings.noting():
                        raise ScheduleError.at(
                            inner.location, "a kernel argument is used as an address and as a scalar"
                        )
        return ["address" if argument in addresses else "parameter" for argument in arguments]


def _argument(value: Value) -> BlockArgument:
    """The program's argument for a value of the coordinator (a kernel argument or loop variable)."""
    location = value.location if isinstance(value, BlockArgument) else UNKNOWN
    return BlockArgument(value.type, value.name, location)


def _blocks(op: Operation) -> Iterator[Sequence[Operation]]:
    for region in op.regions:
        for block in region.blocks:
            yield block.operations


def _count_groups(op: Operation, definitions: Definitions) -> int:
    """Compute groups in a loop or branch, nested ones included."""
    count = 0
    for operations in _blocks(op):
        count += len(compute_groups(operations, definitions))
        count += sum(_count_groups(inner, definitions) for inner in operations if is_control(inner))
    return count


def _incomplete(kernel: func.Func) -> Iterator[ScheduleError]:
    """What stayed and uses something that went into a program."""
    definitions = Definitions(kernel)
    for op in kernel.walk():
        for value in op.operands:
            if definitions.definer(value) is None and definitions.region_owner(value) is None:
                yield ScheduleError.at(
                    op.location, "this uses a tensor of a compute group, which is supported for stores only"
                )
