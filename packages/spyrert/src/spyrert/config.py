"""Configuration of a runtime: explicit fields win over environment variables (runtime spec 3.24)."""

from __future__ import annotations

import enum
import os
from collections.abc import Mapping
from typing import Final

import attrs

from spyrert.errors import ConfigError
from spyrert.memory.allocator import RegionOrder


class Progress(enum.Enum):
    """Who makes operations move: a worker thread, or blocking calls and ``Runtime.pump``."""

    THREAD = "thread"
    MANUAL = "manual"


class Overlap(enum.Enum):
    """How the steps of a launch are spread over streams (runtime spec 3.10)."""

    OFF = "off"
    TWO_STREAM = "two_stream"
    THREE_STAGE = "three_stage"


GIB: Final = 1 << 30


@attrs.frozen
class RuntimeConfig:
    """How a runtime behaves. Build it with :meth:`from_environment` to honour the variables.

    Args:
        progress: who makes operations move.
        tensor_region_bytes: size of each of the (at most 5) tensor regions; ``None`` tries 12, 8, 4 GiB and
            then equal shares of what the device has.
        tensor_regions: how many tensor regions (segments 1..5).
        program_region_bytes, dynamic_region_bytes: sizes of the regions of segments 7 and 6; ``None``
            likewise.
        region_order: which region the allocator tries first.
        allow_tiled_launch: default for ``launch``.
        hazard_tracker: order operations of different streams by what they touch.
        overlap: how the steps of a launch are spread over streams.
        plan_replicas: copies of a plan's static block.
        host_compute_streams: 1..8.
        correction_arena_depth: correction buffers per stream that are in use at once.
        correction_region_bytes: greatest size of a pooled correction buffer.
        max_inflight_launches: launches that may wait; further ones block the caller.
        max_tiles: greatest number of tiles of one launch.
        verify_load: read images back after loading.
        timeout_ns: virtual time after which an operation of the device faults; 0 is never.
        host_ns: virtual duration of a host function.
        host_timeout: seconds after which a host function that does not return fails its stream; ``None`` is
            never.
        track_validity: refuse to read what failed operations may have damaged.
        shutdown_timeout: seconds to drain at the end.
        debug: write a line to stderr for each plan that is prepared and each launch.
    """

    progress: Progress = Progress.THREAD
    tensor_region_bytes: int | None = None
    tensor_regions: int = 5
    program_region_bytes: int | None = None
    dynamic_region_bytes: int | None = None
    region_order: RegionOrder = RegionOrder.MOST_FREE
    allow_tiled_launch: bool = True
    hazard_tracker: bool = False
    overlap: Overlap = Overlap.OFF
    plan_replicas: int = 1
    host_compute_streams: int = 4
    correction_arena_depth: int = 2
    correction_region_bytes: int = 1 << 20
    max_inflight_launches: int = 1024
    max_tiles: int = 65536
    verify_load: bool = False
    timeout_ns: int = 0
    host_ns: int = 0
    host_timeout: float | None = None
    track_validity: bool = False
    shutdown_timeout: float = 5.0
    debug: bool = False

    def __attrs_post_init__(self) -> None:
        checks = (
            (1 <= self.tensor_regions <= 5, "tensor_regions must be 1..5"),
            (self.plan_replicas >= 1, "plan_replicas must be at least 1"),
            (1 <= self.host_compute_streams <= 8, "host_compute_streams must be 1..8"),
            (self.correction_arena_depth >= 1, "correction_arena_depth must be at least 1"),
            (self.max_inflight_launches >= 1, "max_inflight_launches must be at least 1"),
            (self.host_timeout is None or self.host_timeout > 0, "host_timeout must be positive"),
            (self.host_ns >= 0 and self.timeout_ns >= 0, "durations must not be negative"),
        )
        for good, text in checks:
            if not good:
                raise ConfigError(text)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None, **explicit: object) -> RuntimeConfig:
        """Configuration from the environment; keyword arguments win. Unknown values raise ``ConfigError``."""
        environ = os.environ if environ is None else environ
        found: dict[str, object] = {}
        for variable, (field, read) in _VARIABLES.items():
            if variable in environ and field not in explicit:
                try:
                    found[field] = read(environ[variable])
                except ValueError:
                    raise ConfigError(f"{variable}={environ[variable]!r} is not understood") from None
        return cls(**(found | explicit))  # type: ignore[arg-type]


def _flag(text: str) -> bool:
    table = {"1": True, "true": True, "on": True, "0": False, "false": False, "off": False}
    try:
        return table[text.lower()]
    except KeyError:
        raise ValueError(text) from None


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def _host_streams(text: str) -> int:
    return min(_positive(text), 8)


_VARIABLES: Final = {
    "SPYRE_ALLOW_TILED_LAUNCH": ("allow_tiled_launch", _flag),
    "SPYRE_HAZARD_TRACKER": ("hazard_tracker", _flag),
    "TORCH_SPYRE_DEBUG": ("debug", _flag),
    "TORCH_SPYRE_NUM_HOST_COMPUTE_STREAMS": ("host_compute_streams", _host_streams),
    "SPYRE_CORRECTION_ARENA_DEPTH": ("correction_arena_depth", _positive),
    "SPYRE_CORRECTION_ARENA_MAX_REGION_SIZE": ("correction_region_bytes", _positive),
}
