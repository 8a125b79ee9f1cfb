"""Random types, attributes and modules, and equality of modules that shares nothing with the printer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from hypothesis import strategies as st

import ktir
from ktir import Block, BlockArgument, Context, Label, Operation, Region, Value
from ktir.affine import AffineMap, AffineSet, Constraint, Dim, Sym
from ktir.attribute import Attribute
from ktir.attributes import (
    FALSE,
    TRUE,
    UNIT,
    AffineMapAttr,
    AffineSetAttr,
    ArrayAttr,
    DenseArrayAttr,
    DenseElementsAttr,
    DenseResourceAttr,
    DictAttr,
    FloatAttr,
    IntegerAttr,
    OpaqueAttr,
    StridedLayoutAttr,
    StringAttr,
    SymbolRefAttr,
    TypeAttr,
)
from ktir.dialects import arith, cf, func, ktdp, scf
from ktir.dialects.builtin import Module
from ktir.ir import UnregisteredOp
from ktir.layout import LinearLayout
from ktir.location import UNKNOWN, CallSiteLoc, FileLineColLoc, FusedLoc, Location, NameLoc
from ktir.types import (
    F16,
    F32,
    FLOAT_WIDTHS,
    I1,
    I32,
    I64,
    INDEX,
    NONE,
    FloatType,
    FunctionType,
    IntegerType,
    MemRefType,
    OpaqueType,
    Signedness,
    TensorType,
    TupleType,
    Type,
    UnrankedMemRefType,
    UnrankedTensorType,
    VectorType,
    bit_width,
)

CONTEXT = Context(installed=False)
NAMES = st.sampled_from(
    ["x", "arg0", "arg1", "c0", "0", "12", "a b", "a.b$c-d", "é", "cst", "", "true", "x_0"]
)
HINTS = st.none() | NAMES
TEXTS = st.text(
    st.characters(codec="utf-8") | st.sampled_from('"\\\n\t\0{}<>'), max_size=6
)  # any Unicode, with what must be escaped more often
KEYS = st.sampled_from(
    ["a", "b", "x.y", "loc", "array", "dense", "a b", "1", "value", "true", "i32"]
) | TEXTS.filter(bool)
FLOATS = st.sampled_from([FloatType(name) for name in FLOAT_WIDTHS])
INTEGERS = st.builds(IntegerType, st.sampled_from([1, 2, 8, 16, 32, 64, 128]), st.sampled_from(Signedness))
EXTENTS = st.lists(st.sampled_from([0, 1, 2, 7, 96]) | st.none(), max_size=3).map(tuple)


@cache
@st.composite
def affine_expressions(draw: st.DrawFn, dims: int, syms: int, depth: int = 3) -> Any:
    """As the operators build them: only what MLIR's own folding leaves has a text."""
    leaves = [Dim(i) for i in range(dims)] + [Sym(i) for i in range(syms)]
    if depth == 0 or draw(st.booleans()):
        constant = draw(st.integers(-9, 99))
        leaf = draw(st.sampled_from(leaves)) if leaves else Dim(0) * 0
        return leaf * draw(st.sampled_from([1, -1, 3])) + constant if leaves else leaf + constant
    lhs = draw(affine_expressions(dims, syms, depth - 1))
    number = draw(st.integers(1, 16))
    match draw(st.integers(0, 4)):
        case 0:
            return lhs + draw(affine_expressions(dims, syms, depth - 1))
        case 1:
            return lhs - draw(affine_expressions(dims, syms, depth - 1))
        case 2:
            return lhs // number
        case 3:
            return lhs.ceildiv(number)
        case _:
            return lhs % number


@cache
@st.composite
def affine_maps(draw: st.DrawFn) -> AffineMap:
    dims, syms = draw(st.integers(0, 3)), draw(st.integers(0, 2))
    return AffineMap(dims, syms, tuple(draw(st.lists(affine_expressions(dims, syms), max_size=3))))


@cache
@st.composite
def affine_sets(draw: st.DrawFn) -> AffineSet:
    dims, syms = draw(st.integers(0, 3)), draw(st.integers(0, 2))
    constraint = st.builds(Constraint, affine_expressions(dims, syms), st.booleans())
    return AffineSet(dims, syms, tuple(draw(st.lists(constraint, max_size=3))))


@cache
def scalars() -> st.SearchStrategy[Type]:
    return st.one_of(st.just(INDEX), INTEGERS, FLOATS)


