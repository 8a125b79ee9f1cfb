"""Definitions, uses and parents of everything below one operation."""

from __future__ import annotations

import attrs

from ktir.ir import Block, Operation, Region, Value, symbol_name


@attrs.frozen(eq=False)
class Use:
    """One use of a value: operand `index` of `op`."""

    op: Operation
    index: int


class DefUse:
    """A snapshot of `root`: it is not updated, make a new one for a changed module.

    A module may not hold the same operation object twice (nothing in ktir does that).
    """

    def __init__(self, root: Operation) -> None:
        self.root = root
        self._definer: dict[Value, Operation | Block] = {}
        self._uses: dict[Value, list[Use]] = {}
        self._parent: dict[Operation, Operation] = {}
        self._block: dict[Operation, Block] = {}
        self._region: dict[Block, Region] = {}
        self._owner: dict[Block, Operation] = {}
        self._order: dict[Operation, int] = {}
        self._symbols: dict[Operation, dict[str, Operation]] = {}
        for op in root.walk():
            self._order[op] = len(self._order)
            for result in op.results:
                self._definer[result] = op
            for index, operand in enumerate(op.operands):
                self._uses.setdefault(operand, []).append(Use(op, index))
            for region in op.regions:
                for block in region.blocks:
                    self._region[block] = region
                    self._owner[block] = op
                    for argument in block.arguments:
                        self._definer[argument] = block
                    for inner in block.operations:
                        self._parent[inner] = op
                        self._block[inner] = block

    def definer(self, value: Value) -> Operation | None:
        """The operation that has `value` as a result; None for block arguments and foreign values."""
        found = self._definer.get(value)
        return found if isinstance(found, Operation) else None

    def defining_block(self, value: Value) -> Block | None:
        """The block that `value` lives in: that of its operation, or the one it is an argument of."""
        found = self._definer.get(value)
        return self._block.get(found) if isinstance(found, Operation) else found

    def is_in_front(self, value: Value, op: Operation) -> bool:
        """Whether `value` is defined in the block of `op`, in front of it: it is available there."""
        found = self._definer.get(value)
        here = self._block.get(op)
        if isinstance(found, Operation):
            return self._block.get(found) is here and self._order[found] < self._order[op]
        return found is not None and found is here

    def is_defined(self, value: Value) -> bool:
        """Whether `value` is defined somewhere below the root."""
        return value in self._definer

    def uses(self, value: Value) -> tuple[Use, ...]:
        """All uses in program order."""
        return tuple(self._uses.get(value, ()))

    def users(self, value: Value) -> tuple[Operation, ...]:
        """The operations that use `value`, each once, in program order."""
        return tuple(dict.fromkeys(use.op for use in self._uses.get(value, ())))

    def parent(self, op: Operation) -> Operation | None:
        """The operation whose region holds `op`."""
        return self._parent.get(op)

    def block(self, op: Operation) -> Block | None:
        """The block that holds `op`."""
        return self._block.get(op)

    def owner(self, block: Block) -> Operation:
        """The operation whose region holds `block`."""
        return self._owner[block]

    def region(self, block: Block) -> Region:
        """The region that holds `block`."""
        return self._region[block]

    def ancestors(self, op: Operation) -> tuple[Operation, ...]:
        """Parent, grandparent, ... up to the root."""
        found: list[Operation] = []
        current = self._parent.get(op)
        while current is not None:
            found.append(current)
            current = self._parent.get(current)
        return tuple(found)

    def position(self, op: Operation) -> int:
        """Number of `op` in a pre-order walk of the root."""
        return self._order[op]

    def symbol(self, at: Operation, name: str) -> Operation | None:
        """The operation named `name` in the nearest symbol table around `at` (or further out)."""
        from ktir.opdef import SYMBOL_TABLE

        for table in (at, *self.ancestors(at)):
            if table.definition_has(SYMBOL_TABLE):
                found = self._symbols_of(table).get(name)
                if found is not None:
                    return found
        return None

    def _symbols_of(self, table: Operation) -> dict[str, Operation]:
        found = self._symbols.get(table)
        if found is None:
            found = self._symbols[table] = {}
            for region in table.regions:
                for block in region.blocks:
                    for op in block.operations:
                        if (name := symbol_name(op)) is not None:
                            found.setdefault(name, op)
        return found
