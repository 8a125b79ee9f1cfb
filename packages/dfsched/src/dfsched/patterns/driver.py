"""Applying the patterns of a device at a checkpoint: the pass `apply-device-patterns` (spec 4.1, 4.3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dfsched.architecture import Architecture
from dfsched.architecture.loading import DeviceManager
from dfsched.dialects.pdl import PatternOp
from dfsched.errors import PatternError
from dfsched.patterns.pattern import Pattern
from dfsched.patterns.pdl_compiler import compile_pattern
from dfsched.patterns.registry import REGISTRY, PatternRegistry
from dfsched.patterns.rewriter import Abandon, Rewriter
from ktir.analysis import DefUse
from ktir.dialects.builtin import Module
from ktir.dialects.func import Func
from ktir.editor import EditOp, Editor
from ktir.errors import RewriteLimitError
from ktir.ir import Operation, Region
from ktir.transforms import canonicalize, rewrite

__all__ = ["MAX_SWEEPS", "apply_device_patterns", "apply_patterns", "select_patterns"]

MAX_SWEEPS = 10


def select_patterns(
    device: Architecture, checkpoints: Iterable[str], registry: PatternRegistry = REGISTRY
) -> tuple[Pattern, ...]:
    """The patterns of a device that run when these checkpoints are enabled, in the order to try them.

    Blocks without checkpoints always run. Text comes before registered patterns; higher benefit first.
    """
    enabled = frozenset(checkpoints)
    found: list[Pattern] = []
    for block in device.patterns:
        if block.checkpoints and not enabled.intersection(block.checkpoints):
            continue
        for op in block.operation.operations:
            if isinstance(op, PatternOp):
                found.append(compile_pattern(op, block.checkpoints, registry.constraints, registry.rewrites))
    found += [p for p in registry.patterns_for(device.name) if p.runs_at(enabled)]
    return tuple(sorted(found, key=lambda pattern: -pattern.benefit))


def apply_patterns(
    function: Operation, patterns: Sequence[Pattern], device: Architecture, *, limit: int | None = None
) -> Operation:
    """Rewrite everything nested in one operation to a fixed point.

    What nothing matches comes back as the same object; after a change the result is canonicalised. Raises
    `PatternError` when `MAX_SWEEPS` sweeps or ``limit`` rewrites of a sweep do not reach a fixed point.
    """
    if not patterns:
        return function
    step = _dispatcher(patterns, device)
    current = function
    for _ in range(MAX_SWEEPS):
        try:
            following = rewrite(current, (step,), limit=limit)
        except RewriteLimitError as error:
            raise PatternError(f"device patterns fail to converge: {error}", function.location) from error
        if following is current:
            break
        current = following
    else:
        raise PatternError(f"device patterns fail to converge within {MAX_SWEEPS} sweeps", function.location)
    return function if current is function else canonicalize(current)


class _Dispatcher:
    """All patterns as one function for the worklist driver, so that benefit orders them per operation."""

    def __init__(self, patterns: Sequence[Pattern], device: Architecture) -> None:
        self._patterns = patterns
        self._device = device
        self.__name__ = "device patterns"

    def __call__(self, op: EditOp, editor: Editor) -> bool:
        for pattern in self._patterns:
            if pattern.root is not None and pattern.root != op.name:
                continue
            rewriter = Rewriter(editor, op, self._device)
            try:
                if not pattern.apply(rewriter.root, rewriter):
                    continue
            except Abandon:
                continue
            if rewriter.commit():
                return True
        return False


def _dispatcher(patterns: Sequence[Pattern], device: Architecture) -> _Dispatcher:
    return _Dispatcher(patterns, device)


def apply_device_patterns(
    module: Module,
    checkpoints: Iterable[str] = (),
    *,
    device: Architecture | None = None,
    registry: PatternRegistry = REGISTRY,
    nested_only: bool = False,
) -> Module:
    """The pass `apply-device-patterns`: run a checkpoint's patterns on every function of a module.

    Every function, at any nesting, gets the patterns of ``device``, or of its own device
    (`DeviceManager.for_operation`) if none is given; one without a device stays as it is. ``checkpoints``
    empty runs the blocks without checkpoints only. ``nested_only`` leaves functions alone that stand
    directly in ``module``.
    """
    manager = DeviceManager(module)
    enabled = tuple(sorted(set(checkpoints)))
    selected: dict[str, tuple[Pattern, ...]] = {}
    if device is not None:
        selected[device.digest] = select_patterns(device, enabled, registry)
        if not selected[device.digest]:
            return module
    analysis = DefUse(module)
    replaced: dict[Operation, Operation] = {}
    for op in module.walk():
        if not isinstance(op, Func) or op.is_declaration or (nested_only and op in module.operations):
            continue
        target = device if device is not None else manager.for_operation(op, analysis)
        if target is None:
            continue
        if target.digest not in selected:
            selected[target.digest] = select_patterns(target, enabled, registry)
        result = apply_patterns(op, selected[target.digest], target)
        if result is not op:
            replaced[op] = result
    return _substitute(module, replaced) if replaced else module


def _substitute(module: Module, replaced: dict[Operation, Operation]) -> Module:
    """The module with some of its functions exchanged; functions do not nest in each other."""

    def visit(op: Operation) -> Operation:
        if op in replaced:
            return replaced[op]
        if not isinstance(op, Module):
            return op
        regions = tuple(
            Region(
                tuple(
                    block.replace(operations=[visit(o) for o in block.operations]) for block in region.blocks
                )
            )
            for region in op.regions
        )
        return op.replace(regions=regions)

    result = visit(module)
    assert isinstance(result, Module)
    return result
