"""The README and the examples in docstrings run."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

MODULES = [
    "ktir.affine",
    "ktir.affine.parse",
    "ktir.affine.set",
    "ktir.builder",
    "ktir.builder.element",
    "ktir.builder.kernel",
    "ktir.dlfloat",
    "ktir.layout",
    "ktir.machine",
]


def test_readme() -> None:
    result = doctest.testfile(str(Path(__file__).parents[1] / "README.md"), module_relative=False)
    assert result.attempted > 5
    assert result.failed == 0


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0
