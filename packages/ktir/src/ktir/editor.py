"""A transient mutable mirror of a module, for passes that move, erase and replace.

    with ktir.edit(module) as editor:
        for op in editor.walk(arith.AddI):
            editor.replace_all_uses(op.results[0], op.operands[0])
            editor.erase(op)
    module = editor.module

The mirror knows parents, ordered uses and neighbours.  It is frozen once, when the ``with`` block ends (a
later change is an `EditError`, not lost); operations in which nothing changed come back as the same objects.
Values are the frozen ones: they are identities, so nothing needs renaming.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType

import attrs

from ktir.attribute import Attribute
from ktir.attributes import DictAttr
from ktir.errors import KtirError
from ktir.ir import Block, BlockArgument, Label, Operation, OpResult, Region, Value


class EditError(KtirError):
    """An edit that would break the IR: erasing a value in use, inserting an operation twice."""


@attrs.define(eq=False, repr=False)
class EditOp:
    """A mutable operation.  Change it through the `Editor`, which keeps the uses."""

    origin: Operation
    operands: list[Value]
    results: tuple[OpResult, ...]
    attributes: dict[str, Attribute]
    regions: list[EditRegion]
    block: EditBlock | None = None
    previous: EditOp | None = None
    next: EditOp | None = None
    dirty: bool = False
    erased: bool = False

    @property
    def op_class(self) -> type[Operation]:
        """The class of the operation."""
        return type(self.origin)

    @property
    def name(self) -> str:
        return self.origin.name

    @property
    def parent(self) -> EditOp | None:
        """The operation whose region holds this one."""
        return None if self.block is None else self.block.region.owner

    def is_before(self, other: EditOp) -> bool:
        """Whether this stands before `other` in the same block (linear in their distance)."""
        current = self.next
        while current is not None:
            if current is other:
                return True
            current = current.next
        return False

    def shallow(self) -> Operation:
        """A frozen operation with the current operands and attributes and the *original* regions.

        For looking at the operation with its typed accessors; it is not part of any module.
        """
        if not self.dirty:
            return self.origin
        return attrs.evolve(
            self.origin,
            operands=tuple(self.operands),
            results=self.results,
            attributes=DictAttr(self.attributes),
        )

    def __repr__(self) -> str:
        return f"<EditOp {self.name}>"


@attrs.define(eq=False, repr=False)
class EditBlock:
    """A mutable block: a doubly linked list of operations."""

    region: EditRegion
    arguments: tuple[BlockArgument, ...]
    label: Label
    first: EditOp | None = None
    last: EditOp | None = None

    def operations(self) -> list[EditOp]:
        """A snapshot of the operations, in order."""
        found: list[EditOp] = []
        current = self.first
        while current is not None:
            found.append(current)
            current = current.next
        return found


@attrs.define(eq=False, repr=False)
class EditRegion:
    """A mutable region."""

    owner: EditOp
    blocks: list[EditBlock]


class Editor:
    """The mirror of one root operation; see the module's docstring."""

    def __init__(self, root: Operation) -> None:
        self._uses: dict[Value, dict[tuple[EditOp, int], None]] = {}
        self._definer: dict[Value, EditOp | EditBlock] = {}
        self._ended = False
        self.root = self._mirror(root)
        self._frozen: Operation | None = None

    # -- looking

    def walk(self, *classes: type[Operation]) -> Iterator[EditOp]:
        """All operations in pre-order (of the given classes, if any).

        Operations erased meanwhile are skipped; ones inserted behind the current position are visited.
        """
        stack: list[EditOp] = [self.root]
        while stack:
            op = stack.pop()
            if op.erased:
                continue
            if not classes or isinstance(op.origin, classes):
                yield op
            if op.erased:
                continue
            for region in reversed(op.regions):
                for block in reversed(region.blocks):
                    stack.extend(reversed(block.operations()))

    def definer(self, value: Value) -> EditOp | None:
        """The operation that defines `value`, None for block arguments and foreign values."""
        found = self._definer.get(value)
        return found if isinstance(found, EditOp) else None

    def defining_block(self, value: Value) -> EditBlock | None:
        """The block that `value` lives in."""
        found = self._definer.get(value)
        return found.block if isinstance(found, EditOp) else found

    def uses(self, value: Value) -> tuple[tuple[EditOp, int], ...]:
        """Uses as (operation, operand index), in the order in which they were made."""
        return tuple(self._uses.get(value, ()))

    def is_used(self, value: Value) -> bool:
        return bool(self._uses.get(value))

    # -- changing

    def set_operand(self, op: EditOp, index: int, value: Value) -> None:
        """Replace one operand."""
        self._open()
        old = op.operands[index]
        if old is value:
            return
        self._uses[old].pop((op, index), None)
        op.operands[index] = value
        self._uses.setdefault(value, {})[(op, index)] = None
        _mark(op)

    def set_operands(self, op: EditOp, values: Sequence[Value]) -> None:
        """Replace all operands (segment sizes, if the operation has them, are the caller's to set)."""
        self._open()
        self._drop_uses(op)
        op.operands = list(values)
        self._add_uses(op)
        _mark(op)

    def set_attribute(self, op: EditOp, name: str, value: Attribute | None) -> None:
        """Set or, with None, remove an attribute."""
        self._open()
        if value is None:
            op.attributes.pop(name, None)
        else:
            op.attributes[name] = value
        _mark(op)

    def replace_all_uses(self, old: Value, new: Value) -> None:
        """Use `new` wherever `old` was used."""
        self._open()
        if old is new:
            return
        for op, index in self.uses(old):
            self.set_operand(op, index, new)

    def erase(self, op: EditOp) -> None:
        """Remove an operation with its regions; EditError if a result is still used outside of it."""
        self._open()
        inside = set(self._inside(op))
        for result in op.results:
            for user, _ in self.uses(result):
                if user not in inside:
                    raise EditError(f"cannot erase '{op.name}': its result is used by '{user.name}'")
        self._unlink(op)
        for inner in inside:
            self._drop_uses(inner)
            inner.erased = True
            for result in inner.results:
                self._definer.pop(result, None)

    def replace(self, op: EditOp, values: Sequence[Value]) -> None:
        """Use `values` instead of the operation's results and erase it."""
        self._open()
        if len(values) != len(op.results):
            raise EditError(f"'{op.name}' has {len(op.results)} results, but {len(values)} replacements")
        for result, value in zip(op.results, values, strict=True):
            self.replace_all_uses(result, value)
        self.erase(op)

    def insert_before(self, anchor: EditOp, op: Operation) -> EditOp:
        """Put a frozen operation (with fresh results) in front of `anchor`; returns its mirror."""
        self._open()
        made = self._mirror(op)
        self._link(made, self._block_of(anchor), anchor.previous, anchor)
        return made

    def insert_after(self, anchor: EditOp, op: Operation) -> EditOp:
        """Put a frozen operation (with fresh results) behind `anchor`; returns its mirror."""
        self._open()
        made = self._mirror(op)
        self._link(made, self._block_of(anchor), anchor, anchor.next)
        return made

    def append(self, block: EditBlock, op: Operation) -> EditOp:
        """Put a frozen operation at the end of a block; returns its mirror."""
        self._open()
        made = self._mirror(op)
        self._link(made, block, block.last, None)
        return made

    def prepend(self, block: EditBlock, op: Operation) -> EditOp:
        """Put a frozen operation at the beginning of a block; returns its mirror."""
        self._open()
        made = self._mirror(op)
        self._link(made, block, None, block.first)
        return made

    def move_before(self, op: EditOp, anchor: EditOp) -> None:
        """Move an operation in front of another one, which may stand in another block."""
        self._open()
        self._refuse_into_itself(op, anchor)
        self._unlink(op)
        self._link(op, self._block_of(anchor), anchor.previous, anchor)

    def move_after(self, op: EditOp, anchor: EditOp) -> None:
        """Move an operation behind another one, which may stand in another block."""
        self._open()
        self._refuse_into_itself(op, anchor)
        self._unlink(op)
        self._link(op, self._block_of(anchor), anchor, anchor.next)

    # -- freezing

    @property
    def module(self) -> Operation:
        """The frozen result; available when the ``with`` block has ended."""
        if self._frozen is None:
            raise EditError("the module is frozen when the 'with' block ends")
        return self._frozen

    def freeze(self) -> Operation:
        """The current state as a frozen operation, sharing what was not touched."""
        return self._freeze(self.root)

    def __enter__(self) -> Editor:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended = True
        if kind is None:
            self._frozen = self.freeze()

    # -- the inside

    def _open(self) -> None:
        """EditError if the ``with`` block has ended: a change would be lost."""
        if self._ended:
            raise EditError("the 'with' block of this editor has ended: the change would be lost")

    def _mirror(self, op: Operation) -> EditOp:
        """The mutable form of an operation, without recursion: depth is no limit."""
        made = self._node(op)
        stack = [self._contents(made)]
        while stack:
            item = next(stack[-1], None)
            if item is None:
                stack.pop()
                continue
            child, block = item
            node = self._node(child)
            node.block, node.previous = block, block.last
            if block.last is None:
                block.first = node
            else:
                block.last.next = node
            block.last = node
            if child.regions:
                stack.append(self._contents(node))
        return made

    def _node(self, op: Operation) -> EditOp:
        """One operation with its results and uses, its regions still empty."""
        made = EditOp(op, list(op.operands), op.results, dict(op.attributes), [])
        for result in op.results:
            if result in self._definer:
                raise EditError(f"a result of '{op.name}' is defined already; clone the operation first")
            self._definer[result] = made
        self._add_uses(made)
        return made

    def _contents(self, made: EditOp) -> Iterator[tuple[Operation, EditBlock]]:
        """Make the regions and blocks of `made`; yields each operation with the block that it belongs to."""
        for region in made.origin.regions:
            mirrored = EditRegion(made, [])
            made.regions.append(mirrored)
            for block in region.blocks:
                inner = EditBlock(mirrored, block.arguments, block.label)
                mirrored.blocks.append(inner)
                for argument in block.arguments:
                    self._definer[argument] = inner
                for child in block.operations:
                    yield child, inner

    def _freeze(self, root: EditOp) -> Operation:
        """The frozen form, inner operations first; clean ones are their origins."""
        frozen: dict[EditOp, Operation] = {}
        stack = [(root, False)]
        while stack:
            op, inner_done = stack.pop()
            if inner_done:
                frozen[op] = _rebuilt(op, frozen)
            elif op.dirty:
                stack.append((op, True))
                stack += [(o, False) for r in op.regions for b in r.blocks for o in b.operations() if o.dirty]
        return frozen.get(root, root.origin)

    def _inside(self, op: EditOp) -> Iterator[EditOp]:
        stack = [op]
        while stack:
            current = stack.pop()
            yield current
            for region in current.regions:
                for block in region.blocks:
                    stack.extend(block.operations())

    def _block_of(self, op: EditOp) -> EditBlock:
        if op.block is None:
            raise EditError(f"'{op.name}' stands in no block")
        return op.block

    def _refuse_into_itself(self, op: EditOp, anchor: EditOp) -> None:
        current: EditOp | None = anchor
        while current is not None:
            if current is op:
                raise EditError(f"cannot move '{op.name}' into or next to itself")
            current = current.parent

    def _link(self, op: EditOp, block: EditBlock, before: EditOp | None, after: EditOp | None) -> None:
        op.block, op.previous, op.next = block, before, after
        if before is None:
            block.first = op
        else:
            before.next = op
        if after is None:
            block.last = op
        else:
            after.previous = op
        _mark(block.region.owner)

    def _unlink(self, op: EditOp) -> None:
        block = self._block_of(op)
        if op.previous is None:
            block.first = op.next
        else:
            op.previous.next = op.next
        if op.next is None:
            block.last = op.previous
        else:
            op.next.previous = op.previous
        op.block = op.previous = op.next = None
        _mark(block.region.owner)

    def _add_uses(self, op: EditOp) -> None:
        for index, value in enumerate(op.operands):
            self._uses.setdefault(value, {})[(op, index)] = None

    def _drop_uses(self, op: EditOp) -> None:
        for index, value in enumerate(op.operands):
            self._uses.get(value, {}).pop((op, index), None)


def _rebuilt(op: EditOp, frozen: dict[EditOp, Operation]) -> Operation:
    """A dirty operation as a frozen one; `frozen` has the dirty ones inside it."""
    regions = tuple(
        Region(
            tuple(
                Block(
                    block.arguments, tuple(frozen.get(o, o.origin) for o in block.operations()), block.label
                )
                for block in region.blocks
            )
        )
        for region in op.regions
    )
    return attrs.evolve(
        op.origin,
        operands=tuple(op.operands),
        results=op.results,
        attributes=DictAttr(op.attributes),
        regions=regions,
    )


def _mark(op: EditOp) -> None:
    """Note that an operation, and so everything around it, must be rebuilt.

    An operation can be dirty in a clean parent only between `_unlink` and `_link`, which marks the new one.
    """
    current: EditOp | None = op
    while current is not None and not current.dirty:
        current.dirty = True
        current = current.parent


def edit(module: Operation) -> Editor:
    """Start editing; see the module's docstring."""
    return Editor(module)
