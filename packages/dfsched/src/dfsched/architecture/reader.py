"""From a verified `ktdf_arch.device` operation to an `Architecture`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import attrs

import ktir
from dfsched.architecture.architecture import Architecture
from dfsched.architecture.builder import DeviceBuilder, GroupBuilder
from dfsched.architecture.description import PatternBlock, Timing
from dfsched.architecture.feature_attributes import features_of
from dfsched.architecture.kinds import Kind, kind_of
from dfsched.architecture.resources import Endpoint
from dfsched.dialects.ktdf_arch import (
    DatapathOp,
    DeviceOp,
    ExecUnitOp,
    GroupOp,
    MapAttr,
    MemoryOp,
    PatternsOp,
    SwitchOp,
)
from dfsched.errors import ArchitectureError
from ktir.attribute import Attribute
from ktir.attributes import (
    ArrayAttr,
    DenseArrayAttr,
    DenseElementsAttr,
    DictAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
)
from ktir.ir import Operation, Value

__all__ = ["read_device"]

EXTENSION = "ktdf_ext."
"""Prefix of our own discardable attributes."""

_INHERENT = frozenset(["sym_name", "import_path", "version", "id", "kind", "size", "connectivity", "groups"])
_READ = frozenset(
    [
        "ktdf_arch.features",
        "ktdf_arch.overlaps",
        "ktdf_arch.transfer_granularity",
        "ktdf_arch.bandwidth",
        "dataflow_scheduler.double_buffer_last",
        "mem_space_mapping",
    ]
)
"""Attributes that become fields; what remains is kept in `attributes`."""

_NUMBERS: dict[type[Operation], frozenset[str]] = {
    MemoryOp: frozenset(EXTENSION + name for name in ("reserved", "bandwidth", "latency")),
    DatapathOp: frozenset([EXTENSION + "bandwidth"]),
}
_TIMING = ("clock_hz", "sync_latency", "fifo_latency", "memory_latency")
_SIZES = ("num_cores", "stick_bytes", "core_span_bytes")
_DEVICE_NUMBERS = frozenset(EXTENSION + name for name in (*_TIMING, *_SIZES))


def read_device(definition: DeviceOp, overlay: Mapping[str, Attribute] | None = None) -> Architecture:
    """The architecture of a device with a body.

    ``overlay`` are the discardable attributes of an importing declaration; they override the definition's one
    by one. Raises `ArchitectureError` for attributes of ours with a wrong value.
    """
    attributes = {k: v for k, v in definition.attributes.items() if k not in _INHERENT}
    attributes.update(overlay or {})
    version = definition.version
    numbers = {
        name: value
        for name in (*_TIMING, *_SIZES)
        if (value := _integer(definition, attributes, name)) is not None
    }
    fields: dict[str, Any] = {
        "version": None if version is None else version.value,
        "mem_space_mapping": _mapping(definition, attributes),
        "attributes": _remaining(attributes, _DEVICE_NUMBERS),
        "timing": Timing(**{name: numbers[name] for name in _TIMING if name in numbers}),
        "patterns": tuple(
            PatternBlock(op.checkpoints, ktir.print_module(op), op)
            for op in definition.operations
            if isinstance(op, PatternsOp)
        ),
    }
    for field, name in (("cores", "num_cores"), ("stick_bytes",) * 2, ("core_span_bytes",) * 2):
        if name in numbers:
            fields[field] = numbers[name]
    builder = DeviceBuilder(definition.symbol, **fields)
    _body(builder, definition.operations, {})
    with _at(definition):
        return builder.build()


def _remaining(
    attributes: Mapping[str, Attribute], read: frozenset[str]
) -> tuple[tuple[str, Attribute], ...]:
    kept = {k: v for k, v in attributes.items() if k not in _INHERENT and k not in _READ and k not in read}
    return tuple(sorted(kept.items()))


def _mapping(device: DeviceOp, attributes: Mapping[str, Attribute]) -> tuple[tuple[Kind, Kind], ...]:
    value = attributes.get("mem_space_mapping")
    if value is None:
        return ()
    if not isinstance(value, MapAttr):
        message = f"'mem_space_mapping' requires #ktdf_arch.map, but got '{value}'"
        raise ArchitectureError(message, f"@{device.symbol}", device.location)
    return tuple((kind_of(key), kind_of(target)) for key, target in value.items())


def _body(
    scope: DeviceBuilder | GroupBuilder, operations: tuple[Operation, ...], values: dict[Value, Endpoint]
) -> None:
    for op in operations:
        with _at(op):
            _resource(scope, op, values)


@contextmanager
def _at(op: Operation) -> Iterator[None]:
    """Errors without a place are at this operation."""
    try:
        yield
    except ArchitectureError as error:
        if error.location is not None:
            raise
        raise attrs.evolve(error, location=op.location) from error


def _resource(scope: DeviceBuilder | GroupBuilder, op: Operation, values: dict[Value, Endpoint]) -> None:
    match op:
        case MemoryOp():
            values[op.endpoint] = scope.memory(**_memory(op))
        case ExecUnitOp():
            last = "dataflow_scheduler.double_buffer_last" in op.attributes
            values[op.endpoint] = scope.unit(double_buffer_last=last, **_common(op))
        case SwitchOp():
            count = len(op.results)
            ports = scope.switch(count, _connectivity(op.connectivity, count), **_common(op))
            values.update(zip(op.results, ports, strict=True))
        case GroupOp():
            captures = [values[value] for value in op.captures]
            inner: dict[Value, Endpoint] = dict(zip(op.body.block.arguments, captures, strict=True))
            with scope.group(share=captures, **_common(op)) as group:
                _body(group, op.operations, inner)
                released = op.released
                group.release(*(inner[value] for value in (released.operands if released else ())))
            values.update(zip(op.results, group.results, strict=True))
        case DatapathOp():
            scope.datapath(values[op.source], values[op.target], **_link(op))
        case PatternsOp():
            pass
        case _:
            raise ArchitectureError(f"'{op.name}' is no resource", None, op.location)


def _common(op: Operation) -> dict[str, Any]:
    identifier, kind = op.attributes.get("id"), op.attributes.get("kind")
    overlaps = op.attributes.get("ktdf_arch.overlaps")
    return {
        "id": identifier.value if isinstance(identifier, StringAttr) else None,
        "kind": None if kind is None else kind_of(kind),
        "features": features_of(op.attributes),
        "overlaps": tuple(overlaps) if isinstance(overlaps, ArrayAttr) else (),
        "attributes": _remaining(op.attributes, _NUMBERS.get(type(op), frozenset())),
    }


def _memory(op: MemoryOp) -> dict[str, Any]:
    attribute = op.attributes.get("size")
    size = attribute.value if isinstance(attribute, IntegerAttr) else None
    reserved = _integer(op, op.attributes, "reserved") or 0
    return {
        **_common(op),
        "size": size,
        "reserved": reserved,
        "bandwidth": _rational(op, "bandwidth"),
        "latency": _integer(op, op.attributes, "latency"),
    }


def _link(op: DatapathOp) -> dict[str, Any]:
    granularity = op.attributes.get("ktdf_arch.transfer_granularity")
    bandwidth = op.attributes.get("ktdf_arch.bandwidth")
    return {
        **_common(op),
        "granularity": granularity.values if isinstance(granularity, DenseArrayAttr) else None,
        "bandwidth": Fraction(bandwidth.value)
        if isinstance(bandwidth, IntegerAttr)
        else _rational(op, "bandwidth"),
    }


def _integer(op: Operation, attributes: Mapping[str, Attribute], name: str) -> int | None:
    """A non-negative integer among our own attributes."""
    value = attributes.get(EXTENSION + name)
    if value is None:
        return None
    if not isinstance(value, IntegerAttr) or value.value < 0:
        message = f"'{EXTENSION}{name}' requires a non-negative integer attribute, but got '{value}'"
        raise ArchitectureError(message, None, op.location)
    return value.value


def _rational(op: Operation, name: str) -> Fraction | None:
    """A positive rational among our own attributes: an integer, a float (read as written), or [p, q]."""
    value = op.attributes.get(EXTENSION + name)
    found: Fraction | None = None
    match value:
        case None:
            return None
        case IntegerAttr(value=number):
            found = Fraction(number)
        case FloatAttr():
            found = Fraction(repr(value.value))
        case ArrayAttr(elements=(IntegerAttr(value=numerator), IntegerAttr(value=denominator))) if (
            denominator
        ):
            found = Fraction(numerator, denominator)
    if found is None or found <= 0:
        message = (
            f"'{EXTENSION}{name}' requires a positive number or [numerator, denominator], but got '{value}'"
        )
        raise ArchitectureError(message, None, op.location)
    return found


def _connectivity(value: Attribute | None, ports: int) -> list[list[bool]] | None:
    if not isinstance(value, DenseElementsAttr):
        return None
    cells = [bool(b) for b in (value.data * ports * ports if value.splat else value.data)]
    return [cells[i * ports : (i + 1) * ports] for i in range(ports)]


def discardable(device: DeviceOp) -> DictAttr:
    """The attributes of a declaration that override those of the imported definition."""
    return DictAttr({k: v for k, v in device.attributes.items() if k not in _INHERENT})
