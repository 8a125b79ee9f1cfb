"""The frozen records that stand in ``UOp.arg``."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import IntEnum, auto
from typing import Any, TypeAlias

import attrs

from uopgraph.dtype import DType

Device: TypeAlias = str | tuple[str, ...]


class AddrSpace(IntEnum):
    """Where a value lives. ALU values are not addressable."""

    GLOBAL = auto()
    LOCAL = auto()
    REG = auto()
    ALU = auto()

    def __repr__(self) -> str:
        return f"AddrSpace.{self.name}"


class AxisType(IntEnum):
    """What a RANGE becomes. LOOP is "not decided yet"; PLACEHOLDER is temporary numbering in reshape
    arithmetic."""

    DEVICE = auto()
    GLOBAL = auto()
    WARP = auto()
    LOCAL = auto()
    LOOP = auto()
    GROUP_REDUCE = auto()
    REDUCE = auto()
    UPCAST = auto()
    UNROLL = auto()
    THREAD = auto()
    PLACEHOLDER = auto()

    def __repr__(self) -> str:
        return f"AxisType.{self.name}"


def _brief(self: Any) -> str:
    shown = [f.name for f in attrs.fields(type(self)) if getattr(self, f.name) != f.default]
    return f"{type(self).__name__}({', '.join(f'{n}={getattr(self, n)!r}' for n in shown)})"


@attrs.frozen(repr=False)
class ParamArg:
    """Argument of PARAM, BUFFER and ALLOC. ``vmin_vmax`` and ``multiple_of`` are facts about the value.

    slot >= 0: positional or globally unique; -1: a free Variable; other negative slots: call-local storage.
    """

    slot: int
    dtype: DType
    vmin_vmax: tuple[int, int] | None = None
    multiple_of: int | None = None
    name: str | None = None
    addrspace: AddrSpace = AddrSpace.GLOBAL
    axis: int | None = None
    device: Device | None = None
    volatile: bool = False
    val: int | None = None

    __repr__ = _brief


@attrs.frozen(repr=False)
class CallInfo:
    """Argument of CALL. ``grad_fxn`` has no text form and takes no part in equality or the content key."""

    name: str | None = None
    precompile: bool = False
    precompile_backward: bool = False
    grad_fxn: Callable[..., Any] | None = attrs.field(default=None, eq=False)
    aux: Any = None

    __repr__ = _brief

    def __reduce__(self) -> tuple[Any, ...]:
        return (CallInfo, (self.name, self.precompile, self.precompile_backward, None, self.aux))


@attrs.frozen(repr=False)
class KernelInfo:
    """Argument of the SINK that is a kernel's root."""

    name: str = "test"
    axis_types: tuple[AxisType, ...] = ()
    dont_use_locals: bool = False
    applied_opts: tuple[Any, ...] = ()
    opts_to_apply: tuple[Any, ...] | None = None
    estimates: Any = None
    beam: int = 0

    __repr__ = _brief

    @property
    def function_name(self) -> str:
        """The name without colour codes, every other character replaced by the hex digits of its code."""
        plain = re.sub(r"\x1b\[[0-9;]*m", "", self.name)
        return re.sub(r"[^A-Za-z0-9_]", lambda m: f"{ord(m.group()):02X}", plain)


@attrs.frozen(repr=False)
class BufferizeOpts:
    """Argument of STAGE: where the candidate buffer would live, and whether it may be removed."""

    device: Device | None = None
    addrspace: AddrSpace = AddrSpace.GLOBAL
    removable: bool = True

    __repr__ = _brief