@cache
def _memory_spaces() -> st.SearchStrategy[Attribute]:
    return st.sampled_from(
        [
            ktdp.MemorySpace(ktdp.Space.GLOBAL),
            ktdp.MemorySpace(ktdp.Space.CT_LOCAL, 3),
            ktdp.SpyreMemorySpace(ktdp.SpyreSpace.L0, 1),
            StringAttr("L 1"),
            IntegerAttr(1, I32),
        ]
    )


def _strided(shape: tuple[int | None, ...]) -> st.SearchStrategy[Attribute]:
    numbers = st.none() | st.integers(1, 99)
    strides = st.lists(numbers, min_size=len(shape), max_size=len(shape)).map(tuple)
    return st.builds(StridedLayoutAttr, strides, st.none() | st.integers(0, 9))


@cache
@st.composite
def memrefs(draw: st.DrawFn) -> Type:
    shape = draw(EXTENTS)
    return MemRefType(
        shape, draw(scalars()), draw(st.none() | _strided(shape)), draw(st.none() | _memory_spaces())
    )


@cache
@st.composite
def vectors(draw: st.DrawFn) -> Type:
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    scalable = draw(
        st.just(()) | st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)).map(tuple)
    )
    return VectorType(shape, draw(scalars()), scalable if any(scalable) else ())


@cache
def types() -> st.SearchStrategy[Type]:
    """Every kind of type that ktir knows, nested."""
    flat = st.one_of(
        scalars(),
        st.builds(TensorType, EXTENTS, scalars(), st.none() | TEXTS.map(StringAttr)),
        memrefs(),
        vectors(),
        st.builds(UnrankedTensorType, scalars()),
        st.builds(UnrankedMemRefType, scalars(), st.none() | _memory_spaces()),
        st.sampled_from([NONE, OpaqueType("other", ".thing<4 x [a -> b]>"), OpaqueType("o2", ".t")]),
        st.builds(ktdp.AccessTileType, EXTENTS, st.just(INDEX)),
        st.builds(
            ktdp.RuntimeArgType,
            st.sampled_from([INDEX, I32, F16]),
            st.none() | st.integers(1, 64),
            st.none() | st.integers(1, 1 << 40),
        ),
    )
    return st.recursive(
        flat,
        lambda inner: st.one_of(
            st.builds(TupleType, st.lists(inner, max_size=2).map(tuple)),
            st.builds(
                FunctionType, st.lists(inner, max_size=2).map(tuple), st.lists(inner, max_size=2).map(tuple)
            ),
        ),
        max_leaves=4,
    )


@cache
@st.composite
def integer_attributes(draw: st.DrawFn) -> IntegerAttr:
    type = draw(INTEGERS | st.just(INDEX))
    width = bit_width(type)
    unsigned = width == 1 or (isinstance(type, IntegerType) and type.signedness is Signedness.UNSIGNED)
    low, high = (0, (1 << width) - 1) if unsigned else (-(1 << (width - 1)), (1 << (width - 1)) - 1)
    if isinstance(type, IntegerType) and width == 1 and type.signedness is Signedness.SIGNED:
        low, high = -1, 0
    return IntegerAttr(draw(st.integers(low, high) | st.sampled_from([low, high])), type)


@cache
@st.composite
def float_attributes(draw: st.DrawFn) -> FloatAttr:
    type = draw(FLOATS)
    return FloatAttr(draw(st.integers(0, (1 << type.width) - 1)), type)  # NaNs, infinities, subnormals


@cache
@st.composite
def dense_elements(draw: st.DrawFn) -> DenseElementsAttr:
    element = draw(
        st.sampled_from([I1, IntegerType(8), I32, I64, INDEX, F16, F32, FloatType("bf16"), FloatType("f64")])
    )
    shape = draw(st.sampled_from([(), (1,), (3,), (2, 2), (0,), (2, 0), (120,)]))
    count = 1
    for extent in shape:
        count *= extent
    splat = count > 0 and draw(st.booleans())
    numbers = 1 if splat or count == 1 else count
    if element == I1:
        data = bytes(draw(st.lists(st.integers(0, 1), min_size=numbers, max_size=numbers)))
    else:
        size = (bit_width(element) + 7) // 8
        data = draw(st.binary(min_size=numbers * size, max_size=numbers * size))
        if numbers > 1 and data == data[:size] * numbers:
            data = bytes([data[0] ^ 1]) + data[1:]  # equal elements are a splat
    if numbers > 1 and element == I1 and data in (bytes(numbers), b"\1" * numbers):
        data = bytes([1 - data[0]]) + data[1:]
    return DenseElementsAttr(data, TensorType(shape, element), splat or count == 1)


