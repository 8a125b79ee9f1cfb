"""The examples of the documentation run as they stand there."""

import doctest
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

import dfsched.cli
import ktir.cli
import spyrert.cli
import spyresim.cli
from repository import ROOT

PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md") if ">>> " in path.read_text())
CONSOLES = sorted(path for path in (ROOT / "docs").rglob("*.md") if "```console" in path.read_text())
MAINS = {
    "ktir": ktir.cli.main,
    "dfsched": dfsched.cli.main,
    "spyrert": spyrert.cli.main,
    "spyresim": spyresim.cli.main,
}
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


@pytest.mark.parametrize("path", CONSOLES, ids=lambda path: path.stem)
def test_commands_print_what_the_page_says(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks with a title are files; blocks of a console are commands and what they print (``...`` is anything)."""
    monkeypatch.chdir(tmp_path)
    text = path.read_text()
    for name, content in re.findall(r'```\w+ title="([\w.]+)"\n(.*?)```', text, re.DOTALL):
        (tmp_path / name).write_text(content)
    commands = 0
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, _, wanted = step.partition("\n")
            program, *arguments = shlex.split(line)
            result = CliRunner().invoke(MAINS[program], arguments)
            assert result.exit_code == 0, result.output
            flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
            assert doctest.OutputChecker().check_output(wanted, result.output, flags), (line, result.output)
            commands += 1
    assert commands
