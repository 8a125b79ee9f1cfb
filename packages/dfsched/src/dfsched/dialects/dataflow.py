"""The `dataflow` dialect: units, their programs, communication, memory views (dataflowir spec 1.1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from attrs import frozen

from dfsched.dialects.enums import ROUTING_SPELLING, EnumAttr, RoutingDirection, enum_reader
from ktir.affine import AffineMap
from ktir.attribute import Attribute
from ktir.attributes import (
    AffineMapAttr,
    AffineSetAttr,
    ArrayAttr,
    DictAttr,
    IntegerAttr,
    StringAttr,
)
from ktir.constraints import INDEX, MEMREF, Constraint
from ktir.context import Dialect
from ktir.errors import Diagnostic
from ktir.ir import BlockArgument, Operation, Region, Value
from ktir.opdef import (
    PURE,
    SINGLE_BLOCK,
    TERMINATOR,
    attribute,
    operand,
    operation,
    optional_attribute,
    region,
    result,
    variadic_operand,
    variadic_result,
)
from ktir.types import I1, I32, MemRefType, Type, VectorType
from ktir.types import INDEX as INDEX_TYPE

if TYPE_CHECKING:
    from ktir.parser import AttributeParser, OpParser
    from ktir.printer import Printer
    from ktir.verifier import Verifier

__all__ = [
    "DATAFLOW",
    "VECTOR",
    "CreateGroup",
    "CreateMulticastGroup",
    "CustomType",
    "CustomVectorType",
    "Direction",
    "GetLocalUnit",
    "GetLogicalMemoryView",
    "GetPagedLogicalMemoryView",
    "GetUnit",
    "ImplicitSync",
    "MxFloatType",
    "MxIntType",
    "Opaque",
    "ProgramUnit",
    "Receive",
    "Return",
    "Send",
    "SyncReceive",
    "SyncSend",
]


# -- types and attributes --------------------------------------------------------------------------


@frozen
class MxFloatType(Type):
    """A block-scaled float of `width` bits: ``!dataflow.mxfp<W>`` or ``!dataflow.custom<mxfp4>``."""

    mnemonic: ClassVar[str] = "dataflow.mxfp"
    width: int

    @classmethod
    def parse_parameters(cls, parser: AttributeParser) -> Self:
        return cls(_width(parser))

    def print_parameters(self, printer: Printer) -> None:
        printer.write(f"<{self.width}>")


@frozen
class MxIntType(Type):
    """A block-scaled integer of `width` bits."""

    mnemonic: ClassVar[str] = "dataflow.mxint"
    width: int

    @classmethod
    def parse_parameters(cls, parser: AttributeParser) -> Self:
        return cls(_width(parser))

    def print_parameters(self, printer: Printer) -> None:
        printer.write(f"<{self.width}>")


def _width(parser: AttributeParser) -> int:
    parser.expect("<")
    width = parser.parse_integer()
    parser.expect(">")
    return width


@frozen
class CustomType(Type):
    """``!dataflow.custom<mxfp4>``, ``mxfp8`` or ``mxint4``: the widths that have a name of their own."""

    mnemonic: ClassVar[str] = "dataflow.custom"
    name: str

    @classmethod
    def parse_parameters(cls, parser: AttributeParser) -> Self:
        parser.expect("<")
        offset = parser.offset
        name = parser.keyword("'mxfp4', 'mxfp8' or 'mxint4'")
        if name not in _CUSTOM_NAMES:
            raise parser.error_at(offset, f"expected 'mxfp4', 'mxfp8' or 'mxint4' but got '{name}'")
        parser.expect(">")
        return cls(name)

    def print_parameters(self, printer: Printer) -> None:
        printer.write(f"<{self.name}>")


_CUSTOM_NAMES = ("mxfp4", "mxfp8", "mxint4")


class _MxFloatReader(MxFloatType):
    @classmethod
    def parse_parameters(cls, parser: AttributeParser) -> Any:
        width = _width(parser)
        return CustomType(f"mxfp{width}") if f"mxfp{width}" in _CUSTOM_NAMES else MxFloatType(width)


class _MxIntReader(MxIntType):
    @classmethod
    def parse_parameters(cls, parser: AttributeParser) -> Any:
        width = _width(parser)
        return CustomType(f"mxint{width}") if f"mxint{width}" in _CUSTOM_NAMES else MxIntType(width)


@frozen
class CustomVectorType(Type):
    """``!dataflow.custom_vector<N x T>``: `lanes` elements that need be no legal vector element."""

    mnemonic: ClassVar[str] = "dataflow.custom_vector"
    lanes: int
    element: Type

    @classmethod
    def parse_parameters(cls, parser: AttributeParser) -> Self:
        parser.expect("<")
        (lanes,) = parser.parse_dimension_list()
        if lanes is None:
            raise parser.error("expected a number of lanes")
        element = parser.parse_type()
        parser.expect(">")
        return cls(lanes, element)

    def print_parameters(self, printer: Printer) -> None:
        printer.write(f"<{self.lanes}x")
        printer.type(self.element)
        printer.write(">")


VECTOR = Constraint("vector of any type values", lambda type: isinstance(type, VectorType | CustomVectorType))


@frozen
class Direction(EnumAttr):
    """``#dataflow<direction Clockwise>``."""

    mnemonic: ClassVar[str] = "dataflow"
    keyword: ClassVar[str] = "direction"
    spelling = ROUTING_SPELLING
    value: RoutingDirection


