"""The root of the package: names resolve on first use, and reading text loads nothing heavy."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import ktir

EXAMPLE = Path(__file__).parents[1] / "examples" / "softmax.mlir"
HEAVY = ("numpy", "ml_dtypes", "importlib.metadata", "click", "rich")


def loaded_by(code: str) -> set[str]:
    """The heavy modules that a fresh interpreter has loaded after running `code`."""
    report = f"import json, sys; print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout))


def test_importing_loads_nothing_heavy() -> None:
    assert loaded_by("import ktir") == set()
    assert loaded_by("from ktir import *") == set()


def test_reading_text_needs_no_numpy() -> None:
    code = (
        "import ktir\n"
        f"module = ktir.parse(open({str(EXAMPLE)!r}).read(), ktir.Context(installed=False))\n"
        "ktir.print_module(module); ktir.print_module(module, generic=True)"
    )
    assert loaded_by(code) == set()


@pytest.mark.parametrize("name", ktir.__all__)
def test_every_public_name_resolves(name: str) -> None:
    found = getattr(ktir, name)
    assert name in dir(ktir)
    assert not inspect.ismodule(found)


def test_the_lists_of_names_agree() -> None:
    assert ktir.__all__ == sorted(ktir.__all__)
    assert {*ktir._HOMES, "load"} == set(ktir.__all__)


def test_no_module_hides_a_function() -> None:
    """`help(ktir.edit)` describes the function; its module has another name."""
    import ktir.editor  # a module called `edit` would take the place of the function

    assert callable(ktir.edit)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        ktir.nonsense  # noqa: B018
