"""Structural equality up to the names of values, and a hash that agrees with it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from ktir.attributes import DictAttr
from ktir.ir import Label, Operation, UnregisteredOp, Value


def _tokens(root: Operation) -> Iterator[str]:
    """A text that two operations share exactly if they are equal up to names and locations."""
    values: dict[Value, int] = {}
    labels: dict[Label, int] = {}

    def number(value: Value) -> str:
        if value not in values:
            values[value] = len(values)
        return f"%{values[value]}:{value.type}"

    def label(block: Label) -> str:
        return f"^{labels.setdefault(block, len(labels))}"

    def one(op: Operation) -> Iterator[str | Operation]:
        yield f"{op.name}("
        yield from (number(value) for value in op.operands)
        yield from (label(successor) for successor in op.successors)
        yield str(_without_defaults(op))
        if isinstance(op, UnregisteredOp):
            yield ",".join(sorted(op.inherent))
        for region in op.regions:
            yield "{"
            for block in region.blocks:
                yield label(block.label)
                yield from (number(argument) for argument in block.arguments)
                yield "|"
                yield from block.operations
            yield "}"
        yield "->"
        yield from (number(result) for result in op.results)
        yield ")"

    stack = [one(root)]
    while stack:
        match next(stack[-1], None):
            case None:
                stack.pop()
            case str(token):
                yield token
            case op:
                stack.append(one(op))


def _without_defaults(op: Operation) -> DictAttr:
    """The attributes, without those that state what holds anyway: the text may leave them out."""
    if isinstance(op, UnregisteredOp):
        return op.attributes
    stated = [
        d.name
        for d in op.definition.attributes
        if d.default is not None and op.attributes.get(d.name) == d.default
    ]
    return op.attributes.updated(dict.fromkeys(stated)) if stated else op.attributes


def alpha_equivalent(a: Operation, b: Operation) -> bool:
    """Whether two operations are equal up to names of values and blocks and up to locations."""
    left, right = _tokens(a), _tokens(b)
    while True:
        x, y = next(left, None), next(right, None)
        if x != y:
            return False
        if x is None:
            return True


def structural_hash(op: Operation) -> str:
    """A hexadecimal SHA-256 that is equal for alpha-equivalent operations and stable across processes."""
    digest = hashlib.sha256()
    for token in _tokens(op):
        digest.update(token.encode("utf-8", "surrogateescape"))
        digest.update(b"\0")
    return digest.hexdigest()
