"""The operations of `random_computations`: each step makes one value of earlier ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import attrs

from spyresim.testing import text as t

__all__ = ["LIMITS", "Grower", "Layout", "Step", "Value"]

LIMITS = {"f16": 2**11, "bf16": 2**8, "f32": 2**24, "i32": 2**31 - 1, "i8": 2**7 - 1}
"""The element types, and up to where all whole numbers are exact."""

_PLAIN_FLOAT_BINARY = ("addf", "subf", "mulf", "maximumf", "minimumf")
_FLOAT_BINARY = (*_PLAIN_FLOAT_BINARY, "divf", "maxnumf", "minnumf")
_FLOAT_UNARY = (
    *("math.absf", "math.exp", "math.tanh", "math.sqrt", "math.rsqrt", "math.floor", "math.ceil"),
    *("math.erf", "math.sin", "math.log1p", "spyreop.sigmoid"),
)
_INTEGER_BINARY = ("addi", "subi", "muli", "maxsi", "minsi", "maxui", "minui", "andi", "ori", "xori")
_WITH_CONSTANT = {"shli": (0, 5), "shrsi": (0, 7), "divsi": (1, 9), "remsi": (1, 9), "floordivsi": (1, 9)}
_FLOAT_FOLDS = {
    "addf": ("0.0", "1.0", "-2.0"),
    "mulf": ("1.0", "-1.0"),
    "maximumf": ("lowest", "0.0"),
    "minimumf": ("highest", "1.0"),
    "maxnumf": ("lowest",),
    "minnumf": ("highest",),
}
_INTEGER_FOLDS = {
    "addi": ("0", "7"),
    "muli": ("1", "3"),
    "maxsi": ("-128", "0"),
    "minsi": ("127", "-1"),
    "andi": ("-1", "15"),
    "ori": ("0", "1"),
    "xori": ("0", "-1"),
}
_INFINITY = {"f16": ("0xFC00", "0x7C00"), "bf16": ("0xFF80", "0x7F80"), "f32": ("0xFF800000", "0x7F800000")}
_CMPF = ("oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno")
_CMPI = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_NAMED = {"addf": "add", "subf": "sub", "mulf": "mul", "divf": "div", "maximumf": "max", "minimumf": "min"}


def is_float(type: str) -> bool:
    return "f" in type


@attrs.frozen
class Layout:
    """What all values share: extents of one tile's share, grid, loop, and which element types inputs have.

    `mixed`: arrays may have their dimensions in another order. `plain`: only what a device with f16 lanes and
    no instructions of its own computes.
    """

    block: tuple[int, ...]
    grid: tuple[int, ...]
    trips: int
    count_argument: bool
    shift: bool
    units_last: bool
    mixed: bool
    types: tuple[str, ...]
    plain: bool

    @property
    def split(self) -> tuple[int, ...]:
        """Dimensions over which tiles and iterations are spread."""
        return (0,) if len(self.grid) == 1 else (0, len(self.block) - 1)

    def chunks(self, dim: int) -> int:
        """How many shares there are along a dimension."""
        if dim not in self.split:
            return 1
        return self.grid[0] * self.trips if dim == 0 else self.grid[1]

    def whole(self, dim: int) -> int:
        return self.block[dim] * self.chunks(dim)

    def extents(self, value: Value) -> tuple[int, ...]:
        """The shape of a value."""
        return tuple(self.block[d] for d in value.dims)

    def tensor(self, value: Value, type: str | None = None) -> str:
        return f"tensor<{t.dims(self.extents(value))}{type or value.type}>"

    def positions(self) -> Iterator[str]:
        """``%numD``, which share it is, and ``%posD``, where it starts, of each dimension that is split."""
        for part, dim in enumerate(self.split):
            number = f"%tile#{part}" if len(self.grid) > 1 else "%tile"
            if dim == 0 and self.trips > 1:
                yield f"%first = arith.muli {number}, %trips : index"
                yield "%num0 = arith.addi %first, %i : index"
            else:
                yield f"%num{dim} = arith.addi {number}, %c0 : index"
            yield f"%size{dim} = arith.constant {self.block[dim]} : index"
            yield f"%pos{dim} = arith.muli %num{dim}, %size{dim} : index"


@attrs.frozen
class Value:
    """A tensor with the dimensions `dims` of the kernel, in order.

    `bound`: all elements are whole numbers, none larger; None if that is not known.
    """

    name: str
    dims: tuple[int, ...]
    type: str
    bound: int | None = None


@attrs.frozen
class Step:
    """Lines that compute `result`."""

    kind: str
    result: Value
    operands: tuple[Value, ...] = ()
    lines: tuple[str, ...] = ()
    scalars: tuple[tuple[str, str], ...] = ()


class Grower:
    """Appends steps; what they do depends only on the dice of each step and on the values so far."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.steps: list[Step] = []
        self.outputs: list[Value] = []
        self._count = 0
        self._last: Value | None = None
        self._from_arrays: set[str] = set()

    # -- values

    def _name(self) -> str:
        self._count += 1
        return f"%x{self._count}"

    def _add(self, step: Step) -> Value:
        self.steps.append(step)
        if step.kind == "input" or any(value.name in self._from_arrays for value in step.operands):
            self._from_arrays.add(step.result.name)
        return step.result

    def _input(self, dice: Random, dims: tuple[int, ...] | None = None, type: str | None = None) -> Value:
        """An array: all dimensions, some of them, or another order of them."""
        rank = len(self.layout.block)
        if dims is None:
            kept = [d for d in range(rank) if dice.random() < (0.9 if self._last is None else 0.6)]
            dims = tuple(kept or [rank - 1])
            if len(dims) > 1 and self.layout.mixed and dice.random() < 0.4:
                dims = tuple(dice.sample(dims, len(dims)))
        type = dice.choice(self.layout.types) if type is None else type
        bound = dice.choice([1, 2, 3]) if is_float(type) else 100
        return self._add(Step("input", Value(f"%in{self._count_up()}", dims, type, bound)))

    def _count_up(self) -> int:
        self._count += 1
        return self._count

    def _other(self, dice: Random, type: str) -> Value:
        """A second operand of an element type: an earlier value or a new array."""
        found = [step.result for step in self.steps if step.result.type == type and step.kind != "constant"]
        if found and dice.random() < 0.6:
            return dice.choice(found[-4:])
        return self._input(dice, type=type)

    def _constant(self, value: Value, text: str) -> Value:
        """A constant in the form of a value."""
        name = self._name()
        line = f"{name} = arith.constant dense<{text}> : {self.layout.tensor(value)}"
        bound = None if "x" in text else abs(int(float(text)))
        return self._add(Step("constant", attrs.evolve(value, name=name, bound=bound), (), (line,)))

    def _empty(self, dims: tuple[int, ...], type: str) -> tuple[str, str]:
        """The name of an empty tensor, and the line that makes it."""
        name = self._name()
        return name, f"{name} = tensor.empty() : {self.layout.tensor(Value('', dims, type))}"

    def _broadcast(self, value: Value, dims: tuple[int, ...]) -> Value:
        """A value with further dimensions, by ``linalg.broadcast`` or, where the order differs, a generic."""
        if value.dims == dims:
            return value
        empty, line = self._empty(dims, value.type)
        result = attrs.evolve(value, name=self._name(), dims=dims)
        types = self.layout.tensor(value), self.layout.tensor(result)
        if not value.dims:
            extract = self._name()
            lines = (
                f"{extract} = tensor.extract {value.name}[] : {types[0]}",
                f"{result.name} = tensor.splat {extract} : {types[1]}",
            )
            return self._add(Step("broadcast", result, (value,), lines))
        if [d for d in dims if d in value.dims] == list(value.dims):
            added = [n for n, d in enumerate(dims) if d not in value.dims]
            lines = (
                line,
                f"{result.name} = linalg.broadcast ins({value.name} : {types[0]}) outs({empty} : {types[1]}) "
                f"dimensions = {added}",
            )
        else:
            lines = (line, self._generic(result, [value], empty, [f"linalg.yield %a0 : {value.type}"]))
        return self._add(Step("broadcast", result, (value,), lines))

    def _generic(self, result: Value, operands: Sequence[Value], init: str, body: Sequence[str]) -> str:
        """``linalg.generic`` over the dimensions of the result, element by element."""
        names = {d: f"d{n}" for n, d in enumerate(result.dims)}
        space = ", ".join(names.values())
        picked = [", ".join(names[d] for d in value.dims) for value in (*operands, result)]
        maps = ", ".join(f"affine_map<({space}) -> ({dims})>" for dims in picked)
        kinds = ", ".join(['"parallel"'] * len(names))
        types = ", ".join(self.layout.tensor(v) for v in operands)
        ins = f"ins({', '.join(v.name for v in operands)} : {types}) " if operands else ""
        arguments = ", ".join([*(f"%a{n}: {v.type}" for n, v in enumerate(operands)), f"%acc: {result.type}"])
        inner = "\n    ".join(body)
        return (
            f"{result.name} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}} "
            f"{ins}outs({init} : {self.layout.tensor(result)}) {{\n  ^bb0({arguments}):\n    {inner}\n  }} "
            f"-> {self.layout.tensor(result)}"
        )

    # -- steps

    def grow(self, dice: Random) -> None:
        """One more operation, mostly on the last value."""
        value = self._last
        if value is None:
            value = self._input(dice)
        elif dice.random() < 0.15:
            value = dice.choice([s.result for s in self.steps if s.kind not in ("constant", "compare")])
        makers = [self._binary] * 5 + [self._reduce] * 4 + [self._unary] * 2 + [self._splat, self._scaled]
        if not self.layout.plain:
            makers += [self._cast] * 3 + [self._choice] * 2 + [self._index]
        self._last = dice.choice(makers)(dice, value)

    def finish(self, dice: Random) -> None:
        """The outputs: the last value, and sometimes another one."""
        assert self._last is not None
        self.outputs = [self._last]
        own = [s.result for s in self.steps if s.kind not in ("input", "constant")]
        others = [value for value in own if value != self._last and value.type != "i1"]
        if others and dice.random() < 0.25:
            self.outputs.append(dice.choice(others))

    def _element_wise(
        self, dice: Random, name: str, operands: Sequence[Value], bound: int | None, kind: str = "element"
    ) -> Value:
        """An operation of the dialect arith, math or spyreop on tensors, or in a generic or a map."""
        first = operands[0]
        result = Value(self._name(), first.dims, first.type, bound)
        short = name.removeprefix("arith.")
        forms = ["tensor", "tensor", "generic", "map"] + (["named"] if short in _NAMED else [])
        forms = ["generic"] if name.startswith("spyreop.") else forms
        form = dice.choice(forms)
        empty, line = self._empty(result.dims, result.type)
        tensor = self.layout.tensor(result)
        values = ", ".join(v.name for v in operands)
        types = ", ".join([tensor] * len(operands))
        match form:
            case "tensor":
                lines = [f"{result.name} = {name} {values} : {tensor}"]
            case "named":
                lines = [
                    line,
                    f"{result.name} = linalg.{_NAMED[short]} ins({values} : {types}) "
                    f"outs({empty} : {tensor}) -> {tensor}",
                ]
            case "map":
                lines = [
                    line,
                    f"{result.name} = linalg.map {{ {name} }} ins({values} : {types}) "
                    f"outs({empty} : {tensor})",
                ]
            case _:
                inputs = ", ".join(f"%a{n}" for n in range(len(operands)))
                body = [f"%r = {name} {inputs} : {result.type}", f"linalg.yield %r : {result.type}"]
                lines = [line, self._generic(result, operands, empty, body)]
        return self._add(Step(kind, result, tuple(operands), tuple(lines)))

    def _binary(self, dice: Random, a: Value) -> Value:
        b = self._other(dice, a.type)
        if is_float(a.type):
            name = dice.choice(_PLAIN_FLOAT_BINARY if self.layout.plain else _FLOAT_BINARY)
        else:
            name = dice.choice(_INTEGER_BINARY)
        joint = {*a.dims, *b.dims}
        dims = next((v.dims for v in (a, b) if set(v.dims) == joint), tuple(sorted(joint)))
        bound = _bound(name, a, b)
        if dims and a.dims != b.dims and a.dims and b.dims and dice.random() < 0.5:
            empty, line = self._empty(dims, a.type)
            result = Value(self._name(), dims, a.type, bound)
            body = [f"%r = arith.{name} %a0, %a1 : {a.type}", f"linalg.yield %r : {a.type}"]
            lines = (line, self._generic(result, [a, b], empty, body))
            return self._add(Step("broadcast binary", result, (a, b), lines))
        operands = [self._broadcast(v, dims) for v in (a, b)]
        return self._element_wise(dice, f"arith.{name}", operands, bound)

    def _unary(self, dice: Random, a: Value) -> Value:
        if not is_float(a.type):
            return self._scaled(dice, a)
        name = "arith.negf" if self.layout.plain or dice.random() < 0.2 else dice.choice(_FLOAT_UNARY)
        if name.startswith("spyreop.") and a.type == "bf16":
            name = "math.absf"
        exact = name in ("arith.negf", "math.absf", "math.floor", "math.ceil")
        return self._element_wise(dice, name, [a], a.bound if exact else None)

    def _scaled(self, dice: Random, a: Value) -> Value:
        """An operation with a constant."""
        if is_float(a.type):
            number = dice.choice([2, -1, 3])
            b = self._constant(a, f"{number}.0")
            name = dice.choice(["addf", "mulf", "maximumf"])
        elif dice.random() < 0.5:
            name, (low, high) = dice.choice(sorted(_WITH_CONSTANT.items()))
            b = self._constant(a, str(dice.randint(low, high)))
        else:
            name, b = dice.choice(_INTEGER_BINARY), self._constant(a, str(dice.choice([3, -7, 100])))
        return self._element_wise(dice, f"arith.{name}", [a, b], _bound(name, a, b))

    def _cast(self, dice: Random, a: Value) -> Value:
        """To another element type; floats become integers only where they are known to fit."""
        targets = [n for n in LIMITS if n != a.type and (is_float(n) or not is_float(a.type) or _fits(a, n))]
        target = dice.choice(targets or ["f32"])
        if target == a.type:
            return self._unary(dice, a)
        value = a
        for name, type in _casts(dice, a.type, target):
            result = Value(self._name(), a.dims, type, a.bound if _fits(a, type) else None)
            line = (
                f"{result.name} = arith.{name} {value.name} : {self.layout.tensor(value)} to "
                f"{self.layout.tensor(result)}"
            )
            unsigned = name in ("extui", "uitofp") and a.type != "i1"
            result = attrs.evolve(result, bound=None) if unsigned else result
            value = self._add(Step("cast", result, (value,), (line,)))
        return value

    def _choice(self, dice: Random, a: Value) -> Value:
        """A comparison, and a selection by it; or the comparison as a number."""
        b = self._other(dice, a.type)
        if not set(b.dims) <= set(a.dims):
            a, b = b, a
        b = self._broadcast(b, a.dims) if set(b.dims) <= set(a.dims) else a
        predicate = dice.choice(_CMPF if is_float(a.type) else _CMPI)
        compare = "cmpf" if is_float(a.type) else "cmpi"
        mask = Value(self._name(), a.dims, "i1", 1)
        tensor, masks = self.layout.tensor(a), self.layout.tensor(mask)
        line = f"{mask.name} = arith.{compare} {predicate}, {a.name}, {b.name} : {tensor}"
        self._add(Step("compare", mask, (a, b), (line,)))
        result = Value(self._name(), a.dims, a.type, _largest(a, b))
        if dice.random() < 0.25 and not self.layout.plain:
            name = "uitofp" if is_float(a.type) else "extui"
            line = f"{result.name} = arith.{name} {mask.name} : {masks} to {tensor}"
            return self._add(Step("cast", attrs.evolve(result, bound=1), (mask,), (line,)))
        line = f"{result.name} = arith.select {mask.name}, {b.name}, {a.name} : {masks}, {tensor}"
        return self._add(Step("select", result, (mask, a, b), (line,)))

    def _reduce(self, dice: Random, a: Value) -> Value:
        """Some dimensions folded; sums and products only where they are exact in any order."""
        if not a.dims:
            return self._scaled(dice, a)
        if a.name not in self._from_arrays:
            name = "maximumf" if is_float(a.type) else "maxsi"
            a = self._element_wise(dice, f"arith.{name}", [a, self._input(dice, a.dims, a.type)], None)
        number = dice.choice([1, 1, 1, 2, len(a.dims)])
        positions = sorted(dice.sample(range(len(a.dims)), min(number, len(a.dims))))
        if dice.random() < 0.4:
            positions = [len(a.dims) - 1]
        dims = tuple(d for n, d in enumerate(a.dims) if n not in positions)
        count = 1
        for n in positions:
            count *= self.layout.block[a.dims[n]]
        name, init, bound = self._fold(dice, a, count)
        start = self._constant(Value("", dims, a.type), init)
        result = Value(self._name(), dims, a.type, bound)
        types = self.layout.tensor(a), self.layout.tensor(result)
        line = (
            f"{result.name} = linalg.reduce {{ arith.{name} }} ins({a.name} : {types[0]}) "
            f"outs({start.name} : {types[1]}) dimensions = {positions}"
        )
        if dice.random() < 0.3:
            line = self._folding(a, result, start, positions, name)
        return self._add(Step("reduction", result, (a, start), (line,)))

    def _folding(self, a: Value, result: Value, start: Value, positions: Sequence[int], name: str) -> str:
        """The reduction of the same meaning as a generic."""
        space = ", ".join(f"d{n}" for n in range(len(a.dims)))
        kept = ", ".join(f"d{n}" for n in range(len(a.dims)) if n not in positions)
        kinds = ", ".join('"reduction"' if n in positions else '"parallel"' for n in range(len(a.dims)))
        return (
            f"{result.name} = linalg.generic {{indexing_maps = [affine_map<({space}) -> ({space})>, "
            f"affine_map<({space}) -> ({kept})>], iterator_types = [{kinds}]}} "
            f"ins({a.name} : {self.layout.tensor(a)}) outs({start.name} : {self.layout.tensor(result)}) "
            f"{{\n  ^bb0(%a0: {a.type}, %acc: {a.type}):\n    %r = arith.{name} %acc, %a0 : {a.type}\n"
            f"    linalg.yield %r : {a.type}\n  }} -> {self.layout.tensor(result)}"
        )

    def _fold(self, dice: Random, a: Value, count: int) -> tuple[str, str, int | None]:
        """The combining operation, its initial value, and how large results can be."""
        if not is_float(a.type):
            name = dice.choice(sorted(_INTEGER_FOLDS))
            return name, dice.choice(_INTEGER_FOLDS[name]), None
        names = ["maximumf", "minimumf"] + ([] if self.layout.plain else ["maxnumf", "minnumf"])
        if a.bound is not None and a.bound * count + 2 <= LIMITS[a.type]:
            names += ["addf"] * 4
        if a.bound == 1:
            names.append("mulf")
        name = dice.choice(names)
        init = dice.choice(_FLOAT_FOLDS[name])
        if init in ("lowest", "highest"):
            return name, _INFINITY[a.type][init == "highest"], a.bound
        if name == "addf":
            return name, init, (a.bound or 0) * count + 2
        return name, init, None if a.bound is None else max(a.bound, 1)

    def _index(self, dice: Random, a: Value) -> Value:
        """Elements are kept or replaced by where they are: ``linalg.index`` in a generic."""
        if not a.dims:
            return self._scaled(dice, a)
        dim = dice.randrange(len(a.dims))
        limit = dice.randint(0, self.layout.block[a.dims[dim]])
        result = Value(self._name(), a.dims, a.type, a.bound)
        zero = "0.0" if is_float(a.type) else "0"
        body = [
            f"%j = linalg.index {dim} : index",
            f"%k = arith.constant {limit} : index",
            f"%q = arith.cmpi {dice.choice(['slt', 'sge', 'eq'])}, %j, %k : index",
            f"%z = arith.constant {zero} : {a.type}",
            f"%r = arith.select %q, %a0, %z : {a.type}",
            f"linalg.yield %r : {a.type}",
        ]
        empty, line = self._empty(a.dims, a.type)
        return self._add(Step("index", result, (a,), (line, self._generic(result, [a], empty, body))))

    def _splat(self, dice: Random, a: Value) -> Value:
        """An operation with a scalar argument."""
        if a.type == "i8" or a.type == "bf16":
            return self._scaled(dice, a)
        name = dice.choice(["addf", "mulf", "maximumf"] if is_float(a.type) else ["addi", "maxsi", "xori"])
        b = Value(self._name(), a.dims, a.type, 2)
        scalar = f"scalar_{a.type}"
        line = f"{b.name} = tensor.splat %{scalar} : {self.layout.tensor(a)}"
        self._add(Step("splat", b, (), (line,), ((scalar, a.type),)))
        return self._element_wise(dice, f"arith.{name}", [a, b], _bound(name, a, b))


