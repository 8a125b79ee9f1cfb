"""Lowering of schedules to KTIR: layouts, work division, kernel text. Needs the extra ``rangeify[ktir]``."""

from rangeify.ktir.layout import DeviceLayout, device_layout
from rangeify.ktir.lower import lower
from rangeify.ktir.program import Launch, Place, Program, ProgramBuffer, ProgramFormatError

__all__ = [
    "DeviceLayout",
    "Launch",
    "Place",
    "Program",
    "ProgramBuffer",
    "ProgramFormatError",
    "device_layout",
    "lower",
]
