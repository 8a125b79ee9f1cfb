"""Tracing of rewrites: a profile per rule, and recordings that can be replayed (graph spec 15).

While neither is on, a rewrite pays one context look-up. A recording holds integers, never nodes, so that
graphs and
their buffers stay collectable. ``TRACK_MATCH_STATS=1`` in the environment profiles the whole process and
prints the
table at exit.
"""

from __future__ import annotations

import atexit
import functools
import linecache
import os
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

import attrs

from uopgraph.dtype import DType, dtypes
from uopgraph.node import UOp
from uopgraph.ops import Ops
from uopgraph.pattern import PatternMatcher, Rule
from uopgraph.rewrite import BottomUpGate, observer

_P = ParamSpec("_P")
_R = TypeVar("_R")


@attrs.define
class RuleStats:
    """Calls of one rule: tries = hits + misses; seconds spent in both."""

    location: str
    text: str
    hits: int = 0
    misses: int = 0
    seconds_hit: float = 0.0
    seconds_miss: float = 0.0

    @property
    def tries(self) -> int:
        return self.hits + self.misses

    @property
    def seconds(self) -> float:
        return self.seconds_hit + self.seconds_miss


@attrs.frozen
class Span:
    """A named stretch of time in seconds since the profile began."""

    name: str
    start: float
    end: float
    depth: int


def rule_text(rule: Rule) -> str:
    """The source line of a rule's pattern, and the name of its function when the line does not show it."""
    line = linecache.getline(rule.pattern.location[0], rule.pattern.location[1]).strip()
    name = getattr(rule.function, "__name__", "<lambda>")
    return line if name in line or name == "<lambda>" else f"{line}  {name}"


@attrs.define(eq=False)
class Match:
    """One rule that fired: ids of the nodes before and after, the rule, its source line, seconds."""

    before: int
    after: int
    rule: str
    text: str
    seconds: float


@attrs.define(eq=False)
class RewriteRecord:
    """One call of ``graph_rewrite`` and what happened in it."""

    name: str
    root: int
    depth: int
    bottom_up: bool
    walk: bool
    enter_calls: bool
    matches: list[Match] = attrs.field(factory=list)
    result: int | None = None


@attrs.define(eq=False)
class Group:
    """The rewrites under one top-level call."""

    name: str
    rewrites: list[RewriteRecord] = attrs.field(factory=list)


#: The fields of a recorded node: (op, dtype, ids of the sources, arg, tag).
Fields = tuple[Ops, DType, tuple[int, ...], Any, Any]


@attrs.define(eq=False)
class Step:
    """One step of a replay: the graph after it, the changed pair, the rule."""

    graph: UOp
    before: UOp
    after: UOp
    rule: str
    text: str


