"""Several devices: sharded values to per-device code, copies to storage, all-reduce (scheduler spec 5, 14,
16).
"""

from rangeify.multi.copies import DeviceLowering, copy_offset, lower_devices, same_device
from rangeify.multi.shards import Sharded, device_counter, localize

__all__ = [
    "DeviceLowering",
    "Sharded",
    "copy_offset",
    "device_counter",
    "localize",
    "lower_devices",
    "same_device",
]
