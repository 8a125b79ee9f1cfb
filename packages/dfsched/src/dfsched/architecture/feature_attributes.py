"""Features between their attribute form and the frozen records, and requirement matching (spec 1.7).

The functions here take attributes that passed the verifier; what it would have refused reads as absent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from dfsched.architecture.features import (
    Access,
    AddressBuffer,
    Features,
    Queue,
    RegisterFile,
    Simd,
    Transfer,
)
from dfsched.architecture.kinds import Kind, kind_of
from dfsched.dialects.ktdf_arch.types import MapAttr
from ktir.attribute import Attribute
from ktir.attributes import ArrayAttr, DictAttr, IntegerAttr, TypeAttr, UnitAttr

__all__ = ["element_key", "features_of", "get_feature", "matches"]

T = TypeVar("T")

PREFIX = "ktdf_arch.feature."


def _record(value: Attribute) -> Mapping[str, Attribute]:
    return value if isinstance(value, DictAttr) else {}


def _integer(value: Attribute | None) -> int | None:
    return value.value if isinstance(value, IntegerAttr) else None


def element_key(attribute: Attribute) -> str:
    """The name of a scalar type in lane tables; dialect prefixes are dropped."""
    text = str(attribute.type if isinstance(attribute, TypeAttr) else attribute)
    return text.rsplit(".", 1)[-1] if text.startswith("!") else text


def transfer_of(value: Attribute) -> Transfer:
    record = _record(value)
    sizes, lists = record.get("word_size"), record.get("access_granularity")
    words: list[tuple[Kind, int]] = []
    if isinstance(sizes, MapAttr):
        words = [(kind_of(k), v.value) for k, v in sizes.items() if isinstance(v, IntegerAttr)]
    accesses: list[tuple[Kind, tuple[Access, ...]]] = []
    if isinstance(lists, MapAttr):
        accesses = [(kind_of(k), _accesses(v)) for k, v in lists.items()]
    return Transfer(words, accesses)


def _accesses(value: Attribute) -> tuple[Access, ...]:
    if not isinstance(value, ArrayAttr):
        return ()
    found: list[Access] = []
    for entry in value:
        size = _integer(_record(entry).get("size_in_words"))
        if size is not None:
            found.append(Access(size, _integer(_record(entry).get("align_in_words")) or 1))
    return tuple(found)


def simd_of(value: Attribute) -> Simd:
    record = _record(value)
    lanes = record.get("lanes")
    entries: list[tuple[str, int]] = []
    if isinstance(lanes, MapAttr):
        entries = [(element_key(k), v.value) for k, v in lanes.items() if isinstance(v, IntegerAttr)]
    return Simd(entries, "splat" in record, "zero_pad" in record)


def queue_of(value: Attribute) -> Queue:
    record = _record(value)
    return Queue("ordered" in record, _integer(record.get("size")), _integer(record.get("depth")))


def address_buffer_of(value: Attribute) -> AddressBuffer:
    record = _record(value)
    entry = record.get("entry_type")
    return AddressBuffer(_integer(record.get("num_entries")), None if entry is None else element_key(entry))


def register_file_of(value: Attribute) -> RegisterFile:
    return RegisterFile(_integer(_record(value).get("word_size")))


def features_of(attributes: Mapping[str, Attribute]) -> Features:
    """The features in an operation's attributes (`ktdf_arch.features`)."""
    value = attributes.get("ktdf_arch.features")
    if not isinstance(value, DictAttr):
        return Features()
    known = {k.removeprefix(PREFIX): v for k, v in value.items() if k.startswith(PREFIX)}

    def read(name: str, build: Callable[[Attribute], T]) -> T | None:
        return build(known[name]) if name in known else None

    return Features(
        compute="compute" in known,
        load=read("load", transfer_of),
        store=read("store", transfer_of),
        simd=read("simd", simd_of),
        queue=read("queue", queue_of),
        address_buffer=read("indirect_address_buffer", address_buffer_of),
        register_file=read("register_file", register_file_of),
        foreign=tuple((k, v) for k, v in value.items() if not k.startswith(PREFIX)),
    )


def matches(name: str, provided: Attribute, required: Attribute) -> bool:
    """Whether a provided feature value meets a required one.

    ``name`` is the feature's, with or without ``ktdf_arch.feature.``. Equal values match, and a required unit
    is met by anything; a provided unit is a record without entries.
    """
    if provided == required or isinstance(required, UnitAttr):
        return True
    if not isinstance(required, DictAttr) or not isinstance(provided, DictAttr | UnitAttr):
        return False
    match name.removeprefix(PREFIX):
        case "load" | "store":
            return transfer_of(provided).satisfies(transfer_of(required))
        case "simd":
            return simd_of(provided).satisfies(simd_of(required))
        case "queue":
            return queue_of(provided).satisfies(queue_of(required))
        case "register_file":
            return register_file_of(provided).satisfies(register_file_of(required))
        case _:
            return False


def get_feature(
    attributes: Mapping[str, Attribute], name: str, required: Attribute | None = None
) -> Attribute | None:
    """The value of a feature in an operation's attributes, None if absent or not meeting ``required``."""
    value = attributes.get("ktdf_arch.features")
    if not isinstance(value, DictAttr):
        return None
    found = value.get(name)
    if found is None:
        found = value.get(PREFIX + name)
    if found is None or (required is not None and not matches(name, found, required)):
        return None
    return found
