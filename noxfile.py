"""Sessions of the repository; `./nox --list` shows them, CONTRIBUTING.md explains them.

All but `docs` run in the `.venv` that `./nox` has made: one environment, ready at once. What must be seen in
clean environments is seen by `wheels`, which makes its own.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import nox

nox.needs_version = ">=2024.4"
nox.options.default_venv_backend = "none"
nox.options.sessions = ["tests"]

ROOT = Path(__file__).parent
PACKAGES = ("uopgraph", "ktir", "spyrert", "rangeify", "dfsched", "spyresim")
RESULTS = Path("out") / "results"
WORKERS = str(min(os.cpu_count() or 1, 8))


def python(session: nox.Session, *arguments: str, **environment: str) -> None:
    session.run(sys.executable, *arguments, env=environment or None)


def test_paths(package: str) -> list[str]:
    """Tests, doctests of the modules, and the README's example of one package."""
    root = Path("packages") / package
    if not any((ROOT / root / "tests").rglob("test_*.py")):
        raise FileNotFoundError(f"packages/{package} has no tests")
    return [str(root / part) for part in ("tests", "src", "README.md")]


def names_paths(session: nox.Session) -> bool:
    """Whether paths are among the words after `--`: they stand for the paths of the session."""
    return any((ROOT / word.split("::")[0]).exists() for word in session.posargs)


def pytest(session: nox.Session, results: str, paths: list[str], **environment: str) -> None:
    """Run pytest on two or more workers; exit code 5 (no test ran) is a failure like any other."""
    if names_paths(session):
        paths = []
    (ROOT / RESULTS).mkdir(parents=True, exist_ok=True)
    alone = any(word.startswith(("-n", "--pdb", "-x")) for word in session.posargs)
    options = [*([] if alone else ["-n", WORKERS]), "--doctest-modules", "--doctest-glob=README.md"]
    python(
        session,
        *("-m", "pytest", f"--junit-xml={RESULTS / results}.xml", "-o", "junit_family=xunit1"),
        *(*options, *paths, *session.posargs),
        **environment,
    )


@nox.session
def tests(session: nox.Session) -> None:
    """All tests of all packages and the integration tests; then the table of README.md is compared."""
    paths = [path for package in PACKAGES for path in test_paths(package)]
    pytest(session, "tests", [*paths, "integration/tests", "README.md"])
    if session.posargs:
        session.log("part of the tests was asked for: the table in README.md is not compared")
    else:
        python(session, "tools/status.py", "--check", str(RESULTS / "tests.xml"))


def tests_of(package: str) -> Callable[[nox.Session], None]:
    def run(session: nox.Session) -> None:
        pytest(session, f"tests-{package}", test_paths(package))

    run.__doc__ = f"The tests of {package}."
    return run


for _package in PACKAGES:
    nox.session(name=f"tests-{_package}")(tests_of(_package))


@nox.session
def integration(session: nox.Session) -> None:
    """The tests that need several packages."""
    pytest(session, "integration", ["integration/tests"])


@nox.session
def sweeps(session: nox.Session) -> None:
    """All tests with the full counts of fuzz and random programs (long)."""
    folders = [f"packages/{name}/tests" for name in PACKAGES]
    pytest(session, "sweeps", [*folders, "integration/tests"], SWEEPS="1")


@nox.session
def mutants(session: nox.Session) -> None:
    """Break the code as the committed patches say, one at a time; the test each names must fail (long)."""
    python(session, "tools/mutants.py", *session.posargs)


@nox.session
def status(session: nox.Session) -> None:
    """Write the table of README.md anew from the results of the last `tests`."""
    python(session, "tools/status.py", "--write", str(RESULTS / "tests.xml"))


@nox.session
def types(session: nox.Session) -> None:
    """mypy --strict over all packages, the tools and the pipelines."""
    sources = [*(f"packages/{name}/src" for name in PACKAGES), "tools", "noxfile.py", "integration/pipelines"]
    python(session, "-m", "mypy", "--strict", *sources, *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """ruff: rules and format."""
    python(session, "-m", "ruff", "check", ".")
    python(session, "-m", "ruff", "format", "--check", ".")


@nox.session
def wheels(session: nox.Session) -> None:
    """Build each wheel, install it alone in an empty environment, run its tests there."""
    python(session, "tools/wheels.py", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """The benchmarks (`bench_*.py`)."""
    folders = [f"packages/{name}/benchmarks" for name in PACKAGES] + ["integration/benchmarks"]
    present = [folder for folder in folders if any((ROOT / folder).rglob("bench_*.py"))]
    if not present:
        session.error("there is no benchmark")
    options = ["-o", "python_files=bench_*.py"]
    python(session, "-m", "pytest", *options, *([] if names_paths(session) else present), *session.posargs)


@nox.session(venv_backend="venv", reuse_venv=True)
def docs(session: nox.Session) -> None:
    """Build the documentation site into out/site; `./nox -s docs -- serve` shows it while you write."""
    session.install("-q", "-r", "tools/requirements-docs.txt")
    if session.posargs == ["serve"]:
        session.run("mkdocs", "serve")
    else:
        session.env["NO_MKDOCS_2_WARNING"] = "1"
        session.run("mkdocs", "build", "--strict", "--quiet", "--site-dir", "out/site", *session.posargs)


@nox.session
def demo(session: nox.Session) -> None:
    """The main job: kernels from text and from tensors, compiled, launched on the simulator, compared."""
    python(session, "integration/pipelines/demo.py", *session.posargs)
