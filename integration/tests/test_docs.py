"""The examples of the documentation run as they stand there."""

import doctest
from pathlib import Path

import pytest

from repository import ROOT

PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md") if ">>> " in path.read_text())
READMES = [ROOT / "README.md", *sorted((ROOT / "packages").glob("*/README.md"))]


def test_pages_are_found() -> None:
    assert {path.name for path in PAGES} >= {"runtime.md", "simulate.md"}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_examples_run(path: Path) -> None:
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    results = doctest.testfile(str(path), module_relative=False, optionflags=options)
    assert results.attempted > 10
    assert results.failed == 0


@pytest.mark.parametrize("path", READMES, ids=lambda path: path.parent.name)
def test_every_readme_has_an_example(path: Path) -> None:
    """They run as doctests where `./nox -s tests` and `wheels` name the files."""
    examples = doctest.DocTestParser().get_examples(path.read_text())
    assert 5 <= len(examples) <= 25
    assert any(example.want for example in examples)
