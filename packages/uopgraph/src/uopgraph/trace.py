"""Tracing of rewrites: a profile per rule, and recordings that can be replayed.

While neither is on, a rewrite pays one context look-up. A recording holds integers, never nodes, so that
graphs and their buffers stay collectable. ``TRACK_MATCH_STATS`` in the environment watches the whole
process: 1 profiles it and prints the table at exit, 2 also records every rewrite (:func:`process_trace` gives
the trace), 3 also prints every rule that fires.
"""

from __future__ import annotations

import atexit
import difflib
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
from uopgraph.origin import origin_of
from uopgraph.pattern import PatternMatcher, Rule
from uopgraph.render import dump
from uopgraph.rewrite import BottomUpGate, graph_rewrite, observer

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
    """One rule that fired: ids of the nodes before and after, the rule, its source line, seconds, and whether
    it saw the node before its sources."""

    before: int
    after: int
    rule: str
    text: str
    seconds: float
    pre: bool = False


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
    gates: list[int] = attrs.field(factory=list)
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

    @property
    def diff(self) -> str:
        """The flat dumps of both sides as a unified diff, without its heading."""
        old, new = (dump(n).splitlines() for n in (self.before, self.after))
        return "\n".join(list(difflib.unified_diff(old, new, lineterm="", n=1))[2:])

    @property
    def changed(self) -> tuple[UOp, ...]:
        """The nodes of the new side that the old side did not have, sources before users."""
        old = self.before.backward_slice_with_self
        return tuple(n for n in self.after.backward_slice_with_self if n not in old)


class Trace:
    """Everything that was rewritten while it was on: counts per rule, spans, and (when recording) every
    match."""

    def __init__(self, record: bool, show: Callable[[str], None] | None = None) -> None:
        self.record = record
        self.show = show
        self.stats: dict[Rule, RuleStats] = {}
        self.spans: list[Span] = []
        self.groups: list[Group] = []
        self.fields: dict[int, Fields] = {}
        self.origins: dict[int, str] = {}
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
            origin = origin_of(node)
            if origin is not None:
                self.origins[fresh] = origin
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

    def watched(self, matcher: PatternMatcher, record: RewriteRecord | None, pre: bool) -> PatternMatcher:
        """`matcher` with every rule counted, also those that are never tried."""
        for rule in matcher.rules:
            self.stats_of(rule)
        return _Watched(matcher, self, record, pre)

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
        rules that never fired."""
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
        """The graph after each recorded match: the engine runs on the recorded root in the recorded mode,
        with the first 1, 2, ... recorded pairs in place of its rules. Stops at a REWRITE_ERROR."""
        root = self.node(record.root)
        gates = {self.node(g) for g in record.gates}
        pre, post = _Script({}, gates), _Script({}, set())
        graph = root
        for m in record.matches:
            before, after = self.node(m.before), self.node(m.after)
            if after.op is Ops.REWRITE_ERROR:
                yield Step(graph, before, after, m.rule, m.text)
                return
            (pre if m.pre else post).pairs[before] = after
            token = observer.set(None)  # a running trace does not record what it replays
            try:
                graph = graph_rewrite(root, post, bpm=pre, walk=record.walk, enter_calls=record.enter_calls)
            finally:
                observer.reset(token)
            yield Step(graph, before, after, m.rule, m.text)


class _Script(PatternMatcher):
    """A matcher that gives recorded results."""

    __slots__ = ("gates", "pairs")

    def __init__(self, pairs: dict[UOp, UOp], gates: set[UOp]) -> None:
        super().__init__(())
        self.pairs = pairs
        self.gates = gates

    def rewrite(self, node: UOp, ctx: Any = None) -> Any:
        if node in self.gates:
            raise BottomUpGate
        return self.pairs.get(node)


class _Watched(PatternMatcher):
    """A matcher that interprets its rules one by one and counts them."""

    __slots__ = ("_inner", "_pre", "_record", "_trace")

    def __init__(self, inner: PatternMatcher, trace: Trace, record: RewriteRecord | None, pre: bool) -> None:
        self._pre = pre
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
                if self._record is not None:
                    self._record.gates.append(self._trace.node_id(node))
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
        if self._trace.show is not None:
            made = result.op.name if isinstance(result, UOp) else repr(result)
            self._trace.show(f"{rule.location}: {node.op.name} -> {made}  {stats.text}")
        if self._record is not None and isinstance(result, UOp):
            before, after = self._trace.node_id(node), self._trace.node_id(result)
            self._record.matches.append(Match(before, after, rule.location, stats.text, seconds, self._pre))


@attrs.define(eq=False)
class _Watch:
    """What ``graph_rewrite`` holds while it is watched."""

    trace: Trace
    record: RewriteRecord | None

    def matcher(self, matcher: PatternMatcher | None, pre: bool) -> PatternMatcher | None:
        return None if matcher is None else self.trace.watched(matcher, self.record, pre)

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


def watch_process(level: int) -> Trace:
    """Watch everything from now on: 1 profiles and prints the table to stderr at exit, 2 also records, 3 also
    prints every rule that fires."""
    trace = Trace(level >= 2, _to_stderr if level >= 3 else None)
    observer.set(trace)
    atexit.register(lambda: _to_stderr(trace.table()))
    return trace


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr)


def process_trace() -> Trace | None:
    """The trace or profile that is running, None when nothing is watched."""
    found: Trace | None = observer.get()
    return found


def _level() -> int:
    text = os.environ.get("TRACK_MATCH_STATS", "") or "0"
    return int(text) if text.isdigit() else 0


if _level():
    watch_process(_level())

__all__ = [
    "Group",
    "Match",
    "RewriteRecord",
    "RuleStats",
    "Span",
    "Step",
    "Trace",
    "cpu_profile",
    "process_trace",
    "profile",
    "recording",
    "rewrite_group",
    "watch_process",
]
