"""The dialects that ktir ships, one module each."""

from __future__ import annotations

from ktir.context import Dialect
from ktir.dialects import affine, arith, builtin, cf, func, ktdp, linalg, math, memref, scf, spyreop, tensor

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
