r"""`ktdf-to-ktdflowering`: pipelines become nested `execute_on`, tokens become signals (dataflowir spec 2).

Takes ScheduleIR: stages name their units, buffers have addresses, grids have one entry. Leaves KTDFLow:
unit handles for every core, a map over the tile id and a query per unit kind at the start of the function,
stages as `ktdf_lowering.execute_on` of these queries, and `ktdf_lowering.signal`s where units must meet
(`dfsched.lowering.hazards` says where and why). No `loop_type` is left.

Before::

    ktdf.pipeline {
      %t = ktdf.private -> (!ktdf.token) { ... }
      ktdf.stage depends_in(none) depends_out(%t) { ...load... } {applicable_units = ["MNILU"]}
      ktdf.stage depends_in(%t) depends_out(none) { ...send... } {applicable_units = ["L1LU"]}
    }

After::

    ktdf_lowering.execute_on %mnilu, %l1lu {
      ktdf_lowering.execute_on %mnilu { ...load... }
      ktdf_lowering.signal %mnilu, %l1lu
      ktdf_lowering.execute_on %l1lu { ...send... }
    }

>>> from dfsched.passes.examples import after, kernel
>>> after("ktdf-to-ktdflowering", kernel(),
... r"signal|execute_on %\w+ {")
ktdf_lowering.execute_on %10 {
ktdf_lowering.signal %10, %14, %16
ktdf_lowering.signal %22, %24, %12
ktdf_lowering.execute_on %12 {
"""

from __future__ import annotations

from dfsched.lowering.back_edges import BackedgeGuard
from dfsched.lowering.ktdflow import lower_to_ktdflow
from dfsched.passes.base import Group, Pass, PassContext, Setting
from ktir.dialects.builtin import Module

__all__ = ["BACKEDGE_GUARD", "PASS", "run"]

NAME = "ktdf-to-ktdflowering"

BACKEDGE_GUARD = Setting(NAME, "backedge-guard", BackedgeGuard.LINEAR, BackedgeGuard)
"""``linear`` or ``and``: see `BackedgeGuard`."""


def run(module: Module, context: PassContext) -> Module:
    """Lower every function with stages; `LoweringError` with the place otherwise."""
    return lower_to_ktdflow(module, context.architecture, context.setting(BACKEDGE_GUARD))


PASS = Pass(
    NAME,
    Group.BACKEND,
    run,
    "stages become code of units, tokens become signals",
    settings=(BACKEDGE_GUARD,),
)
