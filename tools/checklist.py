"""Which test covers which numbered statement.

    python tools/checklist.py               per area: covered, total, and what no test names
    python tools/checklist.py --table AREA  each statement and its tests
    python tools/checklist.py --check       exit code 1: a gap in a complete area, a number that is none

A test names the statements it covers in its docstring (or its class's): "ktir checklist 43, 45-47." The areas
and their statements are in tools/checklists.toml.
"""

import argparse
import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONFIGURATION = ROOT / "tools" / "checklists.toml"
FOLDERS = ("packages/*/tests", "integration/tests")

_ITEM = r"[A-Z]{0,2}\d+(?:\s*(?:-|to)\s*[A-Z]{0,2}\d+)?"
_LIST = rf"{_ITEM}(?:(?:\s*[,;]\s*|\s+and\s+){_ITEM})*"
_NAMING = re.compile(rf"(?:\b(?P<area>[a-z]+)\s+)?\b[Cc]hecklist:?\s+(?P<items>{_LIST})")
_RANGE = re.compile(r"(?P<series>[A-Z]{0,2})(?P<first>\d+)(?:\s*(?:-|to)\s*[A-Z]{0,2}(?P<last>\d+))?")


class ChecklistError(Exception):
    """A docstring or the configuration that cannot be read: says where and why."""


@dataclass(frozen=True)
class Area:
    """All statements of one area in order, why some are left out, and the number of mutants to draw."""

    name: str
    statements: tuple[str, ...]
    left_out: dict[str, str]
    mutants: int
    complete: bool


@dataclass(frozen=True)
class Checklists:
    """The configuration: areas by name, default areas by path, and series that belong to one area."""

    areas: dict[str, Area]
    defaults: dict[str, str]
    series: dict[str, str]

    def area_of(self, statement: str, path: str) -> str | None:
        """The area of a statement named without one: by series, by path, or the only one that has it."""
        series = self.series.get(statement.rstrip("0123456789"))
        default = series or self.default_area(path)
        if default is not None and statement in self.areas[default].statements:
            return default
        having = [area.name for area in self.areas.values() if statement in area.statements]
        return having[0] if len(having) == 1 else None

    def default_area(self, path: str) -> str | None:
        fitting = [prefix for prefix in self.defaults if path == prefix or path.startswith(prefix + "/")]
        return self.defaults[max(fitting, key=len)] if fitting else None


@dataclass(frozen=True)
class Naming:
    """One statement that one test names."""

    area: str
    statement: str
    test: str


def expand(text: str) -> Iterator[str]:
    """The statements of a list such as `V3, V5-V7 and V9`."""
    for match in _RANGE.finditer(text):
        first = int(match["first"])
        last = int(match["last"] or first)
        yield from (f"{match['series']}{number}" for number in range(first, last + 1))


def load(path: Path = CONFIGURATION) -> Checklists:
    data = tomllib.loads(path.read_text())
    defaults = data.pop("defaults")
    series = data.pop("series")
    areas = {}
    for name, entry in data.items():
        statements = tuple(expand(", ".join(entry["statements"])))
        unknown = sorted(set(entry["left_out"]) - set(statements))
        if unknown:
            raise ChecklistError(
                f"{path.name}: {name}.left_out names {unknown[0]}, which is no statement of {name}"
            )
        areas[name] = Area(name, statements, entry["left_out"], entry["mutants"], entry["complete"])
    return Checklists(areas, defaults, series)


def _documented(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Names (`test_x`, `TestC`, `TestC::test_x`) and docstrings of tests."""
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name) if name.startswith("test"):
                yield name, ast.get_docstring(node) or ""
            case ast.ClassDef(name=name) if name.startswith("Test"):
                yield name, ast.get_docstring(node) or ""
                for inner in node.body:
                    if isinstance(inner, ast.FunctionDef) and inner.name.startswith("test"):
                        yield f"{name}::{inner.name}", ast.get_docstring(inner) or ""
            case _:
                pass


def namings_of(path: str, source: str, lists: Checklists) -> Iterator[Naming]:
    """All statements that the tests of one file name.

    Raises ChecklistError for a statement that its area does not have.
    """
    for name, docstring in _documented(ast.parse(source)):
        for match in _NAMING.finditer(docstring):
            named = match["area"]
            if named is not None and named not in lists.areas:
                raise ChecklistError(f"{path}::{name}: there is no area '{named}'")
            for statement in expand(match["items"]):
                area = named or lists.area_of(statement, path)
                if area is None or statement not in lists.areas[area].statements:
                    where = f"{path}::{name}"
                    raise ChecklistError(
                        f"{where}: there is no statement {statement} in {area or 'any area'}"
                    )
                yield Naming(area, statement, f"{path}::{name}")


def all_namings(lists: Checklists, root: Path = ROOT) -> tuple[Naming, ...]:
    """Raises ChecklistError with a line for each file that names a statement that is none."""
    namings: list[Naming] = []
    errors = []
    for file in sorted(file for folder in FOLDERS for file in root.glob(f"{folder}/**/test_*.py")):
        try:
            namings.extend(namings_of(file.relative_to(root).as_posix(), file.read_text(), lists))
        except ChecklistError as error:
            errors.append(str(error))
    if errors:
        raise ChecklistError("\n".join(errors))
    return tuple(namings)


def tests_by_statement(area: Area, namings: tuple[Naming, ...]) -> dict[str, list[str]]:
    tests: dict[str, list[str]] = {statement: [] for statement in area.statements}
    for naming in namings:
        if naming.area == area.name and naming.test not in tests[naming.statement]:
            tests[naming.statement].append(naming.test)
    return tests


def gaps(area: Area, namings: tuple[Naming, ...]) -> list[str]:
    tests = tests_by_statement(area, namings)
    return [s for s in area.statements if not tests[s] and s not in area.left_out]


def _summary(lists: Checklists, namings: tuple[Naming, ...]) -> Iterator[str]:
    for area in lists.areas.values():
        missing = gaps(area, namings)
        covered = len(area.statements) - len(missing) - len(area.left_out)
        yield f"{area.name:<11} {covered:>4} of {len(area.statements)} covered, {len(area.left_out)} left out"
        if missing:
            yield "            no test names: " + " ".join(missing)


def _table(area: Area, namings: tuple[Naming, ...]) -> Iterator[str]:
    for statement, tests in tests_by_statement(area, namings).items():
        reason = f"left out: {area.left_out.get(statement, 'no reason given')}"
        yield f"{statement}: {', '.join(tests) or reason}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Which test covers which numbered statement.")
    parser.add_argument("--table", metavar="AREA")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    try:
        lists = load()
        namings = all_namings(lists)
    except ChecklistError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if options.table:
        if options.table not in lists.areas:
            parser.error(f"no area {options.table!r}; there are {', '.join(lists.areas)}")
        print("\n".join(_table(lists.areas[options.table], namings)))
        return 0
    print("\n".join(_summary(lists, namings)))
    incomplete = [area.name for area in lists.areas.values() if area.complete and gaps(area, namings)]
    if options.check and incomplete:
        print(f"error: said to be complete, with gaps: {', '.join(incomplete)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
