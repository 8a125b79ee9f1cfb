"""The `ktdf_arch` dialect: devices as graphs of memories, execution units, switches and links.

Grammar and rules are those of device spec section 1 (rules V1 to V30 by number). Inside the body of a
device or group the prefix `ktdf_arch.` may be left out. Printing writes ``%`` names that follow the kinds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dfsched.dialects.ktdf_arch.properties import (
    RESERVED_PREFIX,
    Role,
    connectivity_findings,
    kind_findings,
    property_findings,
)
from dfsched.dialects.ktdf_arch.types import (
    EXEC_UNIT,
    MEMORY,
    PORT,
    ExecUnitType,
    MapAttr,
    MemoryType,
    PortType,
)
from ktir.attribute import Attribute
from ktir.attributes import ArrayAttr, DenseElementsAttr, DictAttr, IntegerAttr, StringAttr
from ktir.constraints import instance_of
from ktir.context import Dialect
from ktir.errors import Diagnostic
from ktir.ir import Operation, Region, UnregisteredOp
from ktir.opdef import (
    ISOLATED,
    NO_TERMINATOR,
    OPTIONAL_BODY,
    SINGLE_BLOCK,
    SYMBOL,
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
from ktir.types import Type

if TYPE_CHECKING:
    from ktir.parser import OpParser
    from ktir.parser.operations import Unresolved
    from ktir.printer import Printer
    from ktir.verifier import Verifier

__all__ = [
    "KTDF_ARCH",
    "DatapathOp",
    "DeviceOp",
    "ExecUnitOp",
    "GroupOp",
    "MapAttr",
    "MemoryOp",
    "PatternsOp",
    "SwitchOp",
    "YieldOp",
]

ENDPOINT = instance_of("memory, exec_unit or port", MemoryType, ExecUnitType, PortType)
IS_MEMORY = instance_of("memory", MemoryType)
IS_UNIT = instance_of("exec_unit", ExecUnitType)
IS_PORT = instance_of("port", PortType)

_SHORT: dict[str, Type] = {"memory": MEMORY, "exec_unit": EXEC_UNIT, "port": PORT}


def _short_type(parser: OpParser) -> Type:
    for name, type in _SHORT.items():
        if parser.accept(name):
            return type
    start = parser.offset
    type = parser.parse_type()
    if type not in _SHORT.values():
        raise parser.error_at(start, f"expected memory, exec_unit or port, but found '{type}'")
    return type


def _print_short(printer: Printer, type: Type) -> None:
    printer.write(type.mnemonic.removeprefix(RESERVED_PREFIX))


def _id_and_attributes(parser: OpParser) -> dict[str, Attribute]:
    """``[@id] [dict | #alias]``."""
    symbol = parser.parse_optional_symbol_name()
    attributes = _attributes(parser)
    if symbol is not None:
        if "id" in attributes:
            raise parser.error("the id is written twice: as @name and as attribute 'id'")
        attributes["id"] = StringAttr(symbol)
    return attributes


def _attributes(parser: OpParser) -> dict[str, Attribute]:
    if parser.at("{"):
        return parser.parse_attr_dict()
    start = parser.offset
    alias = parser.parse_optional_attribute()
    if alias is None:
        return {}
    if not isinstance(alias, DictAttr):
        raise parser.error_at(start, f"expected a dictionary attribute, but found '{alias}'")
    return dict(alias)


def _print_id(printer: Printer, op: Operation) -> None:
    match op.attributes.get("id"):
        case StringAttr(value=name):
            printer.write(" ")
            printer.symbol_name(name)


@operation("ktdf_arch.device", traits=(ISOLATED, SYMBOL, SINGLE_BLOCK, OPTIONAL_BODY, NO_TERMINATOR))
class DeviceOp(Operation):
    """A device: defined by a body, or declared and imported from a file."""

    sym_name = attribute(StringAttr)
    import_path = optional_attribute(StringAttr)
    version = optional_attribute(IntegerAttr)
    body = region()

    @property
    def symbol(self) -> str:
        """The device's name without ``@``."""
        return self.sym_name.value

    @property
    def is_import(self) -> bool:
        return self.import_path is not None

    @property
    def operations(self) -> tuple[Operation, ...]:
        """What stands directly in the body; empty for an import."""
        return tuple(op for block in self.body.blocks for op in block.operations)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> DeviceOp:
        name = parser.parse_symbol_name()
        attributes = parser.parse_attr_dict_with_keyword()
        for given in ("sym_name", "import_path"):
            if given in attributes:
                raise parser.error(f"attribute '{given}' belongs to the device's own syntax")
        attributes["sym_name"] = StringAttr(name)
        body = Region()
        if parser.accept("import"):
            parser.expect("(", "behind 'import'")
            attributes["import_path"] = StringAttr(parser.parse_string())
            parser.expect(")", "behind the import path")
        else:
            body = parser.parse_region(default_dialect="ktdf_arch")
            if not any(block.operations for block in body.blocks):
                body = Region()
        return cls.create(attributes=attributes, regions=(body,), location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.symbol_name(self.symbol)
        printer.attr_dict(self.attributes, elided=("sym_name", "import_path"), keyword=True)
        if self.import_path is not None:
            printer.write(" import(")
            printer.attribute(self.import_path)
            printer.write(")")
            return
        printer.write(" ")
        from dfsched.dialects.ktdf_arch.structure import value_names

        for value, name in value_names(self).items():
            printer.rename(value, name)
        printer.region(self.body, owner=self.name)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        from dfsched.dialects.ktdf_arch.structure import device_findings

        yield from device_findings(self)
        if next(op for op in verifier.module.walk() if isinstance(op, DeviceOp)) is self:
            yield from _foreign_findings(verifier.module)
        yield from property_findings(self.attributes, Role.DEVICE)


@operation("ktdf_arch.memory")
class MemoryOp(Operation):
    """A place for data."""

    id = optional_attribute(Attribute)
    kind = optional_attribute(Attribute)
    size = optional_attribute(Attribute)
    endpoint = result(IS_MEMORY)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> MemoryOp:
        attributes = _id_and_attributes(parser)
        return cls.create((), (MEMORY,), attributes, location=parser.location, names=parser.result_names)

    def print_custom(self, printer: Printer) -> None:
        _print_id(printer, self)
        printer.attr_dict(self.attributes, elided=("id",))

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        yield from _resource_findings(self, Role.MEMORY, verifier)


@operation("ktdf_arch.exec_unit")
class ExecUnitOp(Operation):
    """A unit that computes and/or moves data."""

    id = optional_attribute(Attribute)
    kind = optional_attribute(Attribute)
    endpoint = result(IS_UNIT)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> ExecUnitOp:
        attributes = _id_and_attributes(parser)
        return cls.create((), (EXEC_UNIT,), attributes, location=parser.location, names=parser.result_names)

    def print_custom(self, printer: Printer) -> None:
        _print_id(printer, self)
        printer.attr_dict(self.attributes, elided=("id",))

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        yield from _resource_findings(self, Role.UNIT, verifier)


@operation("ktdf_arch.switch")
class SwitchOp(Operation):
    """N ports and the matrix of which port's data may leave by which."""

    kind = optional_attribute(Attribute)
    connectivity = optional_attribute(Attribute)
    ports = variadic_result(IS_PORT)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> SwitchOp:
        parser.expect("[", "in front of the number of ports")
        start = parser.offset
        count = parser.parse_integer()
        if not 0 <= count <= 4096:
            raise parser.error_at(start, f"a switch has 0 to 4096 ports, not {count}")
        parser.expect("]", "behind the number of ports")
        attributes = _attributes(parser)
        names = parser.result_names
        return cls.create((), (PORT,) * count, attributes, location=parser.location, names=names)

    def print_custom(self, printer: Printer) -> None:
        printer.write(f" [{len(self.results)}]")
        elided = ("connectivity",) if _all_ones(self.attributes.get("connectivity")) else ()
        printer.attr_dict(self.attributes, elided=elided)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        yield from connectivity_findings(self.connectivity, len(self.results))
        yield from _resource_findings(self, Role.SWITCH, verifier)


def _all_ones(connectivity: Attribute | None) -> bool:
    match connectivity:
        case None:
            return True
        case DenseElementsAttr(data=data):
            return all(data)
        case _:
            return False


@operation("ktdf_arch.yield", traits=(TERMINATOR,))
class YieldOp(Operation):
    """Releases execution units of a group to the enclosing scope."""

    units = variadic_operand(IS_UNIT)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> YieldOp:
        uses = parser.parse_operand_list()
        units = [parser.resolve(use, EXEC_UNIT) for use in uses]
        return cls.create(units, (), parser.parse_attr_dict(), location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        if self.operands:
            printer.write(" ")
            printer.operands(self.operands)
        printer.attr_dict(self.attributes)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        parent = verifier.parent(self)
        if not isinstance(parent, GroupOp):
            yield "expects parent op 'ktdf_arch.group'"  # V12
        yield from property_findings(self.attributes, Role.YIELD)


@operation("ktdf_arch.group", traits=(ISOLATED, SINGLE_BLOCK), implicit_terminator=lambda: YieldOp.create())
class GroupOp(Operation):
    """A private sub-graph: captures memories, releases execution units."""

    id = optional_attribute(Attribute)
    kind = optional_attribute(Attribute)
    captures = variadic_operand(IS_MEMORY)
    units = variadic_result(IS_UNIT)
    body = region()

    @property
    def operations(self) -> tuple[Operation, ...]:
        """What stands in the body, the terminator left out."""
        inside = tuple(op for block in self.body.blocks for op in block.operations)
        return inside[:-1] if inside and isinstance(inside[-1], YieldOp) else inside

    @property
    def released(self) -> YieldOp | None:
        """The terminator."""
        for block in self.body.blocks:
            if block.operations and isinstance(block.operations[-1], YieldOp):
                return block.operations[-1]
        return None

    @classmethod
    def parse_custom(cls, parser: OpParser) -> GroupOp:
        attributes = _id_and_attributes(parser)
        parser.expect("share", "of the captured memories")
        uses: list[Unresolved] = parser.parse_comma_list("(", ")", parser.parse_operand)
        for use in uses:
            if use.number is not None:
                raise parser.error_at(use.offset, "a captured value is named without '#'")
        captures = [parser.resolve(use, MEMORY) for use in uses]
        arguments = [(use.name, MEMORY, parser.location_at(use.offset)) for use in uses]
        body = parser.parse_region(arguments, default_dialect="ktdf_arch")
        types: list[Type] = []
        if parser.accept("->"):
            types = parser.parse_comma_list(None, None, lambda: _short_type(parser))
            for type in types:
                if type != EXEC_UNIT:
                    raise parser.error("a group releases execution units only")
        names = parser.result_names
        return cls.create(captures, types, attributes, (body,), location=parser.location, names=names)

    def print_custom(self, printer: Printer) -> None:
        _print_id(printer, self)
        printer.attr_dict(self.attributes, elided=("id",))
        printer.write(" share(")
        printer.operands(self.captures)
        printer.write(") ")
        released = self.released
        explicit = released is not None and bool(released.operands or released.attributes)
        printer.region(self.body, print_entry_arguments=False, print_terminator=explicit, owner=self.name)
        if self.results:
            printer.write(" -> ")
            for number, _ in enumerate(self.results):
                if number:
                    printer.write(", ")
                _print_short(printer, EXEC_UNIT)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        yield from _resource_findings(self, Role.GROUP, verifier)
        released = self.released
        count = 0 if released is None else len(released.operands)
        if count != len(self.results):  # V12
            yield (
                f"along control flow edge from Operation ktdf_arch.yield to parent: region branch point has "
                f"{count} operands, but region successor needs {len(self.results)} inputs"
            )
        arguments = tuple(v for block in self.body.blocks for v in block.arguments)
        if len(arguments) != len(self.captures):  # V11
            yield f"captures {len(self.captures)} memories, but its body has {len(arguments)} arguments"
        for number, argument in enumerate(arguments):
            if argument.type != MEMORY:
                yield f"body argument #{number} must be memory, but got '{argument.type}'"


@operation("ktdf_arch.datapath")
class DatapathOp(Operation):
    """A one-way link from one endpoint to another."""

    id = optional_attribute(Attribute)
    kind = optional_attribute(Attribute)
    source = operand(ENDPOINT)
    target = operand(ENDPOINT)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> DatapathOp:
        attributes = _id_and_attributes(parser)
        source = parser.parse_operand()
        parser.expect("to", "between the ends of a datapath")
        target = parser.parse_operand()
        parser.expect(":", "in front of the types of the ends")
        first = _short_type(parser)
        parser.expect(",", "between the types of the ends")
        second = _short_type(parser)
        operands = (parser.resolve(source, first), parser.resolve(target, second))
        return cls.create(operands, (), attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        _print_id(printer, self)
        printer.attr_dict(self.attributes, elided=("id",))
        printer.write(" ")
        printer.operand(self.source)
        printer.write(" to ")
        printer.operand(self.target)
        printer.write(" : ")
        _print_short(printer, self.source.type)
        printer.write(", ")
        _print_short(printer, self.target.type)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        yield from _resource_findings(self, Role.LINK, verifier)


@operation("ktdf_arch.patterns", traits=(ISOLATED, SINGLE_BLOCK, NO_TERMINATOR))
class PatternsOp(Operation):
    """Rewrite patterns of the device, for the checkpoints named in `groups` (none: for all)."""

    groups = optional_attribute(ArrayAttr)
    body = region()

    @property
    def checkpoints(self) -> tuple[str, ...]:
        """Names of the groups; empty means every checkpoint."""
        return tuple(a.value for a in self.groups or () if isinstance(a, StringAttr))

    @property
    def operations(self) -> tuple[Operation, ...]:
        return tuple(op for block in self.body.blocks for op in block.operations)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> PatternsOp:
        names: list[str] = parser.parse_comma_list("[", "]", parser.parse_string) if parser.at("[") else []
        attributes = parser.parse_attr_dict_with_keyword()
        if names:
            attributes["groups"] = ArrayAttr(tuple(map(StringAttr, names)))
        body = parser.parse_region(default_dialect="ktdf_arch")
        return cls.create(attributes=attributes, regions=(body,), location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        if self.checkpoints:
            printer.write(" ")
            printer.attribute(ArrayAttr(tuple(map(StringAttr, self.checkpoints))))
        printer.attr_dict(self.attributes, elided=("groups",), keyword=True)
        printer.write(" ")
        printer.region(self.body, owner=self.name)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        if not isinstance(verifier.parent(self), DeviceOp):
            yield "expects parent op 'ktdf_arch.device'"  # V16
        for name in self.groups or ():
            if not isinstance(name, StringAttr):
                yield "attribute 'groups' failed to satisfy constraint: string array attribute"
        for op in self.operations:
            if op.name != "pdl.pattern":
                yield f"expects child ops to be 'pdl.pattern', but found '{op.name}'"  # V16
        yield from property_findings(self.attributes, Role.PATTERNS)


def _foreign_findings(module: Operation) -> Iterator[Diagnostic]:
    """The reserved attributes on all operations of other dialects; reported once, with the first device."""
    for op in module.walk():
        if isinstance(op, UnregisteredOp) or op.definition.dialect != "ktdf_arch":
            for finding in property_findings(op.attributes, Role.FOREIGN):
                if isinstance(finding, str):
                    yield Diagnostic(f"'{op.name}' op {finding}", op.location)
                else:
                    yield Diagnostic(finding.message, op.location, finding.severity, finding.notes)


def _resource_findings(op: Operation, role: Role, verifier: Verifier) -> Iterator[str | Diagnostic]:
    parent = verifier.parent(op)
    if not isinstance(parent, DeviceOp | GroupOp):
        yield "expects parent op to be 'ktdf_arch.device' or a resource"  # V7
    yield from kind_findings(op.attributes, role)
    yield from property_findings(op.attributes, role)


KTDF_ARCH = Dialect(
    "ktdf_arch",
    operations=(
        DeviceOp,
        MemoryOp,
        ExecUnitOp,
        SwitchOp,
        GroupOp,
        YieldOp,
        DatapathOp,
        PatternsOp,
    ),
    attributes=(MapAttr,),
    types=(MemoryType, ExecUnitType, PortType),
)
