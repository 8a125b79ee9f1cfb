"""Which device an artefact was made for."""

from __future__ import annotations

from dfsched.architecture import Architecture
from dfsched.architecture.loading import load_architecture, package_devices
from spyrert.spyrecode import LaunchSpec
from spyresim.errors import ArgumentError, UnsupportedError

__all__ = ["architecture_of"]


def architecture_of(spec: LaunchSpec) -> Architecture:
    """The package device that a launch spec was made for; `ArgumentError` if it is none of them."""
    if spec.architecture is None:
        raise UnsupportedError("a launch spec that names no architecture; give the device")
    wanted = spec.architecture
    for name in package_devices():
        architecture = load_architecture(name)
        if architecture.digest == wanted.digest:
            return architecture
    raise ArgumentError(
        f"the launch spec is for device '{wanted.name}' ({wanted.digest[:12]}), which is no package device; "
        "give its description"
    )
