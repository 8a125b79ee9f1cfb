"""Writing MLIR text: custom and generic form, aliases for affine maps and sets (ktir spec 0.3.6)."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

from ktir.affine import AffineMap
from ktir.affine.expr import Dim, Sym, format_expr
from ktir.attribute import Attribute
from ktir.attributes import (
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
    UnitAttr,
    bits_to_float,
    float_to_bits,
)
from ktir.decimal_text import exact_text, scientific_text
from ktir.errors import UnsupportedError
from ktir.ir import Block, BlockArgument, Label, Operation, Region, UnregisteredOp, Value
from ktir.lexer import MAX_NESTING
from ktir.location import CallSiteLoc, FileLineColLoc, FileRangeLoc, FusedLoc, Location, NameLoc, UnknownLoc
from ktir.naming import Names
from ktir.types import (
    F64,
    I1,
    I64,
    FloatType,
    FunctionType,
    IndexType,
    IntegerType,
    MemRefType,
    NoneType,
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
from ktir.verifier import well_formed

K = TypeVar("K", AffineMapAttr, AffineSetAttr)

HEX_ELEMENTS_LIMIT = 100
"""Dense constants with more elements than this print as a hexadecimal blob."""

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*\Z")
_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*\Z")


class Printer:
    """A text under construction.  An operation class's `print_custom` is called with one of these.

    `write` adds text as it is; blanks are the caller's.
    """

    def __init__(
        self,
        names: Names | None = None,
        *,
        generic: bool = False,
        locations: bool = False,
        aliases: bool = True,
    ) -> None:
        self._parts: list[str] = []
        self._names = names
        self._generic = generic
        self._locations = locations
        self._use_aliases = aliases
        self._indent = 0
        self._maps: dict[AffineMapAttr, str] = {}
        self._sets: dict[AffineSetAttr, str] = {}
        self._function_depth: list[str] = []

    # -- text

    def write(self, text: str) -> None:
        """Append text."""
        self._parts.append(text)

    def newline(self) -> None:
        """Start a new line at the current indentation."""
        self._parts.append("\n" + "  " * self._indent)

    def text(self) -> str:
        """What has been written, without alias definitions."""
        return "".join(self._parts)

    def alias_definitions(self) -> str:
        """One line for each alias in use; maps first."""
        lines = [f"{name} = affine_map<{attr.map}>\n" for attr, name in self._maps.items()]
        lines += [f"{name} = affine_set<{attr.set}>\n" for attr, name in self._sets.items()]
        return "".join(lines)

    # -- values

    def operand(self, value: Value) -> None:
        """``%x``."""
        self.write(self._names.value(value) if self._names is not None else f"%{value.name or '?'}")

    def operands(self, values: Sequence[Value]) -> None:
        """``%x, %y``."""
        for number, value in enumerate(values):
            if number:
                self.write(", ")
            self.operand(value)

    def rename(self, value: Value, name: str) -> None:
        """Print `value` as `name` (with its ``%``); the caller keeps names unique in their scope."""
        if self._names is not None:
            self._names.values[value] = name

    def argument(self, value: BlockArgument, attributes: Mapping[str, Attribute] | None = None) -> None:
        """``%x: type {attributes}``."""
        self.operand(value)
        self.write(": ")
        self.type(value.type)
        if attributes is not None:
            self.attr_dict(attributes)
        if self._locations:
            self.write(" ")
            self.location(value.location)

    def successor(self, label: Label) -> None:
        """``^bb1``."""
        self.write(self._names.block(label) if self._names is not None else f"^{label.name or '?'}")

    def symbol_name(self, name: str) -> None:
        """``@name``, quoted where needed."""
        self.write(_symbol(name))

    def affine_subscripts(self, map: AffineMap, dims: Sequence[Value], symbols: Sequence[Value] = ()) -> None:
        """``%i * 2, %j + 4``: the map's results with operands put back in (without brackets)."""

        def leaf(expr: Dim | Sym) -> str:
            match expr:
                case Dim(position=position):
                    return self._value_text(dims[position])
                case Sym(position=position):
                    return f"symbol({self._value_text(symbols[position])})"

        self.write(", ".join(format_expr(expr, leaf) for expr in map.results))

    def _value_text(self, value: Value) -> str:
        return self._names.value(value) if self._names is not None else f"%{value.name or '?'}"

    def dynamic_index_list(self, static: Sequence[int | None], dynamic: Sequence[Value]) -> None:
        """``[%a, 4]``."""
        rest = iter(dynamic)
        parts = [self._value_text(next(rest)) if v is None else str(v) for v in static]
        self.write(f"[{', '.join(parts)}]")

    # -- types

    def types(self, types: Sequence[Type]) -> None:
        """``a, b``."""
        for number, type in enumerate(types):
            if number:
                self.write(", ")
            self.type(type)

    def functional_type(self, inputs: Sequence[Type], results: Sequence[Type]) -> None:
        """``(inputs) -> results``."""
        self.write("(")
        self.types(inputs)
        self.write(") -> ")
        self.result_types(results)

    def result_types(self, results: Sequence[Type]) -> None:
        """``type`` or ``(types)``: what stands behind an arrow."""
        if len(results) == 1 and not isinstance(results[0], FunctionType):
            self.type(results[0])
            return
        self.write("(")
        self.types(results)
        self.write(")")

    def stripped_type(self, type: Type) -> None:
        """Only the parameters of a dialect type."""
        if type.mnemonic:
            type.print_parameters(self)
        else:
            self.type(type)

    def type(self, type: Type) -> None:
        """Any type in full."""
        match type:
            case IndexType():
                self.write("index")
            case IntegerType(width=width, signedness=signedness):
                self.write(f"{signedness.value}{width}")
            case FloatType(name="df16"):
                self.write("!spyreop.df16")  # MLIR has no such builtin
            case FloatType(name=name):
                self.write(name)
            case NoneType():
                self.write("none")
            case FunctionType(inputs=inputs, results=results):
                self.functional_type(inputs, results)
            case TupleType(types=types):
                self.write("tuple<")
                self.types(types)
                self.write(">")
            case TensorType(shape=shape, element=element, encoding=encoding):
                self.write(f"tensor<{_dimensions(shape)}")
                self.type(element)
                self._parameter(encoding)
                self.write(">")
            case MemRefType(shape=shape, element=element, layout=layout, memory_space=space):
                self.write(f"memref<{_dimensions(shape)}")
                self.type(element)
                self._parameter(layout)
                self._parameter(space)
                self.write(">")
            case VectorType(shape=shape, element=element, scalable=scalable):
                marks = scalable or (False,) * len(shape)
                dims = [f"[{n}]x" if mark else f"{n}x" for n, mark in zip(shape, marks, strict=True)]
                self.write(f"vector<{''.join(dims)}")
                self.type(element)
                self.write(">")
            case UnrankedTensorType(element=element):
                self.write("tensor<*x")
                self.type(element)
                self.write(">")
            case UnrankedMemRefType(element=element, memory_space=space):
                self.write("memref<*x")
                self.type(element)
                self._parameter(space)
                self.write(">")
            case OpaqueType(dialect=dialect, body=body):
                self.write(f"!{dialect}{body}")
            case _:
                self.write(f"!{type.mnemonic}")
                type.print_parameters(self)

    def _parameter(self, attribute: Attribute | None) -> None:
        if attribute is not None:
            self.write(", ")
            self.attribute(attribute)

    # -- attributes

    def attribute(self, attribute: Attribute) -> None:
        """Any attribute in full (numbers with their type where it is not the default)."""
        match attribute:
            case IntegerAttr(type=type):
                self.attribute_without_type(attribute)
                if type not in (I64, I1):
                    self.write(" : ")
                    self.type(type)
                elif type == I64 and not self._elide_i64:
                    self.write(" : i64")
            case FloatAttr(type=type):
                self.attribute_without_type(attribute)
                infinite = not math.isfinite(attribute.value)  # prints as bits: an integer without its type
                if type != F64 or infinite or not self._elide_i64:
                    self.write(" : ")
                    self.type(type)
            case ArrayAttr(elements=elements):
                saved, self._elide_i64 = self._elide_i64, True
                self.write("[")
                self._separated(elements)
                self.write("]")
                self._elide_i64 = saved
            case StringAttr(value=value, type=string_type):
                self.write(_quoted(value))
                if string_type is not None:
                    self.write(" : ")
                    self.type(string_type)
            case DictAttr():
                self._dictionary(attribute)
            case _:
                self._other_attribute(attribute)

    _elide_i64 = False

    def _other_attribute(self, attribute: Attribute) -> None:
        match attribute:
            case Type():
                self.type(attribute)
            case TypeAttr(type=type):
                self.type(type)
            case UnitAttr():
                self.write("unit")
            case SymbolRefAttr(root=root, nested=nested):
                self.write("::".join(_symbol(name) for name in (root, *nested)))
            case AffineMapAttr(map=map):
                self.write(self._alias(self._maps, attribute, "map") or f"affine_map<{map}>")
            case AffineSetAttr(set=set):
                self.write(self._alias(self._sets, attribute, "set") or f"affine_set<{set}>")
            case DenseElementsAttr(type=type):
                self.attribute_without_type(attribute)
                self.write(" : ")
                self.type(type)
            case DenseResourceAttr(key=key, type=type):
                self.write(f"dense_resource<{key if _BARE.match(key) else _quoted(key)}> : ")
                self.type(type)
            case DenseArrayAttr(element=element, values=values):
                self.write("array<")
                self.type(element)
                if values:
                    self.write(": " + ", ".join(_number(value, element) for value in values))
                self.write(">")
            case StridedLayoutAttr(strides=strides, offset=offset):
                body = ", ".join("?" if s is None else str(s) for s in strides)
                tail = "" if offset == 0 else f", offset: {'?' if offset is None else offset}"
                self.write(f"strided<[{body}]{tail}>")
            case OpaqueAttr(dialect=dialect, body=body):
                self.write(f"#{dialect}{body}")
            case Location():
                self.location(attribute)
            case _:
                self.write(f"#{attribute.mnemonic}")
                attribute.print_parameters(self)

    def _alias(self, table: dict[K, str], attribute: K, stem: str) -> str | None:
        if not self._use_aliases:
            return None
        if attribute not in table:
            table[attribute] = f"#{stem}{len(table) or ''}"
        return table[attribute]

    def _separated(self, attributes: Sequence[Attribute]) -> None:
        for number, attribute in enumerate(attributes):
            if number:
                self.write(", ")
            self.attribute(attribute)

    def attribute_without_type(self, attribute: Attribute) -> None:
        """A number or dense constant without its ``: type``; other attributes in full."""
        match attribute:
            case IntegerAttr(value=value, type=type):
                self.write(("true" if value else "false") if type == I1 else str(value))
            case FloatAttr(bits=bits, type=float_type):
                self.write(float_text(bits, float_type))
            case DenseElementsAttr():
                self.write(f"dense<{_dense_body(attribute)}>")
            case _:
                self.attribute(attribute)

    def _dictionary(self, entries: Mapping[str, Attribute]) -> None:
        saved, self._elide_i64 = self._elide_i64, False
        self.write("{")
        for number, (name, value) in enumerate(sorted(entries.items())):
            if number:
                self.write(", ")
            self.write(name if _BARE.match(name) else _quoted(name))
            if not isinstance(value, UnitAttr):
                self.write(" = ")
                self.attribute(value)
        self.write("}")
        self._elide_i64 = saved

    def attr_dict(
        self,
        attributes: Mapping[str, Attribute],
        *,
        elided: Collection[str] = (),
        keyword: bool = False,
    ) -> None:
        """`` {a = 1}`` (with the leading blank, sorted by name), nothing if all entries are elided."""
        entries = {name: value for name, value in attributes.items() if name not in elided}
        if entries:
            self.write(" attributes " if keyword else " ")
            self._dictionary(entries)

    # -- locations

    def location(self, location: Location) -> None:
        """``loc(...)``."""
        self.write("loc(")
        self._location_body(location)
        self.write(")")

    def _location_body(self, location: Location) -> None:
        match location:
            case UnknownLoc():
                self.write("unknown")
            case FileLineColLoc(file=file, line=line, column=column):
                self.write(f"{_quoted(file)}:{line}:{column}")
                if isinstance(location, FileRangeLoc):
                    same = location.end_line == line
                    self.write(f" to {'' if same else location.end_line}:{location.end_column}")
            case NameLoc(name=name, child=child):
                self.write(_quoted(name))
                if not isinstance(child, UnknownLoc):
                    self.write("(")
                    self._location_body(child)
                    self.write(")")
            case CallSiteLoc(callee=callee, caller=caller):
                self.write("callsite(")
                self._location_body(callee)
                self.write(" at ")
                self._location_body(caller)
                self.write(")")
            case FusedLoc(locations=locations, metadata=metadata):
                self.write("fused")
                if metadata is not None:
                    self.write("<")
                    self.attribute(metadata)
                    self.write(">")
                self.write("[")
                for number, part in enumerate(locations):
                    if number:
                        self.write(", ")
                    self._location_body(part)
                self.write("]")

    # -- operations

    def operation(self, op: Operation) -> None:
        """One operation with its results, in the form that this printer is set to."""
        from ktir.dialects.verbatim import VerbatimOp

        if isinstance(op, VerbatimOp):
            self.write(op.text.value)
            return
        self._results(op)
        # Like MLIR, an operation that its class cannot be trusted with is printed in generic form.
        if self._generic or isinstance(op, UnregisteredOp) or not self._custom_operation(op):
            self._generic_operation(op)
        if self._locations:
            self.write(" ")
            self.location(op.location)

    def _custom_operation(self, op: Operation) -> bool:
        """Write the custom form; False, with nothing written, if the operation is not fit for it."""
        start = len(self._parts), self._indent, len(self._function_depth)
        try:
            if not (well_formed(op) and op.has_custom_form()):
                return False
            self.write(self._short_name(op.name))
            if op.definition.assembly is not None:
                from ktir.assembly import print_assembly

                print_assembly(op, self)
            else:
                op.print_custom(self)
        except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError):
            # What does not verify may break what a custom form relies on, and still can be looked at.
            size, self._indent, depth = start
            del self._parts[size:], self._function_depth[depth:]
            self._elide_i64 = False
            return False
        return True

    def _short_name(self, name: str) -> str:
        if name == "builtin.module":
            return "module"
        in_function = bool(self._function_depth) and self._function_depth[-1] == "func.func"
        return name.removeprefix("func.") if in_function else name

    def _results(self, op: Operation) -> None:
        if not op.results or self._names is None:
            return
        if self._names.is_group(op):
            base = self._names.value(op.results[0]).partition("#")[0]
            self.write(f"{base}:{len(op.results)} = ")
        else:
            self.operands(op.results)
            self.write(" = ")

    def _generic_operation(self, op: Operation) -> None:
        self.write(f'"{op.name}"(')
        self.operands(op.operands)
        self.write(")")
        if op.successors:
            self.write("[")
            for number, label in enumerate(op.successors):
                if number:
                    self.write(", ")
                self.successor(label)
            self.write("]")
        inherent = op.inherent if isinstance(op, UnregisteredOp) else op.definition.inherent
        properties = {k: v for k, v in op.attributes.items() if k in inherent}
        if not isinstance(op, UnregisteredOp):
            for declared in op.definition.attributes:  # what holds anyway is not stated
                if declared.default is not None and properties.get(declared.name) == declared.default:
                    del properties[declared.name]
        if properties:
            self.write(" <")
            self._dictionary(properties)
            self.write(">")
        if op.regions:
            self.write(" (")
            for number, region in enumerate(op.regions):
                if number:
                    self.write(", ")
                self._region_of(op.name, region, True, True, True)
            self.write(")")
        self.attr_dict(op.attributes, elided=inherent)
        self.write(" : ")
        self.functional_type([v.type for v in op.operands], [v.type for v in op.results])

    def region(
        self,
        region: Region,
        *,
        print_entry_arguments: bool = True,
        print_terminator: bool = True,
        owner: str = "",
    ) -> None:
        """``{ ... }`` over several lines.  `owner` is the name of the operation that holds it."""
        self._region_of(owner, region, print_entry_arguments, print_terminator)

    def _region_of(
        self, owner: str, region: Region, entry_arguments: bool, terminator: bool, generic: bool = False
    ) -> None:
        if len(self._function_depth) >= MAX_NESTING:
            raise UnsupportedError(f"no text for operations nested deeper than {MAX_NESTING} levels")
        self._function_depth.append(owner)
        self.write("{")
        for number, block in enumerate(region.blocks):
            labelled = number > 0 or (entry_arguments and bool(block.arguments))
            if generic and not block.operations:
                labelled = True  # otherwise it would read back as a region without blocks
            self._block(block, labelled, terminator)
        self.newline()
        self.write("}")
        self._function_depth.pop()

    def _block(self, block: Block, labelled: bool, terminator: bool) -> None:
        if labelled:
            self.newline()
            self.successor(block.label)
            if block.arguments:
                self.write("(")
                for number, argument in enumerate(block.arguments):
                    if number:
                        self.write(", ")
                    self.argument(argument)
                self.write(")")
            self.write(":")
        self._indent += 1
        operations = block.operations if terminator else block.operations[:-1]
        for op in operations:
            self.newline()
            self.operation(op)
        self._indent -= 1


