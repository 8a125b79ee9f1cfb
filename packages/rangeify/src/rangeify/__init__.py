"""Tensor scheduler: from lazy tensors to fused kernels, an order and a memory plan."""

from rangeify.build import schedule
from rangeify.capturing import Capture, capture
from rangeify.config import Config
from rangeify.errors import (
    AssignError,
    BindError,
    CallError,
    ConfigError,
    CycleError,
    DeviceError,
    InputError,
    PromotionError,
    RangeifyError,
    ScheduleError,
    ShapeError,
    UnsupportedDtype,
    UnsupportedError,
)
from rangeify.executor import run
from rangeify.realization import realize
from rangeify.schedule_types import (
    Arena,
    Buffer,
    Copy,
    Item,
    Kernel,
    Lane,
    Role,
    Schedule,
    ScheduleFormatError,
    Variable,
)
from rangeify.tensor import Tensor

__all__ = [
    "Arena",
    "AssignError",
    "BindError",
    "Buffer",
    "CallError",
    "Capture",
    "Config",
    "ConfigError",
    "Copy",
    "CycleError",
    "DeviceError",
    "InputError",
    "Item",
    "Kernel",
    "Lane",
    "PromotionError",
    "RangeifyError",
    "Role",
    "Schedule",
    "ScheduleError",
    "ScheduleFormatError",
    "ShapeError",
    "Tensor",
    "UnsupportedDtype",
    "UnsupportedError",
    "Variable",
    "capture",
    "realize",
    "run",
    "schedule",
]
