"""Statements, the tests that name them, and the mutants of drawn statements."""

from pathlib import Path

import pytest

import checklist
import mutants
from checklist import Area, ChecklistError, Checklists, Naming
from mutants import Mutant

LISTS = Checklists(
    areas={
        "alpha": Area("alpha", ("1", "2", "3", "4"), {"4": "void"}, 2, True),
        "beta": Area("beta", ("V1", "V2"), {}, 1, False),
    },
    defaults={"packages/a/tests": "alpha", "packages/a/tests/test_special.py": "beta"},
    series={},
)
SOURCE = '''
def test_one() -> None:
    """Alpha things: alpha checklist 1, 3 and beta checklist V2."""

class TestMany:
    """Checklist 2 to 3."""

    def test_inner(self) -> None:
        """Says nothing of it."""

def helper() -> None:
    """Checklist 4."""
'''
PATH = "packages/a/tests/test_x.py"


def test_statements_named_in_docstrings() -> None:
    assert list(checklist.namings_of(PATH, SOURCE, LISTS)) == [
        Naming("alpha", "1", f"{PATH}::test_one"),
        Naming("alpha", "3", f"{PATH}::test_one"),
        Naming("beta", "V2", f"{PATH}::test_one"),
        Naming("alpha", "2", f"{PATH}::TestMany"),
        Naming("alpha", "3", f"{PATH}::TestMany"),
    ]


def test_a_number_that_is_no_statement_is_told_with_its_place() -> None:
    with pytest.raises(ChecklistError, match=r"test_x\.py::test_a: there is no statement 9"):
        list(checklist.namings_of(PATH, 'def test_a():\n    """Checklist 9."""', LISTS))


def test_a_word_that_is_no_area_is_told_and_not_taken_for_the_default() -> None:
    with pytest.raises(ChecklistError, match=r"test_x\.py::test_a: there is no area 'gamma'"):
        list(checklist.namings_of(PATH, 'def test_a():\n    """gamma checklist 1."""', LISTS))


def test_gaps_leave_out_what_has_a_reason() -> None:
    namings = (Naming("alpha", "1", "t"), Naming("beta", "V1", "t"))
    assert checklist.gaps(LISTS.areas["alpha"], namings) == ["2", "3"]


def test_the_draw_is_fixed_and_skips_what_is_left_out() -> None:
    picked = mutants.draw(LISTS.areas["alpha"], 3)
    assert picked == ("1", "2", "3")
    assert mutants.draw(checklist.load().areas["ktir"]) == mutants.draw(checklist.load().areas["ktir"])


def test_a_patch_that_no_longer_fits_is_told(tmp_path: Path) -> None:
    (tmp_path / "packages/a/src").mkdir(parents=True)
    (tmp_path / "packages/a/src/m.py").write_text("x = 1\nx = 1\n")
    (tmp_path / "packages/a/tests").mkdir()
    (tmp_path / PATH).write_text(SOURCE)
    mutant = Mutant("alpha", "1", "packages/a/src/m.py", "x = 1", "x = 2", f"{PATH}::TestMany", "m.toml")
    told = list(mutants.problems(LISTS, (mutant,), tmp_path))
    assert "alpha 1 (packages/a/src/m.py): `old` occurs 2 times" in told
    assert (
        f"alpha 1 (packages/a/src/m.py): the docstring of {PATH}::TestMany does not name the statement"
        in told
    )
    assert any(line.endswith("was drawn and has no mutant") for line in told)


def test_every_statement_of_a_complete_area_is_covered() -> None:
    lists = checklist.load()
    namings = checklist.all_namings(lists)
    assert {
        a.name: checklist.gaps(a, namings)
        for a in lists.areas.values()
        if a.complete and checklist.gaps(a, namings)
    } == {}


def test_committed_mutants_fit_the_code() -> None:
    assert list(mutants.problems(checklist.load(), mutants.load_mutants())) == []
