"""``dense<...>``: literals of element constants (ktir spec 0.3.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ktir.attributes import DenseElementsAttr, FloatAttr, IntegerAttr
from ktir.lexer import Token, TokenKind
from ktir.types import TensorType, Type, VectorType, bit_width

if TYPE_CHECKING:
    from ktir.parser.attributes import AttributeParser


@attrs.frozen
class _Literal:
    """A number or boolean of the text, to be converted when the element type is known."""

    offset: int
    negative: bool
    token: Token


def storage_bytes(element: Type) -> int:
    """Bytes of one element in `DenseElementsAttr.data`."""
    return (bit_width(element) + 7) // 8


def parse_dense(parser: AttributeParser, type: Type | None) -> DenseElementsAttr:
    """What follows the keyword ``dense``."""
    start = parser.offset
    parser.expect("<", "behind 'dense'")
    literals: list[_Literal] = []
    shape: tuple[int, ...] | None = None
    blob: bytes | None = None
    if parser.cursor.at_kind(TokenKind.STRING):
        text = parser.parse_string()
        try:
            if not text.startswith("0x"):
                raise ValueError
            blob = bytes.fromhex(text[2:])
        except ValueError:
            raise parser.error_at(
                start, "elements hex string should be hexadecimal and start with 0x"
            ) from None
    elif not parser.at(">"):
        shape = _elements(parser, literals)
    parser.expect(">", "in dense elements")
    if type is None:
        parser.expect(":", "in front of the attribute's type")
        type = parser.parse_type()
    if not isinstance(type, TensorType | VectorType) or not type.is_static:
        raise parser.error_at(start, "elements literal must be a shaped type of static extents")
    try:
        size = storage_bytes(type.element)
    except ValueError:
        raise parser.error_at(start, f"dense elements of type {type.element} are not supported") from None
    count = type.num_elements()
    if blob is not None:
        if len(blob) not in (size, size * count):
            raise parser.error_at(start, f"elements hex data size is invalid for provided type: {type}")
        return DenseElementsAttr(blob, type, splat=len(blob) == size)
    if shape is None:
        if count:
            raise parser.error_at(start, f"dense literal has no elements, but type {type} has {count}")
        return DenseElementsAttr(b"", type)
    data = b"".join(_convert(parser, literal, type.element, size) for literal in literals)
    if shape == ():
        return DenseElementsAttr(data, type, splat=True)
    if shape != type.shape:
        raise parser.error_at(
            start,
            f"inferred shape of elements literal ({list(shape)}) does not match type ({list(type.shape)})",
        )
    splat = count > 0 and data == data[:size] * count
    return DenseElementsAttr(data[:size] if splat else data, type, splat=splat)


def _elements(parser: AttributeParser, literals: list[_Literal]) -> tuple[int, ...]:
    """Reads a number or a nested list; returns its shape and appends its numbers in row-major order."""
    if not parser.at("["):
        offset = parser.offset
        negative = parser.accept("-")
        token = parser.cursor.token
        numeric = token.kind in (TokenKind.INTEGER, TokenKind.FLOAT)
        if not numeric and (negative or token.text not in ("true", "false")):
            parser.cursor.expected("an element literal")
        parser.cursor.next()
        literals.append(_Literal(offset, negative, token))
        return ()
    offset = parser.offset
    with parser.cursor.nesting():
        shapes = parser.parse_comma_list("[", "]", lambda: _elements(parser, literals))
    if any(shape != shapes[0] for shape in shapes):
        raise parser.error_at(offset, "tensor literal is invalid; ranks are not consistent between elements")
    return (len(shapes), *(shapes[0] if shapes else ()))


def _convert(parser: AttributeParser, literal: _Literal, element: Type, size: int) -> bytes:
    token = literal.token
    if token.text in ("true", "false"):
        if bit_width(element) != 1:
            raise parser.error_at(literal.offset, "expected i1 type for 'true' or 'false' values")
        return bytes([token.text == "true"])
    match parser.number_attribute(literal.offset, literal.negative, token, element):
        case IntegerAttr(value=value):
            return (value & ((1 << (8 * size)) - 1)).to_bytes(size, "little")
        case FloatAttr(bits=bits):
            return bits.to_bytes(size, "little")
        case other:
            raise parser.error_at(literal.offset, f"unexpected element {other}")
