"""Access tiles, direct and indirect, and the loads and stores that use them (KTIR spec 1.7 to 1.10)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from ktir.affine import AffineMap, Dim, parse_subscripts
from ktir.attribute import Attribute
from ktir.attributes import AffineMapAttr, AffineSetAttr, ArrayAttr, IntegerAttr
from ktir.constraints import ANY, INDEX
from ktir.dialects.ktdp.types import ACCESS_TILE, AccessTileType
from ktir.dialects.ktdp.views import segments
from ktir.errors import Diagnostic, Note, ParseError, finding
from ktir.ir import BlockArgument, Operation, Region, Value
from ktir.lexer import TokenKind
from ktir.opdef import (
    OPERAND_SEGMENTS,
    PURE,
    READS,
    TERMINATOR,
    WRITES,
    attribute,
    operand,
    operation,
    region,
    result,
    variadic_operand,
)
from ktir.types import I1, MemRefType, TensorType
from ktir.types import INDEX as INDEX_TYPE

if TYPE_CHECKING:
    from ktir.parser import OpParser, Unresolved
    from ktir.printer import Printer
    from ktir.verifier import Verifier


T = TypeVar("T")


@operation("ktdp.construct_access_tile", traits=(PURE,))
class ConstructAccessTile(Operation):
    """The coordinates ``base_map(indices) + p`` of a base for every point p of a set.

    `access_tile_order` arranges the points: sorted by ``order(p)``, they fill the tile in row-major order.
    """

    base = operand(ANY)
    indices = variadic_operand(INDEX)
    symbol_operands = variadic_operand(INDEX)
    base_map = attribute(AffineMapAttr)
    access_tile_set = attribute(AffineSetAttr)
    access_tile_order = attribute(AffineMapAttr)
    result = result(ACCESS_TILE)

    @property
    def type(self) -> AccessTileType:
        found = self.result.type
        assert isinstance(found, AccessTileType)
        return found

    def has_custom_form(self) -> bool:
        """Only if the subscripts name every index once, in the order of the operands."""
        map = self.base_map.map
        if map.num_operands != len(self.indices):
            return False
        dims, symbols = self.indices[: map.num_dims], self.indices[map.num_dims :]
        if map.is_identity and len(set(dims)) == len(dims):
            return True
        return _named_in_order((map,), dims, "d") and _named_in_order((map,), symbols, "s")

    @classmethod
    def parse_custom(cls, parser: OpParser) -> ConstructAccessTile:
        start = parser.offset
        base = parser.parse_operand()
        map, dims, map_symbols = parser.parse_affine_subscripts("[", "]")
        symbols = _symbols(parser)
        attributes = parser.parse_attr_dict()
        _check_tile(parser, start, attributes, map, len(symbols))
        parser.expect(":", "in front of the base's type")
        base_type = parser.parse_type()
        parser.expect("->", "behind the base's type")
        type = parser.parse_stripped_type(AccessTileType)
        attributes["base_map"] = AffineMapAttr(map)
        attributes[OPERAND_SEGMENTS] = segments(1, len(dims) + len(map_symbols), len(symbols))
        operands = [parser.resolve(base, base_type)]
        operands += [parser.resolve(use, INDEX_TYPE) for use in (*dims, *map_symbols, *symbols)]
        return cls.create(operands, [type], attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        map = self.base_map.map
        printer.write(" ")
        printer.operand(self.base)
        printer.write("[")
        printer.affine_subscripts(map, self.indices[: map.num_dims], self.indices[map.num_dims :])
        printer.write("]")
        _print_symbols(printer, self.symbol_operands)
        printer.attr_dict(self.attributes, elided=("base_map", OPERAND_SEGMENTS))
        printer.write(" : ")
        printer.type(self.base.type)
        printer.write(" -> ")
        printer.type(self.result.type)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        set, map, order = self.access_tile_set.set, self.base_map.map, self.access_tile_order.map
        if set.num_dims != map.num_results:
            yield finding(
                f"access_tile_set dimensions ({set.num_dims}) must match base_map dims ({map.num_results})",
                f"the set holds offsets from an anchor of {map.num_results} coordinates",
            )
        if map.num_operands != len(self.indices):
            yield finding(
                f"base_map expects {map.num_operands} operands but got {len(self.indices)}",
                f"base_map is affine_map<{map}>: one index operand per dimension and symbol",
            )
        if set.num_symbols != len(self.symbol_operands):
            yield finding(
                _symbol_count("access_tile_set", set.num_symbols, len(self.symbol_operands)), _SYMBOLS_NOTE
            )
        if order.num_dims != order.num_results:
            yield finding(
                f"access_tile_order must have equal number of inputs ({order.num_dims}) and outputs "
                f"({order.num_results})",
                _order_note(set.num_dims),
            )
        if order.num_results != set.num_dims:
            yield finding(
                f"access_tile_order dimensions ({order.num_results}) must match access_tile_set dimensions "
                f"({set.num_dims})",
                _order_note(set.num_dims),
            )
        if self.type.rank != set.num_dims:
            yield finding(
                f"result type rank ({self.type.rank}) must match access_tile_set dimensions ({set.num_dims})",
                f"expected an access tile of {set.num_dims} extents, got {self.type}",
            )
        if not isinstance(self.base.type, MemRefType | TensorType):
            yield finding(
                f"operand #0 must be ranked memref or tensor, but got '{self.base.type}'",
                "the base is a memory view, or a tensor to load from",
            )


def _named_in_order(maps: Iterable[AffineMap], values: Sequence[Value], letter: str) -> bool:
    """Whether the text of the maps' results names each of the (distinct) values first in their order.

    `values` stand for the first dimensions (``d``) or symbols (``s``) of every map. Reading subscripts
    numbers values as they come, so other operands would not come back.
    """
    text = " ".join(str(map).partition("->")[2] for map in maps)
    numbers = (int(number) for number in re.findall(rf"\b{letter}(\d+)\b", text))
    order = list(dict.fromkeys(number for number in numbers if number < len(values)))
    return order == list(range(len(values))) and len(set(values)) == len(values)


_SYMBOLS_NOTE = "give one value per symbol of the set: symbols(%n, ...)"


def _order_note(dims: int) -> str:
    names = ", ".join(f"d{i}" for i in range(dims))
    return f"expected a permutation of {dims} dimensions, such as affine_map<({names}) -> ({names})>"


def _symbols(parser: OpParser) -> list[Unresolved]:
    if not parser.accept("symbols"):
        return []
    return parser.parse_comma_list("(", ")", parser.parse_operand)


def _print_symbols(printer: Printer, symbols: tuple[Value, ...]) -> None:
    if symbols:
        printer.write(" symbols(")
        printer.operands(symbols)
        printer.write(")")


def _symbol_count(name: str, expected: int, given: int) -> str:
    return f"{name} has {expected} symbols but got {given} symbol operands"


def _check_tile(
    parser: OpParser, start: int, attributes: dict[str, Attribute], map: AffineMap, num_symbols: int
) -> None:
    match attributes.get("access_tile_set"):
        case AffineSetAttr(set=set):
            pass
        case _:
            raise parser.error_at(
                start,
                "Access tile set is missing in the operation",
                "add access_tile_set = affine_set<...>: the offsets from the anchor that the tile holds",
            )
    if set.num_dims != map.num_results:
        raise parser.error_at(
            start,
            "Access tile set and Base input dimensions should match",
            f"there are {map.num_results} subscripts, but the set has {set.num_dims} dimensions",
        )
    if set.num_symbols != num_symbols:
        message = _symbol_count("access_tile_set", set.num_symbols, num_symbols)
        raise parser.error_at(start, message, _SYMBOLS_NOTE)
    match attributes.get("access_tile_order"):
        case AffineMapAttr(map=order):
            pass
        case _:
            raise parser.error_at(
                start, "Access tile order is missing in the operation", _order_note(set.num_dims)
            )
    if order.num_dims != order.num_results:
        raise parser.error_at(
            start,
            "Number of input dimensions and output dimensions in the access tile order should match",
            _order_note(set.num_dims),
        )
    if order.num_results != set.num_dims:
        raise parser.error_at(
            start,
            "Number of dimensions in the access tile order and access tile set must match!",
            _order_note(set.num_dims),
        )


@operation("ktdp.region_terminator", assembly="attr-dict", traits=(TERMINATOR,))
class RegionTerminator(Operation):
    """Ends the hidden region of an indirect access tile."""


_Key = tuple[str, int]


@operation("ktdp.construct_indirect_access_tile", traits=(READS,))
class ConstructIndirectAccessTile(Operation):
    """Coordinates read from index views: one point of the base per point of a variable space.

    `per_dim_subscript_maps` take the captured variables, then the intermediate variables (the region's block
    arguments); where the kind is true, the results index the next of `indirect_memrefs`.
    """

    base = operand(ANY)
    indirect_memrefs = variadic_operand(ANY)
    captured_variables = variadic_operand(INDEX)
    symbol_operands = variadic_operand(INDEX)
    per_dim_subscript_kinds = attribute(ArrayAttr)
    per_dim_subscript_maps = attribute(ArrayAttr)
    variables_space_set = attribute(AffineSetAttr)
    variables_space_order = attribute(AffineMapAttr)
    body = region()
    result = result(ACCESS_TILE)

    def has_custom_form(self) -> bool:
        """Only if the hidden region holds nothing but a plain terminator, and the subscripts name every
        captured value once, in the order of the operands."""
        if len(self.body.blocks) != 1 or not _named_in_order(self.maps, self.captured_variables, "d"):
            return False
        match self.body.block.operations:
            case (RegionTerminator(attributes=attributes),):
                return not attributes
            case _:
                return False

    @property
    def intermediate_variables(self) -> tuple[BlockArgument, ...]:
        """The variables that range over the variable space."""
        return self.body.blocks[0].arguments if self.body.blocks else ()

    @property
    def kinds(self) -> tuple[bool, ...]:
        """Per base dimension: whether its coordinate is read from an index view."""
        return tuple(isinstance(k, IntegerAttr) and k.value != 0 for k in self.per_dim_subscript_kinds)

    @property
    def maps(self) -> tuple[AffineMap, ...]:
        """Per base dimension: the subscript map."""
        return tuple(m.map for m in self.per_dim_subscript_maps if isinstance(m, AffineMapAttr))

    @property
    def type(self) -> AccessTileType:
        found = self.result.type
        assert isinstance(found, AccessTileType)
        return found

    @classmethod
    def parse_custom(cls, parser: OpParser) -> ConstructIndirectAccessTile:
        return _IndirectParser(parser).operation()

    def print_custom(self, printer: Printer) -> None:
        variables = self.intermediate_variables
        printer.write(" intermediate_variables(")
        printer.operands(variables)
        printer.write(") ")
        printer.operand(self.base)
        printer.write("[")
        leaves = (*self.captured_variables, *variables)
        views = iter(self.indirect_memrefs)
        for number, (kind, map) in enumerate(zip(self.kinds, self.maps, strict=True)):
            if number:
                printer.write(", ")
            if kind:
                printer.write("ind(")
                printer.operand(next(views))
            printer.write("[" if kind else "(")
            printer.affine_subscripts(map, leaves)
            printer.write("])" if kind else ")")
        printer.write("]")
        _print_symbols(printer, self.symbol_operands)
        elided = ("per_dim_subscript_kinds", "per_dim_subscript_maps", OPERAND_SEGMENTS)
        printer.attr_dict(self.attributes, elided=elided)
        printer.write(" : ")
        printer.types([self.base.type, *(v.type for v in self.indirect_memrefs)])
        printer.write(" -> ")
        printer.type(self.result.type)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        yield from self._verify_space()
        yield from self._verify_subscripts()

    def _verify_space(self) -> Iterator[Diagnostic]:
        set, order = self.variables_space_set.set, self.variables_space_order.map
        variables = len(self.intermediate_variables)
        if set.num_dims != order.num_dims:
            yield finding(
                f"variables_space_set dimensions ({set.num_dims}) must match variables_space_order inputs "
                f"({order.num_dims})",
                _order_note(set.num_dims),
            )
        if order.num_dims != order.num_results:
            yield finding(
                f"variables_space_order must have equal number of inputs ({order.num_dims}) and outputs "
                f"({order.num_results})",
                _order_note(set.num_dims),
            )
        if variables != set.num_dims:
            yield finding(
                f"number of intermediate variables ({variables}) must match variables_space_set dimensions "
                f"({set.num_dims})",
                "every intermediate variable ranges over one dimension of the set",
            )
        if set.num_symbols != len(self.symbol_operands):
            yield finding(
                _symbol_count("variables_space_set", set.num_symbols, len(self.symbol_operands)),
                _SYMBOLS_NOTE,
            )
        if self.type.rank != set.num_dims:
            yield finding(
                f"result type rank ({self.type.rank}) must match variables_space_set dimensions "
                f"({set.num_dims})",
                f"expected an access tile of {set.num_dims} extents, got {self.type}",
            )

    def _verify_subscripts(self) -> Iterator[Diagnostic]:
        kinds, maps = self.per_dim_subscript_kinds, self.per_dim_subscript_maps
        if len(kinds) != len(maps):
            yield finding(
                f"per_dim_subscript_kinds size ({len(kinds)}) must match per_dim_subscript_maps size "
                f"({len(maps)})",
                "every dimension of the base has one kind and one map",
            )
        if not isinstance(self.base.type, MemRefType | TensorType):
            yield finding("base must be a ranked memref or tensor type", f"got {self.base.type}")
        elif self.base.type.rank != len(maps):
            yield finding(
                f"number of subscripts ({len(maps)}) must match base rank ({self.base.type.rank})",
                f"expected {self.base.type.rank} indices for {self.base.type}, got {len(maps)}",
            )
        if not all(isinstance(k, IntegerAttr) and k.type == I1 for k in kinds):
            yield finding(
                "per_dim_subscript_kinds must contain BoolAttr elements",
                f"expected true (read from an index view) or false, got {kinds}",
            )
            return
        indirect = sum(self.kinds)
        if indirect != len(self.indirect_memrefs):
            yield finding(
                f"number of indirect dimensions ({indirect}) must match number of indirect memrefs "
                f"({len(self.indirect_memrefs)})",
                "every ind(...) reads from one view; a view that is used twice is listed twice",
            )
            return
        expected = len(self.captured_variables) + len(self.intermediate_variables)
        views = iter(self.indirect_memrefs)
        for number, (kind, map_attribute) in enumerate(zip(self.kinds, maps, strict=False)):
            view = next(views).type if kind else None
            if not isinstance(map_attribute, AffineMapAttr):
                yield finding(
                    f"per_dim_subscript_maps[{number}] must be an AffineMapAttr",
                    f"expected affine_map<...>, got {map_attribute}",
                )
                continue
            map = map_attribute.map
            if map.num_operands != expected:
                captured = len(self.captured_variables)
                yield finding(
                    f"subscript map for dimension {number} has {map.num_operands} dimensions, but expected "
                    f"{expected} (captured_variables + intermediate_variables)",
                    f"{captured} captured variables first, then {expected - captured} intermediate ones",
                )
            if not kind and map.num_results != 1:
                yield finding(
                    f"direct subscript map for dimension {number} must produce exactly 1 result, "
                    f"but produces {map.num_results}",
                    "write one expression in the parentheses of each dimension",
                )
            if isinstance(view, MemRefType) and view.rank != map.num_results:
                yield finding(
                    f"indirect subscript map for dimension {number} produces {map.num_results} results, but "
                    f"indirect memref has rank {view.rank}",
                    f"expected {view.rank} indices for {view}, got {map.num_results}",
                )
            elif kind and not isinstance(view, MemRefType):
                yield finding(
                    f"indirect index view of dimension {number} must be a ranked memref, but got '{view}'",
                    "coordinates are read from memory: construct a view of it",
                )


def _explained(message: str, parse: Callable[[], T]) -> T:
    """What `parse` gives; its error becomes a note of one that says which part of the operation is wrong."""
    try:
        return parse()
    except ParseError as error:
        notes = (Note(error.message), *error.notes)
        raise ParseError(message, error.file, error.line, error.column, error.source_line, notes) from None


_SUBSCRIPTS_NOTE = "write ind(%view[%i, ...]) for an index that is read, (%i + 1) for one that is computed"


class _IndirectParser:
    """The custom form of an indirect access tile."""

    def __init__(self, parser: OpParser) -> None:
        self.parser = parser
        self.variables: list[str] = []
        self.captured: dict[_Key, Unresolved] = {}
        self.views: list[Unresolved] = []
        self.subscripts: list[tuple[bool, AffineMap, list[_Key], int]] = []

    def operation(self) -> ConstructIndirectAccessTile:
        parser = self.parser
        start = parser.offset
        parser.expect("intermediate_variables")
        tokens = self._variables()
        base = parser.parse_operand()
        self._subscript_list()
        symbols = _explained("Failed to parse symbol operands", lambda: _symbols(parser))
        attributes = _explained("error parsing attributes", parser.parse_attr_dict)
        for name in ("variables_space_set", "variables_space_order"):
            if name not in attributes:
                raise parser.error_at(
                    start,
                    f"'{ConstructIndirectAccessTile.definition.name}' op requires attribute '{name}'",
                    "the set gives the points, the order their arrangement in the tile",
                )
        match attributes["variables_space_set"]:
            case AffineSetAttr(set=set) if set.num_symbols != len(symbols):
                message = _symbol_count("variables_space_set", set.num_symbols, len(symbols))
                raise parser.error_at(start, message, _SYMBOLS_NOTE)
        parser.expect(":", "in front of the base's type")
        types_at = parser.offset
        base_type, *view_types = parser.parse_type_list()
        if len(view_types) != len(self.views):
            raise parser.error_at(
                types_at,
                f"expected {1 + len(self.views)} types (base + {len(self.views)} indirect memrefs), but got "
                f"{1 + len(view_types)}",
                "list the type of the base, then of the view of every ind(...), in order",
            )
        parser.expect("->", "behind the types")
        type = _explained("error parsing result types", lambda: parser.parse_stripped_type(AccessTileType))
        captured = list(self.captured.values())
        attributes["per_dim_subscript_kinds"] = ArrayAttr(
            tuple(IntegerAttr(int(kind), I1) for kind, *_ in self.subscripts)
        )
        attributes["per_dim_subscript_maps"] = ArrayAttr(tuple(map(AffineMapAttr, self._maps())))
        attributes[OPERAND_SEGMENTS] = segments(1, len(self.views), len(captured), len(symbols))
        operands = [parser.resolve(base, base_type), *parser.resolve_all(self.views, view_types)]
        operands += [parser.resolve(use, INDEX_TYPE) for use in (*captured, *symbols)]
        arguments = [
            BlockArgument(INDEX_TYPE, None if name[0].isdigit() else name, parser.location_at(offset))
            for name, offset in tokens
        ]
        body = Region.of([RegionTerminator.create(location=parser.location)], arguments)
        return ConstructIndirectAccessTile.create(
            operands, [type], attributes, [body], location=parser.location
        )

    def _variables(self) -> list[tuple[str, int]]:
        parser = self.parser
        tokens: list[tuple[str, int]] = []

        def one() -> None:
            if not parser.cursor.at_kind(TokenKind.VALUE_ID):
                raise parser.error(
                    "error parsing intermediate_variables", "expected names: intermediate_variables(%i, %j)"
                )
            token = parser.cursor.next()
            if token.text[1:] in self.variables:
                raise parser.error_at(
                    token.start,
                    f"redefinition of intermediate variable '{token.text}'",
                    "every variable ranges over one dimension of variables_space_set",
                )
            self.variables.append(token.text[1:])
            tokens.append((token.text[1:], token.start))

        parser.parse_comma_list("(", ")", one)
        return tokens

    def _subscript_list(self) -> None:
        parser = self.parser
        parser.expect("[", "behind the base")
        while not parser.accept("]"):
            if self.subscripts and not parser.accept(","):
                raise parser.error("expecting a comma between subscripts", _SUBSCRIPTS_NOTE)
            if parser.accept("ind"):
                parser.expect("(", "behind 'ind'")
                self.views.append(parser.parse_operand())
                self._subscript(True, "[", "]")
                parser.expect(")", "behind the indirect subscript")
            elif parser.at("("):
                self._subscript(False, "(", ")")
            else:
                raise parser.error(
                    "unexpected token in subscript list, expected 'ind', '(', or ']'", _SUBSCRIPTS_NOTE
                )

    def _subscript(self, indirect: bool, open_: str, close: str) -> None:
        parser = self.parser
        start = parser.offset
        if not parser.at(open_):
            raise parser.error("error parsing the subscript", _SUBSCRIPTS_NOTE)

        def operand() -> _Key:
            use = parser.parse_operand()
            if use.number is None and use.name in self.variables:
                return ("", self.variables.index(use.name))
            self.captured.setdefault(use.key, use)
            return use.key

        map, dims, symbols = parse_subscripts(parser.cursor, operand, open_, close)
        if symbols:
            raise parser.error_at(
                start,
                "error canonicalizing subscripts",
                "values from outside are captured by their name: write %n instead of symbol(%n)",
            )
        self.subscripts.append((indirect, map, dims, start))

    def _maps(self) -> Iterator[AffineMap]:
        """The subscript maps over all captured, then all intermediate variables."""
        order = {key: position for position, key in enumerate(self.captured)}
        total = len(order) + len(self.variables)
        for _, map, keys, _ in self.subscripts:
            dims = [Dim(len(order) + key[1] if key[0] == "" else order[key]) for key in keys]
            yield map.replace(dims, [], total, 0)


@operation(
    "ktdp.load",
    assembly="$access_tile attr-dict `:` stripped-type($access_tile) `->` type($result)",
    traits=(READS,),
)
class Load(Operation):
    """A fresh tensor with the elements at a tile's coordinates."""

    access_tile = operand(ACCESS_TILE)
    result = result(ANY)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        if not isinstance(self.result.type, TensorType):
            yield finding("result must be a ranked tensor", f"got {self.result.type}")
        elif _shape(self.access_tile) != self.result.type.shape:
            yield finding(
                "access tile shape must match result tensor shape",
                _fitting(self.access_tile, self.result.type),
            )


@operation(
    "ktdp.store",
    assembly="$data_tile `,` $access_tile attr-dict `:` type($data_tile) `,` stripped-type($access_tile)",
    traits=(WRITES,),
)
class Store(Operation):
    """Writes a tensor's elements to a tile's coordinates."""

    data_tile = operand(ANY)
    access_tile = operand(ACCESS_TILE)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        if not isinstance(self.data_tile.type, TensorType):
            yield finding("data_tile must be a ranked tensor", f"got {self.data_tile.type}")
        elif _shape(self.access_tile) != self.data_tile.type.shape:
            yield finding(
                "data tile shape must match access tile shape",
                _fitting(self.access_tile, self.data_tile.type),
            )


def _fitting(tile: Value, data: TensorType) -> str:
    fitting = TensorType(_shape(tile), data.element)
    return f"expected {fitting} for {tile.type}, got {data}"


def _shape(tile: Value) -> tuple[int | None, ...]:
    assert isinstance(tile.type, AccessTileType)
    return tile.type.shape
