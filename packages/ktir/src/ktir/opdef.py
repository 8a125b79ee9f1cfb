"""How an operation class is declared.

    @operation("arith.addf", assembly="$lhs `,` $rhs (`fastmath` `` $fastmath^)? attr-dict `:` type($result)",
               traits=(PURE, COMMUTATIVE, SAME_TYPE))
    class AddF(Operation):
        lhs = operand(FLOAT_LIKE)
        rhs = operand(FLOAT_LIKE)
        result = result(FLOAT_LIKE)
        fastmath = optional_attribute(FastMathAttr)

The declared names are typed descriptors: ``op.lhs`` is a `Value`, ``op.fastmath`` a ``FastMathAttr | None``,
and ``case AddF(lhs=x)`` works.  The declaration gives the generic form, the basic verification and, with
`assembly` (a subset of ODS' declarative format, see `ktir.assembly`), the custom parser and printer.
Several variadic groups use ``operandSegmentSizes`` / ``resultSegmentSizes`` as in MLIR.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Generic, Self, TypeVar, cast, overload

import attrs

from ktir.attribute import Attribute
from ktir.attributes import DenseArrayAttr
from ktir.constraints import ANY, Constraint, Restriction
from ktir.errors import DeclarationError, Diagnostic, finding
from ktir.ir import Operation, OpResult, Region, Value
from ktir.types import Type

if TYPE_CHECKING:
    from ktir.verifier import Verifier

A = TypeVar("A", bound=Attribute)
O = TypeVar("O", bound=Operation)


class Arity(enum.Enum):
    """How many values a declared operand or result stands for."""

    ONE = "one"
    OPTIONAL = "optional"
    VARIADIC = "variadic"


@attrs.frozen
class OperandDef:
    """A declared operand group."""

    name: str
    constraint: Constraint
    arity: Arity


@attrs.frozen
class ResultDef:
    """A declared result group; `hint` is the suggested printed name."""

    name: str
    constraint: Constraint
    arity: Arity
    hint: str | None = None


@attrs.frozen
class AttributeDef:
    """A declared inherent attribute; `default` is left out when printing the custom form."""

    name: str
    kind: type[Attribute] | tuple[type[Attribute], ...]
    required: bool
    default: Attribute | None = None
    description: str | None = None
    value_type: Type | None = None
    only: Restriction | None = None


@attrs.frozen
class RegionDef:
    """A declared region group."""

    name: str
    variadic: bool = False


@attrs.frozen(eq=False)
class Trait:
    """A property of an operation class; `verify` yields messages (see `Operation.verify_op`).

    A trait is equal to itself only.
    """

    name: str
    verify: Callable[[Operation, Verifier], Iterator[str | Diagnostic]] | None = attrs.field(
        default=None, repr=False
    )


PURE = Trait("Pure")
TERMINATOR = Trait("Terminator")
ISOLATED = Trait("IsolatedFromAbove")
SYMBOL_TABLE = Trait("SymbolTable")
SYMBOL = Trait("Symbol")
COMMUTATIVE = Trait("Commutative")
CONSTANT_LIKE = Trait("ConstantLike")
SINGLE_BLOCK = Trait("SingleBlock")
OPTIONAL_BODY = Trait("OptionalBody")
"""The first region may be empty (a declaration), although it is one of a single block."""
NO_TERMINATOR = Trait("NoTerminator")
GRAPH_REGION = Trait("GraphRegion")
RECURSIVE_EFFECTS = Trait("RecursiveMemoryEffects")
CSE_OPAQUE = Trait("CseOpaque")
"""Pure, but two of them are never the same value (no CSE)."""
READS = Trait("MemRead")
WRITES = Trait("MemWrite")
ALLOCATES = Trait("MemAlloc")


def _same_type(op: Operation, verifier: Verifier) -> Iterator[Diagnostic]:
    types = {value.type for value in (*op.operands, *op.results)}
    if len(types) > 1:
        found = ", ".join(f"'{value.type}'" for value in (*op.operands, *op.results))
        yield finding(
            "requires the same type for all operands and results",
            f"got {found}; nothing is converted implicitly",
        )


SAME_TYPE = Trait("SameOperandsAndResultType", _same_type)


@attrs.frozen
class OpDef:
    """Everything declared about one operation class."""

    name: str
    operands: tuple[OperandDef, ...] = ()
    results: tuple[ResultDef, ...] = ()
    attributes: tuple[AttributeDef, ...] = ()
    regions: tuple[RegionDef, ...] = ()
    traits: frozenset[Trait] = frozenset()
    assembly: str | None = None
    parents: tuple[str, ...] = ()
    implicit_terminator: Callable[[], Operation] | None = None
    successors: int = 0
    summary: str = ""
    _bounds: dict[tuple[bool, int, tuple[int, ...] | None], tuple[tuple[int, int], ...]] = attrs.field(
        factory=dict, init=False, eq=False, repr=False
    )
    """Cache of `operand_bounds` and `result_bounds`."""

    def has(self, trait: Trait) -> bool:
        """Whether the class has the trait."""
        return trait in self.traits

    @property
    def dialect(self) -> str:
        return self.name.partition(".")[0]

    @cached_property
    def is_plain(self) -> bool:
        """Whether each operand and result is one value, and there are neither regions nor successors."""
        groups: tuple[OperandDef | ResultDef, ...] = (*self.operands, *self.results)
        return all(d.arity is Arity.ONE for d in groups) and not self.regions and not self.successors

    def operand_bounds(self, total: int, segments: Attribute | None) -> tuple[tuple[int, int], ...]:
        """`group_bounds` of the operands."""
        return self._known_bounds(True, total, segments)

    def result_bounds(self, total: int, segments: Attribute | None) -> tuple[tuple[int, int], ...]:
        """`group_bounds` of the results."""
        return self._known_bounds(False, total, segments)

    def _known_bounds(
        self, operands: bool, total: int, segments: Attribute | None
    ) -> tuple[tuple[int, int], ...]:
        key = (operands, total, segments.values if isinstance(segments, DenseArrayAttr) else None)
        found = self._bounds.get(key)
        if found is None:
            found = group_bounds(self.operands if operands else self.results, total, segments)
            if len(self._bounds) < BOUNDS_LIMIT:
                self._bounds[key] = found
        return found

    @cached_property
    def operand_segments(self) -> bool:
        """Whether ``operandSegmentSizes`` tells the operand groups apart."""
        return sum(d.arity is not Arity.ONE for d in self.operands) > 1

    @cached_property
    def result_segments(self) -> bool:
        """Whether ``resultSegmentSizes`` tells the result groups apart."""
        return sum(d.arity is not Arity.ONE for d in self.results) > 1

    @cached_property
    def inherent(self) -> frozenset[str]:
        """Names of inherent attributes (segment sizes included)."""
        names = {d.name for d in self.attributes}
        if self.operand_segments:
            names.add(OPERAND_SEGMENTS)
        if self.result_segments:
            names.add(RESULT_SEGMENTS)
        return frozenset(names)


BOUNDS_LIMIT = 256
"""Combinations of counts that one definition remembers."""

OPERAND_SEGMENTS = "operandSegmentSizes"
RESULT_SEGMENTS = "resultSegmentSizes"


def group_bounds(
    groups: Sequence[OperandDef | ResultDef], total: int, segments: Attribute | None
) -> tuple[tuple[int, int], ...]:
    """Start and end of every declared group among `total` values.

    ValueError when the count fits no assignment (too few values, or wrong segment sizes).
    """
    if isinstance(segments, DenseArrayAttr):
        sizes = list(segments.values)
        if len(sizes) != len(groups) or sum(sizes) != total or any(size < 0 for size in sizes):
            raise ValueError(f"segment sizes {sizes} do not fit {total} values in {len(groups)} groups")
        for size, group in zip(sizes, groups, strict=True):
            if (group.arity is Arity.ONE and size != 1) or (group.arity is Arity.OPTIONAL and size > 1):
                raise ValueError(f"segment size {size} does not fit group '{group.name}'")
    else:
        fixed = sum(group.arity is Arity.ONE for group in groups)
        loose = len(groups) - fixed
        if loose > 1:
            raise ValueError("several variadic groups need segment sizes")
        if total < fixed or (loose == 0 and total != fixed):
            raise ValueError(f"expected {fixed}{' or more' if loose else ''} values, but found {total}")
        rest = total - fixed
        if any(group.arity is Arity.OPTIONAL for group in groups) and rest > 1:
            raise ValueError(f"expected at most {fixed + 1} values, but found {total}")
        sizes = [1 if group.arity is Arity.ONE else rest for group in groups]
    bounds: list[tuple[int, int]] = []
    start = 0
    for size in sizes:
        bounds.append((start, start + size))
        start += size
    return tuple(bounds)


def _operand_group(op: Operation, name: str) -> tuple[Value, ...]:
    definition = op.definition
    segments = op.attributes.get(OPERAND_SEGMENTS) if definition.operand_segments else None
    bounds = definition.operand_bounds(len(op.operands), segments)
    for declared, (start, end) in zip(definition.operands, bounds, strict=True):
        if declared.name == name:
            return op.operands[start:end]
    raise AttributeError(f"{op.name} declares no operand {name}")


def _result_group(op: Operation, name: str) -> tuple[OpResult, ...]:
    definition = op.definition
    segments = op.attributes.get(RESULT_SEGMENTS) if definition.result_segments else None
    bounds = definition.result_bounds(len(op.results), segments)
    for declared, (start, end) in zip(definition.results, bounds, strict=True):
        if declared.name == name:
            return op.results[start:end]
    raise AttributeError(f"{op.name} declares no result {name}")


class _Declared:
    """Base of the descriptors; `label` is the attribute name on the class."""

    label: str = ""
    span: tuple[int, int | None] | None = None
    """Where an operand or result group stands, if that does not depend on segment sizes: the number of values
    in front of it and (from the first group of any number on) the number behind it."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.label = name

    def __set__(self, op: Operation, value: object) -> None:
        raise attrs.exceptions.FrozenInstanceError


