"""The rules for `ktdf_arch.<name>` attributes and for features (device spec 1.6, 1.7; rules V8 to V29).

Each function yields messages; the operation's location and name are added by the verifier.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum

from dfsched.dialects.ktdf_arch.spelling import ATTRIBUTES, feature_findings, spelling_findings
from dfsched.dialects.ktdf_arch.types import MapAttr
from ktir.attribute import Attribute
from ktir.attributes import (
    ArrayAttr,
    DenseArrayAttr,
    DenseElementsAttr,
    DictAttr,
    IntegerAttr,
    StringAttr,
    TypeAttr,
    UnitAttr,
)
from ktir.errors import Diagnostic, Note
from ktir.parser.suggestions import closest
from ktir.types import I1, I64, IntegerType, ShapedType, Type

__all__ = [
    "FEATURES",
    "PROPERTIES",
    "RESERVED_PREFIX",
    "Role",
    "is_i64",
    "kind_findings",
    "property_findings",
]

RESERVED_PREFIX = "ktdf_arch."
FEATURE_PREFIX = "ktdf_arch.feature."

PROPERTIES = ("bandwidth", "features", "maps_to", "overlaps", "transfer_granularity")
FEATURES = (
    "compute",
    "indirect_address_buffer",
    "load",
    "queue",
    "register_file",
    "simd",
    "store",
)


_OWN = ("sym_name", "import_path", "groups")
"""Attributes that the text of an operation shows in its own way."""


class Role(Enum):
    """What an operation is to the rules: one of the dialect's own, or anything else."""

    DEVICE = "device"
    MEMORY = "memory"
    UNIT = "exec_unit"
    SWITCH = "switch"
    GROUP = "group"
    LINK = "datapath"
    YIELD = "yield"
    PATTERNS = "patterns"
    FOREIGN = "foreign"


def is_i64(attribute: Attribute | None) -> bool:
    return isinstance(attribute, IntegerAttr) and attribute.type == I64


def _integer(attribute: Attribute | None) -> int | None:
    """The value of an i64 attribute, None for anything else."""
    return attribute.value if isinstance(attribute, IntegerAttr) and attribute.type == I64 else None


def _as_type(attribute: Attribute) -> Type | None:
    match attribute:
        case TypeAttr(type=type):
            return type
        case Type():
            return attribute
        case _:
            return None


def property_findings(attributes: Mapping[str, Attribute], role: Role) -> Iterator[str | Diagnostic]:
    """Everything wrong with the `ktdf_arch.` attributes of one operation (V17 to V29)."""
    for name, value in attributes.items():
        if not name.startswith(RESERVED_PREFIX):
            if role not in (Role.FOREIGN, Role.PATTERNS):
                yield from spelling_findings(name, (*ATTRIBUTES, *_OWN), "attribute")
            continue
        match name.removeprefix(RESERVED_PREFIX):
            case "bandwidth":
                yield from _bandwidth(name, value, role)
            case "features":
                yield from _features(name, value, role)
            case "maps_to":
                if role is not Role.FOREIGN:
                    yield f"'{name}' only valid on mappable ops"  # V20
            case "overlaps":
                if not isinstance(value, ArrayAttr):
                    yield f"'{name}' requires array attribute"  # V21
            case "transfer_granularity":
                yield from _granularity(name, value, role)
            case _:  # V17
                known = ", ".join(f"'{RESERVED_PREFIX}{known}'" for known in PROPERTIES)
                meant = closest(name, (RESERVED_PREFIX + known for known in PROPERTIES))
                yield Diagnostic(
                    f"unrecognized 'ktdf_arch' attribute '{name}'",
                    notes=(Note(f"known attributes: {known}"), *map(Note, meant)),
                )


def _bandwidth(name: str, value: Attribute, role: Role) -> Iterator[str]:
    if role is not Role.LINK:
        yield f"'{name}' only valid on links"  # V18
    elif (number := _integer(value)) is None:
        yield f"'{name}' requires 64-bit integer attribute"
    elif number <= 0:
        yield f"'{name}' value must be > 0"


