"""Tiled launch: running a kernel over tensors that are larger than the shape it was compiled for (runtime
spec 3.14)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from spyrert.binding import Binding, label, stride_mismatches
from spyrert.errors import LayoutMismatch, TilingError, UnsupportedFeature
from spyrert.launch import TileLaunch
from spyrert.plan import JobPlan
from spyrert.spyrecode import ArgSpec, DimKind, Hcm, Stride
from spyrert.spyrecode.hcm import leaves
from spyrert.tensor import DeviceTensor


def plan_tiles(plan: JobPlan, tensors: Sequence[DeviceTensor], binding: Binding) -> tuple[TileLaunch, ...]:
    """Cut the tensors into tiles of the compiled shape, in row-major order of the tiled dimensions.

    Raises ``TilingError`` naming argument and dimension: sizes that do not divide, inconsistent or
    ambiguous ratios,
    dimensions that may not be tiled, outputs that are not covered, device strides that do not fit.
    """
    ratios = _ratios(plan, tensors, binding)
    _check_outputs(plan, ratios)
    count = math.prod(ratios.values())
    if count > plan.context.config.max_tiles:
        raise TilingError(f"{count} tiles exceed the limit of {plan.context.config.max_tiles}", tiles=count)
    names = list(ratios)
    tiles = []
    for position in itertools.product(*(range(ratios[name]) for name in names)):
        index = dict(zip(names, position, strict=True))
        views = tuple(
            _tile_view(plan, number, spec, tensor, binding, index)
            for number, (spec, tensor) in enumerate(zip(plan.args, tensors, strict=True))
        )
        tiles.append(TileLaunch(views, binding, index))
    first = tiles[0]
    for number, (spec, view) in enumerate(zip(plan.args, first.tensors, strict=True)):
        _check_strides(plan, number, spec, binding.shape(spec), view)
    return tuple(tiles)


def _axis_names(plan: JobPlan, tensors: Sequence[DeviceTensor], binding: Binding) -> list[tuple[str, ...]]:
    """A name for every axis of every argument; without declared names a single common ratio is inferred."""
    specs = plan.args
    if any(spec.dims for spec in specs):
        return [
            tuple(name or f"#{number}.{axis}" for axis, name in enumerate(spec.dims or (None,) * spec.rank))
            for number, spec in enumerate(specs)
        ]
    names = []
    ratios: set[tuple[int, int]] = set()
    for number, (spec, tensor) in enumerate(zip(specs, tensors, strict=True)):
        shape = binding.shape(spec)
        larger = [axis for axis in range(spec.rank) if tensor.shape[axis] > shape[axis]]
        if len(larger) > 1:
            raise TilingError(
                f"ambiguous: {label(number, spec)} is larger than its tile {shape} in dimensions "
                f"{larger}, and the "
                "kernel does not name its dimensions",
                index=number,
                dims=tuple(larger),
            )
        ratios.update((tensor.shape[axis], shape[axis]) for axis in larger)
        names.append(tuple("#tiled" if axis in larger else f"#{number}.{axis}" for axis in range(spec.rank)))
    if len({have / want for have, want in ratios}) > 1:
        raise TilingError(f"ambiguous: ratios of sizes {sorted(ratios)} differ and dimensions have no names")
    return names


def _ratios(plan: JobPlan, tensors: Sequence[DeviceTensor], binding: Binding) -> dict[str, int]:
    """Number of tiles along each tiled dimension: parallel ones first, in declaration order, reductions
    last."""
    axis_names = _axis_names(plan, tensors, binding)
    ratios: dict[str, tuple[int, int]] = {}
    for number, (spec, tensor, names) in enumerate(zip(plan.args, tensors, axis_names, strict=True)):
        for axis, (want, have, name) in enumerate(zip(binding.shape(spec), tensor.shape, names, strict=True)):
            if have % want:
                raise TilingError(
                    f"{label(number, spec)}: size {have} of dimension {axis} is not a multiple of the "
                    f"tile size {want}; "
                    f"pad it to {-(-have // want) * want}",
                    index=number,
                    dim=axis,
                    actual=have,
                    tile=want,
                    padded=-(-have // want) * want,
                )
            ratio = have // want
            if name in ratios and ratios[name][0] != ratio:
                raise TilingError(
                    f"inconsistent: dimension '{name}' has {ratio} tiles in {label(number, spec)} and "
                    f"{ratios[name][0]} in {label(ratios[name][1], plan.args[ratios[name][1]])}",
                    dim=name,
                    index=number,
                )
            ratios.setdefault(name, (ratio, number))
    launch = plan.launch
    assert launch is not None
    tiled = {name: ratio for name, (ratio, _) in ratios.items() if ratio > 1}
    for name in tiled:
        dim = launch.dim(name)
        if not dim.tileable:
            raise TilingError(f"dimension '{name}' may not be tiled", dim=name)
        if dim.kind is DimKind.REDUCTION and dim.accumulate is None:
            raise TilingError(f"reduction dimension '{name}' does not say how to accumulate", dim=name)
        if dim.kind is DimKind.REDUCTION:
            raise UnsupportedFeature(f"tiling of the reduction dimension '{name}' is not built yet")
    declared = [dim.name for dim in launch.dims]
    order = sorted(
        tiled,
        key=lambda n: (
            launch.dim(n).kind is DimKind.REDUCTION,
            declared.index(n) if n in declared else len(declared),
        ),
    )
    return {name: tiled[name] for name in order}


def _check_outputs(plan: JobPlan, ratios: dict[str, int]) -> None:
    """Every tiled dimension must appear in every output, else tiles would overwrite each other."""
    if "#tiled" in ratios:
        return
    for number, spec in enumerate(plan.args):
        if not spec.role.writes:
            continue
        for name in ratios:
            if name not in spec.dims:
                raise TilingError(
                    f"output not tiled: {label(number, spec)} does not have the tiled dimension "
                    f"'{name}'; declare it as a "
                    "reduction if it is one",
                    index=number,
                    dim=name,
                )


def _tile_view(
    plan: JobPlan,
    number: int,
    spec: ArgSpec,
    tensor: DeviceTensor,
    binding: Binding,
    index: dict[str, int],
) -> DeviceTensor:
    """The argument as one tile sees it: same storage, offset of the tile's origin (runtime spec 3.14.3)."""
    shape = binding.shape(spec)
    offset = tensor.offset
    for axis, (want, have, stride) in enumerate(zip(shape, tensor.shape, tensor.strides, strict=True)):
        if have == want:
            continue
        name = spec.dims[axis] if spec.dims else "#tiled"
        position = index.get(name or f"#{number}.{axis}", 0)
        offset += position * want * stride
    return DeviceTensor(tensor.storage, shape, tensor.strides, offset)


def _check_strides(
    plan: JobPlan, number: int, spec: ArgSpec, shape: tuple[int, ...], view: DeviceTensor
) -> None:
    """The kernel must find the tile's elements where it expects them, or take the strides as symbols."""
    try:
        wrong = stride_mismatches(spec.layout, shape, view)
        view.device_offset()
    except LayoutMismatch as error:
        raise TilingError(f"{label(number, spec)}: {error}", index=number) from error
    symbolic = {
        leaf.axis
        for hcm in plan.hcms
        if isinstance(hcm, Hcm)
        for symbol in hcm.symbols
        for leaf in leaves(symbol.expr)
        if isinstance(leaf, Stride) and leaf.arg == number
    }
    for dim, want, have in wrong:
        if dim not in symbolic:
            raise TilingError(
                f"{label(number, spec)}: device dimension {dim} has stride {have} bytes in the "
                "tensor, the kernel uses "
                f"{want}; recompile it with stride symbols, choose a layout whose outermost device "
                "dimension is the tiled "
                "one, or copy the tiles",
                index=number,
                dim=dim,
                expected=want,
                actual=have,
            )
