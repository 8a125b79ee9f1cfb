"""Options of a compilation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from types import NoneType
from typing import Any, TypeVar

from attrs import Attribute, field, frozen

from dfsched import policies
from dfsched.errors import CallError, require
from dfsched.plan import Policy

__all__ = ["Emit", "Options", "Profile"]


class Profile(Enum):
    """Which rules hold: everything that is built, or the limits of the first published version."""

    DEFAULT = "default"
    V1 = "v1"


class Emit(Enum):
    """How far a compilation goes."""

    SCHEDULE = "schedule"
    DFIR = "dfir"
    SPYRECODE = "spyrecode"


_Choice = TypeVar("_Choice", bound=Enum)


def _one_of(name: str, kind: type[_Choice], value: object) -> _Choice:
    """A member; `CallError` for anything that is neither one nor its value."""
    for member in kind:
        if value is member or (isinstance(value, str) and value == member.value):
            return member
    choices = ", ".join(repr(member.value) for member in kind)
    raise CallError("Options", name, f"one of {choices}", repr(value)[:40])


def _emit(value: Emit | str) -> Emit:
    return _one_of("emit", Emit, value)


def _profile(value: Profile | str) -> Profile:
    return _one_of("profile", Profile, value)


def _names(value: Iterable[str]) -> frozenset[str]:
    found = None if isinstance(value, str) or not isinstance(value, Iterable) else tuple(value)
    if found is None or not all(isinstance(name, str) for name in found):
        raise CallError("Options", "disabled", "names of passes", repr(value)[:40])
    return frozenset(found)


def _pins(value: Mapping[str, object]) -> Mapping[str, object]:
    require("Options", "pins", value, Mapping)
    if not all(isinstance(name, str) for name in value):
        raise CallError("Options", "pins", "a mapping from names of fields", repr(value)[:40])
    return value


def _settings(value: Mapping[str, str]) -> Mapping[str, str]:
    require("Options", "settings", value, Mapping)
    if not all(isinstance(text, str) for pair in value.items() for text in pair):
        raise CallError("Options", "settings", "a mapping from names to texts", repr(value)[:40])
    return value


def _policy(value: Policy) -> Policy:
    if not callable(value):
        raise CallError("Options", "policy", "callable", repr(value)[:40])
    return value


def _is(*classes: type) -> Callable[[object, Attribute[Any], object], None]:
    """A validator: the field is of one of the classes."""

    def check(options: object, field: Attribute[Any], value: object) -> None:
        require("Options", field.name, value, *classes)

    return check


@frozen
class Options:
    """How to compile.

    `profile`: see `Profile` (its value is accepted too). `kernel`: which public kernel, where a module has
    several. `policy` decides, `pins` overrides single fields of every nest plan by name. `disabled`: passes
    to leave out; `settings`: options of passes by ``pass-name.option-name``, as text; `stop_after`: the last
    pass to run (the last one of that name), nothing is generated behind it. `verify`: check the input, and IR
    and contract after each group of passes; `verify_each`: the IR after every pass too. `emit`: how far.
    `CallError` for fields of other types.
    """

    profile: Profile = field(default=Profile.DEFAULT, converter=_profile)
    kernel: str | None = field(default=None, validator=_is(str, NoneType))
    policy: Policy = field(default=policies.heuristic, converter=_policy)
    pins: Mapping[str, object] = field(factory=dict, converter=_pins)
    disabled: frozenset[str] = field(default=frozenset(), converter=_names)
    settings: Mapping[str, str] = field(factory=dict, converter=_settings)
    stop_after: str | None = field(default=None, validator=_is(str, NoneType))
    verify: bool = field(default=True, validator=_is(bool))
    verify_each: bool = field(default=False, validator=_is(bool))
    emit: Emit = field(default=Emit.SPYRECODE, converter=_emit)
