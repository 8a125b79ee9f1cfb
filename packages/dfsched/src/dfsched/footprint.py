"""Whether the arrays of a kernel fit into the device memory, told before anything is scheduled."""

from __future__ import annotations

import ktir
from dfsched.architecture import Architecture, kind_text
from dfsched.passes.capacity import bytes_text
from dfsched.passes.errors import ScheduleError
from ktir.dialects.builtin import Module
from ktir.errors import Diagnostic, Note
from ktir.interface import Argument, find_function

__all__ = ["check_footprint"]


def check_footprint(module: Module, kernel: str, architecture: Architecture) -> None:
    """`ScheduleError` at the kernel if arguments of known size take more than all of the device memory.

    A note an argument, the largest first. One that is too large by itself is left to the check of views.
    Sizes that only the launch knows count as nothing; what cannot be told about a kernel is left to later
    passes.
    """
    memory = architecture.device_memory
    if memory is None or memory.size is None:
        return
    function = find_function(module, kernel)
    try:
        arguments = ktir.signature(module, function)
    except ktir.KtirError:
        return
    sizes = [(size, argument) for argument in arguments if (size := _bytes(argument)) is not None]
    total = sum(size for size, _ in sizes)
    if total <= memory.size or any(size > memory.size for size, _ in sizes):
        return  # one that is too large by itself is refused at its view
    needed, available = bytes_text(total), bytes_text(memory.size)
    if needed == available:
        needed, available = f"{total} bytes", f"{memory.size} bytes"
    notes = tuple(
        Note(f"{bytes_text(size):>10}  {_text(argument)}")
        for size, argument in sorted(sizes, key=lambda entry: -entry[0])
    )
    message = f"the arguments of '{kernel}' take {needed} of {kind_text(memory.kind)}, {available} available:"
    raise ScheduleError((Diagnostic(message, function.location, notes=notes),))


def _bytes(argument: Argument) -> int | None:
    return argument.layout.device_bytes if argument.is_pointer and argument.layout is not None else None


def _text(argument: Argument) -> str:
    assert argument.shape is not None
    assert argument.role is not None
    shape = "x".join(map(str, argument.shape))
    return f"%{argument.name}: {argument.dtype} of {shape or 'one element'}, {argument.role.value}"
