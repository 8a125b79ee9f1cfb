"""The dialects that ktir ships, one module each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ktir.context import Dialect
from ktir.dialects import affine, arith, builtin, cf, func, ktdp, linalg, math, memref, scf, spyreop, tensor
from ktir.dialects.ktdp import discardable
from ktir.errors import Diagnostic
from ktir.ir import Operation

DIALECTS: tuple[Dialect, ...] = (
    affine.DIALECT,
    arith.DIALECT,
    builtin.DIALECT,
    cf.DIALECT,
    func.DIALECT,
    ktdp.DIALECT,
    linalg.DIALECT,
    math.DIALECT,
    memref.DIALECT,
    scf.DIALECT,
    spyreop.DIALECT,
    tensor.DIALECT,
)


def dialects(proposed: bool = False) -> tuple[Dialect, ...]:
    """The shipped dialects; with `proposed`, ktdp has its proposed operations, too."""
    if not proposed:
        return DIALECTS
    return tuple(ktdp.PROPOSED_DIALECT if dialect is ktdp.DIALECT else dialect for dialect in DIALECTS)


DISCARDABLE_CHECKS: dict[str, Callable[[Operation], Iterator[str | Diagnostic]]] = {
    "builtin.module": discardable.verify_module,
    "func.func": discardable.verify_function,
}
"""Checks of a dialect's attributes on operations of other dialects, by operation name."""
