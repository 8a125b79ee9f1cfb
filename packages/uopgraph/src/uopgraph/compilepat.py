"""The compiled form of a pattern matcher: one Python function per root operation.

All rules of an operation become one function of straight-line tests, in list order. A pattern is expanded
into alternatives (orders of a list, members of ``any``), each a conjunction of tests and captures; within an
alternative the tests of a node come before those of its sources, so that the first failing test is cheap. A
pattern with more than :data:`LIMIT` alternatives, or with captures below "every source", is left to the
interpreter.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

if TYPE_CHECKING:
    from uopgraph.node import UOp
    from uopgraph.ops import Ops
    from uopgraph.pattern import Rule, UPat

#: Greatest number of alternatives of a rule that is compiled.
LIMIT: Final = 32


class TooBigError(Exception):
    """The pattern is left to the interpreter."""


@attrs.define
class _Code:
    """Source text under construction, with the objects it names."""

    lines: list[str] = attrs.field(factory=list)
    names: dict[str, Any] = attrs.field(factory=dict)
    known: dict[int, str] = attrs.field(factory=dict)

    def name(self, value: Any, prefix: str) -> str:
        """A global name for an object."""
        found = self.known.get(id(value))
        if found is None:
            found = self.known[id(value)] = f"{prefix}{len(self.names)}"
            self.names[found] = value
        return found


#: An alternative: (pattern, path) pairs to test breadth-first; a path is a tuple of source positions.
_Alternative = list[tuple["UPat", tuple[int, ...]]]


def _alternatives(pattern: UPat, path: tuple[int, ...]) -> list[_Alternative]:
    """The conjunctions that `pattern` stands for, in the order in which the interpreter tries them."""
    if pattern.is_any:
        return [a for option in pattern.src for a in _alternatives(option, path)]
    own: _Alternative = [(pattern, path)]
    if pattern.src is None or not isinstance(pattern.src, list | tuple):
        return [own]
    orders: Sequence[Sequence[UPat]] = (
        list(itertools.permutations(pattern.src)) if isinstance(pattern.src, list) else [pattern.src]
    )
    out: list[_Alternative] = []
    for order in orders:
        parts = [_alternatives(p, (*path, i)) for i, p in enumerate(order)]
        for chosen in itertools.product(*parts):
            out.append(own + [pair for part in chosen for pair in part])
            if len(out) > LIMIT:
                raise TooBigError
    return out


def _op_test(code: _Code, pattern: UPat, expr: str) -> str | None:
    if pattern.op is None:
        return None
    if len(pattern.op) == 1:
        return f"{expr} is {code.name(next(iter(pattern.op)), 'O')}"
    return f"{expr} in {code.name(pattern.op, 'S')}"


def _own_tests(code: _Code, pattern: UPat, var: str, op_expr: str) -> list[str]:
    """Tests of one node, cheapest first."""
    tests = []
    op = _op_test(code, pattern, op_expr)
    if op is not None:
        tests.append(op)
    if isinstance(pattern.src, list | tuple):
        n = len(pattern.src)
        tests.append(f"len({var}.src) {'>=' if pattern.allow_any_len else '=='} {n}")
    if pattern.dtype is not None:
        if len(pattern.dtype) == 1:
            tests.append(f"{var}.dtype is {code.name(next(iter(pattern.dtype)), 'D')}")
        else:
            tests.append(f"{var}.dtype in {code.name(pattern.dtype, 'D')}")
    if pattern.arg is not None:
        arg = code.name(pattern.arg, "A")
        tests.append(f"({var}.arg is {arg} or {var}.arg == {arg})")
    if pattern.tag is not None:
        tests.append(f"{var}.tag in {code.name(pattern.tag, 'T')}")
    if pattern.src is not None and not isinstance(pattern.src, list | tuple):
        tests.append(_every_source(code, pattern.src, var))
    return tests


def _every_source(code: _Code, pattern: UPat, var: str) -> str:
    if pattern.names() or pattern.is_any or pattern.src is not None:
        raise TooBigError
    inner = _own_tests(code, pattern, "it", "it.op")
    return f"all([{' and '.join(inner) or 'True'} for it in {var}.src])"


def _emit(code: _Code, rule: Rule, alternative: _Alternative, depth_of_top: int) -> None:
    """One alternative of a rule as nested tests."""
    variables: dict[tuple[int, ...], str] = {(): "n"}
    bound: dict[str, str] = {}
    indent = "  "
    pending: list[str] = []

    def flush() -> None:
        nonlocal indent
        if pending:
            code.lines.append(f"{indent}if {' and '.join(pending)}:")
            indent += " "
            pending.clear()

    for pattern, path in sorted(alternative, key=lambda p: len(p[1])):
        if path not in variables:
            flush()
            parent, at = variables[path[:-1]], path[-1]
            if len(path) == 1 and at < depth_of_top:
                variables[path] = f"s{at}"
            else:
                variables[path] = "v" + "_".join(map(str, path))
                code.lines.append(f"{indent}{variables[path]} = {parent}.src[{at}]")
        var = variables[path]
        top = len(path) == 1 and path[0] < depth_of_top
        tests = _own_tests(code, pattern, var, f"o{path[0]}" if top else f"{var}.op")
        if not path and pattern.op is not None:
            tests = tests[1:]  # the root's operation chose this function
        if pattern.name is not None:
            other = bound.get(pattern.name)
            if other is None:
                bound[pattern.name] = var
            elif other != var:
                tests.append(f"{var} is {other}")
        pending += tests
    flush()
    function = code.name(rule.function, "F")
    arguments = [f"{name}={var}" for name, var in bound.items()]
    if rule.wants_ctx:
        arguments.append("ctx=ctx")
    code.lines.append(f"{indent}r = {function}({', '.join(arguments)})")
    code.lines.append(f"{indent}if r is not None and r is not n: return r")


def compile_rules(op: Ops, rules: Sequence[Rule]) -> Callable[[UOp, Any], Any]:
    """The function ``match(node, ctx)`` of the rules whose root may be `op`: the first result that is neither
    None nor the node, else None."""
    code = _Code()
    width = 0
    bodies: list[tuple[Rule, list[_Alternative] | None]] = []
    for rule in rules:
        try:
            found = [a for a in _alternatives(rule.pattern, ()) if a[0][0].op is None or op in a[0][0].op]
            if len(found) > LIMIT:
                raise TooBigError
            probe = _Code()
            for alternative in found:
                _emit(probe, rule, alternative, 0)
            bodies.append((rule, found))
            width = max([width, *(p[0] + 1 for a in found for _, p in a if len(p) == 1)])
        except TooBigError:
            bodies.append((rule, None))
    code.lines.append("def match(n, ctx):")
    width = min(width, 3)
    if width:
        code.lines.append("  src = n.src")
        code.lines.append("  size = len(src)")
        for i in range(width):
            code.lines.append(f"  if size > {i}: s{i} = src[{i}]; o{i} = s{i}.op")
            code.lines.append(f"  else: s{i} = o{i} = None")
    for rule, alternatives in bodies:
        if alternatives is None:
            need = code.name(rule.pattern.early_reject, "R")
            apply = code.name(rule.apply, "I")
            code.lines.append(f"  if {need} <= n.src_ops:")
            code.lines.append(f"   r = {apply}(n, ctx)")
            code.lines.append("   if r is not None and r is not n: return r")
            continue
        custom = rule.pattern.early_reject - rule.pattern.required()
        if custom:
            code.lines.append(f"  if {code.name(rule.pattern.early_reject, 'R')} <= n.src_ops:")
            code.lines.append("   pass")
        start = len(code.lines)
        for alternative in alternatives:
            _emit(code, rule, alternative, width)
        if custom:
            code.lines[start - 1 :] = [" " + line for line in code.lines[start:]]
    code.lines.append("  return None")
    scope: dict[str, Any] = dict(code.names)
    exec("\n".join(code.lines), scope)
    match: Callable[[UOp, Any], Any] = scope["match"]
    return match
