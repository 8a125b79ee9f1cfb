"""Tiled launch: running a kernel over tensors that are larger than the shape it was compiled for (runtime
spec 3.14).

The tensors are cut along named dimensions (or along one inferred dimension). A tile is a view: the same
storage at the offset of its origin. Whether the kernel finds the elements of a view where it expects them is
decided by strides.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import attrs
import numpy as np

from spyrert.binding import Binding, label, stride_mismatches
from spyrert.device.protocol import Piece
from spyrert.dtypes import numpy_dtype
from spyrert.errors import LayoutMismatch, SymbolBindingError, TilingError, UnsupportedFeature
from spyrert.launch import TileFill, TileLaunch
from spyrert.plan import JobPlan
from spyrert.spyrecode import ArgSpec, DimKind, DimSpec, Hcm, Stride
from spyrert.spyrecode.expressions import leaves
from spyrert.spyrecode.layout import item_bytes
from spyrert.tensor import DeviceTensor
from spyrert.transfer import view_nests


@attrs.frozen
class TiledDim:
    """One dimension that is cut: sizes of its tiles, in order. Only the last may be smaller, if it is
    symbolic.

    Args:
        name: declared name, or one made up for a nameless axis.
        sizes: elements of each tile.
        axes: (argument, axis) pairs that carry it.
        symbol: name of the symbol that the kernel takes its size from.
        spec: how it may be tiled.
    """

    name: str
    sizes: tuple[int, ...]
    axes: tuple[tuple[int, int], ...]
    symbol: str | None
    spec: DimSpec

    @property
    def step(self) -> int:
        return self.sizes[0]


def plan_tiles(
    plan: JobPlan, tensors: Sequence[DeviceTensor], binding: Binding, allow_staging: bool = False
) -> tuple[TileLaunch, ...]:
    """Cut the tensors into tiles of the compiled shape: parallel dimensions outermost, in row-major order.

    With ``allow_staging`` tiles that the kernel cannot walk in place are copied to a packed block and back.
    Raises ``TilingError`` naming argument and dimension: sizes that do not divide, inconsistent or ambiguous
    ratios, dimensions that may not be tiled, outputs that are not covered, device strides that do not fit.
    """
    dims, positions, staged = check_tiles(plan, tensors, binding, allow_staging)
    tiles = []
    for position in positions:
        tile = _tile(tensors, binding, dims, position)
        first = all(
            k == 0 for dim, k in zip(dims, position, strict=True) if dim.spec.kind is DimKind.REDUCTION
        )
        if first:
            tile = attrs.evolve(tile, fills=tuple(_fills(plan, dims, tile)))
        tiles.append(attrs.evolve(tile, staged=tuple(sorted(staged))))
    return tuple(tiles)


def check_tiles(
    plan: JobPlan, tensors: Sequence[DeviceTensor], binding: Binding, allow_staging: bool
) -> tuple[tuple[TiledDim, ...], list[tuple[int, ...]], set[int]]:
    """The dimensions to cut, the position of each tile in them, and the arguments to be staged; touches no
    memory."""
    dims = tiled_dims(plan, tensors, binding)
    check_outputs(plan, dims)
    count = math.prod(len(dim.sizes) for dim in dims)
    if count > plan.context.config.max_tiles:
        raise TilingError(f"{count} tiles exceed the limit of {plan.context.config.max_tiles}", tiles=count)
    staged: set[int] = set()
    checked: set[tuple[int, ...]] = set()
    positions = list(itertools.product(*(range(len(dim.sizes)) for dim in dims)))
    for position in positions:
        tile = _tile(tensors, binding, dims, position)
        sizes = tuple(dim.sizes[k] for dim, k in zip(dims, position, strict=True))
        for number, (spec, view) in enumerate(zip(plan.args, tile.tensors, strict=True)):
            if number in staged:
                continue
            try:
                _check_start(number, spec, view)
                if sizes not in checked:
                    _check_strides(plan, number, spec, view)
            except TilingError:
                if not allow_staging or not _can_stage(spec, view):
                    raise
                staged.add(number)
        checked.add(sizes)
    return dims, positions, staged


def _can_stage(spec: ArgSpec, view: DeviceTensor) -> bool:
    """Only an argument of fixed shape and of the kernel's format can be packed by copying."""
    return view.layout.device_dtype == spec.layout.device_dtype and all(
        isinstance(size, int) for size in spec.shape
    )


# -- which dimensions ------------------------------------------------------------------------------


