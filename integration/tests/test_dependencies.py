"""Who may import whom: what the sources import is what the packages declare, and the packages form a DAG."""

import ast
import sys
from dataclasses import dataclass
from graphlib import TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from repository import Package, distribution_name, load_packages, siblings

PACKAGES = load_packages()
DISTRIBUTIONS = {
    name: {d.lower().replace("_", "-") for d in ds} for name, ds in packages_distributions().items()
}


@dataclass(frozen=True)
class Import:
    """One imported module: `from a.b import c` gives module `a.b` and name `c`; optional in `try`."""

    module: str
    name: str | None
    line: int
    optional: bool

    @property
    def top(self) -> str:
        return self.module.split(".")[0]


def imports_of(text: str) -> list[Import]:
    """All absolute imports, also those inside of functions, under TYPE_CHECKING and by `import_module`."""
    tree = ast.parse(text)
    optional = {
        node
        for attempt in ast.walk(tree)
        if isinstance(attempt, ast.Try) and any(catches_import_error(handler) for handler in attempt.handlers)
        for statement in attempt.body
        for node in ast.walk(statement)
    }
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found += [Import(alias.name, None, node.lineno, node in optional) for alias in names]
            case ast.ImportFrom(module=str(module), names=names, level=0):
                found += [Import(module, alias.name, node.lineno, node in optional) for alias in names]
            case ast.Call(
                func=ast.Attribute(attr="import_module") | ast.Name(id="import_module" | "__import__"),
                args=[ast.Constant(value=str(module)), *_],
            ):
                found.append(Import(module, None, node.lineno, node in optional))
    return found


def catches_import_error(handler: ast.ExceptHandler) -> bool:
    match handler.type:
        case ast.Name(id="ImportError" | "ModuleNotFoundError"):
            return True
    return False


def extras_of(package: Package, file: Path, root: Path) -> tuple[str, ...]:
    """The extra that a file belongs to: `rangeify/ktir/lower.py` and `tests/ktir/test_x.py` to `ktir`.

    A sub-package `testing` is for tests, which have the extra `test`.
    """
    folder = file.relative_to(root).parts[0]
    return (
        ("test",) if folder == "testing" else tuple(e for e in package.extras if e != "test" and e == folder)
    )


def _is_beside(folder: Path, name: str) -> bool:
    """Whether a folder of tests holds the module or package of that name."""
    if "tests" not in folder.parts:
        return False
    return (folder / f"{name}.py").exists() or (folder / name / "__init__.py").exists()


def undeclared(package: Package, file: Path, text: str, extras: tuple[str, ...]) -> list[str]:
    """Imports of a file that its package (with the extras) does not declare.

    A third-party import that a missing distribution does not break (`except ImportError`) may be declared by
    any extra, `test` included; a package of this repository may not.
    """
    declared = {distribution_name(requirement) for requirement in package.requirements(extras)}
    anywhere = {distribution_name(text) for text in package.requirements(tuple(package.extras))}
    wrong = []
    for item in imports_of(text):
        if item.top in sys.stdlib_module_names or item.top == package.name:
            continue
        if "tests" in file.parts and any(_is_beside(folder, item.top) for folder in file.parents):
            continue  # a helper beside the test
        distributions = {item.top} if item.top in PACKAGES else DISTRIBUTIONS.get(item.top, {item.top})
        allowed = anywhere if item.optional and item.top not in PACKAGES else declared
        if not distributions & allowed:
            wrong.append(f"{file}:{item.line}: imports {item.module}, which {package.name} does not declare")
    return wrong


@pytest.mark.parametrize("package", PACKAGES.values(), ids=list(PACKAGES))
def test_sources_import_only_what_is_declared(package: Package) -> None:
    source = package.folder / "src" / package.name
    files = sorted(source.rglob("*.py"))
    assert files
    wrong = [
        line
        for file in files
        for line in undeclared(package, file, file.read_text(), extras_of(package, file, source))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", PACKAGES.values(), ids=list(PACKAGES))
def test_tests_import_only_what_is_declared(package: Package) -> None:
    """Else `wheels` would find it, but later."""
    folder = package.folder / "tests"
    wrong = [
        line
        for file in sorted(folder.rglob("*.py"))
        for line in undeclared(package, file, file.read_text(), ("test", *extras_of(package, file, folder)))
    ]
    assert not wrong, "\n".join(wrong)


def test_packages_form_a_dag() -> None:
    graph = {name: siblings(PACKAGES, name, tuple(package.extras)) for name, package in PACKAGES.items()}
    order = list(TopologicalSorter(graph).static_order())  # raises CycleError
    assert set(order) == set(PACKAGES)
    assert graph["uopgraph"] == graph["ktir"] == graph["spyrert"] == frozenset()
    assert siblings(PACKAGES, "rangeify") == {"uopgraph"}
    assert siblings(PACKAGES, "rangeify", ("ktir",)) == {"uopgraph", "ktir"}
    assert graph["rangeify"] == {"uopgraph", "ktir", "dfsched", "spyrert"}
    assert graph["dfsched"] == {"ktir", "spyrert"}
    assert graph["spyresim"] == {"ktir", "dfsched", "spyrert"}


def test_scheduler_knows_only_the_artefact_of_the_runtime() -> None:
    """dfsched imports nothing of spyrert but `spyrert.spyrecode` and the errors that it raises."""
    wrong = []
    for file in sorted((PACKAGES["dfsched"].folder / "src").rglob("*.py")):
        for item in imports_of(file.read_text()):
            full = f"{item.module}.{item.name}" if item.name else item.module
            artefact = f"{full}.".startswith(("spyrert.spyrecode.", "spyrert.errors."))
            if item.top == "spyrert" and not artefact:
                wrong.append(f"{file}:{item.line}: {full}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("import ktir", ["ktir"]),
        ("def f():\n    from ktir.ir import Value", ["ktir.ir"]),
        ("import importlib\nimportlib.import_module('spyrert.stream')", ["spyrert.stream"]),
        ("import click", ["click"]),
        ("try:\n    import click, hypothesis, ktir\nexcept ImportError:\n    pass", ["click", "ktir"]),
        ("try:\n    import hypothesis\nexcept ValueError:\n    pass", ["hypothesis"]),
        ("import attrs, attr, re\nfrom . import ktir\nimport uopgraph.ops", []),
    ],
)
def test_undeclared_imports_are_seen(text: str, wrong: list[str]) -> None:
    package = PACKAGES["uopgraph"]
    found = undeclared(package, Path("x.py"), text, ())
    assert [line.split("imports ")[1].split(",")[0] for line in found] == wrong
