"""All-reduce as copies and kernels: naive, ring, all-to-all (scheduler spec 16)."""

from __future__ import annotations

import math
from typing import Final

from rangeify.config import Config
from uopgraph import DType, Ops, UOp

#: Chunks are multiples of the largest of these that divides the number of elements.
_FACTORS: Final = (32, 16, 8, 4, 2)


def algorithm(config: Config, devices: int, elements: int) -> str:
    """Which of ``"naive"``, ``"ring"`` and ``"all-to-all"`` an all-reduce of `elements` per device uses."""
    large = devices > 2 and elements > config.ring_threshold
    if config.all_to_all >= 2 or (config.all_to_all == 1 and large):
        return "all-to-all"
    return "ring" if config.ring >= 2 or (config.ring == 1 and large) else "naive"


def allreduce_body(
    shape: tuple[int, ...], dtype: DType, op: Ops, devices: tuple[str, ...], config: Config
) -> UOp:
    """The body of the call (PARAM 0: the result on all devices, PARAM 1: the value of each device)."""
    out = UOp.param(0, dtype, shape, devices)
    value = UOp.param(1, dtype, shape, devices)
    elements = math.prod(shape)
    match algorithm(config, len(devices), elements):
        case "ring":
            total = _ring(value, op, devices, chunks(elements, len(devices)))
        case "all-to-all":
            total = _all_to_all(value, op, devices, chunks(elements, len(devices)))
        case _:
            total = _fold(op, [_everywhere(value.mselect(i), devices) for i in range(len(devices))])
    return UOp.make_sink(out.after(out.store(total.reshape(shape))))


def chunks(elements: int, devices: int) -> list[tuple[int, int]]:
    """(first, end) of each device's chunk of the flat value; chunks without elements are left out."""
    factor = next((f for f in _FACTORS if elements % f == 0), 1)
    base, left = divmod(elements // factor, devices)
    found, start = [], 0
    for i in range(devices):
        size = (base + (i < left)) * factor
        found.append((start, start + size))
        start += size
    return [(a, b) for a, b in found if a < b]


def _everywhere(value: UOp, devices: tuple[str, ...]) -> UOp:
    return UOp.mstack(*(value.copy_to_device(d) for d in devices))


def _fold(op: Ops, values: list[UOp]) -> UOp:
    total = values[0]
    for v in values[1:]:
        total = total.alu(op, v)
    return total


def _piece(value: UOp, device: int, chunk: tuple[int, int]) -> UOp:
    return value.mselect(device).reshape(math.prod(value.shape)).shrink((chunk,))


def _join(pieces: list[UOp]) -> UOp:
    return pieces[0].cat(*pieces[1:], dim=0) if len(pieces) > 1 else pieces[0]


def _ring(value: UOp, op: Ops, devices: tuple[str, ...], cuts: list[tuple[int, int]]) -> UOp:
    """Chunk i starts at device i, collects at each next one, and then travels on until all have it."""
    n = len(devices)
    whole = []
    for i, cut in enumerate(cuts):
        partial = _piece(value, i, cut)
        for step in range(n - 1):
            to = (i + step + 1) % n
            partial = partial.copy_to_device(devices[to]).alu(op, _piece(value, to, cut))
        at = (i + n - 1) % n
        links = {at: partial}
        for step in range(n - 1):
            links[(at + step + 1) % n] = links[(at + step) % n].copy_to_device(devices[(at + step + 1) % n])
        whole.append(UOp.mstack(*(links[j] for j in range(n))))
    return _join(whole)


def _all_to_all(value: UOp, op: Ops, devices: tuple[str, ...], cuts: list[tuple[int, int]]) -> UOp:
    """Every device sends chunk i straight to device i, which reduces it and sends the result to all."""
    whole = []
    for i, cut in enumerate(cuts):
        arrived = [_piece(value, j, cut).copy_to_device(devices[i]) for j in range(len(devices))]
        whole.append(_everywhere(_fold(op, arrived), devices))
    return _join(whole)
