"""Reading MLIR text: recursive descent over `ktir.lexer.Cursor`."""

from ktir.parser.attributes import Alias, AttributeParser, Environment
from ktir.parser.operations import OpParser, Unresolved, parse

__all__ = ["Alias", "AttributeParser", "Environment", "OpParser", "Unresolved", "parse"]
