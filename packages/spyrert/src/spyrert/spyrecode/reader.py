"""Reading an artefact from a folder, a zip file, or memory (runtime spec 1.1, 1.2, 1.12).

Nothing outside the folder is opened, whatever the manifest says; all three forms run through one path.
"""

from __future__ import annotations

import hashlib
import os
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Final, Literal, Protocol

import attrs

from spyrert.constants import SEGMENT_SIZE
from spyrert.errors import (
    LaunchSpecError,
    SpyreCodeDigestError,
    SpyreCodeNotFound,
    SpyreCodeParseError,
    SpyreCodePathError,
    SpyreCodeSchemaError,
    SpyreCodeVersionError,
    SpyreCodeWarning,
)
from spyrert.spyrecode._json import MAX_DEPTH, Json, Node, file_name_problem, parse, pretty
from spyrert.spyrecode.code import (
    CODE_DIR,
    LAUNCH_SPEC,
    MANIFEST,
    SYMBOL_KINDS_FILE,
    VERSION,
    Addressing,
    CodeFile,
    Producer,
    Span,
    SpyreCode,
    manifest_digest,
    plain_digest,
)
from spyrert.spyrecode.commands import (
    Allocate,
    ComputeOnHost,
    ExecCommand,
    InitTransfer,
    PrepCommand,
    check_structure,
    command_from_json,
)
from spyrert.spyrecode.launchspec import (
    SHARED_KEYS,
    LaunchSpec,
    contract_from_json,
    launch_spec_from_json,
    symbol_kinds_from_json,
)
from spyrert.spyrecode.validate import check

Verify = Literal["full", "size", "none"]

TOP_LEVEL_KEYS: Final = (
    "format",
    "version",
    "minor",
    "kernel_name",
    "producer",
    "addressing",
    "expected_input_shapes",
    *SHARED_KEYS,
    "memory",
    "features",
    "files",
    "digest",
    "JobPreparationPlan",
    "JobExecPlan",
)


@attrs.frozen
class Limits:
    """Greatest sizes that a reader accepts (bytes, levels, commands)."""

    manifest_bytes: int = 64 << 20
    depth: int = MAX_DEPTH
    commands: int = 4096
    image_bytes: int = SEGMENT_SIZE


class Source(Protocol):
    """Where files come from. Names are relative and use ``/``."""

    @property
    def label(self) -> str:
        """How messages call the place."""
        ...

    def size(self, name: str) -> int | None:
        """Length in bytes, ``None`` if there is no such file."""
        ...

    def load(self, name: str) -> bytes:
        """Contents of a file that exists."""
        ...


@attrs.frozen
class FolderSource:
    """Files of one folder; a link that leads outside is ``SpyreCodePathError``."""

    root: Path

    @property
    def label(self) -> str:
        return str(self.root)

    def size(self, name: str) -> int | None:
        path = self._resolve(name)
        return path.stat().st_size if path.is_file() else None

    def load(self, name: str) -> bytes:
        return self._resolve(name).read_bytes()

    def _resolve(self, name: str) -> Path:
        root = self.root.resolve()
        path = (root / name).resolve()
        if root not in path.parents:
            raise SpyreCodePathError(f"file reference {name!r} leads outside the folder", path=str(self.root))
        return path


@attrs.frozen
class MemorySource:
    """Files given as bytes."""

    files: Mapping[str, bytes]
    label: str = "<memory>"

    def size(self, name: str) -> int | None:
        return len(self.files[name]) if name in self.files else None

    def load(self, name: str) -> bytes:
        return bytes(self.files[name])


def read(
    path: str | Path, *, verify: Verify = "full", lenient: bool = False, limits: Limits | None = None
) -> SpyreCode:
    """Read a kernel folder, a ``spyreCodeDir``, or a ``.spyrecode`` zip file.

    Args:
        verify: ``"full"`` hashes everything, ``"size"`` compares lengths only, ``"none"`` neither.
        lenient: accept numbers as JSON integers or ``0x`` strings (version 0 only).
        limits: greatest sizes that are accepted.

    Raises a ``SpyreCodeError`` subclass, with path, JSON pointer and command index.
    """
    limits = limits or Limits()
    path = Path(path)
    if not os.path.lexists(path):
        raise SpyreCodeNotFound("SpyreCode directory does not exist", path=str(path))
    if path.is_file():
        if not zipfile.is_zipfile(path):
            raise SpyreCodeNotFound("Path is not a directory", path=str(path))
        files = _unzip(path, limits)
        inner = (
            MemorySource(_below(files), f"{path}!{CODE_DIR}")
            if _below(files)
            else MemorySource(files, str(path))
        )
        return _read(inner, MemorySource(files, str(path)), verify, lenient, limits)
    if not path.is_dir():
        raise SpyreCodeNotFound("Path is not a directory", path=str(path))
    inside = path / CODE_DIR
    if not (path / MANIFEST).is_file() and (inside / MANIFEST).is_file():
        return _read(FolderSource(inside), FolderSource(path), verify, lenient, limits)
    outer = FolderSource(path.parent) if path.resolve().name == CODE_DIR else None
    return _read(FolderSource(path), outer, verify, lenient, limits)


