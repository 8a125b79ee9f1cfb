"""The Schedule: kernels in order, their buffers, and the arena (the contract of this package)."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from typing import Any, TypeAlias

import attrs

from rangeify.errors import BindError, RangeifyError
from rangeify.kernels import loops_of, store_of
from rangeify.reasons import Reason
from rangeify.signatures import checked
from rangeify.storage import named_dtype
from uopgraph import DType, KernelInfo, Ops, UOp, from_json, to_json


@attrs.frozen
class Variable:
    """A named integer that is known when a schedule runs: low <= value <= high, a multiple of `multiple_of`.
    ``value`` is what it was bound to when the schedule was made, None when it was not."""

    name: str
    low: int
    high: int
    multiple_of: int = 1
    value: int | None = None

    def check(self, value: int | None) -> int:
        """`value` if it is allowed; raises :class:`BindError` otherwise."""
        if value is None:
            raise BindError(f"no value for the Variable {self.name}")
        if not self.low <= value <= self.high:
            raise BindError(f"{self.name} = {value} is not in [{self.low}, {self.high}]")
        if value % self.multiple_of:
            raise BindError(f"{self.name} = {value} is no multiple of {self.multiple_of}")
        return value


def bind(variables: tuple[Variable, ...], bindings: Mapping[str, int] | None) -> dict[str, int]:
    """The value of every Variable: from `bindings`, else what it was bound to. Raises :class:`BindError`."""
    given = dict(bindings or {})
    unknown = sorted(given.keys() - {v.name for v in variables})
    if unknown:
        raise BindError(f"no Variable is called {', '.join(unknown)}")
    return {v.name: v.check(given.get(v.name, v.value)) for v in variables}


class Role(enum.Enum):
    """How a buffer takes part in a schedule."""

    INPUT = "input"
    OUTPUT = "output"
    INPUT_OUTPUT = "input_output"
    TEMPORARY = "temporary"


@attrs.frozen
class Buffer:
    """Storage of a schedule. ``shape`` is the host shape; ``reason``: why it is stored, None for an
    input."""

    name: str
    shape: tuple[int, ...]
    dtype: DType
    device: str
    role: Role
    reason: Reason | None = None

    @property
    def nbytes(self) -> int:
        """The size in bytes of the host form."""
        total = self.dtype.itemsize
        for d in self.shape:
            total *= d
        return total


@attrs.frozen(eq=False)
class Kernel:
    """One kernel call. ``body`` is SINK(END(STORE(...), loops)) over PARAM slots; slot i is buffer
    ``buffers[i]``, slot 0 is written. Equal bodies are the same object.

    A kernel over several devices is one item and is launched once on each: ``others`` are the buffers of the
    launches with ``_device_num`` 1, 2, ...; ``buffers`` are those of number 0.
    """

    body: UOp
    buffers: tuple[int, ...]
    others: tuple[tuple[int, ...], ...] = ()

    @property
    def launches(self) -> tuple[tuple[int, ...], ...]:
        """The buffers of each launch, by device number."""
        return (self.buffers, *self.others)

    @property
    def touched(self) -> tuple[int, ...]:
        """Every buffer of every launch."""
        if not self.others:
            return self.buffers  # a kernel has each buffer in one slot
        return tuple(dict.fromkeys(b for launch in self.launches for b in launch))

    @property
    def name(self) -> str:
        """``E`` or ``r`` and the loop sizes; need not be unique."""
        return str(self.body.arg.name)

    @property
    def function_name(self) -> str:
        """A valid identifier, unique per body: the readable name and 8 hex digits of the body's key
        (reading 41).
        """
        return f"{self.body.arg.function_name}_{self.body.key.hex()[:8]}"

    @property
    def reads(self) -> tuple[int, ...]:
        """The buffers that are loaded from, in slot order."""
        return tuple(self.buffers[s] for s in loaded_slots(self.body))


@attrs.frozen
class Copy:
    """A run of the elements of ``source``, from element ``offset`` on, becomes all of ``destination``, which
    is on another device."""

    destination: int
    source: int
    offset: int = 0

    @property
    def touched(self) -> tuple[int, ...]:
        """Both buffers."""
        return (self.destination, self.source)


Item: TypeAlias = Kernel | Copy


def loaded_slots(body: UOp) -> tuple[int, ...]:
    """The PARAM slots that a kernel body loads from."""
    value = store_of(body).src[1]
    slots = {n.src[0].arg.slot for n in value.toposort() if n.op is Ops.INDEX}
    return tuple(sorted(slots))


@attrs.frozen
class Arena:
    """Memory that temporaries share: byte offset of each planned buffer (by index), and the size.

    The arena is cut into ``lanes`` that share nothing: one a device for buffers of kernels only, and one for
    those that a copy reads or writes, so that a copy never waits for a kernel that it has nothing to do with.
    """

    nbytes: int = 0
    alignment: int = 1
    offsets: Mapping[int, int] = attrs.field(factory=dict)
    lanes: tuple[Lane, ...] = ()


@attrs.frozen
class Lane:
    """Bytes [start, start + nbytes) of the arena: the buffers of ``device`` that copies use, or do not
    use.
    """

    device: str
    copies: bool
    start: int
    nbytes: int


@attrs.frozen(eq=False)
class Schedule:
    """What :func:`rangeify.schedule` returns.

    ``items``: everything in order. ``buffers``: all storage; items and the arena refer to it by index.
    ``inputs``: the input buffers in the order in which the scheduled expressions mention them. ``outputs``:
    for each scheduled Tensor its value as an expression over PARAM(slot = buffer index). ``nodes``: the
    BUFFER node of each buffer in this process; None for a schedule that was read from JSON.

    A value on several devices is one buffer for each of them.
    """

    items: tuple[Item, ...]
    buffers: tuple[Buffer, ...]
    arena: Arena
    inputs: tuple[int, ...]
    outputs: tuple[UOp, ...]
    variables: tuple[Variable, ...] = ()
    nodes: tuple[UOp, ...] | None = None

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The compute items, in order."""
        return tuple(i for i in self.items if isinstance(i, Kernel))

    @property
    def copies(self) -> tuple[Copy, ...]:
        """The copies between devices, in order."""
        return tuple(i for i in self.items if isinstance(i, Copy))

    def explain(self) -> str:
        """A readable account: per kernel its name, loops, buffers, bytes, operations; per temporary why it
        is stored.
        """
        from rangeify.explain import explain

        return explain(self)

    @checked
    def to_html(self, title: str = "schedule") -> str:
        """A self-contained HTML page (no network): the items and the buffers between them, and every kernel's
        body."""
        from rangeify.explain import to_html

        return to_html(self, title)

    def to_json(self) -> str:
        """The schedule as JSON text; storage is written without contents and without process-wide numbers."""
        bodies: dict[UOp, int] = {}
        for item in self.kernels:
            bodies.setdefault(item.body, len(bodies))
        data = {
            "rangeify": FORMAT,
            "bodies": [json.loads(to_json(b)) for b in bodies],
            "items": [_item_data(i, bodies) for i in self.items],
            "buffers": [
                {
                    "name": b.name,
                    "shape": list(b.shape),
                    "dtype": b.dtype.name,
                    "device": b.device,
                    "role": b.role.value,
                    "reason": None if b.reason is None else b.reason.to_data(),
                }
                for b in self.buffers
            ],
            "arena": {
                "nbytes": self.arena.nbytes,
                "alignment": self.arena.alignment,
                "offsets": sorted(self.arena.offsets.items()),
                "lanes": [attrs.asdict(lane) for lane in self.arena.lanes],
            },
            "inputs": list(self.inputs),
            "outputs": [json.loads(to_json(o)) for o in self.outputs],
            "variables": [attrs.asdict(v) for v in self.variables],
        }
        return json.dumps(data, indent=1)

    @staticmethod
    @checked
    def from_json(text: str) -> Schedule:
        """The inverse of :meth:`to_json`. Raises :class:`ScheduleFormatError` for other text."""
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise ScheduleFormatError(f"not JSON: {error}") from None
        if not isinstance(data, dict) or data.get("rangeify") != FORMAT:
            raise ScheduleFormatError(f"not a schedule of format {FORMAT}")
        try:
            return _decode(data)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ScheduleFormatError(f"malformed schedule: {type(error).__name__}: {error}") from error


