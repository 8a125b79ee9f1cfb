"""The launch spec of a kernel: derived from its signature and from nothing else (readings, items 2, 4, 6)."""

from __future__ import annotations

from collections.abc import Container, Mapping

from attrs import evolve, frozen

import ktir
from dfsched.architecture import Architecture
from dfsched.codegen.errors import CodegenError
from dfsched.codegen.independence import Axis, independent_axes
from ktir.attributes import StringAttr
from ktir.dialects.builtin import Module
from ktir.dtypes import dtype_name
from ktir.dtypes import element_bytes as bytes_of
from ktir.interface import (
    Argument,
    ArgumentKind,
    ConstantBuffer,
    constant_buffers,
    find_function,
    pointers_of_views,
)
from ktir.layout import Layout as KtirLayout
from ktir.layout import LinearLayout as KtirLinear
from ktir.layout import StickLayout as KtirSticks
from ktir.location import Location
from ktir.machine import F16Format
from ktir.types import IndexType
from spyrert.spyrecode import (
    Addressing,
    ArchitectureId,
    ArgSpec,
    Bounds,
    DimSpec,
    LaunchSpec,
    Layout,
    LinearLayout,
    Role,
    StickLayout,
    SymbolSpec,
)

__all__ = ["LaunchPlan", "launch_plan"]

SEGMENT_SHIFT = 34
MAX_BAKED_ARGUMENTS = 7
GRANULE = 128


@frozen
class LaunchPlan:
    """The contract of a launch, and how addresses reach the program."""

    spec: LaunchSpec
    addressing: Addressing


def launch_plan(module: Module, kernel: str, architecture: Architecture) -> LaunchPlan:
    """The launch spec of a kernel of a KTIR module.

    Launch arguments are the pointers in the order of the function.  A kernel without pointers that
    addresses device memory by constants is baked: one implicit argument per segment from 0 on, each
    covering its segment up to the end of the last view.  Raises `CodegenError`, `ktir.KtirError`.
    """
    function = find_function(module, kernel)
    arguments = ktir.signature(module, function)
    constants = constant_buffers(module, function)
    pointers = [argument for argument in arguments if argument.is_pointer]
    if pointers and constants:
        raise CodegenError.at(
            function.location,
            f"kernel '{kernel}' has pointer arguments and device memory at constant addresses "
            f"({constants[0].name}); use one or the other",
        )
    shapes = {a.index: a.shape or () for a in pointers if isinstance(a.layout, KtirLinear)}
    together = independent_axes(function, shapes, pointers_of_views(module, function))
    named = {argument.index: argument.name for argument in pointers}
    dims = {axis: f"{named[first[0]]}.{first[1]}" for axis, first in together.items()}
    specs = tuple(_argument(argument, function.location, dims) for argument in pointers)
    baked = bool(constants)
    if baked:
        specs = _implicit(constants)
        if len(specs) > MAX_BAKED_ARGUMENTS:
            raise CodegenError.at(function.location, f"constant addresses in more than {len(specs)} segments")
    addressing = Addressing.BAKED if baked else Addressing.SYMBOLIC
    floats = f16_format(module, architecture)
    if floats == F16Format.DLFLOAT:
        specs = tuple(_in_dlfloat(spec) for spec in specs)
        for argument in arguments:
            if not argument.is_pointer and argument.dtype == "float16":
                raise CodegenError.at(
                    function.location,
                    f"a float16 scalar ('{argument.name}') of a kernel whose 16-bit floats are DLFloat16 is "
                    "not supported: a launch binds IEEE bit patterns",
                )
    return LaunchPlan(
        LaunchSpec(
            kernel,
            specs,
            tuple(_symbol(argument) for argument in arguments if not argument.is_pointer),
            bundle_symbolic_args=not baked,
            dims=_dims(specs, set(dims.values())),
            f16_format=floats,
            architecture=ArchitectureId(architecture.name, architecture.digest),
            emitter="dfsched",
        ),
        addressing,
    )


def f16_format(module: Module, architecture: Architecture) -> str:
    """What 16-bit floats are: the module's ``ktdp.f16_format``, else the machine's."""
    found = module.attributes.get("ktdp.f16_format")
    if isinstance(found, StringAttr):
        return found.value
    return str(architecture.machine().f16_format)


