"""Texts as the field's repositories have them: valid ones in every spelling, invalid ones with their diagnostics.

Files are split at lines ``// -----``; each part is a module of its own. A comment ``// RUN: VLS`` names the levels
of checking (default V). An invalid part names every diagnostic that it must get, by
``// expected-error[@below|@above|@+N|@-N] {{part of the message}}`` (or ``expected-warning``, or
``expected-note`` for what a diagnostic adds).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ktir
from ktir.location import Location
from ktir.reporting import diagnostics_of
from ktir.transforms import alpha_equivalent

CORPUS = Path(__file__).parent / "corpus"
VALID = sorted((CORPUS / "valid").glob("*.mlir"))
INVALID = sorted((CORPUS / "invalid").glob("*.mlir"))
EXPECTED = re.compile(r"//\s*expected-(error|warning|note)(@(?:below|above|[+-]\d+))?\s*\{\{(.*?)\}\}")
Found = tuple[str, int, str]
"""Severity, line in the file, message (or a part of it)."""


def parts(path: Path) -> list[tuple[int, str]]:
    """The modules of a file, each with the number of lines in front of it."""
    found: list[tuple[int, str]] = []
    lines = path.read_text().split("\n")
    start = 0
    for number, line in enumerate([*lines, "// -----"]):
        if line.strip() == "// -----":
            text = "\n".join(lines[start:number]).rstrip()
            if re.sub(r"//[^\n]*", "", text).strip():
                found.append((start, text))
            start = number + 1
    return found


def levels(text: str) -> str:
    found = re.search(r"//\s*RUN:\s*([A-Z]+)", text)
    return found.group(1) if found else "V"


def diagnostics(path: Path, before: int, text: str, asked: str) -> list[ktir.Diagnostic]:
    """All findings in a part, at places in the whole file."""
    try:
        module = ktir.parse("\n" * before + text, None, str(path))
    except ktir.ParseError as error:
        return list(diagnostics_of(error))
    return list(ktir.check(module, asked))


def expected(before: int, text: str) -> list[Found]:
    found: list[Found] = []
    for number, line in enumerate(text.split("\n"), start=before + 1):
        for severity, where, message in EXPECTED.findall(line):
            step = {"": 0, "@below": 1, "@above": -1}.get(where)
            found.append((severity, number + (int(where[1:]) if step is None else step), message))
    return found


def flat(diagnostic: ktir.Diagnostic) -> list[Found]:
    """A diagnostic and its notes; notes without a place count where the diagnostic is."""

    def line(location: object) -> int:
        place = location.file_line_column() if isinstance(location, Location) else None
        return place[1] if place else 0

    here = line(diagnostic.location)
    notes = [("note", line(note.location) or here, note.message) for note in diagnostic.notes]
    return [(diagnostic.severity, here, diagnostic.message), *notes]


def identity(path: Path) -> str:
    return path.stem


def test_the_corpus_is_there() -> None:
    assert len(VALID) >= 30
    assert len(INVALID) >= 40


@pytest.mark.parametrize("path", VALID, ids=identity)
def test_valid(path: Path) -> None:
    """ktir checklist 98-101.

    No finding at the levels that the file asks for; printing is a fixed point in custom and generic form, with
    and without locations, with canonical names and with those of the source.
    """
    asked = levels(path.read_text())
    for before, text in parts(path):
        assert diagnostics(path, before, text, asked) == []
        module = ktir.parse(text)
        custom, generic = (ktir.print_module(module, generic=generic) for generic in (False, True))
        for again in map(ktir.parse, (custom, generic)):
            ktir.verify(again)
            assert alpha_equivalent(again, module)
            assert ktir.print_module(again) == custom
            assert ktir.print_module(again, generic=True) == generic
        located = ktir.print_module(module, locations=True)
        assert ktir.print_module(ktir.parse(located), locations=True) == located
        named = ktir.print_module(module, names="source")
        assert ktir.print_module(ktir.parse(named)) == custom


@pytest.mark.parametrize("path", VALID, ids=identity)
def test_layout_of_the_text_has_no_meaning(path: Path) -> None:
    """The same module in one line, and with a line break behind every token."""
    for _, text in parts(path):
        module = ktir.print_module(ktir.parse(text))
        if '"' in module:  # a string may hold anything
            continue
        assert ktir.print_module(ktir.parse(" ".join(module.split()))) == module
        broken = re.sub(r"(?<=[\s,(){}\[\]=])|(?=[,(){}\[\]=])", "\n", module).replace("\n=\n=", "==")
        broken = re.sub(r"([><])\s*=", r"\1=", broken)
        assert ktir.print_module(ktir.parse(broken)) == module


def matches(want: Found, got: Found) -> bool:
    return want[0] == got[0] and want[1] == got[1] and want[2] in got[2]


@pytest.mark.parametrize("path", INVALID, ids=identity)
def test_invalid(path: Path) -> None:
    """ktir checklist 98: exactly the expected diagnostics, each on its line."""
    asked = levels(path.read_text())
    for before, text in parts(path):
        wanted = expected(before, text)
        assert any(severity != "note" for severity, _, _ in wanted), (
            f"{path}:{before + 1}: nothing is expected"
        )
        got = [finding for d in diagnostics(path, before, text, asked) for finding in flat(d)]
        asks_notes = any(severity == "note" for severity, _, _ in wanted)
        for finding in got:
            if finding[0] == "note" and not asks_notes:
                continue
            hits = [want for want in wanted if matches(want, finding)]
            assert hits, f"{path}:{finding[1]}: unexpected {finding[0]}: {finding[2]}"
            wanted.remove(hits[0])
        assert not wanted, "not reported: " + ", ".join(f"{path}:{line}: {s}: {m}" for s, line, m in wanted)
