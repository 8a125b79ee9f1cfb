"""Describing an artefact, for people and as JSON."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from spyrert.constants import PROG_OFFSET_BASE
from spyrert.spyrecode import (
    ComputeOnDevice,
    ComputeOnHost,
    DataTransfer,
    EventSignal,
    EventWait,
    Hcm,
    Image,
    PayloadKind,
    SpyreCode,
    expr_to_json,
    is_spyrebin,
)


def describe(code: SpyreCode) -> dict[str, Any]:
    """Everything that matters about an artefact as a JSON document."""
    launch = code.launch
    return {
        "kernel_name": code.kernel_name,
        "version": code.version,
        "digest": code.digest,
        "producer": code.producer.to_json(),
        "addressing": code.addressing.value,
        "f16_format": launch.f16_format if launch else None,
        "architecture": launch.architecture.to_json() if launch and launch.architecture else None,
        "features": list(code.features),
        "memory": code.memory(),
        "args": [arg.to_json(index) for index, arg in enumerate(launch.args)] if launch else None,
        "symbols": {symbol.name: symbol.to_json() for symbol in launch.symbols} if launch else None,
        "pool_size": launch.pool_size if launch else None,
        "host_symbols": [
            {"id": symbol.id, "expr": expr_to_json(symbol.expr), "unit": symbol.unit}
            for host in code.host_computes()
            if isinstance(host.hcm, Hcm)
            for symbol in host.hcm.symbols
        ],
        "files": {file.name: {"size": len(file.data), "sha256": file.sha256} for file in code.files},
        "images": [_image(code, command) for command in code.computes()],
        "steps": [_step(command) for command in code.execution],
    }


def _image(code: SpyreCode, command: ComputeOnDevice) -> dict[str, Any]:
    offset = command.job_bin_ptr - PROG_OFFSET_BASE
    data = code.image_at(command.job_bin_ptr)
    if data is None or not is_spyrebin(data):
        return {"entry": offset, "payload_kind": "foreign"}
    image = Image.decode(data)
    known = image.payload_kind in tuple(PayloadKind)
    return {
        "entry": offset,
        "payload_kind": PayloadKind(image.payload_kind).name if known else hex(image.payload_kind),
        "payload_bytes": len(image.payload),
        "core_count": image.core_count,
        "abi": image.abi.name.lower(),
        "num_symbols": image.num_symbols,
        "f16_format": image.f16_format,
    }


def _step(command: object) -> str:
    match command:
        case ComputeOnHost():
            return f"host     {command.ihandle or 'arguments'} -> {command.ohandle} ({command.size} bytes)"
        case DataTransfer(to_device, handle, dev_ptr, size):
            offset = dev_ptr - PROG_OFFSET_BASE
            where = f"+{offset:#x}" if offset >= 0 else f"{dev_ptr:#x}"
            return f"{'upload' if to_device else 'download'}   {handle} {where} ({size} bytes)"
        case ComputeOnDevice(pointer, name):
            return f"compute  {name or 'image'} at +{pointer - PROG_OFFSET_BASE:#x}"
        case EventSignal(number):
            return f"signal   event {number}"
        case EventWait(number):
            return f"wait     event {number}"
    raise TypeError(f"not a command: {command!r}")


def print_description(code: SpyreCode, console: Console) -> None:
    """The same for people."""
    facts = describe(code)
    producer = " ".join(part for part in (code.producer.name, code.producer.version) if part)
    console.print(
        f"kernel {code.kernel_name}, version {code.version}, {code.addressing.value} addressing", end=""
    )
    console.print(f", f16 {facts['f16_format']}" if code.launch else "", highlight=False)
    console.print(f"digest {code.digest}", highlight=False)
    if producer:
        console.print(f"made by {producer}", highlight=False)
    if facts["architecture"]:
        console.print(
            f"for {facts['architecture']['name']} {facts['architecture']['digest'][:16]}", highlight=False
        )
    memory = Table("static block", "offset", "bytes", title=None)
    for kind in ("correction", "images", "spill"):
        for span in facts["memory"][kind]:
            memory.add_row(kind.removesuffix("s"), f"{span['offset']:#x}", str(span["size"]))
    memory.add_row("total", "", str(code.static_size))
    if code.dynamic_size:
        memory.add_row("per launch", "", str(code.dynamic_size))
    console.print(memory)
    if code.launch is None:
        console.print("no launch contract: arguments are not checked")
    else:
        table = Table("argument", "role", "dtype", "shape", "on the device")
        for index, arg in enumerate(code.launch.args):
            name = f"{index} {arg.name}".strip()
            table.add_row(
                name, arg.role.value, arg.dtype, str(list(arg.shape)), _layout(arg.layout.to_json())
            )
        for symbol in code.launch.symbols:
            bounds = symbol.bounds
            table.add_row(symbol.name, "scalar", symbol.dtype, "", f"{bounds.min}..{bounds.max}")
        console.print(table)
    for image in facts["images"]:
        text = ", ".join(f"{key} {value}" for key, value in image.items())
        console.print(f"image: {text}", highlight=False)
    for step in facts["steps"]:
        console.print(f"  {step}", highlight=False)


def _layout(layout: dict[str, Any]) -> str:
    if "arrangement" in layout:
        return "linear"
    return f"{layout['device_size']} by {layout['stride_map']}"