@cache
def locations() -> st.SearchStrategy[Location]:
    place = st.builds(FileLineColLoc, TEXTS, st.integers(0, 999), st.integers(0, 999))
    return st.recursive(
        st.just(UNKNOWN) | place,
        lambda inner: st.one_of(
            st.builds(NameLoc, TEXTS, inner),
            st.builds(CallSiteLoc, inner, inner),
            st.builds(
                FusedLoc,
                st.lists(inner, min_size=1, max_size=2).map(tuple),
                st.none() | TEXTS.map(StringAttr),
            ),
        ),
        max_leaves=3,
    )


@cache
def attributes() -> st.SearchStrategy[Attribute]:
    """Every kind of attribute that ktir knows, nested."""
    flat: st.SearchStrategy[Attribute] = st.one_of(
        st.sampled_from([UNIT, TRUE, FALSE, OpaqueAttr("other", ".attr<[1, {a = 2}], -> x>")]),
        integer_attributes(),
        float_attributes(),
        st.builds(StringAttr, TEXTS, st.none() | st.sampled_from([I32, F16])),
        st.builds(SymbolRefAttr, TEXTS.filter(bool), st.lists(TEXTS.filter(bool), max_size=2).map(tuple)),
        types().map(TypeAttr),
        dense_elements(),
        st.builds(DenseResourceAttr, TEXTS.filter(bool), st.just(TensorType((4,), F32))),
        st.builds(DenseArrayAttr, st.just(I64), st.lists(st.integers(-9, 9), max_size=3).map(tuple)),
        st.builds(DenseArrayAttr, st.just(F16), st.lists(st.integers(0, 0xFFFF), max_size=3).map(tuple)),
        st.builds(DenseArrayAttr, st.just(I1), st.lists(st.integers(0, 1), max_size=3).map(tuple)),
        affine_maps().map(AffineMapAttr),
        affine_sets().map(AffineSetAttr),
        locations(),
        _memory_spaces(),
        st.builds(
            LinearLayout, st.lists(st.integers(1, 9), max_size=3).map(tuple), st.sampled_from([F16, I32])
        ),
    )
    return st.recursive(
        flat,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3).map(lambda items: ArrayAttr(tuple(items))),
            st.dictionaries(KEYS, inner, max_size=3).map(DictAttr),
        ),
        max_leaves=4,
    )


@cache
def dictionaries() -> st.SearchStrategy[dict[str, Attribute]]:
    """Discardable attributes: any name but those with a meaning of their own."""
    return st.dictionaries(KEYS.filter(lambda key: not key.startswith("ktdp.")), attributes(), max_size=2)


# -- modules


ELEMENTWISE = [
    cls
    for dialect in CONTEXT.dialects
    if dialect.name in ("arith", "math", "spyreop", "tensor", "memref", "affine")
    for cls in dialect.operations
    if cls.definition.operands and not cls.definition.regions and not cls.definition.successors
]
VALUE_TYPES = [
    INDEX,
    I1,
    I32,
    I64,
    F16,
    F32,
    TensorType((4, 8), F16),
    TensorType((4, 8), F32),
    TensorType((None, 8), I32),
    TensorType((4, 8), I1),
    VectorType((4,), F32),
    MemRefType((4,), F16),
]


TYPE_LISTS = st.lists(types(), max_size=3)
CONSTANTS = st.one_of(
    integer_attributes().filter(lambda a: a.type in (INDEX, I1, I32, I64)),
    float_attributes(),
    dense_elements(),
)


@st.composite
def modules(draw: st.DrawFn) -> Module:
    """Valid modules: functions of straight-line code, structured control flow and branches, made without text."""
    functions = [_Function(draw, f"f{number}").build() for number in range(draw(st.integers(1, 2)))]
    module = Module.create(attributes=draw(dictionaries()), regions=(Region.of(functions),))
    ktir.verify(module)
    return module


