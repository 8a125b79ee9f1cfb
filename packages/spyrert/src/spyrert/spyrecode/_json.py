"""Strict JSON in, canonical JSON out, and a cursor that knows where it stands (runtime spec 1.4)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, Final, NoReturn

import attrs

from spyrert.constants import MAX_NAME_BYTES
from spyrert.errors import SpyreCodeError, SpyreCodeParseError, SpyreCodeSchemaError

MAX_DEPTH: Final = 64
_DECIMAL = re.compile(r"0|[1-9][0-9]*", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

Json = Any
"""A parsed JSON value: ``None``, bool, int, float, str, list or dict with string keys."""


def parse(data: bytes, path: str = "", max_depth: int = MAX_DEPTH) -> Json:
    """Parse strict JSON.

    Refused with ``SpyreCodeParseError``: a byte-order mark, bytes that are not UTF-8, duplicate keys, ``NaN``
    and infinities (also by overflow), data after the document, nesting deeper than ``max_depth``, and lone
    surrogates, which no UTF-8 text can hold.
    """

    def bad(message: str) -> NoReturn:
        raise SpyreCodeParseError(
            f"Failed to parse {path.rsplit('/', 1)[-1] or 'JSON'}: {message}", path=path
        )

    def pairs(items: list[tuple[str, Json]]) -> dict[str, Json]:
        result = dict(items)
        if len(result) != len(items):
            seen: set[str] = set()
            for key, _ in items:
                if key in seen:
                    raise ValueError(f"duplicate key {key!r}")
                seen.add(key)
        return result

    def constant(name: str) -> NoReturn:
        raise ValueError(f"{name} is not JSON")

    def number(text: str) -> float:
        value = float(text)
        if value in (float("inf"), float("-inf")):
            raise ValueError(f"number {text} overflows")
        return value

    if data.startswith(b"\xef\xbb\xbf"):
        bad("byte-order mark")
    try:
        text = data.decode("utf-8")
        document = json.loads(text, object_pairs_hook=pairs, parse_constant=constant, parse_float=number)
    except UnicodeDecodeError as error:
        bad(f"not UTF-8 at byte {error.start}")
    except json.JSONDecodeError as error:
        bad(f"{error.msg} at line {error.lineno}, column {error.colno}")
    except ValueError as error:
        bad(str(error))
    except RecursionError:
        bad(f"nested deeper than {max_depth}")
    level = [document]
    for depth in range(max_depth + 2):
        deeper: list[Json] = []
        for value in level:
            match value:
                case dict():
                    deeper += value.keys()
                    deeper += value.values()
                case list():
                    deeper += value
                case str() if not value.isascii():
                    try:
                        value.encode()
                    except UnicodeEncodeError:
                        bad("lone surrogate in a string")
        level = [value for value in deeper if isinstance(value, (dict, list, str))]
        if depth >= max_depth and any(isinstance(value, (dict, list)) for value in level):
            bad(f"nested deeper than {max_depth}")
        if not level:
            break
    return document


def canonical(document: Json) -> bytes:
    """The one byte form of a document: UTF-8, keys sorted by code point, no blanks (runtime spec 1.12)."""
    return json.dumps(
        document, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False
    ).encode()


def pretty(document: Json) -> bytes:
    """Readable and deterministic: two blanks of indentation, keys in the order of the document."""
    return (json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def escape(key: str) -> str:
    """Spell a key as a JSON-pointer token."""
    return key.replace("~", "~0").replace("/", "~1")


@attrs.frozen
class Node:
    """A value of a parsed document together with its place, so that every complaint can name it.

    Args:
        value: the JSON value.
        path: the file it came from.
        pointer: JSON pointer to the value.
        error: class of the errors that the accessors raise.
        index: number of the command that the value belongs to.
    """

    value: Json
    path: str = ""
    pointer: str = ""
    error: type[SpyreCodeError] = SpyreCodeSchemaError
    index: int | None = None
    lenient: bool = False

    def fail(self, message: str, error: type[SpyreCodeError] | None = None) -> NoReturn:
        raise (error or self.error)(message, path=self.path, pointer=self.pointer, index=self.index)

    def child(self, key: str | int, value: Json) -> Node:
        return attrs.evolve(self, value=value, pointer=f"{self.pointer}/{escape(str(key))}")

    def mapping(self) -> Mapping[str, Json]:
        if not isinstance(self.value, dict):
            self.fail(f"expected an object, got {kind(self.value)}")
        return self.value

    def get(self, key: str) -> Node | None:
        """The member ``key``, or ``None`` if absent."""
        members = self.mapping()
        return self.child(key, members[key]) if key in members else None

    def member(self, key: str) -> Node:
        found = self.get(key)
        if found is None:
            self.fail(f"missing '{key}'")
        return found

    def unknown(self, known: Iterable[str]) -> list[str]:
        """Keys that are not in ``known``, in document order."""
        known = frozenset(known)
        return [key for key in self.mapping() if key not in known]

    def elements(self) -> Iterator[Node]:
        if not isinstance(self.value, list):
            self.fail(f"expected an array, got {kind(self.value)}")
        return (self.child(index, value) for index, value in enumerate(self.value))

    def members(self) -> Iterator[tuple[str, Node]]:
        return ((key, self.child(key, value)) for key, value in self.mapping().items())

    def integer(self, minimum: int | None = None, maximum: int | None = None) -> int:
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int):
            self.fail(f"expected an integer, got {kind(value)}")
        if (minimum is not None and value < minimum) or (maximum is not None and value > maximum):
            low = "-inf" if minimum is None else minimum
            high = "inf" if maximum is None else maximum
            self.fail(f"{value} is not in {low}..{high}")
        return value

    def number(self) -> int | float:
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float)):
            self.fail(f"expected a number, got {kind(self.value)}")
        return self.value

    def string(self) -> str:
        if not isinstance(self.value, str):
            self.fail(f"expected a string, got {kind(self.value)}")
        return self.value

    def boolean(self) -> bool:
        if not isinstance(self.value, bool):
            self.fail(f"expected true or false, got {kind(self.value)}")
        return self.value

    def name(self, empty: bool = False) -> str:
        """A name: 1..255 bytes of UTF-8 without control characters."""
        value = self.string()
        problem = name_problem(value, empty)
        if problem:
            self.fail(problem)
        return value

    def decimal(self) -> int:
        """An unsigned 64-bit number spelled as a decimal string (runtime spec 1.4)."""
        value = self.value
        if self.lenient and not isinstance(value, bool):
            if isinstance(value, int) and 0 <= value < 1 << 64:
                return value
            if isinstance(value, str) and re.fullmatch(r"0x[0-9a-fA-F]{1,16}", value):
                return int(value, 16)
        if not isinstance(value, str):
            self.fail(f"expected a decimal string, got {kind(value)}")
        if not _DECIMAL.fullmatch(value) or len(value) > 20 or int(value) >= 1 << 64:
            self.fail(f"{value[:40]!r} is not a decimal number below 2**64")
        return int(value)


def name_problem(value: str, empty: bool = False) -> str | None:
    """Why ``value`` is no legal name, or ``None``."""
    size = len(value.encode(errors="surrogatepass"))
    if size == 0 and not empty:
        return "a name must not be empty"
    if size > MAX_NAME_BYTES:
        return f"a name has {size} bytes, the limit is {MAX_NAME_BYTES}"
    if _CONTROL.search(value):
        return f"the name {value!r} has a control character"
    return None


def file_name_problem(name: str) -> str | None:
    """Why ``name`` is no legal file reference: relative, ``/``, no ``..``, no drive (runtime spec 1.1)."""
    parts = PurePosixPath(name).parts
    bad = name.startswith("/") or "\\" in name or re.match(r"[A-Za-z]:", name) or name.endswith("/")
    if bad or not parts or ".." in parts:
        return f"file reference {name!r} is not a relative name inside the folder"
    return name_problem(name)


def kind(value: Json) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"
