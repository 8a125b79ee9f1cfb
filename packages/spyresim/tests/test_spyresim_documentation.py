"""The README and the examples in docstrings run."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import spyresim


def test_readme() -> None:
    result = doctest.testfile(str(Path(__file__).parents[1] / "README.md"), module_relative=False)
    assert result.attempted > 8
    assert result.failed == 0


@pytest.mark.parametrize("name", ["spyresim.meaning"])
def test_docstrings(name: str) -> None:
    result = doctest.testmod(import_module(name))
    assert result.attempted
    assert result.failed == 0


def test_every_public_name_exists() -> None:
    for name in spyresim.__all__:
        assert getattr(spyresim, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = spyresim.nothing
