"""Translation validation: every level of one compilation, and every pass, must give the same outputs.

Outputs are compared bit for bit; NaNs compare by NaN-ness (readings 16).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import NoneType

import attrs
import numpy as np

import dfsched
from dfsched.dialects import dataflow, symbol
from dfsched.pipeline import PassResult, find_passes, pipeline
from ktir.dialects.builtin import Module
from ktir.dtypes import decode_array, encode_array, storage_dtype
from ktir.errors import KtirError
from ktir.interface import Argument, find_function
from ktir.machine import F16Format, Machine
from ktir.types import DF16, FloatType, IntegerType, Type
from spyrert.errors import SpyreError
from spyresim.errors import ArgumentError, ExecutionFault, Site, SpyresimError, require, require_arguments
from spyresim.ktir_level import run_ktir
from spyresim.meaning.formats import Array
from spyresim.reassociation import Reassociation, longest_product
from spyresim.repetition import DataflowRuns, says_the_same
from spyresim.report import Result
from spyresim.schedule_level import Interface, interface_of, run_schedule
from spyresim.watch import Watch
from spyresim.whole_numbers import stays_whole

__all__ = ["Difference", "LevelOutcome", "Verification", "differences", "random_arguments", "verify"]


STUMBLES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""How an executor fails on IR that breaks rules which no check has enforced."""


@attrs.frozen
class Difference:
    """`count` elements of an output differ; `index` is the first of them in row-major order.

    `writer` is what wrote that element last, where that is known.
    """

    output: str
    index: tuple[int, ...]
    expected: str
    got: str
    count: int
    writer: Site | None = None

    def __str__(self) -> str:
        more = "" if self.count == 1 else f" ({self.count} elements differ)"
        return (
            f"output '{self.output}' at {list(self.index)}: expected {self.expected}, got {self.got}{more}"
            + ("" if self.writer is None else f"; written by {_described(self.writer)}")
        )


def _described(site: Site) -> str:
    """An operation with its place."""
    place = None if site.location is None else site.location.file_line_column()
    return f"{site}" + ("" if place is None else f" at {place[0]}:{place[1]}:{place[2]}")


@attrs.frozen
class LevelOutcome:
    """One execution: `level` is ``"ktir"``, ``"schedule"``, ``"dataflow"`` or ``"device"``.

    `after` names the pass whose result was executed, None for what the compilation gave in the end; `error`
    is what went wrong instead of giving outputs. Not `executed` is a program that says the same as the one
    before it: its outcome is that one's.
    """

    level: str
    after: str | None = None
    difference: Difference | None = None
    error: str | None = None
    cycles: float | None = None
    executed: bool = True

    @property
    def agrees(self) -> bool:
        return self.difference is None and self.error is None

    @property
    def where(self) -> str:
        """What was executed, for people."""
        return f"after pass '{self.after}'" if self.after is not None else f"at level {self.level}"


@attrs.frozen
class Verification:
    """One kernel with one set of arguments; `outcomes` in the order of the compilation."""

    kernel: str
    seed: int
    outcomes: tuple[LevelOutcome, ...]

    @property
    def first(self) -> LevelOutcome | None:
        """The first outcome that does not agree with the meaning of the kernel."""
        return next((outcome for outcome in self.outcomes if not outcome.agrees), None)

    @property
    def ok(self) -> bool:
        return self.first is None


