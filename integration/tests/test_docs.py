"""The examples of the documentation run as they stand there."""

import doctest
import re
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import dfsched.cli
import dfsched.errors
import ktir.cli
import spyrert.cli
import spyresim.cli
import spyresim.errors
from dfsched.pipeline import PASSES
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


def test_reference_pages_name_everything() -> None:
    """Passes in order and commands with their options; `python tools/reference_pages.py` writes the pages."""
    passes = (ROOT / "docs" / "reference" / "passes.md").read_text()
    rows = re.findall(r"^\| \d+ \| `([\w-]+)`", passes, re.MULTILINE)
    assert rows == [item.name for item in PASSES]
    commands = (ROOT / "docs" / "reference" / "commands.md").read_text()
    for name, main in MAINS.items():
        assert isinstance(main, click.Group)
        for inner, command in main.commands.items():
            assert f"## `{name} {inner}" in commands
            options = [o for p in command.params if isinstance(p, click.Option) for o in p.opts]
            assert [o for o in options if o not in commands] == []


def test_errors_are_documented() -> None:
    """The page of diagnostics names every error that dfsched and spyresim raise."""
    page = (ROOT / "docs" / "reference" / "diagnostics.md").read_text()
    public = {name for name in (*dfsched.errors.__all__, *spyresim.errors.__all__) if name[0].isupper()}
    bases = {"DfschedError", "SpyresimError", "ExecutionFault", "MemoryFault"}
    faults = {
        name
        for name in public
        if name.endswith(("Error", "Fault", "Setting", "NotFound")) or "Unsupported" in name
    }
    assert {name for name in faults - bases if f"`{name}`" not in page} == set()