# -- units -----------------------------------------------------------------------------------------


@operation("dataflow.get_unit", assembly="attr-dict `:` type($handles)", traits=(PURE,))
class GetUnit(Operation):
    """A handle of the unit `unit_name` of kind `kind`, or of a memory."""

    unit_name = attribute(StringAttr, name="name")
    kind = attribute(StringAttr, name="type")
    handles = variadic_result(INDEX)

    @classmethod
    def of(cls, name: str, kind: str, core: int | None = None, corelet: int | None = None) -> Self:
        """A handle for one unit or memory; `core` and `corelet` where it has them."""
        entries: dict[str, Attribute] = {"name": StringAttr(name), "type": StringAttr(kind)}
        if core is not None:
            entries["core"] = IntegerAttr(core, I32)
        if corelet is not None:
            entries["corelet"] = IntegerAttr(corelet, I32)
        return cls.create((), (INDEX_TYPE,), entries)

    @property
    def core(self) -> int | None:
        return _integer(self.attributes.get("core"))

    @property
    def corelet(self) -> int:
        """The corelet, -1 if the unit has none."""
        found = _integer(self.attributes.get("corelet"))
        return -1 if found is None else found

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        if not self.results:
            yield "expected at least one result"


def _integer(found: Attribute | None) -> int | None:
    return found.value if isinstance(found, IntegerAttr) else None


@operation("dataflow.get_local_unit", assembly="$unit attr-dict `:` type($handle)", traits=(PURE,))
class GetLocalUnit(Operation):
    """A handle of the part called `part` of a unit."""

    unit = operand(INDEX)
    handle = result(INDEX)
    part = attribute(StringAttr, name="name")


@operation("dataflow.return", traits=(TERMINATOR,))
class Return(Operation):
    """End of a program unit; the custom form leaves it out."""


def _return() -> Operation:
    return Return.create()


