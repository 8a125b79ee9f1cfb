"""The table of the documentation says what the namespace has."""

from pathlib import Path

from rangeify.array_api.coverage import table

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "array_api.md"


def test_the_table_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8").endswith(table())
