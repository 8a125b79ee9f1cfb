"""`bind-symbolic-shapes`: extents that only the launch knows become loops over tiles of fixed shape.

Takes KTIR. Leaves KTIR in which run-time arguments are plain arguments, every memory view has a constant
size (the largest that it can have; views allocate nothing), and no access tile or tensor has a symbolic
extent: a compute group over symbolic tiles is repeated for tiles of a few constant sizes, each a loop whose
bounds are computed from the extent, so that exactly the elements of the extent are touched, whatever it is.

Before (``n`` is a multiple of 8 and at most 4096)::

    func.func @k(%a: index, %n: !ktdp.runtime_arg<index, granularity=8, upperbound=4096>) {
      %m = ktdp.runtime_arg_extract value from %n ...
      %v = ktdp.construct_memory_view %a, sizes: [%m, 96] ... : memref<?x96xf16>
      %t = ktdp.construct_access_tile %v[0, 0] symbols(%m) ... -> !ktdp.access_tile<?x96xindex>
      ... load, compute and store tensor<?x96xf16> ...

After::

    func.func @k(%a: index, %n: index) {
      %v = ktdp.construct_memory_view %a, sizes: [4096, 96] ... : memref<4096x96xf16>
      scf.for %i = %c0 to %n64 step %c64 { ... load, compute and store tensor<64x96xf16> at %v[%i, 0] ... }
      scf.for %i = %n64 to %n step %c8 { ... load, compute and store tensor<8x96xf16> at %v[%i, 0] ... }

>>> from dfsched.passes.examples import SOME_ROWS, after
>>> after("bind-symbolic-shapes", SOME_ROWS, r"scf.for|ktdp.load|arith.addf")
scf.for %arg0 = %c0 to %3 step %c32 {
%5 = ktdp.load %4 : <32x100xindex> -> tensor<32x100xf16>
%6 = arith.addf %5, %5 : tensor<32x100xf16>
scf.for %arg0 = %3 to %n step %c4 {
%5 = ktdp.load %4 : <4x100xindex> -> tensor<4x100xf16>
%6 = arith.addf %5, %5 : tensor<4x100xf16>
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dfsched.errors import ArchitectureError
from dfsched.options import Profile
from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.build import index_constant
from dfsched.passes.errors import Findings, UnsupportedKernel
from dfsched.passes.fold_places import Places, with_fold_places
from dfsched.passes.ir_tools import Definitions, rewrite_blocks, rewrite_kernels, substitute, without_unused
from dfsched.passes.promises import Promise, Promises
from dfsched.passes.symbolic_axes import folds_of, is_symbolic
from dfsched.passes.symbolic_tiles import cut_symbolic_tiles
from ktir.affine import AffineSet, Const, Dim
from ktir.analysis import is_pure
from ktir.attributes import AffineSetAttr, DenseArrayAttr, IntegerAttr, TypeAttr
from ktir.dialects import arith, func, ktdp, tensor
from ktir.dialects.builtin import Module
from ktir.ir import BlockArgument, Operation, OpResult, Region, Value
from ktir.opdef import OPERAND_SEGMENTS
from ktir.types import I32, I64, INDEX, FunctionType, IndexType, MemRefType, bit_width

__all__ = ["PASS", "run"]

DYNAMIC = -(2**63)


def run(module: Module, context: PassContext) -> Module:
    """Bind the symbolic extents of every kernel; `ScheduleError` with everything that is not built."""
    if context.options.profile is Profile.V1:
        return module
    places = Places(module, context.architecture)
    return rewrite_kernels(module, lambda kernel: _kernel(kernel, context, places))


PASS = Pass(
    "bind-symbolic-shapes",
    Group.FRONTEND,
    run,
    "extents that only the launch knows become loops over tiles of fixed shape",
)


def _kernel(kernel: func.Func, context: PassContext, places: Places) -> func.Func:
    if not any(_is_symbolic(op) for op in kernel.walk()):
        return kernel
    kernel, arguments = _plain_arguments(kernel)
    promises = Promises(Definitions(kernel), arguments)
    kernel = _static_views(kernel, promises, context)
    while any(is_symbolic(value) for op in kernel.walk() for value in op.results):
        split = with_fold_places(kernel, folds_of, places)
        if split is kernel:
            split = _cut_once(kernel, arguments, context)
        new = without_unused(split, _is_part)
        assert isinstance(new, func.Func)
        kernel = new
    return kernel


def _cut_once(kernel: func.Func, arguments: Mapping[Value, Promise], context: PassContext) -> func.Func:
    """The kernel with one symbolic extent of each group cut into loops."""
    promises = Promises(Definitions(kernel), arguments)
    block = kernel.body.block
    operations = cut_symbolic_tiles(block.operations, promises, context.architecture)
    return kernel.replace(regions=[Region((block.replace(operations=operations),))])


def _is_part(op: Operation) -> bool:
    """Whether an operation may only have served symbolic tiles: sizes, tiles, tensors without contents."""
    if isinstance(op, ktdp.ConstructAccessTile | tensor.Empty | tensor.Splat):
        return True
    numbers = all(isinstance(result.type, IndexType) for result in op.results)
    return bool(op.results) and numbers and not op.regions and is_pure(op)


def _is_symbolic(op: Operation) -> bool:
    match op:
        case ktdp.RuntimeArgExtract():
            return True
        case ktdp.ConstructMemoryView():
            return DYNAMIC in (*op.static_sizes.values, *op.static_strides.values)
        case ktdp.ConstructAccessTile():
            return bool(op.symbol_operands)
        case func.Func():
            return any(isinstance(a.type, ktdp.RuntimeArgType) for a in op.arguments)
        case _:
            return False


# -- run-time arguments


def _plain_arguments(kernel: func.Func) -> tuple[func.Func, dict[Value, Promise]]:
    """Run-time arguments as arguments of the type that they hold, and what their types promise."""
    promises: dict[Value, Promise] = {}
    plain: dict[Value, BlockArgument] = {}
    arguments: list[BlockArgument] = []
    for argument in kernel.arguments:
        type = argument.type
        if isinstance(type, ktdp.RuntimeArgType):
            new = BlockArgument(type.underlying, argument.name, argument.location)
            plain[argument] = new
            promises[new] = Promise(type.granularity or 1, type.upperbound)
            argument = new
        arguments.append(argument)
    if not plain:
        return kernel, promises
    values: dict[Value, Value] = dict(plain)

    def rewrite(operations: Sequence[Operation]) -> list[Operation]:
        found: list[Operation] = []
        for op in operations:
            match op:
                case ktdp.RuntimeArgExtract():
                    found += _extracted(op, plain, values)
                case _:
                    found.append(op)
        return found

    block = kernel.body.block
    operations = rewrite([rewrite_blocks(op, rewrite) for op in block.operations])
    body = block.replace(arguments=arguments, operations=[substitute(op, values) for op in operations])
    declared = kernel.function_type.type
    assert isinstance(declared, FunctionType)
    type_attribute = TypeAttr(FunctionType(tuple(a.type for a in arguments), declared.results))
    return kernel.replace(attributes={"function_type": type_attribute}, regions=[Region((body,))]), promises


def _extracted(
    op: ktdp.RuntimeArgExtract, plain: Mapping[Value, Value], values: dict[Value, Value]
) -> list[Operation]:
    """What stands for an extraction: the argument itself, or a constant that its type states."""
    type = op.runtime_arg.type
    assert isinstance(type, ktdp.RuntimeArgType)
    match op.what:
        case ktdp.ExtractKind.VALUE:
            values[op.result] = plain[op.runtime_arg]
            return []
        case ktdp.ExtractKind.GRANULARITY:
            number = type.granularity
        case _:
            number = type.upperbound
    assert number is not None
    constant = (
        index_constant(number)
        if op.result.type == INDEX
        else arith.Constant.of(IntegerAttr(number, op.result.type))
    )
    return [constant.replace(results=op.results, location=op.location)]


# -- views


def _static_views(kernel: func.Func, promises: Promises, context: PassContext) -> func.Func:
    """Views with the largest sizes that they can have."""
    values: dict[Value, Value] = {}
    findings = Findings()

    def static(view: ktdp.ConstructMemoryView) -> ktdp.ConstructMemoryView:
        return _static_view(view, promises, context, values)

    def rewrite(operations: Sequence[Operation]) -> list[Operation]:
        return [
            findings.attempt(static, op)
            if isinstance(op, ktdp.ConstructMemoryView)
            and DYNAMIC in (*op.static_sizes.values, *op.static_strides.values)
            else op
            for op in operations
        ]

    new = rewrite_blocks(kernel, rewrite)
    findings.check()
    bound = substitute(new, values)
    assert isinstance(bound, func.Func)
    return bound


def _static_view(
    view: ktdp.ConstructMemoryView, promises: Promises, context: PassContext, values: dict[Value, Value]
) -> ktdp.ConstructMemoryView:
    strides = []
    for stride in view.mixed_strides:
        known = stride if isinstance(stride, int) else _constant(stride, promises)
        if known is None:
            raise UnsupportedKernel.at(
                view.location,
                "the strides of a memory view must be known at compile time; only the size of its outermost "
                "dimension may be symbolic",
            )
        strides.append(known)
    sizes: list[int] = []
    symbols: list[int] = []
    for dimension, size in enumerate(view.mixed_sizes):
        if isinstance(size, int):
            sizes.append(size)
            continue
        sizes.append(_largest(view, size, strides[dimension], promises, context))
        symbols.append(sizes[-1])
    type = view.result.type
    assert isinstance(type, MemRefType)
    new = MemRefType(tuple(sizes), type.element, type.layout, type.memory_space)
    result = OpResult(new, view.result.name)
    values[view.result] = result
    points: AffineSet = view.coordinate_set.set
    if points.num_symbols:
        dims = [Dim(d) for d in range(points.num_dims)]
        points = points.replace(dims, [Const(n) for n in symbols[: points.num_symbols]], len(dims), 0)
    return ktdp.ConstructMemoryView.create(
        [view.offset],
        [new],
        {
            **view.attributes,
            "static_sizes": DenseArrayAttr(I64, tuple(sizes)),
            "static_strides": DenseArrayAttr(I64, tuple(strides)),
            "coordinate_set": AffineSetAttr(points),
            OPERAND_SEGMENTS: DenseArrayAttr(I32, (1, 0, 0)),
        },
        location=view.location,
    ).replace(results=[result])


def _constant(value: Value, promises: Promises) -> int | None:
    match promises.definitions.definer(value):
        case arith.Constant(value=IntegerAttr(value=number)):
            return number
        case _:
            return None


def _largest(
    view: ktdp.ConstructMemoryView, size: Value, stride: int, promises: Promises, context: PassContext
) -> int:
    """The promised bound of a size; without one, what the memory can hold."""
    known = promises.upper(size)
    if known is not None:
        return max(known, 0)
    architecture = context.architecture
    kind = architecture.memory_kind(view.memory_space)
    type = view.result.type
    assert isinstance(type, MemRefType)
    try:
        capacity = architecture.memory(kind).size if architecture.is_global(kind) else None
    except ArchitectureError:
        capacity = None
    if capacity is None or stride <= 0:
        raise UnsupportedKernel.at(
            view.location,
            "nothing bounds a size of the memory view; pass it as !ktdp.runtime_arg<index, upperbound = ...>",
        )
    return max(1, capacity // (stride * max(1, (bit_width(type.element) + 7) // 8)))
