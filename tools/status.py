"""The table "what works today" of README.md, made from test results.

    python tools/status.py --check RESULTS.xml     exit code 1 when README.md says something else
    python tools/status.py --write RESULTS.xml     write it

`docs/features.toml` names the features and the tests that show each; RESULTS.xml is the JUnit file that
`./nox -s tests` leaves. The table holds neither counts nor times nor dates: it changes only when a feature's
state does.
"""

import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FEATURES = ROOT / "docs" / "features.toml"
README = ROOT / "README.md"
BEGIN = "<!-- features: written by `./nox -s status` -->"
END = "<!-- end of features -->"


class StatusError(Exception):
    """Input that the table cannot be made from: says which file and what is wrong with it."""


class State(Enum):
    """What the tests of a feature say."""

    WORKS = "works"
    PARTLY = "partly"
    FAILS = "fails"
    PLANNED = "not yet"


class Outcome(Enum):
    """What happened to one test."""

    PASSED = "passed"
    SKIPPED = "skipped"
    EXPECTED_FAILURE = "xfailed"
    FAILED = "failed"


@dataclass(frozen=True)
class Feature:
    """A line of the table. A test is a node id of pytest, or a folder, file or class."""

    area: str
    name: str
    tests: tuple[str, ...]


def load_features(path: Path) -> tuple[Feature, ...]:
    features = []
    for area, entries in tomllib.loads(path.read_text()).items():
        for entry in entries:
            if set(entry) != {"name", "tests"} or not isinstance(entry["tests"], list):
                raise StatusError(f"{path}: an entry of [[{area}]] needs `name` and a list `tests`: {entry}")
            features.append(Feature(area, entry["name"], tuple(entry["tests"])))
    return tuple(features)


def load_outcomes(path: Path) -> dict[str, Outcome]:
    """Outcome by node id: `packages/ktir/tests/test_text.py::TestPrint::test_generic[2]`."""
    try:
        cases = list(ElementTree.parse(path).iter("testcase"))
    except (OSError, ElementTree.ParseError) as error:
        raise StatusError(f"{path}: no test results ({error}); run ./nox -s tests first") from error
    outcomes = {}
    for case in cases:
        file, classname, name = case.get("file", ""), case.get("classname", ""), case.get("name", "")
        if not file:
            raise StatusError(f"{path}: no `file` of {classname}.{name}; use -o junit_family=xunit1")
        module = file.removesuffix(".py").replace("/", ".")
        classes = classname.removeprefix(module).strip(".").split(".") if classname.startswith(module) else []
        outcomes["::".join([file, *filter(None, classes), name])] = outcome(case)
    return outcomes


def outcome(case: ElementTree.Element) -> Outcome:
    if case.find("failure") is not None or case.find("error") is not None:
        return Outcome.FAILED
    skipped = case.find("skipped")
    if skipped is None:
        return Outcome.PASSED
    return Outcome.EXPECTED_FAILURE if skipped.get("type") == "pytest.xfail" else Outcome.SKIPPED


def state(feature: Feature, outcomes: dict[str, Outcome]) -> State:
    """A feature works when each of its entries has a passed test and none fails, expectedly or not."""
    found = [
        {outcome for name, outcome in outcomes.items() if selects(test, name)} - {Outcome.SKIPPED}
        for test in feature.tests
    ]
    seen = set().union(*found)
    if Outcome.FAILED in seen:
        return State.FAILS
    if Outcome.PASSED not in seen:
        return State.PLANNED
    return State.WORKS if all(one == {Outcome.PASSED} for one in found) else State.PARTLY


def selects(test: str, name: str) -> bool:
    return name == test or (name.startswith(test) and (test.endswith("/") or name[len(test)] in "/:["))


def table(features: Iterable[Feature], outcomes: dict[str, Outcome]) -> str:
    lines = ["| package | feature | state |", "|---|---|---|"]
    lines += [f"| `{item.area}` | {item.name} | {state(item, outcomes).value} |" for item in features]
    return "\n".join(lines)


def replace_table(text: str, new: str) -> str:
    """The text of README.md with a new table between the markers."""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise StatusError(f"README.md: the markers {BEGIN} and {END} must stand there once, in this order")
    head, rest = text.split(BEGIN)
    return f"{head}{BEGIN}\n\n{new}\n\n{END}{rest.split(END)[1]}"


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or arguments[0] not in ("--check", "--write"):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        outcomes = load_outcomes(Path(arguments[1]))
        old = README.read_text()
        new = replace_table(old, table(load_features(FEATURES), outcomes))
    except StatusError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if old == new:
        print("the table in README.md agrees with the test results")
        return 0
    if arguments[0] == "--write":
        README.write_text(new)
        print("wrote the table in README.md")
        return 0
    before = set(old.splitlines())
    stale = "\n".join(line for line in new.splitlines() if line not in before)
    print(f"README.md is stale; it should say:\n{stale}\nRun ./nox -s status and commit.", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