def read_memory(
    manifest: Mapping[str, Json],
    files: Mapping[str, bytes],
    *,
    verify: Verify = "full",
    lenient: bool = False,
    limits: Limits | None = None,
) -> SpyreCode:
    """Read a manifest document and the contents of its files; see :func:`read`.

    ``files`` may also hold ``launch_spec.json`` and ``symbol_kinds.json``.
    """
    try:
        data = pretty(dict(manifest))
    except (TypeError, ValueError) as error:
        raise SpyreCodeParseError(f"Failed to parse {MANIFEST}: {error}", path="<memory>") from None
    source = MemorySource({**files, MANIFEST: data})
    return _read(source, source, verify, lenient, limits or Limits())


def _below(files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {
        name.removeprefix(f"{CODE_DIR}/"): data
        for name, data in files.items()
        if name.startswith(f"{CODE_DIR}/")
    }


def _unzip(path: Path, limits: Limits) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                if info.is_dir():
                    continue
                if info.compress_type != zipfile.ZIP_STORED:
                    raise SpyreCodeParseError(f"zip entry {info.filename!r} is compressed", path=str(path))
                if info.file_size > min(limits.image_bytes, path.stat().st_size):
                    raise SpyreCodeParseError(f"zip entry {info.filename!r} is too large", path=str(path))
                if info.filename in files:
                    raise SpyreCodeParseError(f"duplicate zip entry {info.filename!r}", path=str(path))
                files[info.filename] = archive.read(info)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError, OSError) as error:
        if isinstance(error, SpyreCodeParseError):
            raise
        raise SpyreCodeParseError(f"bad zip file: {error}", path=str(path)) from error
    return files


def _load(source: Source, name: str, limit: int) -> bytes:
    size = source.size(name)
    where = f"{source.label}/{name}"
    if size is None:
        raise SpyreCodeNotFound(f"{name} not found", path=source.label)
    if size > limit:
        raise SpyreCodeParseError(f"{name} has {size} bytes, the limit is {limit}", path=where)
    try:
        return source.load(name)
    except OSError as error:
        raise SpyreCodeNotFound(f"{name} cannot be read: {error.strerror}", path=where) from error


def _check_name(node: Node) -> str:
    """A legal file reference (runtime spec 1.1)."""
    name = node.name()
    problem = file_name_problem(name)
    if problem is not None:
        node.fail(problem, SpyreCodePathError)
    return str(PurePosixPath(name))


def _read(source: Source, outer: Source | None, verify: Verify, lenient: bool, limits: Limits) -> SpyreCode:
    where = f"{source.label}/{MANIFEST}"
    if verify not in ("full", "size", "none"):
        raise ValueError(f"verify must be 'full', 'size' or 'none', not {verify!r}")
    document = parse(_load(source, MANIFEST, limits.manifest_bytes), where, limits.depth)
    root = Node(document, where)
    root.mapping()
    version = _version(root)
    root = attrs.evolve(root, lenient=lenient and version == 0)
    plans = []
    for key in ("JobPreparationPlan", "JobExecPlan"):
        plan = root.get(key)
        if plan is None:
            root.fail(f"missing '{key}'")
        if not isinstance(plan.value, list):
            plan.fail(f"'{key}' must be an array")
        if len(plan.value) > limits.commands:
            plan.fail(f"'{key}' has {len(plan.value)} commands, the limit is {limits.commands}")
        plans.append([attrs.evolve(item, index=i) for i, item in enumerate(plan.elements())])
    for preparation, plan_nodes in zip((True, False), plans, strict=True):
        if preparation and not plan_nodes:
            root.member("JobPreparationPlan").fail("the first command must be Allocate")
        for node in plan_nodes:
            check_structure(node, preparation)
    files = _files(source, plans, limits)
    commands = [[command_from_json(node, files) for node in plan] for plan in plans]
    prep: list[PrepCommand] = [c for c in commands[0] if isinstance(c, (Allocate, InitTransfer))]
    execution: list[ExecCommand] = [c for c in commands[1] if not isinstance(c, (Allocate, InitTransfer))]
    code = _assemble(root, version, prep, execution, files, source)
    code = attrs.evolve(code, launch=_launch(root, code, outer, limits))
    check(code)
    _memory(root, code)
    return attrs.evolve(code, loaded_digest=_digests(root, code, files, verify))


