"""The artefact: writing, reading, every rule of the validator (runtime spec 1, 6.1)."""

from __future__ import annotations

import contextlib
import copy
import json
import shutil
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any

import attrs
import pytest

from spyrert import errors
from spyrert.constants import PROG_OFFSET_BASE, SEGMENT_SHIFT, align_up
from spyrert.spyrecode import (
    Addr,
    Addressing,
    ArchitectureId,
    ArgSpec,
    ArgumentInputs,
    Correction,
    Entry,
    EntryKind,
    HcmSymbol,
    HostInputs,
    Image,
    LaunchSpec,
    Limits,
    LinearLayout,
    PayloadKind,
    Role,
    SpyreCode,
    Sym,
    assemble,
    evaluate,
    pack,
    read_hex_image,
    symbol_values,
)

BASE = PROG_OFFSET_BASE


def plain(**changes: Any) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Upstream's mock with all command kinds, as a document and its files."""
    manifest = {
        "JobPreparationPlan": [
            {"command": "Allocate", "properties": {"size": "4096"}},
            {
                "command": "InitTransfer",
                "properties": {"init_bin_file": "init.bin", "dev_ptr": str(BASE + 2048), "size": "1024"},
            },
        ],
        "JobExecPlan": [
            {
                "command": "ComputeOnHost",
                "properties": {
                    "ihandle": "",
                    "ishape": ["1"],
                    "ohandle": "T1",
                    "size": "1024",
                    "hcm": {"vdci": {}, "senConstants": []},
                },
            },
            {
                "command": "DataTransfer",
                "properties": {
                    "dirn": "false",
                    "host_handle": "T1",
                    "dev_ptr": str(BASE + 128),
                    "size": "1024",
                },
            },
            {"command": "ComputeOnDevice", "properties": {"job_bin_ptr": str(BASE + 2048)}},
        ],
    }
    return copy.deepcopy(manifest), {"init.bin": bytes(1024)}


def test_constants() -> None:
    """runtime checklist R25, R26"""
    assert 7 << SEGMENT_SHIFT == 120259084288 == BASE
    assert 0x1C00000080 - BASE == 128
    assert [align_up(n) for n in (0, 1, 127, 128, 129)] == [0, 128, 128, 128, 256]


