"""What a pattern may do: look at the IR, and stage changes that are made together or not at all.

A match that fails half-way (a native function refuses, a Python pattern returns False) leaves no trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

import attrs

from ktir.attribute import Attribute
from ktir.attributes import DictAttr
from ktir.context import Context
from ktir.editor import EditOp, Editor
from ktir.ir import Operation, OpResult, UnregisteredOp, Value
from ktir.types import Type

if TYPE_CHECKING:
    from dfsched.architecture import Architecture

__all__ = ["Abandon", "Handle", "Rewriter"]


class Abandon(Exception):
    """Raised inside a rewrite to give the match up; nothing is changed."""


@cache
def _context() -> Context:
    """The dialects among which created operations are looked up (a cache: contexts are not changed)."""
    return Context()


@attrs.define(eq=False, repr=False)
class Handle:
    """An operation as a pattern sees it: one of the program (`edit`), or one just created (`made`)."""

    edit: EditOp | None
    made: Operation | None
    attributes: dict[str, Attribute]

    @property
    def name(self) -> str:
        return self._origin.name

    @property
    def operation(self) -> Operation:
        """A frozen view with typed accessors; its nested regions are those before this sweep."""
        if self.edit is not None:
            return self.edit.shallow()
        assert self.made is not None
        return self.made

    @property
    def operands(self) -> tuple[Value, ...]:
        return self.operation.operands

    @property
    def results(self) -> tuple[OpResult, ...]:
        return self._origin.results

    @property
    def _origin(self) -> Operation:
        if self.edit is not None:
            return self.edit.origin
        assert self.made is not None
        return self.made

    def __repr__(self) -> str:
        return f"<Handle {self.name}>"


class Rewriter:
    """Staged changes around one matched operation (`root`); `device` may be asked for facts.

    New operations are put in front of the root, at its location, in the order of their creation.
    """

    def __init__(self, editor: Editor, root: EditOp, device: Architecture) -> None:
        self.device = device
        self._editor = editor
        self._root = root
        self._handles: dict[int, Handle] = {}
        self._created: list[Handle] = []
        self._changed: dict[int, tuple[Handle, dict[str, Attribute | None]]] = {}
        self._replaced: list[tuple[Handle, tuple[Value, ...]]] = []
        self._makers: dict[Value, Handle] = {}
        self.root = self.handle(root)

    # -- looking

    def handle(self, op: EditOp) -> Handle:
        """The handle of an operation of the program (always the same one)."""
        return self._handles.setdefault(id(op), Handle(op, None, dict(op.attributes)))

    def definer(self, value: Value) -> Handle | None:
        """The operation that defines a value; None for block arguments."""
        if value in self._makers:
            return self._makers[value]
        found = self._editor.definer(value)
        return None if found is None else self.handle(found)

    def parent(self, op: Handle) -> Handle | None:
        """The operation around an operation; that of the root for a created one."""
        edit = op.edit or self._root
        return None if edit.parent is None else self.handle(edit.parent)

    def body(self, op: Handle) -> tuple[Handle, ...]:
        """The operations of the first region, as they are now."""
        if op.edit is None or not op.edit.regions:
            return ()
        return tuple(self.handle(o) for block in op.edit.regions[0].blocks for o in block.operations())

    def block_arguments(self, op: Handle) -> tuple[Value, ...]:
        """The arguments of the first region."""
        if op.edit is None or not op.edit.regions or not op.edit.regions[0].blocks:
            return ()
        return op.edit.regions[0].blocks[0].arguments

    # -- staging

    def create(
        self,
        name: str,
        operands: Sequence[Value] = (),
        result_types: Sequence[Type] = (),
        attributes: Mapping[str, Attribute] | None = None,
    ) -> Handle:
        """Create an operation by its full name."""
        cls = _context().operation(name)
        location = self._root.origin.location
        if cls is None:
            results = tuple(OpResult(type) for type in result_types)
            entries = DictAttr(attributes or {})
            return self.insert(
                UnregisteredOp(tuple(operands), results, entries, (), (), location, op_name=name)
            )
        return self.insert(cls.create(operands, result_types, attributes or {}, location=location))

    def insert(self, op: Operation) -> Handle:
        """Put a frozen operation with fresh results in front of the root."""
        handle = Handle(None, op, dict(op.attributes))
        self._created.append(handle)
        self._makers.update(dict.fromkeys(op.results, handle))
        return handle

    def set_attribute(self, op: Handle, name: str, value: Attribute | None) -> None:
        """Set or (None) remove an attribute; an equal value is no change."""
        if op.attributes.get(name) == value:
            return
        if value is None:
            op.attributes.pop(name, None)
        else:
            op.attributes[name] = value
        if op.made is not None:
            op.made = op.made.replace(attributes={name: value})
        else:
            self._changed.setdefault(id(op), (op, {}))[1][name] = value

    def replace(self, op: Handle, values: Sequence[Value]) -> None:
        """Use values instead of the operation's results, and erase it. `Abandon` if the counts differ."""
        if len(values) != len(op.results):
            raise Abandon(f"'{op.name}' has {len(op.results)} results, but {len(values)} replacements")
        for result, value in zip(op.results, values, strict=True):
            if result.type != value.type:
                raise Abandon(f"'{op.name}' has type {result.type}, but its replacement {value.type}")
        self._replaced.append((op, tuple(values)))

    def erase(self, op: Handle) -> None:
        """Erase an operation whose results are not used."""
        if any(self._editor.is_used(value) for value in op.results):
            raise Abandon(f"cannot erase '{op.name}': its results are used")
        self._replaced.append((op, op.results))

    # -- committing

    def commit(self) -> bool:
        """Make the staged changes; whether there were any."""
        for handle in self._created:
            assert handle.made is not None
            self._editor.insert_before(self._root, handle.made)
        for handle, changes in self._changed.values():
            assert handle.edit is not None
            for name, value in changes.items():
                self._editor.set_attribute(handle.edit, name, value)
        for handle, values in self._replaced:
            if handle.edit is None:
                continue
            if values == handle.results:
                self._editor.erase(handle.edit)
            else:
                self._editor.replace(handle.edit, values)
        return bool(self._created or self._changed or self._replaced)
