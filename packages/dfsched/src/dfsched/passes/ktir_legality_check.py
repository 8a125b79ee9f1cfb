"""`ktir-legality-check`: reject early what cannot be lowered (scheduler spec 3.2, ktir spec 1.14).

Takes KTIR, changes nothing. The default profile reports every operation that no later pass can handle,
each at its place. The ``v1`` profile is the table of the first published version: it stops at the first
violation and accepts only add, mul, sub and reduce.

Rejected at the loop::

    %r = scf.for %i = %a to %b step %c iter_args(%x = %y) -> (tensor<4xf16>) { ... }

>>> from dfsched.passes.examples import example
>>> example("ktir-legality-check", '''
... %y = linalg.dot ins(%x, %x : tensor<4xf16>, tensor<4xf16>) outs(%n : tensor<f16>) -> tensor<f16>
... ''', arguments="%x: tensor<4xf16>, %n: tensor<f16>")
Traceback (most recent call last):
    ...
dfsched.passes.errors.UnsupportedKernel: <string>:3:6: error: 'linalg.dot': matrix products are not ...
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from dfsched.architecture import kind_text
from dfsched.options import Profile
from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.errors import ScheduleError, UnsupportedKernel
from dfsched.passes.index_arithmetic import constant_value
from dfsched.passes.ir_tools import Definitions
from dfsched.passes.memory_accesses import tile_of, view_of
from dfsched.passes.pinned_ranges import counts_bytes
from dfsched.passes.resolve_control_numbers import is_number
from ktir.dialects import func, ktdp, linalg, scf, tensor
from ktir.dialects.builtin import Module
from ktir.dtypes import element_bytes
from ktir.errors import Diagnostic, UnsupportedError
from ktir.grid import GridError, grid_of
from ktir.ir import Operation, Value
from ktir.scheduler_profile import scheduler_v1
from ktir.types import ShapedType, element_or_self

__all__ = ["PASS", "run"]

NOT_BUILT = {
    "ktdp.construct_distributed_memory_view": "distributed memory views are",
    "ktdp.construct_indirect_access_tile": "indirect access is",
    "scf.while": "loops with conditions are",
    "linalg.matmul": "matrix products are",
    "linalg.batch_matmul": "matrix products are",
    "linalg.matvec": "matrix products are",
    "linalg.vecmat": "matrix products are",
    "linalg.dot": "matrix products are",
    "spyreop.exx2": "moments of rows are",
    "spyreop.exx2_fused": "packed moments of rows are",
    "spyreop.exx2_zeromean_fused": "packed moments of rows are",
    "spyreop.layernormscale_fused": "packed moments of rows are",
    "spyreop.slice_reduction": "reductions within a stick are",
}
"""Operations that are legal KTIR but that no pass lowers yet, with the subject of the message."""

INTER_TILE = "ktdp.inter_tile_"

TENSOR_OPS = (
    tensor.Empty,
    tensor.Splat,
    tensor.Generate,
    tensor.Yield,
    tensor.Extract,
    tensor.ExtractSlice,
    tensor.ExpandShape,
    tensor.CollapseShape,
)


def run(module: Module, context: PassContext) -> Module:
    """Check every kernel; `UnsupportedKernel` lists the violations."""
    v1 = context.options.profile is Profile.V1
    findings = scheduler_v1(module) if v1 else _default(module)
    found = (*_grids(module, context), *_buffers(module, context), *findings)
    if found:
        raise UnsupportedKernel(found[:1] if v1 else found)
    return module


PASS = Pass("ktir-legality-check", Group.FRONTEND, run, "reject what no later pass can lower")


def _grids(module: Operation, context: PassContext) -> Iterator[Diagnostic]:
    """Every compute tile is a core of its own: a grid that is no array, or larger than the device."""
    cores = context.architecture.cores
    for op in module.walk():
        if not isinstance(op, func.Func) or op.is_declaration:
            continue
        try:
            extents = grid_of(op) or ()
        except GridError as error:
            yield Diagnostic(error.message, op.location)
            continue
        if math.prod(extents) > cores:
            yield Diagnostic(
                f"the grid {list(extents)} has {math.prod(extents)} compute tiles, "
                f"device '{context.architecture.name}' has {cores} cores",
                op.location,
            )


def _buffers(module: Operation, context: PassContext) -> Iterator[Diagnostic]:
    """Every buffer fits into its memory, where it starts at a constant place in device memory from there on;
    extents that only a launch knows are not looked at.
    """
    architecture = context.architecture
    definitions, device_memory = Definitions(module), architecture.device_memory
    unit_is_byte = isinstance(module, Module) and counts_bytes(module)
    for op in module.walk():
        if not isinstance(op, ktdp.ConstructMemoryView):
            continue
        kind = architecture.memory_kind(op.memory_space)
        size = architecture.memory(kind).size if architecture.is_memory(kind) else None
        extents, strides = op.mixed_sizes, op.mixed_strides
        try:
            width = element_bytes(op.type.element)
        except UnsupportedError as error:
            yield Diagnostic(error.message, op.location)
            continue
        needed = width
        for extent, stride in zip(extents, strides, strict=True):
            if isinstance(extent, int) and isinstance(stride, int):
                needed += max(0, extent - 1) * stride * width
        if size is not None and needed > size:
            yield Diagnostic(
                f"this buffer takes {needed} bytes of {kind_text(kind)}, which has {size}", op.location
            )
            continue
        start = constant_value(op.offset, definitions)
        if size is None or start is None or device_memory is None or kind != device_memory.kind:
            continue
        end = start * (1 if unit_is_byte else width) + needed
        if end > size:
            yield Diagnostic(
                f"this buffer ends at byte {end} of {kind_text(kind)}, which has {size}", op.location
            )


def _default(module: Operation) -> Iterator[Diagnostic]:
    stores = any(isinstance(op, ktdp.Store) for op in module.walk())
    definitions = Definitions(module)
    for op in module.walk():
        if isinstance(op, ktdp.Load | ktdp.Store):
            yield from _elements(op, definitions)
        if isinstance(op, ktdp.Load) and not stores:
            yield Diagnostic("this load feeds no store", op.location)
        reason = _reason(op)
        if reason is not None:
            yield Diagnostic(reason, op.location)


def _elements(op: ktdp.Load | ktdp.Store, definitions: Definitions) -> Iterator[Diagnostic]:
    """The tensor of an access has the elements of the memory (its tile does not say which these are)."""
    try:
        held = view_of(tile_of(op, definitions), definitions).type.element
    except ScheduleError:
        return  # told where the tile or the view is needed
    moved = element_or_self(op.result.type if isinstance(op, ktdp.Load) else op.data_tile.type)
    if moved != held:
        yield Diagnostic(f"the tensor has elements of {moved}, the memory view of {held}", op.location)


def _reason(op: Operation) -> str | None:
    if op.name in NOT_BUILT:
        return f"'{op.name}': {NOT_BUILT[op.name]} not supported yet"
    if op.name.startswith(INTER_TILE):
        return f"'{op.name}': communication between tiles is not supported yet"
    match op:
        case scf.For() if any(is_number(value.type) for value in op.inits):
            return (
                "'scf.for': a carried number that does not grow by the same amount in every iteration is not "
                "supported"
            )
        case scf.For() if op.inits:
            return "'scf.for': loop-carried values are not supported yet"
        case scf.If() if op.results:
            return "'scf.if': conditions with results are not supported yet"
        case func.Call():
            return "'func.call': calls in kernels are not supported yet"
        case linalg.Generic() if is_matrix_product(op):
            return "'linalg.generic': matrix products are not supported yet"
        case _ if op.name.startswith("tensor.") and not isinstance(op, TENSOR_OPS):
            return f"'{op.name}': tensors that are put together are not supported yet"
        case _:
            return _dynamic(op)


def is_matrix_product(op: linalg.Generic) -> bool:
    """Whether a generic contracts two operands that each have a loop of the result which the other lacks.

    The contracted loop is one of both operands; any body counts. Products of a matrix and a vector are
    reductions like others.
    """
    if len(op.inputs) != 2 or "reduction" not in op.iterators:
        return False
    left, right, *outs = ({d for e in map.results for d in e.dims()} for map in op.maps)
    out = set().union(*outs)
    contracted = {d for d, kind in enumerate(op.iterators) if kind == "reduction"} & left & right
    return bool(contracted and (left & out) - right and (right & out) - left)


def _dynamic(op: Operation) -> str | None:
    values: tuple[Value, ...] = op.results
    for value in values:
        if isinstance(value.type, ShapedType) and not value.type.is_static:
            return (
                f"'{op.name}': results of dynamic shape are not supported yet, and this one is {value.type}"
            )
    return None
