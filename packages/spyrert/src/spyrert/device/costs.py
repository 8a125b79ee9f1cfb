"""How long operations take, in virtual time (runtime spec 5.7)."""

from __future__ import annotations

import attrs

from spyrert.device.protocol import Direction


@attrs.frozen
class CostModel:
    """Virtual time of operations, in integer nanoseconds, rounded up.

    Linear: a fixed latency plus bytes over bandwidth (bytes per second) for transfers; cycles over the clock
    for programs.
    """

    link_bandwidth: int = 64_000_000_000
    latency_ns: int = 2_000
    clock_hz: int = 1_000_000_000
    fill_bandwidth: int = 200_000_000_000

    def dma_ns(self, size: int, direction: Direction) -> int:
        return self.latency_ns + -(-size * 10**9 // self.link_bandwidth)

    def compute_ns(self, cycles: int) -> int:
        return -(-cycles * 10**9 // self.clock_hz)

    def fill_ns(self, size: int) -> int:
        return self.latency_ns + -(-size * 10**9 // self.fill_bandwidth)
