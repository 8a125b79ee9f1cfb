"""Structured operations that other tools leave in a stage (dataflowir spec 3.6, 3.7).

Buffers that are filled, copied or accumulated in as a whole, and tensors that are reduced piece by piece as
they come out of a queue. The pipeline's own passes leave nothing of this kind.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from attrs import define

from dfsched.dialects import vectorchain as vc
from dfsched.dialects.agen import VectorLoad, VectorStore
from dfsched.dialects.ktdf import FifoSlotType, ReadFromFifo
from dfsched.lowering.errors import LoweringError, UnsupportedLowering
from dfsched.lowering.transfers import box_set
from dfsched.lowering.values import Buffer, Nothing, Pieces, Rotating, Vector, View
from dfsched.passes.reductions import combine_of, neutral_element
from ktir.affine import AffineMap, Dim
from ktir.attribute import Attribute
from ktir.attributes import FloatAttr, IntegerAttr
from ktir.dialects import arith, linalg, memref, scf
from ktir.dtypes import literal_bits
from ktir.ir import BlockArgument, Operation, Region, Value
from ktir.machine import F16Format
from ktir.types import INDEX, MemRefType, ShapedType, TensorType, VectorType, bit_width

if TYPE_CHECKING:
    from dfsched.lowering.program_unit import ProgramUnitBuilder

__all__ = ["WholeBuffers"]


@define
class WholeBuffers:
    """Operations of one program unit that take a buffer, or a tensor from a queue, as a whole."""

    unit: ProgramUnitBuilder

    # -- memory

    def load(self, value: Value, op: Operation) -> Value:
        """All elements of a buffer as one vector."""
        type, vector = self._vector_type(value, op)
        view = self.unit.views.value(self.unit.meaning(value, op), op)
        zero, identity = AffineMap.constant(*([0] * type.rank)), AffineMap.identity(type.rank)
        shape = type.static_shape()
        return self.unit.emit(VectorLoad.of(view, zero, (), box_set(shape), identity, vector))

    def store(self, vector: Value, target: Value, op: Operation) -> None:
        """A vector over a whole buffer."""
        type, wanted = self._vector_type(target, op)
        if vc.lanes(vector.type) != wanted.num_elements():
            raise LoweringError.at(
                op.location,
                f"an operand has {vc.lanes(vector.type)} lanes, the result {wanted.num_elements()}",
            )
        view = self.unit.views.value(self.unit.meaning(target, op), op)
        zero, identity = AffineMap.constant(*([0] * type.rank)), AffineMap.identity(type.rank)
        self.unit.emit(VectorStore.of(vector, view, zero, (), box_set(type.static_shape()), identity))

    def holds(self, value: Value) -> bool:
        """Whether a value is memory here."""
        return isinstance(self.unit.meanings.get(value), Buffer | Rotating | View)

    def _vector_type(self, value: Value, op: Operation) -> tuple[MemRefType, VectorType]:
        type = value.type
        assert isinstance(type, MemRefType)
        return type, self._one_vector(type, op)

    def _one_vector(self, type: ShapedType, op: Operation) -> VectorType:
        count = type.num_elements() if type.is_static else None
        if count is None or count > self.unit.shared.architecture.vector_length((type.element,)):
            raise LoweringError.at(op.location, "Flattened tensor/memref size exceeds maximum vector length")
        return VectorType((count,), type.element)

    # -- operations on buffers

    def copy(self, op: memref.Copy) -> None:
        """What came out of a queue, or another buffer, over a buffer."""
        self.store(self.unit.vector(op.source, op), op.target, op)

    def fill(self, op: linalg.Fill) -> None:
        """One number in all lanes."""
        target = op.outputs[0]
        type = target.type
        assert isinstance(type, ShapedType)
        wanted = self._one_vector(type, op)
        definer = self.unit.kinds.uses.definer(op.inputs[0])
        if op.inputs[0].type != type.element:
            raise UnsupportedLowering.at(op.location, "linalg.fill with a conversion of its value")
        if isinstance(definer, arith.Constant):
            single = VectorType((1,), type.element)
            pattern = vc.ConstantBitstream.of(
                (_pattern(definer.value, op, self.unit.shared.f16_format),), single
            )
            vector = self.unit.emit(
                vc.Shuffle.of(self.unit.emit(pattern), wanted, (0,), wanted.num_elements())
            )
        else:
            vector = self.unit.computation.splat_scalar(op.inputs[0], wanted, op)
        if isinstance(type, MemRefType):
            self.store(vector, target, op)
        for result in op.outcomes:
            self.unit.meanings[result] = Vector(vector)

    def accumulate(self, op: linalg.Generic) -> None:
        """A computation on the contents of buffers: load the output, compute, store it back."""
        if len(op.outputs) != 1:
            raise UnsupportedLowering.at(op.location, "a linalg.generic with several output buffers")
        lanes = self._vector_type(op.outputs[0], op)[1].num_elements()
        if lanes == 1 and "reduction" in op.iterators and _elements(op.inputs) > 1:
            self.store(self.unit.computation.folded(op), op.outputs[0], op)
            return
        vectors: dict[Value, Value] = {}
        arguments = op.body.block.arguments
        read = {value for inner in op.body.block.operations for value in inner.operands}
        for argument, value in zip(arguments, (*op.inputs, *op.outputs), strict=True):
            if value in op.outputs and argument not in read:
                continue
            vectors[argument] = self.unit.vector(value, op)
            if vc.lanes(vectors[argument].type) != lanes:
                found = vc.lanes(vectors[argument].type)
                raise LoweringError.at(op.location, f"an operand has {found} lanes, the result {lanes}")
        (result,) = self.unit.computation.body(op, vectors, lanes)
        self.store(result, op.outputs[0], op)

    # -- tensors from queues

    def in_pieces(self, op: ReadFromFifo) -> bool:
        """Whether a read takes more than a vector, for reductions only: they take it piece by piece."""
        type = op.data.type
        users = self.unit.kinds.uses.users(op.data)
        return (
            isinstance(type, TensorType)
            and type.num_elements() > self.unit.shared.architecture.vector_length((type.element,))
            and bool(users)
            and all(isinstance(u, linalg.Generic) and "reduction" in u.iterators for u in users)
        )

    def reduce(self, op: linalg.Generic, pieces: Pieces) -> None:
        """A loop for every reduced dimension, outermost first; one receive in each iteration."""
        combine = checked_combine(op)
        type = op.inputs[0].type
        assert isinstance(type, TensorType)
        assert isinstance(pieces.slot.type, FifoSlotType)
        shape = type.static_shape()
        dims = [expr.position for expr in op.maps[0].results if isinstance(expr, Dim)]
        kept = [dim for dim in dims if op.iterators[dim] == "parallel"]
        if len(dims) != len(shape) or list(op.maps[-1].results) != [Dim(dim) for dim in kept]:
            raise UnsupportedLowering.at(op.location, "a reduction that permutes the dimensions of its input")
        extents = {dim: shape[dims.index(dim)] for dim in dims}
        lanes = math.prod(extents[dim] for dim in kept)
        piece = VectorType((lanes,), type.element)
        self._one_vector(piece, op)
        loops = [dim for dim, kind in enumerate(op.iterators) if kind == "reduction"]
        value, accumulator = op.body.block.arguments

        def nest(depth: int, total: Value) -> Value:
            if depth == len(loops):
                vectors: dict[Value, Value] = {
                    value: self.unit.receive_piece(op, pieces.slot, piece),
                    accumulator: total,
                }
                return self.unit.computation.scalar_operation(combine, vectors, lanes)
            carried = BlockArgument(total.type)

            def body() -> None:
                self.unit.emit(scf.Yield.create((nest(depth + 1, carried),)))

            operations = self.unit.nested(body)
            bounds = [self.unit.shared.constant(number) for number in (0, extents[loops[depth]], 1)]
            region = Region.of(operations, (BlockArgument(INDEX), carried))
            return self.unit.emit(scf.For.create((*bounds, total), (total.type,), regions=(region,)))

        self.unit.meanings[op.results[0]] = Vector(nest(0, self._start(op, combine, lanes)))

    def _start(self, op: linalg.Generic, combine: Operation, lanes: int) -> Value:
        """The initial value of a reduction: what the output holds, or what changes nothing."""
        if isinstance(self.unit.meaning(op.outputs[0], op), Nothing):
            return self.unit.computation.splat(neutral_element(combine), lanes, op)
        start = self.unit.vector(op.outputs[0], op)
        if vc.lanes(start.type) != lanes:
            raise LoweringError.at(
                op.location, f"an operand has {vc.lanes(start.type)} lanes, the result {lanes}"
            )
        return start


def _elements(inputs: Sequence[Value]) -> int:
    """How many elements the first input has; 0 without one."""
    type = inputs[0].type if inputs else None
    return type.num_elements() if isinstance(type, ShapedType) and type.is_static else 0


def checked_combine(op: linalg.Generic) -> Operation:
    """The only computing operation of a reduction's body."""
    if len(op.body.block.operations) != 2 or len(op.inputs) != 1:
        raise UnsupportedLowering.at(
            op.location, "reduction linalg.generic body must have exactly one compute op"
        )
    combine = combine_of(op)
    if combine is None:
        raise UnsupportedLowering.at(op.location, "unsupported reduction body op in linalg.generic")
    return combine.op


def _pattern(value: Attribute, op: Operation, f16_format: F16Format) -> int:
    """The bits of a number, as the device holds it."""
    match value:
        case FloatAttr(bits=bits, type=type):
            return literal_bits(bits, type, f16_format)
        case IntegerAttr(value=number, type=type):
            return number & ((1 << bit_width(type)) - 1)
        case _:
            raise LoweringError.at(op.location, "linalg.fill constant value must be integer or float")
