"""Tensors and copies (runtime spec 3.4, 3.5)."""

from __future__ import annotations

import gc
import random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from spyrert import DeviceTensor, MicroDevice, Progress, Runtime, RuntimeConfig
from spyrert.device import DeviceProperties, MemoryDomain
from spyrert.errors import ArgumentError, DmaSizeError, LayoutMismatch, OutOfDeviceMemory, UnsupportedDtype
from spyrert.execution import EventGeneration, Signal, Wait
from spyrert.memory import AllocationDirective, PlacementPolicy
from spyrert.spyrecode import LinearLayout, StickLayout

DTYPES = [
    "float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool",
    "float8_e4m3fn", "float8_e5m2",
]  # fmt: skip


def values(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    kind = getattr(ml_dtypes, dtype, dtype)
    return rng.integers(0, 100, shape).astype(kind)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (70,), (4, 70), (3, 5, 130), (2, 3, 1, 65)])
def test_round_trip(rt: Runtime, shape: tuple[int, ...], dtype: str) -> None:
    """runtime checklist R42: every dtype and rank, bit for bit."""
    array = values(shape, dtype)
    tensor = rt.to_device(array)
    assert tensor.dtype == dtype
    back = rt.to_host(tensor)
    assert back.dtype == array.dtype
    assert back.tobytes() == array.tobytes()


@pytest.mark.sweep(default=200, full=5000)
def test_random_layouts_and_views(cases: int) -> None:
    """runtime checklist R42, R46: to_device then to_host is the identity for random orders and views."""
    rng = random.Random(21)
    with Runtime(MicroDevice, RuntimeConfig(progress=Progress.MANUAL)) as rt:
        for number in range(cases):
            rank = rng.randint(0, 6)
            shape = tuple(
                rng.choice([1, 2, 3, 5, 65]) if a == rank - 1 else rng.randint(1, 4) for a in range(rank)
            )
            dtype = rng.choice(["float16", "float32", "int8"])
            order = list(range(rank))
            rng.shuffle(order)
            layout = rng.choice([StickLayout.default(shape, dtype, order), LinearLayout(dtype)])
            array = values(shape, dtype, number)
            tensor = rt.to_device(array, layout)
            window = tuple(
                rng.choice(
                    [
                        slice(None),
                        slice(rng.randrange(n), None),
                        slice(None, None, 2),
                        slice(None, None, -1),
                        rng.randrange(n),
                    ]
                )
                for n in shape
            )
            view, expected = tensor[window], array[(*window, ...)]
            axes = list(range(view.ndim))
            rng.shuffle(axes)
            view, expected = view.transpose(*axes), expected.transpose(axes)
            np.testing.assert_array_equal(rt.to_host(view), expected)
            new = values(expected.shape, dtype, number + 1)
            rt.copy(new, view)
            expected = array.copy()
            expected[(*window, ...)].transpose(axes)[...] = new
            np.testing.assert_array_equal(rt.to_host(tensor), expected)


def test_views_read_back(rt: Runtime) -> None:
    """runtime checklist R45, R46"""
    array = values((512, 240), "float16")
    tensor = rt.to_device(array)
    assert tensor[3].device_offset() == 3 * 128
    assert tensor[:, 64].device_offset() == 512 * 128
    with pytest.raises(LayoutMismatch, match="not on a stick"):
        tensor[:, 30].device_offset()
    np.testing.assert_array_equal(rt.to_host(tensor[::7, 30:200:3]), array[::7, 30:200:3])
    np.testing.assert_array_equal(rt.to_host(tensor[None, -1, ..., 5]), array[None, -1, ..., 5])
    expanded = tensor[0:1].expand((5, 240))
    np.testing.assert_array_equal(rt.to_host(expanded), np.broadcast_to(array[0:1], (5, 240)))
    for bad in ("x", 1.5, (0, 0, 0), (..., ...)):
        with pytest.raises((TypeError, IndexError)):
            tensor[bad]
    with pytest.raises(IndexError):
        tensor[512]


def test_padding_is_zero(rt: Runtime) -> None:
    """runtime checklist R43"""
    tensor = rt.to_device(np.full((3, 70), 7, np.float16))
    (piece,) = tensor.storage.address.pieces()
    raw = np.frombuffer(rt.device().peek(piece.region_id, piece.offset, piece.size), np.float16).reshape(
        2, 3, 64
    )
    assert (raw[0] == 7).all()
    assert (raw[1, :, :6] == 7).all()
    assert (raw[1, :, 6:] == 0).all()


