"""Plans beyond the usual one: transfers back, chained host functions, events, groups, chunks (runtime spec 3.11-3.17)."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

from spyrert import Launch, MicroDevice, Progress, Runtime, RuntimeConfig, errors
from spyrert.constants import program_address
from spyrert.device import DeviceProperties, MemoryDomain
from spyrert.memory import AllocationDirective, PlacementPolicy
from spyrert.spyrecode import (
    Abi,
    Addr,
    Addressing,
    Allocate,
    ArgSpec,
    CodeFile,
    ComputeOnDevice,
    ComputeOnHost,
    DataTransfer,
    EventSignal,
    EventWait,
    Hcm,
    HcmSymbol,
    Image,
    InitTransfer,
    LaunchSpec,
    LinearLayout,
    PayloadKind,
    Role,
    SpyreCode,
    assemble,
)

MakeAdd = Callable[..., SpyreCode]


def code_of(
    program: list[Any], execution: list[Any], spec: LaunchSpec | None = None, **fields: Any
) -> SpyreCode:
    """An artefact with one image at 1024 of a block of 4096 bytes."""
    addressing = fields.setdefault("addressing", Addressing.SYMBOLIC)
    image = Image(
        json.dumps(program).encode(),
        PayloadKind.OP_LIST,
        abi=Abi.BAKED if addressing is Addressing.BAKED else Abi.SYMBOLIC,
    )
    data = image.encode()
    return SpyreCode(
        "plan",
        (Allocate(4096), InitTransfer("init_binary.bin", program_address(1024), len(data))),
        tuple(execution),
        (CodeFile("init_binary.bin", data),),
        launch=spec or LaunchSpec("plan"),
        **fields,
    )


def static(offset: int, value: int) -> dict[str, Any]:
    """Fill one stick of the static block."""
    return {
        "op": "fill",
        "out": {"addr": program_address(offset), "shape": [32], "dtype": "int32"},
        "value": value,
    }


RUN = ComputeOnDevice(program_address(1024))


def test_results_of_transfers_back(rt: Runtime) -> None:
    """runtime spec 3.13.5: bytes of a from-device transfer belong to the ticket."""
    code = code_of([static(2048, 7)], [RUN, DataTransfer(False, "out", program_address(2048), 128)])
    plan = rt.prepare_kernel(code)
    assert [plan.get_step_type(k) for k in range(2)] == ["Compute", "D2H"]
    ticket = rt.launch(plan, [])
    assert np.frombuffer(ticket.host_buffer("out"), np.int32).tolist() == [7] * 32
    with pytest.raises(KeyError):
        ticket.host_buffer("other")


def test_baked_transfer_of_a_tensor(rt: Runtime) -> None:
    """runtime spec 3.11.2: with baked addresses a transfer back may name a tensor's segment."""
    spec = LaunchSpec(
        "plan",
        (ArgSpec(Role.INPUT, (64,), "int32", LinearLayout("int32"), "@0x0"),),
        bundle_symbolic_args=False,
    )
    code = code_of([], [RUN, DataTransfer(False, "out", 128, 128)], spec, addressing=Addressing.BAKED)
    plan = rt.prepare_kernel(code)
    tensor = rt.to_device(np.arange(64, dtype=np.int32), LinearLayout("int32"))
    ticket = rt.launch(plan, [tensor])
    assert np.frombuffer(ticket.host_buffer("out"), np.int32).tolist() == list(range(32, 64))


def test_chained_host_functions(rt: Runtime) -> None:
    """runtime spec 1.3: a host function may take the result of another."""
    seen: list[bytes | None] = []

    def first(inputs: Any, hcm: Any, out: memoryview) -> None:
        seen.append(inputs.handle)
        out[:] = b"\x05" * len(out)

    def second(inputs: Any, hcm: Any, out: memoryview) -> None:
        seen.append(inputs.handle[:3])
        out[:] = bytes(2 * b for b in inputs.handle)

    rt.register_host_function("first", first)
    rt.register_host_function("second", second)
    hcm = Hcm((), 128)
    code = code_of(
        [],
        [
            ComputeOnHost("a", 128, attrs.evolve(hcm, function="first")),
            ComputeOnHost("b", 128, attrs.evolve(hcm, function="second"), "a"),
            DataTransfer(True, "b", program_address(2048), 128),
            RUN,
            DataTransfer(False, "back", program_address(2048), 128),
        ],
    )
    ticket = rt.launch(rt.prepare_kernel(code), [])
    assert ticket.host_buffer("back") == b"\x0a" * 128
    assert seen == [None, b"\x05" * 3]


def test_events_in_plans(rt: Runtime) -> None:
    """runtime spec 3.9.5: ids are local to one launch."""
    code = code_of([static(2048, 1)], [EventSignal(3), RUN, EventWait(3), RUN])
    plan = rt.prepare_kernel(code)
    assert [plan.get_step_type(k) for k in range(4)] == ["EventSignal", "Compute", "EventWait", "Compute"]
    for _ in range(3):
        rt.launch(plan, []).wait()
    assert rt.device().counters()["cb_compute"] == 6


