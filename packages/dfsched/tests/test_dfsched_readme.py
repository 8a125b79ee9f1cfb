"""The example of the README runs."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.skipif(not README.exists(), reason="the README is not part of the wheel")
def test_readme() -> None:
    """Every prompt of the README gives what it shows."""
    failed, attempted = doctest.testfile(str(README), module_relative=False)
    assert attempted > 5
    assert failed == 0
