"""The JSON Schema in the package: everything that our writer emits validates, and it notices damage."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import pytest

from spyrert.errors import SpyreCodeError
from spyrert.spyrecode import (
    Addressing,
    Bounds,
    DimKind,
    DimSpec,
    HcmSymbol,
    LaunchSpec,
    PayloadKind,
    SpyreCode,
    Sym,
    SymbolSpec,
    assemble,
)

SCHEMA: dict[str, Any] = json.loads(files("spyrert.spyrecode").joinpath("schema.json").read_text())
TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
}
KNOWN = {
    "$schema", "title", "$defs", "$ref", "type", "const", "enum", "pattern", "minLength", "maxLength", "minimum",
    "maximum", "required", "properties", "additionalProperties", "items", "prefixItems", "minItems", "anyOf", "oneOf",
}  # fmt: skip


def valid(value: Any, schema: dict[str, Any]) -> bool:
    """The part of JSON Schema 2020-12 that our schema uses."""
    assert set(schema) <= KNOWN, set(schema) - KNOWN
    if "$ref" in schema:
        return valid(value, SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[1]])
    kinds = schema.get("type", list(TYPES))
    if not any(TYPES[kind](value) for kind in ([kinds] if isinstance(kinds, str) else kinds)):
        return False
    if "const" in schema and value != schema["const"]:
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if "anyOf" in schema and not any(valid(value, option) for option in schema["anyOf"]):
        return False
    if "oneOf" in schema and sum(valid(value, option) for option in schema["oneOf"]) != 1:
        return False
    match value:
        case str():
            return (
                schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value))
                and re.search(schema.get("pattern", ""), value) is not None
            )
        case bool() | None:
            return True
        case int() | float():
            return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))
        case list():
            heads = schema.get("prefixItems", [])
            return (
                len(value) >= schema.get("minItems", 0)
                and all(valid(item, head) for item, head in zip(value, heads, strict=False))
                and all(valid(item, schema.get("items", {})) for item in value[len(heads) :])
            )
        case _:
            known = schema.get("properties", {})
            return all(key in value for key in schema.get("required", ())) and all(
                valid(item, known.get(key, schema.get("additionalProperties", {})))
                for key, item in value.items()
            )


def artefacts(make_add: Callable[..., SpyreCode]) -> list[SpyreCode]:
    spec = LaunchSpec(
        "k",
        symbols=(SymbolSpec("h", "float16"), SymbolSpec("m", "index", Bounds(2, 8, 2))),
        dims=(DimSpec("K", DimKind.REDUCTION, accumulate="kernel", init=float("-inf")),),
        pool_size=128,
        allow_alias=True,
    )
    return [
        make_add(),
        make_add(linear=True),
        assemble(
            b"x", PayloadKind.DFBIN, spec, [], addressing=Addressing.BAKED, dynamic_size=1, spill_size=1
        ),
        assemble(b"x", PayloadKind.DFBIN, spec, [HcmSymbol(-1, Sym("m") * 4, 2, Bounds(1, 99))]),
    ]


def test_written_manifests_validate(make_add: Callable[..., SpyreCode]) -> None:
    """runtime checklist R17"""
    for code in artefacts(make_add):
        assert valid(code.manifest(), SCHEMA)
        assert SpyreCode.from_memory(code.manifest(), {f.name: f.data for f in code.files}) == code


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/JobPreparationPlan", []),
        ("/JobPreparationPlan/0/command", "InitTransfer"),
        ("/JobPreparationPlan/1/properties/size", 128),
        ("/JobPreparationPlan/1/properties/dev_ptr", "-1"),
        ("/JobExecPlan/0/properties/ishape", "4"),
        ("/JobExecPlan/0/properties/hcm/output/format", "SPYCORR9"),
        ("/JobExecPlan/1/properties/dirn", "0"),
        ("/JobExecPlan/2/command", "Jump"),
        ("/args/0/role", "reader"),
        ("/digest", "xyz"),
        ("/addressing", "magic"),
    ],
)
def test_schema_and_reader_agree_on_damage(make_add: Callable[..., SpyreCode], path: str, value: Any) -> None:
    code = make_add()
    manifest = copy.deepcopy(code.manifest())
    at: Any = manifest
    *keys, last = path.split("/")[1:]
    for key in keys:
        at = at[int(key) if isinstance(at, list) else key]
    at[int(last) if isinstance(at, list) else last] = value
    if "format" not in path:  # a foreign hcm is legal by itself
        assert not valid(manifest, SCHEMA)
    with pytest.raises(SpyreCodeError):
        SpyreCode.from_memory(manifest, {f.name: f.data for f in code.files})