def differences(
    expected: Mapping[str, Array], got: Mapping[str, Array], rounding: Reassociation | None = None
) -> Difference | None:
    """The first difference between two sets of outputs; None if they are equal.

    With `rounding`, float elements may differ as far as another order of the reductions explains.
    """
    for name, wanted in expected.items():
        array = got.get(name)
        if array is None:
            return Difference(name, (), "an array", "nothing", 1)
        if array.shape != wanted.shape or array.dtype != wanted.dtype:
            return Difference(
                name, (), f"{wanted.dtype}{list(wanted.shape)}", f"{array.dtype}{list(array.shape)}", 1
            )
        word = np.dtype(f"u{wanted.dtype.itemsize}")
        bits = [np.ascontiguousarray(a).view(word).reshape(a.shape) for a in (wanted, array)]
        unequal = (bits[0] != bits[1]) & ~((wanted != wanted) & (array != array))
        if rounding is not None and wanted.dtype.kind not in "iub":
            unequal &= rounding.exceeded(wanted, array)
        if unequal.any():
            index = tuple(int(v) for v in np.argwhere(unequal)[0])
            return Difference(name, index, str(wanted[index]), str(array[index]), int(unequal.sum()))
    return None


# -- arguments


def random_arguments(
    interface: Interface,
    machine: Machine,
    seed: int,
    given: Mapping[str, object] | None = None,
    factors: int = 1,
) -> Iterator[dict[str, object]]:
    """Arguments that may suit a kernel, likelier ones first: scalars are small numbers within their promises.

    Arrays are the same in all of them; outputs hold something too, which must stay where nothing is written.
    `given` values are kept.  Products of up to `factors` floats of the arrays stay between 2**-12 and 2**12.
    """
    rng = np.random.default_rng(seed)
    random = partial(_random, machine=machine, factors=factors)
    fixed = dict(given or {})
    scalars = [a for a in interface.arguments if not a.is_pointer and a.name not in fixed]
    arrays: dict[str, object] = {}
    for argument in interface.arguments:
        static = argument.shape is not None and all(isinstance(n, int) for n in argument.shape)
        if argument.is_pointer and static and argument.name not in fixed:
            shape = tuple(n for n in argument.shape or () if isinstance(n, int))
            arrays[argument.name] = random(rng, argument.name, argument.element, shape)
    for constant in interface.constants:
        if constant.name not in fixed:
            arrays[constant.name] = random(rng, constant.name, constant.element, constant.shape)
    for values in itertools.islice(itertools.product(*(_candidates(a, seed) for a in scalars)), 64):
        chosen = {**arrays, **fixed, **{a.name: v for a, v in zip(scalars, values, strict=True)}}
        late = np.random.default_rng([seed, 1])
        for argument in interface.arguments:
            if argument.is_pointer and argument.name not in chosen:
                shape = tuple(n if isinstance(n, int) else int(str(chosen[n])) for n in argument.shape or ())
                chosen[argument.name] = random(late, argument.name, argument.element, shape)
        yield chosen


def _candidates(argument: Argument, seed: int) -> list[object]:
    if isinstance(argument.element, FloatType):
        return [float(np.random.default_rng([seed, argument.index]).normal())]
    if argument.element == IntegerType(1):
        return [1, 0] if seed % 2 == 0 else [0, 1]
    limit = 8 if argument.upperbound is None else argument.upperbound // argument.granularity
    numbers = sorted(range(min(limit, 8) + 1), key=lambda n: (n == 0, (n - seed) % 4, n))
    return [n * argument.granularity for n in numbers]


def _random(
    rng: np.random.Generator, name: str, type: Type, shape: tuple[int, ...], machine: Machine, factors: int
) -> Array:
    size = math.prod(shape) * storage_dtype(type).itemsize
    if size > machine.device_memory_bytes:
        raise ArgumentError(
            f"array '{name}' of shape {shape} takes {size} bytes, the device memory has "
            f"{machine.device_memory_bytes}",
            name,
        )
    return random_array(rng, type, shape, machine.f16_format, factors)


def random_array(
    rng: np.random.Generator, type: Type, shape: tuple[int, ...], format: F16Format, factors: int = 1
) -> Array:
    """Moderate numbers of an element type, as a host array; see `random_arguments`."""
    if isinstance(type, FloatType):
        values = np.asarray(rng.normal(scale=2.0, size=shape))
        if factors > 1:
            values = np.copysign(np.exp2(rng.uniform(-12 / factors, 12 / factors, shape)), values)
        if type == DF16:
            return decode_array(encode_array(values, type), type)
        return values.astype(storage_dtype(type))
    if type == IntegerType(1):
        return rng.integers(0, 2, shape).astype(np.bool_)
    limits = np.iinfo(storage_dtype(type))
    numbers = rng.integers(max(limits.min, -100), min(limits.max, 100), shape, endpoint=True)
    return np.asarray(numbers).astype(limits.dtype)


