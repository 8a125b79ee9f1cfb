"""From a JSON pointer to a place in the text, for diagnostics with line, column and caret."""

from __future__ import annotations

import json
import re

import attrs

_BLANK = re.compile(r"[ \t\r\n]*")
_SCALAR = re.compile(r"[^\s,\]}]+")


@attrs.frozen
class Place:
    """Line and column (from 1) and the text of the line."""

    line: int
    column: int
    text: str

    def caret(self) -> str:
        """The line with a caret under the column; long lines are cut around it."""
        start = max(0, self.column - 60)
        shown = self.text[start : start + 100]
        return f"{shown}\n{' ' * (self.column - 1 - start)}^"


def locate(text: str, pointer: str) -> Place:
    """Place of the value that a JSON pointer names; of the innermost enclosing value if it does not exist.

    >>> locate('{"a": [1,\\n  {"b": 2}]}', "/a/1/b")
    Place(line=2, column=9, text='  {"b": 2}]}')
    """
    keys = [key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]
    position = _skip(text, 0)
    for key in keys:
        found = _member(text, position, key)
        if found is None:
            break
        position = found
    return place(text, position)


def place(text: str, position: int) -> Place:
    """Line and column of a character."""
    position = min(position, len(text))
    line = text.count("\n", 0, position) + 1
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    return Place(line, position - start + 1, text[start : end if end >= 0 else len(text)])


def _skip(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    return position if match is None else match.end()


def _member(text: str, position: int, key: str) -> int | None:
    """Start of the member or element ``key`` of the value at ``position``."""
    opening = text[position : position + 1]
    if opening not in ("{", "["):
        return None
    position = _skip(text, position + 1)
    index = 0
    decoder = json.JSONDecoder()
    while position < len(text) and text[position] not in "}]":
        name = str(index)
        if opening == "{":
            name, position = decoder.raw_decode(text, position)
            position = _skip(text, _skip(text, position) + 1)
        if name == key:
            return position
        position = _skip(text, _end(text, position, decoder))
        if text[position : position + 1] == ",":
            position = _skip(text, position + 1)
        index += 1
    return None


def _end(text: str, position: int, decoder: json.JSONDecoder) -> int:
    """End of the value at ``position``."""
    try:
        return int(decoder.raw_decode(text, position)[1])
    except ValueError:
        match = _SCALAR.match(text, position)
        return len(text) if match is None else match.end()