class _Function:
    """Grows the body of a function; `draw` decides everything."""

    def __init__(self, draw: st.DrawFn, name: str) -> None:
        self.draw = draw
        self.name = name

    def build(self) -> Operation:
        draw = self.draw
        arguments = [BlockArgument(t, draw(HINTS), draw(locations())) for t in VALUE_TYPES]
        results = draw(st.lists(st.sampled_from(arguments), max_size=2))
        types = tuple(a.type for a in arguments), tuple(r.type for r in results)
        entry = self.operations(list(arguments), 2)
        if draw(st.booleans()):
            blocks = self.branches(entry, arguments, results)
        else:
            blocks = [Block(tuple(arguments), (*entry, func.Return.create(results)))]
        attributes = {
            **draw(dictionaries()),
            "sym_name": StringAttr(self.name),
            "function_type": TypeAttr(FunctionType(*types)),
        }
        return func.Func.create(
            attributes=attributes, regions=(Region(tuple(blocks)),), location=draw(locations())
        )

    def branches(
        self, entry: list[Operation], arguments: Sequence[BlockArgument], results: Sequence[Value]
    ) -> list[Block]:
        """A diamond whose arms pass values to the last block."""
        draw = self.draw
        left, right, end = (Label(draw(HINTS)) for _ in range(3))
        passed = draw(st.lists(st.sampled_from(arguments), max_size=2))
        condition = next(a for a in arguments if a.type == I1)
        received = tuple(BlockArgument(v.type, draw(HINTS)) for v in passed)
        branch = cf.CondBranch.create(
            (condition,),
            attributes={"operandSegmentSizes": DenseArrayAttr(I32, (1, 0, 0))},
            successors=(left, right),
        )
        ending = func.Return.create(results)
        return [
            Block(tuple(arguments), (*entry, branch)),
            Block(
                (), (*self.operations(list(arguments), 1), cf.Branch.create(passed, successors=(end,))), left
            ),
            Block((), (cf.Branch.create(passed, successors=(end,)),), right),
            Block(received, (*self.operations([*arguments, *received], 1), ending), end),
        ]

    def operations(self, scope: list[Value], depth: int) -> list[Operation]:
        made: list[Operation] = []
        for _ in range(self.draw(st.integers(0, 4))):
            op = self.operation(scope, depth)
            if op is not None:
                made.append(op.replace(location=self.draw(locations())))
                scope += op.results
        return made

    def operation(self, scope: list[Value], depth: int) -> Operation | None:
        match self.draw(st.integers(0, 7 if depth else 4)):
            case 0:
                return self.constant()
            case 1:
                return self.unregistered(scope, depth)
            case 2 | 3 | 4:
                return self.declared(scope)
            case 5:
                return self.loop(scope, depth)
            case 6:
                return self.choice(scope, depth)
            case _:
                return self.unregistered(scope, depth)

    def constant(self) -> Operation:
        value: Any = self.draw(CONSTANTS)
        return arith.Constant.create(
            (),
            (value.type,),
            {**self.draw(dictionaries()), "value": value},
            names=[self.draw(HINTS)],
        )

    def unregistered(self, scope: list[Value], depth: int) -> Operation:
        draw = self.draw
        operands = draw(st.lists(st.sampled_from(scope), max_size=3))
        results = draw(TYPE_LISTS)
        regions = []
        for _ in range(draw(st.integers(0, min(depth, 2)))):
            arguments = tuple(BlockArgument(t, draw(HINTS)) for t in draw(TYPE_LISTS))
            inner = [*self.operations([*scope, *arguments], depth - 1), UnregisteredOp(op_name="other.end")]
            regions.append(Region((Block(arguments, tuple(inner)),)))
        properties, discardable = draw(dictionaries()), draw(dictionaries())
        made = UnregisteredOp.create(operands, results, {**discardable, **properties}, regions)
        return UnregisteredOp(
            made.operands,
            made.results,
            made.attributes,
            made.regions,
            op_name=draw(st.sampled_from(["other.op", "x.y.z", "test"])),
            inherent=frozenset(properties),
        )

    def declared(self, scope: list[Value]) -> Operation | None:
        """Any operation of straight-line code, with operands that its declaration takes, if it verifies."""
        draw = self.draw
        cls = draw(st.sampled_from(ELEMENTWISE))
        first = draw(st.sampled_from(scope))
        operands: list[Value] = []
        for declared in cls.definition.operands:
            same = [v for v in scope if v.type == first.type and declared.constraint.accepts(v.type)]
            fitting = same or [v for v in scope if declared.constraint.accepts(v.type)]
            if not fitting:
                return None
            operands.append(draw(st.sampled_from(fitting)))
        attributes: dict[str, Attribute] = dict(draw(dictionaries()))
        for wanted in cls.definition.attributes:
            if wanted.required:
                return None
        results = [draw(st.sampled_from([first.type, *VALUE_TYPES])) for _ in cls.definition.results]
        inferred = cls.infer_result_types(operands, DictAttr(attributes))
        op = cls.create(operands, inferred or results, attributes, names=[draw(HINTS)])
        return op if _verifies(op) else None

    def loop(self, scope: list[Value], depth: int) -> Operation:
        draw = self.draw
        inits = draw(st.lists(st.sampled_from(scope), max_size=2))
        bounds = [v for v in scope if v.type == INDEX and isinstance(v, BlockArgument)]  # no constant step
        lower, upper, step = (draw(st.sampled_from(bounds)) for _ in range(3))
        variables = [BlockArgument(t, draw(HINTS)) for t in (INDEX, *(v.type for v in inits))]
        inner = self.operations([*scope, *variables], depth - 1)
        body = Region.of((*inner, scf.Yield.create(variables[1:])), variables)
        types = [v.type for v in inits]
        return scf.For.create((lower, upper, step, *inits), types, draw(dictionaries()), (body,))

    def choice(self, scope: list[Value], depth: int) -> Operation:
        draw = self.draw
        results = draw(st.lists(st.sampled_from(scope), max_size=2))
        condition = draw(st.sampled_from([v for v in scope if v.type == I1]))
        arms = [self.operations(list(scope), depth - 1) for _ in range(2)]
        regions = [Region.of((*arm, scf.Yield.create(results))) for arm in arms]
        if not results and draw(st.booleans()):
            regions[1] = Region()
        return scf.If.create((condition,), [v.type for v in results], draw(dictionaries()), regions)