class Trace:
    """Everything that was rewritten while it was on: counts per rule, spans, and (when recording) every
    match."""

    def __init__(self, record: bool) -> None:
        self.record = record
        self.stats: dict[Rule, RuleStats] = {}
        self.spans: list[Span] = []
        self.groups: list[Group] = []
        self.fields: dict[int, Fields] = {}
        self._ids: weakref.WeakKeyDictionary[UOp, int] = weakref.WeakKeyDictionary()
        self._depth = 0
        self._start = time.perf_counter()
        self._counts: dict[str, int] = {}
        self._group_depth = 0

    # recording -----------------------------------------------------------------------------------

    def node_id(self, root: UOp) -> int:
        """The id of a node; its fields and those below are written on first sight."""
        found = self._ids.get(root)
        if found is not None:
            return found
        for node in root.toposort(gate=lambda n: n not in self._ids):
            fresh = len(self.fields)
            self._ids[node] = fresh
            self.fields[fresh] = (
                node.op,
                node.dtype,
                tuple([self._ids[s] for s in node.src]),
                node.arg,
                node.tag,
            )
        return self._ids[root]

    def node(self, number: int) -> UOp:
        """The node of an id, built again from the recorded fields."""
        built: dict[int, UOp] = {}
        stack = [number]
        while stack:
            at = stack[-1]
            op, dtype, src, arg, tag = self.fields[at]
            missing = [s for s in src if s not in built]
            if missing:
                stack += missing
                continue
            stack.pop()
            if at not in built:
                built[at] = UOp(op, dtype, tuple([built[s] for s in src]), arg, tag)
        return built[number]

    def stats_of(self, rule: Rule) -> RuleStats:
        found = self.stats.get(rule)
        if found is None:
            found = self.stats[rule] = RuleStats(rule.location, rule_text(rule))
        return found

    @contextmanager
    def rewrite(
        self, name: str | None, root: UOp, bottom_up: bool, walk: bool, enter_calls: bool
    ) -> Iterator[_Watch]:
        """Called by ``graph_rewrite`` around its work."""
        label = name or "rewrite"
        record = None
        if self.record:
            if self._depth == 0 and self._group_depth == 0:
                self.groups.append(Group(self.numbered(label)))
            record = RewriteRecord(label, self.node_id(root), self._depth, bottom_up, walk, enter_calls)
            self.groups[-1].rewrites.append(record)
        start = time.perf_counter()
        self._depth += 1
        try:
            yield _Watch(self, record)
        finally:
            self._depth -= 1
            self.spans.append(
                Span(label, start - self._start, time.perf_counter() - self._start, self._depth)
            )

    def numbered(self, name: str) -> str:
        """``name n<k>``: a counter per name."""
        k = self._counts[name] = self._counts.get(name, 0) + 1
        return f"{name} n{k}"

    @contextmanager
    def group(self, name: str) -> Iterator[Group]:
        """Rewrites inside belong to one group; nested groups join the outer one."""
        if (self._group_depth == 0 and self._depth == 0) or not self.groups:
            self.groups.append(Group(self.numbered(name)))
        self._group_depth += 1
        start = time.perf_counter()
        try:
            yield self.groups[-1]
        finally:
            self._group_depth -= 1
            self.spans.append(Span(name, start - self._start, time.perf_counter() - self._start, self._depth))

    # reports -------------------------------------------------------------------------------------

    def table(self) -> str:
        """One line per rule, by total time: hits/tries, milliseconds, place, source text; then the number of
        rules
        that never fired."""
        rows = sorted(self.stats.values(), key=lambda s: (-s.seconds, s.location))
        lines = [
            f"{s.hits:8d}/{s.tries:<8d} {s.seconds * 1e3:9.2f} ms  {s.location:24s} {s.text}" for s in rows
        ]
        silent = sum(1 for s in rows if s.hits == 0)
        return "\n".join([*lines, f"{silent} of {len(rows)} rules never fired"])

    def chrome_trace(self) -> dict[str, Any]:
        """The spans as Chrome trace events (microseconds); ``json.dump`` it for Perfetto."""
        events = [
            {
                "name": s.name,
                "ph": "X",
                "pid": 0,
                "tid": 0,
                "ts": round(s.start * 1e6, 3),
                "dur": round((s.end - s.start) * 1e6, 3),
            }
            for s in sorted(self.spans, key=lambda s: (s.start, -s.end))
        ]
        return {"traceEvents": events, "displayTimeUnit": "ms"}

    def replay(self, record: RewriteRecord) -> Iterator[Step]:
        """Apply the recorded matches one after the other to the recorded root; stops at a REWRITE_ERROR."""
        graph = self.node(record.root)
        done: dict[UOp, UOp] = {}
        for m in record.matches:
            before, after = self.node(m.before), self.node(m.after)
            if after.op is Ops.REWRITE_ERROR:
                yield Step(graph, before, after, m.rule, m.text)
                return
            done[before] = after
            graph = graph.substitute({before: after}, walk=True, enter_calls=record.enter_calls)
            yield Step(graph, before, after, m.rule, m.text)