def test_partial_sticks_keep_their_neighbours(rt: Runtime) -> None:
    """runtime checklist R48"""
    array = values((4, 200), "float16")
    tensor = rt.to_device(array)
    patch = np.full((2, 7), -1, np.float16)
    rt.copy(patch, tensor[1:3, 60:67])
    array[1:3, 60:67] = patch
    np.testing.assert_array_equal(rt.to_host(tensor), array)


def test_empty_tensors(rt: Runtime) -> None:
    """runtime checklist R39; fault M2: no memory, no operation."""
    before = rt.memory_stats()
    with rt.op_log() as log:
        tensor = rt.to_device(np.empty((3, 0), np.float16))
        assert rt.to_host(tensor).shape == (3, 0)
        rt.copy(np.empty((0,), np.float16), tensor[0])
    assert log == []
    assert tensor.token == 0
    assert rt.memory_stats() == before


def test_host_arrays_of_any_kind(rt: Runtime) -> None:
    """Non-contiguous, reversed, and foreign-endian arrays."""
    base = values((6, 140), "float16")
    for array in (base[::2, ::-1], base.T, base.astype(">f2"), np.asfortranarray(base)):
        np.testing.assert_array_equal(rt.to_host(rt.to_device(array)), array)


def test_unsupported_dtypes(rt: Runtime) -> None:
    """fault M8"""
    for bad in (np.zeros(3, np.complex64), np.array(["x"]), np.array([object()])):
        with pytest.raises(UnsupportedDtype):
            rt.to_device(bad)
    with pytest.raises(LayoutMismatch, match="at most 6"):
        rt.empty((1,) * 7, "float16")


def test_copy_shapes(rt: Runtime) -> None:
    """fault M9"""
    tensor = rt.empty((4, 70), "float16")
    for bad in (np.zeros((4, 69), np.float16), rt.empty((70, 4), "float16")):
        with pytest.raises(DmaSizeError):
            rt.copy(bad, tensor)


def test_device_to_device(rt: Runtime) -> None:
    """Same layout: one operation on the device. Another layout or dtype: through the host."""
    array = values((6, 70), "float16")
    source = rt.to_device(array)
    same, other, wide = (
        rt.empty((6, 70), "float16"),
        rt.empty((6, 70), "float16", LinearLayout("float16")),
        rt.empty((6, 70), "float32"),
    )
    for target in (same, other, wide):
        with rt.op_log() as log:
            rt.copy(source, target)
        np.testing.assert_array_equal(rt.to_host(target), array)
        assert [op.kind for op in log] == (["D2D"] if target is same else ["D2H", "HostCallback", "H2D"])


def test_non_blocking_copies_hold_their_buffers() -> None:
    """runtime checklist R47: results are right even if every Python reference to the host buffers is dropped."""
    with Runtime(MicroDevice, RuntimeConfig(progress=Progress.MANUAL)) as rt:
        tensor = rt.to_device(np.arange(300, dtype=np.float32).reshape(3, 100), non_blocking=True)
        ticket = rt.to_host_async(tensor[1:, ::9])
        gc.collect()
        assert not ticket.done()
        np.testing.assert_array_equal(ticket.wait(), np.arange(300).reshape(3, 100)[1:, ::9])


@pytest.mark.sweep(default=1000, full=10_000)
def test_no_tensor_in_guard_or_program_segment(cases: int) -> None:
    """runtime checklist R27: no tensor has an address below segment 1 or in the program's segment, however many there
    are and whatever was freed between."""
    rng = random.Random(4)
    config = RuntimeConfig(
        progress=Progress.MANUAL,
        tensor_region_bytes=1 << 16,
        program_region_bytes=1 << 16,
        dynamic_region_bytes=1 << 16,
    )
    with Runtime(MicroDevice, config) as rt:
        live: list[DeviceTensor] = []
        segments: set[int] = set()
        for _ in range(cases):
            if live and rng.random() < 0.4:
                live.pop(rng.randrange(len(live)))
            try:
                live.append(rt.empty((rng.randrange(1, 40), rng.randrange(1, 70)), "float16"))
            except OutOfDeviceMemory:
                live.clear()
                continue
            (address,) = live[-1].addresses()
            assert 1 << 34 <= address < 6 << 34
            segments.add(address >> 34)
        assert segments == {1, 2, 3, 4, 5}


