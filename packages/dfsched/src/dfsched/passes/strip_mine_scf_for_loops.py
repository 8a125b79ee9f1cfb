"""`strip-mine-scf-for-loops`: a tile loop and a point loop for single loops (scheduler spec 3.9).

Takes normal loops. With `strip-mine-size` every loop is split by that size. Without it only loops that are
alone are split (no loop around them, none inside), and their sizes stay open until `tile-size-selection`.
Leaves the form that `tile-scf-for-loops` makes. Not in the pipeline: there, the plan tiles single loops too.

Before::

    scf.for %i = %c0 to %c8 step %c1 { use(%i) }

After, with size 3::

    %n = arith.ceildivui %c8, %c3 : index
    scf.for %a = %c0 to %n step %c1 {
      %d = ktdf.tiling.derive_size [%a : %c3], total_size = %c8 : index
      scf.for %b = %c0 to %d step %c1 {
        %i = ktdf.tiling.linearize_index [%a : %c3], [%b : %c1] : index
        use(%i)

>>> from dfsched.passes.examples import example
>>> example("strip-mine-scf-for-loops", '''
... %c0 = arith.constant 0 : index
... %c1 = arith.constant 1 : index
... %c8 = arith.constant 8 : index
... scf.for %i = %c0 to %c8 step %c1 {
...   "use"(%i) : (index) -> ()
... }
... ''', strip_mine_size="4")
%c0 = arith.constant 0 : index
%c1 = arith.constant 1 : index
%c8 = arith.constant 8 : index
%c0_0 = arith.constant 0 : index
%c1_1 = arith.constant 1 : index
%c4 = arith.constant 4 : index
%0 = arith.ceildivui %c8, %c4 : index
scf.for %arg0 = %c0_0 to %0 step %c1_1 {
  %1 = ktdf.tiling.derive_size [%arg0 : %c4], total_size = %c8 : index
  scf.for %arg1 = %c0_0 to %1 step %c1_1 {
    %2 = ktdf.tiling.linearize_index [%arg0 : %c4], [%arg1 : %c1_1] : index
    "use"(%2) : (index) -> ()
  }
}
"""

from __future__ import annotations

from dfsched.passes.base import Group, Pass, PassContext, Setting, numbers
from dfsched.passes.errors import ScheduleError
from dfsched.passes.ir_tools import Definitions
from dfsched.passes.tile_scf_for_loops import strip_mined
from ktir.dialects import scf
from ktir.dialects.builtin import Module

__all__ = ["PASS", "SIZE", "run"]

NAME = "strip-mine-scf-for-loops"

SIZE: Setting[tuple[int, ...]] = Setting(NAME, "strip-mine-size", (), numbers)
"""The first entry is the size of every loop's tiles."""


def run(module: Module, context: PassContext) -> Module:
    """Split loops; `ScheduleError` if the size is not positive."""
    sizes = context.setting(SIZE)
    size = sizes[0] if sizes else None
    if size is not None:
        if size < 1:
            raise ScheduleError.at(module.location, f"the strip-mine size must be positive, but is {size}")
        return strip_mined(module, size, lambda loop: True)
    definitions = Definitions(module)

    def is_alone(loop: scf.For) -> bool:
        around = any(isinstance(outer, scf.For) for outer in definitions.ancestors(loop))
        return not around and not any(isinstance(op, scf.For) for op in loop.walk() if op is not loop)

    return strip_mined(module, None, is_alone)


PASS = Pass(NAME, Group.SCHEDULER, run, "split single loops", settings=(SIZE,))
