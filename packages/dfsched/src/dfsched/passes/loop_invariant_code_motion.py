"""`loop-invariant-code-motion`: index arithmetic, views and casts move out of loops.

Takes and leaves any module; pure operations directly in an ``scf.for`` whose operands come from outside
move in front of it. Stages and pipelines are not entered.

Before::

    scf.for %i = ... { %s = memref.memory_space_cast %v ...  data_transfer from %s[%i, 0] ... }

After::

    %s = memref.memory_space_cast %v ...
    scf.for %i = ... { data_transfer from %s[%i, 0] ... }
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
