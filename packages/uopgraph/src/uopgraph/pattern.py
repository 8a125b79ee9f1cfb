"""Patterns and pattern matchers."""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType
from typing import Any, Final, Self, TypeAlias, final

import attrs

from uopgraph.compilepat import compile_rules
from uopgraph.dtype import DType, InvalidType
from uopgraph.errors import PatternError
from uopgraph.node import UOp
from uopgraph.operators import Operators
from uopgraph.ops import GroupOp, Ops

Bindings: TypeAlias = dict[str, UOp]
RuleFunction: TypeAlias = Callable[..., Any]
#: A match of one rule on one node: the result of the rule function, or None.
Match: TypeAlias = Callable[[UOp, Any], Any]

_HERE: Final = __file__
_SUGAR: Final = sys.modules[Operators.__module__].__file__


def _caller() -> tuple[str, int]:
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename in (_HERE, _SUGAR):
        frame = frame.f_back
    return ("<unknown>", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def _set(value: Any) -> frozenset[Any] | None:
    if value is None:
        return None
    if isinstance(value, set | frozenset | tuple | list):
        return frozenset(value)
    return frozenset({value})


def _tag_set(value: Any) -> frozenset[Any] | None:
    return value if value is None else frozenset(value)


def _sources(value: Any) -> Any:
    if isinstance(value, list):
        for p in value:
            if not isinstance(p, UPat):
                raise PatternError(f"a source pattern must be a UPat, got {p!r}", _caller())
        if all(p == value[0] for p in value[1:]):
            return tuple(value)  # every order is the same
        return value
    if isinstance(value, UPat) or value is None:
        return value
    out = tuple(value)
    for p in out:
        if not isinstance(p, UPat):
            raise PatternError(f"a source pattern must be a UPat, got {p!r}", _caller())
    return out


@final
@attrs.frozen(eq=True, order=False, repr=False, init=False)
class UPat(Operators):
    """A pattern of nodes.

    `src`: None any sources; a tuple exactly these in order (with `allow_any_len`: these first); a list these
    in any order; a single UPat every source. `arg` None is "any". A name used twice must bind the same
    object.
    """

    op: frozenset[Ops] | None
    dtype: frozenset[DType] | None
    src: Any
    arg: Any
    name: str | None
    tag: frozenset[Any] | None
    allow_any_len: bool
    is_any: bool
    early_reject: frozenset[Ops] = attrs.field(eq=False)
    location: tuple[str, int] = attrs.field(eq=False)

    def __init__(
        self,
        op: Any = None,
        dtype: Any = None,
        src: Any = None,
        arg: Any = None,
        name: str | None = None,
        tag: Iterable[Any] | None = None,
        allow_any_len: bool = False,
        custom_early_reject: Iterable[Ops] | None = None,
        location: tuple[str, int] | None = None,
        is_any: bool = False,
    ) -> None:
        if name == "ctx":
            raise PatternError("'ctx' is a reserved name", _caller())
        where = _caller() if location is None else location
        sources = src if is_any else _sources(src)
        reject = _required(sources) if custom_early_reject is None else frozenset(custom_early_reject)
        if is_any:
            reject = frozenset()
        self.__attrs_init__(
            _set(op), _set(dtype), sources, arg, name, _tag_set(tag), allow_any_len, is_any, reject, where
        )

    # construction --------------------------------------------------------------------------------

    @staticmethod
    def var(name: str | None = None, dtype: Any = None) -> UPat:
        """Any node."""
        return UPat(dtype=dtype, name=name)

    @staticmethod
    def cvar(name: str | None = None, dtype: Any = None, arg: Any = None) -> UPat:
        """Any CONST."""
        return UPat(Ops.CONST, dtype=dtype, name=name, arg=arg)

    @staticmethod
    def const(value: Any, dtype: Any = None) -> UPat:
        """The CONST whose argument equals `value`."""
        return UPat(Ops.CONST, dtype=dtype, arg=value)

    @staticmethod
    def any(*patterns: UPat) -> UPat:
        """One of the alternatives; each is tried until the rule function gives a result."""
        return UPat(src=tuple(patterns), is_any=True)

    def named(self, name: str) -> UPat:
        """The same pattern under a name."""
        return self._with(name=name)

    def _with(self, **changes: Any) -> UPat:
        fields = {
            "op": self.op,
            "dtype": self.dtype,
            "src": self.src,
            "arg": self.arg,
            "name": self.name,
            "tag": self.tag,
            "allow_any_len": self.allow_any_len,
            "custom_early_reject": self.early_reject,
            "location": self.location,
            "is_any": self.is_any,
        }
        return UPat(**{**fields, **changes})

    def or_casted(self, name: str | None = None) -> UPat:
        """This or a CAST of it; `name` names whichever it is."""
        plain = self if name is None else self.named(name)
        return UPat.any(plain, UPat(Ops.CAST, src=(self,), name=name))

    def or_after(self, name: str | None = None) -> UPat:
        """This or an AFTER of it."""
        plain = self if name is None else self.named(name)
        return UPat.any(plain, UPat(Ops.AFTER, src=(self,), allow_any_len=True, name=name))

    def f(self, op: Any, **more: Any) -> UPat:
        """A node of `op` with self as its only prefix source."""
        return UPat(op, src=(self,), **more)

    # sugar ---------------------------------------------------------------------------------------

    def alu(self, op: Ops, *src: UPat) -> UPat:
        sources = (self, *src)
        return UPat(op, src=list(sources) if op in GroupOp.Commutative else sources)

    def operand(self, value: Any) -> UPat:
        """A number becomes a CONST pattern with that argument."""
        if isinstance(value, UPat):
            return value
        if isinstance(value, bool | int | float | InvalidType):
            return UPat(Ops.CONST, arg=value)
        raise PatternError(f"no pattern for {value!r}", _caller())

    def __sub__(self, other: Any) -> Self:
        raise PatternError("a difference is a sum with a product by -1: write that", _caller())

    def __le__(self, other: Any) -> UPat:
        raise PatternError("write <= as the negation of <", _caller())

    def __ge__(self, other: Any) -> UPat:
        raise PatternError("write >= as the negation of <", _caller())

    def cast(self, dtype: Any = None, name: str | None = None) -> UPat:
        return UPat(Ops.CAST, dtype=dtype, src=(self,), name=name)

    def bitcast(self, dtype: Any = None, name: str | None = None) -> UPat:
        return UPat(Ops.BITCAST, dtype=dtype, src=(self,), name=name)

    def index(self, *idx: UPat, **more: Any) -> UPat:
        return UPat(Ops.INDEX, src=(self, *idx), **more)

    def load(self, **more: Any) -> UPat:
        return UPat(Ops.LOAD, src=(self,), **more)

    def store(self, value: UPat, **more: Any) -> UPat:
        return UPat(Ops.STORE, src=(self, value), **more)

    def reduce(self, *ranges: UPat, **more: Any) -> UPat:
        return UPat(Ops.REDUCE, src=(self, *ranges), **more)

    def after(self, *deps: UPat, **more: Any) -> UPat:
        return UPat(Ops.AFTER, src=(self, *deps), **more)

    def end(self, *ranges: UPat, **more: Any) -> UPat:
        return UPat(Ops.END, src=(self, *ranges), **more)

    def broadcast(self, **more: Any) -> UPat:
        """A STACK of which every source matches self."""
        return UPat(Ops.STACK, src=self, **more)

    def sink(self, *more: UPat, **fields: Any) -> UPat:
        return UPat(Ops.SINK, src=(self, *more), **fields)

    # matching ------------------------------------------------------------------------------------

    def match(self, node: UOp, bound: Bindings | None = None) -> list[Bindings]:
        """Every way in which `node` matches, as binding dicts, in the order in which they are to be tried."""
        return list(self._match(node, {} if bound is None else bound))

    def _match(self, node: UOp, bound: Bindings) -> Iterator[Bindings]:
        if self.is_any:
            for alternative in self.src:
                yield from alternative._match(node, bound)
            return
        if self.op is not None and node.op not in self.op:
            return
        if self.name is not None:
            old = bound.get(self.name)
            if old is None:
                bound = {**bound, self.name: node}
            elif old is not node:
                return
        if self.dtype is not None and node.dtype not in self.dtype:
            return
        if self.arg is not None and not (node.arg is self.arg or node.arg == self.arg):
            return
        if self.tag is not None and node.tag not in self.tag:
            return
        if self.src is None:
            yield bound
            return
        if isinstance(self.src, UPat):
            yield from _match_all(((self.src, s) for s in node.src), bound)
            return
        n = len(self.src)
        if len(node.src) < n or (len(node.src) != n and not self.allow_any_len):
            return
        if not isinstance(self.src, list):
            yield from _match_all(zip(self.src, node.src, strict=False), bound)
            return
        for order in itertools.permutations(self.src):
            yield from _match_all(zip(order, node.src, strict=False), bound)

    def required(self) -> frozenset[Ops]:
        """The operations that must occur among the direct sources of a match."""
        return frozenset() if self.is_any else _required(self.src)

    def names(self) -> set[str]:
        """Every name that this pattern can bind."""
        found = {self.name} if self.name is not None else set()
        parts = [self.src] if isinstance(self.src, UPat) else self.src or ()
        return found.union(*(p.names() for p in parts))

    def __repr__(self) -> str:
        parts = []
        if self.is_any:
            return f"UPat.any({', '.join(map(repr, self.src))})"
        if self.op is not None:
            parts.append(
                "|".join(o.name for o in sorted(self.op)) if len(self.op) < 6 else f"<{len(self.op)} ops>"
            )
        for field in ("name", "arg"):
            if getattr(self, field) is not None:
                parts.append(f"{field}={getattr(self, field)!r}")
        if self.dtype is not None:
            parts.append(f"dtype={'|'.join(sorted(d.name for d in self.dtype))}")
        if self.src is not None:
            parts.append(f"src={self.src!r}")
        return f"UPat({', '.join(parts)})"


def _match_all(pairs: Iterable[tuple[UPat, UOp]], bound: Bindings) -> Iterator[Bindings]:
    states = [bound]
    for pattern, node in pairs:
        states = [found for state in states for found in pattern._match(node, state)]
        if not states:
            return
    yield from states


def _required(src: Any) -> frozenset[Ops]:
    """The operations that must occur among the direct sources of a matching node."""
    if src is None:
        return frozenset()
    if isinstance(src, UPat):
        return frozenset()  # every source matches: also none at all
    return frozenset(next(iter(p.op)) for p in src if p.op is not None and len(p.op) == 1 and not p.is_any)


def _no_closure(function: RuleFunction, location: tuple[str, int]) -> None:
    if isinstance(function, FunctionType) and function.__closure__:
        names = ", ".join(function.__code__.co_freevars)
        raise PatternError(f"a rule function must not be a closure (it captures {names})", location)


@final
@attrs.frozen(eq=False)
class Rule:
    """One (pattern, function) pair. ``wants_ctx``: the function has a ``ctx`` parameter."""

    pattern: UPat
    function: RuleFunction
    wants_ctx: bool

    @property
    def location(self) -> str:
        """``file:line`` of the pattern."""
        return f"{self.pattern.location[0].rsplit('/', 1)[-1]}:{self.pattern.location[1]}"

    @staticmethod
    def make(pattern: UPat, function: RuleFunction) -> Rule:
        """Check the pair: the root names its operations, the function accepts every captured name."""
        roots = [pattern] if not pattern.is_any else list(pattern.src)
        if any(p.op is None for p in roots):
            raise PatternError("the root of a rule must name its operations", pattern.location)
        _no_closure(function, pattern.location)
        parameters = inspect.signature(function).parameters
        open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        unknown = pattern.names() - parameters.keys()
        if unknown and not open_ended:
            raise PatternError(f"captured but not accepted: {', '.join(sorted(unknown))}", pattern.location)
        return Rule(pattern, function, "ctx" in parameters)

    def ops(self) -> frozenset[Ops]:
        """The operations of the root."""
        p = self.pattern
        if p.is_any:
            return frozenset().union(*(alternative.op for alternative in p.src))
        assert p.op is not None
        return p.op

    def apply(self, node: UOp, ctx: Any) -> Any:
        """Interpret the pattern; the first result of the function that is neither None nor `node`."""
        for bound in self.pattern._match(node, {}):
            result = self.function(**bound, ctx=ctx) if self.wants_ctx else self.function(**bound)
            if result is not None and result is not node:
                return result
        return None


#: How often a matcher interprets the rules of an operation before it compiles them.
_WARM_UP: Final = 24


class PatternMatcher:
    """Rules indexed by the operation of their root, in list order.

    The rules of an operation are interpreted at first and compiled when the operation turns out to be
    frequent; ``compiled=False`` never compiles. Both forms give the same results.
    """

    __slots__ = ("_calls", "_compile", "_sums", "_table", "by_op", "rules")

    def __init__(self, rules: Iterable[tuple[UPat, RuleFunction] | Rule], compiled: bool = True) -> None:
        self.rules: tuple[Rule, ...] = tuple(r if isinstance(r, Rule) else Rule.make(*r) for r in rules)
        self.by_op: dict[Ops, list[Rule]] = {}
        self._compile = compiled
        self._table: dict[Ops, Match] = {}
        self._calls: dict[Ops, int] = {}
        self._sums: dict[int, tuple[PatternMatcher, PatternMatcher]] = {}
        for rule in self.rules:
            for op in rule.ops():
                self.by_op.setdefault(op, []).append(rule)

    def rewrite(self, node: UOp, ctx: Any = None) -> Any:
        """The result of the first rule that gives one other than `node` itself, else None."""
        match = self._table.get(node.op)
        return self._first(node, ctx) if match is None else match(node, ctx)

    def _first(self, node: UOp, ctx: Any) -> Any:
        op = node.op
        rules = self.by_op.get(op)
        if rules is None:
            self._table[op] = _nothing
            return None
        if self._compile:
            calls = self._calls[op] = self._calls.get(op, 0) + 1
            if calls > _WARM_UP:
                self._table[op] = match = compile_rules(op, rules)
                return match(node, ctx)
        return self.interpret(node, ctx)

    def interpret(self, node: UOp, ctx: Any = None) -> Any:
        """:meth:`rewrite` by interpreting the patterns."""
        have = node.src_ops
        for rule in self.by_op.get(node.op, ()):
            if rule.pattern.early_reject <= have:
                result = rule.apply(node, ctx)
                if result is not None and result is not node:
                    return result
        return None

    def compiled(self, op: Ops) -> Match:
        """The compiled function of one operation."""
        return compile_rules(op, self.by_op.get(op, ()))

    def which(self, node: UOp, ctx: Any = None) -> Rule | None:
        """The rule that :meth:`rewrite` would take its result from."""
        for rule in self.by_op.get(node.op, ()):
            if rule.pattern.early_reject <= node.src_ops:
                result = rule.apply(node, ctx)
                if result is not None and result is not node:
                    return rule
        return None

    def __add__(self, other: PatternMatcher) -> PatternMatcher:
        """The rules of self, then those of `other` (memoised)."""
        hit = self._sums.get(id(other))
        if hit is None:
            hit = self._sums[id(other)] = (other, PatternMatcher((*self.rules, *other.rules), self._compile))
        return hit[1]


def _nothing(node: UOp, ctx: Any) -> None:
    return None
