"""The README's example runs as it is printed."""

from __future__ import annotations

import doctest
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_readme() -> None:
    failed, tried = doctest.testfile(str(README), module_relative=False)
    assert failed == 0
    assert tried > 5