def _verifies(op: Operation) -> bool:
    arguments = {value: BlockArgument(value.type) for value in op.operands}
    alone = op.replace(operands=[arguments[value] for value in op.operands])
    function_type = FunctionType(tuple(a.type for a in arguments.values()), ())
    function = func.Func.create(
        attributes={"sym_name": StringAttr("f"), "function_type": TypeAttr(function_type)},
        regions=(Region.of((alone, func.Return.create()), tuple(arguments.values())),),
    )
    try:
        ktir.verify(Module.create(regions=(Region.of((function,)),)))
    except ktir.VerifyError:
        return False
    return True


# -- equality


def difference(a: Operation, b: Operation, *, locations: bool = False) -> str | None:
    """What distinguishes two operations up to the names of values and blocks; None if nothing does."""
    values: dict[Value, Value] = {}
    labels: dict[Label, Label] = {}
    for first, second in zip(a.walk(), b.walk(), strict=False):
        for region, other in zip(first.regions, second.regions, strict=False):
            for block, twin in zip(region.blocks, other.blocks, strict=False):
                labels[block.label] = twin.label
                values.update(zip(block.arguments, twin.arguments, strict=False))
        values.update(zip(first.results, second.results, strict=False))
    pairs = list(zip(a.walk(), b.walk(), strict=False))
    if len(pairs) != len(list(a.walk())) or len(pairs) != len(list(b.walk())):
        return "different numbers of operations"
    for first, second in pairs:
        found = _one_difference(first, second, values, labels, locations)
        if found is not None:
            return f"{found}: {first.name} and {second.name}"
    return None


def _one_difference(
    a: Operation, b: Operation, values: dict[Value, Value], labels: dict[Label, Label], locations: bool
) -> str | None:
    shapes = [[(len(r.blocks), [len(k.operations) for k in r.blocks]) for r in op.regions] for op in (a, b)]
    arguments = [[x.type for r in op.regions for k in r.blocks for x in k.arguments] for op in (a, b)]
    checks = {
        "class": type(a) is type(b) and a.name == b.name,
        "operands": tuple(values.get(v) for v in a.operands) == b.operands,
        "result types": [v.type for v in a.results] == [v.type for v in b.results],
        "attributes": a.attributes == b.attributes,
        "regions": shapes[0] == shapes[1],
        "block arguments": arguments[0] == arguments[1],
        "successors": tuple(labels.get(s) for s in a.successors) == b.successors,
        "location": not locations or a.location == b.location,
        "inherent": not isinstance(a, UnregisteredOp)
        or (isinstance(b, UnregisteredOp) and a.inherent == b.inherent),
    }
    return next((name for name, good in checks.items() if not good), None)