V = TypeVar("V", bound=Value)


def _spanned(values: tuple[V, ...], span: tuple[int, int | None]) -> tuple[V, ...]:
    lead, trail = span
    return values[lead : len(values) - (trail or 0)]


def _set_spans(declared: dict[str, _Declared], groups: Sequence[OperandDef | ResultDef], owner: str) -> None:
    """Note where groups stand.  `DeclarationError` if two classes share a descriptor that has two places."""
    if sum(group.arity is not Arity.ONE for group in groups) > 1:
        return
    loose = next((i for i, group in enumerate(groups) if group.arity is not Arity.ONE), len(groups))
    for position, group in enumerate(groups):
        span = (position, None if position < loose else len(groups) - position - 1)
        known = declared[group.name].span
        if known is not None and known != span:
            raise DeclarationError(
                owner, f"declare '{group.name}' again, it stands elsewhere in another class"
            )
        declared[group.name].span = span


class operand(_Declared):
    """One operand: ``op.x`` is a `Value`."""

    def __init__(self, constraint: Constraint = ANY) -> None:
        self.constraint = constraint

    @overload
    def __get__(self, op: None, owner: type) -> Self: ...
    @overload
    def __get__(self, op: Operation, owner: type) -> Value: ...
    def __get__(self, op: Operation | None, owner: type) -> Self | Value:
        if op is None:
            return self
        span = self.span
        if span is None:
            return _operand_group(op, self.label)[0]
        return op.operands[span[0]] if span[1] is None else op.operands[-1 - span[1]]


