"""Executing DataflowIR: the modules themselves, not the image that code generation makes of them.

A reader turns the operations into the engine's own program; it shares nothing with `dfsched.codegen`, so
that running DataflowIR and running the image check each other.
"""

from spyresim.dataflow.coordinator import KernelProgram, kernel_image, kernel_program
from spyresim.dataflow.files import DataflowFiles
from spyresim.dataflow.tables import USUAL_STARTS, ConstantStarts

__all__ = [
    "USUAL_STARTS",
    "ConstantStarts",
    "DataflowFiles",
    "KernelProgram",
    "kernel_image",
    "kernel_program",
]
