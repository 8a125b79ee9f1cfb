"""Exceptions as diagnostics: the message alone, the place apart."""

from __future__ import annotations

import pytest

from ktir.errors import Diagnostic, KtirError, ParseError, RewriteLimitError, UnsupportedError, VerifyError
from ktir.location import FileLineColLoc
from ktir.reporting import diagnostics_of

PLACE = FileLineColLoc("a.mlir", 3, 5)


@pytest.mark.parametrize(
    ("error", "place"),
    [
        (ParseError("no such thing", "a.mlir", 3, 5), PLACE),
        (VerifyError((Diagnostic("no such thing", PLACE),)), PLACE),
        (UnsupportedError("no such thing", PLACE), PLACE),
        (UnsupportedError("no such thing"), None),
        (RewriteLimitError("no such thing", 7), None),
        (KtirError("no such thing"), None),
    ],
)
def test_a_message_has_neither_place_nor_severity(error: KtirError, place: FileLineColLoc | None) -> None:
    (diagnostic,) = diagnostics_of(error)
    assert (diagnostic.message, diagnostic.location) == ("no such thing", place)
