"""Collectives: what the ranks of a group of devices exchange, in stream order (runtime spec 3.20).

Every rank posts the same sequence of collectives. A collective is a handful of operations on a stream of
each rank: wait until all have posted, copy to the host, wait for the ranks whose data is needed, combine,
copy to the device. Ranks are matched by the number of the collective in their sequence; a mismatch, a failed
rank or one that never comes fails the streams of all others, so that nobody hangs.

Sums are left folds in ascending order of ranks with one rounding per addition: equal bits on every rank, in
every run.
"""

from spyrert.collectives.communicator import Communicator
from spyrert.collectives.meeting import CollectiveTicket
from spyrert.collectives.rank import Rank

__all__ = ["CollectiveTicket", "Communicator", "Rank"]