def _version(root: Node) -> int:
    found = root.get("version")
    if found is None:
        return 0
    version = found.integer()
    if not 0 <= version <= VERSION:
        found.fail(
            f"SpyreCode version {version} is not supported (known: 0..{VERSION})", SpyreCodeVersionError
        )
    if version > 0:
        magic = root.member("format")
        if magic.value != "spyrecode":
            magic.fail(f"format is {magic.value!r}, not 'spyrecode'")
        unknown = root.unknown(TOP_LEVEL_KEYS)
        if unknown:
            warnings.warn(
                f"{root.path}: unknown keys are ignored: {', '.join(unknown)}", SpyreCodeWarning, stacklevel=4
            )
    return version


def _files(source: Source, plans: list[list[Node]], limits: Limits) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for node in (node for plan in plans for node in plan):
        properties = node.member("properties")
        for key in ("init_bin_file", "hcm_file"):
            reference = properties.get(key)
            if reference is None:
                continue
            name = _check_name(reference)
            if name in files:
                continue
            try:
                size = source.size(name)
            except SpyreCodePathError as error:
                reference.fail(error.reason, SpyreCodePathError)
            if size is None:
                reference.fail(f"file '{name}' is missing", SpyreCodeNotFound)
            files[name] = _load(source, name, limits.image_bytes)
    return files


def _assemble(
    root: Node,
    version: int,
    preparation: list[PrepCommand],
    execution: list[ExecCommand],
    files: Mapping[str, bytes],
    source: Source,
) -> SpyreCode:
    def text(node: Node | None, default: str) -> str:
        return node.string() if node is not None else default

    addressing_node = root.get("addressing") if version else None
    if addressing_node is not None:
        try:
            addressing = Addressing(addressing_node.string())
        except ValueError:
            addressing_node.fail(f"unknown addressing {addressing_node.value!r}")
    else:
        addressing = _plain_addressing(execution)
    name_node, producer, memory = root.get("kernel_name"), root.get("producer"), root.get("memory")
    features, shapes, minor = root.get("features"), root.get("expected_input_shapes"), root.get("minor")
    if version == 0:
        name_node = producer = memory = features = minor = None
    spill = memory.get("spill") if memory else None
    fallback = Path(source.label.partition("!")[0])
    fallback = fallback.parent if fallback.name == CODE_DIR else fallback
    return SpyreCode(
        name_node.name() if name_node else fallback.name or "kernel",
        tuple(preparation),
        tuple(execution),
        tuple(CodeFile(name, data) for name, data in files.items()),
        addressing,
        None,
        Producer(
            text(producer.get("name"), ""),
            text(producer.get("version"), ""),
            text(producer.get("source_digest"), ""),
        )
        if producer
        else Producer("", "", ""),
        tuple(Span(s.member("offset").integer(0), s.member("size").integer(0)) for s in spill.elements())
        if spill
        else (),
        tuple(item.string() for item in features.elements()) if features else (),
        tuple(tuple(n.integer(0) for n in shape.elements()) for shape in shapes.elements()) if shapes else (),
        version,
        minor.integer(0) if minor else 0,
        path=root.path,
    )


def _plain_addressing(execution: list[ExecCommand]) -> Addressing:
    """Addressing of a version-0 artefact (runtime spec 1.8); ``BUNDLE_SYMBOLIC_ARGS`` overrides."""
    forced = os.environ.get("BUNDLE_SYMBOLIC_ARGS")
    if forced is not None:
        return Addressing.SYMBOLIC if forced == "1" else Addressing.BAKED
    symbolic = any(isinstance(c, ComputeOnHost) and not c.ihandle and c.ishape != (0,) for c in execution)
    return Addressing.SYMBOLIC if symbolic else Addressing.BAKED


