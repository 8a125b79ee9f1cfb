"""The device interface driven by hand: what the runtime does, call by call (runtime spec 5)."""

from __future__ import annotations

import numpy as np
import pytest

from spyrert import errors
from spyrert.constants import PROG_OFFSET_BASE
from spyrert.device import (
    ComputeCB,
    ControlBlockError,
    Device,
    Direction,
    DmaCB,
    Engine,
    FillCB,
    MemoryType,
    MicroDevice,
    Nest,
    Piece,
    SegmentEntry,
    Status,
)
from spyrert.spyrecode import (
    ArgumentInputs,
    Correction,
    Entry,
    HostInputs,
    SpyreCode,
    entry_kind,
    symbol_values,
)
from spyrert.transfer import nests, reverse

UNMAPPED = SegmentEntry()


def test_prepare_and_launch_by_hand(code: SpyreCode) -> None:
    """One prepare and one launch, as the runtime does them."""
    device: Device = MicroDevice()
    assert isinstance(device, Device)
    tensors = device.create_region(1 << 20, 0, MemoryType.TENSOR)
    static = device.create_region(1 << 20, 0, MemoryType.PROGRAM_STATIC)
    # prepare: every InitTransfer once
    for load in code.init_transfers():
        piece = Piece(static, load.dev_ptr - PROG_OFFSET_BASE, load.size)
        device.submit(DmaCB(Direction.TO_DEVICE, memoryview(code.file(load.file)), (piece,)))
    done = device.next_completion()
    assert done is not None
    assert done.status is Status.OK
    # upload: one transfer with loop nests per tensor
    assert code.launch is not None
    host = [np.arange(280, dtype=np.float16).reshape(4, 70) / 8 for _ in range(2)]
    size = code.launch.args[0].layout.device_bytes((4, 70))
    places = [0, 4096, 8192]
    for array, place in zip(host, places, strict=False):
        device.submit(
            DmaCB(
                Direction.TO_DEVICE,
                memoryview(array).cast("B"),
                (Piece(tensors, place, size),),
                (),
                nests(code.launch.args[0].layout, (4, 70)),
                "float16",
                "float16",
                fill_padding=True,
            )
        )
    # launch: host function, its transfer, compute
    seq = 5
    ((host_compute, transfer),) = code.corrections()
    inputs = HostInputs(tuple(ArgumentInputs(((1 << 34) + place,)) for place in places), {"n": 2})
    values = symbol_values(host_compute.hcm, inputs)  # type: ignore[arg-type]
    entries = tuple(
        Entry(k, entry_kind(symbol.expr), value)
        for k, (symbol, value) in enumerate(zip(host_compute.hcm.symbols, values, strict=True))  # type: ignore[union-attr]
    )
    data = Correction(seq, code.digest64, entries).encode(transfer.size)
    area = Piece(static, transfer.dev_ptr - PROG_OFFSET_BASE, transfer.size)
    device.submit(DmaCB(Direction.TO_DEVICE, memoryview(data), (area,)))
    while device.in_flight():
        done = device.next_completion()
        assert done is not None
        assert done.status is Status.OK
    segments = [UNMAPPED] * 8
    segments[1] = SegmentEntry(True, tensors, 0, 1 << 20, True)
    segments[7] = SegmentEntry(True, static, 0, code.static_size, True)
    (compute,) = code.computes()
    entry = compute.job_bin_ptr - PROG_OFFSET_BASE
    device.submit(ComputeCB(entry, tuple(segments), seq, code.digest64, "add"))
    done = device.next_completion()
    assert done is not None
    assert done.fault is None
    # download
    out = np.empty((4, 70), np.float16)
    back = tuple(reverse(nest) for nest in nests(code.launch.args[2].layout, (4, 70)))
    device.submit(
        DmaCB(
            Direction.FROM_DEVICE,
            memoryview(out).cast("B"),
            (Piece(tensors, 8192, size),),
            (),
            back,
            "float16",
            "float16",
        )
    )
    device.next_completion()
    np.testing.assert_array_equal(out, (host[0] + host[1]) * 2)
    # a second compute with another launch number finds the old correction
    device.submit(ComputeCB(entry, tuple(segments), seq + 1, code.digest64, "add"))
    done = device.next_completion()
    assert done is not None
    assert done.fault is not None
    assert done.fault.error is errors.StaleCorrection


