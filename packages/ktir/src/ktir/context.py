"""The dialect registry: which operations, attributes and types a parser knows."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import attrs

from ktir.attribute import Attribute
from ktir.errors import KtirError
from ktir.ir import Operation
from ktir.types import Type

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP = "ktir.dialects"


@attrs.frozen
class Dialect:
    """A named set of operation, attribute and type classes."""

    name: str
    operations: tuple[type[Operation], ...] = ()
    attributes: tuple[type[Attribute], ...] = ()
    types: tuple[type[Type], ...] = ()


class Context:
    """Knows dialects.  A plain `Context()` has ktir's own and those of installed packages.

    Other packages register theirs through the entry-point group ``ktir.dialects``: each entry point is a
    function that takes the context and calls `register`.  `Context(installed=False)` leaves them out.
    `Context(proposed=True)` knows the inter-tile deliveries, too, that are proposed but not settled
    (``ktdp.inter_tile_reduce_scatter``, ``gather``, ``all_to_all``, ``scatter``). With `lenient`, text may
    leave out the ``coordinate_set`` of a memory view: it is then the box of its sizes.
    """

    def __init__(self, *, installed: bool = True, proposed: bool = False, lenient: bool = False) -> None:
        from ktir.dialects import dialects

        self.lenient = lenient
        self._dialects: dict[str, Dialect] = {}
        self._operations: dict[str, type[Operation]] = {}
        self._attributes: dict[str, type[Attribute]] = {}
        self._types: dict[str, type[Type]] = {}
        for dialect in dialects(proposed):
            self.register(dialect)
        if installed:
            for entry in _installed_entries():
                entry.load()(self)

    def register(self, dialect: Dialect) -> None:
        """Add a dialect; KtirError if another one has taken the name."""
        known = self._dialects.get(dialect.name)
        if known is not None:
            if known == dialect:
                return
            raise KtirError(f"dialect '{dialect.name}' is registered twice with different contents")
        self._dialects[dialect.name] = dialect
        self._operations.update({op.definition.name: op for op in dialect.operations})
        self._attributes.update({a.mnemonic: a for a in dialect.attributes})
        self._types.update({t.mnemonic: t for t in dialect.types})

    @property
    def dialects(self) -> tuple[Dialect, ...]:
        """All registered dialects, by name."""
        return tuple(self._dialects[name] for name in sorted(self._dialects))

    def has_dialect(self, name: str) -> bool:
        return name in self._dialects

    def operation(self, name: str) -> type[Operation] | None:
        """The class registered for a full operation name."""
        return self._operations.get(name)

    def attribute(self, mnemonic: str) -> type[Attribute] | None:
        """The class registered for ``dialect.mnemonic``."""
        return self._attributes.get(mnemonic)

    def type(self, mnemonic: str) -> type[Type] | None:
        """The class registered for ``dialect.mnemonic``."""
        return self._types.get(mnemonic)


@cache
def _installed_entries() -> tuple[EntryPoint, ...]:
    """The entry points of installed packages, by name (cached: they do not change within a process)."""
    from importlib.metadata import entry_points  # costs more than a dialect; only where it is asked for

    return tuple(sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda entry: entry.name))
