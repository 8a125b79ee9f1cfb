"""A launch: its arguments, and all checks before anything is enqueued (runtime spec 3.13.1)."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from spyrert import arguments
from spyrert import binding as checks
from spyrert.accumulators import Accumulator
from spyrert.binding import Binding
from spyrert.device.protocol import Piece, SegmentEntry
from spyrert.errors import (
    DeviceMismatch,
    ShapeMismatch,
    SymbolBindingError,
)
from spyrert.execution import (
    Access,
    Fill,
    Stream,
)
from spyrert.memory import CompositeAddress
from spyrert.plan import JobPlan
from spyrert.tensor import DeviceTensor

UNMAPPED = SegmentEntry()


class SymbolicKind(enum.IntEnum):
    """Kinds of :class:`SymbolicArg`."""

    ADDRESS = 0
    DIMENSION = 1


@attrs.frozen(eq=False)
class Launch:
    """The arguments of one launch, for :meth:`spyrert.Runtime.launch_group`."""

    plan: JobPlan
    tensors: Sequence[DeviceTensor]
    bindings: Mapping[str, Any] | None = None
    symbolic_args: Sequence[SymbolicArg] | None = None


@attrs.frozen
class TileFill:
    """The start value of an accumulator: every element of an output tile becomes ``bits`` before its first
    step."""

    allocation: CompositeAddress
    pieces: tuple[Piece, ...]
    bits: int
    elem_bytes: int

    def operation(self, name: str, launch_seq: int, tile: int | None) -> Fill:
        return Fill(
            name,
            (Access(self.allocation, self.pieces, True),),
            launch_seq=launch_seq,
            tile=tile,
            pieces=self.pieces,
            value_bits=self.bits,
            elem_bytes=self.elem_bytes,
        )


@attrs.frozen
class TileLaunch:
    """One walk over the plan's steps: the argument views of a tile, and its index by dimension name."""

    tensors: tuple[DeviceTensor, ...]
    binding: Binding
    index: Mapping[str, int] = attrs.field(factory=dict)
    fills: tuple[TileFill, ...] = ()
    staged: tuple[int, ...] = ()
    """Arguments that are copied to a packed block before the steps, and back if they are written."""


@attrs.frozen
class Request:
    """A launch whose arguments are checked, not yet enqueued."""

    plan: JobPlan
    tensors: tuple[DeviceTensor, ...]
    tiles: tuple[TileLaunch, ...]
    overrides: tuple[int | None, ...] = ()
    accumulators: tuple[Accumulator, ...] = ()
    """Tensors of the runtime that take the place of outputs, which are converted at the end."""


def check(
    plan: JobPlan,
    tensors: Sequence[object],
    stream: Stream | None,
    bindings: Mapping[str, Any] | None,
    symbolic_args: Sequence[Any] | None,
    allow_tiled: bool,
    allow_staging: bool = False,
) -> Request:
    """All of runtime spec 3.13.1: refuse, or say what to launch. Changes nothing.

    ``stream`` is ``None`` if it is not known yet.
    """
    from spyrert.tiling import plan_tiles

    plan.check_ready()
    if stream is not None:
        if stream.state.device != plan.context.index:
            raise DeviceMismatch(f"stream {stream} and plan '{plan.name}' are on different devices")
        stream.state.check()
    checked = tuple(checks.check_tensors(plan, arguments.items(tensors, "tensors")))
    if bindings is not None:
        arguments.names(bindings, "bindings")
    binding = checks.bind(plan, checked, bindings, allow_tiled)
    if plan.launch is not None:
        exact = checks.check_exact(plan, checked, binding)
        if exact:
            for index, (spec, tensor) in enumerate(zip(plan.args, checked, strict=True)):
                expected = tensor.shape
                checks.check_layout(index, spec, expected, tensor)
            tiles: tuple[TileLaunch, ...] = (TileLaunch(checked, binding),)
        elif not allow_tiled:
            index, spec, tensor = next(
                (i, s, t)
                for i, (s, t) in enumerate(zip(plan.args, checked, strict=True))
                if t.shape != binding.shape(s)
            )
            raise ShapeMismatch(
                f"{checks.label(index, spec)} has shape {tensor.shape}, expected {binding.shape(spec)}: "
                "tiled launch not permitted",
                index=index,
                expected=binding.shape(spec),
                actual=tensor.shape,
            )
        else:
            tiles = plan_tiles(plan, checked, binding, allow_staging)
        for tile in tiles:
            checks.check_chunks(plan, tile.tensors)
        checks.check_span(plan, tiles[0].tensors)
        checks.check_aliases(plan, checked)
    else:
        tiles = (TileLaunch(checked, binding),)
    if plan.problem is not None:
        raise plan.problem
    overrides = _overrides(symbolic_args, checked)
    return Request(plan, checked, tiles, overrides)


def _overrides(
    symbolic_args: Sequence[Any] | None, tensors: Sequence[DeviceTensor]
) -> tuple[int | None, ...]:
    """Values of explicit symbolic arguments (runtime spec 3.11.2)."""
    if symbolic_args is None:
        return ()
    values = []
    for item in arguments.items(symbolic_args, "symbolic_args"):
        arguments.expect(item, SymbolicArg, "a symbolic argument")
        if not 0 <= item.tensor_id < len(tensors):
            raise SymbolBindingError(f"{item} names a tensor that is not passed")
        tensor = tensors[item.tensor_id]
        if item.kind is SymbolicKind.ADDRESS:
            values.append(tensor.addresses()[0])
        elif item.value >= 0:
            values.append(item.value)
        elif 0 <= item.dim_index < tensor.ndim:
            values.append(tensor.shape[item.dim_index])
        else:
            raise SymbolBindingError(f"{item} names a dimension that tensor {item.tensor_id} does not have")
    return tuple(values)


@attrs.frozen
class SymbolicArg:
    """An explicit value of a symbol, for callers that drive a plan themselves.

    ``kind`` is ``SymbolicKind.ADDRESS`` or ``DIMENSION``; a dimension is ``value`` if that is not negative,
    else the size of dimension ``dim_index`` of tensor ``tensor_id``.
    """

    kind: SymbolicKind
    tensor_id: int
    dim_index: int = -1
    value: int = -1


__all__ = [
    "Launch",
    "Request",
    "SymbolicArg",
    "SymbolicKind",
    "TileFill",
    "TileLaunch",
    "check",
]
