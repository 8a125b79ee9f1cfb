"""The graph rewrite engine."""

from __future__ import annotations

import gc
import os
from collections import deque
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Final

from uopgraph.dtype import dtypes
from uopgraph.errors import RewriteError
from uopgraph.node import UOp
from uopgraph.ops import GroupOp, Ops
from uopgraph.pattern import PatternMatcher, UPat

#: Greatest number of entries on the engine's stack before a rewrite counts as endless.
STACK_LIMIT: Final = int(os.environ.get("REWRITE_STACK_LIMIT", "250000"))


class BottomUpGate(Exception):
    """Raised by a pre-order rule: the node reached so far is final and its sources are not visited."""


class _Fired:
    """The last rules that fired, found again only when an error must name them."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last: deque[tuple[PatternMatcher, UOp, Any]] = deque(maxlen=12)

    def error(self, message: str) -> RewriteError:
        names: dict[str, None] = {}
        for matcher, node, ctx in self.last:
            try:
                rule = matcher.which(node, ctx)
            except Exception:  # noqa: BLE001  (a rule that fails the second time has no name to give)
                continue
            if rule is not None:
                names[rule.location] = None
        return RewriteError(message, tuple(names))


def graph_rewrite(
    root: UOp,
    pm: PatternMatcher,
    ctx: Any = None,
    bottom_up: bool = False,
    name: str | None = None,
    bpm: PatternMatcher | None = None,
    walk: bool = False,
    enter_calls: bool = False,
) -> UOp:
    """Rewrite the graph under `root`.

    `pm` sees a node when its sources are final; with ``bottom_up=True`` it is used before the sources instead
    (from the root to the leaves), as `bpm` always is. The result is a fixed point of the matchers unless
    ``walk=True``: then every node is offered once and replacements are not visited. Bodies of CALLs are left
    alone unless ``enter_calls=True``. `name` stands in traces. Raises :class:`RewriteError` for an endless
    rewrite.
    """
    before = bpm
    after: PatternMatcher | None = pm
    if bottom_up:
        before, after = (pm if bpm is None else bpm + pm), None
    engine = _walk if walk else _fixed_point
    watcher = observer.get()
    if watcher is not None:
        with watcher.rewrite(name, root, bottom_up, walk, enter_calls) as watch:
            result = engine(root, watch.matcher(after, False), watch.matcher(before, True), ctx, enter_calls)
            watch.finish(result)
            return result
    # nodes form no cycles: the cyclic collector only costs time here
    collecting = gc.isenabled()
    gc.disable()
    try:
        return engine(root, after, before, ctx, enter_calls)
    finally:
        if collecting:
            gc.enable()


#: The running profile or trace (``uopgraph.trace`` sets it); None costs one look-up per rewrite.
observer: ContextVar[Any] = ContextVar("uopgraph_observer", default=None)


def _frozen_body(node: UOp, enter_calls: bool) -> UOp | None:
    if not enter_calls and node.op is Ops.CALL and node.src[0].dtype is not dtypes.uint64:
        return node.src[0]
    return None


def _before(
    node: UOp, matcher: PatternMatcher, ctx: Any, memo: dict[UOp, UOp | None], fired: _Fired
) -> tuple[UOp, bool]:
    """Apply a pre-order matcher until nothing changes; (result, stopped by a gate). Each node is offered
    once."""
    seen: set[UOp] | None = None
    current = node
    while True:
        if current in memo:
            found = memo[current]
        else:
            try:
                found = matcher.rewrite(current, ctx)
            except BottomUpGate:
                return current, True
            memo[current] = found
        if found is None:
            return current, False
        if seen is None:
            seen = {current}
        fired.last.append((matcher, current, ctx))
        if found in seen:
            raise fired.error("infinite loop in fixed_point_rewrite")
        seen.add(found)
        current = found


def _fixed_point(
    root: UOp, pm: PatternMatcher | None, bpm: PatternMatcher | None, ctx: Any, enter_calls: bool
) -> UOp:
    """The fixed-point engine. Stages: 0 first visit, 1 sources asked for, 2 waiting for the result of
    a rule."""
    replace: dict[UOp, UOp] = {}
    on_stack = {root}
    stack: list[tuple[UOp, int, UOp]] = [(root, 0, root)]
    waiting: dict[UOp, list[tuple[UOp, int, UOp]]] = {}
    linked: dict[UOp, UOp] = {}
    memo: dict[UOp, UOp | None] = {}
    fired = _Fired()
    limit = STACK_LIMIT
    while stack:
        if len(stack) > limit:
            size = len(root.toposort())
            if len(stack) > STACK_LIMIT + 4 * size:
                raise fired.error("infinite loop in graph_rewrite")
            limit = STACK_LIMIT + 4 * size
        entry = stack.pop()
        node, stage, new = entry
        if node in replace:
            continue
        if stage == 0:
            if bpm is not None:
                new, stopped = _before(node, bpm, ctx, memo, fired)
                if stopped:
                    replace[node] = new
                    stack += waiting.pop(node, ())
                    continue
            stack.append((node, 1, new))
            if new.op is Ops.CALL:
                body = _frozen_body(new, enter_calls)
                if body is not None and body not in replace:
                    replace[body] = body
                    stack += waiting.pop(body, ())
            for s in new.src[::-1]:
                if s not in on_stack:
                    on_stack.add(s)
                    stack.append((s, 0, s))
            continue
        if stage == 1:
            sources = []
            changed = False
            for s in new.src:
                final = replace.get(s)
                if final is None:
                    waiting.setdefault(s, []).append(entry)
                    break
                if final is not s:
                    changed = True
                sources.append(final)
            else:
                if changed:
                    result: UOp | None = new.rebuild(tuple(sources))
                    if result is new:
                        result = None
                else:
                    result = None
                if result is None and pm is not None:
                    result = pm.rewrite(new, ctx)
                    if result is not None:
                        fired.last.append((pm, new, ctx))
                if result is None:
                    replace[node] = new
                    stack += waiting.pop(node, ())
                    continue
                if result is node:
                    raise fired.error("infinite loop in graph_rewrite")
                _link(node, result, linked, fired)
                stack.append((node, 2, result))
                if result not in on_stack:
                    on_stack.add(result)
                    stack.append((result, 0, result))
            continue
        final = replace.get(new)
        if final is None:
            waiting.setdefault(new, []).append(entry)
            continue
        replace[node] = final
        linked.pop(node, None)
        stack += waiting.pop(node, ())
    if root not in replace:
        raise fired.error("infinite loop in graph_rewrite")
    return replace[root]


def _link(node: UOp, result: UOp, linked: dict[UOp, UOp], fired: _Fired) -> None:
    """Record that `node` becomes `result`; a cycle of such links never ends."""
    linked[node] = result
    at = result
    while at in linked:
        at = linked[at]
        if at is node:
            raise fired.error("infinite loop in graph_rewrite")


def _walk(
    root: UOp, pm: PatternMatcher | None, bpm: PatternMatcher | None, ctx: Any, enter_calls: bool
) -> UOp:
    """One pass: nothing inside a replacement is visited."""
    replace: dict[UOp, UOp] = {}
    stack: list[tuple[UOp, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if node in replace:
            continue
        if not ready:
            if bpm is not None:
                try:
                    found = bpm.rewrite(node, ctx)
                except BottomUpGate:
                    found = node
                if found is not None:
                    replace[node] = found
                    continue
            stack.append((node, True))
            if node.op is Ops.CALL:
                body = _frozen_body(node, enter_calls)
                if body is not None:
                    replace[body] = body
            stack += [(s, False) for s in node.src[::-1] if s not in replace]
            continue
        new = node.rebuild(tuple([replace[s] for s in node.src]))
        if pm is not None:
            found = pm.rewrite(new, ctx)
            if found is not None:
                new = found
        replace[node] = new
    return replace[root]


def _lookup(ctx: Mapping[UOp, UOp], x: UOp) -> UOp | None:
    return ctx.get(x)


def substitute(
    root: UOp,
    mapping: Mapping[UOp, UOp],
    name: str | None = None,
    extra_pm: PatternMatcher | None = None,
    walk: bool = False,
    enter_calls: bool = False,
) -> UOp:
    """Replace nodes by a map, from the root down. Greedy mode visits replacements again."""
    changes = {k: v for k, v in mapping.items() if k is not v}
    if not changes:
        return root
    if extra_pm is not None:
        return graph_rewrite(
            root, extra_pm + _SUBSTITUTE, changes, True, name or "substitute", None, walk, enter_calls
        )
    return graph_rewrite(root, _SUBSTITUTE, changes, True, name or "substitute", None, walk, enter_calls)


_SUBSTITUTE: Final = PatternMatcher([(UPat(GroupOp.All, name="x"), _lookup)])
