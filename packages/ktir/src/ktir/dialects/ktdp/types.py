"""Types of the ``ktdp`` dialect: access tiles, runtime arguments, tile futures (KTIR spec 1.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import attrs

from ktir.affine import AffineSet
from ktir.attributes import AffineSetAttr
from ktir.constraints import instance_of
from ktir.errors import KtirError
from ktir.types import INDEX, FloatType, IndexType, IntegerType, ShapedType, Type

if TYPE_CHECKING:
    from ktir.parser import AttributeParser
    from ktir.printer import Printer


@attrs.frozen
class AccessTileType(ShapedType):
    """``!ktdp.access_tile<24x?xindex>``: a set of coordinates; extents in points, None for ``?``."""

    mnemonic = "ktdp.access_tile"

    element: Type = INDEX

    def __attrs_post_init__(self) -> None:
        if any(extent is not None and extent < 0 for extent in self.shape):
            raise KtirError("tile dimension size must be dynamic or >= 0")
        if not isinstance(self.element, IndexType):
            raise KtirError(f"tile element type must be 'index', but got: {self.element}")

    @classmethod
    def parse_parameters(cls, parser: AttributeParser) -> Self:
        parser.expect("<", "behind 'access_tile'")
        shape = parser.parse_dimension_list()
        start = parser.offset
        element = parser.parse_type()
        parser.expect(">", "in access tile type")
        try:
            return cls(shape, element)
        except KtirError as error:
            raise parser.error_at(start, str(error)) from None

    def print_parameters(self, printer: Printer) -> None:
        extents = "".join("?x" if extent is None else f"{extent}x" for extent in self.shape)
        printer.write(f"<{extents}index>")


@attrs.frozen
class RuntimeArgType(Type):
    """``!ktdp.runtime_arg<index, granularity=8, upperbound=4096>``.

    The launch value is promised to be a multiple of `granularity` and at most `upperbound`.
    """

    mnemonic = "ktdp.runtime_arg"

    underlying: Type
    granularity: int | None = None
    upperbound: int | None = None

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.underlying, IndexType | IntegerType | FloatType):
            raise KtirError(
                "runtime_arg underlying type must be a builtin type (index, integer, or float), but got: "
                f"{self.underlying}"
            )
        for name, value in (("granularity", self.granularity), ("upperbound", self.upperbound)):
            if value is not None and value <= 0:
                raise KtirError(f"runtime_arg {name} must be positive, but got: {value}")

    @classmethod
    def parse_parameters(cls, parser: AttributeParser) -> Self:
        start = parser.offset
        parser.expect("<", "behind 'runtime_arg'")
        underlying = parser.parse_type()
        bounds: dict[str, int] = {}
        while parser.accept(","):
            if not parser.at("granularity", "upperbound"):
                raise parser.error("expected 'granularity' or 'upperbound' keyword")
            place = parser.offset
            name = parser.keyword()
            if name in bounds:
                raise parser.error_at(place, f"duplicate '{name}' keyword")
            parser.expect("=", f"behind '{name}'")
            bounds[name] = parser.parse_integer()
        parser.expect(">", "in runtime_arg type")
        try:
            return cls(underlying, **bounds)
        except KtirError as error:
            raise parser.error_at(start, str(error)) from None

    def print_parameters(self, printer: Printer) -> None:
        printer.write("<")
        printer.type(self.underlying)
        if self.granularity is not None:
            printer.write(f", granularity={self.granularity}")
        if self.upperbound is not None:
            printer.write(f", upperbound={self.upperbound}")
        printer.write(">")


@attrs.frozen
class TileFutureType(Type):
    """``!ktdp.tile_future<(tensor<8xf16>), groups = #set>``: what tiles publish for one delivery.

    `partials` holds one type per role; `groups` is the set of group numbers.
    """

    mnemonic = "ktdp.tile_future"

    partials: tuple[Type, ...]
    groups: AffineSet

    def __attrs_post_init__(self) -> None:
        if not self.partials:
            raise KtirError("tile_future must carry at least one partial type")
        if self.groups.num_dims != 1:
            raise KtirError("tile_future `groups` must have exactly one dimension (g)")
        if self.groups.num_symbols:
            raise KtirError("tile_future `groups` must have no symbols")

    @classmethod
    def parse_parameters(cls, parser: AttributeParser) -> Self:
        start = parser.offset
        parser.expect("<", "behind 'tile_future'")
        partials: list[Type] = []
        if parser.at("("):
            partials = parser.parse_comma_list("(", ")", parser.parse_type)
            parser.expect(",", "in tile_future type")
        else:
            while not parser.at("groups"):
                partials.append(parser.parse_type())
                parser.expect(",", "in tile_future type")
        parser.expect("groups", "in tile_future type")
        parser.expect("=", "behind 'groups'")
        groups = parser.parse_affine_set()
        parser.expect(">", "in tile_future type")
        try:
            return cls(tuple(partials), groups)
        except KtirError as error:
            raise parser.error_at(start, str(error)) from None

    def print_parameters(self, printer: Printer) -> None:
        printer.write("<(")
        printer.types(self.partials)
        printer.write("), groups = ")
        printer.attribute(AffineSetAttr(self.groups))
        printer.write(">")


ACCESS_TILE = instance_of(
    "Multi-dimensional tile with a fixed number of dimensions and index element type", AccessTileType
)
RUNTIME_ARG = instance_of("runtime argument", RuntimeArgType)
TILE_FUTURE = instance_of("tile future", TileFutureType)
