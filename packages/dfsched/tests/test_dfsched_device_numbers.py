"""Every number of a device description: what is too small or too large is refused at its place.

One device says every number once; each test changes one of them. Devices made in Python keep the same rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import dfsched
import ktir
from dfsched.architecture import (
    Access,
    AddressBuffer,
    DeviceBuilder,
    Features,
    Queue,
    RegisterFile,
    Simd,
    Transfer,
)
from dfsched.architecture.description import Timing
from dfsched.cli import main
from dfsched.errors import ArchitectureError

DEVICE = """\
ktdf_arch.device @d attributes {
  ktdf_ext.num_cores = 4, ktdf_ext.stick_bytes = 128, ktdf_ext.core_span_bytes = 65536, ktdf_ext.clock_hz = 1000,
  ktdf_ext.sync_latency = 2, ktdf_ext.fifo_latency = 1, ktdf_ext.memory_latency = 9,
  mem_space_mapping = #ktdf_arch.map<#ktdp.memory_space<global> = "FAR", #ktdp.memory_space<ct_local> = "NEAR">
} {
  %far = memory {kind = "FAR", size = 4096, ktdf_ext.bandwidth = [3, 5], ktdf_ext.latency = 7, ktdf_ext.reserved = 6}
  group {kind = "core"} share(%far) {
    %near = memory {kind = "NEAR", ktdf_arch.features = {
      ktdf_arch.feature.indirect_address_buffer = {num_entries = 31, entry_type = si32}}}
    %regs = memory {kind = "REGS", ktdf_arch.features = {ktdf_arch.feature.register_file = {word_size = 33}}}
    %load = exec_unit {kind = "LOAD", ktdf_arch.features = {ktdf_arch.feature.load = {
      word_size = #ktdf_arch.map<"FAR" = 64>,
      access_granularity = #ktdf_arch.map<"FAR" = [{size_in_words = 11, align_in_words = 12}]>}}}
    %alu = exec_unit {kind = "ALU", ktdf_arch.features = {
      ktdf_arch.feature.compute, ktdf_arch.feature.simd = {lanes = #ktdf_arch.map<f16 = 16>}}}
    datapath {ktdf_arch.transfer_granularity = array<i64: 13>, ktdf_arch.bandwidth = 17} %far to %load : memory, exec_unit
    datapath {ktdf_ext.bandwidth = 2.5, ktdf_arch.features = {ktdf_arch.feature.queue = {size = 18, depth = 19}}}
      %load to %alu : exec_unit, exec_unit
  }
}
"""
COUNT = (1 << 31) - 1
LEAST_AND_MOST = {
    "num_cores = 4": (1, 1 << 16),
    "stick_bytes = 128": (1, 1 << 20),
    "core_span_bytes = 65536": (1, 1 << 48),
    "clock_hz = 1000": (1, 10**15),
    "sync_latency = 2": (0, COUNT),
    "fifo_latency = 1": (0, COUNT),
    "memory_latency = 9": (0, COUNT),
    "size = 4096": (6, 1 << 48),
    "bandwidth = [3": (1, COUNT),
    ", 5]": (1, COUNT),
    "latency = 7": (0, COUNT),
    "reserved = 6": (0, 4096),
    "num_entries = 31": (1, COUNT),
    "word_size = 33": (1, COUNT),
    '"FAR" = 64': (1, COUNT),
    "size_in_words = 11": (1, COUNT),
    "align_in_words = 12": (1, COUNT),
    "f16 = 16": (1, 1 << 16),
    "array<i64: 13": (0, COUNT),
    "arch.bandwidth = 17": (1, COUNT),
    "size = 18": (1, 1 << 48),
    "depth = 19": (1, COUNT),
}


def load(tmp_path: Path, text: str) -> dfsched.Architecture:
    path = tmp_path / "d.mlir"
    path.write_text(text)
    return dfsched.load_architecture(path)


@pytest.mark.parametrize("spot", LEAST_AND_MOST)
def test_every_number(tmp_path: Path, spot: str) -> None:
    least, most = LEAST_AND_MOST[spot]
    assert DEVICE.count(spot) == 1
    found = re.search(r"\d+(?=\]?$)", spot)
    assert found is not None

    def changed(number: int) -> str:
        return DEVICE.replace(spot, spot[: found.start()] + str(number) + spot[found.end() :])

    for good in (int(found[0]), least, most):
        load(tmp_path, changed(good))
    for bad in (least - 1, most + 1, -(1 << 62), (1 << 63) - 1):
        with pytest.raises((ArchitectureError, ktir.VerifyError, ktir.ParseError)) as caught:
            load(tmp_path, changed(bad))
        line = DEVICE[: DEVICE.index(spot)].count("\n") + 1
        lines = [int(n) for n in re.findall(r"d\.mlir:(\d+):", str(caught.value))]
        assert lines, caught.value
        assert lines[0] <= line <= lines[0] + 4, caught.value  # the operation that says it


def test_numbers_that_are_none(tmp_path: Path) -> None:
    """Floats, strings and types where an integer is wanted."""
    for spot in LEAST_AND_MOST:
        number = re.search(r"\d+(?=\]?$)", spot)
        assert number is not None
        for bad in ('"x"', "1.5", "[1, 2, 3]"):
            if bad == "1.5" and "bandwidth" in spot and "arch" not in spot:
                continue
            with pytest.raises((ArchitectureError, ktir.VerifyError, ktir.ParseError)):
                load(tmp_path, DEVICE.replace(spot, spot[: number.start()] + bad + spot[number.end() :]))


@pytest.mark.parametrize("space", ["global", "ct_local"])
def test_memory_spaces_of_no_memory(tmp_path: Path, space: str) -> None:
    """`dfsched device` and `dfsched compile --device` say so, with the memories that there are."""
    old = {"global": '"FAR", #', "ct_local": '"NEAR">'}[space]
    path = tmp_path / "d.mlir"
    path.write_text(DEVICE.replace(old, old.replace('"', '"X', 1), 1))
    result = CliRunner().invoke(main, ["device", str(path)])
    assert result.exit_code == 1
    assert result.stderr.startswith(f"{path}:1:1: error: 'mem_space_mapping' says that ")
    assert (
        "but the device has no memory of that kind; memories: 'FAR', 'NEAR', 'REGS' (at @d)" in result.stderr
    )


def test_what_is_no_memory_is_no_target(tmp_path: Path) -> None:
    """A unit's kind is no memory; targets that are no strings are ignored (device spec 1.9 item 5)."""
    with pytest.raises(ArchitectureError, match="no memory of that kind"):
        load(tmp_path, DEVICE.replace('"NEAR">', '"ALU">'))
    load(tmp_path, DEVICE.replace('"NEAR">', "3>"))


BUILT: dict[str, Callable[[DeviceBuilder, int], Any]] = {
    "size": lambda d, n: d.memory("M", size=n),
    "latency": lambda d, n: d.memory("M", latency=n - 1),
    "bandwidth": lambda d, n: d.memory("M", bandwidth=n),
    "reserved": lambda d, n: d.memory("M", size=4, reserved=n - 1),
    "entries": lambda d, n: d.memory("M", features=Features(address_buffer=AddressBuffer(n, "i32"))),
    "register": lambda d, n: d.memory("M", features=Features(register_file=RegisterFile(n))),
    "lanes": lambda d, n: d.unit("U", features=Features(simd=Simd({"f16": n}))),
    "word": lambda d, n: d.unit("U", features=Features(store=Transfer({"M": n}))),
    "access": lambda d, n: d.unit("U", features=Features(load=Transfer({}, {"M": (Access(n),)}))),
    "align": lambda d, n: d.unit("U", features=Features(load=Transfer({}, {"M": (Access(1, n),)}))),
    "granularity": lambda d, n: d.datapath(d.memory("M"), d.unit("U"), granularity=(n - 1,)),
    "depth": lambda d, n: d.datapath(d.memory("M"), d.unit("U"), features=Features(queue=Queue(depth=n))),
    "queue": lambda d, n: d.datapath(d.memory("M"), d.unit("U"), features=Features(queue=Queue(size=n))),
    "ports": lambda d, n: d.switch(n, [[True]] * n),
}


@pytest.mark.parametrize("what", BUILT)
def test_devices_made_in_python(what: str) -> None:
    BUILT[what](DeviceBuilder("d"), 1)
    for bad in (0, -5, 1 << 62):
        if what != "ports" or bad == 0:
            with pytest.raises(ArchitectureError):
                BUILT[what](DeviceBuilder("d"), bad)


@pytest.mark.parametrize(
    "fields",
    [
        {"cores": 0},
        {"cores": -1},
        {"stick_bytes": 0},
        {"core_span_bytes": 0},
        {"timing": Timing(clock_hz=0)},
        {"timing": Timing(sync_latency=-1)},
        {"timing": Timing(memory_latency=1 << 40)},
        {"mem_space_mapping": {"global": "M"}},
    ],
)
def test_fields_of_devices_made_in_python(fields: dict[str, Any]) -> None:
    with pytest.raises(ArchitectureError, match="@d"):
        DeviceBuilder("d", **fields).build()
