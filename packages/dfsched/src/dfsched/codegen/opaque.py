"""`dataflow.opaque` with our dictionaries, as a descriptor (readings, item 13)."""

from __future__ import annotations

from collections.abc import Callable

from dfsched.codegen.errors import CodegenError, unsupported
from dfsched.codegen.tables import Hardware
from dfsched.dialects.dataflow import GetUnit, Opaque
from dfsched.image import ElementType, MemoryClass, OpaqueOperand
from dfsched.image import Opaque as Descriptor
from ktir.attributes import DictAttr, IntegerAttr, StringAttr, TypeAttr
from ktir.types import VectorType

__all__ = ["opaque_descriptor"]


def opaque_descriptor(
    op: Opaque, hardware: Hardware, label: str, find: Callable[[str], GetUnit | None]
) -> Descriptor:
    """Registers, types and parameters of a call; `find` gives the handle of the register memory."""
    parameters = op.parameter_dictionary
    memory = parameters.get("memory")
    handle = find(memory.value) if isinstance(memory, StringAttr) else None
    if handle is None or not hardware.is_memory(handle):
        raise unsupported(op, label, "no parameter 'memory' that names a register memory of the function")
    number = hardware.memory(handle)
    if hardware.memory_at(number).memory_class is not MemoryClass.REGISTER:
        raise unsupported(op, label, f"'{handle.unit_name.value}' is no register memory")
    inputs = _operands(op, "in", op.read_only_register_dictionary, label)
    outputs = _operands(op, "out", op.read_write_register_dictionary, label)
    known = {operand.name for operand in (*inputs, *outputs)} | {"memory"}
    others = tuple(sorted((name, str(value)) for name, value in parameters.items() if name not in known))
    for operand in (*inputs, *outputs):
        end = operand.offset_bytes + -(-operand.lanes * operand.element.storage_bits // 8)
        size = hardware.memory_at(number).size_bytes
        if size and end > size:
            raise CodegenError.at(
                op.location, f"register memory '{handle.unit_name.value}' needs {end} bytes but has {size}"
            )
        hardware.use(number, end)
    return Descriptor(op.func_name.value, number, inputs, outputs, others)


def _operands(op: Opaque, stem: str, registers: DictAttr, label: str) -> tuple[OpaqueOperand, ...]:
    found = []
    for position in range(len(registers)):
        name = f"{stem}{position}"
        offset = registers.get(name)
        type = op.parameter_dictionary.get(name)
        if not isinstance(offset, IntegerAttr) or offset.value < 0:
            raise unsupported(op, label, f"no byte offset '{name}' among the registers")
        if isinstance(type, TypeAttr):
            type = type.type
        if not isinstance(type, VectorType):
            raise unsupported(op, label, f"no vector type '{name}' among the parameters")
        try:
            element = ElementType.of(type.element)
        except ValueError as error:
            raise unsupported(op, label, str(error)) from None
        found.append(OpaqueOperand(name, offset.value, element, type.num_elements()))
    return tuple(found)