def _granularity(name: str, value: Attribute, role: Role) -> Iterator[str]:
    if role is not Role.LINK:
        yield f"'{name}' only valid on links"  # V22
        return
    if not isinstance(value, DenseArrayAttr) or value.element != I64:
        yield f"'{name}' requires dense 64-bit integer array attribute"
        return
    for position, size in enumerate(value.values):
        if size < 0:
            yield f"'{name}' granularity must be >= 0, but got {size}"
        if size in value.values[:position]:
            yield f"'{name}' has repeated granularity {size}"


def kind_findings(attributes: Mapping[str, Attribute], role: Role) -> Iterator[str]:
    """Rules for the inherent attributes of nodes: kind and size of memories, connectivity (V8, V9, V13)."""
    identifier = attributes.get("id")
    if identifier is not None and not isinstance(identifier, StringAttr):
        yield "attribute 'id' failed to satisfy constraint: string attribute"
    if role is Role.MEMORY:
        if not _is_memory_space(attributes.get("kind")):
            yield "attribute 'kind' requires valid memory space"
        size = attributes.get("size")
        if size is not None and not is_i64(size):
            yield "attribute 'size' requires 64-bit integer attribute whose minimum value is 1"
        elif size is not None and (_integer(size) or 0) < 1:
            yield (
                "attribute 'size' failed to satisfy constraint: 64-bit integer attribute whose "
                "minimum value is 1"
            )


def _is_memory_space(kind: Attribute | None) -> bool:
    """Integers, strings, dictionaries, and attributes of a dialect."""
    match kind:
        case None | Type():
            return False
        case IntegerAttr() | StringAttr() | DictAttr():
            return True
        case _:
            return not type(kind).__module__.startswith("ktir.attributes") or bool(
                getattr(kind, "dialect", "")
            )


def connectivity_findings(connectivity: Attribute | None, ports: int) -> Iterator[str]:
    """V13: an i1 matrix of ports x ports."""
    if connectivity is None:
        return
    shape = f"expected connectivity shape {ports}x{ports}"
    if not isinstance(connectivity, DenseElementsAttr) or not isinstance(connectivity.type, ShapedType):
        yield f"{shape}, but found no elements attribute"
    elif connectivity.type.element != I1:
        yield f"{shape} of i1, but found element type '{connectivity.type.element}'"
    elif connectivity.type.shape != (ports, ports):
        yield f"{shape}, but found {'x'.join(str(extent) for extent in connectivity.type.shape)}"


# -- features --------------------------------------------------------------------------------------------


def _features(name: str, value: Attribute, role: Role) -> Iterator[str | Diagnostic]:
    if not isinstance(value, DictAttr):
        yield f"'{name}' requires dictionary attribute"  # V19
        return
    for feature, record in value.items():
        if not feature.startswith(RESERVED_PREFIX):
            continue
        short = feature.removeprefix(FEATURE_PREFIX) if feature.startswith(FEATURE_PREFIX) else ""
        if short not in FEATURES:  # V23
            known = ", ".join(f"'{FEATURE_PREFIX}{known}'" for known in FEATURES)
            meant = closest(feature, (FEATURE_PREFIX + known for known in FEATURES))
            yield Diagnostic(
                f"unrecognized 'ktdf_arch' feature '{feature}'",
                notes=(Note(f"known features: {known}"), *map(Note, meant)),
            )
            continue
        yield from _feature(feature, short, record, role)
        yield from feature_findings(feature, short, record)


_PROVIDERS = {
    "compute": (Role.UNIT, "execution units"),
    "load": (Role.UNIT, "execution units"),
    "store": (Role.UNIT, "execution units"),
    "simd": (Role.UNIT, "execution units"),
    "queue": (Role.LINK, "links"),
    "indirect_address_buffer": (Role.MEMORY, "memory"),
    "register_file": (Role.MEMORY, "memory"),
}


