"""The pass pipeline: the list, and how it is run (scheduler spec 2)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import attrs
from attrs import field, frozen

import ktir
from dfsched.contracts import ContractError, check_contract, check_milestones
from dfsched.errors import (
    AddressError,
    ArchitectureError,
    InvalidSetting,
    RouteError,
    UnsupportedDevice,
    placed,
)
from dfsched.options import Options
from dfsched.passes import (
    address_assignment,
    affine_min_canonicalization,
    apply_device_patterns,
    broadcast_promotion,
    canonicalize,
    compute_group_extraction,
    construct_three_stage_pipeline,
    double_buffering,
    ensure_device_declaration,
    forward_stores,
    fuse_linalg,
    generalize_linalg,
    ktdf_to_ktdflowering,
    ktdflowering_to_dfir,
    ktir_legality_check,
    loop_invariant_code_motion,
    map_reduction_partials,
    materialize_registers,
    narrow_index_lanes,
    normalize_grid_to_1d,
    normalize_scf_for_loops,
    parallelize_loops,
    path_expansion,
    reduction_dim_chunking,
    reduction_loop_exposure,
    resolve_control_numbers,
    scalar_broadcast_legalization,
    select_plan,
    split_access_tiles,
    split_transfers,
    stage_coarsening,
    strip_mine_scf_for_loops,
    subsume_linearize_index,
    symbolic_shapes,
    tile_scf_for_loops,
    tile_size_selection,
    widen_control_integers,
    wrap_program_dfir,
)
from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.errors import ScheduleError, UnknownPass
from dfsched.passes.ir_tools import check_structured
from dfsched.passes.loop_nests import check_plans
from ktir.affine import AffineError
from ktir.dialects import func
from ktir.dialects.builtin import Module
from ktir.errors import RewriteLimitError, TypeQueryError, UnsupportedError

__all__ = [
    "OTHER_PASSES",
    "PASSES",
    "V1",
    "PassResult",
    "V1Entry",
    "check_settings",
    "find_passes",
    "pipeline",
    "run_pipeline",
    "select_passes",
]

PASSES: tuple[Pass, ...] = (
    ensure_device_declaration.PASS,
    apply_device_patterns.PRE_MAPPING,
    resolve_control_numbers.PASS,
    widen_control_integers.PASS,
    split_access_tiles.PASS,
    symbolic_shapes.PASS,
    ktir_legality_check.PASS,
    compute_group_extraction.PASS,
    forward_stores.PASS,
    generalize_linalg.PASS,
    fuse_linalg.PASS,
    narrow_index_lanes.PASS,
    reduction_dim_chunking.PASS,
    construct_three_stage_pipeline.PASS,
    select_plan.PASS,
    apply_device_patterns.PRE_SCHEDULING,
    path_expansion.PASS,
    scalar_broadcast_legalization.PASS,
    normalize_scf_for_loops.PASS,
    canonicalize.PASS,
    tile_scf_for_loops.PASS,
    canonicalize.PASS,
    loop_invariant_code_motion.PASS,
    stage_coarsening.PASS,
    broadcast_promotion.PASS,
    double_buffering.PASS,
    parallelize_loops.PASS,
    tile_size_selection.PASS,
    canonicalize.PASS,
    affine_min_canonicalization.PASS,
    subsume_linearize_index.PASS,
    reduction_loop_exposure.PASS,
    map_reduction_partials.PASS,
    split_transfers.PASS,
    canonicalize.PASS,
    apply_device_patterns.POST_SCHEDULING,
    materialize_registers.PASS,
    address_assignment.PASS,
    normalize_grid_to_1d.PASS,
    ktdf_to_ktdflowering.PASS,
    apply_device_patterns.POST_LOWERING,
    ktdflowering_to_dfir.PASS,
    wrap_program_dfir.PASS,
)
"""Everything that a compilation runs, in order."""


OTHER_PASSES: tuple[Pass, ...] = (apply_device_patterns.PASS, strip_mine_scf_for_loops.PASS)
"""Passes that run only where they are asked for by name."""


@frozen
class V1Entry:
    """A row of the published version's list: name, group, options with their defaults.

    `built_as`: our passes that do its work, in order. `instead` says where that happens if not in a pass.
    """

    name: str
    group: Group
    options: str = ""
    built_as: tuple[str, ...] = ()
    instead: str = ""

    @property
    def is_built(self) -> bool:
        known = {p.name for p in PASSES}
        return bool(self.instead) or all(name in known for name in self.built_as)


def _row(name: str, group: Group, options: str = "", *built_as: str, instead: str = "") -> V1Entry:
    return V1Entry(name, group, options, () if instead else built_as or (name,), instead)


_F, _S, _B, _D = Group.FRONTEND, Group.SCHEDULER, Group.BACKEND, Group.DRIVER

V1: tuple[V1Entry, ...] = (
    _row("ensure-device-declaration", _D, 'device-filename="", device-name=""'),
    _row("ktir-legality-check", _F),
    _row("compute-group-extraction", _F),
    _row(
        "construct-three-stage-pipeline",
        _F,
        "",
        "generalize-linalg",
        "fuse-linalg",
        "construct-three-stage-pipeline",
    ),
    _row("ktdfarch-apply-patterns{groups=pre_scheduling}", _S, "groups=[]", "apply-device-patterns"),
    _row("path-expansion", _S),
    _row("scalar-broadcast-legalization", _S),
    _row("normalize-scf-for-loops", _S),
    _row("canonicalize", _S),
    _row("tile-scf-for-loops", _S, "tile-sizes=[], normalize-loops=true, fallback-scf-tiling=false"),
    _row("canonicalize", _S),
    _row("loop-invariant-code-motion", _S),
    _row("stage-coarsening", _S, "loop-nest-depth=2"),
    _row("reduction-dim-chunking", _S, "num-chunks=[], chunk-size-threshold=1048576"),
    _row("reduction-loop-exposure", _S),
    _row("map-reduction-partials", _S),
    _row("broadcast-promotion", _S),
    _row("double-buffering", _S),
    _row("parallelize-loops-across-instances", _S),
    _row("tile-size-selection", _S),
    _row("canonicalize", _S),
    _row("affine-min-canonicalization", _S),
    _row("subsume-linearize-index", _S),
    _row("address-assignment", _S),
    _row("normalize-grid-to-1d", _S),
    _row("ktdf-to-ktdflowering", _B),
    _row("ktdflowering-to-dfir", _B),
    _row("wrap-program-dfir", _B),
    _row("emit-split-dfir", _D, 'output-dir=""', instead="`dfsched compile -o DIR`"),
)
"""The list of scheduler spec 2.2, exactly."""


@frozen
class PassResult:
    """The module after one pass, and how long the pass took (seconds, without the checks behind it)."""

    name: str
    group: Group
    module: Module
    seconds: float = field(default=0.0, eq=False)


_ALIASES = {"ktdfarch-apply-patterns": "apply-device-patterns"}


def find_passes(name: str) -> tuple[Pass, ...]:
    """The passes of that name (a name may stand several times); `UnknownPass` if there is none."""
    known = tuple(dict.fromkeys(p.name for p in PASSES))
    found = tuple(p for p in PASSES if p.name == _ALIASES.get(name, name))
    if not found:
        raise UnknownPass(name, known)
    return found


def select_passes(names: Iterable[str]) -> tuple[Pass, ...]:
    """One pass a name, in the order asked for, of those in the pipeline and the `OTHER_PASSES`."""
    known = {p.name: p for p in (*PASSES, *OTHER_PASSES)}
    chosen: list[Pass] = []
    for name in names:
        found = known.get(_ALIASES.get(name, name))
        if found is None:
            raise UnknownPass(name, tuple(known))
        chosen.append(found)
    return tuple(chosen)


def check_settings(options: Options) -> None:
    """`InvalidSetting` for an option that no pass has."""
    known = tuple(sorted(s.key for p in {*PASSES, *OTHER_PASSES} for s in p.settings))
    for key, value in options.settings.items():
        if key not in known:
            raise InvalidSetting(key, value, known)


def pipeline(options: Options, last: Group = Group.BACKEND) -> tuple[Pass, ...]:
    """The passes that a compilation with these options runs, up to and including a group."""
    for name in (*sorted(options.disabled), *([options.stop_after] if options.stop_after else [])):
        find_passes(name)
    check_settings(options)
    order = [Group.DRIVER, Group.FRONTEND, Group.SCHEDULER, Group.BACKEND]
    wanted = order[: order.index(last) + 1]
    chosen = [p for p in PASSES if p.name not in options.disabled and p.group in wanted]
    if options.stop_after is not None:
        final = find_passes(options.stop_after)[-1]
        if final in chosen:
            chosen = chosen[: len(chosen) - chosen[::-1].index(final)]
    return tuple(chosen)


def run_pipeline(module: Module, context: PassContext, passes: Sequence[Pass]) -> tuple[PassResult, ...]:
    """Run passes one after another; the module after each one.

    `ScheduleError` if blocks branch to each other, if a plan on a function is none, or if it does not have
    what its nests are marked with.
    With `Options.verify` the IR is verified and the contract checked after the last pass of a group (no
    contract if passes were disabled, which may well break it, or if the group was not run to its end); with
    `Options.verify_each` the IR is verified after every pass, and what earlier passes established.
    """
    results: list[PassResult] = []
    options = context.options
    check_structured(module)
    check_plans(module)
    for number, item in enumerate(passes):
        start = time.perf_counter()
        module = _run(item, module, context)
        seconds = time.perf_counter() - start
        ends = number + 1 == len(passes) or passes[number + 1].group is not item.group
        if options.verify_each or (options.verify and ends):
            ktir.verify(module)
        if options.verify_each and not options.disabled:
            done = {p.name for p in passes[: number + 1]}
            with _placed(module, item.name):
                check_milestones(module, done, item.name, item.group, context.architecture)
        if options.verify and ends and not options.disabled and _is_last_of_group(item):
            with _placed(module, item.name):
                check_contract(module, item.group, context.architecture)
        results.append(PassResult(item.name, item.group, module, seconds))
    return tuple(results)


def _run(item: Pass, module: Module, context: PassContext) -> Module:
    with _placed(module, item.name):
        return item.run(module, context)


@contextmanager
def _placed(module: Module, name: str) -> Iterator[None]:
    """What is raised without a place gets that of the kernel.

    Such errors come from views of the device, and from operations that a pass has made.
    """
    functions = (op for op in module.walk() if isinstance(op, func.Func) and not op.is_declaration)
    try:
        yield
    except (ScheduleError, ContractError) as error:
        found = placed(error.diagnostics, next(functions, module).location)
        if found == error.diagnostics:
            raise
        raise attrs.evolve(error, diagnostics=found) from error
    except (
        *(AffineError, RewriteLimitError, TypeQueryError, UnsupportedError),
        *(AddressError, RouteError, UnsupportedDevice, ArchitectureError),
    ) as error:
        if isinstance(error, ArchitectureError | UnsupportedError) and error.location is not None:
            raise
        raise ScheduleError.at(next(functions, module).location, f"{name}: {error}") from error


def _is_last_of_group(item: Pass) -> bool:
    return [p for p in PASSES if p.group is item.group][-1] == item