FORMAT = 3


class ScheduleFormatError(RangeifyError, ValueError):
    """Text that is no schedule."""


def _item_data(item: Item, bodies: Mapping[UOp, int]) -> dict[str, Any]:
    if isinstance(item, Copy):
        return {"copy": [item.destination, item.source], "offset": item.offset}
    others = {"others": [list(launch) for launch in item.others]} if item.others else {}
    return {"kernel": bodies[item.body], "buffers": list(item.buffers), **others}


def _item(data: dict[str, Any], bodies: list[UOp], buffers: tuple[Buffer, ...]) -> Item:
    if "copy" in data:
        destination, source = data["copy"]
        copy = Copy(destination, source, data["offset"])
        if not all(0 <= b < len(buffers) for b in copy.touched):
            raise ScheduleFormatError("a copy between buffers that do not exist")
        to, at = buffers[destination], buffers[source]
        if to.dtype is not at.dtype or not 0 <= copy.offset * at.dtype.itemsize <= at.nbytes - to.nbytes:
            raise ScheduleFormatError(f"no run of buffer {at.name} fits buffer {to.name}")
        return copy
    others = tuple(tuple(launch) for launch in data.get("others", ()))
    item = Kernel(bodies[data["kernel"]], tuple(data["buffers"]), others)
    if item.body.op is not Ops.SINK or not isinstance(item.body.arg, KernelInfo):
        raise ScheduleFormatError(f"{item.body.op.name} is no kernel body")
    slots = {n.arg.slot for n in item.body.toposort() if n.op is Ops.PARAM and not n.is_variable}
    fits = all(slots == set(range(len(launch))) for launch in item.launches)
    if not fits or not all(0 <= b < len(buffers) for b in item.touched):
        raise ScheduleFormatError(f"the arguments of kernel {item.name} do not fit its body")
    loops_of(item.body)
    return item


def _decode(data: dict[str, Any]) -> Schedule:
    bodies = [from_json(json.dumps(b)) for b in data["bodies"]]
    buffers = tuple(
        Buffer(
            b["name"],
            tuple(b["shape"]),
            named_dtype(b["dtype"]),
            b["device"],
            Role(b["role"]),
            None if b["reason"] is None else Reason.from_data(b["reason"]),
        )
        for b in data["buffers"]
    )
    items = tuple(_item(k, bodies, buffers) for k in data["items"])
    arena = data["arena"]
    offsets = {int(i): int(o) for i, o in arena["offsets"]}
    for i, offset in offsets.items():
        if not 0 <= offset <= arena["nbytes"] - buffers[i].nbytes:
            raise ScheduleFormatError(f"buffer {buffers[i].name} does not lie in the arena")
    return Schedule(
        items,
        buffers,
        Arena(arena["nbytes"], arena["alignment"], offsets, tuple(Lane(**lane) for lane in arena["lanes"])),
        tuple(data["inputs"]),
        tuple(from_json(json.dumps(o)) for o in data["outputs"]),
        tuple(Variable(**v) for v in data["variables"]),
    )
