"""Deterministic SSA names, numbered as MLIR's printer does (ktir spec 0.3.6).

All values of a region are numbered before those of the regions nested in it; sibling regions start from the
same number; an isolated operation starts again from zero.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ktir.ir import Block, Label, Operation, Region, Value
from ktir.opdef import ISOLATED
from ktir.verifier import well_formed

_VALID = re.compile(r"[A-Za-z_$.\-][A-Za-z0-9_$.\-]*\Z")
_INVALID_CHARACTER = re.compile(r"[^A-Za-z0-9_$.\-]")


class Names:
    """Names of values and blocks below one operation.

    With `source`, result hints from the text are kept; otherwise only the hints that operation classes give.
    Names of function arguments are part of the interface and are always kept (readings, item 2).
    """

    def __init__(self, root: Operation, *, source: bool = False) -> None:
        self.values: dict[Value, str] = {}
        self.blocks: dict[Label, str] = {}
        self._source = source
        scope = _Counter()
        for result in root.results:
            self._number_result(result, None, scope)
        self._number(root, scope)

    def value(self, value: Value) -> str:
        """The name with ``%``; a value from elsewhere prints as an obvious placeholder."""
        return self.values.get(value, "%<<UNKNOWN SSA VALUE>>")

    def block(self, label: Label) -> str:
        """The name with ``^``."""
        return self.blocks.get(label, "^<<UNKNOWN BLOCK>>")

    def _number(self, root: Operation, scope: _Counter) -> None:
        stack: list[Iterator[tuple[Operation, int, _Counter]]] = [_regions_of(root, scope)]
        while stack:
            item = next(stack[-1], None)
            if item is None:
                stack.pop()
                continue
            op, position, outer = item
            inner = _Counter() if op.definition_has(ISOLATED) else outer.nested()
            region = op.regions[position]
            for number, block in enumerate(region.blocks):
                self.blocks[block.label] = f"^bb{inner.blocks}"
                inner.blocks += 1
                self._number_block(op, position, number, block, inner)
            stack.append(_nested_regions(region, inner))

    def _number_block(self, op: Operation, position: int, number: int, block: Block, scope: _Counter) -> None:
        hints = list(op.argument_names(position)) if number == 0 and well_formed(op) else []
        for index, argument in enumerate(block.arguments):
            hint = hints[index] if index < len(hints) else None
            if hint is None and number == 0:
                kept = argument.name if op.name == "func.func" or self._source else None
                if kept is None and op.name == "func.func":
                    kept = f"arg{index}"
                if kept is not None:
                    self.values[argument] = "%" + scope.kept(_clean(kept))
                    continue
                hint = scope.argument()
            self._name(argument, hint, scope)
        for inner in block.operations:
            hints_of = inner.result_names() if inner.results and well_formed(inner) else ()
            if len(inner.results) > 1 and not any(hints_of[1:]) and not self._source:
                self._number_group(inner, hints_of[0] if hints_of else None, scope)
                continue
            for index, result in enumerate(inner.results):
                self._number_result(result, hints_of[index] if index < len(hints_of) else None, scope)

    def _number_group(self, op: Operation, hint: str | None, scope: _Counter) -> None:
        base = scope.number() if hint is None else scope.unique(_clean(hint))
        for index, result in enumerate(op.results):
            self.values[result] = f"%{base}#{index}"

    def _number_result(self, result: Value, hint: str | None, scope: _Counter) -> None:
        if hint is None and self._source and result.name is not None:
            self.values[result] = "%" + scope.kept(_clean(result.name))
        else:
            self._name(result, hint, scope)

    def _name(self, value: Value, hint: str | None, scope: _Counter) -> None:
        if hint is None:
            self.values[value] = f"%{scope.number()}"
            return
        self.values[value] = "%" + scope.unique(_clean(hint))

    def is_group(self, op: Operation) -> bool:
        """Whether the results of `op` share one name, printed as ``%0:2``."""
        return len(op.results) > 1 and "#" in self.values.get(op.results[0], "")


def _regions_of(op: Operation, scope: _Counter) -> Iterator[tuple[Operation, int, _Counter]]:
    return iter([(op, position, scope) for position in range(len(op.regions))])


def _nested_regions(region: Region, scope: _Counter) -> Iterator[tuple[Operation, int, _Counter]]:
    return iter(
        [
            (op, position, scope)
            for block in region.blocks
            for op in block.operations
            for position in range(len(op.regions))
        ]
    )


def _clean(hint: str) -> str:
    cleaned = _INVALID_CHARACTER.sub("_", hint)
    return cleaned if _VALID.match(cleaned) else f"_{cleaned}"


class _Counter:
    """Numbers and names in use within one region and, read-only, those around it."""

    def __init__(self, outer: _Counter | None = None) -> None:
        self.outer = outer
        self.values: int = outer.values if outer else 0
        self.arguments: int = outer.arguments if outer else 0
        self.conflicts: int = outer.conflicts if outer else 0
        self.blocks = 0
        self.used: set[str] = set()
        self._next: dict[str, int] = {}

    def nested(self) -> _Counter:
        return _Counter(self)

    def number(self) -> int:
        self.values += 1
        return self.values - 1

    def argument(self) -> str:
        """The next free ``argN``: names that the text may have kept are passed over, so that printing is a
        fixed point."""
        while self.taken(f"arg{self.arguments}"):
            self.arguments += 1
        self.arguments += 1
        return f"arg{self.arguments - 1}"

    def taken(self, name: str) -> bool:
        scope: _Counter | None = self
        while scope is not None:
            if name in scope.used:
                return True
            scope = scope.outer
        return False

    def kept(self, name: str) -> str:
        """A name that the text gave, made unique without a trace for others.

        Read again, it clashes with nothing any more: so a clash may not change how the names that operations
        suggest are numbered.
        """
        candidate, number = name, self._next_of(name)
        while self.taken(candidate):
            candidate = f"{name}_{number}"
            number += 1
        if candidate != name:
            self._next[name] = number
        self.used.add(candidate)
        return candidate

    def _next_of(self, name: str) -> int:
        scope: _Counter | None = self
        while scope is not None:
            if name in scope._next:
                return scope._next[name]
            scope = scope.outer
        return 0

    def unique(self, name: str) -> str:
        """A name that an operation class suggests; clashes are numbered through, as in MLIR."""
        candidate = name
        while self.taken(candidate):
            candidate = f"{name}_{self.conflicts}"
            self.conflicts += 1
        self.used.add(candidate)
        return candidate


__all__ = ["Names"]
