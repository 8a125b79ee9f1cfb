"""From `pdl.pattern` text to `Pattern` (device spec 4.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from dfsched.dialects import pdl
from dfsched.errors import PatternError
from dfsched.patterns.pattern import Argument, Native, Pattern
from dfsched.patterns.rewriter import Abandon, Handle, Rewriter
from ktir.attribute import Attribute
from ktir.ir import Operation, Value
from ktir.types import Type

__all__ = ["compile_pattern"]

Bindings = dict[Value, Argument]
T = TypeVar("T")


def compile_pattern(
    op: pdl.PatternOp,
    checkpoints: Sequence[str],
    constraints: Mapping[str, Native],
    rewrites: Mapping[str, Native],
) -> Pattern:
    """Compile one verified pattern.

    Raises `PatternError` at the pattern for unknown native functions, an ambiguous root, or matched
    operations that cannot be reached from the root.
    """
    compiled = _Compiled(op, constraints, rewrites)
    root = compiled.root
    name = op.sym_name.value if op.sym_name is not None else f"pattern on {_op_name(root) or 'any operation'}"
    return Pattern(name, _op_name(root), compiled.apply, op.benefit.value, tuple(checkpoints), op.location)


def _op_name(op: pdl.OperationOp) -> str | None:
    return None if op.op_name is None else op.op_name.value


class _Compiled:
    """A pattern split into the match from the root, the constraints, and the actions."""

    def __init__(
        self, op: pdl.PatternOp, constraints: Mapping[str, Native], rewrites: Mapping[str, Native]
    ) -> None:
        self._pattern = op
        body = op.operations
        rewrite = body[-1]
        assert isinstance(rewrite, pdl.RewriteOp)
        self._definers: dict[Value, Operation] = {
            value: inner for inner in (*body, *rewrite.operations) for value in inner.results
        }
        self._match = [inner for inner in body if isinstance(inner, pdl.OperationOp)]
        self._constraints = [inner for inner in body if isinstance(inner, pdl.ApplyNativeConstraintOp)]
        self._actions = rewrite.operations
        self._natives = {
            **self._resolve(self._constraints, constraints, "constraint"),
            **self._resolve(
                [a for a in self._actions if isinstance(a, pdl.ApplyNativeRewriteOp)], rewrites, "rewrite"
            ),
        }
        self.root = self._find_root(rewrite)
        self._check_reachable()

    def _error(self, message: str, op: Operation) -> PatternError:
        return PatternError(message, op.location)

    def _resolve(
        self,
        ops: Sequence[pdl.ApplyNativeConstraintOp | pdl.ApplyNativeRewriteOp],
        table: Mapping[str, Native],
        what: str,
    ) -> dict[Operation, Native]:
        found: dict[Operation, Native] = {}
        for op in ops:
            name = op.function.value
            if name not in table:
                raise self._error(f"no native {what} function '{name}' is registered", op)
            found[op] = table[name]
        return found

    def _find_root(self, rewrite: pdl.RewriteOp) -> pdl.OperationOp:
        if rewrite.root is not None:
            root = self._definers.get(rewrite.root)
            if not isinstance(root, pdl.OperationOp):
                raise self._error("the root of a rewrite is a matched operation", rewrite)
            return root
        used = {
            self._parent(definer)
            for op in self._match
            for value in op.operand_values
            if isinstance(definer := self._definers.get(value), pdl.ResultOp)
        }
        candidates = [op for op in self._match if op not in used]
        if len(candidates) != 1:
            raise self._error("the root is not clear; write 'rewrite %root'", self._pattern)
        return candidates[0]

    def _parent(self, op: pdl.ResultOp) -> pdl.OperationOp:
        parent = self._definers[op.parent]
        if not isinstance(parent, pdl.OperationOp):
            raise self._error("unsupported PDL construct: result of an operation that is not matched", op)
        return parent

    def _check_reachable(self) -> None:
        reached: set[Operation] = set()
        queue: list[pdl.OperationOp] = [self.root]
        while queue:
            op = queue.pop()
            if op in reached:
                continue
            reached.add(op)
            for value in op.operand_values:
                definer = self._definers.get(value)
                if isinstance(definer, pdl.ResultOp):
                    queue.append(self._parent(definer))
        for op in self._match:
            if op not in reached:
                raise self._error("unsupported PDL construct: an operation not reached from the root", op)

    # -- matching

    def apply(self, op: Handle, rewriter: Rewriter) -> bool:
        """Match at one operation and stage the rewrite."""
        bound: Bindings = {}
        if not self._match_operation(self.root, op, bound, rewriter):
            return False
        self._bind_constants(bound)
        if not all(self._holds(constraint, bound, rewriter) for constraint in self._constraints):
            return False
        for action in self._actions:
            self._act(action, bound, rewriter)
        return True

    def _match_operation(
        self, pattern: pdl.OperationOp, op: Handle, bound: Bindings, rewriter: Rewriter
    ) -> bool:
        if pattern.handle in bound:
            return bound[pattern.handle] is op
        name = _op_name(pattern)
        if name is not None and op.name != name:
            return False
        if len(op.operands) != len(pattern.operand_values) or len(op.results) != len(pattern.type_values):
            return False
        bound[pattern.handle] = op
        for key, handle in pattern.named_attributes:
            found = op.attributes.get(key)
            if found is None or not self._match_attribute(handle, found, bound):
                return False
        for type, result in zip(pattern.type_values, op.results, strict=True):
            if not self._match_type(type, result.type, bound):
                return False
        return all(
            self._match_value(handle, value, bound, rewriter)
            for handle, value in zip(pattern.operand_values, op.operands, strict=True)
        )

    def _match_value(self, handle: Value, value: Value, bound: Bindings, rewriter: Rewriter) -> bool:
        if handle in bound:
            return bound[handle] is value
        bound[handle] = value
        match self._definers.get(handle):
            case pdl.OperandOp(type=type):
                return type is None or self._match_type(type, value.type, bound)
            case pdl.ResultOp() as selected:
                parent = self._parent(selected)
                definer = rewriter.definer(value)
                if definer is None or not self._match_operation(parent, definer, bound, rewriter):
                    return False
                index = selected.index.value
                return index < len(definer.results) and definer.results[index] is value
            case _:
                return False

    def _match_type(self, handle: Value, type: Type, bound: Bindings) -> bool:
        known = bound.get(handle)
        if known is None:
            definer = self._definers.get(handle)
            if isinstance(definer, pdl.TypeOp) and definer.constant is not None:
                known = definer.constant.type
        bound[handle] = type
        return known is None or known == type

    def _match_attribute(self, handle: Value, attribute: Attribute, bound: Bindings) -> bool:
        known = bound.get(handle)
        if known is None:
            definer = self._definers.get(handle)
            known = definer.constant if isinstance(definer, pdl.AttributeOp) else None
        bound[handle] = attribute
        return known is None or known == attribute

    def _bind_constants(self, bound: Bindings) -> None:
        """Types and attributes that only constraints or actions use."""
        for op in self._pattern.operations:
            self._constant(op, bound)

    def _constant(self, op: Operation, bound: Bindings) -> None:
        match op:
            case pdl.TypeOp() if op.type not in bound and op.constant is not None:
                bound[op.type] = op.constant.type
            case pdl.AttributeOp() if op.attribute not in bound and op.constant is not None:
                bound[op.attribute] = op.constant
            case _:
                return

    def _holds(self, op: pdl.ApplyNativeConstraintOp, bound: Bindings, rewriter: Rewriter) -> bool:
        try:
            found = self._natives[op](rewriter, *self._arguments(op, bound))
        except Abandon:
            found = None
        holds = found is not None and found is not False
        if op.negated:
            return not holds
        if holds and op.results:
            self._bind(op, found, bound)
        return holds

    # -- rewriting

    def _arguments(self, op: Operation, bound: Bindings) -> list[Argument]:
        return [self._value(value, bound, op) for value in op.operands]

    def _value(self, handle: Value, bound: Bindings, op: Operation) -> Argument:
        try:
            return bound[handle]
        except KeyError:
            raise self._error("a handle is used that the match does not bind", op) from None

    def _bind(self, op: Operation, found: object, bound: Bindings) -> None:
        values = found if isinstance(found, tuple) else (found,)
        if len(values) != len(op.results):
            count = len(values)
            raise self._error(f"the native function gives {count} results, not {len(op.results)}", op)
        for handle, value in zip(op.results, values, strict=True):
            if not isinstance(value, Handle | Value | Attribute):
                raise self._error(f"the native function gives no PDL entity: {value!r}", op)
            bound[handle] = value

    def _act(self, op: Operation, bound: Bindings, rewriter: Rewriter) -> None:
        match op:
            case pdl.TypeOp() | pdl.AttributeOp():
                self._constant(op, bound)
            case pdl.OperationOp():
                bound[op.handle] = self._create(op, bound, rewriter)
            case pdl.ResultOp():
                parent = self._get(op.parent, bound, op, Handle)
                if op.index.value >= len(parent.results):
                    raise self._error(f"'{parent.name}' has no result {op.index.value}", op)
                bound[op.value] = parent.results[op.index.value]
            case pdl.ApplyNativeRewriteOp():
                found = self._natives[op](rewriter, *self._arguments(op, bound))
                if op.results:
                    self._bind(op, found, bound)
            case pdl.ReplaceOp():
                target = self._get(op.target, bound, op, Handle)
                if op.replacement is not None:
                    values: Sequence[Value] = self._get(op.replacement, bound, op, Handle).results
                else:
                    values = [self._get(value, bound, op, Value) for value in op.values]
                rewriter.replace(target, values)
            case pdl.EraseOp():
                rewriter.erase(self._get(op.target, bound, op, Handle))
            case _:
                raise self._error(f"unsupported PDL construct '{op.name}' in a rewrite", op)

    def _get(self, handle: Value, bound: Bindings, op: Operation, cls: type[T]) -> T:
        found = self._value(handle, bound, op)
        if not isinstance(found, cls):
            raise self._error(f"expected {cls.__name__}, but the handle is bound to {found!r}", op)
        return found

    def _create(self, op: pdl.OperationOp, bound: Bindings, rewriter: Rewriter) -> Handle:
        assert op.op_name is not None
        attributes = {name: self._get(v, bound, op, Attribute) for name, v in op.named_attributes}
        types = [self._get(value, bound, op, Type) for value in op.type_values]
        operands = [self._get(value, bound, op, Value) for value in op.operand_values]
        return rewriter.create(op.op_name.value, operands, types, attributes)
