"""The dialect registry: which operations, attributes and types a parser knows."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

import attrs

from ktir.attribute import Attribute
from ktir.errors import DeclarationError, KtirError
from ktir.ir import Operation
from ktir.opdef import OpDef
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
    One that fails is a `DeclarationError` that names it.
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
            self._add(dialect)
        if installed:
            for entry in _installed_entries():
                try:
                    entry.load()(self)
                except Exception as error:
                    raise DeclarationError(
                        f"dialects of an installed package (entry point '{entry.name} = {entry.value}')",
                        f"cannot be loaded: {error if isinstance(error, KtirError) else repr(error)}",
                    ) from error

    def register(self, dialect: Dialect) -> None:
        """Add a dialect.

        Raises `KtirError` if another one has taken the name, `DeclarationError` for what is declared wrongly.
        """
        if self._dialects.get(dialect.name) != dialect:
            _check(dialect)
        self._add(dialect)

    def _add(self, dialect: Dialect) -> None:
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


def _check(dialect: Dialect) -> None:
    """`DeclarationError` for the first mistake in the declaration of a dialect."""
    from ktir.assembly import compile_format

    if re.fullmatch(r"[A-Za-z_][\w$]*", dialect.name) is None:
        raise DeclarationError(repr(dialect.name), "a dialect is named by one word")
    seen: set[str] = set()
    for op in dialect.operations:
        definition = vars(op).get("definition")
        if not isinstance(definition, OpDef):
            raise DeclarationError(dialect.name, f"class {op.__name__} is not declared with @operation")
        if definition.dialect != dialect.name:
            raise DeclarationError(
                definition.name, f"an operation of dialect '{dialect.name}' has its name in front"
            )
        if definition.name in seen:
            raise DeclarationError(definition.name, "two classes of the dialect have this name")
        seen.add(definition.name)
        if definition.assembly is not None:
            compile_format(definition)


@cache
def _installed_entries() -> tuple[EntryPoint, ...]:
    """The entry points of installed packages, by name (cached: they do not change within a process)."""
    from importlib.metadata import entry_points  # costs more than a dialect; only where it is asked for

    return tuple(sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda entry: entry.name))
