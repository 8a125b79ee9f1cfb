"""Graphs: record what a thread enqueues, replay it with other tensors and scalars (runtime spec 3.22).

:mod:`~spyrert.graph.capture` records, :mod:`~spyrert.graph.replay` enqueues a recorded sequence as one atomic
group, :mod:`~spyrert.graph.buckets` is the finite ladder of sizes that serving programs warm up.
"""

from spyrert.graph.buckets import ShapeBucketer
from spyrert.graph.capture import Graph, Slot
from spyrert.graph.replay import GraphInstance, ReplayTicket

__all__ = ["Graph", "GraphInstance", "ReplayTicket", "ShapeBucketer", "Slot"]