def test_several_images_and_computes(rt: Runtime) -> None:
    """runtime spec 1.15: executed in order; all share the static block."""
    first, second = (
        Image(json.dumps([op]).encode(), PayloadKind.OP_LIST).encode()
        for op in (static(128, 4), {"op": "add", **{k: static(128, 0)["out"] for k in ("lhs", "rhs", "out")}})
    )
    code = SpyreCode(
        "two",
        (
            Allocate(8192),
            InitTransfer("a.bin", program_address(1024), len(first)),
            InitTransfer("sub/b.bin", program_address(4096), len(second)),
        ),
        (
            ComputeOnDevice(program_address(1024), "a"),
            ComputeOnDevice(program_address(4096), "b"),
            DataTransfer(False, "out", program_address(128), 128),
        ),
        (CodeFile("a.bin", first), CodeFile("sub/b.bin", second)),
        launch=LaunchSpec("two"),
    )
    ticket = rt.launch(rt.prepare_kernel(code), [])
    assert np.frombuffer(ticket.host_buffer("out"), np.int32).tolist() == [8] * 32


def test_files_in_sub_folders(tmp_path: Any) -> None:
    """File references may name sub-folders of the code folder, with metadata kept apart."""
    data = Image(
        b"[]", PayloadKind.OP_LIST, correction_offset=128, correction_size=256, num_symbols=0
    ).encode()
    hcm = Hcm((), 256)
    code = SpyreCode(
        "parts",
        (Allocate(4096), InitTransfer("sub/b.bin", program_address(1024), len(data))),
        (
            ComputeOnHost("c", 256, hcm, hcm_file="hcm.json"),
            DataTransfer(True, "c", program_address(128), 256),
            ComputeOnDevice(program_address(1024)),
        ),
        (CodeFile("sub/b.bin", data), CodeFile("hcm.json", json.dumps(hcm.to_json()).encode())),
        launch=LaunchSpec("parts"),
    )
    code.write(tmp_path)
    back = SpyreCode.read(tmp_path)
    assert set(back.files) == set(code.files)
    assert back.digest == code.digest


def test_groups_are_atomic(make_add: MakeAdd) -> None:
    """reading 38: nothing comes between the launches of a group; a refusal of one enqueues none."""
    with Runtime(MicroDevice, RuntimeConfig(progress=Progress.MANUAL)) as rt:
        plan = rt.prepare_kernel(make_add((2, 64)))
        one = rt.to_device(np.ones((2, 64), np.float16))
        temporaries = [rt.empty((2, 64), "float16") for _ in range(8)]
        chain = [
            Launch(plan, [a, one, b], {"n": 1})
            for a, b in zip([one, *temporaries], temporaries, strict=False)
        ]
        rt.synchronize()
        with rt.op_log() as log, pytest.raises(errors.ArgumentCountError):
            rt.launch_group([*chain, Launch(plan, [one], {"n": 1})])
        rt.synchronize()
        assert log == []
        stream = rt.Stream()
        numbers: list[tuple[int, ...]] = []

        def work() -> None:
            tickets = rt.launch_group(chain, stream=stream)
            numbers.append(tuple(o.op_id for t in tickets for o in t.operations))

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rt.synchronize()
        for ids in numbers:
            assert ids == tuple(range(ids[0], ids[0] + len(ids)))
        assert (rt.to_host(temporaries[-1]) == 9).all()
        assert rt.launch_group([]) == []


def test_interleaved_arguments() -> None:
    """runtime checklist R112; fault L15: one address per chunk if the kernel takes them, else a refusal."""
    props = DeviceProperties(domains=tuple(MemoryDomain(k, 8 << 20) for k in range(2)))
    config = RuntimeConfig(
        progress=Progress.MANUAL,
        tensor_region_bytes=1 << 20,
        program_region_bytes=1 << 18,
        dynamic_region_bytes=1 << 18,
    )
    linear = LinearLayout("int32")
    spec = LaunchSpec("chunks", (ArgSpec(Role.INPUT_OUTPUT, (64,), "int32", linear, "x"),))

    def part(slot: int) -> dict[str, Any]:
        return {"addr": {"slot": slot}, "shape": [32], "dtype": "int32"}

    program = [{"op": "fill", "out": part(k), "value": k + 5} for k in range(2)]
    symbols = (HcmSymbol(-1, Addr(0, 0)), HcmSymbol(-2, Addr(0, 1)))
    plain = assemble(json.dumps(program).encode(), PayloadKind.OP_LIST, spec, symbols)
    host = plain.execution[0]
    assert isinstance(host, ComputeOnHost)
    assert isinstance(host.hcm, Hcm)
    mapped = attrs.evolve(host, hcm=attrs.evolve(host.hcm, chunk_map=((0, 0, 2),)))
    code = attrs.evolve(plain, execution=(mapped, *plain.execution[1:]))
    with Runtime(lambda: MicroDevice(props), config) as rt:
        spread = rt.to_device(
            np.zeros(64, np.int32), linear, directive=AllocationDirective(PlacementPolicy.INTERLEAVE)
        )
        assert len(spread.addresses()) == 2
        rt.launch(rt.prepare_kernel(code), [spread])
        assert rt.to_host(spread).tolist() == [5] * 32 + [6] * 32
        single = rt.to_device(np.zeros(64, np.int32), linear)
        with pytest.raises(errors.LayoutMismatch, match=r"has 1 chunks, the kernel expects \[2\]"):
            rt.launch(rt.prepare_kernel(code), [single])
        with pytest.raises(errors.LayoutMismatch, match="interleaved over 2 chunks"):
            rt.launch(rt.prepare_kernel(plain), [spread])


