"""The table of README.md: states follow the test results, and a stale table is told."""

from pathlib import Path

import pytest

import status
from status import Feature, Outcome, State, StatusError

RESULTS = """<testsuites><testsuite>
<testcase classname="packages.a.tests.test_x" name="test_one[1-a]" file="packages/a/tests/test_x.py"/>
<testcase classname="packages.a.tests.test_x.TestB" name="test_two" file="packages/a/tests/test_x.py">
  <failure message="no"/></testcase>
<testcase classname="packages.a.tests.test_y" name="test_three" file="packages/a/tests/test_y.py">
  <skipped type="pytest.skip" message="only with SWEEPS=1"/></testcase>
<testcase classname="packages.a.tests.test_y" name="test_four" file="packages/a/tests/test_y.py">
  <skipped type="pytest.xfail" message="later"/></testcase>
<testcase classname="packages.a.README.md" name="README.md" file="packages/a/README.md"/>
</testsuite></testsuites>"""
X, Y = "packages/a/tests/test_x.py", "packages/a/tests/test_y.py"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    path = tmp_path / "results.xml"
    path.write_text(RESULTS)
    return path


def test_outcomes_by_node_id(results: Path) -> None:
    assert status.load_outcomes(results) == {
        f"{X}::test_one[1-a]": Outcome.PASSED,
        f"{X}::TestB::test_two": Outcome.FAILED,
        f"{Y}::test_three": Outcome.SKIPPED,
        f"{Y}::test_four": Outcome.EXPECTED_FAILURE,
        "packages/a/README.md::README.md": Outcome.PASSED,
    }


@pytest.mark.parametrize(
    ("tests", "state"),
    [
        ((f"{X}::test_one",), State.WORKS),
        ((f"{X}::test_one[1-a]", "packages/a/README.md"), State.WORKS),
        ((X,), State.FAILS),
        (("packages/a/",), State.FAILS),
        ((f"{X}::TestB",), State.FAILS),
        ((f"{X}::test_on",), State.PLANNED),  # no prefix of a name, but of a path of names
        ((f"{Y}::test_three",), State.PLANNED),  # a skipped test shows nothing
        ((f"{X}::test_one", f"{Y}::test_three"), State.PARTLY),
        ((f"{X}::test_one", "packages/b/"), State.PARTLY),
        ((f"{X}::test_one", Y), State.PARTLY),  # an expected failure
        ((), State.PLANNED),
    ],
)
def test_state_of_a_feature(results: Path, tests: tuple[str, ...], state: State) -> None:
    assert status.state(Feature("a", "feature", tests), status.load_outcomes(results)) is state


def test_write_then_check(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    readme, features = tmp_path / "README.md", tmp_path / "features.toml"
    readme.write_text(f"above\n\n{status.BEGIN}\n{status.END}\n\nbelow\n")
    features.write_text(f'[[a]]\nname = "One"\ntests = ["{X}::test_one"]\n[[a]]\nname = "Two"\ntests = []\n')
    monkeypatch.setattr(status, "README", readme)
    monkeypatch.setattr(status, "FEATURES", features)
    assert status.main(["--check", str(results)]) == 1
    assert "README.md is stale" in capsys.readouterr().err
    assert status.main(["--write", str(results)]) == 0
    assert status.main(["--check", str(results)]) == 0
    assert readme.read_text() == (
        f"above\n\n{status.BEGIN}\n\n| package | feature | state |\n|---|---|---|\n"
        f"| `a` | One | works |\n| `a` | Two | not yet |\n\n{status.END}\n\nbelow\n"
    )
    results.write_text(RESULTS.replace('test_x.py"/>', 'test_x.py"><failure message="now"/></testcase>'))
    capsys.readouterr()
    assert status.main(["--check", str(results)]) == 1
    assert "| `a` | One | fails |" in capsys.readouterr().err


def test_bad_input_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status.main(["--check", str(tmp_path / "none.xml")]) == 1
    assert "no test results" in capsys.readouterr().err
    assert status.main([]) == 2
    features = tmp_path / "features.toml"
    features.write_text('[[a]]\nname = "One"\n')
    with pytest.raises(StatusError, match="needs `name` and a list `tests`"):
        status.load_features(features)
    with pytest.raises(StatusError, match="markers"):
        status.replace_table("no markers", "")


def test_features_name_files_that_exist() -> None:
    """A renamed test file would otherwise turn a feature into `not yet` without a word."""
    features = status.load_features(status.FEATURES)
    assert len({(feature.area, feature.name) for feature in features}) == len(features)
    missing = [
        test
        for feature in features
        for test in feature.tests
        if not (status.ROOT / test.split("::")[0]).exists()
    ]
    assert not missing