class _Watched(PatternMatcher):
    """A matcher that interprets its rules one by one and counts them."""

    __slots__ = ("_inner", "_record", "_trace")

    def __init__(self, inner: PatternMatcher, trace: Trace, record: RewriteRecord | None) -> None:
        self.rules = inner.rules
        self.by_op = inner.by_op
        self._inner = inner
        self._trace = trace
        self._record = record

    def rewrite(self, node: UOp, ctx: Any = None) -> Any:
        for rule in self.by_op.get(node.op, ()):
            if not rule.pattern.early_reject <= node.src_ops:
                continue
            stats = self._trace.stats_of(rule)
            start = time.perf_counter()
            try:
                result = rule.apply(node, ctx)
            except BottomUpGate:
                stats.hits += 1
                raise
            except Exception as e:
                error = UOp(Ops.REWRITE_ERROR, dtypes.void, (), f"{type(e).__name__}: {e}")
                self._keep(node, error, rule, stats, time.perf_counter() - start)
                raise
            seconds = time.perf_counter() - start
            if result is None:
                stats.misses += 1
                stats.seconds_miss += seconds
                continue
            stats.hits += 1
            stats.seconds_hit += seconds
            self._keep(node, result, rule, stats, seconds)
            return result
        return None

    def _keep(self, node: UOp, result: Any, rule: Rule, stats: RuleStats, seconds: float) -> None:
        if self._record is not None and isinstance(result, UOp):
            before, after = self._trace.node_id(node), self._trace.node_id(result)
            self._record.matches.append(Match(before, after, rule.location, stats.text, seconds))


@attrs.define(eq=False)
class _Watch:
    """What ``graph_rewrite`` holds while it is watched."""

    trace: Trace
    record: RewriteRecord | None

    def matcher(self, matcher: PatternMatcher | None) -> PatternMatcher | None:
        return None if matcher is None else _Watched(matcher, self.trace, self.record)

    def finish(self, result: UOp) -> None:
        if self.record is not None:
            self.record.result = self.trace.node_id(result)


class _Session:
    """A context manager that turns a trace on."""

    def __init__(self, record: bool) -> None:
        self._trace = Trace(record)
        self._token: Any = None

    def __enter__(self) -> Trace:
        self._token = observer.set(self._trace)
        return self._trace

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        observer.reset(self._token)


def profile() -> _Session:
    """``with profile() as p: ...``: counts and times per rule, spans per rewrite."""
    return _Session(record=False)


def recording() -> _Session:
    """``with recording() as t: ...``: also every match, for replay and for ``uopgraph.viz``."""
    return _Session(record=True)


def rewrite_group(
    name: str | Callable[[Any], str],
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """A decorator: the rewrites of each call form one group. `name` may be a function of the result."""

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        @functools.wraps(function)
        def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            trace: Trace | None = observer.get()
            if trace is None:
                return function(*args, **kwargs)
            with trace.group(name if isinstance(name, str) else function.__name__) as group:
                result = function(*args, **kwargs)
                if not isinstance(name, str):
                    group.name = trace.numbered(name(result))
                return result

        return wrapped

    return decorate


@contextmanager
def cpu_profile(name: str) -> Iterator[None]:
    """A named span of the running profile; nothing when none runs."""
    trace: Trace | None = observer.get()
    if trace is None:
        yield
        return
    start = time.perf_counter()
    try:
        yield
    finally:
        trace.spans.append(Span(name, start - trace._start, time.perf_counter() - trace._start, trace._depth))


def profile_process() -> Trace:
    """Profile everything from now on and print the table to stderr at exit."""
    trace = Trace(record=False)
    observer.set(trace)
    atexit.register(lambda: print(trace.table(), file=sys.stderr))
    return trace


if os.environ.get("TRACK_MATCH_STATS", "0") not in ("", "0"):
    profile_process()

__all__ = [
    "Group",
    "Match",
    "RewriteRecord",
    "RuleStats",
    "Span",
    "Step",
    "Trace",
    "cpu_profile",
    "profile",
    "profile_process",
    "recording",
    "rewrite_group",
]
