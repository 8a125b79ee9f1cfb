"""The IR: values, operations, blocks and regions, all frozen.

A `Value` is compared by identity and knows nothing of its operation: an operation *holds* its results.
So an operation is replaced by one with other operands, attributes or regions *and the same results*
(`Operation.replace`) without touching any user, and a module shares what a pass did not change with the
module before it.  Who defines and who uses a value is an analysis (`ktir.analysis`), not a field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Self

import attrs

from ktir.attribute import Attribute
from ktir.attributes import EMPTY_DICT, DictAttr, StringAttr
from ktir.errors import Diagnostic
from ktir.location import UNKNOWN, Location
from ktir.types import Type

if TYPE_CHECKING:
    from ktir.opdef import OpDef, Trait
    from ktir.parser import OpParser
    from ktir.printer import Printer
    from ktir.verifier import Verifier


@attrs.frozen(eq=False, repr=False)
class Value:
    """An SSA value: a type and a hint for its printed name (without ``%``)."""

    type: Type
    name: str | None = None

    def __repr__(self) -> str:
        return f"<{self.__class__.__name__} %{self.name or '?'} : {self.type}>"


@attrs.frozen(eq=False, repr=False)
class OpResult(Value):
    """A value that an operation defines."""


@attrs.frozen(eq=False, repr=False)
class BlockArgument(Value):
    """A value that a block receives."""

    location: Location = UNKNOWN


@attrs.frozen(eq=False, repr=False)
class Label:
    """The identity of a block as a branch target; `name` is the hint printed after ``^``."""

    name: str | None = None


@attrs.frozen(eq=False, repr=False)
class Operation:
    """An operation.  Each registered one is a subclass (see `ktir.opdef.operation`).

    `attributes` holds inherent and discardable attributes together; the definition of the class says
    which are inherent.  `create` is the way to make one, `replace` the way to change one.
    """

    operands: tuple[Value, ...] = ()
    results: tuple[OpResult, ...] = ()
    attributes: DictAttr = EMPTY_DICT
    regions: tuple[Region, ...] = ()
    successors: tuple[Label, ...] = ()
    location: Location = UNKNOWN

    definition: ClassVar[OpDef]

    @property
    def name(self) -> str:
        """The full name, such as ``arith.addf``."""
        return self.definition.name

    @classmethod
    def create(
        cls,
        operands: Sequence[Value] = (),
        result_types: Sequence[Type] = (),
        attributes: Mapping[str, Attribute] = EMPTY_DICT,
        regions: Sequence[Region] = (),
        successors: Sequence[Label] = (),
        location: Location = UNKNOWN,
        names: Sequence[str | None] = (),
    ) -> Self:
        """Make an operation with fresh results of `result_types` (hinted `names`)."""
        padded = [*names, *([None] * (len(result_types) - len(names)))][: len(result_types)]
        results = tuple(OpResult(type, name) for type, name in zip(result_types, padded, strict=True))
        entries = attributes if isinstance(attributes, DictAttr) else DictAttr(attributes)
        return cls(tuple(operands), results, entries, tuple(regions), tuple(successors), location)

    def replace(
        self,
        *,
        operands: Sequence[Value] | None = None,
        results: Sequence[OpResult] | None = None,
        attributes: Mapping[str, Attribute | None] | None = None,
        regions: Sequence[Region] | None = None,
        location: Location | None = None,
    ) -> Self:
        """A copy with some parts changed and, unless given, the same results.

        `attributes` are *changes*: entries replace or add, None removes.
        """
        return attrs.evolve(
            self,
            operands=self.operands if operands is None else tuple(operands),
            results=self.results if results is None else tuple(results),
            attributes=self.attributes if attributes is None else self.attributes.updated(attributes),
            regions=self.regions if regions is None else tuple(regions),
            location=self.location if location is None else location,
        )

    def definition_has(self, trait: Trait) -> bool:
        """Whether the operation is known to have a trait (an unregistered one has none)."""
        return not isinstance(self, UnregisteredOp) and trait in self.definition.traits

    def has_custom_form(self) -> bool:
        """Whether the class declares an assembly format or its own `print_custom`."""
        return self.definition.assembly is not None or type(self).print_custom is not Operation.print_custom

    def walk(self) -> Iterator[Operation]:
        """This operation and all nested ones, in pre-order; iterative, so depth is no limit."""
        stack: list[Iterator[Operation]] = [iter((self,))]
        while stack:
            op = next(stack[-1], None)
            if op is None:
                stack.pop()
                continue
            yield op
            if op.regions:
                stack.append(iter([inner for r in op.regions for b in r.blocks for inner in b.operations]))

    # Hooks that an operation class overrides when its declaration does not say enough.

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        """Read the custom form after the name.  Only called when the definition has no `assembly`."""
        raise parser.error(f"operation '{cls.definition.name}' has no custom assembly form")

    def print_custom(self, printer: Printer) -> None:
        """Write the custom form after the name.  Only called when the definition has no `assembly`."""
        raise NotImplementedError(f"{self.name} declares neither an assembly format nor print_custom")

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        """Yield what is wrong beyond the declaration.  A string gets ``'name' op `` put in front."""
        return iter(())

    @classmethod
    def infer_result_types(cls, operands: Sequence[Value], attributes: DictAttr) -> Sequence[Type] | None:
        """The result types when operands and attributes determine them; the text then need not."""
        return None

    def result_names(self) -> Sequence[str | None]:
        """Suggested printed names of the results, such as ``c32`` (ktir spec 0.3.6)."""
        return [declared.hint for declared in self.definition.results]

    def argument_names(self, region: int) -> Sequence[str | None]:
        """Suggested printed names of the entry block's arguments of a region; None: ``argN``."""
        return ()

    def fold(self, operands: Sequence[Attribute | None]) -> Sequence[Attribute | Value] | None:
        """One constant or existing value per result, or None if this does not fold.

        `operands[i]` is the constant value of operand i, None when it is not constant.
        """
        return None

    def __repr__(self) -> str:
        from ktir.printer import operation_text

        return operation_text(self)