# -- verification

END_LEVELS = ("dataflow", "device")
"""What is executed of the end of a compilation."""


@attrs.frozen
class _Run:
    """What is asked of a verification; see `verify`."""

    given: Mapping[str, object]
    only: Collection[str] | None = None
    on_outcome: Callable[[str, int, LevelOutcome], None] | None = None
    on_start: Callable[[str, int, str], None] | None = None

    def wants(self, name: str) -> bool:
        return self.only is None or name in self.only

    def starts(self, kernel: str, seed: int, level: str, after: str | None = None) -> None:
        if self.on_start is not None:
            self.on_start(kernel, seed, LevelOutcome(level, after).where)


def verify(
    module: Module,
    device: dfsched.Architecture | str | Path | None = None,
    *,
    kernel: str | None = None,
    seeds: int = 1,
    args: Mapping[str, object] | None = None,
    options: dfsched.Options | None = None,
    only: Collection[str] | None = None,
    on_outcome: Callable[[str, int, LevelOutcome], None] | None = None,
    on_start: Callable[[str, int, str], None] | None = None,
) -> tuple[Verification, ...]:
    """Compile kernels and execute them at every level and after every pass.

    Args:
        device: as for `dfsched.compile`.
        kernel: only this one; default all public ones.
        seeds: number of sets of random arguments.
        args: values for some arguments, the same in every set.
        options: of the compilation; with `stop_after` nothing behind that pass is executed.
        only: names of passes after which the IR is executed, ``"dataflow"`` and ``"device"`` for the levels
            at the end; default all. A pass that reorders reductions is executed anyway: later levels are
            compared with what it computes.
        on_outcome: called with kernel, seed and outcome as soon as there is one.
        on_start: called with kernel, seed and what is executed next, before each execution.

    A pass that fails because one before it has broken the kernel does not hide that: what was compiled is
    compared, and the failure comes last.

    Raises:
        what `dfsched.compile` raises; `UnknownPass` for a name in `only`; `ArgumentError` if no arguments are
        found that the kernel accepts; `CallError` for arguments of other types.
    """
    require("verify", "module", module, Module)
    require("verify", "kernel", kernel, str, NoneType)
    require("verify", "seeds", seeds, int)
    require_arguments("verify", args)
    require("verify", "options", options, dfsched.Options, NoneType)
    require("verify", "only", only, Collection, NoneType)
    base = options or dfsched.Options()
    for wanted in only or ():
        if wanted not in END_LEVELS:
            find_passes(wanted)
    run = _Run(args or {}, only, on_outcome, on_start)
    names = dfsched.kernels(module) if kernel is None else (kernel,)
    found: list[Verification] = []
    for name in names:
        chosen = attrs.evolve(base, kernel=name)
        failure: LevelOutcome | None = None
        try:
            compiled = dfsched.compile(module, device, chosen)
        except dfsched.UnsupportedKernel:
            raise
        except (KtirError, dfsched.DfschedError, *STUMBLES) as error:
            partial = _as_far_as_it_goes(module, device, chosen)
            if partial is None:
                raise
            compiled, failing = partial
            failure = LevelOutcome(
                "schedule", failing, error=f"the pass fails: {type(error).__name__}: {error}"
            )
            if _verify(compiled, 0, _Run(args or {})).ok and not isinstance(error, STUMBLES):
                raise  # nothing was wrong before: the error is about the kernel
        for seed in range(seeds):
            one = _verify(compiled, seed, run)
            if failure is not None:
                one = attrs.evolve(one, outcomes=(*one.outcomes, failure))
                if on_outcome is not None:
                    on_outcome(name, seed, failure)
            found.append(one)
    return tuple(found)


