"""Scheduling decisions: what a policy is told (`ProgramFacts`) and what it answers (`Plan`).

A plan is made once per program, right after its pipelines are built; it stands on the program function as the
attribute ``ktdf.plan`` and later passes only apply it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import attrs
from attrs import frozen

from dfsched.architecture import Architecture
from ktir.attribute import Attribute
from ktir.attributes import ArrayAttr, DictAttr, IntegerAttr, StringAttr

__all__ = ["PLAN", "NestFacts", "NestPlan", "OperandFacts", "Plan", "Policy", "ProgramFacts"]

PLAN = "ktdf.plan"
"""Name of the attribute that carries the plan on a program function."""


@frozen
class OperandFacts:
    """One operand of a pipeline: a load or a store.

    `dims` are the loops of the nest that its subscripts use; `box_bytes` is what one vector of it holds.
    """

    name: str
    is_store: bool
    memory: str
    element: str
    dims: tuple[int, ...]
    box: tuple[int, ...]
    box_bytes: int


@frozen
class NestFacts:
    """One loop nest with its pipeline: trip counts of the loops, outermost first, vector tile, operands.

    A trip count of 0 is one that is not known.
    `operations` counts what the compute unit does to one vector, apart from receiving and sending.
    `scratch_bytes` is what an iteration keeps between its computations. `live_nests` counts the nests (this
    one included) whose buffers are live at the same time.
    """

    trips: tuple[int, ...]
    tile: tuple[int, ...]
    operands: tuple[OperandFacts, ...]
    operations: int = 1
    scratch_bytes: int = 0
    live_nests: int = 1


@frozen
class ProgramFacts:
    """What a policy may look at, beside the architecture.

    `scratchpad_bytes` is the largest range of a core's scratchpad that the kernel does not use itself.
    """

    program: str
    grid: tuple[int, ...]
    nests: tuple[NestFacts, ...]
    scratchpad_bytes: int = 0


@frozen
class NestPlan:
    """Decisions for one nest.

    `loop_order`: the loops from the outside in. `tile_sizes`: iterations per tile and loop (1: every
    iteration is a tile). `sunk_loops`: how many point loops, from the inside out, go into the stages (the
    loops with a tile above 1 have point loops). `buffer_depths`: copies of each operand's buffer.
    `hoisted`: operands moved in front of the nest. `instance_loop` and `instances`: the loop spread over
    equal hardware. `accumulator`: the memory of a reduction's partial result. `parts`: iterations of the
    outermost loop in each of the nests that one is cut into, in order (none: it stays whole), `part_sizes`
    the tile size of that loop in each. `limit`: what kept tiles from being larger, for people.
    """

    loop_order: tuple[int, ...]
    tile_sizes: tuple[int, ...]
    buffer_depths: tuple[int, ...]
    sunk_loops: int = 0
    hoisted: tuple[int, ...] = ()
    instance_loop: int | None = None
    instances: int = 1
    accumulator: str | None = None
    parts: tuple[int, ...] = ()
    part_sizes: tuple[int, ...] = ()
    limit: str = ""

    def mistyped(self) -> Iterator[str]:
        """Names of the fields that hold something else than their declaration says."""
        for entry in attrs.fields(NestPlan):
            value = getattr(self, entry.name)
            match entry.name:
                case "sunk_loops" | "instances":
                    good = isinstance(value, int)
                case "instance_loop":
                    good = isinstance(value, int | None)
                case "accumulator":
                    good = isinstance(value, str | None)
                case "limit":
                    good = isinstance(value, str)
                case _:
                    good = isinstance(value, tuple) and all(isinstance(number, int) for number in value)
            if not good:
                yield entry.name

    def inconsistencies(self) -> Iterator[str]:
        """What no nest can be planned to have."""
        wrong = list(self.mistyped())
        if wrong:
            yield "fields that hold something else: " + ", ".join(wrong)
            return
        loops, operands = len(self.tile_sizes), len(self.buffer_depths)
        if sorted(self.loop_order) != list(range(loops)):
            yield f"loop_order {list(self.loop_order)} does not order {loops} loops"
        if min((*self.tile_sizes, *self.buffer_depths, *self.parts, *self.part_sizes, self.instances)) < 1:
            yield "sizes, depths, parts and instances must be positive"
        if not 0 <= self.sunk_loops <= loops:
            yield f"{self.sunk_loops} sunk loops of {loops}"
        if self.instance_loop is not None and not 0 <= self.instance_loop < loops:
            yield f"instance_loop {self.instance_loop} of {loops} loops"
        if not set(range(operands)).issuperset(self.hoisted):
            yield f"hoisted {list(self.hoisted)} of {operands} operands"
        if len(self.parts) != len(self.part_sizes):
            yield f"{len(self.parts)} parts, but {len(self.part_sizes)} sizes of parts"


@frozen
class Plan:
    """All decisions for one program; a nest plan per pipeline nest, in program order."""

    program: str
    compute_unit: str
    nests: tuple[NestPlan, ...]

    def to_json(self) -> str:
        """Stable JSON text; `from_json` reads it back to an equal plan."""
        return json.dumps(attrs.asdict(self), indent=2, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The plan behind `to_json`; ValueError if the text is none, or no nest can be like it."""
        try:
            return cls._of(json.loads(text))
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"not a plan: {error}") from error

    def to_attribute(self) -> DictAttr:
        """The attribute form."""
        plain = _to_attribute(attrs.asdict(self))
        assert isinstance(plain, DictAttr)
        return plain

    @classmethod
    def from_attribute(cls, attribute: Attribute) -> Plan:
        """The plan behind `to_attribute`; ValueError if the attribute is none, or no nest can be like it."""
        try:
            return cls._of(_from_attribute(attribute))
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"not a plan: {error}") from error

    @classmethod
    def _of(cls, plain: Any) -> Plan:
        nests = tuple(
            NestPlan(**{name: _tuples(value) for name, value in nest.items()}) for nest in plain["nests"]
        )
        for number, nest in enumerate(nests):
            for wrong in nest.inconsistencies():
                raise TypeError(f"nest {number}: {wrong}")
        program, unit = plain["program"], plain["compute_unit"]
        if not isinstance(program, str) or not isinstance(unit, str):
            raise TypeError("program and compute_unit must be names")
        return cls(program, unit, nests)


Policy: TypeAlias = Callable[[ProgramFacts, Architecture], Plan]
"""``policy(facts, architecture) -> Plan``."""


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list | tuple) else value


def _to_attribute(value: object) -> Attribute:
    match value:
        case int():
            return IntegerAttr(value)
        case str():
            return StringAttr(value)
        case list() | tuple():
            return ArrayAttr(tuple(_to_attribute(item) for item in value))
        case Mapping():
            return DictAttr({name: _to_attribute(item) for name, item in value.items() if item is not None})
        case _:
            raise TypeError(f"no attribute form of {type(value).__name__}")


def _from_attribute(value: Attribute) -> Any:
    match value:
        case IntegerAttr(value=number):
            return number
        case StringAttr(value=text):
            return text
        case ArrayAttr(elements=elements):
            return [_from_attribute(item) for item in elements]
        case DictAttr():
            return {name: _from_attribute(item) for name, item in value.items()}
        case _:
            raise TypeError(f"unexpected attribute {value}")
