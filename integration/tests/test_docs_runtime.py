"""The examples of the how-to on launching kernels run as they stand there."""

import doctest

from repository import ROOT


def test_examples_run() -> None:
    path = ROOT / "docs" / "howto" / "runtime.md"
    results = doctest.testfile(str(path), module_relative=False)
    assert results.attempted > 20
    assert results.failed == 0