def tiled_dims(plan: JobPlan, tensors: Sequence[DeviceTensor], binding: Binding) -> tuple[TiledDim, ...]:
    """The dimensions to cut: parallel ones first, in declaration order, reductions last (runtime spec
    3.14.5)."""
    launch = plan.launch
    assert launch is not None
    names = _axis_names(plan, tensors, binding)
    found: dict[str, TiledDim] = {}
    for number, (spec, tensor) in enumerate(zip(plan.args, tensors, strict=True)):
        for axis, (want, have) in enumerate(zip(binding.shape(spec), tensor.shape, strict=True)):
            name = names[number][axis]
            symbol = spec.shape[axis]
            if have > want and not launch.dim(name).tileable:
                raise TilingError(
                    f"{label(number, spec)} has size {have} in dimension {axis}, the kernel is compiled for "
                    f"{want}, and dimension '{name}' may not be tiled",
                    dim=name,
                    index=number,
                    actual=have,
                    tile=want,
                )
            dim = TiledDim(
                name,
                _sizes(plan, number, axis, want, have, symbol if isinstance(symbol, str) else None),
                ((number, axis),),
                symbol if isinstance(symbol, str) else None,
                launch.dim(name),
            )
            other = found.get(name)
            if other is not None:
                if other.sizes != dim.sizes:
                    raise TilingError(
                        f"inconsistent: dimension '{name}' has {len(dim.sizes)} tiles in "
                        f"{label(number, spec)} and {len(other.sizes)} in "
                        f"{label(other.axes[0][0], plan.args[other.axes[0][0]])}",
                        dim=name,
                        index=number,
                    )
                dim = attrs.evolve(other, axes=(*other.axes, (number, axis)))
            found[name] = dim
    tiled = [dim for dim in found.values() if len(dim.sizes) > 1]
    for dim in tiled:
        _check_tileable(dim)
    declared = [dim.name for dim in launch.dims]
    return tuple(
        sorted(
            tiled,
            key=lambda d: (
                d.spec.kind is DimKind.REDUCTION,
                declared.index(d.name) if d.name in declared else len(declared),
            ),
        )
    )


def _check_tileable(dim: TiledDim) -> None:
    if dim.spec.kind is DimKind.REDUCTION:
        if dim.spec.accumulate is None:
            raise TilingError(
                f"reduction dimension '{dim.name}' does not say how to accumulate", dim=dim.name
            )
        if dim.spec.accumulate != "kernel":
            raise UnsupportedFeature(
                f"accumulation '{dim.spec.accumulate}' of dimension '{dim.name}' is not built"
            )


def _axis_names(plan: JobPlan, tensors: Sequence[DeviceTensor], binding: Binding) -> list[tuple[str, ...]]:
    """A name for every axis of every argument; without declared names a single common ratio is inferred."""
    specs = plan.args

    def own(number: int, axis: int) -> str:
        return f"#{number}.{axis}"

    if any(spec.dims for spec in specs):
        return [
            tuple(name or own(number, axis) for axis, name in enumerate(spec.dims or (None,) * spec.rank))
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
                f"{larger}, and the kernel does not name its dimensions",
                index=number,
                dims=tuple(larger),
            )
        ratios.update((tensor.shape[axis], shape[axis]) for axis in larger)
        names.append(tuple("#tiled" if axis in larger else own(number, axis) for axis in range(spec.rank)))
    if len({have / want for have, want in ratios}) > 1:
        raise TilingError(f"ambiguous: ratios of sizes {sorted(ratios)} differ and dimensions have no names")
    return names


def _sizes(
    plan: JobPlan, number: int, axis: int, want: int, have: int, symbol: str | None
) -> tuple[int, ...]:
    """Sizes of the tiles along one axis; a remainder is allowed if the size is a symbol of the kernel."""
    whole, rest = divmod(have, want)
    if rest == 0:
        return (want,) * whole
    spec = plan.args[number]
    if symbol is None:
        raise TilingError(
            f"{label(number, spec)}: size {have} of dimension {axis} is not a multiple of the tile size "
            f"{want}; pad it to {(whole + 1) * want}",
            index=number,
            dim=axis,
            actual=have,
            tile=want,
            padded=(whole + 1) * want,
        )
    assert plan.launch is not None
    declared = plan.launch.symbol(symbol)
    assert declared is not None
    try:
        declared.bounds.check(rest, f"the last tile of '{symbol}'")
    except SymbolBindingError as error:
        raise TilingError(
            f"{label(number, spec)}: {error}", index=number, dim=axis, actual=have, tile=want
        ) from error
    return (*(want,) * whole, rest)


def check_outputs(plan: JobPlan, dims: Sequence[TiledDim]) -> None:
    """Every parallel tiled dimension must appear in every output, a reduction in none."""
    for number, spec in enumerate(plan.args):
        if not spec.role.writes:
            continue
        for dim in dims:
            inside = any(argument == number for argument, _ in dim.axes)
            if dim.spec.kind is DimKind.REDUCTION:
                if inside:
                    raise TilingError(
                        f"{label(number, spec)} is written and has the reduction dimension '{dim.name}'",
                        index=number,
                    )
                if not spec.role.reads:
                    raise TilingError(
                        f"{label(number, spec)} must be input_output to accumulate over '{dim.name}'",
                        index=number,
                    )
            elif not inside:
                raise TilingError(
                    f"output not tiled: {label(number, spec)} does not have the tiled dimension "
                    f"'{dim.name}'; declare it as a reduction if it is one",
                    index=number,
                    dim=dim.name,
                )