@operation("dataflow.program_unit", traits=(SINGLE_BLOCK,), implicit_terminator=_return)
class ProgramUnit(Operation):
    """The program of every listed unit; each unit runs its own instance.

    With a block argument (the ``iter_arg`` form) the body sees the handle of the executing unit.
    """

    units = variadic_operand(INDEX)
    precision = optional_attribute(StringAttr)
    body = region()

    @classmethod
    def of(
        cls, units: Sequence[Value], argument: BlockArgument | None, operations: Sequence[Operation]
    ) -> Self:
        """A program unit whose body ends in ``dataflow.return`` (added here)."""
        arguments = () if argument is None else (argument,)
        return cls.create(units, regions=(Region.of((*operations, Return.create()), arguments),))

    @property
    def iter_arg(self) -> Value | None:
        """The handle of the executing unit, None in the bare form."""
        arguments = self.body.block.arguments
        return arguments[0] if arguments else None

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        arguments: list[tuple[str | None, Type, Any]] = []
        if parser.accept("iter_arg"):
            parser.expect(":", "behind 'iter_arg'")
            argument = parser.parse_operand()
            arguments.append((argument.name, INDEX_TYPE, parser.location_at(argument.offset)))
            parser.expect("->", "behind the block argument")
            uses = parser.parse_comma_list("(", ")", parser.parse_operand)
        else:
            uses = parser.parse_operand_list()
        units = [parser.resolve(use, INDEX_TYPE) for use in uses]
        attributes = parser.parse_attr_dict()
        parser.expect(":", "in front of the body")
        body = parser.parse_region(arguments)
        return cls.create(units, (), attributes, (body,), location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        argument = self.iter_arg
        printer.write(" ")
        if argument is not None:
            printer.write("iter_arg : ")
            printer.operand(argument)
            printer.write(" -> (")
        printer.operands(self.units)
        if argument is not None:
            printer.write(")")
        printer.attr_dict(self.attributes)
        printer.write(" : ")
        last = self.body.block.operations[-1:]
        keep = bool(last) and (not isinstance(last[0], Return) or bool(last[0].attributes))
        printer.region(self.body, print_entry_arguments=False, print_terminator=keep, owner=self.name)


# -- groups ----------------------------------------------------------------------------------------


@operation("dataflow.create_group", traits=(PURE,))
class CreateGroup(Operation):
    """A handle that stands for several units."""

    units = variadic_operand()
    group = result(INDEX)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        parser.expect("(", "behind 'dataflow.create_group'")
        uses = parser.parse_operand_list()
        types: list[Type] = []
        if uses:
            parser.expect(":", "behind the units")
            types = parser.parse_type_list()
        parser.expect(")", "behind the units")
        attributes = parser.parse_attr_dict()
        parser.expect(":", "in front of the result type")
        return cls.create(
            parser.resolve_all(uses, types), (parser.parse_type(),), attributes, location=parser.location
        )

    def print_custom(self, printer: Printer) -> None:
        printer.write("(")
        if self.units:
            printer.operands(self.units)
            printer.write(" : ")
            printer.types([unit.type for unit in self.units])
        printer.write(")")
        printer.attr_dict(self.attributes)
        printer.write(" : ")
        printer.type(self.group.type)


@operation("dataflow.create_multicast_group")
class CreateMulticastGroup(Operation):
    """A producer with its consumers; `count` requests are outstanding at the start."""

    producer = operand(INDEX)
    consumers = variadic_operand(INDEX)
    group = result(INDEX)
    num_consumers = attribute(IntegerAttr)
    group_id = attribute(IntegerAttr)
    count = attribute(IntegerAttr)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        parser.expect("(", "behind 'dataflow.create_multicast_group'")
        uses = [parser.parse_operand()]
        parser.expect("->", "behind the producer")
        uses += parser.parse_comma_list("(", ")", parser.parse_operand)
        parser.expect(")", "behind the consumers")
        attributes = parser.parse_attr_dict()
        parser.expect(":", "in front of the result type")
        parser.parse_type()
        units = [parser.resolve(use, INDEX_TYPE) for use in uses]
        return cls.create(units, (INDEX_TYPE,), attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write("(")
        printer.operand(self.producer)
        printer.write(" -> (")
        printer.operands(self.consumers)
        printer.write("))")
        printer.attr_dict(self.attributes)
        printer.write(" : index")

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        if self.consumers and len(self.consumers) != self.num_consumers.value:
            yield "expected 'num_consumers' consumers"


# -- synchronisation -------------------------------------------------------------------------------


@operation("dataflow.sync_send", assembly="$unit attr-dict `:` type($unit)")
class SyncSend(Operation):
    """Signals a unit; waits for nobody but (if asked to) the own transfers."""

    unit = operand(INDEX)
    wait_immediately_for_async_transfers = optional_attribute(IntegerAttr)
    dbg_name = optional_attribute(StringAttr, name="dbgName")

    @property
    def waits(self) -> bool:
        """Whether the own asynchronous transfers complete first."""
        flag = self.wait_immediately_for_async_transfers
        return flag is not None and bool(flag.value)

    @classmethod
    def of(cls, unit: Value, waits: bool = True) -> Self:
        entries = {"wait_immediately_for_async_transfers": IntegerAttr(1, I1)} if waits else {}
        return cls.create((unit,), attributes=entries)


@operation("dataflow.sync_recv", assembly="$unit attr-dict `:` type($unit)")
class SyncReceive(Operation):
    """Waits for one signal from a unit and consumes it."""

    unit = operand(INDEX)
    dbg_name = optional_attribute(StringAttr, name="dbgName")


@operation(
    "dataflow.implicit_sync_on_streaming_buffer",
    assembly="$buffer `,` $unit `,` $size attr-dict `:` type($buffer) `,` type($unit) `,` type($size)",
)
class ImplicitSync(Operation):
    """Synchronise with a unit at each boundary of a streaming buffer of `size` elements."""

    buffer = operand(MEMREF)
    unit = operand(INDEX)
    size = operand(INDEX)
    dbg_name = optional_attribute(StringAttr, name="dbgName")


# -- memory views ----------------------------------------------------------------------------------


@operation(
    "dataflow.get_logical_memory_view",
    assembly="$memory `,` $start attr-dict `:` type($memory) `,` type($start) `,` type($view)",
    traits=(PURE,),
)
class GetLogicalMemoryView(Operation):
    """A memref over a memory: index vector i names location ``start + layout_map(i)``."""

    memory = operand(INDEX)
    start = operand(INDEX)
    view = result(MEMREF)
    layout_map = attribute(AffineMapAttr)

    @classmethod
    def of(cls, memory: Value, start: Value, layout: AffineMap, type: MemRefType) -> Self:
        return cls.create((memory, start), (type,), {"layout_map": AffineMapAttr(layout)})

    @property
    def view_type(self) -> MemRefType:
        assert isinstance(self.view.type, MemRefType)
        return self.view.type

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        layout = self.layout_map.map
        if layout.num_dims != self.view_type.rank or layout.num_results != 1:
            yield "layout_map must have one result and one dimension for each of the view's"


@operation("dataflow.get_paged_logical_memory_view", traits=(PURE,))
class GetPagedLogicalMemoryView(Operation):
    """A memory view whose index vectors in page set k are addressed relative to page k's start."""

    memory = operand(INDEX)
    start = operand(INDEX)
    page_starts = variadic_operand(INDEX)
    view = result(MEMREF)
    layout_map = attribute(AffineMapAttr)
    idx_sets = attribute(ArrayAttr)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        uses = [parser.parse_operand()]
        parser.expect(",", "behind the memory")
        uses.append(parser.parse_operand())
        attributes: dict[str, Attribute] = parser.parse_attr_dict() if not _at_segments(parser) else {}
        sets: list[Attribute] = []
        parser.expect("{", "in front of the segments")
        parser.expect("segments", "in front of the pages")
        parser.expect("=", "behind 'segments'")

        def page() -> None:
            parser.expect(f"page{len(sets)}", "in order")
            for word in (":", "(", "idx_set", "="):
                parser.expect(word, "in a page")
            sets.append(parser.parse_attribute())
            for word in (",", "start_addr", "="):
                parser.expect(word, "in a page")
            uses.append(parser.parse_operand())
            parser.expect(")", "behind a page")

        parser.parse_comma_list(None, None, page)
        parser.expect("}", "behind the segments")
        parser.expect(":", "in front of the types")
        types = parser.parse_type_list()
        if len(types) != 3:
            raise parser.error("expected the types of memory, start and view")
        attributes["idx_sets"] = ArrayAttr(tuple(sets))
        values = [parser.resolve(use, INDEX_TYPE) for use in uses]
        return cls.create(values, (types[2],), attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.operands((self.memory, self.start))
        printer.attr_dict(self.attributes, elided=("idx_sets",))
        printer.newline()
        printer.write("  {segments = ")
        for number, (pages, start) in enumerate(zip(self.idx_sets, self.page_starts, strict=True)):
            if number:
                printer.write(",")
            printer.newline()
            printer.write(f"    page{number}: (idx_set = ")
            printer.attribute(pages)
            printer.write(", start_addr = ")
            printer.operand(start)
            printer.write(")")
        printer.write("} : ")
        printer.types([self.memory.type, self.start.type, self.view.type])

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        from ktir.dialects.arith import Constant

        if len(self.idx_sets) != len(self.page_starts):
            yield "there should be a start address and idx_set for every page"
        if any(not isinstance(verifier.definer(start), Constant) for start in self.page_starts):
            yield "page start addresses should be arith::ConstantOp"
        for pages in self.idx_sets:
            if not isinstance(pages, AffineSetAttr):
                yield "idx_sets should be IntegerSetAttrs"
            elif not pages.set.is_rectangular():
                yield "idx_set should be hyper rectangular"


def _at_segments(parser: OpParser) -> bool:
    return parser.at("{") and parser.cursor.peek().text == "segments"


# -- data ------------------------------------------------------------------------------------------


@operation("dataflow.send", assembly="$unit `,` $data attr-dict `:` type($data)")
class Send(Operation):
    """Push a vector into the FIFO from the executing unit to `unit`."""

    unit = operand(INDEX)
    data = operand(VECTOR)
    direction = optional_attribute(Direction, name="dir")
    dbg_name = optional_attribute(StringAttr, name="dbgName")


@operation("dataflow.receive", assembly="$unit attr-dict `:` type($data)")
class Receive(Operation):
    """Pop the FIFO from `unit` to the executing unit."""

    unit = operand(INDEX)
    data = result(VECTOR)
    dbg_name = optional_attribute(StringAttr, name="dbgName")


@operation("dataflow.opaque", assembly="attr-dict")
class Opaque(Operation):
    """A named operation on registers; the general compute instruction.

    Ours: ``in0``, ``in1``, … of the read-only dictionary and ``out0``, … of the read-write dictionary are
    byte offsets in the register memory that the parameter ``memory`` names; the parameters of the same
    names are the operands' vector types; all other parameters are attributes of the operation.
    """

    func_name = attribute(StringAttr)
    read_write_register_dictionary = attribute(DictAttr)
    read_only_register_dictionary = attribute(DictAttr)
    parameter_dictionary = attribute(DictAttr)
    dbg_name = optional_attribute(StringAttr, name="dbgName")


DATAFLOW = Dialect(
    "dataflow",
    operations=(
        GetUnit,
        GetLocalUnit,
        ProgramUnit,
        Return,
        CreateGroup,
        CreateMulticastGroup,
        SyncSend,
        SyncReceive,
        ImplicitSync,
        GetLogicalMemoryView,
        GetPagedLogicalMemoryView,
        Send,
        Receive,
        Opaque,
    ),
    attributes=(enum_reader("dataflow", Direction),),
    types=(CustomType, CustomVectorType, _MxFloatReader, _MxIntReader),
)
