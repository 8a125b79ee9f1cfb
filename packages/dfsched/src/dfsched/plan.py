"""Scheduling decisions: what a policy is told (`ProgramFacts`) and what it answers (`Plan`).

A plan is made once per program, right after its pipelines are built; it stands on the program function as the
attribute ``ktdf.plan`` and later passes only apply it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
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
        """The plan behind `to_json`; ValueError if the text is something else."""
        try:
            return cls._of(json.loads(text))
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a plan: {error}") from error

    def to_attribute(self) -> DictAttr:
        """The attribute form."""
        plain = _to_attribute(attrs.asdict(self))
        assert isinstance(plain, DictAttr)
        return plain

    @classmethod
    def from_attribute(cls, attribute: Attribute) -> Plan:
        """The plan behind `to_attribute`; ValueError if the attribute is something else."""
        try:
            return cls._of(_from_attribute(attribute))
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a plan: {error}") from error

    @classmethod
    def _of(cls, plain: Any) -> Plan:
        nests = tuple(
            NestPlan(**{name: _tuples(value) for name, value in nest.items()}) for nest in plain["nests"]
        )
        return cls(plain["program"], plain["compute_unit"], nests)


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
