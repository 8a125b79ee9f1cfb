"""What resources can do: the features of `ktdf_arch` as frozen records, and their matching.

Facts, defaults and the matching rules are those of device spec 1.7. Sizes of words and records are
bytes, sizes of accesses are words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from attrs import field, frozen

from dfsched.architecture.kinds import Kind

__all__ = [
    "NO_FEATURES",
    "Access",
    "AddressBuffer",
    "Features",
    "Queue",
    "RegisterFile",
    "Simd",
    "Transfer",
    "fit_access",
]

V = TypeVar("V")


@frozen
class Access:
    """The largest number of words one access moves and the least alignment (in words) it needs."""

    size_in_words: int
    align_in_words: int = 1


def fit_access(accesses: Iterable[Access], min_size: int, max_align: int | None = None) -> Access | None:
    """The smallest access of at least ``min_size`` words that needs at most ``max_align``.

    Among equal sizes the smallest alignment wins, among equal entries the last. None if nothing
    qualifies; ``max_align`` None means any alignment.
    """
    best: Access | None = None
    for access in accesses:
        if access.size_in_words < min_size or (max_align is not None and access.align_in_words > max_align):
            continue
        key = (access.size_in_words, access.align_in_words)
        if best is None or key <= (best.size_in_words, best.align_in_words):
            best = access
    return best


def _word_entries(
    value: Mapping[Kind, int] | Iterable[tuple[Kind, int]],
) -> tuple[tuple[Kind, int], ...]:
    return tuple(value.items()) if isinstance(value, Mapping) else tuple(value)


def _access_entries(
    value: Mapping[Kind, tuple[Access, ...]] | Iterable[tuple[Kind, tuple[Access, ...]]],
) -> tuple[tuple[Kind, tuple[Access, ...]], ...]:
    return tuple(value.items()) if isinstance(value, Mapping) else tuple(value)


def _lookup(entries: Iterable[tuple[Kind, V]], key: Kind) -> V | None:
    return next((value for name, value in entries if name == key), None)


def _lanes(value: Mapping[str, int] | Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    return tuple(value.items()) if isinstance(value, Mapping) else tuple(value)


@frozen
class Transfer:
    """Feature `load` or `store`: word sizes (bytes) and permitted accesses (words) per memory kind."""

    word_sizes: tuple[tuple[Kind, int], ...] = field(default=(), converter=_word_entries)
    accesses: tuple[tuple[Kind, tuple[Access, ...]], ...] = field(default=(), converter=_access_entries)

    def word_size(self, memory: Kind) -> int:
        """Bytes per word when this unit addresses ``memory``; 1 where nothing is said."""
        return _lookup(self.word_sizes, memory) or 1

    def access_list(self, memory: Kind) -> tuple[Access, ...] | None:
        """Permitted accesses to ``memory``, or None if the feature does not list that memory."""
        return _lookup(self.accesses, memory)

    def satisfies(self, required: Transfer) -> bool:
        for memory, size in required.word_sizes:
            if self.word_size(memory) != size:
                return False
        for memory, needed in required.accesses:
            if not needed:
                continue
            provided = self.access_list(memory)
            if provided is None:
                return False
            if any(fit_access(provided, a.size_in_words, a.align_in_words) is None for a in needed):
                return False
        return True


@frozen
class Simd:
    """Feature `simd`: lanes per scalar type (its text, e.g. ``"f16"``), splat and zero padding."""

    lanes: tuple[tuple[str, int], ...] = field(default=(), converter=_lanes)
    splat: bool = False
    zero_pad: bool = False

    def lanes_of(self, element_type: str) -> int:
        """Lanes for one scalar type; 0 means that the type is not supported."""
        return next((lanes for name, lanes in self.lanes if name == element_type), 0)

    def satisfies(self, required: Simd) -> bool:
        if (required.splat and not self.splat) or (required.zero_pad and not self.zero_pad):
            return False
        provided = dict(self.lanes)
        return all(name in provided and provided[name] >= lanes for name, lanes in required.lanes)


@frozen
class Queue:
    """Feature `queue` of a link: ordering, bytes in flight (``size``), transfers in flight (``depth``)."""

    ordered: bool = False
    size: int | None = None
    depth: int | None = None

    def satisfies(self, required: Queue) -> bool:
        if required.ordered and not self.ordered:
            return False
        for provided, needed in ((self.size, required.size), (self.depth, required.depth)):
            if needed is not None and (provided is None or provided < needed):
                return False
        return True


@frozen
class AddressBuffer:
    """Feature `indirect_address_buffer` of a memory: number of entries and their integer type."""

    num_entries: int | None = None
    entry_type: str | None = None


@frozen
class RegisterFile:
    """Feature `register_file` of a memory: bytes per register."""

    word_size: int | None = None

    def satisfies(self, required: RegisterFile) -> bool:
        return required.word_size is None or required.word_size == self.word_size


@frozen
class Features:
    """All features of one resource; None (False for ``compute``) means: does not have it.

    ``foreign`` keeps features of other prefixes, sorted by name, values as attributes.
    """

    compute: bool = False
    load: Transfer | None = None
    store: Transfer | None = None
    simd: Simd | None = None
    queue: Queue | None = None
    address_buffer: AddressBuffer | None = None
    register_file: RegisterFile | None = None
    foreign: tuple[tuple[str, object], ...] = ()

    def __bool__(self) -> bool:
        return self != NO_FEATURES


NO_FEATURES = Features()