class optional_operand(_Declared):
    """Zero or one operand: ``op.x`` is a `Value` or None."""

    def __init__(self, constraint: Constraint = ANY) -> None:
        self.constraint = constraint

    @overload
    def __get__(self, op: None, owner: type) -> Self: ...
    @overload
    def __get__(self, op: Operation, owner: type) -> Value | None: ...
    def __get__(self, op: Operation | None, owner: type) -> Self | Value | None:
        if op is None:
            return self
        span = self.span
        group = _operand_group(op, self.label) if span is None else _spanned(op.operands, span)
        return group[0] if group else None


class variadic_operand(_Declared):
    """Any number of operands: ``op.x`` is a tuple of values."""

    def __init__(self, constraint: Constraint = ANY) -> None:
        self.constraint = constraint

    @overload
    def __get__(self, op: None, owner: type) -> Self: ...
    @overload
    def __get__(self, op: Operation, owner: type) -> tuple[Value, ...]: ...
    def __get__(self, op: Operation | None, owner: type) -> Self | tuple[Value, ...]:
        if op is None:
            return self
        return _operand_group(op, self.label) if self.span is None else _spanned(op.operands, self.span)


class result(_Declared):
    """One result: ``op.x`` is an `OpResult`; `hint` suggests its printed name."""

    def __init__(self, constraint: Constraint = ANY, hint: str | None = None) -> None:
        self.constraint = constraint
        self.hint = hint

    @overload
    def __get__(self, op: None, owner: type) -> Self: ...
    @overload
    def __get__(self, op: Operation, owner: type) -> OpResult: ...
    def __get__(self, op: Operation | None, owner: type) -> Self | OpResult:
        if op is None:
            return self
        return op.results[0] if len(op.definition.results) == 1 else _result_group(op, self.label)[0]