def has_implicit_terminator(op: Operation, region: Region) -> bool:
    """Whether the region ends in a terminator that the custom form leaves out."""
    if op.definition.implicit_terminator is None or len(region.blocks) != 1:
        return False
    operations = region.blocks[0].operations
    if not operations:
        return False
    last = operations[-1]
    return last.name == op.definition.implicit_terminator().name and not last.operands and not last.attributes


def print_module(
    module: Operation,
    generic: bool = False,
    *,
    locations: bool = False,
    names: str = "canonical",
) -> str:
    """MLIR text of a module (or any operation), ending in a newline.

    `names` is ``"canonical"`` (deterministic; function arguments keep theirs) or ``"source"`` (hints of the
    text are kept where they are unique).  With `locations` every operation carries ``loc(...)``.
    `UnsupportedError` if regions nest deeper than `ktir.lexer.MAX_NESTING`, which no text may.
    """
    printer = Printer(Names(module, source=names == "source"), generic=generic, locations=locations)
    printer.operation(module)
    return printer.alias_definitions() + printer.text() + "\n"


def attribute_text(attribute: Attribute) -> str:
    """One attribute or type, without aliases."""
    printer = Printer(aliases=False)
    printer.attribute(attribute)
    return printer.text()


def operation_text(op: Operation) -> str:
    """One operation on its own (operands from outside print as placeholders), for debugging."""
    printer = Printer(Names(op, source=True), aliases=False)
    for number, operand in enumerate(op.operands):
        assert printer._names is not None
        printer._names.values.setdefault(operand, f"%{operand.name or f'operand{number}'}")
    printer.operation(op)
    return printer.text()


