"""`Kernel`: a function over compute tiles under construction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from ktir.affine import AffineExpr, AffineMap, AffineSet, Const, Sym
from ktir.attribute import Attribute
from ktir.attributes import (
    AffineSetAttr,
    ArrayAttr,
    DictAttr,
    IntegerAttr,
    StringAttr,
    TypeAttr,
    int_array,
)
from ktir.builder.element import Combine, Element, Scalar, Tensor, as_type
from ktir.builder.emitter import BuilderError, Emitter, caller_location, number, splat, static_shape
from ktir.builder.index import Index
from ktir.builder.view import Extent, View
from ktir.dialects import linalg, scf, tensor
from ktir.dialects.builtin import Module
from ktir.dialects.func import Func, Return
from ktir.dialects.ktdp import (
    CT_LOCAL,
    GLOBAL,
    ConstructDistributedMemoryView,
    ConstructMemoryView,
    GetComputeTileId,
    InterTileProduce,
    InterTileReduce,
    MemorySpace,
    RuntimeArgExtract,
    RuntimeArgType,
    Space,
    TileFutureType,
    YieldPartial,
    YieldReduced,
)
from ktir.dialects.ktdp.views import segments
from ktir.dialects.slices import static_array
from ktir.grid import GRID
from ktir.ir import BlockArgument, Operation, Region
from ktir.layout import Layout
from ktir.opdef import OPERAND_SEGMENTS
from ktir.types import I1, I32, I64, INDEX, FunctionType, IndexType, MemRefType, TensorType, Type
from ktir.verifier import verify


class Loop:
    """A loop under construction: its index, the values it carries, and what it gives back."""

    def __init__(self, index: Index, carried: tuple[Tensor, ...]) -> None:
        self.index = index
        self.carried = carried
        self._next: tuple[Tensor, ...] | None = None if carried else ()
        self._results: tuple[Tensor, ...] | None = None

    def carry(self, *values: Tensor) -> None:
        """The carried values of the next iteration, of the same types as `carried`."""
        if [v.type for v in values] != [c.type for c in self.carried]:
            given = ", ".join(str(v.type) for v in values)
            wanted = ", ".join(str(c.type) for c in self.carried)
            raise BuilderError(f"a loop that carries ({wanted}) cannot go on with ({given})")
        self._next = values

    @property
    def results(self) -> tuple[Tensor, ...]:
        """The carried values after the last iteration; only behind the ``with`` block."""
        if self._results is None:
            raise BuilderError("the results of a loop exist only behind its with block")
        return self._results


class Kernel:
    """Builds one kernel.

    >>> k = Kernel("double", grid=(3,))
    >>> x = k.view(k.pointer("x"), (96,), "f16")
    >>> (tile,) = k.tile_id()
    >>> piece = x[tile * 32 : tile * 32 + 32]
    >>> piece.store(piece.load() * 2)
    >>> module = k.build()

    Arguments are declared before anything that uses them is built, in the order of the function.
    """

    def __init__(self, name: str, grid: Sequence[int] | None = None) -> None:
        self.name = name
        self.grid = None if grid is None else tuple(grid)
        if self.grid is not None and (not self.grid or any(n < 1 for n in self.grid)):
            raise BuilderError(f"a grid has at least one positive extent, not {self.grid}")
        self.emitter = Emitter()
        self._arguments: list[BlockArgument] = []
        self._argument_attributes: list[DictAttr] = []
        self._tile_id: tuple[Index, ...] | None = None
        self._location = caller_location()
        self._built = False

    # -- arguments

    def _argument(self, name: str, type: Type, attributes: Mapping[str, Attribute]) -> BlockArgument:
        if any(a.name == name for a in self._arguments):
            raise BuilderError(f"there is already an argument named '{name}'")
        argument = BlockArgument(type, name, caller_location())
        self._arguments.append(argument)
        self._argument_attributes.append(DictAttr(attributes))
        return argument

    def pointer(self, name: str, layout: Layout | None = None) -> Index:
        """An argument that is the address of a buffer, optionally in a given device layout."""
        attributes: dict[str, Attribute] = {} if layout is None else {"ktdp.layout": layout}
        return Index.leaf(self.emitter, self._argument(name, INDEX, attributes))

    def index(self, name: str, granularity: int | None = None, upperbound: int | None = None) -> Index:
        """A scalar ``index`` argument; with a promise about its launch value it is a runtime argument."""
        if granularity is None and upperbound is None:
            return Index.leaf(self.emitter, self._argument(name, INDEX, {}))
        argument = self._argument(name, RuntimeArgType(INDEX, granularity, upperbound), {})
        attributes = {"kind": IntegerAttr(0, I32)}
        value = self.emitter.value(RuntimeArgExtract.create((argument,), (INDEX,), attributes))
        return Index.leaf(self.emitter, value)

    def scalar(self, name: str, type: Type | str) -> Scalar:
        """A scalar argument of a float or integer type."""
        found = as_type(type)
        if isinstance(found, IndexType):
            raise BuilderError("declare index arguments with Kernel.index or Kernel.pointer")
        return Scalar(self.emitter, self._argument(name, found, {}))

    # -- places

    def tile_id(self) -> tuple[Index, ...]:
        """The coordinates of the executing compute tile, one per grid dimension."""
        if self._tile_id is None:
            if len(self.emitter.frames) != 1:
                raise BuilderError("ask for the tile id outside of loops and conditions first")
            made = self.emitter.emit(GetComputeTileId.create((), (INDEX,) * len(self.grid or (1,))))
            self._tile_id = tuple(Index.leaf(self.emitter, r) for r in made.results)
        return self._tile_id

    def view(
        self,
        address: Index | int,
        shape: Sequence[Extent],
        element: Type | str,
        strides: Sequence[Extent] | None = None,
        space: MemorySpace | str = GLOBAL,
        coordinates: AffineSet | None = None,
    ) -> View:
        """Memory from `address` on as an array.

        Args:
            address: in elements of this view (or bytes, if the module says so).
            shape: extents, numbers or index expressions.
            strides: in elements; C order if left out, which needs numbers behind the first extent.
            space: ``"global"``, ``"ct_local"``, or a `MemorySpace` with a tile number.
            coordinates: the set of coordinates the view holds; the index box if left out.
        """
        type = as_type(element)
        sizes = [self._extent(n) for n in shape]
        steps = _packed(sizes) if strides is None else [self._extent(s) for s in strides]
        if len(steps) != len(sizes):
            raise BuilderError(f"{len(steps)} strides for {len(sizes)} extents")
        dynamic_sizes = [n.value() for n in sizes if isinstance(n, Index)]
        dynamic_strides = [s.value() for s in steps if isinstance(s, Index)]
        static = tuple(n if isinstance(n, int) else None for n in sizes)
        where = MemorySpace(Space(space)) if isinstance(space, str) else space
        attributes = {
            "static_sizes": static_array(static),
            "static_strides": static_array([s if isinstance(s, int) else None for s in steps]),
            "memory_space": where,
            "coordinate_set": AffineSetAttr(coordinates if coordinates is not None else _index_box(static)),
            OPERAND_SEGMENTS: segments(1, len(dynamic_sizes), len(dynamic_strides)),
        }
        start = address if isinstance(address, Index) else Index(self.emitter, Const(address), ())
        operands = (start.value(), *dynamic_sizes, *dynamic_strides)
        made = ConstructMemoryView.create(operands, (MemRefType(static, type),), attributes)
        return View(self.emitter, self.emitter.value(made), tuple(sizes), type)

    def scratchpad(self, address: Index | int, shape: Sequence[Extent], element: Type | str) -> View:
        """A view in the executing tile's scratchpad."""
        return self.view(address, shape, element, space=CT_LOCAL)

    def distributed(self, views: Sequence[View], shape: Sequence[int]) -> View:
        """Several views of parts as one view in global coordinates."""
        if not views or any(v.element != views[0].element for v in views):
            raise BuilderError("a distributed view joins views of one element type, at least one")
        type = MemRefType(tuple(shape), views[0].element)
        made = ConstructDistributedMemoryView.create([v.value for v in views], (type,))
        return View(self.emitter, self.emitter.value(made), tuple(shape), views[0].element)

    def _extent(self, extent: Extent) -> Extent:
        if isinstance(extent, Index):
            return extent if extent.constant is None else extent.constant
        return int(extent)

    # -- values

    def number(self, value: int | float, type: Type | str) -> Scalar:
        """A scalar constant."""
        return Scalar(self.emitter, self.emitter.constant(number(value, as_type(type))))

    def full(self, shape: Sequence[int], value: int | float, element: Type | str) -> Tensor:
        """A constant tensor with one value everywhere."""
        attribute = splat(value, TensorType(tuple(shape), as_type(element)))
        return Tensor(self.emitter, self.emitter.constant(attribute))

    def splat(self, value: Scalar, shape: Sequence[int]) -> Tensor:
        """A tensor with a scalar everywhere."""
        type = TensorType(tuple(shape), value.type)
        return Tensor(self.emitter, self.emitter.value(tensor.Splat.create((value.value,), (type,))))

    def empty(self, shape: Sequence[int], element: Type | str) -> Tensor:
        """A tensor without defined contents."""
        type = TensorType(tuple(shape), as_type(element))
        return Tensor(self.emitter, self.emitter.value(tensor.Empty.create((), (type,))))

    def map(
        self,
        function: Callable[..., Element],
        *inputs: Tensor,
        maps: Sequence[AffineMap] | None = None,
        shape: Sequence[int] | None = None,
    ) -> Tensor:
        """One ``linalg.generic``: `function` gets an element of every input and makes that of the result.

        `maps` say where in each input an element of the result takes its operand (identity if left out);
        `shape` is that of the result (that of the first input if left out). In the function, `lane` gives the
        position.
        """
        extents = tuple(shape) if shape is not None else static_shape(inputs[0].tensor_type)
        arguments = [BlockArgument(t.element) for t in inputs]
        with self.emitter.block(owns_constants=True) as frame:
            value = function(*(Scalar(self.emitter, a) for a in arguments))
        if isinstance(value, Tensor):
            raise BuilderError("the function of a map makes scalars")
        init = self.empty(extents, value.type)
        arguments.append(BlockArgument(value.type))
        identity = AffineMap.identity(len(extents))
        all_maps = [*(maps if maps is not None else [identity] * len(inputs)), identity]
        body = self.emitter.region(frame, linalg.Yield.create((value.value,)), tuple(arguments))
        made = linalg.Generic.build(
            [t.value for t in inputs], [init.value], all_maps, ("parallel",) * len(extents), body
        )
        return Tensor(self.emitter, self.emitter.value(made))

    def lane(self, axis: int) -> Index:
        """Inside the function of `map`: the position along an axis of the result."""
        made = linalg.Index.create((), (INDEX,), {"dim": IntegerAttr(axis, I64)})
        return Index.leaf(self.emitter, self.emitter.value(made))

    # -- control flow

    @contextmanager
    def loop(
        self, lower: Index | int, upper: Index | int, step: Index | int = 1, carry: Sequence[Tensor] = ()
    ) -> Iterator[Loop]:
        """``for index in range(lower, upper, step)``; `carry` are values that iterations hand on.

        >>> k = Kernel("sum")
        >>> x = k.view(k.pointer("x"), (8, 64), "f16")
        >>> with k.loop(0, 8, carry=[k.full((1, 64), 0, "f16")]) as loop:
        ...     (total,) = loop.carried
        ...     loop.carry(total + x[loop.index, :].load())
        >>> loop.results[0].shape
        (1, 64)
        """
        bounds = [
            (b if isinstance(b, Index) else Index(self.emitter, Const(b), ())).value()
            for b in (lower, upper, step)
        ]
        variable = BlockArgument(INDEX)
        arguments = (variable, *(BlockArgument(t.type) for t in carry))
        loop = Loop(Index.leaf(self.emitter, variable), tuple(Tensor(self.emitter, a) for a in arguments[1:]))
        with self.emitter.block() as frame:
            yield loop
        if loop._next is None:
            raise BuilderError("a loop that carries values needs Loop.carry in its body")
        body = self.emitter.region(frame, scf.Yield.create([t.value for t in loop._next]), arguments)
        operands = (*bounds, *(t.value for t in carry))
        made = self.emitter.emit(scf.For.create(operands, [t.type for t in carry], {}, (body,)))
        loop._results = tuple(Tensor(self.emitter, r) for r in made.results)

    @contextmanager
    def when(self, condition: Scalar) -> Iterator[None]:
        """What is built inside runs only if the condition (i1), such as ``tile == 0``, holds."""
        if not isinstance(condition, Scalar) or condition.element != I1:
            raise BuilderError(f"a condition is a comparison of values of the kernel, not {condition!r}")
        with self.emitter.block() as frame:
            yield
        body = self.emitter.region(frame, scf.Yield.create())
        self.emitter.emit(scf.If.create((condition.value,), (), {}, (body, Region())))

    # -- communication

    def reduce_tiles(
        self,
        value: Tensor,
        combine: Combine,
        identity: Tensor,
        members: AffineSet,
        groups: AffineSet,
        consumers: AffineSet | None = None,
    ) -> Tensor:
        """Fold the tensors of all tiles of a group; every consumer (default: every member) gets it.

        `members` and `consumers` are sets ``(tile)[group]`` of flat tile numbers, `groups` is the set of
        group numbers.
        """
        future_type = TileFutureType((value.type,), groups)
        group = BlockArgument(INDEX)
        with self.emitter.block() as frame:
            pass
        body = self.emitter.region(frame, YieldPartial.create((value.value,)), (group,))
        produce = InterTileProduce.create(
            (), (future_type,), {"producer_tiles_per_group": AffineSetAttr(members)}, (body,)
        )
        future = self.emitter.value(produce)
        arguments = (BlockArgument(value.type), BlockArgument(value.type))
        with self.emitter.block() as frame:
            combined = combine(*(Tensor(self.emitter, a) for a in arguments))
        body = self.emitter.region(frame, YieldReduced.create((combined.value,)), arguments)
        attributes = {"consumer_tiles_per_group": AffineSetAttr(consumers or members)}
        made = InterTileReduce.create((future, identity.value), (value.type,), attributes, (body,))
        return Tensor(self.emitter, self.emitter.value(made))

    # -- the end

    def function(self) -> Func:
        """The finished function; nothing can be added afterwards."""
        if len(self.emitter.frames) != 1:
            raise BuilderError("a loop or condition is still open")
        if not self._built:
            self.emitter.emit(Return.create())
            self._built = True
        types = tuple(a.type for a in self._arguments)
        attributes: dict[str, Attribute] = {
            "sym_name": StringAttr(self.name),
            "function_type": TypeAttr(FunctionType(types, ())),
        }
        if any(self._argument_attributes):
            attributes["arg_attrs"] = ArrayAttr(tuple(self._argument_attributes))
        if self.grid is not None:
            attributes[GRID] = int_array(self.grid)
        body = Region.of(self.emitter.frames[0].contents(), self._arguments)
        return Func.create((), (), attributes, (body,), location=self._location)

    def build(self, attributes: Mapping[str, Attribute] | None = None) -> Module:
        """A verified module with this kernel; `attributes` are those of the module.

        Raises `ktir.VerifyError` with the places in the Python source.
        """
        return build_module(self, attributes=attributes)


def build_module(*kernels: Kernel, attributes: Mapping[str, Attribute] | None = None) -> Module:
    """A verified module with several kernels."""
    functions: list[Operation] = [k.function() for k in kernels]
    module = Module.create((), (), attributes or {}, (Region.of(functions),))
    verify(module)
    return module


def _packed(sizes: Sequence[Extent]) -> list[Extent]:
    steps: list[Extent] = []
    step: Extent = 1
    for size in reversed(sizes):
        steps.append(step)
        step = size * step
    return list(reversed(steps))


def _index_box(static: Sequence[int | None]) -> AffineSet:
    extents: list[int | AffineExpr] = []
    symbols = 0
    for extent in static:
        if extent is None:
            extents.append(Sym(symbols))
            symbols += 1
        else:
            extents.append(extent)
    return AffineSet.box(*extents, num_symbols=symbols)


__all__ = ["Kernel", "Loop", "build_module"]
