"""From Tensors to a Schedule: callify, lower, bind storage, plan memory (scheduler spec 1, 13 and 15)."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import attrs

from rangeify.callify import check_call, transform_to_call
from rangeify.config import Config
from rangeify.lowering import Lowered, lower_call
from rangeify.memory import lifetimes, place
from rangeify.schedule_types import Arena, Buffer, Kernel, Role, Schedule, Variable
from rangeify.tensor import Tensor
from uopgraph import Ops, UOp


@attrs.frozen(eq=False)
class Built:
    """A Schedule and what every value that gets storage becomes once it has run."""

    schedule: Schedule
    buffer_map: Mapping[UOp, UOp]


def schedule(*tensors: Tensor, config: Config | None = None) -> Schedule:
    """The kernels that compute `tensors`, in order, with their buffers and an arena for temporaries.

    Pure: no Tensor changes and nothing is computed. Tensors that are constants or have storage need no
    kernel.
    """
    return build(tensors, Config.from_environment() if config is None else config).schedule


def build(tensors: tuple[Tensor, ...], config: Config, holders: tuple[UOp, ...] = ()) -> Built:
    """Schedule `tensors` and tell where every stored value will be. `holders`: values whose storage must not
    be overwritten, besides those of `tensors`."""
    with _uncollected():
        sink = UOp.make_sink(*(t.uop for t in tensors))
        result = transform_to_call(sink, frozenset(), holders)
        if config.check:
            check_call(result.call)
        lowered = lower_call(result.call, config)
        mentioned = [n for n in sink.toposort() if n.op is Ops.BUFFER]
        free = {n: n.unbound() for n in sink.toposort() if n.is_bound_var}
        outputs = [
            t.uop.substitute({**result.buffer_map, **free}, name="outputs", walk=True) for t in tensors
        ]
        made = _Made(lowered, result.call.src[1:], mentioned, outputs, result.variables)
        return Built(made.schedule(config), result.buffer_map)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Run a block without the cyclic collector: nodes form no cycles, and it would walk all of them again and
    again while they are built."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@attrs.frozen(eq=False)
class _Made:
    lowered: Lowered
    arguments: tuple[UOp, ...]
    mentioned: list[UOp]
    outputs: list[UOp]
    values: Mapping[UOp, int | None]

    def _variables(self) -> tuple[Variable, ...]:
        """Exactly the Variables that an item or an output uses, by name."""
        users = [*(c.src[0] for c in self.lowered.linear.src), *self.outputs]
        used = {v for u in users for v in u.toposort() if v.is_variable}
        found = []
        for v, value in self.values.items():
            if v in used:
                low, high = v.arg.vmin_vmax
                found.append(Variable(v.expr, low, high, v.arg.multiple_of or 1, value))
        return tuple(sorted(found, key=lambda v: v.name))

    def schedule(self, config: Config) -> Schedule:
        calls = self.lowered.linear.src
        written = {c.src[1] for c in calls}
        params = {p: self.arguments[p.arg.slot] for c in calls for p in c.src[1:] if p.op is Ops.PARAM}
        role = {}
        for p, buffer in params.items():
            held = buffer in self.mentioned
            role[buffer] = (Role.INPUT_OUTPUT if held else Role.OUTPUT) if p in written else Role.INPUT
        seen_outside = [b for out in self.outputs for b in out.toposort() if b.op is Ops.BUFFER]
        for buffer in seen_outside:
            fresh = buffer not in self.mentioned
            role.setdefault(buffer, Role.OUTPUT if fresh else Role.INPUT)
        inputs = [b for b in self.mentioned if b in role and role[b] is not Role.OUTPUT]
        others = [b for b in (*seen_outside, *params.values()) if role[b] is Role.OUTPUT]
        allocs = list(dict.fromkeys(a for c in calls for a in c.src[1:] if a.op is Ops.ALLOC))
        nodes = (*inputs, *dict.fromkeys(others), *allocs)
        number = {n: i for i, n in enumerate(nodes)}
        buffers, count = [], {"in": 0, "out": 0, "t": 0}
        for node in nodes:
            kind = role.get(node, Role.TEMPORARY)
            prefix = {Role.OUTPUT: "out", Role.TEMPORARY: "t"}.get(kind, "in")
            reason = self.lowered.reasons.get(node.arg.slot, "") if kind is Role.TEMPORARY else ""
            shape = tuple(int(d) for d in node.shape)
            buffers.append(
                Buffer(f"{prefix}{count[prefix]}", shape, node.dtype, str(node.device), kind, reason)
            )
            count[prefix] += 1
        items = tuple(Kernel(c.src[0], tuple(number[params.get(a, a)] for a in c.src[1:])) for c in calls)
        slots = {n: n.param_like(i) for n, i in number.items()}
        return Schedule(
            items,
            tuple(buffers),
            plan_arena(items, buffers, config),
            tuple(number[b] for b in inputs),
            tuple(o.substitute(slots, name="number outputs", walk=True) for o in self.outputs),
            self._variables(),
            nodes,
        )


def plan_arena(items: tuple[Kernel, ...], buffers: list[Buffer], config: Config) -> Arena:
    """Place the temporaries of the item list in one arena (scheduler spec 15)."""
    if not config.memory_planner:
        return Arena()
    sizes = {i: b.nbytes for i, b in enumerate(buffers) if b.role is Role.TEMPORARY}
    placement = place(lifetimes((k.buffers for k in items), sizes), config.arena_alignment)
    return Arena(placement.nbytes, config.arena_alignment, placement.offsets)