def test_tiles_of_an_interleaved_tensor() -> None:
    """runtime checklist R112: tiles along the sharded dimension lie in successive regions; a tile across a border is
    refused; the result is that of one tensor."""
    props = DeviceProperties(domains=tuple(MemoryDomain(k, 8 << 20) for k in range(2)))
    config = RuntimeConfig(
        progress=Progress.MANUAL,
        tensor_region_bytes=1 << 20,
        program_region_bytes=1 << 18,
        dynamic_region_bytes=1 << 18,
    )
    linear = LinearLayout("int32")

    def kernel(size: int) -> SpyreCode:
        args = tuple(
            ArgSpec(role, (size,), "int32", linear, name)
            for role, name in ((Role.INPUT, "x"), (Role.OUTPUT, "y"))
        )
        x, y = ({"addr": {"slot": k}, "shape": [size], "dtype": "int32"} for k in range(2))
        program = [{"op": "add", "lhs": x, "rhs": x, "out": y}]
        symbols = [HcmSymbol(-1, Addr(0)), HcmSymbol(-2, Addr(1))]
        return assemble(json.dumps(program).encode(), PayloadKind.OP_LIST, LaunchSpec("twice", args), symbols)

    with Runtime(lambda: MicroDevice(props), config) as rt:
        array = np.arange(128, dtype=np.int32)
        spread = rt.to_device(array, linear, directive=AllocationDirective(PlacementPolicy.INTERLEAVE))
        result = rt.empty((128,), "int32", linear, directive=AllocationDirective(PlacementPolicy.INTERLEAVE))
        first, second = spread.addresses()
        assert [spread[k : k + 32].addresses() for k in (0, 32, 64, 96)] == [
            (first,),
            (first + 128,),
            (second,),
            (second + 128,),
        ]
        assert spread[32:96].addresses() == (first + 128, second)
        assert first >> 34 != second >> 34
        plan = rt.prepare_kernel(kernel(32))
        ticket = rt.launch(plan, [spread, result])
        assert ticket.tiles == 4
        np.testing.assert_array_equal(rt.to_host(result), 2 * array)
        half = rt.prepare_kernel(kernel(64))
        rt.launch(half, [spread[64:], result[:64]])
        np.testing.assert_array_equal(rt.to_host(result)[:64], 2 * array[64:])
        whole = rt.prepare_kernel(kernel(128))
        with pytest.raises(errors.LayoutMismatch, match="interleaved over 2 chunks"):
            rt.launch(whole, [spread, result])
        with pytest.raises(errors.LayoutMismatch, match="interleaved over 2 chunks"):
            rt.launch(half, [spread[32:96], result[:64]])


def test_pure_transfer_plan(rt: Runtime) -> None:
    """runtime spec 1.3: without images if nothing is computed."""
    code = SpyreCode(
        "moves",
        (Allocate(256),),
        (DataTransfer(False, "out", program_address(0), 256),),
        addressing=Addressing.NONE,
        launch=LaunchSpec("moves"),
    )
    plan = rt.prepare_kernel(code)
    assert rt.launch(plan, []).host_buffer("out") == b"\xcd" * 256


def test_fork() -> None:
    """runtime checklist R102; fault R21: the child is refused, the parent goes on."""
    with Runtime(MicroDevice, RuntimeConfig(progress=Progress.MANUAL)) as rt:
        tensor = rt.to_device(np.arange(4))
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                rt.to_host(tensor)
                os.write(writer, b"worked")
            except errors.RuntimeUnavailable:
                os.write(writer, b"refused")
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert os.read(reader, 100) == b"refused"
        os.close(reader)
        os.close(writer)
        np.testing.assert_array_equal(rt.to_host(tensor), np.arange(4))


def test_all_errors_are_runtime_errors() -> None:
    """runtime checklist R101"""
    found = [
        e
        for e in vars(errors).values()
        if isinstance(e, type) and issubclass(e, Exception) and not issubclass(e, Warning)
    ]
    assert len(found) > 40
    assert all(issubclass(error, RuntimeError) for error in found)
    assert issubclass(errors.OutOfDeviceMemory, MemoryError)