def _feature(name: str, short: str, record: Attribute, role: Role) -> Iterator[str]:
    provider, words = _PROVIDERS[short]
    if role not in (Role.FOREIGN, provider):
        yield f"'{name}' only valid on {words}"  # V24
    if isinstance(record, UnitAttr):
        return
    if not isinstance(record, DictAttr):
        yield f"'{name}' requires unit or dictionary attribute"  # V25
        return
    match short:
        case "load" | "store":
            yield from _word_size(name, record)
            yield from _access_granularity(name, record)
        case "simd":
            yield from _simd(name, record)
        case "queue":
            yield from _units(name, record, ("ordered",))
            yield from _positive(name, record, ("size", "depth"))
        case "indirect_address_buffer":
            yield from _positive(name, record, ("num_entries",))
            entry = record.get("entry_type")
            if entry is not None and not isinstance(_as_type(entry), IntegerType):
                yield f"'{name}' field 'entry_type' requires integer type"
        case "register_file":
            yield from _positive(name, record, ("word_size",))
        case _:
            return


def _positive(name: str, record: DictAttr, fields: tuple[str, ...]) -> Iterator[str]:
    for field in fields:
        value = record.get(field)
        if value is None:
            continue
        number = _integer(value)
        if number is None:
            yield f"'{name}' field '{field}' requires 64-bit integer attribute"
        elif number <= 0:
            yield f"'{name}' field '{field}' must be > 0"


def _units(name: str, record: DictAttr, fields: tuple[str, ...]) -> Iterator[str]:
    for field in fields:
        if field in record and not isinstance(record[field], UnitAttr):
            yield f"'{name}' field '{field}' requires unit attribute"


def _word_size(name: str, record: DictAttr) -> Iterator[str]:
    sizes = record.get("word_size")  # V26
    if sizes is None:
        return
    if not isinstance(sizes, MapAttr):
        yield f"'{name}' field 'word_size' requires map from memory kind to 64-bit integer"
        return
    for kind, value in sizes.items():
        number = _integer(value)
        if number is None:
            yield f"'{name}' field 'word_size' requires map to 64-bit integer, but '{kind}' is '{value}'"
        elif number <= 0:
            yield f"'{name}' field 'word_size[{kind}]' must be > 0"


def _access_granularity(name: str, record: DictAttr) -> Iterator[str]:
    lists = record.get("access_granularity")  # V27
    if lists is None:
        return
    if not isinstance(lists, MapAttr) or not all(
        isinstance(entries, ArrayAttr) and all(isinstance(e, DictAttr) for e in entries)
        for entries in lists.values()
    ):
        yield f"'{name}' field 'access_granularity' requires map from memory kind to array of dictionaries"
        return
    for entries in lists.values():
        assert isinstance(entries, ArrayAttr)
        for entry in entries:
            assert isinstance(entry, DictAttr)
            if "size_in_words" not in entry:
                yield f"'{name}' access 'size_in_words' requires 64-bit integer attribute"
            yield from _positive_access(name, entry)


def _positive_access(name: str, entry: DictAttr) -> Iterator[str]:
    for field in ("size_in_words", "align_in_words"):
        value = entry.get(field)
        if value is None:
            continue
        number = _integer(value)
        if number is None:
            yield f"'{name}' access '{field}' requires 64-bit integer attribute"
        elif number <= 0:
            yield f"'{name}' access '{field}' must be > 0"


def _simd(name: str, record: DictAttr) -> Iterator[str]:
    yield from _units(name, record, ("splat", "zero_pad"))  # V28
    lanes = record.get("lanes")
    if lanes is None:
        return
    if not isinstance(lanes, MapAttr) or not all(
        _as_type(key) is not None and is_i64(value) for key, value in lanes.items()
    ):
        yield f"'{name}' field 'lanes' requires map from type to 64-bit integer"
        return
    for key, value in lanes.items():
        if isinstance(value, IntegerAttr) and value.value <= 0:
            yield f"'{name}' field 'lanes' value must be > 0, but got {value.value} for {key}"
