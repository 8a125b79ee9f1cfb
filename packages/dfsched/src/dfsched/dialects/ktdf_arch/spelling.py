"""Names that nearly are the name of a property: a device file that means something and says nothing.

Attributes that the dialect does not know are kept and mean nothing to it, so a misspelt one would silently
leave the default in force.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from dfsched.dialects.ktdf_arch.types import MapAttr
from ktir.attribute import Attribute
from ktir.attributes import ArrayAttr, DictAttr
from ktir.errors import Diagnostic, Note

__all__ = ["ACCESS_FIELDS", "ATTRIBUTES", "FEATURE_FIELDS", "feature_findings", "spelling_findings"]

ATTRIBUTES: tuple[str, ...] = (
    "id",
    "kind",
    "size",
    "version",
    "connectivity",
    "mem_space_mapping",
    "dataflow_scheduler.double_buffer_last",
    "ktdf_ext.bandwidth",
    "ktdf_ext.clock_hz",
    "ktdf_ext.core_span_bytes",
    "ktdf_ext.fifo_latency",
    "ktdf_ext.latency",
    "ktdf_ext.memory_latency",
    "ktdf_ext.num_cores",
    "ktdf_ext.reserved",
    "ktdf_ext.ring_bytes_per_cycle",
    "ktdf_ext.stick_bytes",
    "ktdf_ext.sync_latency",
    "ktdf_ext.systolic",
)
"""Attributes of devices and resources that mean something, without those in ``ktdf_arch.``."""

FEATURE_FIELDS: dict[str, tuple[str, ...]] = {
    "load": ("word_size", "access_granularity"),
    "store": ("word_size", "access_granularity"),
    "simd": ("lanes", "splat", "zero_pad"),
    "queue": ("ordered", "size", "depth"),
    "indirect_address_buffer": ("num_entries", "entry_type"),
    "register_file": ("word_size",),
}
"""Fields of each feature."""

ACCESS_FIELDS = ("size_in_words", "align_in_words")
"""Fields of one entry of ``access_granularity``."""

ALIKE = 0.75
"""How alike two names are that one may have been meant for the other (1 is equal)."""


def spelling_findings(name: str, known: Iterable[str], what: str) -> Iterator[Diagnostic]:
    """A finding if a name is not among the known ones but much like one of them."""
    names = tuple(known)
    if name in names:
        return
    for found in get_close_matches(name, names, 1, ALIKE):
        yield Diagnostic(f"unrecognized {what} '{name}'", notes=(Note(f"did you mean '{found}'?"),))


def feature_findings(feature: str, short: str, record: Attribute) -> Iterator[Diagnostic]:
    """Findings for the fields of one feature."""
    if not isinstance(record, DictAttr):
        return
    for field, value in record.items():
        yield from spelling_findings(field, FEATURE_FIELDS.get(short, ()), f"field of '{feature}'")
        if field != "access_granularity":
            continue
        for entry in _entries(value):
            for part in entry:
                yield from spelling_findings(part, ACCESS_FIELDS, f"field of an access of '{feature}'")


def _entries(value: Attribute) -> Iterator[DictAttr]:
    for entries in value.values() if isinstance(value, MapAttr) else ():
        if isinstance(entries, ArrayAttr):
            yield from (entry for entry in entries if isinstance(entry, DictAttr))