def _as_far_as_it_goes(
    module: Module, device: dfsched.Architecture | str | Path | None, options: dfsched.Options
) -> tuple[dfsched.Compiled, str] | None:
    """The compilation up to the pass that fails, and its name; None if the first one does, or none."""
    order = [item.name for item in pipeline(options)]
    stops = [name for at, name in enumerate(order) if name not in order[at + 1 :]]
    reached, failing = -1, len(stops)
    while failing - reached > 1:
        middle = (reached + failing) // 2
        try:
            dfsched.compile(module, device, attrs.evolve(options, stop_after=stops[middle]))
        except (KtirError, dfsched.DfschedError, *STUMBLES):
            failing = middle
        else:
            reached = middle
    if reached < 0 or failing == len(stops):
        return None
    stop = attrs.evolve(options, stop_after=stops[reached])
    return dfsched.compile(module, device, stop), stops[failing]


def _verify(
    compiled: dfsched.Compiled,
    seed: int,
    asked: _Run,
) -> Verification:
    interface = interface_of(compiled.source, compiled.kernel)
    machine = compiled.architecture.machine().for_module(compiled.source.attributes)
    starts = partial(asked.starts, compiled.kernel, seed)
    starts("ktir")
    arguments, meaning = _accepted(compiled, interface, machine, seed, asked.given)
    outcomes = [LevelOutcome("ktir")]

    def note(outcome: LevelOutcome) -> None:
        outcomes.append(outcome)
        if asked.on_outcome is not None:
            asked.on_outcome(compiled.kernel, seed, outcome)

    if asked.on_outcome is not None:
        asked.on_outcome(compiled.kernel, seed, outcomes[0])
    previous: Module | None = None
    rounding: Reassociation | None = None
    dataflow_runs = DataflowRuns(compiled, arguments)
    for result in compiled.passes:
        same = result.module is previous  # the pass changed nothing
        sequential = is_sequential(result.module)
        if not asked.wants(result.name) and not (
            sequential and rounding is None and Reassociation.of(result.module) is not None
        ):
            previous = None  # the next one is not compared with this one
            continue
        if not same and sequential and previous is not None and outcomes[-1].agrees:
            same = says_the_same(previous, result.module)
        previous = result.module
        if same:
            note(attrs.evolve(outcomes[-1], after=result.name, executed=False))
            continue
        if not sequential:
            if compiled.options.stop_after is not None:
                break  # there is no launch spec to run it by
            starts("dataflow", result.name)
            note(_at_dataflow(dataflow_runs, meaning, result))
            continue
        starts("schedule", result.name)
        if rounding is None and (rounding := Reassociation.of(result.module)) is not None:
            outcome, meaning = _reassociated(compiled, interface, arguments, meaning, result, rounding)
            note(outcome)
            continue
        note(_after_pass(compiled, interface, arguments, meaning, result))
    if compiled.options.stop_after is not None:
        return Verification(compiled.kernel, seed, tuple(outcomes))
    if asked.wants("dataflow"):
        starts("dataflow")
        note(_at_dataflow(dataflow_runs, meaning))
    if asked.wants("device"):
        starts("device")
        note(_outcome("device", None, meaning, lambda watch: _run_device(compiled, arguments, watch)))
    return Verification(compiled.kernel, seed, tuple(outcomes))


def _after_pass(
    compiled: dfsched.Compiled,
    interface: Interface,
    arguments: Mapping[str, object],
    meaning: Result,
    result: PassResult,
) -> LevelOutcome:
    def run(watch: Watch | None) -> Result:
        return run_schedule(compiled, arguments, module=result.module, interface=interface, watch=watch)

    return _outcome("schedule", result.name, meaning, run)


