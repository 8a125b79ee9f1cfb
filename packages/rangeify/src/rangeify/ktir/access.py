"""Index expressions as coordinates: a loop variable plus a constant, per host dimension."""

from __future__ import annotations

import attrs

from rangeify.errors import UnsupportedError
from rangeify.kernels import loops_of, store_of
from rangeify.schedule_types import Kernel
from uopgraph import Ops, UOp, infix


@attrs.frozen
class Coordinate:
    """``loop + constant``; ``loop`` is the position among the kernel's output loops, None for a constant."""

    loop: int | None
    constant: int = 0


@attrs.frozen
class Access:
    """One load or the store of a kernel: the argument slot and a coordinate per host dimension."""

    slot: int
    coordinates: tuple[Coordinate, ...]


@attrs.frozen(eq=False)
class KernelAccesses:
    """The memory side of an element-wise kernel. ``extents``: of its output loops, in loop order.
    ``loads``: INDEX node -> access, in order of first use."""

    extents: tuple[int, ...]
    store: Access
    loads: dict[UOp, Access]


def kernel_accesses(kernel: Kernel) -> KernelAccesses:
    """The accesses of an element-wise kernel. Raises :class:`UnsupportedError` naming the kernel and the
    operation for anything else than plain loops, constants, and constant offsets."""
    body, where = kernel.body, f"kernel {kernel.function_name}"
    outer, reduced = loops_of(body)
    if reduced:
        ops = sorted({n.arg[0].name for n in body.toposort() if n.op is Ops.REDUCE})
        raise UnsupportedError(f"lowering of a reduction (REDUCE {', '.join(ops)})", where)
    extents = []
    for r in outer:
        if r.src[0].op is not Ops.CONST:
            raise UnsupportedError(f"a loop with the symbolic bound {infix(r.src[0])}", where)
        extents.append(int(r.src[0].arg))
    number = {r: i for i, r in enumerate(outer)}
    target, value = store_of(body).src[:2]
    store = _access(target, number, where)
    used = [c.loop for c in store.coordinates if c.loop is not None]
    if sorted(used) != list(range(len(outer))):
        raise UnsupportedError(f"a store to {infix(target)}", where)
    loads = {}
    for node in value.toposort(gate=lambda n: n.op is not Ops.PARAM):
        if node.op is Ops.INDEX:
            loads[node] = _access(node, number, where)
    return KernelAccesses(tuple(extents), store, loads)


def _access(index: UOp, number: dict[UOp, int], where: str) -> Access:
    coordinates = tuple(_coordinate(i, number, where) for i in index.src[1:])
    loops = [c.loop for c in coordinates if c.loop is not None]
    if len(set(loops)) < len(loops):
        raise UnsupportedError(f"an access {infix(index)} that walks a diagonal", where)
    return Access(index.src[0].arg.slot, coordinates)


def _coordinate(index: UOp, number: dict[UOp, int], where: str) -> Coordinate:
    if index.op is Ops.CONST and not index.is_invalid:
        return Coordinate(None, int(index.arg))
    rest, constant = index.pop_const()
    if rest in number and isinstance(constant, int):
        return Coordinate(number[rest], constant)
    raise UnsupportedError(f"an access at index {infix(index)}", where)
