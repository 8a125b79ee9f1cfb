"""Execution of a whole Schedule on host memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from rangeify import storage
from rangeify.errors import InputError, RangeifyError, ScheduleError
from rangeify.executor.expression import evaluate_expression
from rangeify.executor.kernel import run_kernel
from rangeify.kernels import DEVICE_NUMBER
from rangeify.schedule_types import Buffer, Copy, Role, Schedule, bind
from rangeify.signatures import checked
from rangeify.storage import Array, numpy_dtype
from uopgraph import UOp

#: Arrays by position in ``schedule.inputs``, or by buffer name, or None for what the Tensors hold.
InputLike: TypeAlias = "Sequence[npt.ArrayLike] | Mapping[str, npt.ArrayLike] | None"

_POISON: Final = 0xCD
_GUARD: Final = 256


@checked
def run(
    schedule: Schedule,
    inputs: InputLike = None,
    order: int | None = None,
    bindings: Mapping[str, int] | None = None,
) -> tuple[Array, ...]:
    """Execute `schedule` with NumPy and return the values of the scheduled Tensors, in their order.

    May be called any number of times; nothing but the returned arrays changes. `inputs` replaces what the
    input Tensors hold, by position in ``schedule.inputs`` or by name. With `order` (a seed) each kernel runs
    blockwise over its output indices in a random order, so that a hazard inside a kernel gives wrong values;
    None runs each kernel in one block. Temporaries live in one poisoned arena with guard zones, exactly as
    planned.

    `bindings` gives values to Variables by name, over those that they were bound to.

    Raises :class:`InputError` for inputs that do not fit, :class:`BindError` for Variables,
    :class:`CallError` for what is no Schedule.
    """
    if order is not None and order < 0:
        raise InputError(f"order {order}: a seed is not negative")
    memory = execute(schedule, inputs, order, bindings)
    values = bind(schedule.variables, bindings)
    return tuple(
        np.array(evaluate_expression(with_values(out, values), lambda p: memory[p.arg.slot]), copy=True)
        for out in schedule.outputs
    )


def with_values(node: UOp, values: Mapping[str, int]) -> UOp:
    """An expression with its Variables replaced by constants."""
    constants = {v: UOp.const(values[v.expr]) for v in node.toposort() if v.is_variable and v.expr in values}
    return node.substitute(constants, name="bind", walk=True)


def execute(
    schedule: Schedule,
    inputs: InputLike = None,
    order: int | None = None,
    bindings: Mapping[str, int] | None = None,
) -> list[Array]:
    """Run every item; the array of each buffer of ``schedule.buffers`` afterwards."""
    given = bind_inputs(schedule, inputs)
    values = bind(schedule.variables, bindings)
    arena = np.full(schedule.arena.nbytes + 2 * _GUARD, _POISON, np.uint8)
    memory = [_allocate(i, buffer, schedule, given, arena) for i, buffer in enumerate(schedule.buffers)]
    rng = None if order is None else np.random.default_rng(order)
    born: set[int] = set()
    for item in schedule.items:
        for b in set(item.touched) - born:
            # what stood at the place of a temporary before its life is no value of it
            if schedule.buffers[b].role is Role.TEMPORARY:
                memory[b].reshape(-1).view(np.uint8)[...] = _POISON
            born.add(b)
        if isinstance(item, Copy):
            _copy(item, memory)
            continue
        for device, launch in enumerate(item.launches):
            known = {**values, DEVICE_NUMBER: device} if item.others else values
            body = with_values(item.body, known) if known else item.body
            run_kernel(body, [memory[b] for b in launch], rng)
    _check_guards(schedule, arena)
    return memory


def _check_guards(schedule: Schedule, arena: Array) -> None:
    """Raise :class:`ScheduleError` when a byte around the arena, or between temporaries, has changed."""
    free = np.ones(arena.size, np.bool_)
    for index, offset in schedule.arena.offsets.items():
        start = max(_GUARD + offset, 0)
        free[start : start + schedule.buffers[index].nbytes] = False
    free[:_GUARD] = free[_GUARD + schedule.arena.nbytes :] = True
    touched = np.flatnonzero(free & (arena != _POISON))
    if touched.size:
        place = int(touched[0]) - _GUARD
        inside = 0 <= place < schedule.arena.nbytes
        where = "between the temporaries of" if inside else "outside"
        raise ScheduleError("run", f"a kernel wrote {where} the arena (byte {place})")


def _copy(copy: Copy, memory: list[Array]) -> None:
    destination = memory[copy.destination]
    run = memory[copy.source].reshape(-1)[copy.offset : copy.offset + destination.size]
    destination[...] = run.reshape(destination.shape)


def _allocate(index: int, buffer: Buffer, schedule: Schedule, given: dict[int, Array], arena: Array) -> Array:
    dtype = numpy_dtype(buffer.dtype, buffer.name)
    offset = schedule.arena.offsets.get(index)
    if offset is not None:
        start = _GUARD + offset
        return arena[start : start + buffer.nbytes].view(dtype).reshape(buffer.shape)
    if buffer.role is Role.INPUT:
        return given[index]
    if buffer.role is Role.INPUT_OUTPUT:
        return given[index].copy()
    return np.full(buffer.nbytes, _POISON, np.uint8).view(dtype).reshape(buffer.shape)


def bind_inputs(schedule: Schedule, inputs: InputLike) -> dict[int, Array]:
    """The array of every input buffer. Raises :class:`InputError` naming the buffer that is wrong or
    missing.
    """
    names = [schedule.buffers[i].name for i in schedule.inputs]
    if inputs is None:
        given: dict[str, Any] = {}
    elif isinstance(inputs, Mapping):
        given = dict(inputs)
        unknown = sorted(given.keys() - set(names))
        if unknown:
            raise InputError(
                f"no input is called {', '.join(map(repr, unknown))}: there are {', '.join(names)}"
            )
    else:
        if len(inputs) != len(names):
            raise InputError(f"{len(inputs)} arrays for {len(names)} inputs ({', '.join(names)})")
        given = dict(zip(names, inputs, strict=True))
    out = {}
    for i, name in zip(schedule.inputs, names, strict=True):
        buffer = schedule.buffers[i]
        if name in given:
            try:
                array = storage.as_array(given[name])
            except RangeifyError as error:
                raise InputError(f"input {name}: {error}") from None
        else:
            held = None if schedule.nodes is None else storage.contents(schedule.nodes[i])
            if held is None:
                raise InputError(f"input {name} of shape {buffer.shape} has no contents: pass an array")
            array = held
        if array.shape != buffer.shape or array.dtype != numpy_dtype(buffer.dtype, name):
            raise InputError(
                f"input {name} must be {buffer.dtype.name} of shape {buffer.shape}, "
                f"got {array.dtype} of shape {array.shape}"
            )
        out[i] = array
    return out
