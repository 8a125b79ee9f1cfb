"""A misspelt property of a device file is an error that names what was meant, wherever it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import dfsched
import ktir
from dfsched.dialects.ktdf_arch.properties import FEATURES, PROPERTIES
from dfsched.dialects.ktdf_arch.spelling import ACCESS_FIELDS, ATTRIBUTES, FEATURE_FIELDS

DEVICES = Path(dfsched.__file__).parent / "devices"
TEXTS = [
    *(path.read_text() for path in sorted(DEVICES.glob("*.mlir"))),
    (Path(__file__).parent / "devices" / "quad.mlir").read_text(),
]
KNOWN = {
    *ATTRIBUTES,
    *ACCESS_FIELDS,
    *(f"ktdf_arch.{name}" for name in PROPERTIES),
    *(f"ktdf_arch.feature.{name}" for name in FEATURES),
    *(field for fields in FEATURE_FIELDS.values() for field in fields),
}
NAME = re.compile(r"(?<=[{, ])([a-z_]+(?:\.[a-z_]+)*)(?=\s*(?:=|[,}]))")


def uses(text: str) -> list[tuple[int, int]]:
    """Where known names are used as names of entries."""
    return [match.span(1) for match in NAME.finditer(text) if match[1] in KNOWN]


def test_the_devices_use_most_names() -> None:
    found = {text[a:b] for text in TEXTS for a, b in uses(text)}
    assert {"ktdf_ext.bandwidth", "ktdf_ext.reserved", "size", "lanes", "word_size", "size_in_words"} <= found
    assert len(found) > 20


@given(st.data())
def test_one_wrong_letter_is_found(data: st.DataObject) -> None:
    """device checklist V17, V23. A letter left out, doubled or exchanged with its neighbour."""
    text = data.draw(st.sampled_from(TEXTS))
    start, end = data.draw(st.sampled_from(uses(text)))
    name = text[start:end]
    assume(len(name.rpartition(".")[2]) > 3)
    low = len(name) - len(name.rpartition(".")[2])
    at = data.draw(st.integers(low, len(name) - 2))
    how = data.draw(st.sampled_from(["drop", "double", "swap"]))
    wrong = {
        "drop": name[:at] + name[at + 1 :],
        "double": name[:at] + name[at] + name[at:],
        "swap": name[:at] + name[at + 1] + name[at] + name[at + 2 :],
    }[how]
    assume(wrong not in KNOWN)
    module = ktir.parse(text[:start] + wrong + text[end:])
    with pytest.raises(ktir.VerifyError) as caught:
        ktir.verify(module)
    message = str(caught.value)
    assert f"'{wrong}'" in message
    assert f"did you mean '{name}'?" in message


def test_the_message() -> None:
    text = """
    ktdf_arch.device @d {
      %m = ktdf_arch.memory {kind = "DDR", size = 64, ktdf_ext.bandwith = 12.8}
    }
    """
    with pytest.raises(ktir.VerifyError) as caught:
        ktir.verify(ktir.parse(text))
    (diagnostic,) = caught.value.diagnostics
    assert "unrecognized attribute 'ktdf_ext.bandwith'" in diagnostic.message
    assert [note.message for note in diagnostic.notes] == ["did you mean 'ktdf_ext.bandwidth'?"]


def test_other_names_are_free() -> None:
    text = """
    ktdf_arch.device @d {
      %m = ktdf_arch.memory {kind = "DDR", size = 64, acme.colour = "red", ktdf_ext.vendor_code = 3}
    }
    """
    ktir.verify(ktir.parse(text))
