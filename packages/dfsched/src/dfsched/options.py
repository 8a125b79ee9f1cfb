"""Options of a compilation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from attrs import field, frozen

from dfsched import policies
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


def _emit(value: Emit | str) -> Emit:
    return value if isinstance(value, Emit) else Emit(value)


def _names(value: Iterable[str]) -> frozenset[str]:
    return frozenset(value)


def _profile(value: Profile | str) -> Profile:
    return value if isinstance(value, Profile) else Profile(value)


@frozen
class Options:
    """How to compile.

    `profile`: see `Profile` (its value is accepted too). `kernel`: which public kernel, where a module has
    several. `policy` decides, `pins` overrides single fields of every nest plan by name. `disabled`: passes
    to leave out; `settings`: options of passes by ``pass-name.option-name``, as text; `stop_after`: the last
    pass to run (the last one of that name), nothing is generated behind it. `verify`: check the input, and IR
    and contract after each group of passes; `verify_each`: the IR after every pass too. `emit`: how far.
    """

    profile: Profile = field(default=Profile.DEFAULT, converter=_profile)
    kernel: str | None = None
    policy: Policy = policies.heuristic
    pins: Mapping[str, object] = field(factory=dict)
    disabled: frozenset[str] = field(default=frozenset(), converter=_names)
    settings: Mapping[str, str] = field(factory=dict)
    stop_after: str | None = None
    verify: bool = True
    verify_each: bool = False
    emit: Emit = field(default=Emit.SPYRECODE, converter=_emit)
