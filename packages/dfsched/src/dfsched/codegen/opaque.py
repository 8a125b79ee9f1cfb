"""`dataflow.opaque` with our dictionaries, as a descriptor (readings, item 13)."""

from __future__ import annotations

from collections.abc import Callable

from dfsched.codegen.errors import CodegenError, unsupported
from dfsched.codegen.tables import Hardware
from dfsched.dialects.dataflow import GetUnit, Opaque
from dfsched.image import ElementType, MemoryClass, OpaqueOperand
from dfsched.image import Opaque as Descriptor
from ktir.attribute import Attribute
from ktir.attributes import ArrayAttr, DictAttr, IntegerAttr, StringAttr, TypeAttr
from ktir.types import VectorType

__all__ = ["opaque_descriptor", "register_bytes_of", "register_offset", "register_order"]


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
    inputs = _operands(op, op.read_only_register_dictionary, label)
    outputs = _operands(op, op.read_write_register_dictionary, label)
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


def _operands(op: Opaque, registers: DictAttr, label: str) -> tuple[OpaqueOperand, ...]:
    """The registers of one dictionary: in the order of the call's register names, else by number."""
    found = []
    for name in register_order(op, registers):
        type = op.parameter_dictionary.get(name)
        if isinstance(type, TypeAttr):
            type = type.type
        if not isinstance(type, VectorType):
            raise unsupported(op, label, f"no vector type '{name}' among the parameters")
        try:
            element = ElementType.of(type.element)
        except ValueError as error:
            raise unsupported(op, label, str(error)) from None
        offset = register_offset(registers[name], register_bytes_of(op))
        if offset is None:
            raise unsupported(op, label, f"no byte offset and no number '{name}' among the registers")
        found.append(OpaqueOperand(name, offset, element, type.num_elements()))
    return tuple(found)


def register_order(op: Opaque, registers: DictAttr) -> list[str]:
    """Names of a dictionary of registers, in the order of the operands of the call."""
    names = op.attributes.get("dataflow_scheduler.register_names")
    listed = [n.value for n in names if isinstance(n, StringAttr)] if isinstance(names, ArrayAttr) else []
    rest = sorted((n for n in registers if n not in listed), key=lambda text: (len(text), text))
    return [*(n for n in listed if n in registers), *rest]


def register_offset(register: Attribute, register_bytes: int) -> int | None:
    """The byte offset of a register: a number of bytes, or ``R`` and the number of a register."""
    match register:
        case IntegerAttr(value=offset) if offset >= 0:
            return offset
        case StringAttr(value=text) if text[:1] == "R" and text[1:].isdigit():
            return int(text[1:]) * register_bytes
        case _:
            return None


def register_bytes_of(op: Opaque) -> int:
    """Bytes of the registers that numbers count (`dataflow_scheduler.register_size`, default 128)."""
    size = op.attributes.get("dataflow_scheduler.register_size")
    return size.value if isinstance(size, IntegerAttr) else 128
