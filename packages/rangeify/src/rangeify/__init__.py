"""Tensor scheduler: from lazy tensors to fused kernels, an order and a memory plan."""

from rangeify.build import schedule
from rangeify.capturing import Capture, capture
from rangeify.config import Config
from rangeify.errors import (
    ArgumentError,
    AssignError,
    BindError,
    BroadcastError,
    CallError,
    ConfigError,
    ConstantError,
    CycleError,
    DeviceError,
    DTypeError,
    IndexingError,
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
    "ArgumentError",
    "AssignError",
    "BindError",
    "BroadcastError",
    "Buffer",
    "CallError",
    "Capture",
    "Config",
    "ConfigError",
    "ConstantError",
    "Copy",
    "CycleError",
    "DTypeError",
    "DeviceError",
    "IndexingError",
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
