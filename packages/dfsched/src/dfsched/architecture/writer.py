"""From an `Architecture` back to `ktdf_arch` IR, so that devices made in Python have a text form."""

from __future__ import annotations

import re
from fractions import Fraction

import ktir
from dfsched.architecture.architecture import Architecture
from dfsched.architecture.description import DEFAULT_TIMING
from dfsched.architecture.features import Features, Queue, Simd, Transfer
from dfsched.architecture.kinds import Kind
from dfsched.architecture.resources import Datapath, Endpoint, Group, Memory, Resource, Switch, Unit
from dfsched.dialects.ktdf_arch import (
    EXEC_UNIT,
    MEMORY,
    PORT,
    DatapathOp,
    DeviceOp,
    ExecUnitOp,
    GroupOp,
    MapAttr,
    MemoryOp,
    SwitchOp,
    YieldOp,
)
from dfsched.errors import UnsupportedDevice
from ktir.attribute import Attribute
from ktir.attributes import (
    UNIT,
    ArrayAttr,
    DenseArrayAttr,
    DenseElementsAttr,
    DictAttr,
    IntegerAttr,
    StringAttr,
    TypeAttr,
)
from ktir.ir import BlockArgument, Operation, Region, Value
from ktir.types import FLOAT_WIDTHS, I1, I64, INDEX, FloatType, IntegerType, Signedness, TensorType, Type

__all__ = ["device_text", "write_device"]

Attributes = dict[str, Attribute]


def device_text(architecture: Architecture) -> str:
    """The device as a file: what `load_architecture` reads back as an equal architecture."""
    return ktir.print_module(write_device(architecture))


def write_device(architecture: Architecture) -> DeviceOp:
    """The `ktdf_arch.device` operation of an architecture, pattern blocks included."""
    attributes: Attributes = {name: _attribute(value) for name, value in architecture.attributes}
    attributes["sym_name"] = StringAttr(architecture.name)
    if architecture.version is not None:
        attributes["version"] = IntegerAttr(architecture.version)
    if architecture.mem_space_mapping:
        pairs = [(_kind(key), _kind(target)) for key, target in architecture.mem_space_mapping]
        attributes["mem_space_mapping"] = MapAttr(pairs)
    attributes.update(_extensions(architecture))
    body = _body(architecture, architecture.roots, {})
    patterns = [block.operation for block in architecture.patterns]
    return DeviceOp.create(attributes=attributes, regions=(Region.of([*body, *patterns]),))


def _extensions(architecture: Architecture) -> Attributes:
    """What the description holds as numbers, where it is not the default."""
    found: Attributes = {}
    plain = Architecture(architecture.name, ())
    for name, attribute in (
        ("cores", "num_cores"),
        ("stick_bytes", "stick_bytes"),
        ("core_span_bytes", "core_span_bytes"),
    ):
        value = getattr(architecture, name)
        if value is not None and value != getattr(plain, name):
            found[f"ktdf_ext.{attribute}"] = IntegerAttr(value)
    for name in ("clock_hz", "sync_latency", "fifo_latency", "memory_latency"):
        value = getattr(architecture.timing, name)
        if value != getattr(DEFAULT_TIMING, name):
            found[f"ktdf_ext.{name}"] = IntegerAttr(value)
    return found


def _body(
    architecture: Architecture, indices: tuple[int, ...], values: dict[Endpoint, Value]
) -> list[Operation]:
    operations: list[Operation] = []
    for index in indices:
        resource = architecture.resources[index]
        op = _operation(architecture, resource, values)
        operations.append(op)
        values.update({Endpoint(index, number): value for number, value in enumerate(op.results)})
    return operations


def _operation(architecture: Architecture, resource: Resource, values: dict[Endpoint, Value]) -> Operation:
    attributes = _common(resource)
    match resource:
        case Memory():
            if resource.size is not None:
                attributes["size"] = IntegerAttr(resource.size)
            if resource.reserved:
                attributes["ktdf_ext.reserved"] = IntegerAttr(resource.reserved)
            if resource.bandwidth is not None:
                attributes["ktdf_ext.bandwidth"] = _rational(resource.bandwidth)
            if resource.latency is not None:
                attributes["ktdf_ext.latency"] = IntegerAttr(resource.latency)
            return MemoryOp.create((), (MEMORY,), attributes)
        case Unit():
            if resource.double_buffer_last:
                attributes["dataflow_scheduler.double_buffer_last"] = UNIT
            return ExecUnitOp.create((), (EXEC_UNIT,), attributes)
        case Switch(ports=ports, connectivity=connectivity):
            if not all(all(row) for row in connectivity):
                cells = bytes(cell for row in connectivity for cell in row)
                attributes["connectivity"] = DenseElementsAttr(cells, TensorType((ports, ports), I1))
            return SwitchOp.create((), (PORT,) * ports, attributes)
        case Group():
            arguments = [BlockArgument(MEMORY) for _ in resource.captures]
            inner: dict[Endpoint, Value] = dict(zip(resource.captures, arguments, strict=True))
            body = _body(architecture, resource.children, inner)
            released = YieldOp.create([inner[value] for value in resource.results])
            captures = [values[value] for value in resource.captures]
            types = [EXEC_UNIT for _ in resource.results]
            return GroupOp.create(captures, types, attributes, (Region.of([*body, released], arguments),))
        case Datapath():
            if resource.granularity is not None:
                attributes["ktdf_arch.transfer_granularity"] = DenseArrayAttr(I64, resource.granularity)
            if resource.bandwidth is not None:
                whole = resource.bandwidth.denominator == 1
                name = "ktdf_arch.bandwidth" if whole else "ktdf_ext.bandwidth"
                attributes[name] = _rational(resource.bandwidth)
            return DatapathOp.create((values[resource.source], values[resource.target]), (), attributes)
        case _:
            raise UnsupportedDevice(f"resource of class {type(resource).__name__}", resource.label)


