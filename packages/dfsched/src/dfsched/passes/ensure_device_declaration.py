"""`ensure-device-declaration`: the module names its device (scheduler spec 3.1).

Takes any module. A module that declares a device is returned unchanged; otherwise a declaration of the
device that the compilation is for becomes the first operation. In both cases the device can be read
afterwards.

Before, for the package device ``sample``::

    module { func.func @k() { return } }

After::

    module {
      ktdf_arch.device @sample_device import("sample")
      func.func @k() { return }
    }

>>> from dfsched.passes.examples import after, kernel
>>> after("ensure-device-declaration", kernel(),
... r"ktdf_arch.device|func")
ktdf_arch.device @sample_device import("sample")
func.func @k(%x: index, %y: index) attributes {grid = [1]} {
"""

from __future__ import annotations

from pathlib import Path

from dfsched.architecture import Architecture
from dfsched.architecture.loading import DeviceManager, declare_device, devices_in, load_architecture
from dfsched.dialects.ktdf_arch import DeviceOp
from dfsched.errors import ArchitectureError
from dfsched.passes.base import Group, Pass, PassContext
from ktir.attributes import StringAttr
from ktir.dialects.builtin import Module
from ktir.ir import Region

__all__ = ["PASS", "declare", "run"]


def run(module: Module, context: PassContext) -> Module:
    """Declare the context's device where the module declares none."""
    if devices_in(module):
        return module
    return _declared(module, context.architecture)


PASS = Pass("ensure-device-declaration", Group.DRIVER, run, "declare the device where the module has none")


def declare(module: Module, device: Architecture | str | Path | None) -> tuple[Module, Architecture]:
    """The module with a device, and that device.

    A device in the module wins over `device`; `ArchitectureError` if there is neither.
    """
    if devices_in(module):
        return module, DeviceManager(module).require()
    if device is None:
        raise ArchitectureError(
            "the module declares no device and none is given (use --device)", None, module.location
        )
    architecture = load_architecture(device)
    if isinstance(device, Architecture):
        return _declared(module, architecture), architecture
    return declare_device(module, device), architecture


def _declared(module: Module, architecture: Architecture) -> Module:
    """A declaration by name only: the description itself stays with the compilation."""
    declaration = DeviceOp.create(
        attributes={"sym_name": StringAttr(architecture.name), "import_path": StringAttr(architecture.name)},
        regions=(Region(),),
        location=module.location,
    )
    return module.with_operations((declaration, *module.operations))
