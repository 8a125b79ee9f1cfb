"""`ktdflowering-to-dfir`: one program unit per unit kind (dataflowir spec 3.1 to 3.11).

Takes KTDFLow. Leaves DataflowIR: per program one `dataflow.program_unit` for each kind of units, with
logical memory views, vector accesses, copies, FIFO sends and receives, rendezvous and vector operations.
Everything that only depends on the tile is a table of constants; addresses of kernel arguments are symbols,
declared with `symbol.create_id` in the program and in the kernel. Scalar kernel arguments are symbols that
units read as numbers.

Before::

    ktdf_lowering.execute_on %sfu {
      %x = ktdf.read_from_fifo %s : <"L1LU" -> "SFU", 64xf16> -> tensor<1x64xf16>
      ...
    }

After::

    dataflow.program_unit iter_arg : %me -> (%sfu0, %sfu1) : {
      %map = uniform.def_immutable_mapping([%sfu0 -> %l1lu0], [%sfu1 -> %l1lu1]):index
      %from = uniform.query_map(map:%map, key:%me) : index
      %x = dataflow.receive %from : vector<64xf16>
      ...
    }

>>> from dfsched.passes.examples import after, kernel
>>> after("ktdflowering-to-dfir", kernel(),
... r"program_unit")
dataflow.program_unit iter_arg : %arg0 -> (%0) : {
dataflow.program_unit iter_arg : %arg0 -> (%2, %3) : {
dataflow.program_unit iter_arg : %arg0 -> (%4, %5) : {
dataflow.program_unit iter_arg : %arg0 -> (%6, %7) : {
dataflow.program_unit iter_arg : %arg0 -> (%1) : {
"""

from __future__ import annotations

from dfsched.lowering.dfir import lower_to_dfir
from dfsched.passes.base import Group, Pass, PassContext
from ktir.dialects.builtin import Module

__all__ = ["PASS", "run"]


def run(module: Module, context: PassContext) -> Module:
    """Lower every function with work; `LoweringError` with the place otherwise."""
    return lower_to_dfir(module, context.architecture, context.options.profile)


PASS = Pass(
    "ktdflowering-to-dfir", Group.BACKEND, run, "one program unit per unit kind, addresses as symbols"
)