def _in_dlfloat(spec: ArgSpec) -> ArgSpec:
    """An argument of a program to which 16-bit floats are DLFloat16: copies convert what the host has."""
    if spec.layout.device_dtype != "float16":
        return spec
    return evolve(spec, layout=evolve(spec.layout, device_dtype="df16"))


def _argument(argument: Argument, location: Location, names: Mapping[Axis, str]) -> ArgSpec:
    shape, role, layout = argument.shape, argument.role, argument.layout
    assert shape is not None
    assert role is not None
    if argument.is_open:
        raise CodegenError.at(
            location,
            f"views of argument '{argument.name}' lie where only the run knows, so its size is not known; "
            "state it by a ktdp.layout on the argument",
        )
    # A symbolic size is that of the outermost dimension: the strides of linear order do not depend on it.
    if layout is None and any(isinstance(extent, str) for extent in shape[1:]):
        raise CodegenError.at(
            location,
            f"argument '{argument.name}' has the symbolic shape {list(shape)}; only its outermost size may "
            "be known at launch only",
        )
    arranged = LinearLayout(argument.dtype) if layout is None else runtime_layout(layout)
    dims = tuple(
        extent if isinstance(extent, str) else names.get((argument.index, axis), f"{argument.name}.{axis}")
        for axis, extent in enumerate(shape)
    )
    return ArgSpec(Role(role.value), shape, argument.dtype, arranged, argument.name, argument.index, dims)


def _dims(specs: tuple[ArgSpec, ...], independent: Container[str]) -> tuple[DimSpec, ...]:
    """Every dimension; those that run together have one name.

    A launch cuts only independent ones into tiles of the compiled size: the kernel may depend on where an
    element stands (`linalg.index`, masks, neighbours) or on all of them (a softmax along the dimension).
    """
    names = dict.fromkeys(name for spec in specs for name in spec.dims if name is not None)
    return tuple(DimSpec(name, tileable=name in independent) for name in names)


def runtime_layout(layout: KtirLayout) -> Layout:
    """The layout as the runtime reads it."""
    name = dtype_name(layout.element)
    match layout:
        case KtirLinear():
            return LinearLayout(name)
        case KtirSticks():
            return StickLayout(
                layout.device_size, layout.stride_map, name, layout.arrangement, layout.device_strides
            )
        case _:
            raise TypeError(f"unknown layout {layout!r}")


def _symbol(argument: Argument) -> SymbolSpec:
    """A scalar argument.  What a `runtime_arg` promises becomes its bounds."""
    assert argument.kind is ArgumentKind.SCALAR
    plain = argument.granularity == 1 and argument.upperbound is None
    bounds = Bounds() if plain else Bounds(argument.granularity, argument.upperbound, argument.granularity)
    dtype = "index" if isinstance(argument.element, IndexType) else argument.dtype
    return SymbolSpec(argument.name, dtype, bounds, argument.index)


def _implicit(buffers: tuple[ConstantBuffer, ...]) -> tuple[ArgSpec, ...]:
    """One argument per segment from 0 to the last one in use, as bytes."""
    ends: dict[int, int] = {}
    roles: dict[int, set[str]] = {}
    for buffer in buffers:
        segment, offset = buffer.address >> SEGMENT_SHIFT, buffer.address & ((1 << SEGMENT_SHIFT) - 1)
        size = bytes_of(buffer.element)
        for extent in buffer.shape:
            size *= extent
        ends[segment] = max(ends.get(segment, 0), offset + size)
        roles.setdefault(segment, set()).add(buffer.role.value)
    specs = []
    for segment in range(max(ends) + 1):
        nbytes = -(-ends.get(segment, 1) // GRANULE) * GRANULE
        name = f"@{hex(segment << SEGMENT_SHIFT)}"
        layout = LinearLayout("uint8")
        specs.append(ArgSpec(Role.INPUT_OUTPUT, (nbytes,), "uint8", layout, name, None, (f"{name}.0",)))
    return tuple(specs)