def test_control_blocks_are_checked() -> None:
    """Structure is refused at once (runtime spec 5.3)."""
    device = MicroDevice()
    region = device.create_region(4096, 0, MemoryType.TENSOR)
    host = memoryview(bytearray(256))
    piece = Piece(region, 0, 256)

    def refuse(block: object, text: str) -> None:
        with pytest.raises(ControlBlockError, match=text):
            device.submit(block)  # type: ignore[arg-type]

    refuse(DmaCB(Direction.TO_DEVICE, host, (Piece(region, 4000, 256),)), "ends behind")
    refuse(DmaCB(Direction.TO_DEVICE, host, (Piece(99, 0, 256),)), "does not exist")
    refuse(DmaCB(Direction.TO_DEVICE, host, (Piece(region, 0, 0),)), "no positive size")
    refuse(DmaCB(Direction.TO_DEVICE, host, (Piece(region, 0, 128),)), "256 bytes to 128")
    refuse(DmaCB(Direction.TO_DEVICE, None, (piece,)), "host buffer")
    refuse(DmaCB(Direction.FROM_DEVICE, memoryview(bytes(256)), (piece,)), "writable")
    refuse(DmaCB(Direction.TO_DEVICE, host, (piece,), (), (Nest((257,), (1,), (1,)),)), "leaves its source")
    refuse(DmaCB(Direction.TO_DEVICE, host, (piece,), (), (), "float16", "float32"), "conversion")
    refuse(FillCB((piece,), 256, 1), "exceeds 1 bytes")
    refuse(ComputeCB(0, (UNMAPPED,) * 8, 1, bytes(8)), "inside segment 7")
    refuse(ComputeCB(0, (UNMAPPED,) * 7, 1, bytes(8)), "has 7 entries")
    assert device.in_flight() == 0
    assert device.counters()["cb_dma_in"] == 0


def test_never_written_memory_is_visible() -> None:
    """Fill pattern, and the zero-filled rest of a partly written stick (reading 11)."""
    device = MicroDevice()
    region = device.create_region(1 << 20, 0, MemoryType.TENSOR)
    assert device.peek(region, 77, 4) == b"\xcd" * 4
    device.poke(region, 130, b"ab")
    assert device.peek(region, 126, 10) == b"\xcd\xcd\0\0ab\0\0\0\0"
    assert device.counters()["region_pages_touched"] == 1
    assert np.frombuffer(b"\xcd\xcd", np.float16)[0] == np.float16(-23.2)


def test_engines_run_beside_each_other() -> None:
    """Virtual time: transfers of one engine queue, those of two engines overlap."""
    device = MicroDevice(latencies={"a": 10, "b": 20, "c": 5})
    region = device.create_region(4096, 0, MemoryType.TENSOR)
    buffers = [memoryview(bytearray(128)) for _ in range(3)]
    ticket = {}
    for name, buffer, direction in (
        ("a", buffers[0], Direction.TO_DEVICE),
        ("b", buffers[1], Direction.TO_DEVICE),
        ("c", buffers[2], Direction.FROM_DEVICE),
    ):
        ticket[name] = device.submit(DmaCB(direction, buffer, (Piece(region, 0, 128),), name=name))
    assert not device.can_accept(Engine.DMA_IN)
    assert not device.cancel(ticket["a"])
    ends = {}
    while device.in_flight():
        done = device.next_completion()
        assert done is not None
        ends[done.ticket] = done.t_end
    assert [ends[ticket[n]] for n in "abc"] == [10, 30, 5]
    counters = device.counters()
    assert counters["cb_ok"] == 3
    assert counters["dma_in_busy_ns"] == 30


def test_cancel_before_start() -> None:
    device = MicroDevice()
    region = device.create_region(4096, 0, MemoryType.TENSOR)
    first, second = (device.submit(FillCB((Piece(region, 0, 128),), value)) for value in (1, 2))
    assert device.cancel(second)
    assert not device.cancel(second)
    states = {}
    while device.in_flight():
        done = device.next_completion()
        assert done is not None
        states[done.ticket] = done.status
    assert states == {first: Status.OK, second: Status.CANCELLED}
    assert device.peek(region, 0, 1) == b"\x01"