def _fits(value: Value, type: str) -> bool:
    return value.bound is not None and value.bound <= LIMITS[type]


def _largest(a: Value, b: Value) -> int | None:
    return None if a.bound is None or b.bound is None else max(a.bound, b.bound)


def _bound(name: str, a: Value, b: Value) -> int | None:
    """How large results of an operation can be, if whole numbers stay exact."""
    if a.bound is None or b.bound is None:
        return None
    match name:
        case "addf" | "subf" | "addi" | "subi":
            found = a.bound + b.bound
        case "mulf" | "muli":
            found = a.bound * b.bound
        case "maximumf" | "minimumf" | "maxnumf" | "minnumf" | "maxsi" | "minsi":
            found = max(a.bound, b.bound)
        case _:
            return None
    return found if found <= LIMITS[a.type] else None


def _casts(dice: Random, source: str, target: str) -> Iterator[tuple[str, str]]:
    """Operations and types on the way from one element type to another."""
    match is_float(source), is_float(target):
        case True, True:
            if source != "f32":
                yield "extf", "f32"
            if target != "f32":
                yield "truncf", target
        case True, False:
            yield "fptosi", target
        case False, True:
            yield dice.choice(["sitofp", "sitofp", "uitofp"]), target
        case _:
            yield (dice.choice(["extsi", "extui"]) if source == "i8" else "trunci"), target
