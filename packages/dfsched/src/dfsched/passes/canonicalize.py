"""`canonicalize`: folding, dead code, single-trip loops, constant subscripts (scheduler spec 2.2, rows 8,
10, 20).

Takes and leaves any module. On top of `ktir.transforms.canonicalize` it opens loops of one trip, removes
loops of no trip and moves constant subscripts of transfers into their maps (see `simplify_loops`).

Before::

    %j8 = arith.muli %j, %c8 : index          // unused
    scf.for %j = %c0 to %c1 step %c1 { data_transfer from %p[%i, %j * 8 + 192] ... }

After::

    data_transfer from %p[%i, 192] ...

>>> from dfsched.passes.examples import example
>>> example("canonicalize", '''
... %c2 = arith.constant 2 : index
... %c3 = arith.constant 3 : index
... %n = arith.muli %c2, %c3 : index
... %d = arith.addi %n, %c2 : index
... "use"(%n) : (index) -> ()
... ''')
%c6 = arith.constant 6 : index
"use"(%c6) : (index) -> ()
"""

from __future__ import annotations

from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.simplify_loops import simplify_loops
from ktir import transforms
from ktir.dialects.builtin import Module

__all__ = ["PASS", "run"]


def run(module: Module, context: PassContext) -> Module:
    """Fold, simplify loops, and fold what that has made constant."""
    return transforms.canonicalize(simplify_loops(transforms.canonicalize(module)))


PASS = Pass("canonicalize", Group.SCHEDULER, run, "fold constants, drop dead code, open single-trip loops")
