"""One ``dataflow.program_unit`` as instructions of the engine: one register for every SSA value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs

from dfsched import image as im
from dfsched.codegen.opaque import register_bytes_of, register_offset, register_order
from dfsched.dialects import agen, dataflow
from dfsched.dialects.dataflow import ProgramUnit
from ktir.attributes import StringAttr, TypeAttr
from ktir.dialects import arith, scf
from ktir.ir import Block, Operation, Value
from ktir.types import IndexType, IntegerType, MemRefType, VectorType
from spyresim.dataflow.affine_access import (
    by_rank,
    linear_rows,
    ordered_points,
    strides_of,
    time_box,
)
from spyresim.dataflow.statics import Handle, Statics
from spyresim.dataflow.tables import Tables
from spyresim.dataflow.vector_operations import VECTOR_READERS, constant_index
from spyresim.errors import Site, UnsupportedError

_SCALAR: dict[type[Operation], im.ScalarOp] = {
    arith.AddI: im.ScalarOp.ADD,
    arith.SubI: im.ScalarOp.SUB,
    arith.MulI: im.ScalarOp.MUL,
    arith.DivSI: im.ScalarOp.DIVS,
    arith.DivUI: im.ScalarOp.DIVU,
    arith.RemSI: im.ScalarOp.REMS,
    arith.RemUI: im.ScalarOp.REMU,
    arith.MinSI: im.ScalarOp.MINS,
    arith.MaxSI: im.ScalarOp.MAXS,
    arith.MinUI: im.ScalarOp.MINU,
    arith.MaxUI: im.ScalarOp.MAXU,
    arith.CeilDivSI: im.ScalarOp.CEILDIVS,
    arith.CeilDivUI: im.ScalarOp.CEILDIVU,
    arith.FloorDivSI: im.ScalarOp.FLOORDIVS,
    arith.AndI: im.ScalarOp.AND,
    arith.OrI: im.ScalarOp.OR,
    arith.XOrI: im.ScalarOp.XOR,
}


@attrs.define
class _Side:
    """A side of an access under construction."""

    registers: list[int]
    base: list[int]
    coefficients: list[list[int]]


class UnitReader:
    """Reads one program unit.  `statics` knows the values outside of it (and the iter_arg) per row."""

    def __init__(
        self,
        op: ProgramUnit,
        label: str,
        statics: Statics,
        tables: Tables,
        units: list[int],
        constants: Mapping[Value, Operation],
    ) -> None:
        self.op = op
        self.label = label
        self.statics = statics
        self.tables = tables
        self.units = units
        self.outside = constants
        self.code: list[im.Instruction] = []
        self.sources: list[Site] = []
        """What every instruction was made from, as far as `_attribute` has been called."""
        self.columns: list[tuple[int, ...]] = []
        self.scalars: dict[Value, int] = {}
        self.vectors: dict[Value, int] = {}
        self.views: dict[Value, int] = {}
        self.scalar_count = 0
        self.kind = tables.units[units[0]].kind
        self.around = Site(op.name, op.location)

    def read(self) -> im.UnitProgram:
        """The unit program; its cells are appended to the tables."""
        self._block(self.op.body.block)
        self.code.append(im.Halt())
        self._attribute(self.around)
        first = len(self.tables.cells)
        for row in range(len(self.units)):
            self.tables.cells += [column[row] for column in self.columns]
        return im.UnitProgram(
            self.label,
            tuple(self.units),
            tuple(self.code),
            first,
            len(self.columns),
            self.scalar_count,
            len(self.vectors),
            len(self.views),
        )

    # -- registers and columns

    def _new_scalar(self, value: Value | None = None) -> int:
        number = self.scalar_count
        self.scalar_count += 1
        if value is not None:
            self.scalars[value] = number
        return number

    def new_vector(self, value: Value) -> int:
        """The register of a vector of this program."""
        return self.vectors.setdefault(value, len(self.vectors))

    def read_vector(self, value: Value, site: Site) -> int:
        """A register that holds a vector; constants of the function are loaded into one here and now."""
        found = self.vectors.get(value)
        if found is None and value in self.outside:
            # read where it is used: an earlier use may stand in a branch that was not taken
            constant = constant_index(self.tables, self.outside[value], site)
            register = self.vectors[_temporary(self.vectors)]
            self.code.append(im.VectorConstant(register, constant))
            return register
        if found is None:
            raise UnsupportedError("a vector from outside the program unit", site)
        return found

    def _column(self, values: Sequence[int]) -> int:
        column = tuple(values)
        if column in self.columns:
            return self.columns.index(column)
        self.columns.append(column)
        return len(self.columns) - 1

    def scalar(self, value: Value, site: Site) -> int:
        """A register that holds a scalar; known numbers are put into one here and now."""
        found = self.scalars.get(value)
        if found is not None:
            return found
        number = self.statics.number(value)
        if number is None:
            raise UnsupportedError("an index value that is neither computed here nor known", site)
        register = self._new_scalar()
        if number.uniform is not None:
            self.code.append(im.LoadImmediate(register, number.uniform))
        else:
            self.code.append(im.LoadColumn(register, self._column(number.rows)))
        return register

    def _unit_column(self, value: Value, site: Site, *, sending: bool, queue: bool) -> int:
        handle = self.statics.get(value)
        if not isinstance(handle, Handle):
            raise UnsupportedError("a unit operand that is not a unit handle", site)
        targets = [self.tables.unit(unit) for unit in handle.rows]
        if queue:
            for own, other in zip(self.units, targets, strict=True):
                self.tables.connect(own, other) if sending else self.tables.connect(other, own)
        return self._column(targets)

    # -- blocks

    def _block(self, block: Block) -> None:
        for op in block.operations:
            self._operation(op)

    def _attribute(self, site: Site) -> None:
        """All instructions that are new come from there."""
        self.sources += [site] * (len(self.code) - len(self.sources))

    def _operation(self, op: Operation) -> None:
        site = Site(op.name, op.location)
        self._attribute(self.around)
        outer, self.around = self.around, site
        self._read(op, site)
        self._attribute(site)
        self.around = outer

    def _read(self, op: Operation, site: Site) -> None:
        if op.results and self.statics.evaluate(op):
            return
        reader = _READERS.get(type(op))
        if reader is not None:
            reader(self, op, site)
        elif type(op) in _SCALAR:
            lhs, rhs = (self.scalar(value, site) for value in op.operands)
            dst = self._new_scalar(op.results[0])
            self.code.append(im.ScalarBinary(_SCALAR[type(op)], dst, lhs, im.Register(rhs)))
        else:
            raise UnsupportedError(f"operation '{op.name}' in a program unit", site)

    # -- control

    def _for(self, op: Operation, site: Site) -> None:
        assert isinstance(op, scf.For)
        lower, upper = self.scalar(op.lower, site), self.scalar(op.upper, site)
        step = self.statics.number(op.step)
        if step is None or step.uniform is None:
            raise UnsupportedError("a loop step that is not one known number", site)
        carried = list(zip(op.carried, op.inits, op.outputs, strict=True))
        for argument, init, output in carried:
            self._move(argument, init, site)
            self._alias(output, argument)
        iv = self._new_scalar(op.induction_variable)
        head = len(self.code)
        self.code.append(im.For(iv, lower, upper, step.uniform, 0))
        body = op.body.block
        for inner in body.operations[:-1]:
            self._operation(inner)
        self._parallel_moves(op.carried, body.terminator.operands, site)
        distance = len(self.code) - head
        self.code.append(im.EndFor(-distance))
        self.code[head] = im.For(iv, lower, upper, step.uniform, distance)

    def _alias(self, value: Value, same: Value) -> None:
        if same in self.scalars:
            self.scalars[value] = self.scalars[same]
        else:
            self.vectors[value] = self.vectors[same]

    def _move(self, target: Value, source: Value, site: Site) -> None:
        if isinstance(target.type, VectorType):
            self.code.append(im.VectorMove(self.new_vector(target), self.read_vector(source, site)))
            return
        register = self.scalar(source, site)
        self.code.append(im.Move(self._new_scalar(target), register))

    def _parallel_moves(self, targets: Sequence[Value], sources: Sequence[Value], site: Site) -> None:
        """All sources are read before a target is written."""
        pending: list[im.Instruction] = []
        for target, source in zip(targets, sources, strict=True):
            if isinstance(target.type, VectorType):
                register = self.read_vector(source, site)
                if register == self.vectors[target]:
                    continue
                temporary = self.vectors[_temporary(self.vectors)] if len(targets) > 1 else register
                if temporary != register:
                    self.code.append(im.VectorMove(temporary, register))
                pending.append(im.VectorMove(self.vectors[target], temporary))
                continue
            register = self.scalar(source, site)
            if register == self.scalars[target]:
                continue
            temporary = register
            if len(targets) > 1:
                temporary = self._new_scalar()
                self.code.append(im.Move(temporary, register))
            pending.append(im.Move(self.scalars[target], temporary))
        self.code += pending

    def _if(self, op: Operation, site: Site) -> None:
        assert isinstance(op, scf.If)
        condition = self.scalar(op.condition, site)
        for output in op.outputs:
            if isinstance(output.type, VectorType):
                self.new_vector(output)
            else:
                self._new_scalar(output)
        branch = len(self.code)
        self.code.append(im.BranchIfZero(condition, 0))
        self._branch(op.then_region.blocks[0], op.outputs, site)
        join = len(self.code)
        self.code.append(im.Branch(0))
        self.code[branch] = im.BranchIfZero(condition, len(self.code) - branch)
        if op.else_region.blocks:
            self._branch(op.else_region.blocks[0], op.outputs, site)
        self.code[join] = im.Branch(len(self.code) - join)

    def _branch(self, block: Block, outputs: Sequence[Value], site: Site) -> None:
        for inner in block.operations[:-1]:
            self._operation(inner)
        for output, value in zip(outputs, block.terminator.operands, strict=True):
            if isinstance(output.type, VectorType):
                self.code.append(im.VectorMove(self.vectors[output], self.read_vector(value, site)))
            else:
                self.code.append(im.Move(self.scalars[output], self.scalar(value, site)))

    def _compare(self, op: Operation, site: Site) -> None:
        assert isinstance(op, arith.CmpI)
        lhs, rhs = self.scalar(op.lhs, site), self.scalar(op.rhs, site)
        dst = self._new_scalar(op.result)
        self.code.append(im.ScalarCompare(im.Predicate(op.comparison.value), dst, lhs, rhs))

    def _select(self, op: Operation, site: Site) -> None:
        assert isinstance(op, arith.Select)
        condition = self.scalar(op.condition, site)
        a, b = self.scalar(op.true_value, site), self.scalar(op.false_value, site)
        self.code.append(im.ScalarSelect(self._new_scalar(op.result), condition, a, b))

    def _cast_index(self, op: Operation, site: Site) -> None:
        target = op.results[0].type
        if isinstance(target, IntegerType) and target.width < 64:
            raise UnsupportedError(f"a cast of an index to {target} in a program unit", site)
        source = self.scalar(op.operands[0], site)
        self.code.append(im.Move(self._new_scalar(op.results[0]), source))

    # -- memory

    def _view(self, op: Operation, site: Site) -> None:
        assert isinstance(op, dataflow.GetLogicalMemoryView)
        handle = self.statics.get(op.memory)
        if not isinstance(handle, Handle):
            raise UnsupportedError("a view of something that is not a memory handle", site)
        memories = [self.tables.memory(memory) for memory in handle.rows]
        described = self.tables.memories[memories[0]]
        type = op.view.type
        assert isinstance(type, MemRefType)
        element = im.ElementType.of(type.element)
        coefficients, constant = strides_of(op.layout_map.map, type.rank, site)
        start = self.statics.number(op.start)
        symbolic = start is not None and start.symbolic
        if symbolic:
            unit = self.tables.architecture.word_size(self.kind, described.kind)
        else:
            unit = self.tables.constant_starts.unit(described, element)
        shape = tuple(0 if extent is None else extent for extent in type.shape)
        view = im.View(element, shape, coefficients, constant, unit, symbolic)
        where: im.Register | im.Column
        if start is not None:
            where = im.Column(self._column(start.rows))
        else:
            where = im.Register(self.scalar(op.start, site))
        memory: im.MemoryId | im.Column
        same = len(set(memories)) == 1
        memory = im.MemoryId(memories[0]) if same else im.Column(self._column(memories))
        register = self.views.setdefault(op.view, len(self.views))
        self.code.append(im.MakeView(register, memory, where, self.tables.views.index_of(view)))

    def _read_view(self, value: Value, site: Site) -> int:
        found = self.views.get(value)
        if found is None:
            raise UnsupportedError("a view from outside the program unit", site)
        return found

    def _subscripts(self, map: object, indices: Sequence[Value], site: Site) -> _Side:
        from ktir.affine import AffineMap

        assert isinstance(map, AffineMap)
        constants, rows = linear_rows(map, "subscript map", site)
        side = _Side([], list(constants), [[] for _ in rows])
        for position, value in enumerate(indices):
            number = self.statics.number(value)
            if number is not None and number.uniform is not None:
                for r, row in enumerate(rows):
                    side.base[r] += row[position] * number.uniform
                continue
            side.registers.append(self.scalar(value, site))
            for r, row in enumerate(rows):
                side.coefficients[r].append(row[position])
        return side

    def _finished(
        self,
        side: _Side,
        element: im.ElementType,
        points: list[tuple[int, ...]],
        time: list[list[int]],
    ) -> im.Side:
        return im.Side(
            element,
            tuple(side.registers),
            tuple(side.base),
            by_rank(side.coefficients),
            by_rank(time),
            im.ExplicitLanes(tuple(points)),
        )

    def _element(self, memory: Value) -> im.ElementType:
        assert isinstance(memory.type, MemRefType)
        return im.ElementType.of(memory.type.element)

    def _load(self, op: Operation, site: Site) -> None:
        assert isinstance(op, agen.VectorLoad)
        side = self._subscripts(op.access_map.map, op.indices, site)
        points = ordered_points(op.load_set.set, op.load_order.map, site)
        self._check_lanes(points, op.vector, site)
        finished = self._finished(side, self._element(op.memory), points, [[] for _ in side.base])
        self.tables.generators.append(im.AddressGenerator(im.GeneratorKind.LOAD, (finished,)))
        view = self._read_view(op.memory, site)
        generator = len(self.tables.generators) - 1
        self.code.append(im.VectorLoad(self.new_vector(op.vector), view, generator))

    def _store(self, op: Operation, site: Site) -> None:
        assert isinstance(op, agen.VectorStore)
        side = self._subscripts(op.access_map.map, op.indices, site)
        points = ordered_points(op.store_set.set, op.store_order.map, site)
        self._check_lanes(points, op.vector, site)
        finished = self._finished(side, self._element(op.memory), points, [[] for _ in side.base])
        self.tables.generators.append(im.AddressGenerator(im.GeneratorKind.STORE, (finished,)))
        view, source = self._read_view(op.memory, site), self.read_vector(op.vector, site)
        self.code.append(im.VectorStore(source, view, len(self.tables.generators) - 1))

    def _check_lanes(self, points: list[tuple[int, ...]], vector: Value, site: Site) -> None:
        from spyresim.errors import ControlFault

        assert isinstance(vector.type, VectorType)
        lanes = vector.type.num_elements()
        if len(points) != lanes:
            raise ControlFault(f"set has {len(points)} points but vector has {lanes} lanes", site=site)

    def _copy(self, op: Operation, site: Site) -> None:
        assert isinstance(op, agen.CompositeLoadAndStore)
        if not op.is_plain_copy:
            raise UnsupportedError("a composite transfer that computes", site)
        finished: list[im.Side] = []
        extents: list[int] = []
        for described in op.sides:
            side = self._subscripts(described.map, described.indices, site)
            points = ordered_points(described.set, described.order, site)
            extents, order = time_box(op.time_set.set, op.time_order.map, site)
            constants, rows = linear_rows(described.time_map, "time map", site)
            side.base = [a + b for a, b in zip(side.base, constants, strict=True)]
            time = [[row[d] for d in order] for row in rows]
            finished.append(self._finished(side, self._element(described.memory), points, time))
        generator = im.AddressGenerator(im.GeneratorKind.DMA, tuple(finished), tuple(extents))
        self.tables.generators.append(generator)
        source, target = (self._read_view(side.memory, site) for side in op.sides)
        self.code.append(im.Dma(source, target, len(self.tables.generators) - 1))

    # -- communication

    def _send(self, op: Operation, site: Site) -> None:
        assert isinstance(op, dataflow.Send)
        column = self._unit_column(op.unit, site, sending=True, queue=True)
        self.code.append(im.Send(self.read_vector(op.data, site), column, 0))

    def _receive(self, op: Operation, site: Site) -> None:
        assert isinstance(op, dataflow.Receive)
        column = self._unit_column(op.unit, site, sending=False, queue=True)
        type = op.data.type
        assert isinstance(type, VectorType)
        element = im.ElementType.of(type.element)
        self.code.append(im.Receive(self.new_vector(op.data), column, element, type.num_elements()))

    def _sync_send(self, op: Operation, site: Site) -> None:
        assert isinstance(op, dataflow.SyncSend)
        wait = op.wait_immediately_for_async_transfers
        column = self._unit_column(op.unit, site, sending=True, queue=False)
        self.code.append(im.SyncSend(column, bool(wait is not None and wait.value)))

    def _sync_receive(self, op: Operation, site: Site) -> None:
        assert isinstance(op, dataflow.SyncReceive)
        self.code.append(im.SyncReceive(self._unit_column(op.unit, site, sending=False, queue=False)))

    def _opaque(self, op: Operation, site: Site) -> None:
        assert isinstance(op, dataflow.Opaque)
        parameters = dict(op.parameter_dictionary.items())
        name = parameters.pop("memory", None)
        memory = self.tables.memory_named(name.value) if isinstance(name, StringAttr) else None
        if memory is None:
            raise UnsupportedError(f"an opaque operation on register memory {name}", site)
        operands: list[list[im.OpaqueOperand]] = []
        for registers in (op.read_only_register_dictionary, op.read_write_register_dictionary):
            group: list[im.OpaqueOperand] = []
            for label in register_order(op, registers):
                offset = register_offset(registers[label], register_bytes_of(op))
                held = parameters.pop(label, None)
                type = held.type if isinstance(held, TypeAttr) else held
                if offset is None or not isinstance(type, VectorType):
                    raise UnsupportedError(f"operand '{label}' of an opaque operation", site)
                element = im.ElementType.of(type.element)
                group.append(im.OpaqueOperand(label, offset, element, type.num_elements()))
            operands.append(group)
        rest = tuple(sorted((key, str(value)) for key, value in parameters.items()))
        descriptor = im.Opaque(op.func_name.value, memory, tuple(operands[0]), tuple(operands[1]), rest)
        self.tables.opaques.append(descriptor)
        self.code.append(im.CallOpaque(len(self.tables.opaques) - 1))

    def _nothing(self, op: Operation, site: Site) -> None:
        """Terminators that carry nothing."""


def _temporary(vectors: dict[Value, int]) -> Value:
    """A fresh name for a vector register."""
    value = Value(IndexType())
    vectors[value] = len(vectors)
    return value


_READERS: dict[type[Operation], Callable[[UnitReader, Operation, Site], None]] = {
    scf.For: UnitReader._for,
    scf.If: UnitReader._if,
    arith.CmpI: UnitReader._compare,
    arith.Select: UnitReader._select,
    arith.IndexCast: UnitReader._cast_index,
    arith.IndexCastUI: UnitReader._cast_index,
    dataflow.GetLogicalMemoryView: UnitReader._view,
    dataflow.Send: UnitReader._send,
    dataflow.Receive: UnitReader._receive,
    dataflow.SyncSend: UnitReader._sync_send,
    dataflow.SyncReceive: UnitReader._sync_receive,
    dataflow.Opaque: UnitReader._opaque,
    dataflow.Return: UnitReader._nothing,
    agen.VectorLoad: UnitReader._load,
    agen.VectorStore: UnitReader._store,
    agen.CompositeLoadAndStore: UnitReader._copy,
    **VECTOR_READERS,
}
__all__ = ["UnitReader"]
