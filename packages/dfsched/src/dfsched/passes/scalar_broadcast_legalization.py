"""`scalar-broadcast-legalization`: every operand of a compute stage gets all lanes (scheduler spec 3.6).

Takes expanded pipelines. An operand that has fewer elements than the vector (its map lacks loops or ends
in a constant) is replicated by its queue: the last hop becomes a ``splat`` transfer (lane l gets source
element l modulo the number of source elements), the slot and the read grow to the full vector, the map
of the generic becomes the identity. A single element is fetched as a whole vector of memory where the
memref has room for one behind it, so that the first hop moves full words; otherwise the transfer keeps
its single element. Operands that are complete but of another shape are read in the shape of the vector.

Before (64 lanes)::

    from %d[%i, 0] size [1, 1] to %b[0, 0] size [1, 1]           memref<1x1xf16, "L1">
    from %b[0, 0] size [1, 1] to %s size [1]
    generic maps (d0, d1) -> (d0, 0), read as tensor<1x1xf16>

After::

    from %d[%i, 0] size [1, 64] to %b[0, 0] size [1, 64]         memref<1x64xf16, "L1">
    from %b[0, 0] size [1, 1] to %s size [64] {transfer_mode = "splat"}
    generic maps (d0, d1) -> (d0, d1), read as tensor<1x64xf16>

>>> from dfsched.passes.examples import after, generic, kernel
>>> after("scalar-broadcast-legalization",
... kernel(generic("(d0, d1) -> (d0, 0)", "%s = arith.addf %p, %p : f16")),
... r"data_transfer.*L1LU")
ktdf.data_transfer from %2#0[0, 0] size [1, 1] to %2#1 size [64] {ktdf.operand = 0 : i64,
    transfer_mode = "splat"} : memref<1x64xf16, "L1">, !ktdf.fifo.slot<"L1LU" -> "SFU", 64xf16>
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, evolve, field

from dfsched.architecture.kinds import kind_of
from dfsched.dialects.ktdf import (
    TRANSFER_MODE,
    Cell,
    DataTransfer,
    FifoSlotType,
    Pipeline,
    Private,
    ReadFromFifo,
    Stage,
)
from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.errors import Findings, ScheduleError
from dfsched.passes.ir_tools import Definitions, rewrite_blocks, substitute
from dfsched.passes.vector_lanes import VECTOR
from ktir.affine import AffineMap, Const
from ktir.attributes import AffineMapAttr, ArrayAttr, StringAttr
from ktir.dialects import ktdp, linalg, memref
from ktir.dialects.builtin import Module
from ktir.ir import Operation, OpResult, Region, Value
from ktir.types import MemRefType, TensorType, bit_width

__all__ = ["PASS", "run"]


def run(module: Module, context: PassContext) -> Module:
    """Legalise every pipeline whose compute stages hold element-wise generics."""
    definitions = Definitions(module)
    findings = Findings()

    def legal(pipeline: Pipeline) -> Pipeline:
        return _Legalization(pipeline, definitions, context).result()

    def rewrite(operations: Sequence[Operation]) -> list[Operation]:
        return [findings.attempt(legal, op) if isinstance(op, Pipeline) else op for op in operations]

    new = rewrite_blocks(module, rewrite)
    findings.check()
    assert isinstance(new, Module)
    return new


PASS = Pass("scalar-broadcast-legalization", Group.SCHEDULER, run, "replicate short operands in their queues")


@define(eq=False)
class _Legalization:
    """The state of rewriting one pipeline."""

    pipeline: Pipeline
    definitions: Definitions
    context: PassContext
    reads: dict[ReadFromFifo, tuple[int, ...]] = field(factory=dict)
    slots: dict[Value, int] = field(factory=dict)
    buffers: dict[Value, tuple[int, ...]] = field(factory=dict)
    transfers: dict[DataTransfer, DataTransfer] = field(factory=dict)

    def result(self) -> Pipeline:
        for stage in self.pipeline.stages:
            if stage.units is None or len(stage.units) != 1:
                continue
            for op in stage.body.block.operations:
                if isinstance(op, linalg.Generic) and VECTOR not in op.attributes:
                    self._generic(op, stage.units[0])
        if not self.reads:
            return self.pipeline
        return self._rebuilt()

    # -- analysis

    def _generic(self, generic: linalg.Generic, unit: str) -> None:
        out = generic.outputs[0].type
        if not isinstance(out, TensorType):
            return
        shape = out.static_shape()
        for number, (value, map) in enumerate(zip(generic.inputs, generic.maps, strict=False)):
            read = self.definitions.definer(value)
            if not isinstance(read, ReadFromFifo) or map.is_identity:
                continue
            type = read.data.type
            assert isinstance(type, TensorType)
            self.reads[read] = shape
            if type.num_elements() != out.num_elements() and read.slot not in self.slots:
                self._splat(generic, number, read, unit, out)

    def _splat(
        self, generic: linalg.Generic, number: int, read: ReadFromFifo, unit: str, out: TensorType
    ) -> None:
        slot = read.slot.type
        assert isinstance(slot, FifoSlotType)
        feeding = self._writers(read.slot)
        if len(feeding) != 1:
            self.context.warn(
                generic.location,
                f"operand {number} is short, but its queue is not fed by exactly one transfer; left alone",
            )
            del self.reads[read]
            return
        (transfer, mover) = feeding[0]
        if not self._can_splat(mover) and not self._can_splat(unit):
            raise ScheduleError.at(
                generic.location, f"operand {number} is to be replicated, but {mover} and {unit} cannot splat"
            )
        capacity = out.num_elements()
        self.slots[read.slot] = capacity
        end = Cell(transfer.dest, None, (), (capacity,))
        splat = transfer.with_cells(dest=end).replace(attributes={TRANSFER_MODE: StringAttr("splat")})
        self.transfers[transfer] = splat
        if transfer.source_cell.num_elements == 1:
            self._widen(transfer.source, unit)

    def _writers(self, value: Value) -> list[tuple[DataTransfer, str]]:
        found = []
        for stage in self.pipeline.stages:
            for op in stage.walk():
                if isinstance(op, DataTransfer) and op.dest is value:
                    found.append((op, (stage.units or ("?",))[0]))
        return found

    def _can_splat(self, unit: str) -> bool:
        simd = self.context.architecture.unit(unit).features.simd
        return simd is not None and simd.splat

    def _widen(self, buffer: Value, unit: str) -> None:
        """Fetch a single element with the vector behind it, if memory has one that nobody writes."""
        private = self.pipeline.private
        if private is None or buffer not in private.results:
            return
        feeding = self._writers(buffer)
        if len(feeding) != 1:
            return
        transfer, mover = feeding[0]
        source, type = transfer.source_cell, transfer.source.type
        if source.map is None or not isinstance(type, MemRefType) or not source.map.results:
            return
        element = (bit_width(type.element) + 7) // 8
        word = self.context.architecture.word_size(mover, kind_of(type.memory_space))  # type: ignore[arg-type]
        last, extent = source.map.results[-1], type.shape[-1]
        width = self.context.architecture.lanes(type.element, unit)
        if element % word == 0 or not isinstance(last, Const) or extent is None:
            return
        if last.value + width > extent or self._is_written(transfer.source):
            return
        shape = (*source.static_sizes[:-1], width)
        self.buffers[buffer] = shape
        dest = transfer.dest_cell
        self.transfers[transfer] = transfer.with_cells(evolve(source, sizes=shape), evolve(dest, sizes=shape))

    def _is_written(self, source: Value) -> bool:
        root = self._root(source)
        for op in self.definitions.root.walk():
            if isinstance(op, DataTransfer) and isinstance(op.dest.type, MemRefType):
                other = self._root(op.dest)
                if other is root or (
                    isinstance(root, ktdp.ConstructMemoryView)
                    and isinstance(other, ktdp.ConstructMemoryView)
                    and root.offset is other.offset
                ):
                    return True
        return False

    def _root(self, value: Value) -> Operation | None:
        op = self.definitions.definer(value)
        while isinstance(op, memref.MemorySpaceCast | memref.ReinterpretCast | memref.Cast):
            op = self.definitions.definer(op.source)
        return op

    # -- rewriting

    def _rebuilt(self) -> Pipeline:
        private = self.pipeline.private
        mapping: dict[Value, Value] = {}
        operations: list[Operation] = []
        if private is not None:
            inner: dict[Value, Value] = {}
            for result, value in zip(private.results, private.yielded, strict=True):
                type = self._new_type(result)
                if type is not None:
                    inner[value] = OpResult(type, value.name)
            body = [_with_results(op, inner) for op in private.body.block.operations[:-1]]
            new = Private.of(body, [inner.get(value, value) for value in private.yielded])
            mapping.update(zip(private.results, new.results, strict=True))
            operations.append(new)
        for stage in self.pipeline.stages:
            operations.append(self._stage(stage, mapping))
        return self.pipeline.replace(regions=[Region.of(operations)])

    def _new_type(self, result: Value) -> FifoSlotType | MemRefType | None:
        type = result.type
        if isinstance(type, FifoSlotType) and result in self.slots:
            return evolve(type, capacity=self.slots[result])
        if isinstance(type, MemRefType) and result in self.buffers:
            return evolve(type, shape=self.buffers[result])
        return None

    def _stage(self, stage: Stage, mapping: dict[Value, Value]) -> Operation:
        values = dict(mapping)

        def rewrite(operations: Sequence[Operation]) -> list[Operation]:
            return [substitute(self._operation(op, values), values) for op in operations]

        new = rewrite_blocks(stage, rewrite)
        return substitute(new, mapping)

    def _operation(self, op: Operation, values: dict[Value, Value]) -> Operation:
        match op:
            case DataTransfer():
                return self.transfers.get(op, op)
            case ReadFromFifo() if op in self.reads:
                type = op.data.type
                assert isinstance(type, TensorType)
                data = OpResult(TensorType(self.reads[op], type.element), op.data.name)
                values[op.data] = data
                return op.replace(results=[data])
            case linalg.Generic():
                maps: list[AffineMap] = list(op.maps)
                for number, value in enumerate(op.inputs):
                    read = self.definitions.definer(value)
                    if isinstance(read, ReadFromFifo) and read in self.reads:
                        maps[number] = AffineMap.identity(maps[number].num_dims)
                entries = ArrayAttr(tuple(AffineMapAttr(map) for map in maps))
                return op.replace(attributes={"indexing_maps": entries})
            case _:
                return op


def _with_results(op: Operation, new: dict[Value, Value]) -> Operation:
    results = [new.get(result, result) for result in op.results]
    if all(a is b for a, b in zip(results, op.results, strict=True)):
        return op
    return op.replace(results=[result for result in results if isinstance(result, OpResult)])
