"""The lowered Program: KTIR kernels in order, with the device buffers that they work on (a contract)."""

from __future__ import annotations

import enum
import json
from typing import Any

import attrs

import ktir
from ktir.dtypes import dtype_name
from ktir.layout import StickLayout, layout_from_json
from rangeify.errors import RangeifyError
from rangeify.schedule_types import Variable
from uopgraph import UOp, from_json, to_json


class Place(enum.Enum):
    """Where a buffer lives: with the caller (by role), or in the program's arena."""

    INPUT = "input"
    OUTPUT = "output"
    INPUT_OUTPUT = "input_output"
    ARENA = "arena"


@attrs.frozen
class ProgramBuffer:
    """Device storage. ``dtype`` is NumPy's name of the host dtype; the device format stands in the layout.
    ``offset``: byte offset in the arena, None for external buffers. ``source``: the input whose contents this
    buffer holds in another layout."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    layout: StickLayout
    place: Place
    offset: int | None = None
    source: int | None = None

    @property
    def stored_dtype(self) -> str:
        """NumPy's name of the element format on the device: what the launch spec asks for (bool: float16)."""
        return dtype_name(self.layout.element)


@attrs.frozen(eq=False)
class Launch:
    """One launch of a lowered kernel: the function, its module, and a buffer index per argument in function
    order. Equal kernels share one module object."""

    function: str
    module: ktir.Module
    buffers: tuple[int, ...]


@attrs.frozen(eq=False)
class Program:
    """What :func:`rangeify.ktir.lower` returns.

    ``inputs``: buffer indices in the order of the schedule's inputs. ``outputs``: each scheduled Tensor as an
    expression over PARAM(slot = buffer index). ``arena_bytes``: device memory for intermediates, placed with
    128-byte alignment.
    """

    items: tuple[Launch, ...]
    buffers: tuple[ProgramBuffer, ...]
    inputs: tuple[int, ...]
    outputs: tuple[UOp, ...]
    arena_bytes: int
    variables: tuple[Variable, ...] = ()

    @property
    def modules(self) -> dict[str, ktir.Module]:
        """The distinct modules by function name, in order of first launch."""
        return {item.function: item.module for item in self.items}

    def to_json(self) -> str:
        """The program as JSON text; modules are MLIR text inside it."""
        data = {
            "rangeify.ktir": FORMAT,
            "modules": {name: ktir.print_module(m) for name, m in self.modules.items()},
            "items": [{"function": i.function, "buffers": list(i.buffers)} for i in self.items],
            "buffers": [
                {
                    "name": b.name,
                    "shape": list(b.shape),
                    "dtype": b.dtype,
                    "layout": b.layout.to_json(),
                    "place": b.place.value,
                    "offset": b.offset,
                    "source": b.source,
                }
                for b in self.buffers
            ],
            "inputs": list(self.inputs),
            "outputs": [json.loads(to_json(o)) for o in self.outputs],
            "arena_bytes": self.arena_bytes,
            "variables": [attrs.asdict(v) for v in self.variables],
        }
        return json.dumps(data, indent=1)

    @staticmethod
    def from_json(text: str) -> Program:
        """The inverse of :meth:`to_json`. Raises :class:`ProgramFormatError` for other text."""
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise ProgramFormatError(f"not JSON: {error}") from None
        if not isinstance(data, dict) or data.get("rangeify.ktir") != FORMAT:
            raise ProgramFormatError(f"not a program of format {FORMAT}")
        try:
            return _decode(data)
        except (KeyError, TypeError, ValueError, IndexError, ktir.KtirError) as error:
            raise ProgramFormatError(f"malformed program: {type(error).__name__}: {error}") from error


FORMAT = 1


class ProgramFormatError(RangeifyError, ValueError):
    """Text that is no program."""


def _variables(data: dict[str, Any]) -> tuple[Variable, ...]:
    return tuple(Variable(**v) for v in data["variables"])


def _stick_layout(document: dict[str, Any], shape: list[int]) -> StickLayout:
    layout = layout_from_json(document, shape)
    if not isinstance(layout, StickLayout):
        raise ProgramFormatError("a program's buffers have stick layouts")
    return layout


def _decode(data: dict[str, Any]) -> Program:
    modules = {name: ktir.parse(text) for name, text in data["modules"].items()}
    buffers = tuple(
        ProgramBuffer(
            b["name"],
            tuple(b["shape"]),
            b["dtype"],
            _stick_layout(b["layout"], b["shape"]),
            Place(b["place"]),
            b["offset"],
            b["source"],
        )
        for b in data["buffers"]
    )
    items = tuple(Launch(i["function"], modules[i["function"]], tuple(i["buffers"])) for i in data["items"])
    for item in items:
        if not all(0 <= b < len(buffers) for b in item.buffers):
            raise ProgramFormatError(f"{item.function} is launched on buffers that do not exist")
    outputs = tuple(from_json(json.dumps(o)) for o in data["outputs"])
    return Program(items, buffers, tuple(data["inputs"]), outputs, data["arena_bytes"], _variables(data))