def test_memory_comes_back(rt: Runtime) -> None:
    """runtime checklist R100 (part): dropping tensors frees their memory, also with copies in flight."""
    for _ in range(5):
        tensor = rt.to_device(values((64, 64), "float32"), non_blocking=True)
        del tensor
    gc.collect()
    rt.synchronize()
    assert rt.memory_allocated() == 0
    assert rt.leak_report() == []
    assert rt.memory_stats()["deferred_bytes"] == 0


def test_freed_blocks_wait_for_their_operations() -> None:
    """runtime checklist R37, R38; fault R15"""
    config = RuntimeConfig(progress=Progress.MANUAL, tensor_region_bytes=32768, tensor_regions=1)
    with Runtime(MicroDevice, config) as rt:
        first = rt.to_device(np.ones((256, 64), np.float16), non_blocking=True)
        del first
        gc.collect()
        assert rt.memory_stats()["deferred_bytes"] == 32768
        second = rt.empty((256, 64), "float16")  # waits for the copy in flight, then takes its place
        assert rt.memory_stats()["deferred_bytes"] == 0
        assert second.token != 0


def test_record_stream(rt: Runtime) -> None:
    """runtime spec 3.3.6: memory that a stream still uses by other means is not reused."""
    stream = rt.Stream()
    gate = EventGeneration(stream.scheduler)
    stream.scheduler.submit([(stream.state, Wait("gate", event=gate))])
    tensor = rt.empty((64, 64), "float16")
    rt.record_stream(tensor, stream)
    del tensor
    gc.collect()
    stats = rt.memory_stats()
    assert (stats["allocated_bytes.all.current"], stats["deferred_bytes"]) == (0, 8192)
    rt.default_stream().scheduler.submit([(rt.default_stream().state, Signal("gate", event=gate))])
    rt.synchronize()
    assert rt.memory_stats()["deferred_bytes"] == 0


def test_tensor_at(rt: Runtime) -> None:
    """reading 26: a tensor over a slice of an allocation keeps it alive."""
    arena = rt.empty((4096,), "uint8", LinearLayout("uint8"))
    base = arena.addresses()[0]
    array = values((4, 64), "float16")
    part = rt.tensor_at(base + 512, (4, 64), "float16", LinearLayout("float16"))
    rt.copy(array, part)
    assert rt.to_host(arena)[512:1024].tobytes() == array.tobytes()
    del arena
    gc.collect()
    assert rt.memory_allocated() == 4096
    np.testing.assert_array_equal(rt.to_host(part), array)
    for address, shape in ((base + 64, (4, 64)), (base + 4096, (1, 1)), (base + 3968, (64, 64)), (5, (1, 1))):
        with pytest.raises(ArgumentError):
            rt.tensor_at(address, shape, "float16", LinearLayout("float16"))
    del part
    gc.collect()
    assert rt.memory_allocated() == 0


def test_symbolic_storage(rt: Runtime) -> None:
    """reading 36: storage and strides of the greatest shape."""
    tensor = rt.empty((3, 70), "float16", max_shape=(8, 70))
    assert tensor.strides == (70, 1)
    assert tensor.storage.nbytes == 2 * 8 * 128
    array = values((3, 70), "float16")
    rt.copy(array, tensor)
    np.testing.assert_array_equal(rt.to_host(tensor), array)
    with pytest.raises(LayoutMismatch):
        rt.empty((9, 70), "float16", max_shape=(8, 70))


def test_interleaved_tensor() -> None:
    """runtime checklist R112 (copies): a tensor over several memory domains is one tensor."""
    props = DeviceProperties(domains=tuple(MemoryDomain(k, 8 << 20) for k in range(4)))
    config = RuntimeConfig(
        progress=Progress.MANUAL,
        tensor_region_bytes=1 << 20,
        program_region_bytes=1 << 18,
        dynamic_region_bytes=1 << 18,
    )
    with Runtime(lambda index: MicroDevice(props), config) as rt:
        array = values((32, 64), "float16")
        directive = AllocationDirective(PlacementPolicy.INTERLEAVE, (0, 1, 2, 3))
        tensor = rt.to_device(array, directive=directive)
        assert [c.domain_id for c in tensor.storage.address.chunks] == [0, 1, 2, 3]
        assert len(tensor.addresses()) == 4
        np.testing.assert_array_equal(rt.to_host(tensor), array)
        np.testing.assert_array_equal(rt.to_host(tensor[5:20, 3]), array[5:20, 3])