def test_round_trip_folder_zip_memory(code: SpyreCode, tmp_path: Path) -> None:
    """runtime checklist R15, R19: writing is deterministic, and all three forms give one digest."""
    code.write(tmp_path / "a")
    back = SpyreCode.read(tmp_path / "a")
    assert back == code
    assert SpyreCode.read(tmp_path / "a" / "spyreCodeDir") == code
    back.write(tmp_path / "b")
    for name in ("launch_spec.json", "spyreCodeDir/spyrecode.json", "spyreCodeDir/init_binary.bin"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    zipped = SpyreCode.read(pack(code, tmp_path / "k.spyrecode"))
    memory = SpyreCode.from_memory(code.manifest(), {f.name: f.data for f in code.files})
    assert zipped == memory == code
    assert len({c.digest for c in (code, back, zipped, memory)}) == 1
    assert not list((tmp_path / "a").glob(".spyrecode-*"))


def test_write_keeps_other_files(code: SpyreCode, tmp_path: Path) -> None:
    (tmp_path / "global.mlir").write_text("module {}")
    code.write(tmp_path)
    code.write(tmp_path)
    assert (tmp_path / "global.mlir").read_text() == "module {}"
    assert SpyreCode.read(tmp_path) == code


def test_plain_artefact_is_read() -> None:
    """runtime checklist R1, R2, R12: a version-0 manifest, with and without unknown keys."""
    manifest, files = plain()
    code = SpyreCode.from_memory(manifest, files)
    assert code.version == 0
    assert code.static_size == 4096
    assert [type(c).__name__ for c in code.execution] == ["ComputeOnHost", "DataTransfer", "ComputeOnDevice"]
    extended = SpyreCode.from_memory(manifest | {"future": {"x": [1]}}, files)
    assert extended == code


@pytest.mark.parametrize(
    ("plan", "index"),
    [
        ("JobPreparationPlan", 0),
        ("JobPreparationPlan", 1),
        ("JobExecPlan", 0),
        ("JobExecPlan", 1),
        ("JobExecPlan", 2),
    ],
)
def test_every_property_is_required(plan: str, index: int) -> None:
    """runtime checklist R3"""
    manifest, files = plain()
    for key in list(manifest[plan][index]["properties"]):
        broken = copy.deepcopy(manifest)
        del broken[plan][index]["properties"][key]
        with pytest.raises(errors.SpyreCodeSchemaError, match=f"missing '{key}' property") as caught:
            SpyreCode.from_memory(broken, files)
        assert caught.value.index == index
        assert caught.value.pointer.startswith(f"/{plan}/{index}")


def _broken(path: str, value: Any, error: type[errors.SpyreCodeError], text: str) -> Any:
    return pytest.param(path, value, error, text, id=f"{path}={str(value)[:24]}")


HOST, MOVE, RUN, LOAD = "JobExecPlan/0", "JobExecPlan/1", "JobExecPlan/2", "JobPreparationPlan/1"
HANDLE, ORDER = errors.SpyreCodeHandleError, errors.SpyreCodeOrderError
SCHEMA, ADDRESS = errors.SpyreCodeSchemaError, errors.SpyreCodeAddressError


@pytest.mark.parametrize(
    ("path", "value", "error", "text"),
    [
        _broken(f"{HOST}/ishape", "64", SCHEMA, "ComputeOnHost 'ishape' must be an array"),
        _broken(f"{HOST}/ishape", [64, 16], SCHEMA, "ComputeOnHost 'ishape' elements must be strings"),
        _broken(f"{HOST}/ihandle", "nowhere", HANDLE, "ihandle 'nowhere' not found in pinned buffer map"),
        _broken(f"{HOST}/hcm", "{}", SCHEMA, "'hcm' must be an object"),
        _broken(f"{HOST}/hcm", {"version": 2}, SCHEMA, "hcm version 2"),
        _broken(f"{HOST}/size", "-1", SCHEMA, "not a decimal"),
        _broken(f"{HOST}/size", " 1", SCHEMA, "not a decimal"),
        _broken(f"{HOST}/size", "0x10", SCHEMA, "not a decimal"),
        _broken(f"{HOST}/size", "01", SCHEMA, "not a decimal"),
        _broken(f"{HOST}/size", "18446744073709551616", SCHEMA, "not a decimal"),
        _broken(f"{HOST}/size", "18446744073709551615", ADDRESS, "not in 1"),
        _broken(f"{HOST}/size", "128", ORDER, "transfer of 1024 bytes, but 'T1' has 128"),
        _broken(f"{HOST}/size", 128, SCHEMA, "expected a decimal string"),
        _broken(f"{HOST}/ohandle", "", SCHEMA, "must not be empty"),
        _broken(f"{HOST}/ohandle", "a\x00b", SCHEMA, "control character"),
        _broken(f"{HOST}/ohandle", "x" * 256, SCHEMA, "limit is 255"),
        _broken(f"{MOVE}/host_handle", "T9", HANDLE, "Host handle 'T9' not found in pinned buffer map"),
        _broken(f"{MOVE}/dirn", "0", SCHEMA, "Invalid DataTransfer direction"),
        _broken(f"{MOVE}/dirn", False, SCHEMA, "Invalid DataTransfer direction"),
        _broken(f"{MOVE}/dev_ptr", str(BASE + 0x90), ADDRESS, "not a multiple of 128"),
        _broken(f"{MOVE}/dev_ptr", "128", ADDRESS, "out of program segment bounds"),
        _broken(f"{MOVE}/dev_ptr", str(BASE + 4096 - 896), ADDRESS, "out of program segment bounds"),
        _broken(f"{RUN}/job_bin_ptr", str(BASE + 4096), ADDRESS, "behind the static block"),
        _broken(f"{LOAD}/dev_ptr", str(BASE + 4096 - 896), ADDRESS, "out of program segment bounds"),
        _broken(f"{LOAD}/dev_ptr", str(2**64 - 128), ADDRESS, "out of program segment bounds"),
        _broken(f"{LOAD}/size", "0", ADDRESS, "greater than 0"),
        _broken(f"{LOAD}/size", "1152", ADDRESS, "has 1024 bytes"),
        _broken(f"{LOAD}/init_bin_file", "../x", errors.SpyreCodePathError, "inside the folder"),
        _broken(f"{LOAD}/init_bin_file", "/x", errors.SpyreCodePathError, "inside the folder"),
        _broken(f"{LOAD}/init_bin_file", "a/../../x", errors.SpyreCodePathError, "inside the folder"),
        _broken(f"{LOAD}/init_bin_file", "C:\\x", errors.SpyreCodePathError, "inside the folder"),
        _broken(f"{LOAD}/init_bin_file", "gone.bin", errors.SpyreCodeNotFound, "'gone.bin' is missing"),
        _broken("JobPreparationPlan/0/size", "0", ADDRESS, "static size 0"),
        _broken("JobPreparationPlan/0/size", str(2**34 + 1), ADDRESS, "static size"),
    ],
)  # fmt: skip
def test_bad_values(path: str, value: Any, error: type[errors.SpyreCodeError], text: str) -> None:
    """runtime checklist R4-R8, R11; faults A7-A10, A13-A15, A18, A20"""
    manifest, files = plain()
    plan, index, key = path.split("/")
    manifest[plan][int(index)]["properties"][key] = value
    with pytest.raises(error, match=None) as caught:
        SpyreCode.from_memory(manifest, files)
    assert text in str(caught.value)
    assert caught.value.path
    assert caught.value.pointer.startswith(f"/{plan}")


@pytest.mark.parametrize("change", [-1, 1, 128])
def test_image_length(change: int, tmp_path: Path) -> None:
    """runtime checklist R10: an image that is shorter or longer than its transfer is refused, in memory and on disk."""
    manifest, _ = plain()
    data = bytes(1024 + change)
    with pytest.raises(ADDRESS, match=f"has {1024 + change} bytes"):
        SpyreCode.from_memory(manifest, {"init.bin": data})
    (tmp_path / "init.bin").write_bytes(data)
    (tmp_path / "spyrecode.json").write_text(json.dumps(manifest))
    for verify in ("full", "size"):
        with pytest.raises(ADDRESS, match=f"has {1024 + change} bytes"):
            SpyreCode.read(tmp_path, verify=verify)  # type: ignore[arg-type]


def test_static_size_boundary() -> None:
    """runtime checklist R9: a range may end exactly at the static size."""
    manifest, files = plain()
    manifest["JobExecPlan"][1]["properties"]["dev_ptr"] = str(BASE + 3072)
    SpyreCode.from_memory(manifest, files)
    manifest["JobExecPlan"][1]["properties"]["dev_ptr"] = str(BASE + 3200)
    with pytest.raises(ADDRESS):
        SpyreCode.from_memory(manifest, files)


def test_plan_grammar() -> None:
    """faults A4, A5, A6, A11, A13, A14"""
    manifest, files = plain()

    def refuse(error: type[errors.SpyreCodeError], text: str, **plans: Any) -> None:
        with pytest.raises(error, match=None) as caught:
            SpyreCode.from_memory(manifest | plans, files)
        assert text in str(caught.value)

    prep, run = manifest["JobPreparationPlan"], manifest["JobExecPlan"]
    for key in ("JobPreparationPlan", "JobExecPlan"):
        rest = {k: v for k, v in manifest.items() if k != key}
        with pytest.raises(SCHEMA, match=f"missing '{key}'"):
            SpyreCode.from_memory(rest, files)
        refuse(SCHEMA, "must be an array", **{key: {}})
    refuse(SCHEMA, "the first command must be Allocate", JobPreparationPlan=[])
    refuse(SCHEMA, "the first command must be Allocate", JobPreparationPlan=prep[1:])
    refuse(SCHEMA, "exactly one Allocate", JobPreparationPlan=[prep[0], prep[0]])
    refuse(SCHEMA, "needs Allocate and an InitTransfer", JobPreparationPlan=prep[:1], JobExecPlan=[])
    refuse(SCHEMA, "Unknown SpyreCode command type", JobExecPlan=[{"command": "Jump", "properties": {}}])
    refuse(SCHEMA, "Failed to parse SpyreCode command: ", JobExecPlan=[prep[0]])
    refuse(SCHEMA, "must be an object", JobExecPlan=[1])
    refuse(ADDRESS, "overlaps", JobPreparationPlan=[*prep, prep[1]])
    refuse(errors.SpyreCodeHandleError, "already exists in pinned buffer map", JobExecPlan=[run[0], *run])
    refuse(errors.SpyreCodeOrderError, "not followed by a ComputeOnDevice", JobExecPlan=run[:2])
    wait = {"command": "EventWait", "properties": {"event_id": "1"}}
    refuse(errors.SpyreCodeOrderError, "event 1", JobExecPlan=[wait, *run])


def test_strictness_of_versions(code: SpyreCode) -> None:
    """fault A12: overlap of correction and image is an error in version 1 and a warning in version 0."""
    manifest, files = plain()
    manifest["JobExecPlan"][1]["properties"]["dev_ptr"] = str(BASE + 2048 - 128)
    with pytest.warns(errors.SpyreCodeWarning, match="overlaps an image"):
        SpyreCode.from_memory(manifest, files)
    transfers = [
        attrs.evolve(c, dev_ptr=c.dev_ptr + 256) if hasattr(c, "host_handle") else c for c in code.execution
    ]
    with pytest.raises(ADDRESS, match="overlaps an image"):
        attrs.evolve(code, execution=tuple(transfers)).validate()


def test_lenient_numbers() -> None:
    """runtime checklist R16"""
    manifest, files = plain()
    manifest["JobPreparationPlan"][0]["properties"]["size"] = 4096
    with pytest.raises(SCHEMA):
        SpyreCode.from_memory(manifest, files)
    assert SpyreCode.from_memory(manifest, files, lenient=True).static_size == 4096


def test_versions_and_features(code: SpyreCode) -> None:
    """runtime checklist R13; fault A17"""
    files = {f.name: f.data for f in code.files}
    manifest = code.manifest()
    with pytest.raises(errors.SpyreCodeVersionError):
        SpyreCode.from_memory(manifest | {"version": 99}, files)
    with pytest.warns(errors.SpyreCodeWarning, match="unknown keys are ignored: colour"):
        SpyreCode.from_memory(manifest | {"minor": 7, "colour": 1}, files, verify="size")
    with pytest.raises(errors.UnsupportedFeature, match="telepathy"):
        SpyreCode.from_memory(manifest | {"features": ["telepathy"]}, files, verify="size")


def test_digests(code: SpyreCode, tmp_path: Path) -> None:
    """runtime checklist R14; fault A16"""
    code.write(tmp_path)
    image = tmp_path / "spyreCodeDir" / "init_binary.bin"
    data = bytearray(image.read_bytes())
    data[130] ^= 1
    image.write_bytes(data)
    with pytest.raises(errors.SpyreCodeDigestError, match=r"init_binary\.bin"):
        SpyreCode.read(tmp_path)
    SpyreCode.read(tmp_path, verify="size")
    image.write_bytes(data[:-1])
    with pytest.raises(errors.SpyreCodeError):
        SpyreCode.read(tmp_path, verify="none")
    changed = code.manifest() | {"kernel_name": "other"}
    with pytest.raises(errors.SpyreCodeDigestError):
        SpyreCode.from_memory(changed, {f.name: f.data for f in code.files})


def test_missing_folders(tmp_path: Path) -> None:
    """faults A1, A2"""
    with pytest.raises(errors.SpyreCodeNotFound, match="SpyreCode directory does not exist"):
        SpyreCode.read(tmp_path / "gone")
    (tmp_path / "file").write_text("x")
    with pytest.raises(errors.SpyreCodeNotFound, match="Path is not a directory"):
        SpyreCode.read(tmp_path / "file")
    with pytest.raises(errors.SpyreCodeNotFound, match=r"spyrecode\.json not found"):
        SpyreCode.read(tmp_path)


def test_link_to_outside(code: SpyreCode, tmp_path: Path) -> None:
    """runtime checklist R11"""
    code.write(tmp_path / "k")
    image = tmp_path / "k" / "spyreCodeDir" / "init_binary.bin"
    shutil.move(image, tmp_path / "elsewhere.bin")
    image.symlink_to(tmp_path / "elsewhere.bin")
    with pytest.raises(errors.SpyreCodePathError, match="outside"):
        SpyreCode.read(tmp_path / "k")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"nul",
        b"\xef\xbb\xbf{}",
        b"\xff",
        b'{"a": 1, "a": 2}',
        b'{"a": NaN}',
        b'{"a": 1e999}',
        b"{} {}",
        b"[" * 100 + b"]" * 100,
        b"[" * 100_000,
        b'{"a": "\\ud800"}',
        b'{"a": ' + b"9" * 5000 + b"}",
    ],
)
def test_hostile_json(text: bytes, tmp_path: Path) -> None:
    """fault A3"""
    (tmp_path / "spyrecode.json").write_bytes(text)
    with pytest.raises(errors.SpyreCodeParseError, match=r"Failed to parse spyrecode\.json"):
        SpyreCode.read(tmp_path)


