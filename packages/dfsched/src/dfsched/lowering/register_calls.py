"""Bodies that work on registers: stores, loads and instruction templates (device spec 4.6).

A store or load in the body of a structured operation means all lanes of a register; a template becomes
`dataflow.opaque` with the numbers of its registers by name. Inputs are read-only, outputs (temporaries are
among them) are read and written. The parameter ``memory`` names the register file, parameters of the
registers' names give their vector types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define

from dfsched.architecture.kinds import kind_of, kind_text
from dfsched.dialects.agen import VectorLoad, VectorStore
from dfsched.dialects.dataflow import GetUnit
from dfsched.dialects.dataflow import Opaque as Call
from dfsched.dialects.ktdf import Opaque
from dfsched.lowering.errors import LoweringError
from dfsched.lowering.transfers import box_set
from dfsched.lowering.values import Buffer
from ktir.affine import AffineMap
from ktir.attribute import Attribute
from ktir.attributes import ArrayAttr, DictAttr, IntegerAttr, StringAttr, TypeAttr
from ktir.dialects import memref
from ktir.ir import Operation, Value
from ktir.opdef import OPERAND_SEGMENTS
from ktir.types import MemRefType, Type, VectorType, bit_width

if TYPE_CHECKING:
    from dfsched.lowering.program_unit import ProgramUnitBuilder

__all__ = ["RegisterCalls"]

REGISTER_NAMES = "dataflow_scheduler.register_names"
REGISTER_SIZE = "dataflow_scheduler.register_size"
DEFAULT_SIZE = 128
"""Bytes of a register where a call does not say."""
NAMES_OF_CALL = ("parameter_dictionary", "read_only_register_dictionary", "read_write_register_dictionary")


@define
class RegisterCalls:
    """Operations on registers of one program unit."""

    unit: ProgramUnitBuilder

    def is_register(self, value: Value) -> bool:
        """Whether a value is a buffer in a register memory."""
        return isinstance(self.unit.meanings.get(value), Buffer)

    def store(self, vector: Value, op: memref.Store, lanes: int) -> None:
        """All lanes into a register."""
        offset, handle, type = self._register(op.memref, op, lanes)
        view = self.unit.views.register(handle, offset, type)
        domain = box_set((lanes,))
        self.unit.emit(VectorStore.of(vector, view, AffineMap.constant(0), (), domain, AffineMap.identity(1)))

    def load(self, op: memref.Load, lanes: int) -> Value:
        """All lanes of a register."""
        offset, handle, type = self._register(op.memref, op, lanes)
        view = self.unit.views.register(handle, offset, type)
        domain = box_set((lanes,))
        return self.unit.emit(
            VectorLoad.of(view, AffineMap.constant(0), (), domain, AffineMap.identity(1), type)
        )

    def call(self, op: Opaque, lanes: int) -> None:
        """The template as an instruction on numbered registers; names that are types skip their operand."""
        names = op.attributes.get(REGISTER_NAMES)
        labels = list(names) if isinstance(names, ArrayAttr) else []
        operands = (*op.ins, *op.outs)
        if len(labels) != len(operands):
            raise LoweringError.at(
                op.location,
                f"template '{op.template.value}' has {len(operands)} operands, "
                f"but {len(labels)} register names",
            )
        reads: dict[str, Attribute] = {}
        writes: dict[str, Attribute] = {}
        given = op.attributes.get("parameter_dictionary")
        parameters = dict(given.items()) if isinstance(given, DictAttr) else {}
        named = [
            (n.value, value) for n, value in zip(labels, operands, strict=True) if isinstance(n, StringAttr)
        ]
        sizes = {self._size(value.type, op) for _, value in named}
        for label, value in named:
            start, handle, type = self._register(value, op, lanes)
            target = reads if value in op.ins else writes
            number = StringAttr(f"R{start // max(sizes)}")
            target[label] = number if len(sizes) == 1 else IntegerAttr(start)
            parameters[label] = TypeAttr(type)
            parameters["memory"] = handle.unit_name
        kept = {
            name: attribute
            for name, attribute in op.attributes.items()
            if name not in ("template_name", OPERAND_SEGMENTS, *NAMES_OF_CALL)
        }
        for target, name in ((reads, NAMES_OF_CALL[1]), (writes, NAMES_OF_CALL[2])):
            present = op.attributes.get(name)
            if isinstance(present, DictAttr):
                target.update({key: item for key, item in present.items() if key not in target})
        kept.setdefault("func_name", op.template)
        if sizes and sizes != {DEFAULT_SIZE}:
            kept[REGISTER_SIZE] = IntegerAttr(max(sizes))
        self.unit.emit(
            Call.create(
                attributes={
                    **kept,
                    NAMES_OF_CALL[0]: DictAttr(parameters),
                    NAMES_OF_CALL[1]: DictAttr(reads),
                    NAMES_OF_CALL[2]: DictAttr(writes),
                },
                location=op.location,
            )
        )

    def _size(self, type: Type, op: Operation) -> int:
        """Bytes of a register of an element type."""
        element = type.element if isinstance(type, MemRefType) else type
        size = self.unit.shared.architecture.lanes(element) * -(-bit_width(element) // 8)
        if size == 0:
            raise LoweringError.at(
                op.location, f"'{op.name}' works on a register of {element}, which has no lanes"
            )
        return size

    def _register(self, value: Value, op: Operation, lanes: int) -> tuple[int, GetUnit, VectorType]:
        """Byte offset of a register, the handle of its memory, and the vector in it."""
        meaning = self.unit.meanings.get(value)
        start = meaning.start.uniform if isinstance(meaning, Buffer) else None
        type = value.type
        if start is None or not isinstance(type, MemRefType) or type.memory_space is None:
            raise LoweringError.at(op.location, f"'{op.name}' works on a register without a constant address")
        kind = self.unit.shared.architecture.memory_kind(kind_of(type.memory_space))
        size = self._size(type, op)
        if start % size:
            raise LoweringError.at(
                op.location,
                f"register address {start} of {kind_text(kind)} is no multiple of the register size {size}",
            )
        (handle,) = self.unit.shared.memory(kind, op.location)
        return start, handle, VectorType((lanes,), type.element)