class optional_result(_Declared):
    """Zero or one result: ``op.x`` is an `OpResult` or None."""

    def __init__(self, constraint: Constraint = ANY, hint: str | None = None) -> None:
        self.constraint = constraint
        self.hint = hint

    @overload
    def __get__(self, op: None, owner: type) -> Self: ...
    @overload
    def __get__(self, op: Operation, owner: type) -> OpResult | None: ...
    def __get__(self, op: Operation | None, owner: type) -> Self | OpResult | None:
        if op is None:
            return self
        group = _result_group(op, self.label)
        return group[0] if group else None


class variadic_result(_Declared):
    """Any number of results: ``op.x`` is a tuple."""

    def __init__(self, constraint: Constraint = ANY, hint: str | None = None) -> None:
        self.constraint = constraint
        self.hint = hint

    @overload
    def __get__(self, op: None, owner: type) -> Self: ...
    @overload
    def __get__(self, op: Operation, owner: type) -> tuple[OpResult, ...]: ...
    def __get__(self, op: Operation | None, owner: type) -> Self | tuple[OpResult, ...]:
        if op is None:
            return self
        return _result_group(op, self.label) if self.span is None else _spanned(op.results, self.span)


class attribute(_Declared, Generic[A]):
    """A required inherent attribute: ``op.x`` is an `A`.

    `name` is its MLIR name if that differs; `type` is that of a number whose type the text leaves out; `only`
    says which values are allowed.
    """

    def __init__(
        self,
        kind: type[A],
        name: str | None = None,
        description: str | None = None,
        type: Type | None = None,
        only: Restriction | None = None,
    ) -> None:
        self.only = only
        self.kind = kind
        self.attr_name = name
        self.description = description
        self.value_type = type

    @overload
    def __get__(self, op: None, owner: type) -> Self: ...
    @overload
    def __get__(self, op: Operation, owner: type) -> A: ...
    def __get__(self, op: Operation | None, owner: type) -> Self | A:
        if op is None:
            return self
        return cast(A, op.attributes[self.attr_name or self.label])


class optional_attribute(_Declared, Generic[A]):
    """An optional inherent attribute: ``op.x`` is an `A` or None (or `default`)."""

    def __init__(
        self,
        kind: type[A],
        name: str | None = None,
        default: A | None = None,
        description: str | None = None,
        type: Type | None = None,
        only: Restriction | None = None,
    ) -> None:
        self.only = only
        self.kind = kind
        self.attr_name = name
        self.default = default
        self.description = description
        self.value_type = type

    @overload
    def __get__(self, op: None, owner: type) -> Self: ...
    @overload
    def __get__(self, op: Operation, owner: type) -> A | None: ...
    def __get__(self, op: Operation | None, owner: type) -> Self | A | None:
        if op is None:
            return self
        return cast("A | None", op.attributes.get(self.attr_name or self.label, self.default))


class region(_Declared):
    """One region: ``op.x`` is a `Region`."""

    def __init__(self) -> None:
        self.index = 0

    @overload
    def __get__(self, op: None, owner: type) -> Self: ...
    @overload
    def __get__(self, op: Operation, owner: type) -> Region: ...
    def __get__(self, op: Operation | None, owner: type) -> Self | Region:
        return self if op is None else op.regions[self.index]


class variadic_region(_Declared):
    """All remaining regions: ``op.x`` is a tuple; must be declared last."""

    def __init__(self) -> None:
        self.index = 0

    @overload
    def __get__(self, op: None, owner: type) -> Self: ...
    @overload
    def __get__(self, op: Operation, owner: type) -> tuple[Region, ...]: ...
    def __get__(self, op: Operation | None, owner: type) -> Self | tuple[Region, ...]:
        return self if op is None else op.regions[self.index :]