def _at_dataflow(runs: DataflowRuns, meaning: Result, result: PassResult | None = None) -> LevelOutcome:
    """After a pass of the lowering, or at the end."""
    after, module = (None, None) if result is None else (result.name, result.module)
    outcome = _outcome("dataflow", after, meaning, lambda watch: runs.run(watch, module))
    return attrs.evolve(outcome, executed=not runs.repeated)


def _reassociated(
    compiled: dfsched.Compiled,
    interface: Interface,
    arguments: Mapping[str, object],
    meaning: Result,
    result: PassResult,
    rounding: Reassociation,
) -> tuple[LevelOutcome, Result]:
    """The pass that reorders reductions: near the meaning, and exact where rounding plays no part.

    What it computes is what all later levels must give bit for bit (readings, item 16).
    """
    found = meaning

    def run(watch: Watch | None) -> Result:
        nonlocal found
        found = run_schedule(compiled, arguments, module=result.module, interface=interface, watch=watch)
        return found

    outcome = _outcome("schedule", result.name, meaning, run, rounding)
    if (
        outcome.agrees
        and rounding.exact_on_integers
        and stays_whole(find_function(compiled.source, compiled.kernel))
    ):
        machine = compiled.architecture.machine().for_module(compiled.source.attributes)
        small = {name: _small_integers(value) for name, value in arguments.items()}
        try:
            wanted = run_ktir(compiled.source, compiled.kernel, small, machine)
        except ExecutionFault:
            return outcome, found
        again = _outcome(
            "schedule",
            result.name,
            wanted,
            lambda watch: run_schedule(
                compiled, small, module=result.module, interface=interface, watch=watch
            ),
        )
        outcome = again if not again.agrees else outcome
    return outcome, found


def _small_integers(value: object) -> object:
    """An array of floats as small whole numbers, whose sums are exact in any order."""
    if not isinstance(value, np.ndarray) or value.dtype.kind in "iub":
        return value
    return np.asarray(np.sign(value.astype(np.float64))).astype(value.dtype)


def _run_device(compiled: dfsched.Compiled, arguments: Mapping[str, object], watch: Watch | None) -> Result:
    from spyresim.device_level import run_device

    return run_device(compiled, arguments, watch=watch)


def is_sequential(module: Module) -> bool:
    """Whether a module is ScheduleIR or KTDFLow, and not yet DataflowIR."""
    return not any(isinstance(op, dataflow.ProgramUnit | symbol.CreateId) for op in module.walk())


def _accepted(
    compiled: dfsched.Compiled,
    interface: Interface,
    machine: Machine,
    seed: int,
    given: Mapping[str, object],
) -> tuple[dict[str, object], Result]:
    """Arguments that the kernel accepts, and what it means for them."""
    last: Exception | None = None
    factors = longest_product(compiled.source)
    for arguments in random_arguments(interface, machine, seed, given, factors):
        try:
            return arguments, run_ktir(compiled.source, compiled.kernel, arguments, machine)
        except ExecutionFault as error:
            last = error
    raise ArgumentError(
        f"no arguments found that '{compiled.kernel}' accepts; the last attempt: {last}",
        None,
        compiled.kernel,
    ) from last


def _outcome(
    level: str,
    after: str | None,
    meaning: Result,
    run: Callable[[Watch | None], Result],
    rounding: Reassociation | None = None,
) -> LevelOutcome:
    """Run, and compare; if something differs, run again to see who wrote the first element that does."""
    try:
        result = run(None)
    except (SpyresimError, KtirError, dfsched.DfschedError, SpyreError) as error:
        return LevelOutcome(level, after, error=f"{type(error).__name__}: {error}")
    except STUMBLES as error:
        return LevelOutcome(level, after, error=f"not executable: {type(error).__name__}: {error}")
    difference = differences(meaning.outputs, result.outputs, rounding)
    if difference is not None:
        watch = Watch(difference.output, difference.index)
        run(watch)
        difference = attrs.evolve(difference, writer=watch.writer)
    return LevelOutcome(level, after, difference, cycles=result.report.cycles)