def _common(resource: Resource) -> Attributes:
    found: Attributes = {name: _attribute(value) for name, value in resource.attributes}
    if resource.id is not None:
        found["id"] = StringAttr(resource.id)
    if resource.kind is not None:
        found["kind"] = _kind(resource.kind)
    if resource.overlaps:
        found["ktdf_arch.overlaps"] = ArrayAttr(tuple(map(_attribute, resource.overlaps)))
    if resource.features:
        found["ktdf_arch.features"] = _features(resource.features)
    return found


def _attribute(value: object) -> Attribute:
    if not isinstance(value, Attribute):
        raise UnsupportedDevice(f"attribute value {value!r}; expected a ktir attribute")
    return value


def _kind(kind: Kind) -> Attribute:
    return StringAttr(kind) if isinstance(kind, str) else kind


def _rational(value: Fraction) -> Attribute:
    if value.denominator == 1:
        return IntegerAttr(value.numerator)
    return ArrayAttr((IntegerAttr(value.numerator), IntegerAttr(value.denominator)))


# -- features --------------------------------------------------------------------------------------------


def _features(features: Features) -> DictAttr:
    found: Attributes = {name: _attribute(value) for name, value in features.foreign}

    def add(name: str, record: Attributes) -> None:
        found[f"ktdf_arch.feature.{name}"] = DictAttr(record) if record else UNIT

    if features.compute:
        add("compute", {})
    for name, transfer in (("load", features.load), ("store", features.store)):
        if transfer is not None:
            add(name, _transfer(transfer))
    if features.simd is not None:
        add("simd", _simd(features.simd))
    if features.queue is not None:
        add("queue", _queue(features.queue))
    if features.address_buffer is not None:
        buffer = features.address_buffer
        record = {} if buffer.num_entries is None else _integers(num_entries=buffer.num_entries)
        if buffer.entry_type is not None:
            record["entry_type"] = TypeAttr(_scalar(buffer.entry_type))
        add("indirect_address_buffer", record)
    if features.register_file is not None:
        size = features.register_file.word_size
        add("register_file", {} if size is None else _integers(word_size=size))
    return DictAttr(found)


def _integers(**values: int) -> Attributes:
    return {name: IntegerAttr(value) for name, value in values.items()}


def _transfer(transfer: Transfer) -> Attributes:
    record: Attributes = {}
    if transfer.word_sizes:
        record["word_size"] = MapAttr([(_kind(k), IntegerAttr(v)) for k, v in transfer.word_sizes])
    if transfer.accesses:
        record["access_granularity"] = MapAttr(
            [
                (
                    _kind(kind),
                    ArrayAttr(
                        tuple(
                            DictAttr(
                                _integers(size_in_words=a.size_in_words, align_in_words=a.align_in_words)
                            )
                            for a in accesses
                        )
                    ),
                )
                for kind, accesses in transfer.accesses
            ]
        )
    return record


def _simd(simd: Simd) -> Attributes:
    record: Attributes = {}
    if simd.lanes:
        record["lanes"] = MapAttr([(TypeAttr(_scalar(name)), IntegerAttr(n)) for name, n in simd.lanes])
    if simd.splat:
        record["splat"] = UNIT
    if simd.zero_pad:
        record["zero_pad"] = UNIT
    return record


def _queue(queue: Queue) -> Attributes:
    record: Attributes = {"ordered": UNIT} if queue.ordered else {}
    if queue.size is not None:
        record["size"] = IntegerAttr(queue.size)
    if queue.depth is not None:
        record["depth"] = IntegerAttr(queue.depth)
    return record


_INTEGER = re.compile(r"(i|si|ui)([1-9][0-9]*)\Z")


def _scalar(name: str) -> Type:
    if name == "index":
        return INDEX
    if name in FLOAT_WIDTHS:
        return FloatType(name)
    if (found := _INTEGER.match(name)) is not None:
        return IntegerType(int(found.group(2)), Signedness(found.group(1)))
    raise UnsupportedDevice(f"scalar type '{name}' in a device written as text")