@attrs.frozen(eq=False, repr=False)
class Block:
    """A straight line of operations; `label` is its identity for branches."""

    arguments: tuple[BlockArgument, ...] = ()
    operations: tuple[Operation, ...] = ()
    label: Label = attrs.Factory(Label)

    def replace(
        self,
        *,
        arguments: Sequence[BlockArgument] | None = None,
        operations: Sequence[Operation] | None = None,
    ) -> Block:
        """A copy with some parts changed and the same label."""
        return Block(
            self.arguments if arguments is None else tuple(arguments),
            self.operations if operations is None else tuple(operations),
            self.label,
        )

    @property
    def terminator(self) -> Operation:
        """The last operation; IndexError if the block is empty."""
        return self.operations[-1]


@attrs.frozen(eq=False, repr=False)
class Region:
    """A list of blocks; the first is the entry."""

    blocks: tuple[Block, ...] = ()

    @classmethod
    def of(cls, operations: Sequence[Operation], arguments: Sequence[BlockArgument] = ()) -> Region:
        """A region of one block."""
        return cls((Block(tuple(arguments), tuple(operations)),))

    @property
    def block(self) -> Block:
        """The only block; ValueError if there is not exactly one."""
        (block,) = self.blocks
        return block


@attrs.frozen(eq=False, repr=False)
class UnregisteredOp(Operation):
    """An operation of an unknown dialect (or unknown name), kept in generic form.

    `op_name` is its name, `inherent` the names that were written in ``<{...}>``.
    """

    op_name: str = ""
    inherent: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        return self.op_name

    def result_names(self) -> Sequence[str | None]:
        return ()


def symbol_name(op: Operation) -> str | None:
    """The `sym_name` of an operation, if it has one."""
    match op.attributes.get("sym_name"):
        case StringAttr(value=value, type=None):  # `@name` has no place for a type
            return value
        case _:
            return None
