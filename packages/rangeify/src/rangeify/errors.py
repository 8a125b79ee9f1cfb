"""The exceptions of rangeify. Every one derives from :class:`RangeifyError` and keeps its facts in fields."""

from __future__ import annotations


class RangeifyError(Exception):
    """Base of everything that rangeify raises on bad input."""


class UnsupportedError(RangeifyError, NotImplementedError):
    """Something that is out of scope or not built. ``what`` names it, ``where`` the kernel or value."""

    def __init__(self, what: str, where: str | None = None) -> None:
        super().__init__(f"unsupported: {what}" + (f" (in {where})" if where else ""))
        self.what = what
        self.where = where


class MissingNameError(UnsupportedError, AttributeError):
    """An attribute that is not there on purpose; ``what`` says why."""


class UnsupportedDtype(UnsupportedError):
    """A dtype that the target cannot store. ``tensor`` names the tensor, ``dtype`` the dtype."""

    def __init__(self, dtype: str, tensor: str) -> None:
        super().__init__(f"dtype {dtype}", tensor)
        self.dtype = dtype
        self.tensor = tensor


class DTypeError(RangeifyError, TypeError):
    """A dtype that does not fit, or that is none."""


class PromotionError(DTypeError):
    """Two operands whose dtypes have no common strong dtype. ``dtypes`` are their names."""

    def __init__(self, message: str, dtypes: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.dtypes = dtypes


class ShapeError(RangeifyError, ValueError):
    """A shape, an axis or an index that does not fit."""


class BroadcastError(ShapeError):
    """Shapes that do not broadcast together."""


class IndexingError(ShapeError, IndexError):
    """An index that a Tensor does not have: beyond an axis, one too many, or of a type that is none."""


class AssignError(RangeifyError, ValueError):
    """An assignment whose dtype, device or target does not allow it."""


class CycleError(RangeifyError, RuntimeError):
    """Assignments that no order satisfies. ``kernels`` names the kernels on the cycle."""

    def __init__(self, message: str, kernels: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.kernels = kernels


class DeviceError(RangeifyError, RuntimeError):
    """Devices that do not fit together, or items that would change their device. ``devices`` names them."""

    def __init__(self, message: str, devices: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.devices = devices


class ScheduleError(RangeifyError, RuntimeError):
    """A graph that breaks an invariant of a scheduling stage; ``stage`` names the stage."""

    def __init__(self, stage: str, message: str) -> None:
        super().__init__(f"{stage}: {message}")
        self.stage = stage


class BindError(RangeifyError, RuntimeError):
    """A Variable without a value, with two values, or with a value outside its bounds."""


class ArgumentError(RangeifyError, ValueError):
    """An argument with a value that a function does not take."""


class ConstantError(RangeifyError, OverflowError):
    """A Python integer that a dtype does not hold."""


class SharingError(RangeifyError, BufferError):
    """Memory that cannot be shared in the way that was asked for."""


class InputError(RangeifyError, ValueError):
    """An argument of an execution that does not fit its buffer: number, shape, dtype or missing data."""


class ConfigError(RangeifyError, ValueError):
    """A configuration field with a value that is not allowed. ``field`` names it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"Config.{field}: {message}")
        self.field = field


class CallError(RangeifyError, TypeError):
    """A function of rangeify is called with something else than it takes.

    ``function`` and ``argument`` name what was called, ``expected`` what it takes, ``got`` what it was given.
    """

    def __init__(self, function: str, argument: str, expected: str, got: str) -> None:
        super().__init__(f"{function}: '{argument}' must be {expected}, not {got}")
        self.function, self.argument, self.expected, self.got = function, argument, expected, got


def require(condition: bool, stage: str, message: str) -> None:
    """Raise :class:`ScheduleError` unless an invariant of `stage` holds."""
    if not condition:
        raise ScheduleError(stage, message)
