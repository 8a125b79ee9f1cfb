"""Every pass shows what it does: the example in its docstring runs, text in, text out."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from types import ModuleType

import pytest

import dfsched.passes
from dfsched.passes.base import Pass
from dfsched.pipeline import OTHER_PASSES, PASSES

MODULES = [
    importlib.import_module(f"dfsched.passes.{info.name}")
    for info in pkgutil.iter_modules(dfsched.passes.__path__)
]
WITH_PASSES = [
    module for module in MODULES if any(isinstance(value, Pass) for value in vars(module).values())
]


def short(module: ModuleType) -> str:
    return module.__name__.rpartition(".")[2]


@pytest.mark.parametrize("module", MODULES, ids=short)
def test_examples_run(module: ModuleType) -> None:
    """What stands in the docstrings of a module comes out."""
    found = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert found.failed == 0
    if module in WITH_PASSES:
        assert found.attempted >= 2
        assert "\n>>> " in (module.__doc__ or "")


def test_no_pass_is_left_out() -> None:
    """The modules above are those of the pipeline."""
    names = {item.run.__module__ for item in (*PASSES, *OTHER_PASSES)}
    assert names <= {module.__name__ for module in WITH_PASSES}
