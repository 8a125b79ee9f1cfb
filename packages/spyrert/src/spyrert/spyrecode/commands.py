"""The commands of the two plans and their wire form (runtime spec 1.3).

On the wire every command is ``{"command": name, "properties": {...}}`` and every number a decimal string.
"""

from __future__ import annotations

from typing import Final

import attrs

from spyrert.errors import SpyreCodeSchemaError
from spyrert.spyrecode._json import Json, Node, parse
from spyrert.spyrecode.hcm import ForeignHcm, Hcm, hcm_from_json


@attrs.frozen
class Allocate:
    """Reserve ``static_size`` bytes that live as long as the plan (segment 7) and ``dynamic_size`` bytes per
    launch (segment 6)."""

    static_size: int
    dynamic_size: int = 0


@attrs.frozen
class InitTransfer:
    """Load ``size`` bytes of the image ``file`` to ``dev_ptr`` (DMVA in segment 7)."""

    file: str
    dev_ptr: int
    size: int


@attrs.frozen
class ComputeOnHost:
    """Run a host function.

    Args:
        ohandle: name of the host buffer that it fills; defined by this command.
        size: bytes of that buffer.
        hcm: metadata of the function.
        ihandle: name of its input buffer; ``""`` are the run-time arguments.
        ishape: shape of the input; ``(0,)`` is no input.
        oshape: shape of the output in bytes, ``()`` if not stated.
        hcm_file: relative name of the file that holds ``hcm``, ``None`` if embedded.
    """

    ohandle: str
    size: int
    hcm: Hcm | ForeignHcm
    ihandle: str = ""
    ishape: tuple[int, ...] = (0,)
    oshape: tuple[int, ...] = ()
    hcm_file: str | None = None


@attrs.frozen
class DataTransfer:
    """Move ``size`` bytes between the host buffer ``host_handle`` and ``dev_ptr``."""

    to_device: bool
    host_handle: str
    dev_ptr: int
    size: int


@attrs.frozen
class ComputeOnDevice:
    """Start the image whose header lies at ``job_bin_ptr``."""

    job_bin_ptr: int
    name: str = ""


@attrs.frozen
class EventSignal:
    event_id: int


@attrs.frozen
class EventWait:
    event_id: int


PrepCommand = Allocate | InitTransfer
ExecCommand = ComputeOnHost | DataTransfer | ComputeOnDevice | EventSignal | EventWait
Command = PrepCommand | ExecCommand

_REQUIRED: Final[dict[str, tuple[str, ...]]] = {
    "Allocate": (),
    "InitTransfer": ("init_bin_file", "dev_ptr", "size"),
    "ComputeOnHost": ("ihandle", "ishape", "ohandle", "size"),
    "DataTransfer": ("dirn", "host_handle", "dev_ptr", "size"),
    "ComputeOnDevice": ("job_bin_ptr",),
    "EventSignal": ("event_id",),
    "EventWait": ("event_id",),
}
_PREPARATION: Final = ("Allocate", "InitTransfer")


def command_to_json(command: Command) -> Json:
    """The wire form."""
    match command:
        case Allocate(static, dynamic):
            properties: dict[str, Json] = {
                "size": str(static),
                "static_size": str(static),
                "dynamic_size": str(dynamic),
            }
        case InitTransfer(file, dev_ptr, size):
            properties = {"init_bin_file": file, "dev_ptr": str(dev_ptr), "size": str(size)}
        case ComputeOnHost():
            properties = {
                "ihandle": command.ihandle,
                "ishape": [str(n) for n in command.ishape],
                "ohandle": command.ohandle,
            }
            if command.oshape:
                properties["oshape"] = [str(n) for n in command.oshape]
            properties["size"] = str(command.size)
            if command.hcm_file is None:
                properties["hcm"] = command.hcm.to_json()
            else:
                properties["hcm_file"] = command.hcm_file
        case DataTransfer(to_device, handle, dev_ptr, size):
            properties = {
                "dirn": "false" if to_device else "true",
                "host_handle": handle,
                "dev_ptr": str(dev_ptr),
                "size": str(size),
            }
        case ComputeOnDevice(pointer, name):
            properties = {"job_bin_ptr": str(pointer)}
            if name:
                properties["name"] = name
        case EventSignal(number) | EventWait(number):
            properties = {"event_id": str(number)}
    return {"command": type(command).__name__, "properties": properties}


