"""The ``memref`` dialect: casts between views, element access, copies (ktir spec 3.7)."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from ktir.dialects import memref
from ktir.dialects.slices import static_values
from ktir.ir import Operation, Value
from ktir.types import MemRefType
from spyresim.errors import ExecutionFault, Site, unsupported
from spyresim.meaning.formats import Array, held_dtype
from spyresim.sequential.access import IntArray, nest
from spyresim.sequential.interpreter import Frame, Handlers, Interpreter, Results
from spyresim.sequential.transfers import check_box, element_anchor, load_view, store_view
from spyresim.sequential.values import View

__all__ = ["MEMREFS", "view_of"]

MEMREFS = Handlers()


def view_of(frame: Frame, op: Operation, value: Value) -> View:
    """A memref operand; `UnsupportedError` if it is something else."""
    found = frame[value]
    if not isinstance(found, View):
        raise unsupported(op, f"a memref that is a {type(found).__name__}")
    return found


@MEMREFS.executes(memref.Cast, memref.MemorySpaceCast)
def cast(run: Interpreter, frame: Frame, op: memref.Cast | memref.MemorySpaceCast) -> Results:
    return [frame[op.source]]


def _numbers(frame: Frame, static: Sequence[int | None], dynamic: Sequence[Value]) -> list[Array]:
    rest = iter(dynamic)
    return [frame.array(next(rest)) if n is None else np.array([n], np.int64) for n in static]


def _integers(frame: Frame, static: Sequence[int | None], dynamic: Sequence[Value]) -> tuple[int, ...]:
    rest = iter(dynamic)
    return tuple(frame.number(next(rest)) if n is None else n for n in static)


@MEMREFS.executes(memref.ReinterpretCast)
def reinterpret_cast(run: Interpreter, frame: Frame, op: memref.ReinterpretCast) -> Results:
    """The offset counts elements from the base of the source."""
    view = view_of(frame, op, op.source)
    (offset,) = _numbers(frame, static_values(op.static_offsets), op.offsets)
    item = _item(run, view)
    return [
        attrs.evolve(
            view,
            base=view.base + offset * item,
            sizes=_integers(frame, static_values(op.static_sizes), op.sizes),
            strides=_integers(frame, static_values(op.static_strides), op.strides),
        )
    ]


def _item(run: Interpreter, view: View) -> int:
    return held_dtype(view.element, run.machine.f16_format).itemsize


@MEMREFS.executes(memref.SubView)
def subview(run: Interpreter, frame: Frame, op: memref.SubView) -> Results:
    view = view_of(frame, op, op.source)
    offsets = _numbers(frame, static_values(op.static_offsets), op.offsets)
    sizes = _integers(frame, static_values(op.static_sizes), op.sizes)
    steps = _integers(frame, static_values(op.static_strides), op.strides)
    anchor = _stack(offsets)
    if all(sizes):
        box = [(0, (n - 1) * s) for n, s in zip(sizes, steps, strict=True)]
        check_box(frame.tiles, op, view.sizes, anchor, box, view.memory.label)
    strides = tuple(a * b for a, b in zip(view.strides, steps, strict=True))
    base = view.base + element_anchor(view, anchor) * _item(run, view)
    kept = _kept(op, sizes)
    return [
        attrs.evolve(
            view, base=base, sizes=tuple(sizes[d] for d in kept), strides=tuple(strides[d] for d in kept)
        )
    ]


def _kept(op: memref.SubView, sizes: Sequence[int]) -> list[int]:
    """Dimensions of the result; a rank-reducing subview drops extents of one."""
    type = op.result.type
    assert isinstance(type, MemRefType)
    drop = len(sizes) - type.rank
    kept: list[int] = []
    for d, size in enumerate(sizes):
        wanted = type.shape[len(kept)] if len(kept) < type.rank else None
        if drop and size == 1 and wanted != 1:
            drop -= 1
        else:
            kept.append(d)
    return kept


def _stack(columns: Sequence[Array]) -> IntArray:
    if not columns:
        return np.zeros((1, 0), np.int64)
    return np.stack(np.broadcast_arrays(*columns), axis=1)


@MEMREFS.executes(memref.Load)
def load(run: Interpreter, frame: Frame, op: memref.Load) -> Results:
    view = view_of(frame, op, op.memref)
    anchor = _stack([frame.array(value) for value in op.indices])
    check_box(frame.tiles, op, view.sizes, anchor, [(0, 0)] * len(view.sizes), view.memory.label)
    return [load_view(run, frame, op, view, element_anchor(view, anchor), nest((), ()))]


@MEMREFS.executes(memref.Store)
def store(run: Interpreter, frame: Frame, op: memref.Store) -> Results:
    view = view_of(frame, op, op.memref)
    anchor = _stack([frame.array(value) for value in op.indices])
    check_box(frame.tiles, op, view.sizes, anchor, [(0, 0)] * len(view.sizes), view.memory.label)
    store_view(run, frame, op, view, element_anchor(view, anchor), nest((), ()), frame.array(op.value))
    return ()


@MEMREFS.executes(memref.Copy)
def copy(run: Interpreter, frame: Frame, op: memref.Copy) -> Results:
    source, target = view_of(frame, op, op.source), view_of(frame, op, op.target)
    if source.sizes != target.sizes:
        raise ExecutionFault(
            f"a copy from shape {source.sizes} to {target.sizes}", site=Site(op.name, op.location)
        )
    data = load_view(run, frame, op, source, 0, nest(source.sizes, source.strides))
    store_view(run, frame, op, target, 0, nest(target.sizes, target.strides), data)
    return ()


@MEMREFS.executes(memref.Dealloc)
def deallocate(run: Interpreter, frame: Frame, op: memref.Dealloc) -> Results:
    return ()