@pytest.mark.sweep(default=40, full=100_000)
def test_truncation_never_passes(code: SpyreCode, tmp_path: Path, cases: int) -> None:
    """runtime checklist R20"""
    code.write(tmp_path)
    manifest = tmp_path / "spyreCodeDir" / "spyrecode.json"
    data = manifest.read_bytes()
    for end in range(0, len(data.rstrip()), max(1, len(data) // cases)):
        manifest.write_bytes(data[:end])
        with pytest.raises(errors.SpyreCodeError):
            SpyreCode.read(tmp_path)


@pytest.mark.sweep(default=400, full=20_000)
def test_random_damage_never_escapes(code: SpyreCode, cases: int) -> None:
    """Hostile manifests: replacing any value by any other gives ``SpyreCodeError`` or a valid artefact."""
    import random

    rng = random.Random(5)
    files = {f.name: f.data for f in code.files}
    junk = [None, True, -1, 0, 1.5, 2**70, "", "x", "-1", "../x", [], {}, [[]], {"a": 1}, "9" * 30]
    for _ in range(cases):
        manifest = copy.deepcopy(code.manifest())
        at: Any = manifest
        while True:
            key = rng.choice(list(at) if isinstance(at, dict) else range(len(at)))
            if isinstance(at[key], (dict, list)) and at[key] and rng.random() < 0.8:
                at = at[key]
                continue
            at[key] = rng.choice(junk)
            break
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with contextlib.suppress(errors.SpyreCodeError, errors.UnsupportedFeature):
                SpyreCode.from_memory(manifest, files, verify="size")


def test_launch_spec_must_agree(code: SpyreCode, tmp_path: Path) -> None:
    """runtime checklist R23 (artefact side); fault A19"""
    code.write(tmp_path)
    path = tmp_path / "launch_spec.json"
    spec = json.loads(path.read_text())
    spec["args"][1]["shape"] = [70, 4]
    path.write_text(json.dumps(spec))
    with pytest.raises(errors.LaunchSpecError, match=r"/args/1/shape: .*\(70, 4\).*\(4, 70\)"):
        SpyreCode.read(tmp_path)
    spec["args"][1]["shape"] = [4, 70]
    spec["args"][1]["dtype"] = "complex64"
    path.write_text(json.dumps(spec))
    with pytest.raises(errors.LaunchSpecError, match="complex64"):
        SpyreCode.read(tmp_path)


def test_launch_spec_round_trip(code: SpyreCode) -> None:
    assert code.launch is not None
    assert code.launch.symbol("n") is not None
    assert code.launch.args[0].kernel_position == 0


@pytest.mark.parametrize("name", ["x" * 256, "a\nb"])
@pytest.mark.parametrize("place", ["/args/0/name", "/args/0/dims", "/kernel_name", "/architecture/name"])
def test_written_names_can_be_read(code: SpyreCode, tmp_path: Path, place: str, name: str) -> None:
    """Names that the reader refuses are refused by the writer, which leaves nothing behind."""
    assert code.launch is not None
    spec = code.launch
    match place:
        case "/args/0/name":
            spec = attrs.evolve(spec, args=(attrs.evolve(spec.args[0], name=name), *spec.args[1:]))
        case "/args/0/dims":
            named = attrs.evolve(spec.args[0], dims=(name,) * spec.args[0].rank)
            spec = attrs.evolve(spec, args=(named, *spec.args[1:]))
        case "/kernel_name":
            spec = attrs.evolve(spec, kernel_name=name)
        case _:
            spec = attrs.evolve(spec, architecture=ArchitectureId(name, ""))
    with pytest.raises(errors.LaunchSpecError, match=f"{place}: (a name has 256 bytes|the name .* control)"):
        attrs.evolve(code, launch=spec).write(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_symbol_cross_checks() -> None:
    """faults A18, A19: symbols must name what exists."""
    spec = LaunchSpec("k", (ArgSpec(Role.OUTPUT, (64,), "float16", LinearLayout("float16"), "a", 0),))

    def build(*symbols: HcmSymbol) -> SpyreCode:
        return assemble(b"[]", PayloadKind.OP_LIST, spec, symbols)

    build(HcmSymbol(-1, Addr(0)))
    with pytest.raises(errors.LaunchSpecError, match="argument 1 does not exist"):
        build(HcmSymbol(-1, Addr(1)))
    with pytest.raises(errors.LaunchSpecError, match="'n' is no declared symbol"):
        build(HcmSymbol(-1, Sym("n")))
    with pytest.raises(SCHEMA, match="decrease"):
        build(HcmSymbol(-2, Addr(0)), HcmSymbol(-1, Addr(0)))
    eight = attrs.evolve(spec, args=tuple(attrs.evolve(spec.args[0], kernel_position=k) for k in range(8)))
    with pytest.raises(errors.UnsupportedFeature, match="at most 7"):
        assemble(b"[]", PayloadKind.OP_LIST, eight, addressing=Addressing.BAKED)


def test_limits(code: SpyreCode, tmp_path: Path) -> None:
    """runtime spec 1.1: sizes, depth and number of commands are bounded, and the bounds are configurable."""
    code.write(tmp_path)
    SpyreCode.read(tmp_path, limits=Limits())
    for limits, text in (
        (Limits(manifest_bytes=100), "the limit is 100"),
        (Limits(depth=3), "nested deeper than 3"),
        (Limits(commands=2), "3 commands, the limit is 2"),
        (Limits(image_bytes=100), "the limit is 100"),
    ):
        with pytest.raises(errors.SpyreCodeError, match=text):
            SpyreCode.read(tmp_path, limits=limits)


def test_hostile_zip(code: SpyreCode, tmp_path: Path) -> None:
    """Compressed, duplicated and oversized entries of a zip file are refused."""
    path = tmp_path / "x.spyrecode"

    def refuse(text: str) -> None:
        with pytest.raises(errors.SpyreCodeParseError, match=text):
            SpyreCode.read(path)

    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("spyrecode.json", " " * 100_000)
    refuse("compressed")
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w") as archive:
        warnings.simplefilter("ignore")
        archive.writestr("spyrecode.json", "{}")
        archive.writestr("spyrecode.json", "{}")
    refuse("duplicate")
    data = bytearray(pack(code, path).read_bytes())
    for position in range(0, len(data), 97):
        damaged = bytearray(data)
        damaged[position] ^= 0xFF
        path.write_bytes(damaged)
        with contextlib.suppress(errors.SpyreCodeError):
            SpyreCode.read(path)


def test_names(code: SpyreCode, tmp_path: Path) -> None:
    """Names of more than 255 bytes, of nothing, and files outside of the folder are never written."""
    file = code.files[0]
    last = code.execution[-1]
    for bad, error in (
        (attrs.evolve(code, kernel_name="x" * 256), SCHEMA),
        (attrs.evolve(code, kernel_name=""), SCHEMA),
        (
            attrs.evolve(code, execution=(*code.execution[:-1], attrs.evolve(last, name="\u00e4" * 128))),
            SCHEMA,
        ),
        (attrs.evolve(code, files=(attrs.evolve(file, name="../evil.bin"),)), errors.SpyreCodePathError),
        (attrs.evolve(code, files=(attrs.evolve(file, name="/evil.bin"),)), errors.SpyreCodePathError),
    ):
        with pytest.raises(error):
            bad.write(tmp_path / "k")
    assert list(tmp_path.iterdir()) == []


def test_image_must_fit_the_plan(code: SpyreCode) -> None:
    """An image whose header contradicts the plan is refused by the writer."""
    image = Image.decode(code.files[0].data)
    for changes in (
        {"num_symbols": 3},
        {"correction_offset": 256},
        {"f16_format": "dlfloat"},
        {"uses_dynamic": True},
    ):
        data = attrs.evolve(image, **changes).encode()
        wrong = attrs.evolve(code, files=(attrs.evolve(code.files[0], data=data),))
        with pytest.raises(errors.SpyreCodeImageError):
            wrong.validate()


def test_image_container() -> None:
    """Container 1.6: round trip, and any flipped bit of header or payload is detected."""
    image = Image(
        b"program", PayloadKind.DFBIN, 32, correction_offset=128, correction_size=256, num_symbols=3
    )
    data = image.encode()
    assert Image.decode(data) == image
    assert Image.decode(data + bytes(128)) == image
    for position in range(128 + len(b"program")):
        for bit in range(0, 8, 3):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            with pytest.raises(errors.SpyreCodeImageError):
                Image.decode(damaged)
    for end in (0, 100, 128, 200):
        with pytest.raises(errors.SpyreCodeImageError):
            Image.decode(data[:end])


def test_hex_image() -> None:
    """runtime checklist R18"""
    line = bytes(range(128))[::-1].hex()
    assert read_hex_image(f"# comment\n\n{line}\n{line}\n") == bytes(range(128)) * 2
    with pytest.raises(errors.SpyreCodeImageError, match="255"):
        read_hex_image(line[:-1])


def test_expressions() -> None:
    """runtime checklist R21"""
    inputs = HostInputs((ArgumentInputs((1 << 34,)),), {"n": 3})
    assert evaluate((Addr(0) + 49152) // 64, inputs) == ((1 << 34) + 49152) // 64
    assert evaluate(Sym("n") * 512 + Addr(0), inputs) == (1 << 34) + 1536
    for bad in (Addr(0) * (1 << 40), Addr(0) // 0, Addr(1) + 0, Sym("m") + 0):
        with pytest.raises(errors.SymbolBindingError):
            evaluate(bad, inputs)
    with pytest.raises(errors.SymbolBindingError, match="unit 64"):
        symbol_values(attrs.evolve(_hcm(), symbols=(HcmSymbol(-1, Addr(0) + 1, 64),)), inputs)


def _hcm() -> Any:
    from spyrert.spyrecode import Hcm

    return Hcm((HcmSymbol(-1, Addr(0)),))


def test_correction_tensor() -> None:
    """runtime checklist R22: round trip; every flipped bit of header tail and entries is detected."""
    tensor = Correction(9, b"12345678", tuple(Entry(k, EntryKind.ADDRESS, -k) for k in range(5)))
    data = tensor.encode(512)
    assert Correction.decode(data) == tensor
    for position in range(16, 128 + 16 * 5):
        damaged = bytearray(data)
        damaged[position] ^= 1
        with pytest.raises(errors.SpyreCodeImageError):
            Correction.decode(damaged)
    with pytest.raises(errors.SpyreCodeImageError):
        tensor.encode(128)


def test_import_of_artefact_pulls_nothing_else() -> None:
    """runtime checklist R115"""
    script = (
        "import sys, spyrert.spyrecode; "
        "bad = [m for m in sys.modules if m.startswith('spyrert.') and not m.startswith('spyrert.spyrecode') "
        "and m not in ('spyrert.errors', 'spyrert.constants')]; assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
