"""The concurrent executor: processes of a device program with queues, signals, memories and time.

It runs `dfsched.image.Image`s: those decoded from a device image, and those that `spyresim.dataflow` reads
from DataflowIR text.  Cores that run the same code run together: every register is an array over cores.
"""

from spyresim.engine.costs import CostModel
from spyresim.engine.machine import Machine, Options, Outcome
from spyresim.engine.memories import FlatGlobal, GlobalMemory

__all__ = ["CostModel", "FlatGlobal", "GlobalMemory", "Machine", "Options", "Outcome"]
