"""The configuration record."""

import pytest

from rangeify.config import Config
from rangeify.errors import ConfigError


def test_fields_come_from_the_environment_and_explicit_ones_win() -> None:
    environ = {"RANGEIFY_SCHEDULE_CACHE": "0", "RANGEIFY_MEMORY_PLANNER": "off", "RANGEIFY_DEBUG": "2"}
    config = Config.from_environment(environ, debug=1)
    assert (config.schedule_cache, config.memory_planner, config.debug) == (0, False, 1)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("schedule_cache", 7),
        ("fusion", "all"),
        ("partial_stage", 5),
        ("arena_alignment", 3),
        ("max_kernel_buffers", 1),
    ],
)
def test_bad_values_name_the_field(field: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"Config.{field}") as caught:
        Config(**{field: value})  # type: ignore[arg-type]
    assert caught.value.field == field


def test_bad_environment_text_names_the_field() -> None:
    with pytest.raises(ConfigError, match="memory_planner"):
        Config.from_environment({"RANGEIFY_MEMORY_PLANNER": "perhaps"})


def test_key_leaves_out_debug_only() -> None:
    """checklist 8: every field that may change the schedule is in the key."""
    assert Config(debug=3).key() == Config().key()
    assert Config(fast_math=True).key() != Config().key()
    assert Config(memory_planner=False).key() != Config().key()
