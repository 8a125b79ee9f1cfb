"""What the arguments of a kernel are: the only derivation of its interface.

A kernel's ``index`` argument is a *pointer* if it reaches the offset of a view of device memory with
coefficient 1, and a scalar otherwise (so is the address of a view in a scratchpad: no buffer of the host
stands behind it). Shape and element type of a pointer are those of its largest view, or of its
``ktdp.layout``; its role follows from the loads and stores through its views. Views whose offset
holds no argument lie at constant addresses; `constant_buffers` lists them.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import attrs

from ktir.affine import AffineExpr, Const, Dim, Linear, Sym, linear
from ktir.analysis import DefUse
from ktir.attribute import Attribute
from ktir.attributes import IntegerAttr, StringAttr
from ktir.dialects import affine, arith, memref, scf
from ktir.dialects.func import Func
from ktir.dialects.ktdp import (
    AccessTileType,
    ConstructAccessTile,
    ConstructDistributedMemoryView,
    ConstructIndirectAccessTile,
    ConstructMemoryView,
    ExtractKind,
    GetComputeTileId,
    Load,
    MemorySpace,
    RuntimeArgExtract,
    RuntimeArgType,
    Store,
)
from ktir.dtypes import dtype_name, element_bytes
from ktir.errors import Diagnostic, KtirError, UnsupportedError
from ktir.grid import grid_of
from ktir.ir import BlockArgument, Operation, Value
from ktir.layout import Layout, LinearLayout
from ktir.location import Location
from ktir.machine import AddressUnit, Machine
from ktir.types import IndexType, MemRefType, Type

__all__ = [
    "Argument",
    "ArgumentKind",
    "ConstantBuffer",
    "Role",
    "SignatureError",
    "constant_buffers",
    "find_argument",
    "find_function",
    "pointers_of_views",
    "signature",
]


class SignatureError(KtirError):
    """The interface of a kernel cannot be derived; `location` is the operation or argument at fault."""

    def __init__(self, message: str, location: Location | None = None) -> None:
        super().__init__(str(Diagnostic(message, location)))
        self.message = message
        self.location = location


class ArgumentKind(enum.StrEnum):
    """A buffer in device memory, or a number."""

    POINTER = "pointer"
    SCALAR = "scalar"


class Role(enum.StrEnum):
    """Whether a kernel reads a buffer, writes it, or both."""

    INPUT = "input"
    OUTPUT = "output"
    INPUT_OUTPUT = "input_output"


@attrs.frozen
class Argument:
    """One argument of a kernel.

    Attributes:
        index: position among the function's arguments.
        name: ``ktdp.name`` if present, else the name in the text, else ``arg<index>``.
        dtype: NumPy's name of the element type (of the number itself for scalars, ``index`` is ``int64``).
        shape: host shape of a pointer, None for scalars; an entry is the name of the scalar argument that
            gives it where it is only known at launch.
        role: None for scalars.
        layout: of a pointer with a static shape; linear unless the argument carries ``ktdp.layout``.
        granularity: the launch value of a scalar is a multiple of this (1 if nothing is promised).
        upperbound: and at most this, if promised.
        is_open: whether views of a pointer lie where only the run knows (an offset with an argument,
            with data or with a loop of computed bounds; a computed stride or size): `shape` is then what the
            largest view needs, and the array behind it may be any other that holds as many elements.
    """

    index: int
    name: str
    kind: ArgumentKind
    dtype: str
    element: Type
    shape: tuple[int | str, ...] | None = None
    role: Role | None = None
    layout: Layout | None = None
    granularity: int = 1
    upperbound: int | None = None
    is_open: bool = False

    @property
    def is_pointer(self) -> bool:
        return self.kind is ArgumentKind.POINTER


@attrs.frozen
class ConstantBuffer:
    """Device memory at a constant address (bytes) that a kernel uses; `name` is such as ``@0x800``."""

    name: str
    address: int
    dtype: str
    element: Type
    shape: tuple[int, ...]
    role: Role


def find_function(module: Operation, function: str | Func | None = None) -> Func:
    """A function with a body by name; without one, the only public function of the module.

    :class:`SignatureError` lists what there is if the name fits none or several.
    """
    if isinstance(function, Func):
        return function
    kernels = [op for op in module.walk() if isinstance(op, Func) and not op.is_declaration]
    found = [k for k in kernels if (k.symbol == function if function is not None else k.is_public)]
    if len(found) == 1:
        return found[0]
    names = ", ".join(k.symbol for k in kernels) or "none"
    if function is None:
        raise SignatureError(f"name one of the functions: {names}", module.location)
    what = "no function" if not found else "several functions"
    raise SignatureError(f"{what} named '{function}', functions with a body: {names}", module.location)


def signature(module: Operation, function: str | Func | None = None) -> tuple[Argument, ...]:
    """The arguments of a kernel in the order of the function (KTIR spec 3.3, 4.3).

    :class:`SignatureError` with the place if the offset of a view is not ``argument + rest``, if an argument
    is both an address and a size or bound, or if one argument is viewed with two element sizes.
    """
    return _Kernel(module, find_function(module, function)).arguments()


def constant_buffers(module: Operation, function: str | Func | None = None) -> tuple[ConstantBuffer, ...]:
    """Device memory that a kernel addresses without an argument, by ascending address."""
    return _Kernel(module, find_function(module, function)).constants()


def pointers_of_views(module: Operation, function: str | Func | None = None) -> dict[Operation, int]:
    """For each view of device memory whose offset holds an argument: the position of that argument."""
    offsets = _Kernel(module, find_function(module, function)).offsets
    return {view: offset.pointer for view, offset in offsets.items() if offset.pointer is not None}


def find_argument(arguments: Iterable[Argument], name: str) -> Argument:
    """The argument with a name; ``arg<index>`` always works. KeyError names what there is."""
    arguments = tuple(arguments)
    for argument in arguments:
        if argument.name == name:
            return argument
    for argument in arguments:
        if name == f"arg{argument.index}":
            return argument
    known = ", ".join(a.name for a in arguments) or "none"
    raise KeyError(f"no argument named '{name}', the kernel has: {known}")


@attrs.frozen(eq=False)
class _Offset:
    """``pointer + fixed + (values that are no constants)``, in address units of the view.

    `highest` is the largest value of ``fixed + ...``, as tile ids and loops of constant bounds have it; None
    if it is not known or the sum may be negative.
    """

    pointer: int | None
    fixed: int
    highest: int | None


class _Kernel:
    """Collects the facts about one function."""

    def __init__(self, module: Operation, function: Func) -> None:
        self.machine = Machine().for_module(self._switches(module, function))
        self.function = function
        self.defuse = DefUse(function)
        self.views = [
            op
            for op in function.walk()
            if isinstance(op, ConstructMemoryView)
            and isinstance(op.memory_space, MemorySpace)
            and op.memory_space.is_global
        ]
        self._dependencies: dict[Value, frozenset[int]] = {
            value: frozenset([i]) for i, value in enumerate(function.arguments)
        }

    @staticmethod
    def _switches(module: Operation, function: Func) -> Mapping[str, Attribute]:
        """Attributes of the module that holds the function, outer ones first."""
        defuse = DefUse(module)
        found: dict[str, Attribute] = {}
        for op in reversed((*defuse.ancestors(function), *((module,) if module is not function else ()))):
            found.update(op.attributes)
        return found

    # -- dependence of values on arguments

    def depends(self, value: Value) -> frozenset[int]:
        """Positions of the function arguments that a value may depend on."""
        seen: set[Value] = set()
        found: set[int] = set()
        stack = [value]
        while stack:
            current = stack.pop()
            if current in seen:
                continue
            seen.add(current)
            known = self._dependencies.get(current)
            if known is not None:
                found |= known
                continue
            stack += self._sources(current)
        result = frozenset(found)
        self._dependencies[value] = result
        return result

    def _sources(self, value: Value) -> Sequence[Value]:
        """What a value is computed from. Data read from memory does not carry the address it was read at."""
        op = self.defuse.definer(value)
        position = None if op is None else next(i for i, r in enumerate(op.results) if r is value)
        if op is None:
            block = self.defuse.defining_block(value)
            if block is None:
                return ()
            op = self.defuse.owner(block)
            number = next(i for i, a in enumerate(block.arguments) if a is value)
            if isinstance(op, scf.For):
                if number == 0:
                    return (op.lower, op.upper, op.step)
                position = number - 1
        match op:
            case Load() | memref.Load():
                return ()
            case scf.For(inits=inits) if position is not None:
                return (inits[position], op.body.block.terminator.operands[position])
        inner = [v for r in op.regions for b in r.blocks if b.operations for v in b.terminator.operands]
        return (*op.operands, *inner)

    def expression(self, value: Value, leaves: list[Value]) -> AffineExpr:
        """A value as an affine expression: function arguments are dimensions, other leaves symbols."""
        if isinstance(value, BlockArgument) and value in self.function.arguments:
            return Dim(self.function.arguments.index(value))
        match self.defuse.definer(value):
            case arith.Constant(value=IntegerAttr(value=number)):
                return Const(number)
            case arith.AddI(lhs=lhs, rhs=rhs):
                return self.expression(lhs, leaves) + self.expression(rhs, leaves)
            case arith.SubI(lhs=lhs, rhs=rhs):
                return self.expression(lhs, leaves) - self.expression(rhs, leaves)
            case arith.MulI(lhs=lhs, rhs=rhs):
                a, b = self.expression(lhs, leaves), self.expression(rhs, leaves)
                if isinstance(a, Const) or isinstance(b, Const):
                    return a * b
            case arith.IndexCast(source=inner):
                return self.expression(inner, leaves)
            case affine.Apply(map=map, arguments=arguments):
                operands = [self.expression(v, leaves) for v in arguments]
                dims = map.map.num_dims
                return map.map.results[0].replace(operands[:dims], operands[dims:])
            case RuntimeArgExtract(runtime_arg=source, what=what):
                promised = _promise(source.type, what)
                return self.expression(source, leaves) if promised is None else Const(promised)
        if value not in leaves:
            leaves.append(value)
        return Sym(leaves.index(value))

    # -- offsets

    @cached_property
    def offsets(self) -> dict[ConstructMemoryView, _Offset]:
        """The offset of every view; decides which arguments are pointers."""
        forms: dict[ConstructMemoryView, tuple[Linear | None, list[Value]]] = {}
        for view in self.views:
            leaves: list[Value] = []
            forms[view] = (linear(self.expression(view.offset, leaves)), leaves)
        candidates = {view: self._candidates(flat) for view, (flat, _) in forms.items()}
        certain = {c[0] for c in candidates.values() if len(c) == 1}
        pointers = {view: self._pick(view, found, certain) for view, found in candidates.items()}
        known = {p for p in pointers.values() if p is not None}
        return {view: self._offset(view, pointers[view], known, *forms[view]) for view in self.views}

    def _candidates(self, flat: Linear | None) -> list[int]:
        """Arguments that stand in an offset with coefficient 1."""
        terms = () if flat is None else flat.terms
        dims = [t.position for t, coefficient in terms if isinstance(t, Dim) and coefficient == 1]
        return [d for d in dims if self._may_point(d)]

    def _pick(self, view: ConstructMemoryView, candidates: list[int], certain: set[int]) -> int | None:
        """The one that is the address: marked by a layout, or the address of another view on its own."""
        if len(candidates) < 2:
            return candidates[0] if candidates else None
        for chosen in (
            [c for c in candidates if self._layout(c) is not None],
            [c for c in candidates if c in certain],
        ):
            if len(chosen) == 1:
                return chosen[0]
        names = " and ".join(f"'{self.name(c)}'" for c in candidates)
        raise SignatureError(
            f"offset of the view holds two addresses, {names}; mark the buffer with ktdp.layout",
            view.location,
        )

    def _offset(
        self,
        view: ConstructMemoryView,
        pointer: int | None,
        known: set[int],
        flat: Linear | None,
        leaves: list[Value],
    ) -> _Offset:
        others: set[int] = set()
        if flat is None:
            others = set(self.depends(view.offset))
        else:
            for term, _ in flat.terms:
                if isinstance(term, Dim):
                    if term.position != pointer:
                        others.add(term.position)
                    continue
                others |= term.dims()
                for symbol in term.symbols():
                    others |= self.depends(leaves[symbol])
        wrong = sorted(others & known)
        if wrong:
            name = self.name(wrong[0])
            raise SignatureError(f"offset of the view is not '{name}' plus terms without it", view.location)
        if flat is None:
            return _Offset(pointer, 0, None)
        rest = [(t, c) for t, c in flat.terms if not (isinstance(t, Dim) and t.position == pointer)]
        return _Offset(pointer, flat.constant, self._highest(flat.constant, rest, leaves))

    def _highest(
        self, fixed: int, terms: Sequence[tuple[AffineExpr, int]], leaves: Sequence[Value]
    ) -> int | None:
        """The largest value of a sum; None if a term has no bounds or the sum may be negative."""
        low = high = fixed
        for term, coefficient in terms:
            bounds = self._bounds(leaves[term.position]) if isinstance(term, Sym) else None
            if bounds is None:
                return None
            ends = [coefficient * bound for bound in bounds]
            low, high = low + min(ends), high + max(ends)
        return None if low < 0 else high

    def _bounds(self, value: Value) -> tuple[int, int] | None:
        """Least and largest value of a tile id or of the variable of a loop with constant bounds."""
        definer = self.defuse.definer(value)
        if isinstance(definer, GetComputeTileId):
            grid = grid_of(self.function) or (1,) * len(definer.results)
            axis = next(i for i, result in enumerate(definer.results) if result is value)
            return (0, grid[axis] - 1) if axis < len(grid) else None
        block = self.defuse.defining_block(value) if definer is None else None
        loop = self.defuse.owner(block) if block is not None else None
        if not isinstance(loop, scf.For) or value is not loop.body.block.arguments[0]:
            return None
        match [self.expression(v, []) for v in (loop.lower, loop.upper, loop.step)]:
            case [Const(lower), Const(upper), Const(step)] if step > 0 and upper > lower:
                return lower, lower + (upper - lower - 1) // step * step
        return None

    def _may_point(self, position: int) -> bool:
        type = self.function.arguments[position].type
        return isinstance(type, IndexType) or (
            isinstance(type, RuntimeArgType) and isinstance(type.underlying, IndexType)
        )

    # -- names and layouts

    def name(self, position: int) -> str:
        """The interface name of an argument."""
        match self.function.argument_attributes(position).get("ktdp.name"):
            case StringAttr(value=value):
                return value
            case _:
                return self.function.arguments[position].name or f"arg{position}"

    def _layout(self, position: int) -> Layout | None:
        found = self.function.argument_attributes(position).get("ktdp.layout")
        if found is not None and not isinstance(found, Layout):
            raise SignatureError(
                f"'ktdp.layout' of argument '{self.name(position)}' must be a #ktdp.layout<...>",
                self.function.arguments[position].location,
            )
        return found

    # -- roles

    def role(self, views: Iterable[Value]) -> Role:
        """How the memory behind some views is used."""
        loaded = stored = False
        seen: set[Value] = set()
        stack = list(views)
        while stack:
            value = stack.pop()
            if value in seen:
                continue
            seen.add(value)
            for use in self.defuse.uses(value):
                match use.op:
                    case ConstructDistributedMemoryView() | ConstructAccessTile():
                        stack += use.op.results
                    case ConstructIndirectAccessTile(base=base):
                        if value is base:
                            stack += use.op.results
                        loaded |= value in use.op.indirect_memrefs
                    case (
                        memref.Cast() | memref.MemorySpaceCast() | memref.SubView() | memref.ReinterpretCast()
                    ):
                        stack += use.op.results
                    case Load() | memref.Load():
                        loaded = True
                    case Store() | memref.Store():
                        stored = True
                    case memref.Copy(source=source, target=target):
                        loaded |= value is source
                        stored |= value is target
                    case _ if isinstance(value.type, MemRefType | AccessTileType):
                        loaded = stored = True
        if stored:
            return Role.INPUT_OUTPUT if loaded else Role.OUTPUT
        return Role.INPUT

    # -- arguments

    def arguments(self) -> tuple[Argument, ...]:
        """All arguments in order."""
        groups: dict[int, list[ConstructMemoryView]] = {}
        for view, offset in self.offsets.items():
            if offset.pointer is not None:
                groups.setdefault(offset.pointer, []).append(view)
        self._check_bounds(groups)
        self._check_names()
        found: list[Argument] = []
        for position, value in enumerate(self.function.arguments):
            if position in groups:
                found.append(self._pointer(position, groups[position]))
            elif isinstance(value.type, MemRefType):
                found.append(self._memref(position, value, value.type))
            else:
                found.append(self._scalar(position, value))
        return tuple(found)

    def _check_bounds(self, pointers: Iterable[int]) -> None:
        """An address may not be a size, a bound or a subscript, too."""
        addresses = set(pointers)
        for op in self.function.walk():
            match op:
                case ConstructMemoryView(sizes=sizes, strides=strides):
                    values, what = (*sizes, *strides), "a size or stride of this view"
                case scf.For(lower=lower, upper=upper, step=step):
                    values, what = (lower, upper, step), "a bound of this loop"
                case ConstructAccessTile(indices=indices, symbol_operands=symbols):
                    values, what = (*indices, *symbols), "a subscript of this access tile"
                case ConstructIndirectAccessTile(captured_variables=captured, symbol_operands=symbols):
                    values, what = (*captured, *symbols), "a subscript of this access tile"
                case _:
                    continue
            for value in values:
                both = sorted(self.depends(value) & addresses)
                if both:
                    raise SignatureError(
                        f"argument '{self.name(both[0])}' is an address and also reaches {what}", op.location
                    )

    def _check_names(self) -> None:
        seen: dict[str, int] = {}
        for position, value in enumerate(self.function.arguments):
            name = self.name(position)
            if name in seen:
                raise SignatureError(
                    f"arguments {seen[name]} and {position} are both named '{name}'", value.location
                )
            seen[name] = position

    def _pointer(self, position: int, views: list[ConstructMemoryView]) -> Argument:
        layout = self._layout(position)
        sizes = {element_bytes(v.type.element) for v in views}
        if len(sizes) > 1 and self.machine.address_unit is AddressUnit.ELEMENT:
            raise SignatureError(
                f"argument '{self.name(position)}' is viewed with element sizes of "
                f"{' and '.join(map(str, sorted(sizes)))} bytes, which element addresses cannot express",
                views[-1].location,
            )
        largest = max(views, key=lambda v: _view_elements(v) or 0)
        element = largest.type.element
        shape: tuple[int | str, ...]
        if layout is not None:
            if layout.element != element:
                raise SignatureError(
                    f"'ktdp.layout' of argument '{self.name(position)}' says {layout.element}, but its view "
                    f"has elements of type {element}",
                    largest.location,
                )
            shape = layout.shape
        else:
            shape = self._shape(largest, [(v, self.offsets[v]) for v in views])
            static = [n for n in shape if isinstance(n, int)]
            layout = LinearLayout(tuple(static), element) if len(static) == len(shape) else None
        granularity, upperbound = _promises(self.function.arguments[position].type)
        return Argument(
            position,
            self.name(position),
            ArgumentKind.POINTER,
            dtype_name(element),
            element,
            shape,
            self.role(v.result for v in views),
            layout,
            granularity,
            upperbound,
            self._layout(position) is None and any(map(self._is_open, views)),
        )

    def _is_open(self, view: ConstructMemoryView) -> bool:
        """Whether place, extents or strides of a view are known only while the kernel runs."""
        inner: AffineExpr = Const(1)  # the stride of C order, where it is an affine expression
        for size, stride in zip(reversed(view.mixed_sizes), reversed(view.mixed_strides), strict=True):
            extent, step = (
                Const(n) if isinstance(n, int) else self.expression(n, []) for n in (size, stride)
            )
            if not isinstance(extent, Const | Dim) or not (isinstance(step, Const) or step == inner):
                return True
            inner = step * extent if isinstance(step, Const) or isinstance(extent, Const) else Const(0)
        return self.offsets[view].highest is None

    def _shape(
        self, largest: ConstructMemoryView, views: Sequence[tuple[ConstructMemoryView, _Offset]]
    ) -> tuple[int | str, ...]:
        """The host shape whose C order the largest view walks; flat where the views do not tile one."""
        sizes = [self._size(n) for n in largest.mixed_sizes]
        named = tuple(n for n in sizes if n is not None)
        if len(named) == len(sizes) and any(isinstance(n, str) for n in sizes):
            return named
        extents = [n for n in sizes if isinstance(n, int)]
        strides = [s for s in largest.mixed_strides if isinstance(s, int)]
        unit = 1 if self.machine.address_unit is AddressUnit.ELEMENT else element_bytes(largest.type.element)
        end = max((_view_span(v) or 0) + (o.highest or o.fixed) // unit for v, o in views)
        place = self.offsets[largest]
        if len(strides) == len(extents) == len(sizes) and place.fixed == 0:
            order = sorted(range(len(extents)), key=lambda d: (-strides[d], d))
            host = tuple(extents[d] for d in order)
            if _is_packed(host, [strides[d] for d in order]):
                rows, rest = divmod((place.highest or 0) // unit, _product(host[1:]) or 1)
                if rows and host and not rest:  # the view moves along the outermost dimension
                    host = (host[0] + rows, *host[1:])
                if end <= _product(host):
                    return host
        return (end,)

    def _size(self, size: int | Value) -> int | str | None:
        """A constant, the name of an argument, or None for what the kernel computes."""
        if isinstance(size, int):
            return size
        match self.expression(size, []):
            case Const(value):
                return value
            case Dim(position):
                return self.name(position)
            case _:
                return None

    def _memref(self, position: int, value: Value, type: MemRefType) -> Argument:
        if not type.is_static:
            raise SignatureError(
                f"argument '{self.name(position)}' of type {type} needs static extents",
                self.function.arguments[position].location,
            )
        layout = self._layout(position) or LinearLayout(type.static_shape(), type.element)
        return Argument(
            position,
            self.name(position),
            ArgumentKind.POINTER,
            dtype_name(type.element),
            type.element,
            layout.shape,
            self.role([value]),
            layout,
        )

    def _scalar(self, position: int, value: Value) -> Argument:
        element = value.type.underlying if isinstance(value.type, RuntimeArgType) else value.type
        try:
            dtype = dtype_name(element)
        except UnsupportedError:
            raise SignatureError(
                f"argument '{self.name(position)}' of type {element} is neither an address nor a number",
                self.function.arguments[position].location,
            ) from None
        granularity, upperbound = _promises(value.type)
        return Argument(
            position,
            self.name(position),
            ArgumentKind.SCALAR,
            dtype,
            element,
            granularity=granularity,
            upperbound=upperbound,
        )

    def constants(self) -> tuple[ConstantBuffer, ...]:
        """Views in device memory whose offset holds no argument, one buffer an address."""
        groups: dict[int, list[ConstructMemoryView]] = {}
        for view, offset in self.offsets.items():
            if offset.pointer is None:
                unit = (
                    element_bytes(view.type.element)
                    if self.machine.address_unit is AddressUnit.ELEMENT
                    else 1
                )
                groups.setdefault(offset.fixed * unit, []).append(view)
        found: list[ConstantBuffer] = []
        for address, views in sorted(groups.items()):
            largest = max(views, key=lambda v: _view_elements(v) or 0)
            at_zero = [(v, attrs.evolve(self.offsets[v], fixed=0, highest=None)) for v in views]
            shape = self._constant_shape(largest, at_zero)
            element = largest.type.element
            role = self.role(v.result for v in views)
            found.append(
                ConstantBuffer(f"@0x{address:x}", address, dtype_name(element), element, shape, role)
            )
        return tuple(found)

    def _constant_shape(
        self, largest: ConstructMemoryView, views: Sequence[tuple[ConstructMemoryView, _Offset]]
    ) -> tuple[int, ...]:
        sizes = [self._size(n) for n in largest.mixed_sizes]
        extents = tuple(n for n in sizes if isinstance(n, int))
        if len(extents) != len(sizes):
            raise SignatureError("a view at a constant address needs constant sizes", largest.location)
        strides = [s for s in largest.mixed_strides if isinstance(s, int)]
        end = max(_view_span(v) or 0 for v, _ in views)
        packed = len(strides) == len(extents) and _is_packed(extents, strides)
        return extents if packed and end <= _product(extents) else (end,)


def _promise(type: Type, kind: ExtractKind) -> int | None:
    """The number that a runtime argument's type states, None for the launch value itself."""
    assert isinstance(type, RuntimeArgType)
    match kind:
        case ExtractKind.VALUE:
            return None
        case ExtractKind.GRANULARITY:
            return type.granularity
        case _:
            return type.upperbound


def _promises(type: Type) -> tuple[int, int | None]:
    match type:
        case RuntimeArgType(granularity=granularity, upperbound=upperbound):
            return granularity or 1, upperbound
        case _:
            return 1, None


def _product(extents: Iterable[int]) -> int:
    result = 1
    for extent in extents:
        result *= extent
    return result


def _view_elements(view: ConstructMemoryView) -> int | None:
    extents = [n for n in view.mixed_sizes if isinstance(n, int)]
    return _product(extents) if len(extents) == len(view.mixed_sizes) else None


def _view_span(view: ConstructMemoryView) -> int | None:
    """Elements from the first to behind the last one; None if not constant."""
    sizes = [n for n in view.mixed_sizes if isinstance(n, int)]
    strides = [s for s in view.mixed_strides if isinstance(s, int)]
    if len(sizes) != len(view.mixed_sizes) or len(strides) != len(sizes):
        return None
    if 0 in sizes:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))


def _is_packed(extents: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the strides are those of C order (extents of one do not matter)."""
    step = 1
    for extent, stride in zip(reversed(extents), reversed(strides), strict=True):
        if extent != 1 and stride != step:
            return False
        step *= extent
    return True
