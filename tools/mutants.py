"""Committed patches that break the code, and the tests that must notice.

    python tools/mutants.py --draw AREA [N]  the statements that the area's mutants are about
    python tools/mutants.py --check          exit code 1: a drawn statement without one, a patch that misfits
    python tools/mutants.py [AREA ...]       run them: the test passes as the code is, fails when patched
    python tools/mutants.py --only TEXT      run those whose statement, file or test contains the text

Mutants stand in `packages/<name>/tests/mutants.toml`:

    [[mutant]]
    statement = "ktir 43"
    file = "packages/ktir/src/ktir/dialects/ktdp/access.py"
    old = '''if access_tile_set is None:'''
    new = '''if False:'''
    test = "packages/ktir/tests/test_ktir_ktdp.py::test_missing_set"

`old` occurs exactly once in the file, which belongs to a package's `src`. The file is patched in a copy of
that package's sources; nothing in the working tree changes.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from checklist import ROOT, Area, ChecklistError, Checklists, Naming, all_namings, load

TIMEOUT_SECONDS = 300
PYTEST = ("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist")
PASSED, FAILED = 0, 1


@dataclass(frozen=True)
class Mutant:
    """One patch: the statement it is about, where `old` becomes `new`, and the test that must fail."""

    area: str
    statement: str
    file: str
    old: str
    new: str
    test: str
    source: str

    @property
    def sources(self) -> Path:
        """`packages/<name>/src`, relative to the repository."""
        return Path(*Path(self.file).parts[:3])

    def __str__(self) -> str:
        return f"{self.area} {self.statement} ({self.file})"


def draw(area: Area, count: int | None = None) -> tuple[str, ...]:
    """The statements that need a mutant: the first of a fixed shuffle that are not left out."""
    shuffled = list(area.statements)
    random.Random(f"mutants of {area.name}").shuffle(shuffled)
    picked = [s for s in shuffled if s not in area.left_out][: area.mutants if count is None else count]
    return tuple(sorted(picked, key=area.statements.index))


def load_mutants(root: Path = ROOT) -> tuple[Mutant, ...]:
    mutants = []
    for path in sorted(root.glob("packages/*/tests/mutants.toml")):
        for entry in tomllib.loads(path.read_text()).get("mutant", []):
            area, statement = entry.pop("statement").split()
            mutants.append(Mutant(area, statement, **entry, source=path.relative_to(root).as_posix()))
    return tuple(mutants)


def _misfits(mutant: Mutant, lists: Checklists, namings: tuple[Naming, ...], root: Path) -> Iterator[str]:
    path = root / mutant.file
    if mutant.area not in lists.areas or mutant.statement not in lists.areas[mutant.area].statements:
        yield f"{mutant.source}: there is no statement {mutant.area} {mutant.statement}"
    if (
        mutant.sources.parts[:1] != ("packages",)
        or mutant.sources.parts[2:] != ("src",)
        or not path.is_file()
    ):
        yield f"{mutant}: no file of a package's src"
    elif (count := path.read_text().count(mutant.old)) != 1:
        yield f"{mutant}: `old` occurs {count} times"
    tests = {n.test for n in namings if (n.area, n.statement) == (mutant.area, mutant.statement)}
    if mutant.test.split("[")[0] not in tests:
        yield f"{mutant}: the docstring of {mutant.test} does not name the statement"


def problems(lists: Checklists, mutants: tuple[Mutant, ...], root: Path = ROOT) -> Iterator[str]:
    """What `--check` complains about."""
    namings = all_namings(lists, root)
    for mutant in mutants:
        yield from _misfits(mutant, lists, namings, root)
    for area in lists.areas.values():
        if area.complete:
            have = {m.statement for m in mutants if m.area == area.name}
            yield from (f"{area.name} {s} was drawn and has no mutant" for s in draw(area) if s not in have)


def run_test(test: str, sources: Path | None = None) -> tuple[int, str]:
    """Pytest's exit code and output for one test; with the sources of one package taken from elsewhere."""
    environment = dict(os.environ, PYTHONPATH=str(sources)) if sources else dict(os.environ)
    command = (sys.executable, *PYTEST, test)
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
        )
    except subprocess.TimeoutExpired:
        return FAILED, f"no end within {TIMEOUT_SECONDS} s"
    return done.returncode, done.stdout + done.stderr


def survives(mutant: Mutant) -> str | None:
    """Why the mutant counts as unnoticed, or None when its test fails as it must.

    Only failing tests count: a patch that breaks the import (pytest's exit code 2 and above) proves nothing.
    """
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder) / "src"
        shutil.copytree(ROOT / mutant.sources, copied, ignore=shutil.ignore_patterns("__pycache__"))
        file = copied / Path(mutant.file).relative_to(mutant.sources)
        file.write_text(file.read_text().replace(mutant.old, mutant.new))
        code, output = run_test(mutant.test, copied)
    if code == FAILED:
        return None
    return "the test passes" if code == PASSED else f"pytest ended with exit code {code}:\n{output[-2000:]}"


def run(mutants: Iterable[Mutant]) -> int:
    """Run all; the number of mutants that were not noticed. A line each."""
    unnoticed = 0
    sound: dict[str, str | None] = {}
    for mutant in mutants:
        if mutant.test not in sound:
            code, output = run_test(mutant.test)
            sound[mutant.test] = None if code == PASSED else f"fails without the patch:\n{output[-2000:]}"
        reason = sound[mutant.test] or survives(mutant)
        print(f"{'UNNOTICED' if reason else 'noticed':<10} {mutant}: {mutant.test}", flush=True)
        if reason:
            unnoticed += 1
            print(f"    {reason}")
    return unnoticed


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Patches that break the code, and the tests that must notice."
    )
    parser.add_argument("areas", nargs="*", metavar="AREA")
    parser.add_argument("--draw", nargs="+", metavar=("AREA", "N"))
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", metavar="TEXT", default="")
    options = parser.parse_args(arguments)
    lists = load()
    unknown = {*options.areas, *(options.draw or ())[:1]} - set(lists.areas)
    if unknown:
        parser.error(f"no area {sorted(unknown)[0]!r}; there are {', '.join(lists.areas)}")
    if options.draw:
        print(
            " ".join(draw(lists.areas[options.draw[0]], int(options.draw[1]) if options.draw[1:] else None))
        )
        return 0
    mutants = load_mutants()
    if options.check:
        try:
            found = list(problems(lists, mutants))
        except ChecklistError as error:
            found = [str(error)]
        print("\n".join(found) or f"{len(mutants)} mutants fit")
        return 1 if found else 0
    chosen = [
        m
        for m in mutants
        if (not options.areas or m.area in options.areas) and options.only in f"{m} {m.statement} {m.test}"
    ]
    unnoticed = run(chosen)
    print(f"{len(chosen)} mutants, {unnoticed} unnoticed")
    return 1 if unnoticed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