_ARITY = {
    operand: Arity.ONE,
    optional_operand: Arity.OPTIONAL,
    variadic_operand: Arity.VARIADIC,
    result: Arity.ONE,
    optional_result: Arity.OPTIONAL,
    variadic_result: Arity.VARIADIC,
}


def _collect(cls: type[Operation]) -> dict[str, _Declared]:
    """Declared descriptors of the class and its bases, bases first."""
    found: dict[str, _Declared] = {}
    for base in reversed(cls.__mro__):
        for name, item in vars(base).items():
            if isinstance(item, _Declared):
                found.pop(name, None)  # a redeclaration counts where it stands
                found[name] = item
    return found


_NAME = re.compile(r"[A-Za-z_][\w$]*(\.[\w$-]+)+")
_USED = re.compile(r"(type\()?\$(\w+)")


def _mistakes(definition: OpDef) -> Iterator[str]:
    """What is wrong with a declaration, as far as that is cheap to tell; `compile_format` finds the rest."""
    if _NAME.fullmatch(definition.name) is None:
        yield "an operation is named 'dialect.operation'"
    if definition.assembly is None:
        return
    operands, results, attributes, regions = (
        [d.name for d in group]
        for group in (definition.operands, definition.results, definition.attributes, definition.regions)
    )
    values, parts = operands + results, operands + attributes + regions
    used = set(_USED.findall(definition.assembly))
    for prefix, name in sorted(used):
        known = values if prefix else parts
        if name not in known:
            what = "operand or result" if prefix else "operand, attribute or region"
            listed = ", ".join(known) or "none"
            yield f"assembly format names ${name}, but there is no such {what}; known: {listed}"
    for name in operands + regions:
        if ("", name) not in used:
            yield f"assembly format leaves out ${name}"
    if "attr-dict" not in definition.assembly:
        yield "assembly format has no attr-dict"


def operation(
    name: str,
    *,
    assembly: str | None = None,
    traits: tuple[Trait, ...] = (),
    parents: tuple[str, ...] = (),
    implicit_terminator: Callable[[], Operation] | None = None,
    successors: int = 0,
) -> Callable[[type[O]], type[O]]:
    """Declare an operation class; see the module's docstring.  Raises `DeclarationError` for a mistake.

    `parents` restricts the parent operation; `implicit_terminator` makes the operand-less terminator that the
    text may leave out; `successors` is the number of blocks it branches to.
    """

    def decorate(cls: type[O]) -> type[O]:
        declared = _collect(cls)
        operands: list[OperandDef] = []
        results: list[ResultDef] = []
        attributes: list[AttributeDef] = []
        regions: list[RegionDef] = []
        for label, item in declared.items():
            match item:
                case operand() | optional_operand() | variadic_operand():
                    operands.append(OperandDef(label, item.constraint, _ARITY[type(item)]))
                case result() | optional_result() | variadic_result():
                    results.append(ResultDef(label, item.constraint, _ARITY[type(item)], item.hint))
                case attribute():
                    attributes.append(
                        AttributeDef(
                            item.attr_name or label,
                            item.kind,
                            True,
                            None,
                            item.description,
                            item.value_type,
                            item.only,
                        )
                    )
                case optional_attribute():
                    attributes.append(
                        AttributeDef(
                            item.attr_name or label,
                            item.kind,
                            False,
                            item.default,
                            item.description,
                            item.value_type,
                            item.only,
                        )
                    )
                case region() | variadic_region():
                    item.index = len(regions)
                    regions.append(RegionDef(label, isinstance(item, variadic_region)))
        _set_spans(declared, operands, name)
        _set_spans(declared, results, name)
        definition = OpDef(
            name,
            tuple(operands),
            tuple(results),
            tuple(attributes),
            tuple(regions),
            frozenset(traits),
            assembly,
            parents,
            implicit_terminator,
            successors,
            (cls.__doc__ or "").strip().split("\n")[0],
        )
        for message in _mistakes(definition):
            raise DeclarationError(name, message)
        # Most classes add no fields: they inherit everything that attrs makes, and importing stays fast.
        adds_fields = any(
            "ClassVar" not in str(kind) for kind in vars(cls).get("__annotations__", {}).values()
        )
        frozen = attrs.frozen(eq=False, repr=False, slots=True)(cls) if adds_fields else cls
        frozen.definition = definition
        return frozen

    return decorate
