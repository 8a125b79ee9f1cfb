"""Operations of packages that may not be installed, kept as text (readings: packages).

A ``ktdf_arch.device`` at top level belongs to a scheduler package.  Without it the operation is captured
verbatim and printed back, so that ktir alone can check and format a file that names its device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktir.attributes import StringAttr
from ktir.ir import Operation
from ktir.lexer import Token, TokenKind
from ktir.opdef import SYMBOL, attribute, operation, optional_attribute

if TYPE_CHECKING:
    from ktir.parser import OpParser
    from ktir.printer import Printer

VERBATIM = frozenset(["ktdf_arch.device"])


@operation("builtin.verbatim", traits=(SYMBOL,))
class VerbatimOp(Operation):
    """An operation captured as its source text (`text`), with its symbol name if it has one."""

    text = attribute(StringAttr)
    sym_name = optional_attribute(StringAttr)

    @classmethod
    def parse_verbatim(cls, parser: OpParser, start: Token) -> VerbatimOp:
        """Capture ``NAME @symbol? (attributes {...})? (import (...) | {...})``."""
        cursor = parser.cursor
        symbol = parser.parse_optional_symbol_name()
        if parser.accept("attributes"):
            parser.skip_balanced()
        if cursor.at_kind(TokenKind.BARE_ID) and parser.at("import"):
            cursor.next()
        if not parser.at("(", "{"):
            cursor.expected("'import(...)' or '{...}'")
        parser.skip_balanced()
        text = parser.environment.source.text[start.start : cursor.previous_end]
        attributes = {"text": StringAttr(text)}
        if symbol is not None:
            attributes["sym_name"] = StringAttr(symbol)
        return cls.create(attributes=attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(self.text.value)