def test_dlfloat_device_uses_upstreams_formats() -> None:
    """runtime spec 3.4.1: on a device with DLFloat16 the table decides the format; the device converts."""

    class Half(MicroDevice):
        def __init__(self) -> None:
            super().__init__(DeviceProperties(f16_format="dlfloat"))
            for name in ("float16", "bfloat16"):
                self.register_converter(name, "df16", lambda raw: raw ^ np.uint16(1))
                self.register_converter("df16", name, lambda raw: raw ^ np.uint16(1))

    with Runtime(Half, RuntimeConfig(progress=Progress.MANUAL)) as rt:
        array = values((3, 70), "float16")
        tensor = rt.to_device(array)
        assert tensor.layout.device_dtype == "df16"
        np.testing.assert_array_equal(rt.to_host(tensor), array)
        wide = rt.to_device(np.array([[-5, 2**31 - 1]], np.int64))
        assert wide.layout.device_dtype == "int32"
        np.testing.assert_array_equal(rt.to_host(wide), [[-5, 2**31 - 1]])
        assert rt.empty((1, 100), "int64").storage.nbytes == 896  # never less than on the host
        raw = np.arange(70, dtype=np.uint16)
        exact = rt.to_device(raw, StickLayout.default((70,), "df16"), dtype="df16")
        assert exact.dtype == "df16"
        np.testing.assert_array_equal(rt.to_host(exact), raw)


def test_out_of_memory_names_the_padding(rt: Runtime) -> None:
    """fault M3 with host bytes, device bytes and factor."""
    from spyrert.errors import OutOfDeviceMemory

    with pytest.raises(
        OutOfDeviceMemory, match=r"65536 bytes on the host and 4194304 on the device \(padding factor 64"
    ):
        rt.empty((32768, 1), "float16")


def test_non_blocking_to_host(rt: Runtime) -> None:
    """``to_host(non_blocking=True)`` gives a ticket, also for a view that needs staging."""
    array = values((6, 100), "float16")
    tensor = rt.to_device(array)
    tickets = [rt.to_host(tensor[k:, ::3], non_blocking=True) for k in range(4)]
    rt.copy(np.zeros((6, 100), np.float16), tensor)
    for k, ticket in enumerate(tickets):
        np.testing.assert_array_equal(ticket.wait(), array[k:, ::3])


def test_resize(rt: Runtime) -> None:
    """runtime spec 3.4.4: elements keep their number in row-major order; views and launches keep the old storage."""
    array = values((6, 100), "float16")
    tensor = rt.to_device(array)
    view, storage = tensor[2:4], tensor.storage
    assert rt.resize_(tensor, (6, 100)).storage is storage
    assert rt.resize_(tensor, (3, 70)) is tensor
    np.testing.assert_array_equal(rt.to_host(tensor), array.reshape(-1)[:210].reshape(3, 70))
    np.testing.assert_array_equal(rt.to_host(view), array[2:4])
    rt.resize_(tensor, (1000,))
    np.testing.assert_array_equal(rt.to_host(tensor)[:210], array.reshape(-1)[:210])
    assert rt.to_host(rt.resize_(tensor, (0, 5))).shape == (0, 5)
    with pytest.raises(ArgumentError, match="not a view"):
        rt.resize_(view, (3,))
    with pytest.raises(ArgumentError):
        rt.resize_(tensor, (-1,))
    before = rt.memory_allocated()
    del tensor, view, storage
    gc.collect()
    assert rt.memory_allocated() < before


def test_debug_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, make_add: Any
) -> None:
    """``TORCH_SPYRE_DEBUG``: a line for each plan and launch, and only then."""
    for value, lines in (("0", 0), ("1", 3)):
        monkeypatch.setenv("TORCH_SPYRE_DEBUG", value)
        with Runtime(MicroDevice, RuntimeConfig.from_environment(progress=Progress.MANUAL)) as rt:
            plan = rt.prepare_kernel(make_add())
            tensors = [rt.empty((4, 70), "float16") for _ in range(3)]
            for n in range(2):
                rt.launch(plan, tensors, bindings={"n": n})
        err = capsys.readouterr().err.splitlines()
        assert len(err) == lines
        assert all(line.startswith("spyrert: ") for line in err)
