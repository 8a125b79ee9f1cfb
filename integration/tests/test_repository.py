"""The repository's own rules: shared test configuration, one licence, one version of each fact."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from repository import ROOT, load_packages

PACKAGES = load_packages()
CONFTESTS = [*(package.folder / "tests" / "conftest.py" for package in PACKAGES.values())]


def shared_part(path: Path) -> str:
    begin, end = "# --- shared by all packages", "# --- end of the shared part ---"
    text = path.read_text()
    assert text.count(begin) == text.count(end) == 1, path
    return text[text.index(begin) : text.index(end)]


@pytest.mark.parametrize("path", CONFTESTS, ids=list(PACKAGES))
def test_conftests_share_one_text(path: Path) -> None:
    """A wheel is tested without its siblings' files, so each package holds a copy; the copies are equal."""
    assert shared_part(path) == shared_part(ROOT / "integration" / "tests" / "conftest.py")


EXAMPLE = """
import pytest
from hypothesis import given, settings, strategies as st

seen = []

@pytest.mark.sweep(default=3, full=8)
def test_loop(cases):
    print("cases", cases)

@pytest.mark.sweep(default=4, full=9)
@pytest.mark.parametrize("a", [1, 2])
@given(x=st.integers())
def test_property(a, x):
    seen.append(x)

class TestMethod:
    @pytest.mark.sweep(default=4, full=9)
    @given(x=st.integers())
    def test_property(self, x):
        seen.append(x)

def test_count():
    print("examples", len(seen))
    print("first", seen[:20])

@pytest.mark.sweep(default=0, full=1)
def test_long():
    print("long test ran")
"""


def run_example(folder: Path, text: str, **environment: str) -> str:
    package = folder / "tests"
    package.mkdir(exist_ok=True)
    (package / "conftest.py").write_text((PACKAGES["ktir"].folder / "tests" / "conftest.py").read_text())
    (package / "test_example.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    environ = {key: value for key, value in os.environ.items() if key != "SWEEPS" and "PYTEST" not in key}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "--import-mode=importlib"],
        cwd=folder,
        env=environ | environment,
        capture_output=True,
        text=True,
    )
    return done.stdout + done.stderr


def test_sweep_counts(tmp_path: Path) -> None:
    output = run_example(tmp_path, EXAMPLE)
    assert "cases 3" in output
    assert "examples 12" in output  # three tests with four examples
    assert "long test ran" not in output
    assert "5 passed, 1 skipped" in output
    output = run_example(tmp_path, EXAMPLE, SWEEPS="1")
    assert "cases 8" in output
    assert "examples 27" in output
    assert "long test ran" in output
    assert "6 passed" in output


def test_default_suite_is_deterministic(tmp_path: Path) -> None:
    first, second = (run_example(tmp_path, EXAMPLE, PYTHONHASHSEED=seed) for seed in "12")
    assert "first [" in first
    assert [line for line in first.splitlines() if line.startswith("first")] == [
        line for line in second.splitlines() if line.startswith("first")
    ]


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ("@pytest.mark.sweep(3, 8)\ndef test_a(): pass", "write @pytest.mark.sweep(default=N, full=M)"),
        ("def test_a(cases): pass", "the fixture `cases` needs @pytest.mark.sweep"),
    ],
)
def test_wrong_use_of_the_marker_is_told(tmp_path: Path, test: str, message: str) -> None:
    assert message in run_example(tmp_path, f"import pytest\n\n{test}\n")


@pytest.mark.parametrize("package", PACKAGES.values(), ids=list(PACKAGES))
def test_package_has_what_it_publishes(package) -> None:
    for name in ("README.md", "CHANGELOG.md", f"src/{package.name}/py.typed"):
        assert (package.folder / name).exists(), name
    text = (package.folder / "pyproject.toml").read_text()
    assert 'license = "Apache-2.0"' in text
    assert 'requires-python = ">=3.11"' in text


BENCHMARKS = sorted(
    [*ROOT.glob("packages/*/benchmarks/bench_*.py"), *ROOT.glob("integration/benchmarks/bench_*.py")]
)


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_benchmarks_are_collected(path: Path) -> None:
    """`./nox -s bench` runs the functions named test_*; it would pass over others without a word."""
    names = [node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]
    assert any(name.startswith("test_") for name in names)
    assert not [name for name in names if name.startswith("bench")]
