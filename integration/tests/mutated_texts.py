"""Small damage to MLIR texts: to a token, a number, a line, or an attribute."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

__all__ = ["mutated"]

_TOKEN = re.compile(r'"[^"\n]*"|-?\d+(?:\.\d+)?|[%@#!^]?[\w.$]+|->|[^\s\w]')
_NUMBER = re.compile(r"(?<![\w%#@.])-?\d+(?![\w.]*[\w(])|\d+(?=x)|(?<=x)\d+")
_ATTRIBUTE = re.compile(r"([\w.]+) = (\[[^\[\]]*\]|\"[^\"]*\"|array<[^>]*>|#?[\w.]+(?:<[^<>]*>)?)")
_NUMBERS = (
    *(
        "0",
        "1",
        "-1",
        "2",
        "3",
        "7",
        "64",
        "65",
        "127",
        "1000",
        "100000",
        "2147483647",
        "2147483648",
        "4294967296",
    ),
    *(
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551616",
        "-9223372036854775809",
        "1" + "0" * 40,
    ),
)
_VALUES = (
    '"other"',
    "[]",
    "0",
    "-5",
    "1 : i64",
    "true",
    "unit",
    "array<i64>",
    "{}",
    "f32",
    "affine_map<() -> ()>",
    "1.5",
)


def mutated(text: str, dice: Random) -> str:
    """The text with one to three changes."""
    for _ in range(dice.choice([1, 1, 1, 2, 3])):
        text = dice.choice(_MUTATIONS)(text, dice)
    return text


def _tokens(text: str, dice: Random, change: Callable[[list[str], list[int]], None], count: int) -> str:
    """Changes `count` tokens; blanks stay as they are. `change` gets all pieces and the positions of tokens."""
    pieces: list[str] = []
    places: list[int] = []
    end = 0
    for match in _TOKEN.finditer(text):
        pieces += [text[end : match.start()], match.group()]
        places.append(len(pieces) - 1)
        end = match.end()
    pieces.append(text[end:])
    if len(places) >= count:
        change(pieces, dice.sample(places, count))
    return "".join(pieces)


def _swap_tokens(text: str, dice: Random) -> str:
    def change(pieces: list[str], places: list[int]) -> None:
        a, b = places
        pieces[a], pieces[b] = pieces[b], pieces[a]

    return _tokens(text, dice, change, 2)


def _delete_token(text: str, dice: Random) -> str:
    def change(pieces: list[str], places: list[int]) -> None:
        pieces[places[0]] = ""

    return _tokens(text, dice, change, 1)


def _duplicate_token(text: str, dice: Random) -> str:
    def change(pieces: list[str], places: list[int]) -> None:
        pieces[places[0]] += " " + pieces[places[0]]

    return _tokens(text, dice, change, 1)


def _replace_token(text: str, dice: Random) -> str:
    """By another of the same first character: a value by a value, a name by a name."""

    def change(pieces: list[str], places: list[int]) -> None:
        first = pieces[places[0]][:1]
        alike = sorted({p for p in pieces if p[:1] == first or (p[:1].isalpha() and first.isalpha())})
        pieces[places[0]] = dice.choice(alike)

    return _tokens(text, dice, change, 1)


def _replace_number(text: str, dice: Random) -> str:
    return _replaced(text, _NUMBER, dice, lambda match: dice.choice(_NUMBERS))


def _replace_number_everywhere(text: str, dice: Random) -> str:
    """One number by another wherever it stands, which keeps many texts valid."""
    numbers = sorted({match.group() for match in _NUMBER.finditer(text)})
    if not numbers:
        return text
    old, new = dice.choice(numbers), dice.choice(_NUMBERS)
    return _NUMBER.sub(lambda match: new if match.group() == old else match.group(), text)


def _replace_name_everywhere(text: str, dice: Random) -> str:
    """An operation, type or keyword by another, wherever it stands."""
    names = sorted(set(re.findall(r"(?<![\w%#@.])[a-z]\w*(?:\.\w+)*", text)))
    if len(names) < 2:
        return text
    old, new = dice.sample(names, 2)
    return re.sub(rf"(?<![\w%#@.]){re.escape(old)}(?![\w.])", new, text)


def _replace_quoted(text: str, dice: Random) -> str:
    """A quoted name (of a unit, a memory, an iterator) by another, once or wherever it stands."""
    names = sorted(set(re.findall(r'"[^"\n]*"', text)))
    if len(names) < 2:
        return text
    old, new = dice.sample(names, 2)
    if dice.random() < 0.5:
        return text.replace(old, new)
    return _replaced(text, re.compile(re.escape(old)), dice, lambda match: new)


def _replace_value(text: str, dice: Random) -> str:
    return _replaced(text, _ATTRIBUTE, dice, lambda match: f"{match.group(1)} = {dice.choice(_VALUES)}")


def _delete_attribute(text: str, dice: Random) -> str:
    return _replaced(text, re.compile(_ATTRIBUTE.pattern + r",?"), dice, lambda match: "")


def _rename_attribute(text: str, dice: Random) -> str:
    names = [match.group(1) for match in _ATTRIBUTE.finditer(text)]
    return _replaced(text, _ATTRIBUTE, dice, lambda match: f"{dice.choice(names)} = {match.group(2)}")


def _replaced(text: str, pattern: re.Pattern[str], dice: Random, new: Callable[[re.Match[str]], str]) -> str:
    found = list(pattern.finditer(text))
    if not found:
        return text
    match = dice.choice(found)
    return text[: match.start()] + new(match) + text[match.end() :]


def _delete_line(text: str, dice: Random) -> str:
    lines = text.split("\n")
    del lines[dice.randrange(len(lines))]
    return "\n".join(lines)


def _duplicate_line(text: str, dice: Random) -> str:
    lines = text.split("\n")
    lines.insert(dice.randrange(len(lines)), dice.choice(lines))
    return "\n".join(lines)


def _swap_lines(text: str, dice: Random) -> str:
    lines = text.split("\n")
    a, b = dice.randrange(len(lines)), dice.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]
    return "\n".join(lines)


_MUTATIONS = (
    *(_swap_tokens, _delete_token, _duplicate_token, _replace_token),
    *(_replace_number, _replace_number, _replace_number_everywhere, _replace_number_everywhere),
    *(_replace_name_everywhere, _replace_value, _replace_value, _delete_attribute, _rename_attribute),
    *(_delete_line, _duplicate_line, _swap_lines, _replace_quoted),
)
