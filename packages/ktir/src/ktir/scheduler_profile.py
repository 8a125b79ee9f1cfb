"""Level D: what the first published version of the open scheduler takes (KTIR spec 1.14).

A program beyond this profile may be perfectly good KTIR, and later versions take more.
"""

from __future__ import annotations

from collections.abc import Iterator

from ktir.dialects import linalg, scf
from ktir.errors import Diagnostic, Note
from ktir.ir import Operation

__all__ = ["scheduler_v1"]

_BODY = ("arith.addf", "arith.mulf", "arith.subf", "linalg.yield")
_NAMED = ("linalg.add", "linalg.mul", "linalg.sub", "linalg.reduce", "linalg.yield", "linalg.generic")
_WITHOUT = ("ktdp.construct_distributed_memory_view", "ktdp.construct_indirect_access_tile")


def scheduler_v1(module: Operation) -> tuple[Diagnostic, ...]:
    """The first violation in pre-order, if there is one: that version stops there."""
    first = next(_violations(module), None)
    return () if first is None else (first,)


def _violations(module: Operation) -> Iterator[Diagnostic]:
    stack: list[Operation] = [module]
    while stack:
        op = stack.pop()
        yield from _of_operation(op)
        if isinstance(op, linalg.Generic):
            yield from _of_body(op)
            continue
        stack += [
            inner
            for region in reversed(op.regions)
            for block in reversed(region.blocks)
            for inner in reversed(block.operations)
        ]


def _of_operation(op: Operation) -> Iterator[Diagnostic]:
    match op:
        case scf.For() if op.inits:
            yield _refused(
                op,
                "V1 does not support scf.for with loop-carried arguments (iter_args)",
                "keep what the loop accumulates in memory, or unroll the loop",
            )
        case scf.While():
            yield _refused(op, "V1 does not support scf.while loops", "count with scf.for")
        case _ if op.name in _WITHOUT:
            yield _refused(op, f"V1 does not support {op.name}", "use plain views and direct access tiles")
        case _ if op.name.startswith("linalg.") and op.name not in _NAMED:
            yield _refused(
                op,
                "V1 only supports add/mul/sub/reduce compute ops; found unsupported compute op",
                f"'{op.name}' is none of {', '.join(_NAMED)}",
            )


def _of_body(generic: linalg.Generic) -> Iterator[Diagnostic]:
    for inner in generic.walk():
        if inner is not generic and inner.name not in _BODY and not inner.name.startswith("spyreop."):
            yield _refused(
                inner,
                "V1 only supports add/mul/sub compute ops; found unsupported compute op",
                f"'{inner.name}' is none of {', '.join(_BODY)} and no spyreop",
            )


def _refused(op: Operation, message: str, note: str) -> Diagnostic:
    return Diagnostic(message, op.location, notes=(Note(note),))