def _launch(root: Node, code: SpyreCode, outer: Source | None, limits: Limits) -> LaunchSpec | None:
    """The contract of the manifest, cross-checked with the files beside it."""
    separate = None
    if outer is not None and outer.size(LAUNCH_SPEC) is not None:
        where = f"{outer.label}/{LAUNCH_SPEC}"
        document = parse(_load(outer, LAUNCH_SPEC, limits.manifest_bytes), where, limits.depth)
        separate = launch_spec_from_json(Node(document, where, "", LaunchSpecError))
        if outer.size(SYMBOL_KINDS_FILE) is not None:
            kinds_at = f"{outer.label}/{SYMBOL_KINDS_FILE}"
            kinds_document = parse(
                _load(outer, SYMBOL_KINDS_FILE, limits.manifest_bytes), kinds_at, limits.depth
            )
            kinds = symbol_kinds_from_json(Node(kinds_document, kinds_at, "", LaunchSpecError))
            if separate.symbol_kinds and separate.symbol_kinds != kinds:
                raise LaunchSpecError("symbol kinds differ from those of the launch spec", path=kinds_at)
            separate = attrs.evolve(separate, symbol_kinds=kinds)
    if code.version == 0:
        return separate
    own = contract_from_json(root, code.kernel_name, code.addressing is not Addressing.BAKED)
    if root.get("args") is None:
        return separate
    if separate is None:
        return own
    for key, mine, theirs in _differences(own, separate):
        raise LaunchSpecError(
            f"the launch spec says {theirs!r}, the manifest {mine!r}",
            path=f"{separate_path(outer)}",
            pointer=f"/{key}",
        )
    return separate


def separate_path(outer: Source | None) -> str:
    return f"{outer.label}/{LAUNCH_SPEC}" if outer is not None else LAUNCH_SPEC


def _differences(own: LaunchSpec, separate: LaunchSpec) -> Iterator[tuple[str, object, object]]:
    if own.kernel_name != separate.kernel_name:
        yield "kernel_name", own.kernel_name, separate.kernel_name
    if own.bundle_symbolic_args != separate.bundle_symbolic_args:
        yield "bundle_symbolic_args", own.bundle_symbolic_args, separate.bundle_symbolic_args
    if len(own.args) != len(separate.args):
        yield "args", f"{len(own.args)} arguments", f"{len(separate.args)} arguments"
    for index, (a, b) in enumerate(zip(own.args, separate.args, strict=False)):
        for field in attrs.fields(type(a)):
            mine, theirs = getattr(a, field.name), getattr(b, field.name)
            if mine != theirs:
                yield f"args/{index}/{field.name}", mine, theirs
    mine_members, their_members = own.members(), separate.members()
    for key in SHARED_KEYS:
        if key != "args" and mine_members.get(key) != their_members.get(key):
            yield key, mine_members.get(key), their_members.get(key)


def _memory(root: Node, code: SpyreCode) -> None:
    """The redundant memory summary must say what the plans say."""
    memory = root.get("memory") if code.version else None
    if memory is None:
        return
    expected = code.memory()
    for key, item in memory.members():
        if key in expected and item.value != expected[key]:
            item.fail(
                f"memory summary says {item.value}, the plans say {expected[key]}", SpyreCodeSchemaError
            )


def _digests(root: Node, code: SpyreCode, files: Mapping[str, bytes], verify: Verify) -> str:
    """Compare lengths and hashes; returns the digest of the artefact."""
    if code.version == 0:
        return plain_digest(root.mapping(), files)
    table = root.get("files")
    if table is not None and verify != "none":
        for name, record in table.members():
            if name not in files:
                continue
            size = record.member("size")
            if size.integer(0) != len(files[name]):
                size.fail(
                    f"file '{name}' has {len(files[name])} bytes, not {size.value}", SpyreCodeDigestError
                )
            digest = record.member("sha256")
            if verify == "full" and digest.string() != hashlib.sha256(files[name]).hexdigest():
                digest.fail(f"SHA-256 of file '{name}' does not match", SpyreCodeDigestError)
    stored = root.get("digest")
    computed = manifest_digest(root.mapping())
    if stored is not None and verify == "full" and stored.string() != computed:
        stored.fail(f"digest is {stored.value}, computed {computed}", SpyreCodeDigestError)
    return computed
