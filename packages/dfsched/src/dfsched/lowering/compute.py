"""`linalg.generic` over vectors: instructions, opaque operations over registers (dataflowir spec 3.6)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from attrs import define, field

from dfsched.dialects import vectorchain as vc
from dfsched.dialects.agen import VectorLoad, VectorStore
from dfsched.dialects.dataflow import Opaque
from dfsched.dialects.ktdf import Opaque as Template
from dfsched.lowering.errors import LoweringError, UnsupportedLowering
from dfsched.lowering.scalar_body import MAPS_TO, vector_operations
from dfsched.lowering.transfers import box_set
from dfsched.lowering.values import Address, Known, Pieces, Runtime, Vector
from dfsched.lowering.whole_buffers import checked_combine
from ktir.affine import AffineMap, Const
from ktir.attribute import Attribute
from ktir.attributes import DenseElementsAttr, DictAttr, FloatAttr, IntegerAttr, StringAttr, TypeAttr
from ktir.dialects import arith, linalg, memref, spyreop
from ktir.ir import Operation, Value
from ktir.types import FloatType, IntegerType, ShapedType, Type, VectorType, bit_width

if TYPE_CHECKING:
    from dfsched.lowering.program_unit import ProgramUnitBuilder

__all__ = ["FOLD_LANES", "Computation"]

FOLD_LANES = "ktdf.fold_lanes"
"""Name of the instruction that folds lanes: first operand the start (one lane), then the vector; parameter
``combine`` names the scalar operation."""


@define
class Computation:
    """The computations of one program unit."""

    unit: ProgramUnitBuilder
    _splats: dict[tuple[int, VectorType], Value] = field(factory=dict)

    def generic(self, op: linalg.Generic) -> None:
        if not op.results:
            self.unit.buffers.accumulate(op)
            return
        if any(kind != "parallel" for kind in op.iterators):
            self._reduction(op)
            return
        results = [r.type for r in op.results]
        if not all(isinstance(t, ShapedType) and t.is_static for t in results):
            raise UnsupportedLowering.at(op.location, "a linalg.generic without static tensor results")
        first = results[0]
        assert isinstance(first, ShapedType)
        lanes = first.num_elements()
        elements = [v.type.element for v in (*op.inputs, *op.results) if isinstance(v.type, ShapedType)]
        if lanes > self.unit.shared.architecture.vector_length(elements):
            raise LoweringError.at(op.location, "Flattened tensor/memref size exceeds maximum vector length")
        vectors: dict[Value, Value] = {}
        arguments = op.body.block.arguments
        for argument, value in zip(arguments, op.inputs, strict=False):
            vector = self.unit.vector(value, op)
            if vc.lanes(vector.type) != lanes:
                raise LoweringError.at(
                    op.location, f"an operand has {vc.lanes(vector.type)} lanes, the result {lanes}"
                )
            vectors[argument] = vector
        for argument, value in zip(arguments[len(op.inputs) :], op.outputs, strict=True):
            if isinstance(self.unit.meanings.get(value), Vector):
                vectors[argument] = self.unit.vector(value, op)
        for result, vector in zip(op.results, self.body(op, vectors, lanes), strict=True):
            self.unit.meanings[result] = Vector(vector)

    def body(self, op: linalg.Generic, vectors: dict[Value, Value], lanes: int) -> list[Value]:
        """What the body yields; `vectors` holds its arguments and takes what it computes."""
        operations = op.body.block.operations
        for inner in operations[:-1]:
            if isinstance(inner, linalg.Index):
                continue  # what uses it makes the lanes
            match inner:
                case memref.Store() if self.unit.registers.is_register(inner.memref):
                    vector = self._lane_value(inner.value, vectors, lanes, op)
                    self.unit.registers.store(vector, inner, lanes)
                    continue
                case memref.Load() if self.unit.registers.is_register(inner.memref):
                    vectors[inner.results[0]] = self.unit.registers.load(inner, lanes)
                    continue
                case Template():
                    self.unit.registers.call(inner, lanes)
                    continue
            index = self._index_of(inner, operations)
            if index is None:
                vectors[inner.results[0]] = self.scalar_operation(inner, vectors, lanes)
            else:
                shaped = op.outputs[0].type
                assert isinstance(shaped, ShapedType)
                shape = shaped.static_shape()
                vectors[inner.results[0]] = self._iota(index, shape, inner.results[0].type)
        return [self._lane_value(value, vectors, lanes, op) for value in op.body.block.terminator.operands]

    def _reduction(self, op: linalg.Generic) -> None:
        """A reduction: over what a queue holds, or over the lanes of one vector."""
        source = self.unit.meaning(op.inputs[0], op) if op.inputs else None
        match source:
            case Pieces():
                self.unit.buffers.reduce(op, source)
            case Vector():
                self.unit.meanings[op.results[0]] = Vector(self.folded(op))
            case _:
                raise LoweringError.at(
                    op.location, "reduction linalg.generic input must be produced by ktdf.read_from_fifo"
                )

    def folded(self, op: linalg.Generic) -> Value:
        """The lanes of one vector folded into a start value (dataflowir spec 3.6; readings, item 13).

        An instruction if the device has one, else lane by lane.
        """
        combine = checked_combine(op)
        type = op.inputs[0].type
        assert isinstance(type, ShapedType)
        lanes, start = self.unit.vector(op.inputs[0], op), self.unit.vector(op.outputs[0], op)
        if vc.lanes(start.type) != 1:
            raise UnsupportedLowering.at(op.location, "the lanes of a vector must be reduced to one number")
        if MAPS_TO in op.attributes:
            combination = {"combine": StringAttr(combine.name)}
            result = VectorType((1,), combine.results[0].type)
            total = self._call(FOLD_LANES, op, [start, lanes], result, combination)
        else:
            total = start
            for lane in range(vc.lanes(lanes.type)):
                single = vc.Shuffle.of(lanes, VectorType((1,), type.element), [lane], 1)
                value, accumulator = op.body.block.arguments
                vectors: dict[Value, Value] = {accumulator: total, value: self.unit.emit(single)}
                total = self.scalar_operation(combine, vectors, 1)
        return total

    def _index_of(self, op: Operation, body: Sequence[Operation]) -> linalg.Index | None:
        """The loop index that a cast takes (`narrow-index-lanes` leaves no other use of an index)."""
        if not isinstance(op, arith.IndexCast):
            return None
        return next((i for i in body if isinstance(i, linalg.Index) and i.result is op.operands[0]), None)

    def _iota(self, index: linalg.Index, shape: Sequence[int], type: Type) -> Value:
        """The position of every lane along one dimension of a tensor, as a constant."""
        assert isinstance(type, IntegerType)
        dim = index.dim.value
        step, count = math.prod(shape[dim + 1 :]), math.prod(shape)
        width = max(1, (type.width + 7) // 8)
        lanes = [lane // step % shape[dim] for lane in range(count)]
        data = b"".join(lane.to_bytes(width, "little") for lane in lanes)
        splat = len(set(lanes)) == 1
        return self.unit.shared.constant(
            DenseElementsAttr(data[:width] if splat else data, VectorType((count,), type), splat)
        )

    def _lane_value(self, value: Value, vectors: dict[Value, Value], lanes: int, op: Operation) -> Value:
        if value not in vectors:
            captured = self.unit.meanings.get(value)
            if isinstance(captured, Address) and not any(captured.offsets):
                return self._splat_input(captured.input, VectorType((lanes,), value.type))
            if isinstance(captured, Known | Runtime) and isinstance(value.type, IntegerType | FloatType):
                return self.splat_scalar(value, VectorType((lanes,), value.type), op)
            raise LoweringError.at(
                op.location,
                "the body of a linalg.generic uses a value that is no input and not computed in it",
            )
        return vectors[value]

    def _splat_input(self, number: int, type: VectorType) -> Value:
        """A scalar argument in every lane: its symbol carries the bit pattern."""
        if (number, type) not in self._splats:
            self.unit.shared.use_input(number)
            single = VectorType((1,), type.element)
            width = (bit_width(type.element) + 7) // 8
            zero = self.unit.shared.constant(DenseElementsAttr(bytes(width), single, True))
            op = vc.Shuffle.of(zero, type, (-1,), type.num_elements(), variables=(self.unit.symbol(number),))
            self.unit.head.append(op)
            self._splats[number, type] = op.result
        return self._splats[number, type]

    def splat_scalar(self, value: Value, type: VectorType, op: Operation) -> Value:
        """A scalar of the program in every lane."""
        single = VectorType((1,), type.element)
        width = (bit_width(type.element) + 7) // 8
        zero = self.unit.shared.constant(DenseElementsAttr(bytes(width), single, True))
        scalar = self.unit.scalar(value, op)
        return self.unit.emit(vc.Shuffle.of(zero, type, (-1,), type.num_elements(), variables=(scalar,)))

    def scalar_operation(self, op: Operation, vectors: dict[Value, Value], lanes: int) -> Value:
        if isinstance(op, arith.Constant | spyreop.Constant):
            return self.splat(op.value, lanes, op)
        is_known = op.name.partition(".")[0] in ("arith", "math", "spyreop") or MAPS_TO in op.attributes
        if op.regions or len(op.results) != 1 or not is_known:
            raise LoweringError.at(
                op.location,
                "unsupported operation type in linalg.generic body"
                + ("" if is_known else f": no pattern of the device maps '{op.name}' to an instruction"),
            )
        operands = [self._lane_value(value, vectors, lanes, op) for value in op.operands]
        exact = vector_operations(op, operands, self.unit.emit)
        return exact if exact is not None else self._opaque(op, operands, lanes)

    def splat(self, value: Attribute, lanes: int, op: Operation) -> Value:
        """A constant in every lane."""
        return self.unit.shared.constant(_splat(value, lanes, op))

    def _opaque(self, op: Operation, operands: Sequence[Value], lanes: int) -> Value:
        """An operation without an instruction of its own: through the register file (readings, item 13)."""
        parameters: dict[str, Attribute] = {
            name: value
            for name, value in op.attributes.items()
            if name not in ("fastmath", "overflowFlags") and not name.startswith("ktdf_arch.")
        }
        result = VectorType((lanes,), op.results[0].type)
        return self._call(op.name, op, operands, result, parameters)

    def _call(
        self,
        name: str,
        op: Operation,
        operands: Sequence[Value],
        result: VectorType,
        parameters: Mapping[str, Attribute],
    ) -> Value:
        """An opaque instruction: operands and result go through registers."""
        kind = self.unit.views.register_memory(op)
        (handle,) = self.unit.shared.memory(kind, op.location)
        types = [v.type for v in operands if isinstance(v.type, VectorType)]
        offsets = self.unit.views.register_offsets([*types, result], kind, op)
        order = AffineMap.identity(1)
        start = AffineMap(0, 0, (Const(0),))
        for vector, type, offset in zip(operands, types, offsets, strict=False):
            view = self.unit.views.register(handle, offset, type)
            domain = box_set((type.num_elements(),))
            self.unit.emit(VectorStore.of(vector, view, start, (), domain, order))
        described: dict[str, Attribute] = {**parameters, "memory": handle.unit_name}
        reads: dict[str, Attribute] = {}
        for position, (type, offset) in enumerate(zip(types, offsets, strict=False)):
            reads[f"in{position}"] = IntegerAttr(offset)
            described[f"in{position}"] = TypeAttr(type)
        described["out0"] = TypeAttr(result)
        self.unit.emit(
            Opaque.create(
                attributes={
                    "func_name": StringAttr(name),
                    "read_only_register_dictionary": DictAttr(reads),
                    "read_write_register_dictionary": DictAttr({"out0": IntegerAttr(offsets[-1])}),
                    "parameter_dictionary": DictAttr(described),
                }
            )
        )
        view = self.unit.views.register(handle, offsets[-1], result)
        domain = box_set((result.num_elements(),))
        return self.unit.emit(VectorLoad.of(view, start, (), domain, order, result))


def _splat(value: Attribute, lanes: int, op: Operation) -> DenseElementsAttr:
    match value:
        case FloatAttr(bits=bits, type=float_type):
            width = (float_type.width + 7) // 8
            return DenseElementsAttr(bits.to_bytes(width, "little"), VectorType((lanes,), float_type), True)
        case IntegerAttr(value=number, type=type):
            width = max(1, (bit_width(type) + 7) // 8)
            data = (number & ((1 << bit_width(type)) - 1)).to_bytes(width, "little")
            return DenseElementsAttr(data, VectorType((lanes,), type), True)
        case _:
            raise LoweringError.at(op.location, "unsupported operation type in linalg.generic body")
