"""Our own devices pass the conformance suite, and broken ones do not (runtime spec 5)."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest

from spyrert.device import Completion, ControlBlock, DeviceProperties, EventDevice, ExecResult, MicroDevice
from spyrert.errors import ComputeFault
from spyrert.testing import CASES, Subject, corrections, plain_copies, structure, virtual_time


def pf() -> MicroDevice:
    """runtime checklist R111: region ids that look like addresses."""
    return MicroDevice(DeviceProperties(mode="PF"))


def dlfloat() -> MicroDevice:
    return MicroDevice(DeviceProperties(f16_format="dlfloat"))


def bare() -> EventDevice:
    device = EventDevice()
    device.register_executor(0x90, lambda program, memory, mask: ExecResult(10))
    return device


SUBJECTS = {
    "micro": Subject(MicroDevice),
    "PF": Subject(pf),
    "dlfloat": Subject(dlfloat),
    "event": Subject(bare, b"x", 0x90),
}


@pytest.mark.parametrize("subject", SUBJECTS.values(), ids=list(SUBJECTS))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_conformance(case: Callable[[Subject], None], subject: Subject) -> None:
    case(subject)


class Careless(MicroDevice):
    """Accepts everything."""

    def _check(self, block: ControlBlock) -> None:
        pass


class Forgetful(MicroDevice):
    """Reports what it finds as another kind of fault."""

    def next_completion(self, block: bool = True) -> Completion | None:
        done = super().next_completion(block)
        if done is None or done.fault is None:
            return done
        return attrs.evolve(done, fault=attrs.evolve(done.fault, error=ComputeFault))


class Hasty(MicroDevice):
    """Reports times of its own."""

    def next_completion(self, block: bool = True) -> Completion | None:
        done = super().next_completion(block)
        return None if done is None else attrs.evolve(done, t_end=done.t_end + id(done) % 97 + 1)


class Lossy(MicroDevice):
    """Loses the last byte of a copy."""

    def peek(self, region_id: int, offset: int, size: int) -> bytes:
        return super().peek(region_id, offset, size)[:-1] + b"?"


@pytest.mark.parametrize(
    ("device", "case"),
    [(Careless, structure), (Forgetful, corrections), (Hasty, virtual_time), (Lossy, plain_copies)],
)
def test_broken_devices_are_caught(device: type[MicroDevice], case: Callable[[Subject], None]) -> None:
    with pytest.raises(AssertionError):
        case(Subject(device))