def check_structure(node: Node, preparation: bool) -> None:
    """First pass over one command: name, presence and JSON types of its properties."""

    def fail(message: str, at: Node = node) -> None:
        prefix = "" if preparation else "Failed to parse SpyreCode command: "
        at.fail(prefix + message)

    if not isinstance(node.value, dict):
        fail("a command must be an object")
    if "command" not in node.value:
        fail("a command needs the key 'command'")
    name = node.value["command"]
    if not isinstance(name, str) or name not in _REQUIRED:
        fail(f"Unknown SpyreCode command type: {name!r}", node.member("command"))
    if (name in _PREPARATION) != preparation:
        plan = "JobPreparationPlan" if preparation else "JobExecPlan"
        fail(f"Unknown SpyreCode command type in {plan}: {name!r}", node.member("command"))
    if not isinstance(node.value.get("properties"), dict):
        fail(f"{name} command missing 'properties' object")
    properties = node.member("properties")
    present = properties.mapping()
    for key in _REQUIRED[name]:
        if key not in present:
            fail(f"{name} command missing '{key}' property", properties)
    match name:
        case "Allocate":
            if "static_size" in present:
                if "dynamic_size" not in present:
                    fail("Allocate command missing 'dynamic_size' property", properties)
            elif "size" not in present:
                fail("Allocate command missing 'size' property", properties)
        case "ComputeOnHost":
            for key in ("ishape", "oshape"):
                shape = properties.get(key)
                if shape is None:
                    continue
                if not isinstance(shape.value, list):
                    fail(f"ComputeOnHost '{key}' must be an array", shape)
                if not shape.lenient and not all(isinstance(item, str) for item in shape.value):
                    fail(f"ComputeOnHost '{key}' elements must be strings", shape)
            if ("hcm" in present) == ("hcm_file" in present):
                if "hcm" in present:
                    fail("ComputeOnHost has both 'hcm' and 'hcm_file'", properties)
                fail("ComputeOnHost command missing 'hcm' property", properties)
            if "hcm" in present and not isinstance(present["hcm"], dict):
                fail("ComputeOnHost 'hcm' must be an object", properties.member("hcm"))
        case "DataTransfer":
            if present["dirn"] not in ("false", "true"):
                fail(f"Invalid DataTransfer direction: {present['dirn']!r}", properties.member("dirn"))
    for key in ("ihandle", "ohandle", "host_handle", "name", "init_bin_file", "hcm_file"):
        if key in present and key not in ("event_id",):
            properties.member(key).name(empty=key in ("ihandle", "name"))


def command_from_json(node: Node, files: dict[str, bytes]) -> Command:
    """Second pass: numbers and metadata. ``files`` gives the contents of ``hcm_file``."""
    properties = node.member("properties")

    def number(key: str) -> int:
        return properties.member(key).decimal()

    def shape(key: str) -> tuple[int, ...]:
        found = properties.get(key)
        return () if found is None else tuple(item.decimal() for item in found.elements())

    match node.member("command").string():
        case "Allocate":
            if properties.get("static_size"):
                return Allocate(number("static_size"), number("dynamic_size"))
            return Allocate(number("size"))
        case "InitTransfer":
            return InitTransfer(properties.member("init_bin_file").name(), number("dev_ptr"), number("size"))
        case "ComputeOnHost":
            file_node = properties.get("hcm_file")
            if file_node is None:
                hcm_node = properties.member("hcm")
            else:
                name = file_node.name()
                hcm_node = Node(parse(files[name], name), name, "", SpyreCodeSchemaError, node.index)
            return ComputeOnHost(
                properties.member("ohandle").name(),
                number("size"),
                hcm_from_json(hcm_node),
                properties.member("ihandle").name(empty=True),
                shape("ishape"),
                shape("oshape"),
                None if file_node is None else file_node.name(),
            )
        case "DataTransfer":
            return DataTransfer(
                properties.member("dirn").string() == "false",
                properties.member("host_handle").name(),
                number("dev_ptr"),
                number("size"),
            )
        case "ComputeOnDevice":
            label = properties.get("name")
            return ComputeOnDevice(number("job_bin_ptr"), label.name(empty=True) if label else "")
        case "EventSignal":
            return EventSignal(number("event_id"))
        case _:
            return EventWait(number("event_id"))
