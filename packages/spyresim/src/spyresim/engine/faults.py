"""Faults of running programs that are not faults of memory."""

from __future__ import annotations

from spyresim.errors import ControlFault, QueueFault, Site


def undefined_register(file: str, register: int, site: Site) -> ControlFault:
    """A register that nobody has written."""
    return ControlFault(f"register {file}{register} is read before it is written", site=site)


def queue_fault(message: str, queue: str, site: Site) -> QueueFault:
    """A queue used wrongly."""
    return QueueFault(message, site=site, queue=queue)
