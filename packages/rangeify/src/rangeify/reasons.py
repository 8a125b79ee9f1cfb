"""Why a value has storage of its own: the rule that cut the program there, and the readers that made it ask.

Range assignment makes a value a candidate when its readers want it at different indices or repeat it
(:class:`Candidate`); a rule then keeps it. Other rules store a value without asking (scheduler spec 6 to 9).
"""

from __future__ import annotations

import enum
from typing import Any

import attrs


class Rule(enum.Enum):
    """What stored a value. The text is that of :meth:`Reason.__str__`."""

    OUTPUT = "it was asked for"
    WRITE = "it is written in place"
    FRESH = "it is written, and an older value still needs the old contents"
    MARK = "it is marked contiguous"
    HAZARD = "the kernel that writes it into other storage would read there what it overwrites"
    SPLIT = "it is the first step of a long reduction"
    REDUCTION = "it reduces over a buffer"
    BUFFERS = "recomputing it would read {detail} buffers"
    LIMIT = "a kernel would touch more than {detail} buffers"
    PROFIT = "its readers would compute it {detail} times"
    ROWS = "it holds results of rows that a reader repeats"
    BLOCK = "it is passed from one repeated block to the next"
    DEVICES = "{detail}"
    CALL = "the call {detail} keeps it"


class Candidate(enum.Enum):
    """Why fusion was in question."""

    DISAGREE = "index it differently"
    REPEAT = "repeat it"


@attrs.frozen
class Cause:
    """The candidate and the operations that read it, through movement (their names, sorted)."""

    candidate: Candidate
    readers: tuple[str, ...]

    def __str__(self) -> str:
        return f"its readers ({', '.join(self.readers)}) {self.candidate.value}"


@attrs.frozen
class Reason:
    """``rule`` stored the value. ``detail``: the number or name in its text. ``cause``: why it was asked;
    None for rules that are not."""

    rule: Rule
    detail: str = ""
    cause: Cause | None = None

    def __str__(self) -> str:
        return " and ".join(self.lines)

    @property
    def lines(self) -> tuple[str, ...]:
        """The rule, and the cause if there is one."""
        text = self.rule.value.format(detail=self.detail)
        return (text,) if self.cause is None else (text, str(self.cause))

    def to_data(self) -> list[Any]:
        """JSON data."""
        cause = None if self.cause is None else [self.cause.candidate.name, list(self.cause.readers)]
        return [self.rule.name, self.detail, cause]

    @staticmethod
    def from_data(data: Any) -> Reason:
        """The inverse of :meth:`to_data`; raises KeyError, TypeError or ValueError for other data."""
        rule, detail, cause = data
        made = None if cause is None else Cause(Candidate[cause[0]], tuple(map(str, cause[1])))
        return Reason(Rule[rule], str(detail), made)
