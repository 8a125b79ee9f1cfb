"""`loop-invariant-code-motion`: index arithmetic, views and casts move out of loops.

Takes and leaves any module; pure operations directly in an ``scf.for`` whose operands come from outside
move in front of it. Stages and pipelines are not entered.

Before::

    scf.for %i = ... { %s = memref.memory_space_cast %v ...  data_transfer from %s[%i, 0] ... }

After::

    %s = memref.memory_space_cast %v ...
    scf.for %i = ... { data_transfer from %s[%i, 0] ... }

>>> from dfsched.passes.examples import example
>>> example("loop-invariant-code-motion", '''
... %c0 = arith.constant 0 : index
... %c1 = arith.constant 1 : index
... scf.for %i = %c0 to %n step %c1 {
...   %d = arith.addi %n, %c1 : index
...   "use"(%i, %d) : (index, index) -> ()
... }
... ''', arguments="%n: index")
%c0 = arith.constant 0 : index
%c1 = arith.constant 1 : index
%0 = arith.addi %n, %c1 : index
scf.for %arg0 = %c0 to %n step %c1 {
  "use"(%arg0, %0) : (index, index) -> ()
}
"""

from __future__ import annotations

from dfsched.passes.base import Group, Pass, PassContext
from ktir import transforms
from ktir.dialects.builtin import Module

__all__ = ["PASS", "run"]


def run(module: Module, context: PassContext) -> Module:
    """Hoist in every loop, inner ones first."""
    return transforms.licm(module)


PASS = Pass("loop-invariant-code-motion", Group.SCHEDULER, run, "move invariant operations out of loops")
