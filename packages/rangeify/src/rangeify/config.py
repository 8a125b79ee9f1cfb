"""The configuration record (scheduler spec 18, reading 39)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Self

import attrs

from rangeify.errors import ConfigError

FUSION_MODES = ("reference", "profit", "rows")
ORDERS = ("fifo", "memory")


#: Fields that do not change a schedule.
_NOT_IN_KEY = ("schedule_cache", "cache_directory", "debug", "debug_ranges")


def _boolean(text: str) -> bool:
    if text.lower() in ("1", "true", "yes", "on"):
        return True
    if text.lower() in ("0", "false", "no", "off"):
        return False
    raise ValueError(f"not a boolean: {text!r}")


_FROM_TEXT: dict[str, Callable[[str], Any]] = {"int": int, "bool": _boolean, "str": str}


@attrs.frozen(kw_only=True)
class Config:
    """Everything that steers scheduling. The cache key has every field but those of ``debug`` and of the
    cache.

    - ``schedule_cache``: 0 off, 1 in memory, 2 also on disk, in ``cache_directory`` (empty: the user's).
    - ``fusion``: ``"reference"`` fuses by the rules of scheduler spec 8.2; ``"profit"`` also stores values
      that are expensive to repeat; ``"rows"`` also puts several
      reductions over one row into one kernel (design 10).
    - ``row_bytes``: most bytes that such a kernel keeps for one row, values and loads.
    - ``partial_stage``: 0 stages a whole value when consumers disagree about one axis, 1 only those axes; 2
      also stages what is repeated only along the axes inside of the loops that repeat it, and 3 also
      recomputes reductions over buffers where the stored value would be much larger than what it is made of.
    - ``max_kernel_buffers``: most buffers one kernel may touch (at least 4), 0 for no limit.
    - ``split_reduce``: reductions of at least 32768 elements per result are done in two steps.
    - ``collapse_gathers``: a sum that picks one element by comparing positions becomes a load of it.
    - ``memory_planner``: temporaries share an arena instead of having storage of their own.
    - ``arena_alignment``: bytes, the alignment of every buffer in the host arena.
    - ``fast_math``: also apply rewrites that are not exact for nan, infinities and signed zeros.
    - ``reuse``: repeated blocks, like the layers of a network, are lowered once; the kernels are the same
      without.
    - ``order``: ``"fifo"`` runs kernels in the order in which they become ready, ``"memory"`` searches for
      an order that needs a smaller arena.
    - ``ring``, ``all_to_all``: 0 never, 1 for an all-reduce over more than two devices of more than
      ``ring_threshold`` elements, 2 always; the second wins over the first, and without both every device
      gets every value.
    - ``allreduce_cast``: what was cast up from 16-bit floats to be summed goes over the wire in 16 bits.
    - ``check``: verify the invariants of each stage (1) or not (0).
    - ``debug``: 1 tells (on standard error) about schedules of more than one item and what the arena saves, 3
      about every schedule; ``debug_ranges``: a table of nodes and indices when something is lowered.
    """

    schedule_cache: int = 1
    cache_directory: str = ""
    fusion: str = "rows"
    row_bytes: int = 256 << 10
    partial_stage: int = 0
    max_kernel_buffers: int = 0
    split_reduce: bool = True
    collapse_gathers: bool = True
    memory_planner: bool = True
    arena_alignment: int = 256
    fast_math: bool = False
    reuse: bool = True
    order: str = "fifo"
    ring: int = 1
    all_to_all: int = 0
    ring_threshold: int = 256_000
    allreduce_cast: bool = True
    check: int = 1
    debug: int = 0
    debug_ranges: bool = False

    def __attrs_post_init__(self) -> None:
        for entry in attrs.fields(type(self)):
            value = getattr(self, entry.name)
            if type(value).__name__ != entry.type:
                raise ConfigError(entry.name, f"must be {entry.type}, not {value!r}")
        if self.check not in (0, 1):
            raise ConfigError("check", f"must be 0 or 1, not {self.check!r}")
        if self.schedule_cache not in (0, 1, 2):
            raise ConfigError("schedule_cache", f"must be 0, 1 or 2, not {self.schedule_cache!r}")
        if self.fusion not in FUSION_MODES:
            raise ConfigError("fusion", f"must be one of {', '.join(FUSION_MODES)}, not {self.fusion!r}")
        if self.partial_stage not in (0, 1, 2, 3):
            raise ConfigError("partial_stage", f"must be 0, 1, 2 or 3, not {self.partial_stage!r}")
        if self.max_kernel_buffers != 0 and self.max_kernel_buffers < 4:
            raise ConfigError("max_kernel_buffers", "must be 0 or at least 4 (three operands and a result)")
        if self.order not in ORDERS:
            raise ConfigError("order", f"must be one of {', '.join(ORDERS)}, not {self.order!r}")
        for field in ("ring", "all_to_all"):
            if getattr(self, field) not in (0, 1, 2):
                raise ConfigError(field, f"must be 0, 1 or 2, not {getattr(self, field)!r}")
        if self.row_bytes < 0:
            raise ConfigError("row_bytes", f"must not be negative, got {self.row_bytes}")
        if self.arena_alignment < 1 or self.arena_alignment & (self.arena_alignment - 1):
            raise ConfigError("arena_alignment", "must be a power of two")

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None, **fields: Any) -> Self:
        """The configuration with fields taken from ``RANGEIFY_<FIELD>``; explicit `fields` win."""
        environ = os.environ if environ is None else environ
        for field in attrs.fields(cls):
            text = environ.get(f"RANGEIFY_{field.name.upper()}")
            if text is None or field.name in fields:
                continue
            try:
                fields[field.name] = _FROM_TEXT[str(field.type)](text)
            except ValueError as error:
                raise ConfigError(field.name, f"{error} (from the environment)") from None
        return cls(**fields)

    def key(self) -> tuple[Any, ...]:
        """What of the configuration decides the schedule."""
        return tuple(getattr(self, f.name) for f in attrs.fields(type(self)) if f.name not in _NOT_IN_KEY)
