"""Damage to modules that mostly leaves them valid: other operands, operations elsewhere, twice or not at all."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from attrs import define, field

import ktir
from ktir.dialects.builtin import Module
from ktir.errors import KtirError
from ktir.ir import Block, Operation, Region, Value
from ktir.transforms import clone

__all__ = ["damaged_module"]

DRAWS = 12
"""Changes that are tried until one leaves a module that verifies."""


def damaged_module(module: Module, dice: Random) -> Module:
    """The module with one to five changes, each of which leaves it valid if one of some does."""
    for _ in range(dice.choice([1, 2, 3, 4, 5])):
        module = _changed(module, dice)
    return module


def _changed(module: Module, dice: Random) -> Module:
    for _ in range(DRAWS):
        edit = _Edit(module)
        if not edit.operations:
            break
        dice.choice(_CHANGES)(edit, dice)
        new = edit.result(module)
        assert isinstance(new, Module)
        try:
            ktir.verify(new)
        except KtirError:
            continue
        return new
    return module


@define
class _Edit:
    """What becomes of operations and blocks; all is found by identity in the module as it was."""

    module: Module
    blocks: list[Block] = field(init=False)
    operations: list[Operation] = field(init=False)
    changed: dict[Operation, Operation] = field(factory=dict)
    contents: dict[Block, list[Operation]] = field(init=False)
    values: dict[Value, Value] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        inside = [op for op in self.module.walk() if op is not self.module]
        self.blocks = [b for op in inside for region in op.regions for b in region.blocks]
        self.operations = [op for block in self.blocks for op in block.operations]
        self.contents = {block: list(block.operations) for block in self.blocks}

    def same_type(self, value: Value) -> list[Value]:
        """Other values of the type of one."""
        known: list[Value] = [v for block in self.blocks for v in block.arguments]
        known += [v for op in self.operations for v in op.results]
        return [v for v in known if v.type == value.type and v is not value]

    def home(self, op: Operation) -> Block:
        return next(block for block in self.blocks if op in block.operations)

    def result(self, op: Operation) -> Operation:
        """The operation with all changes inside."""
        new = self.changed.get(op, op)
        regions = [
            Region(
                tuple(
                    block.replace(operations=[self.result(o) for o in self.contents[block]])
                    if block in self.contents
                    else block.replace(operations=[self.result(o) for o in block.operations])
                    for block in region.blocks
                )
            )
            for region in new.regions
        ]
        return new.replace(regions=regions, operands=[self.values.get(v, v) for v in new.operands])


def _operand(edit: _Edit, dice: Random) -> None:
    users = [op for op in edit.operations if op.operands]
    if not users:
        return
    op = dice.choice(users)
    number = dice.randrange(len(op.operands))
    others = edit.same_type(op.operands[number])
    operands = list(op.operands)
    match dice.randrange(6):
        case 0:
            del operands[number]
        case 1:
            operands.insert(number, operands[number])
        case _ if others:
            operands[number] = dice.choice(others)
    edit.changed[op] = op.replace(operands=operands)


def _erase(edit: _Edit, dice: Random) -> None:
    op = dice.choice(edit.operations)
    for result in op.results:
        others = edit.same_type(result)
        if others:
            edit.values[result] = dice.choice(others)
    edit.contents[edit.home(op)].remove(op)


def _empty(edit: _Edit, dice: Random) -> None:
    block = dice.choice(edit.blocks)
    edit.contents[block] = edit.contents[block][-1:]


def _move(edit: _Edit, dice: Random) -> None:
    op = dice.choice(edit.operations)
    edit.contents[edit.home(op)].remove(op)
    target = edit.contents[dice.choice(edit.blocks)]
    target.insert(dice.randint(0, max(0, len(target) - 1)), op)


def _swap(edit: _Edit, dice: Random) -> None:
    several = [content for content in edit.contents.values() if len(content) > 2]
    if several:
        content = dice.choice(several)
        number = dice.randrange(len(content) - 2)
        content[number], content[number + 1] = content[number + 1], content[number]


def _copy(edit: _Edit, dice: Random) -> None:
    op = dice.choice(edit.operations)
    copy, table = clone(op)
    content = edit.contents[edit.home(op)]
    content.insert(content.index(op) + dice.randrange(2), copy)
    if dice.random() < 0.5:
        edit.values.update((result, table[result]) for result in op.results)


def _attribute(edit: _Edit, dice: Random) -> None:
    """An attribute away, or from another operation."""
    op = dice.choice(edit.operations)
    if not op.attributes:
        return
    name = dice.choice(sorted(op.attributes))
    others = {other.attributes[name] for other in edit.operations if name in other.attributes}
    choices = [None, *sorted(others - {op.attributes[name]}, key=str)]
    new = dice.choice(choices)
    edit.changed[op] = op.replace(attributes={name: new})


def _spread(edit: _Edit, dice: Random) -> None:
    """The attributes of one operation on another of its kind."""
    op = dice.choice(edit.operations)
    alike = [other for other in edit.operations if other.name == op.name]
    edit.changed[op] = op.replace(attributes=dict(dice.choice(alike).attributes))


_CHANGES: tuple[Callable[[_Edit, Random], None], ...] = (
    *(_operand, _operand, _operand, _erase, _erase, _empty, _move, _swap, _copy, _attribute, _spread),
)
