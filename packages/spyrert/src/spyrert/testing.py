"""Conformance suite of the device interface: every :class:`spyrert.device.Device` must pass it.

No test framework is needed; with pytest a device's own tests run it like this::

    @pytest.mark.parametrize("case", spyrert.testing.CASES, ids=lambda case: case.__name__) def
    test_conformance(case):
        case(spyrert.testing.Subject(MyDevice))

A :class:`Subject` makes fresh devices and knows one program of the device that does nothing. A broken rule
raises ``AssertionError``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from spyrert.device.protocol import (
    Completion,
    ComputeCB,
    ControlBlock,
    ControlBlockError,
    Device,
    Direction,
    DmaCB,
    Engine,
    FillCB,
    MemoryType,
    Nest,
    Piece,
    SegmentEntry,
    Status,
)
from spyrert.errors import ComputeFault, StaleCorrection
from spyrert.spyrecode import Correction, Entry, EntryKind, Image, PayloadKind

REGION = 1 << 20
UNMAPPED = SegmentEntry()
DIGEST = bytes(range(8))


@attrs.frozen
class Subject:
    """What is tested.

    Args:
        factory: makes a new device.
        payload, payload_kind: a program of the device that does nothing.
    """

    factory: Callable[[], Device]
    payload: bytes = b"[]"
    payload_kind: int = PayloadKind.OP_LIST

    def image(self, num_symbols: int = 0, f16_format: str = "ieee") -> bytes:
        """The program in its container; its correction area lies at 128 of the static block."""
        size = 128 + -(-16 * num_symbols // 128) * 128
        return Image(
            self.payload,
            self.payload_kind,
            correction_offset=128 if num_symbols else None,
            correction_size=size if num_symbols else 0,
            num_symbols=num_symbols,
            f16_format=f16_format,
        ).encode()


def finish(device: Device) -> list[Completion]:
    """Take all completions."""
    completions = []
    while device.in_flight():
        completion = device.next_completion()
        assert completion is not None, "operations are in flight, but none completes"
        completions.append(completion)
    return completions


def run(device: Device, block: ControlBlock) -> Completion:
    """Execute one control block."""
    ticket = device.submit(block)
    (completion,) = finish(device)
    assert completion.ticket == ticket
    return completion


def refused(device: Device, block: ControlBlock) -> None:
    before = device.counters(), device.in_flight()
    try:
        device.submit(block)
    except ControlBlockError:
        assert (device.counters(), device.in_flight()) == before, "a refused submission left a trace"
        return
    raise AssertionError(f"the device accepted {block}")


def upload(data: bytes | np.ndarray[Any, Any], *pieces: Piece, **fields: Any) -> DmaCB:
    raw = bytearray(data if isinstance(data, bytes) else data.tobytes())
    return DmaCB(Direction.TO_DEVICE, memoryview(raw), pieces, **fields)


def interface(subject: Subject) -> None:
    """The device has all members of the protocol, and sensible properties."""
    device = subject.factory()
    assert isinstance(device, Device)
    props = device.props
    assert (props.stick_bytes, props.num_segments) == (128, 8)
    assert props.f16_format in ("ieee", "dlfloat")
    assert all(props.engines[engine] >= 1 for engine in Engine)
    assert subject.payload_kind in props.payload_kinds
    assert device.in_flight() == 0
    assert device.next_completion() is None


def regions(subject: Subject) -> None:
    """Regions: exact size, sparse, never reused ids, fill pattern, bounds of domains."""
    device = subject.factory()
    large = device.create_region(1 << 32, 0, MemoryType.TENSOR)
    info = device.region_info(large)
    assert (info.size, info.domain_id, info.memory_type) == (1 << 32, 0, MemoryType.TENSOR)
    fill = bytes([device.props.fill_byte])
    assert device.peek(large, (1 << 32) - 4, 4) == fill * 4
    device.poke(large, 1 << 31, b"abc")
    assert device.peek(large, 1 << 31, 3) == b"abc"
    other = device.create_region(REGION, 0, MemoryType.PROGRAM_STATIC)
    device.destroy_region(other)
    assert device.create_region(REGION, 0, MemoryType.PROGRAM_STATIC) not in (large, other)
    try:
        device.create_region(1 << 50, 0, MemoryType.TENSOR)
    except MemoryError:
        return
    raise AssertionError("a region larger than the domain was created")


def plain_copies(subject: Subject) -> None:
    """Bytes go in, from piece to piece, and out again; several pieces are one range."""
    device = subject.factory()
    first, second = (device.create_region(REGION, 0, MemoryType.TENSOR) for _ in range(2))
    data = bytes(range(256)) * 3
    pieces = (Piece(first, 1024, 256), Piece(second, 0, 512))
    completion = run(device, upload(data, *pieces))
    assert (completion.status, completion.bytes) == (Status.OK, 768)
    assert device.peek(first, 1024, 256) + device.peek(second, 0, 512) == data
    target = Piece(first, 4096, 768)
    assert run(device, DmaCB(Direction.ON_DEVICE, None, (target,), pieces)).status is Status.OK
    back = bytearray(768)
    run(device, DmaCB(Direction.FROM_DEVICE, memoryview(back), (target,)))
    assert bytes(back) == data
    run(device, FillCB((Piece(first, 4096, 8),), 0x1234, 2))
    assert device.peek(first, 4096, 10) == b"\x34\x12" * 4 + data[8:10]


def nested_copies(subject: Subject) -> None:
    """Loop nests place elements; the rest is zeroed or kept, as asked."""
    device = subject.factory()
    region = device.create_region(REGION, 0, MemoryType.TENSOR)
    host = np.arange(12, dtype=np.float16).reshape(3, 4)
    nest = Nest((4, 3), (1, 4), (64, 1))
    piece = Piece(region, 0, 512)
    for padding in (True, False):
        device.poke(region, 0, b"\x55" * 512)
        fields = {"nests": (nest,), "src_format": "float16", "dst_format": "float16", "fill_padding": padding}
        assert run(device, upload(host, piece, **fields)).status is Status.OK
        memory = np.frombuffer(device.peek(region, 0, 512), np.uint16).reshape(4, 64)
        assert (memory[:, :3] == host.T.view(np.uint16)).all()
        assert (memory[:, 3:] == (0 if padding else 0x5555)).all()
    back = np.zeros((3, 4), np.float16)
    reverse = Nest((4, 3), (64, 1), (1, 4))
    run(
        device,
        DmaCB(
            Direction.FROM_DEVICE,
            back.reshape(-1).view(np.uint8).data,
            (piece,),
            (),
            (reverse,),
            "float16",
            "float16",
        ),
    )
    assert (back == host).all()


def structure(subject: Subject) -> None:
    """Malformed control blocks are refused at once and leave no trace."""
    device = subject.factory()
    region = device.create_region(REGION, 0, MemoryType.TENSOR)
    refused(device, upload(bytes(128), Piece(region, REGION, 128)))
    refused(device, upload(bytes(128), Piece(region + 77, 0, 128)))
    refused(device, upload(bytes(128), Piece(region, 0, 256)))
    refused(device, upload(b"", Piece(region, 0, 0)))
    refused(device, upload(bytes(128), Piece(region, 0, 128), nests=(Nest((129,), (1,), (1,)),)))
    refused(device, DmaCB(Direction.FROM_DEVICE, memoryview(bytes(128)), (Piece(region, 0, 128),)))
    refused(device, FillCB((Piece(region, 0, 127),), 1, 2))
    table = (UNMAPPED,) * 7 + (SegmentEntry(True, region, 0, 4096, True),)
    refused(device, ComputeCB(0, (UNMAPPED,) * 8, 1, DIGEST))
    refused(device, ComputeCB(64, table, 1, DIGEST))
    refused(device, ComputeCB(4096, table, 1, DIGEST))
    refused(device, ComputeCB(0, table, 1, DIGEST, entry_segment=6))
    beyond = (UNMAPPED,) * 7 + (SegmentEntry(True, region, 0, 2 * REGION, True),)
    refused(device, ComputeCB(0, beyond, 1, DIGEST))


def programs(subject: Subject) -> None:
    """A program that does nothing runs, again and again, wherever its block lies."""
    device = subject.factory()
    image = subject.image(f16_format=device.props.f16_format)
    region = device.create_region(REGION, 0, MemoryType.PROGRAM_STATIC)
    for base in (0, 8192):
        device.poke(region, base + 256, image)
        table = (UNMAPPED,) * 7 + (SegmentEntry(True, region, base, 4096, True),)
        for launch in range(2):
            completion = run(device, ComputeCB(256, table, launch, DIGEST, "nothing"))
            assert completion.fault is None, completion.fault
            assert completion.t_submit <= completion.t_start <= completion.t_end


def damaged_images(subject: Subject) -> None:
    """Magic, CRC, payload digest and f16 format of an image are checked before it runs."""
    device = subject.factory()
    good = subject.image(f16_format=device.props.f16_format)
    region = device.create_region(REGION, 0, MemoryType.PROGRAM_STATIC)
    table = (UNMAPPED,) * 7 + (SegmentEntry(True, region, 0, REGION, True),)
    other = "ieee" if device.props.f16_format == "dlfloat" else "dlfloat"
    cases = [subject.image(f16_format=other)]
    for position in (0, 8, 41, 127, 128):
        bad = bytearray(good)
        bad[position] ^= 1
        cases.append(bytes(bad))
    for image in cases:
        device.poke(region, 0, image)
        completion = run(device, ComputeCB(0, table, 1, DIGEST))
        assert completion.status is Status.FAULT
        assert completion.fault is not None
        assert issubclass(completion.fault.error, ComputeFault), completion.fault
    device.poke(region, 0, good)
    assert run(device, ComputeCB(0, table, 1, DIGEST)).status is Status.OK


def corrections(subject: Subject) -> None:
    """A correction must be whole, of this plan and of this launch."""
    device = subject.factory()
    image = subject.image(3, device.props.f16_format)
    region = device.create_region(REGION, 0, MemoryType.PROGRAM_STATIC)
    device.poke(region, 1024, image)
    table = (UNMAPPED,) * 7 + (SegmentEntry(True, region, 0, REGION, True),)
    entries = tuple(Entry(k, EntryKind.OTHER, k - 1) for k in range(3))

    def launch(data: bytes) -> Completion:
        device.poke(region, 128, data)
        return run(device, ComputeCB(1024, table, 5, DIGEST))

    good = Correction(5, DIGEST, entries)
    assert launch(good.encode(256)).status is Status.OK
    stale = launch(attrs.evolve(good, launch_seq=4).encode(256))
    assert stale.fault is not None
    assert stale.fault.error is StaleCorrection
    flipped = bytearray(good.encode(256))
    flipped[130] ^= 1
    for bad in (
        bytes(flipped),
        bytes(256),
        attrs.evolve(good, plan_digest64=bytes(8)).encode(256),
        attrs.evolve(good, entries=entries[:2]).encode(256),
    ):
        completion = launch(bad)
        assert completion.fault is not None
        assert issubclass(completion.fault.error, ComputeFault), completion.fault


def virtual_time(subject: Subject) -> None:
    """Time is virtual, monotonic and deterministic; engines run beside each other; ``advance`` " "stops at
    completions."""
    logs = []
    for _ in range(2):
        device = subject.factory()
        region = device.create_region(REGION, 0, MemoryType.TENSOR)
        buffers = [bytearray(4096) for _ in range(3)]
        tickets = [
            device.submit(DmaCB(direction, memoryview(buffer), (Piece(region, 4096 * k, 4096),)))
            for k, (direction, buffer) in enumerate(
                zip((Direction.TO_DEVICE, Direction.TO_DEVICE, Direction.FROM_DEVICE), buffers, strict=True)
            )
        ]
        assert device.next_completion(block=False) is None
        done = {c.ticket: c for c in finish(device)}
        first, second, third = (done[ticket] for ticket in tickets)
        if device.props.engines[Engine.DMA_IN] == 1:
            assert second.t_start >= first.t_end
        assert third.t_start < first.t_end
        assert device.now() == max(c.t_end for c in done.values())
        logs.append([(c.t_submit, c.t_start, c.t_end, c.bytes) for c in done.values()])
        start = device.now()
        device.advance(100)
        assert device.now() == start + 100
        device.submit(DmaCB(Direction.TO_DEVICE, memoryview(buffers[0]), (Piece(region, 0, 4096),)))
        device.advance(1 << 50)
        completion = device.next_completion(block=False)
        assert completion is not None
        assert device.now() == completion.t_end
    assert logs[0] == logs[1]


def cancellation(subject: Subject) -> None:
    """What has not started can be withdrawn; counters balance."""
    device = subject.factory()
    region = device.create_region(REGION, 0, MemoryType.TENSOR)
    count = device.props.engines[Engine.DMA_IN] + 1
    tickets = [device.submit(FillCB((Piece(region, 0, 128),), k + 1, 1)) for k in range(count)]
    assert not device.can_accept(Engine.DMA_IN)
    assert device.in_flight() == count
    assert not device.cancel(tickets[0])
    assert device.cancel(tickets[-1])
    assert not device.cancel(tickets[-1])
    assert not device.cancel(10_000)
    states = {c.ticket: c.status for c in finish(device)}
    assert states[tickets[-1]] is Status.CANCELLED
    assert states[tickets[0]] is Status.OK
    counters = device.counters()
    assert counters["cb_fill"] == counters["cb_ok"] + counters["cb_cancelled"] == count
    device.reset_counters()
    assert device.counters()["cb_fill"] == 0


def resetting(subject: Subject) -> None:
    """After ``reset`` nothing is left, and the device works."""
    device = subject.factory()
    region = device.create_region(REGION, 0, MemoryType.TENSOR)
    device.submit(upload(bytes(128), Piece(region, 0, 128)))
    device.reset()
    assert device.in_flight() == 0
    assert device.next_completion() is None
    fresh = device.create_region(REGION, 0, MemoryType.TENSOR)
    assert fresh != region
    assert run(device, upload(bytes(128), Piece(fresh, 0, 128))).status is Status.OK
    device.close()


CASES: tuple[Callable[[Subject], None], ...] = (
    interface,
    regions,
    plain_copies,
    nested_copies,
    structure,
    programs,
    damaged_images,
    corrections,
    virtual_time,
    cancellation,
    resetting,
)
"""All cases; each takes a :class:`Subject`."""
