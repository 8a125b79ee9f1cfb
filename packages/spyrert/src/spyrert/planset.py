"""Several plans of one kernel, and which of them takes given shapes (runtime spec 3.13.6)."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from spyrert import arguments
from spyrert import binding as checks
from spyrert.dtypes import device_format, dtype_name
from spyrert.errors import ArgumentCountError, LaunchError, ShapeMismatch, UnsupportedError
from spyrert.memory import EMPTY
from spyrert.plan import JobPlan
from spyrert.spyrecode import Layout, StickLayout
from spyrert.spyrecode.layout import contiguous_strides
from spyrert.tensor import DeviceTensor, Storage
from spyrert.tiling import check_tiles

Shape = tuple[int, ...]


class Choice(enum.Enum):
    """How a plan takes the shapes, in order of preference."""

    EXACT = "exact"
    SYMBOLIC = "symbolic"
    BUCKET = "bucket"
    TILED = "tiled"


@attrs.frozen
class Selection:
    """The plan that was chosen.

    ``shapes`` are those that it is to be launched with: larger than those asked for if ``choice`` is
    ``BUCKET``, where the caller pads. ``tiles`` is the number of walks over its steps.
    """

    plan: JobPlan
    choice: Choice
    shapes: tuple[Shape, ...]
    tiles: int = 1


class PlanSet:
    """Plans of one kernel on one device, for different shapes.

    Args:
        name: for messages.
        plans: prepared plans with launch contracts.
    """

    def __init__(self, name: str, plans: Sequence[JobPlan]) -> None:
        self.name = name
        self.plans = tuple(
            arguments.expect(plan, JobPlan, "a plan") for plan in arguments.items(plans, "plans")
        )
        for plan in self.plans:
            if plan.launch is None:
                raise ShapeMismatch(f"plan '{plan.name}' has no launch contract, so nothing tells its shapes")
            if plan.context is not self.plans[0].context:
                raise ShapeMismatch(f"the plans of '{name}' are on different devices")

    def select(
        self,
        shapes: Sequence[Sequence[int]],
        dtypes: Sequence[Any] | None = None,
        layouts: Sequence[Layout] | None = None,
        bucket: bool = False,
    ) -> Selection:
        """The plan for arguments of these shapes: a static one of exactly these; else a symbolic one that
        admits them, the one with the smallest greatest sizes; else, with ``bucket``, the static one with the
        least padding; else the one with the fewest tiles. Ties break by digest.

        ``dtypes`` and ``layouts`` are checked if they are given; tiles need layouts, by default the stick
        layout of each shape. Raises ``ShapeMismatch`` that says why each plan was rejected.
        """
        wanted = tuple(arguments.shape(shape) for shape in arguments.items(shapes, "shapes"))
        names = None if dtypes is None else tuple(dtype_name(dtype) for dtype in dtypes)
        reasons: list[str] = []
        for choice in Choice:
            if choice is Choice.BUCKET and not bucket:
                continue
            found = sorted(
                self._candidates(choice, wanted, names, layouts, reasons),
                key=lambda c: (c[0], c[1].plan.digest),
            )
            if found:
                return found[0][1]
        text = "".join(f"\n  {reason}" for reason in dict.fromkeys(reasons))
        raise ShapeMismatch(f"no plan of '{self.name}' takes shapes {list(wanted)}:{text}", actual=wanted)

    def select_for(self, tensors: Sequence[DeviceTensor], bucket: bool = False) -> Selection:
        """:meth:`select` by the shapes, dtypes and layouts of tensors."""
        given = [arguments.tensor(tensor) for tensor in arguments.items(tensors, "tensors")]
        return self.select(
            [t.shape for t in given], [t.dtype for t in given], [t.layout for t in given], bucket
        )

    def _candidates(
        self,
        choice: Choice,
        shapes: tuple[Shape, ...],
        dtypes: tuple[str, ...] | None,
        layouts: Sequence[Layout] | None,
        reasons: list[str],
    ) -> Iterator[tuple[int, Selection]]:
        """Plans that fit in this way, each with its cost."""
        for plan in self.plans:
            symbolic = any(isinstance(size, str) for spec in plan.args for size in spec.shape)
            if symbolic == (choice in (Choice.EXACT, Choice.BUCKET)) and choice is not Choice.TILED:
                continue
            try:
                yield _fit(plan, choice, shapes, dtypes, layouts)
            except (LaunchError, UnsupportedError) as error:
                reasons.append(f"{plan.digest[:8]} ({choice.value}): {error.message}")


def _fit(
    plan: JobPlan,
    choice: Choice,
    shapes: tuple[Shape, ...],
    dtypes: tuple[str, ...] | None,
    layouts: Sequence[Layout] | None,
) -> tuple[int, Selection]:
    """The cost of a choice; raises ``LaunchError`` if the plan does not fit in this way."""
    plan.check_ready()
    if plan.problem is not None:
        raise plan.problem
    if len(shapes) != len(plan.args):
        raise ArgumentCountError(f"it takes {len(plan.args)} tensors, got {len(shapes)}")
    tensors = [_like(plan, k, shape, dtypes, layouts) for k, shape in enumerate(shapes)]
    checks.check_types(plan, tensors)
    if choice is Choice.BUCKET:
        expected = tuple(spec_shape(plan, k) for k in range(len(shapes)))
        for k, (have, want) in enumerate(zip(shapes, expected, strict=True)):
            if any(a > b for a, b in zip(have, want, strict=True)):
                raise ShapeMismatch(f"argument {k} of shape {have} does not fit in {want}")
        return sum(math.prod(shape) for shape in expected), Selection(plan, choice, expected)
    binding = checks.bind_shapes(plan, tensors, tiled=choice is Choice.TILED)
    exact = checks.check_exact(plan, tensors, binding)
    if choice is Choice.TILED:
        _, positions, _ = check_tiles(plan, tensors, binding, allow_staging=False)
        return len(positions), Selection(plan, choice, shapes, len(positions))
    if not exact:
        raise ShapeMismatch(f"it is compiled for {[binding.shape(spec) for spec in plan.args]}")
    if layouts is not None:
        for k, (spec, tensor) in enumerate(zip(plan.args, tensors, strict=True)):
            checks.check_layout(k, spec, tensor.shape, tensor)
    return _greatest(plan), Selection(plan, choice, shapes)


def spec_shape(plan: JobPlan, index: int) -> Shape:
    """The compiled shape of an argument of a static plan."""
    return tuple(size for size in plan.args[index].shape if isinstance(size, int))


def _greatest(plan: JobPlan) -> int:
    """Product of the greatest values of the symbolic dimensions; 1 for a static plan."""
    launch = checks.contract(plan)
    named = {size for spec in launch.args for size in spec.shape if isinstance(size, str)}
    maxima = [symbol.bounds.max for symbol in launch.symbols if symbol.name in named]
    return math.prod(1 << 62 if value is None else value for value in maxima)


def _like(
    plan: JobPlan,
    index: int,
    shape: Shape,
    dtypes: tuple[str, ...] | None,
    layouts: Sequence[Layout] | None,
) -> DeviceTensor:
    """A tensor of this shape without memory, to ask the checks of a launch."""
    dtype = plan.args[index].dtype if dtypes is None else dtypes[index]
    layout = (
        StickLayout.default(shape, device_format(dtype, plan.context.props.f16_format))
        if layouts is None
        else layouts[index]
    )
    storage = Storage(plan.context, EMPTY, shape, dtype, layout)
    return DeviceTensor(storage, shape, contiguous_strides(shape))


__all__ = ["Choice", "PlanSet", "Selection"]