# -- one tile --------------------------------------------------------------------------------------


def _tile(
    tensors: Sequence[DeviceTensor], binding: Binding, dims: Sequence[TiledDim], position: Sequence[int]
) -> TileLaunch:
    shapes = [list(tensor.shape) for tensor in tensors]
    offsets = [tensor.offset for tensor in tensors]
    scalars = dict(binding.scalars)
    for dim, index in zip(dims, position, strict=True):
        for argument, axis in dim.axes:
            shapes[argument][axis] = dim.sizes[index]
            offsets[argument] += index * dim.step * tensors[argument].strides[axis]
        if dim.symbol is not None:
            scalars[dim.symbol] = dim.sizes[index]
    views = tuple(
        DeviceTensor(tensor.storage, tuple(shape), tensor.strides, offset)
        for tensor, shape, offset in zip(tensors, shapes, offsets, strict=True)
    )
    names: Mapping[str, int] = {dim.name: k for dim, k in zip(dims, position, strict=True)}
    return TileLaunch(views, Binding(scalars), names)


def _check_strides(plan: JobPlan, number: int, spec: ArgSpec, view: DeviceTensor) -> None:
    """The kernel must find the tile's elements where it expects them, or take the strides as symbols."""
    try:
        wrong = stride_mismatches(spec.layout, view.shape, view)
    except LayoutMismatch as error:
        raise TilingError(f"{label(number, spec)}: {error}", index=number) from error
    symbolic = _stride_symbols(plan, number)
    for dim, want, have in wrong:
        if dim not in symbolic or have is None:
            raise TilingError(
                f"{label(number, spec)}: device dimension {dim} has stride {have} bytes in the tensor, "
                f"the kernel uses {want}; recompile it with stride symbols, choose a layout whose "
                "outermost device dimension is the tiled one, or pass allow_staging=True",
                index=number,
                dim=dim,
                expected=want,
                actual=have,
            )


def _check_start(number: int, spec: ArgSpec, view: DeviceTensor) -> None:
    """A tile must start on a stick."""
    try:
        view.device_offset()
    except LayoutMismatch as error:
        raise TilingError(f"{label(number, spec)}: {error}", index=number) from error


def _stride_symbols(plan: JobPlan, number: int) -> set[int]:
    """Device dimensions of an argument whose stride the kernel takes as a symbol."""
    return {
        leaf.axis
        for hcm in plan.hcms
        if isinstance(hcm, Hcm)
        for symbol in hcm.symbols
        for leaf in leaves(symbol.expr)
        if isinstance(leaf, Stride) and leaf.arg == number
    }


def _fills(plan: JobPlan, dims: Sequence[TiledDim], tile: TileLaunch) -> Iterator[TileFill]:
    """Start values of the outputs of a reduction, once per output tile (runtime spec 3.14.6)."""
    reductions = [dim.spec for dim in dims if dim.spec.kind is DimKind.REDUCTION]
    if not reductions:
        return
    for spec, view in zip(plan.args, tile.tensors, strict=True):
        if not spec.role.writes:
            continue
        declared = reductions[0]
        if declared.acc_dtype not in (None, spec.dtype):
            raise UnsupportedFeature(
                f"an accumulator of {declared.acc_dtype} for an output of {spec.dtype} is not built"
            )
        width = item_bytes(spec.layout.device_dtype)
        if spec.layout.device_dtype != spec.dtype and declared.init != 0:
            raise UnsupportedFeature(
                f"a start value other than 0 in format {spec.layout.device_dtype} is not built"
            )
        value = np.asarray(declared.init, np.float64).astype(numpy_dtype(spec.dtype)).reshape(1)
        bits = int.from_bytes(value.tobytes(), "little")
        yield TileFill(view.storage.root, tuple(_runs(view)), bits, width)


def _runs(view: DeviceTensor) -> Iterator[Piece]:
    """The bytes of a view's elements, as contiguous pieces."""
    width = item_bytes(view.layout.device_dtype)
    for nest in view_nests(view.layout, view.shape, view.strides, view.offset):
        run = 1
        loops: list[tuple[int, int]] = []
        for size, step in zip(reversed(nest.sizes), reversed(nest.dst_strides), strict=True):
            if not loops and step == run:
                run *= size
            else:
                loops.append((size, step))
        for position in itertools.product(*(range(size) for size, _ in loops)):
            start = nest.dst_offset + sum(k * step for k, (_, step) in zip(position, loops, strict=True))
            yield from view.storage.address.slice(start * width, run * width).pieces()
