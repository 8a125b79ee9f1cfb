"""Every kind of computation that the scheduler takes, right at every level and after every pass, on all devices."""

from __future__ import annotations

import os

import pytest

import dfsched
import ktir
from repository import ROOT
from spyresim import verify
from spyresim.testing.compute_kernels import KERNELS

SWEEPS = os.environ.get("SWEEPS", "") not in ("", "0")
QUAD = str(ROOT / "packages" / "dfsched" / "tests" / "devices" / "quad.mlir")
DEVICES = {"spyre": "spyre", "sample": "sample", "sample_h": "sample_h", "quad": QUAD}


def agrees(text: str, device: str) -> None:
    """All levels of the only kernel of a text agree; what the device does not compute on is said so."""
    module = ktir.parse(text)
    try:
        (found,) = verify(module, device)
    except dfsched.UnsupportedKernel as error:
        if not any(words in str(error) for words in ("does not compute on", "has no lanes of")):
            raise
        pytest.skip(str(error))
    assert found.ok, found.first


def pairs() -> list[tuple[str, str]]:
    """Every kernel on one of the devices in turn; on all of them with SWEEPS=1."""
    if SWEEPS:
        return [(name, device) for name in KERNELS for device in DEVICES]
    devices = list(DEVICES)
    return [(name, devices[number % len(devices)]) for number, name in enumerate(KERNELS)]


@pytest.mark.parametrize(("name", "device"), pairs())
def test_every_level_agrees(name: str, device: str) -> None:
    """Different unit names, memory levels, lane counts, and a device without patterns."""
    agrees(KERNELS[name], DEVICES[device])
