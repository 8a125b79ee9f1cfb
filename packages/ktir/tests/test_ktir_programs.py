"""Programs in files: good ones come back, bad ones give exactly the diagnostics that their comments expect.

``// RUN levels: VL`` says what is checked; the rest of the comments is that of `ktir.expectations`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import ktir
from ktir.cli import main
from ktir.expectations import expectations, split_source, unmet
from ktir.reporting import diagnostics_of
from ktir.transforms import alpha_equivalent, structural_hash

FOLDER = Path(__file__).parent / "programs"
CONTEXT = ktir.Context(installed=False)


def parts(path: Path) -> tuple[str, ...]:
    return split_source(path.read_text())


def findings(text: str, levels: str) -> tuple[ktir.Diagnostic, ...]:
    try:
        return ktir.check(ktir.parse(text, CONTEXT), levels)
    except ktir.KtirError as error:
        return diagnostics_of(error)


def levels(path: Path) -> str:
    match = re.search(r"^// RUN levels: (\w+)$", path.read_text(), re.M)
    assert match is not None
    return match[1]


CASES = [(path, number) for path in sorted(FOLDER.glob("*.mlir")) for number in range(len(parts(path)))]


@pytest.mark.parametrize(("path", "number"), CASES, ids=[f"{path.stem}-{number}" for path, number in CASES])
def test_diagnostics_are_exactly_the_expected_ones(path: Path, number: int) -> None:
    """ktir checklist 98. Every expected error is there, at its line, and there is no other."""
    text = parts(path)[number]
    found = findings(text, levels(path))
    assert unmet(text, found) == ()
    assert len(found) == len(expectations(text))


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


# -- the comments themselves

BAD_LINE = "func.func @f() -> index { return }"
MESSAGE = "has 0 operands"


def test_parts_keep_their_lines() -> None:
    """Spec 3.8: an alias name may come again behind a divider."""
    text = "#a = 1\nmodule {}\n// -----\n\n#a = 2\n// not ----- this\nmodule {}\n// -----  \nmodule { oops }"
    first, second, third = split_source(text)
    assert first == "#a = 1\nmodule {}\n"
    assert second == "\n\n\n\n#a = 2\n// not ----- this\nmodule {}\n"
    with pytest.raises(ktir.ParseError) as caught:
        ktir.parse(third)
    assert (caught.value.line, caught.value.column) == (9, 10)
    assert split_source("") == ("",)


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        (f"// expected-error @+1 {{{{{MESSAGE}}}}}\n{BAD_LINE}", []),
        (f"// expected-error @below {{{{{MESSAGE}}}}}\n{BAD_LINE}", []),
        (f"{BAD_LINE} // expected-error {{{{{MESSAGE}}}}}", []),
        (f"{BAD_LINE}\n// expected-error @above {{{{{MESSAGE}}}}}", []),
        (f"{BAD_LINE}\n\n// expected-error @-2 {{{{{MESSAGE}}}}}", []),
        (f"{BAD_LINE}", [(1, "unexpected error: 'func.return' op has 0 operands")]),
        (f"// expected-error {{{{{MESSAGE}}}}}\n{BAD_LINE}",
         [(2, "unexpected error: "), (1, 'expected error "has 0 operands" was not produced')]),
        (f"{BAD_LINE} // expected-error {{{{other}}}}",
         [(1, "unexpected error: "), (1, 'expected error "other" was not produced')]),
        (f"{BAD_LINE} // expected-warning {{{{has}}}}",
         [(1, "unexpected error: "), (1, 'expected warning "has" was not produced')]),
    ],
)  # fmt: skip
def test_comments_against_diagnostics(text: str, problems: list[tuple[int, str]]) -> None:
    """Every comment stands for exactly one diagnostic of its line."""
    found = unmet(text, findings(text, "V"), "<string>")
    assert len(found) == len(problems)
    for diagnostic, (line, message) in zip(found, problems, strict=True):
        assert diagnostic.message.startswith(message)
        assert diagnostic.location is not None
        place = diagnostic.location.file_line_column()
        assert place is not None
        assert place[1] == line


def test_warnings_may_be_expected() -> None:
    text = "// expected-warning @+1 {{Grid size must be positive (got 0)}}\nfunc.func @k() attributes {grid = [0]} { return }"
    found = findings(text, "S")
    assert [d.severity for d in found] == ["warning"]
    assert unmet(text, found) == ()
    assert unmet(text.replace("got 0", "got 1"), found)[0].message.startswith("expected warning")
    assert unmet(text.partition("\n")[2], found) == ()


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.mlir")), ids=lambda path: path.stem)
def test_command_line(path: Path) -> None:
    call = ["check", "--split-input-file", "--verify-diagnostics", "--level", levels(path), str(path)]
    result = CliRunner().invoke(main, call)
    assert (result.exit_code, result.stderr) == (0, "")
    if path.stem.endswith("invalid"):
        plain = CliRunner().invoke(main, ["check", "--split-input-file", "--level", levels(path), str(path)])
        assert plain.exit_code == 1
        assert plain.stderr.count(": error: ") == len(expectations(path.read_text()))
