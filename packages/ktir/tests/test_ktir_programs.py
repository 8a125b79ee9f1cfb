"""Programs in files: good ones come back, bad ones give exactly the diagnostics that their comments expect.

A file holds one module or several, divided by lines ``// -----``. ``// RUN levels: VL`` says what is checked.
``// expected-error @+1 {{text}}`` expects an error one line below that contains the text (``@below``, ``@above``,
``@-N`` and no place at all work as well).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ktir
from ktir.reporting import diagnostics_of
from ktir.transforms import alpha_equivalent, structural_hash

FOLDER = Path(__file__).parent / "programs"
CONTEXT = ktir.Context(installed=False)
_EXPECTED = re.compile(r"//\s*expected-error\s*(@(?P<place>below|above|[+-]\d+))?\s*\{\{(?P<text>.*?)\}\}")


def parts(path: Path) -> list[str]:
    """The modules of a file, each padded with empty lines so that the numbers of lines are those of the file."""
    found, start = [], 0
    for part in re.split(r"^// -----$\n", path.read_text(), flags=re.M):
        found.append("\n" * start + part)
        start += part.count("\n") + 1
    return found


def expectations(text: str) -> list[tuple[int, str]]:
    """Line and text of every error that comments expect."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        for match in _EXPECTED.finditer(line):
            place = match["place"] or "+0"
            found.append((number + {"below": 1, "above": -1}.get(place) if place.isalpha() else number + int(place), match["text"]))  # fmt: skip
    return found


def findings(text: str, levels: str) -> list[tuple[int, str]]:
    try:
        diagnostics = ktir.check(ktir.parse(text, CONTEXT), levels)
    except ktir.KtirError as error:
        diagnostics = diagnostics_of(error)
    found = []
    for diagnostic in diagnostics:
        place = diagnostic.location.file_line_column() if diagnostic.location else None
        assert place is not None, diagnostic
        found.append((place[1], diagnostic.message))
    return found


def levels(path: Path) -> str:
    match = re.search(r"^// RUN levels: (\w+)$", path.read_text(), re.M)
    assert match is not None
    return match[1]


CASES = [(path, number) for path in sorted(FOLDER.glob("*.mlir")) for number in range(len(parts(path)))]


@pytest.mark.parametrize(("path", "number"), CASES, ids=[f"{path.stem}-{number}" for path, number in CASES])
def test_diagnostics_are_exactly_the_expected_ones(path: Path, number: int) -> None:
    """ktir checklist 98. Every expected error is there, at its line, and there is no other."""
    text = parts(path)[number]
    open_ = expectations(text)
    for line, message in findings(text, levels(path)):
        fitting = [e for e in open_ if e[0] == line and e[1] in message]
        assert fitting, f"line {line}: unexpected error: {message}"
        open_.remove(fitting[0])
    assert open_ == []


GOOD = [(path, n) for path, n in CASES if not expectations(parts(path)[n])]


@pytest.mark.parametrize(("path", "number"), GOOD, ids=[f"{path.stem}-{number}" for path, number in GOOD])
def test_good_programs_come_back(path: Path, number: int) -> None:
    """ktir checklist 98-100. Custom, generic and located print read back; printing is a fixpoint.

    The files hold aliases behind the module, locations everywhere, hexadecimal floats, si32, loops over i32,
    bundles of results and the spellings of section 3.8.
    """
    module = ktir.parse(parts(path)[number], CONTEXT)
    text, generic = ktir.print_module(module), ktir.print_module(module, generic=True)
    for spelled in (text, generic, ktir.print_module(module, locations=True)):
        again = ktir.parse(spelled, CONTEXT)
        assert alpha_equivalent(module, again)
        assert structural_hash(module) == structural_hash(again)
        assert ktir.print_module(again) == text
        assert ktir.print_module(again, generic=True) == generic


def test_oddities_print_canonically() -> None:
    """ktir checklist 100. What the odd spellings mean."""
    (text,) = parts(FOLDER / "oddities.mlir")
    printed = ktir.print_module(ktir.parse(text, CONTEXT))
    for line in (
        'func.func @"local-schedule-0"(%id: index, %n: index) attributes {grid = [2 : i32]} {',
        "ktdp.construct_memory_view %id, sizes: [8, 1], strides: [1, 1] {coordinate_set = #set, memory_space = "
        "#ktdp.memory_space<global>} : memref<8x1xf16>",
        "memory_space = #ktdp.memory_space<ct_local, ct_id = 1>} : memref<?xsi32>",
        "#set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 7 >= 0, -d1 >= 0, d1 >= 0)>",
        "ktdp.construct_distributed_memory_view() : memref<4xf16>",
        "intermediate_variables(%arg0) %3[ind(%4[%arg0]), (0)] symbols(%n)",
        "!ktdp.runtime_arg<index, granularity=32, upperbound=300>",
        'call @inner::@"local-schedule-0"',
    ):
        assert line in printed, line
    located = ktir.print_module(ktir.parse(text, CONTEXT), locations=True)
    assert 'loc("name"("k.py":12:4))' in located
    assert 'loc(fused<"pass">["a", callsite("f" at "g.py":3:4)])' in located
    assert '%id: index loc("k.py":1:2)' in located
