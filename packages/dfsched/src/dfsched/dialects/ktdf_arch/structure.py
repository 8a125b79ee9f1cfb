"""Rules that look at a whole device (V2 to V6, V14), and names for its values when printed."""

from __future__ import annotations

from collections.abc import Iterator

from dfsched.dialects.ktdf_arch.ops import (
    DatapathOp,
    DeviceOp,
    ExecUnitOp,
    GroupOp,
    MemoryOp,
    PatternsOp,
    SwitchOp,
    YieldOp,
)
from dfsched.dialects.ktdf_arch.properties import is_i64
from ktir.attributes import StringAttr
from ktir.errors import Diagnostic, Note
from ktir.ir import Operation, Value

__all__ = ["RESOURCES", "device_findings", "endpoints", "value_names"]

RESOURCES = (MemoryOp, ExecUnitOp, SwitchOp, GroupOp, DatapathOp)


def device_findings(device: DeviceOp) -> Iterator[str | Diagnostic]:
    """What is wrong with a device as a whole."""
    if not device.operations and not device.is_import:
        yield "empty device requires 'import_path'"  # V2
    if device.operations and device.is_import:
        yield "non-empty device can't have 'import_path'"  # V3
    if device.version is not None and not is_i64(device.version):
        yield "attribute 'version' failed to satisfy constraint: 64-bit signless integer attribute"  # V4
    yield from _children(device)
    yield from _unique_ids(device)
    ends = endpoints(device)
    for op in device.walk():
        if isinstance(op, DatapathOp):
            source, target = ends.get(op.source), ends.get(op.target)
            if source is not None and source is target:  # V14
                yield Diagnostic(f"'{op.name}' op can't link resource to itself", op.location)


def _children(owner: DeviceOp | GroupOp) -> Iterator[Diagnostic]:
    allowed = (*RESOURCES, PatternsOp) if isinstance(owner, DeviceOp) else RESOURCES
    for op in owner.operations:
        if not isinstance(op, allowed):  # V5
            message = f"'{owner.name}' op expects child ops to be resources, but found '{op.name}'"
            yield Diagnostic(message, op.location)
        elif isinstance(op, GroupOp):
            yield from _children(op)


def _unique_ids(device: DeviceOp) -> Iterator[Diagnostic]:
    seen: dict[str, Operation] = {}
    for op in device.walk():
        identifier = op.attributes.get("id")
        if not isinstance(op, RESOURCES) or not isinstance(identifier, StringAttr):
            continue
        earlier = seen.setdefault(identifier.value, op)
        if earlier is not op:  # V6
            yield Diagnostic(
                f'resource with id "{identifier.value}" redefined',
                op.location,
                notes=(Note("previous definition", earlier.location),),
            )


def endpoints(device: DeviceOp) -> dict[Value, Value]:
    """The node result behind every value of a device: captures and results of groups resolved (1.5)."""
    table: dict[Value, Value] = {}

    def visit(operations: tuple[Operation, ...]) -> None:
        for op in operations:
            if not isinstance(op, GroupOp):
                table.update({value: value for value in op.results})
                continue
            for block in op.body.blocks:
                for argument, captured in zip(block.arguments, op.captures, strict=False):
                    table[argument] = table.get(captured, captured)
            visit(op.operations)
            released = op.released
            if isinstance(released, YieldOp):
                for value, inner in zip(op.results, released.operands, strict=False):
                    table[value] = table.get(inner, inner)

    visit(device.operations)
    return table


def value_names(device: DeviceOp) -> dict[Value, str]:
    """Printed names of all values in a device: the kind in lower case, numbered where it repeats.

    A captured memory has its outer name inside the group, as the syntax demands.
    """
    names: dict[Value, str] = {}
    used: set[str] = set()

    def fresh(stem: str) -> str:
        name, number = stem, 0
        while name in used:
            number += 1
            name = f"{stem}_{number}"
        used.add(name)
        return name

    def visit(operations: tuple[Operation, ...]) -> None:
        for op in operations:
            if isinstance(op, GroupOp):
                for block in op.body.blocks:
                    for argument, captured in zip(block.arguments, op.captures, strict=False):
                        names[argument] = names.get(captured, "%unknown")
                visit(op.operations)
            if not op.results:
                continue
            base = fresh(_stem(op))
            if len(op.results) == 1:
                names[op.results[0]] = f"%{base}"
            else:
                names.update({value: f"%{base}#{number}" for number, value in enumerate(op.results)})

    visit(device.operations)
    return names


def _stem(op: Operation) -> str:
    kind = op.attributes.get("kind")
    text = kind.value if isinstance(kind, StringAttr) else op.name.rpartition(".")[2]
    word = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in text.lower())
    return word if word[:1].isalpha() else f"{op.name.rpartition('.')[2]}_{word}".rstrip("_")
