"""Checking the arguments of a launch against the contract of the kernel (runtime spec 3.13.1).

Everything here is free of side effects: a refusal leaves stream, plan and memory as they were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from spyrert.constants import align_up
from spyrert.dtypes import scalar_bits
from spyrert.errors import (
    AliasError,
    ArgumentCountError,
    ArgumentError,
    DeviceMismatch,
    DtypeMismatch,
    LayoutMismatch,
    ShapeMismatch,
    SymbolBindingError,
)
from spyrert.plan import JobPlan
from spyrert.spyrecode import ArgSpec, Hcm, LaunchSpec, Role
from spyrert.spyrecode.layout import Layout, LinearLayout, StickLayout, contiguous_strides, item_bytes
from spyrert.tensor import DeviceTensor

_DLFLOAT_HOSTS: Final = ("float16", "bfloat16", "df16")


@attrs.frozen
class Binding:
    """What a launch binds: values of scalars (bit patterns for floats) and of symbolic dimensions."""

    scalars: Mapping[str, int]
    totals: Mapping[str, int] = attrs.field(factory=dict)
    """Sizes of symbolic dimensions that exceed their maximum, so that the launch must be tiled; ``scalars``
    has the maximum."""

    def shape(self, spec: ArgSpec) -> tuple[int, ...]:
        """The compiled shape with symbols replaced by their values."""
        return tuple(self.scalars[size] if isinstance(size, str) else size for size in spec.shape)


def label(index: int, spec: ArgSpec | None) -> str:
    """How messages call an argument."""
    return f"argument {index} ('{spec.name}')" if spec is not None and spec.name else f"argument {index}"


def check_tensors(plan: JobPlan, tensors: Sequence[object]) -> list[DeviceTensor]:
    """Steps 1-5: count, kind, device, liveness, dtype, rank."""
    specs = plan.args
    known = plan.launch is not None
    if known and len(tensors) != len(specs):
        raise ArgumentCountError(
            f"kernel '{plan.name}' takes {len(specs)} tensors, got {len(tensors)}",
            expected=len(specs),
            actual=len(tensors),
        )
    result = []
    for index, tensor in enumerate(tensors):
        spec = specs[index] if known else None
        if not isinstance(tensor, DeviceTensor):
            raise ArgumentError(
                f"{label(index, spec)} is {type(tensor).__name__}, not a device tensor", index=index
            )
        if tensor.storage.context is not plan.context:
            if tensor.device == plan.context.index:
                raise DeviceMismatch(
                    f"{label(index, spec)} belongs to another runtime than plan '{plan.name}'", index=index
                )
            raise DeviceMismatch(
                f"{label(index, spec)} is on device {tensor.device}, the plan on device {plan.context.index}",
                index=index,
            )
        tensor.storage.check_alive()
        if spec is not None:
            _check_type(index, spec, tensor)
        if tensor.size == 0:
            raise ArgumentError(f"{label(index, spec)} is empty", index=index)
        result.append(tensor)
    return result


def check_types(plan: JobPlan, tensors: Sequence[DeviceTensor]) -> None:
    """Step 5: dtype and rank of every argument."""
    for index, (spec, tensor) in enumerate(zip(plan.args, tensors, strict=True)):
        _check_type(index, spec, tensor)


def _check_type(index: int, spec: ArgSpec, tensor: DeviceTensor) -> None:
    if tensor.dtype != spec.dtype and not (
        spec.dtype == "df16" and tensor.dtype in _DLFLOAT_HOSTS and tensor.layout.device_dtype == "df16"
    ):
        raise DtypeMismatch(
            f"{label(index, spec)} has dtype {tensor.dtype}, expected {spec.dtype}",
            index=index,
            expected=spec.dtype,
            actual=tensor.dtype,
        )
    if tensor.ndim != spec.rank:
        raise ShapeMismatch(
            f"{label(index, spec)} has shape {tensor.shape} of rank {tensor.ndim}, expected rank {spec.rank}",
            index=index,
            expected=spec.shape,
            actual=tensor.shape,
        )


def bind_shapes(plan: JobPlan, tensors: Sequence[DeviceTensor], tiled: bool) -> Binding:
    """Values of the symbolic dimensions alone, as shapes give them; scalars are left out."""
    launch = contract(plan)
    named = {size for spec in launch.args for size in spec.shape if isinstance(size, str)}
    sizes = attrs.evolve(launch, symbols=tuple(s for s in launch.symbols if s.name in named))
    return _bind(plan, sizes, tensors, None, tiled)


def bind(
    plan: JobPlan, tensors: Sequence[DeviceTensor], bindings: Mapping[str, Any] | None, tiled: bool = False
) -> Binding:
    """Step 7: values of scalars and symbolic dimensions, consistent over arguments and explicit bindings.

    With ``tiled`` a symbolic dimension may exceed its maximum.
    """
    launch = plan.launch
    if launch is None:
        if bindings:
            raise SymbolBindingError(f"plan '{plan.name}' has no named symbols")
        return Binding({})
    return _bind(plan, launch, tensors, bindings, tiled)


def _bind(
    plan: JobPlan,
    launch: LaunchSpec,
    tensors: Sequence[DeviceTensor],
    bindings: Mapping[str, Any] | None,
    tiled: bool,
) -> Binding:
    values: dict[str, int] = {}
    for name, value in (bindings or {}).items():
        symbol = launch.symbol(name)
        if symbol is None:
            known = ", ".join(s.name for s in launch.symbols) or "none"
            raise SymbolBindingError(
                f"kernel '{plan.name}' has no symbol '{name}' (known: {known})", name=name
            )
        values[name] = scalar_bits(name, symbol.dtype, value)
    origin: dict[str, str] = dict.fromkeys(values, "the bindings")
    sized: set[str] = set()
    for index, axis, size in plan.symbolic_axes:
        actual = tensors[index].shape[axis]
        if size in values and values[size] != actual:
            raise SymbolBindingError(
                f"symbol '{size}' is {values[size]} by {origin[size]}, but {label(index, plan.args[index])} "
                f"has size {actual} in dimension {axis}",
                name=size,
            )
        values[size] = actual
        sized.add(size)
        origin.setdefault(size, label(index, plan.args[index]))
    totals: dict[str, int] = {}
    for symbol in launch.symbols:
        if symbol.name not in values:
            raise SymbolBindingError(
                f"'{symbol.name}' of kernel '{plan.name}' is not bound: pass bindings={{'{symbol.name}': "
                f"value}}",
                name=symbol.name,
            )
        value, bounds = values[symbol.name], symbol.bounds
        if symbol.dtype in ("float16", "bfloat16", "float32"):
            continue
        if tiled and symbol.name in sized and bounds.max is not None and value > bounds.max:
            totals[symbol.name] = value
            values[symbol.name] = value = bounds.max // bounds.granularity * bounds.granularity
        bounds.check(value, f"'{symbol.name}'")
    return Binding(values, totals)


def check_exact(plan: JobPlan, tensors: Sequence[DeviceTensor], binding: Binding) -> bool:
    """Step 8: ``True`` if all shapes are the compiled ones, ``False`` if some are larger; smaller ones are
    refused."""
    exact = True
    for index, (spec, tensor) in enumerate(zip(plan.args, tensors, strict=False)):
        expected = binding.shape(spec)
        if tensor.shape == expected:
            continue
        exact = False
        for axis, (want, have) in enumerate(zip(expected, tensor.shape, strict=True)):
            if have < want:
                raise ShapeMismatch(
                    f"{label(index, spec)} has shape {tensor.shape}, expected {expected}: dimension "
                    f"{axis} is below the tile",
                    index=index,
                    dim=axis,
                    expected=expected,
                    actual=tensor.shape,
                )
    return exact


def check_layout(index: int, spec: ArgSpec, expected: tuple[int, ...], tensor: DeviceTensor) -> None:
    """Step 8 and 9 for an argument of the compiled shape: the same arrangement in device memory, inside its
    storage."""
    layout = tensor.storage.layout
    if (layout is spec.layout or layout == spec.layout) and tensor.shape == expected and tensor.is_whole:
        return
    wrong = stride_mismatches(spec.layout, expected, tensor)
    if wrong:
        dim, want, have = wrong[0]
        raise LayoutMismatch(
            f"{label(index, spec)} is arranged differently: device dimension {dim} has stride {have} "
            f"bytes, the kernel expects {want} (tensor {tensor.layout}, kernel {spec.layout})",
            index=index,
            dim=dim,
            expected=want,
            actual=have,
        )
    if any(isinstance(size, str) for size in spec.shape):
        return  # the layout is that of the greatest shape; the view itself lies inside of its storage
    end = tensor.device_offset() + align_up(spec.layout.device_bytes(expected))
    if end > tensor.storage.nbytes:
        raise LayoutMismatch(
            f"{label(index, spec)} has {tensor.storage.nbytes} bytes on the device, the kernel touches {end}",
            index=index,
        )


def stride_mismatches(
    layout: Layout, shape: tuple[int, ...], tensor: DeviceTensor
) -> list[tuple[int, int, int | None]]:
    """Device dimensions in which a tensor (or a tile of ``shape`` of it) is arranged differently than
    ``layout`` says.

    Each is (device dimension, expected stride in bytes, actual stride or ``None`` if there is no such step).
    Raises ``LayoutMismatch`` if format, arrangement or kind differ. (runtime spec 3.13.2, 3.14.4)
    """
    actual = tensor.layout
    if type(actual) is not type(layout) or actual.device_dtype != layout.device_dtype:
        raise LayoutMismatch(f"the tensor is stored as {actual}, the kernel expects {layout}")
    if isinstance(layout, LinearLayout):
        width = item_bytes(layout.device_dtype)
        return [
            (axis, want * width, have * width)
            for axis, (want, have, size) in enumerate(
                zip(contiguous_strides(shape), tensor.strides, shape, strict=True)
            )
            if size > 1 and want != have
        ]
    assert isinstance(actual, StickLayout)
    if actual.element_arrangement != layout.element_arrangement:
        raise LayoutMismatch(
            f"element arrangement is {actual.element_arrangement}, expected {layout.element_arrangement}"
        )
    packed = contiguous_strides(shape)
    # The compiled layout may be of the maximal shape of a symbolic tensor: then its host steps are those
    # of that shape.
    steps = _host_steps(layout, shape, packed)
    have = {
        step: stride
        for step, stride, size in zip(
            actual.stride_map, actual.strides_bytes, actual.device_size, strict=True
        )
        if step > 0 and size > 1
    }
    wrong: list[tuple[int, int, int | None]] = []
    for dim, (size, want) in enumerate(zip(layout.device_size, layout.strides_bytes, strict=True)):
        if size <= 1 or layout.stride_map[dim] <= 0 or steps[dim] is None:
            continue
        axis, factor = steps[dim] or (0, 1)
        found = have.get(tensor.strides[axis] * factor)
        if found != want:
            wrong.append((dim, want, found))
    return wrong


def _host_steps(
    layout: StickLayout, shape: tuple[int, ...], packed: tuple[int, ...]
) -> list[tuple[int, int] | None]:
    """For each device dimension the host axis that it walks, and how many of its elements one step passes."""
    result: list[tuple[int, int] | None] = []
    for step, size in zip(layout.stride_map, layout.device_size, strict=True):
        found = None
        if step > 0 and size > 1:
            for axis, (stride, extent) in enumerate(zip(packed, shape, strict=True)):
                if extent > 1 and step >= stride:
                    found = (axis, step // stride)
                    break
        result.append(found)
    return result


def check_span(plan: JobPlan, tensors: Sequence[DeviceTensor]) -> None:
    """Step 9: the bytes of each argument can be shared out so that no core has to reach too far."""
    limit = plan.context.props.core_span_limit
    for index, (spec, tensor) in enumerate(zip(plan.args, tensors, strict=True)):
        if tensor.storage.nbytes <= limit:
            continue
        low, high = extent(tensor)
        if high - low > limit * plan.core_count:
            raise LayoutMismatch(
                f"{label(index, spec)} spans {high - low} bytes of device memory; {plan.core_count} cores "
                f"reach {limit} bytes each",
                index=index,
                expected=limit * plan.core_count,
                actual=high - low,
            )


def check_chunks(plan: JobPlan, tensors: Sequence[DeviceTensor]) -> None:
    """A view of several chunks needs a kernel that takes the address of each (runtime spec 3.17)."""
    for index, (spec, tensor) in enumerate(zip(plan.args, tensors, strict=True)):
        chunks = len(tensor.chunks())
        expected = {n for hcm in plan.hcms if isinstance(hcm, Hcm) for a, _, n in hcm.chunk_map if a == index}
        if chunks == 1 and not expected:
            continue
        if not expected:
            raise LayoutMismatch(
                f"{label(index, spec)} is interleaved over {chunks} chunks, the kernel takes one address",
                index=index,
            )
        if expected != {chunks}:
            raise LayoutMismatch(
                f"{label(index, spec)} has {chunks} chunks, the kernel expects {sorted(expected)}",
                index=index,
            )


def check_aliases(plan: JobPlan, tensors: Sequence[DeviceTensor]) -> None:
    """Step 6: an output may overlap another argument only if it is the same view and the contract allows
    it."""
    launch = plan.launch
    if launch is None or launch.allow_alias:
        return
    for i, tensor in enumerate(tensors):
        for j in range(i):
            other = tensors[j]
            if tensor.storage.root is not other.storage.root:
                continue
            if not (launch.args[i].role.writes or launch.args[j].role.writes):
                continue
            writers = [launch.args[k].role for k in (i, j) if launch.args[k].role.writes]
            allowed = (j, i) in launch.aliases or (i, j) in launch.aliases
            if allowed or (same_view(tensor, other) and all(role is Role.INPUT_OUTPUT for role in writers)):
                continue
            if overlap(tensor, other):
                raise AliasError(
                    f"{label(i, launch.args[i])} and {label(j, launch.args[j])} overlap in device memory "
                    "and one is written",
                    first=j,
                    second=i,
                )
    for i, j in launch.aliases:
        if not same_view(tensors[i], tensors[j]):
            raise AliasError(f"arguments {i} and {j} must be the same view", first=i, second=j)


def same_view(a: DeviceTensor, b: DeviceTensor) -> bool:
    return (
        a.storage.root is b.storage.root
        and a.storage.address == b.storage.address
        and (a.offset, a.shape, a.strides) == (b.offset, b.shape, b.strides)
    )


def overlap(a: DeviceTensor, b: DeviceTensor) -> bool:
    """Whether the byte ranges of two views of one allocation overlap."""
    (start_a, end_a), (start_b, end_b) = extent(a), extent(b)
    pieces_a = [(p.region_id, p.offset) for p in a.storage.pieces]
    pieces_b = [(p.region_id, p.offset) for p in b.storage.pieces]
    if len(pieces_a) > 1 or len(pieces_b) > 1 or pieces_a[0][0] != pieces_b[0][0]:
        return True
    base_a, base_b = pieces_a[0][1], pieces_b[0][1]
    return base_a + start_a < base_b + end_b and base_b + start_b < base_a + end_a


def extent(tensor: DeviceTensor) -> tuple[int, int]:
    """First byte, and the one behind the last, that a view touches in its storage; whole sticks."""
    return tensor.extent()


def contract(plan: JobPlan) -> LaunchSpec:
    """The plan's launch contract, which exists for every plan of version 1."""
    assert plan.launch is not None
    return plan.launch