def float_text(bits: int, type: FloatType) -> str:
    """The shortest of MLIR's spellings that reads back to the same bits (spec 0.3.4)."""
    value = bits_to_float(bits, type)
    if math.isfinite(value):
        for text in (scientific_text(value), exact_text(value, type)):
            if text is not None and float_to_bits(float(text), type) == bits:
                return text
    digits = (type.width + 3) // 4
    return f"0x{bits:0{digits}X}"


def _dimensions(shape: Sequence[int | None]) -> str:
    return "".join("?x" if extent is None else f"{extent}x" for extent in shape)


def _number(value: int, element: Type) -> str:
    match element:
        case FloatType():
            return float_text(value, element)
        case IntegerType(width=1):
            return "true" if value else "false"
        case _:
            return str(value)


def _dense_body(attribute: DenseElementsAttr) -> str:
    type = attribute.type
    assert isinstance(type, TensorType | VectorType)
    count = type.num_elements()
    size = (bit_width(type.element) + 7) // 8
    if attribute.splat:
        return _element(attribute.data, type.element)
    if count == 0:
        return ""
    if count > HEX_ELEMENTS_LIMIT:
        return f'"0x{attribute.data.hex().upper()}"'
    elements = [_element(attribute.data[i * size : (i + 1) * size], type.element) for i in range(count)]
    for extent in reversed(type.static_shape()):
        elements = [f"[{', '.join(elements[i : i + extent])}]" for i in range(0, len(elements), extent)]
    return elements[0]


def _element(data: bytes, element: Type) -> str:
    match element:
        case FloatType():
            return float_text(int.from_bytes(data, "little"), element)
        case IntegerType(width=1):
            return "true" if data[0] else "false"
        case IntegerType(signedness=Signedness.UNSIGNED):
            return str(int.from_bytes(data, "little"))
        case _:
            return str(int.from_bytes(data, "little", signed=True))


def _quoted(text: str) -> str:
    out: list[str] = []
    for byte in text.encode("utf-8", "surrogateescape"):
        character = chr(byte)
        if character == "\\":
            out.append("\\\\")
        elif 32 <= byte < 127 and character != '"':
            out.append(character)
        else:
            out.append(f"\\{byte:02X}")
    return '"' + "".join(out) + '"'


def _symbol(name: str) -> str:
    return f"@{name}" if _SYMBOL.match(name) else f"@{_quoted(name)}"
