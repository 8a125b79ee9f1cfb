"""The artefact itself: :class:`SpyreCode`, one compiled kernel (runtime spec 1)."""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from spyrert.constants import PROG_OFFSET_BASE
from spyrert.spyrecode._json import Json, canonical
from spyrert.spyrecode.commands import (
    Allocate,
    ComputeOnDevice,
    ComputeOnHost,
    DataTransfer,
    ExecCommand,
    InitTransfer,
    PrepCommand,
    command_to_json,
)
from spyrert.spyrecode.launchspec import LaunchSpec

MANIFEST: Final = "spyrecode.json"
CODE_DIR: Final = "spyreCodeDir"
LAUNCH_SPEC: Final = "launch_spec.json"
SYMBOL_KINDS_FILE: Final = "symbol_kinds.json"
DEFAULT_IMAGE: Final = "init_binary.bin"
VERSION: Final = 1
MINOR: Final = 0


class Addressing(enum.Enum):
    """How tensor addresses reach the program (runtime spec 1.8)."""

    SYMBOLIC = "symbolic"
    BAKED = "baked"
    NONE = "none"


@attrs.frozen
class Producer:
    """Who wrote the artefact. Nothing here may differ between two runs on equal input."""

    name: str = "spyrert"
    version: str = "0"
    source_digest: str = ""

    def to_json(self) -> Json:
        return {"name": self.name, "version": self.version, "source_digest": self.source_digest}


@attrs.frozen
class Span:
    """A byte range of the static block, from ``PROG_OFFSET_BASE``."""

    offset: int
    size: int

    @property
    def end(self) -> int:
        return self.offset + self.size

    def overlaps(self, other: Span) -> bool:
        return self.offset < other.end and other.offset < self.end


@attrs.frozen
class CodeFile:
    """A file beside the manifest: a binary image, or host metadata kept apart."""

    name: str
    data: bytes = attrs.field(repr=lambda data: f"<{len(data)} bytes>")

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


@attrs.frozen
class SpyreCode:
    """One compiled kernel: two plans, binary images, and the contract of its launch.

    Args:
        kernel_name: which kernel.
        preparation: commands that run once: ``Allocate``, then ``InitTransfer`` s.
        execution: commands that run per launch.
        files: images (and metadata files) by name.
        addressing: how tensor addresses reach the program.
        launch: the caller-facing contract; ``None`` only for plain upstream artefacts (version 0).
        producer: who wrote it.
        spill: ranges of the static block that the program uses for intermediates.
        features: what a reader must know to execute it.
        expected_input_shapes: upstream's planned key, applied positionally when ``launch`` is ``None``.
        version: 1, or 0 for a plain upstream artefact.
        loaded_digest: digest as it was stored or computed when the artefact was read.
        path: where it was read from, for messages.

    Build one with :func:`spyrert.spyrecode.assemble`, or field by field; :meth:`write` and :meth:`read` move
    it to and from a folder, and :meth:`validate` checks every rule of the format.
    """

    kernel_name: str
    preparation: tuple[PrepCommand, ...]
    execution: tuple[ExecCommand, ...]
    files: tuple[CodeFile, ...] = ()
    addressing: Addressing = Addressing.SYMBOLIC
    launch: LaunchSpec | None = None
    producer: Producer = attrs.field(factory=Producer)
    spill: tuple[Span, ...] = ()
    features: tuple[str, ...] = ()
    expected_input_shapes: tuple[tuple[int, ...], ...] = ()
    version: int = VERSION
    minor: int = MINOR
    loaded_digest: str | None = attrs.field(default=None, eq=False, kw_only=True)
    path: str = attrs.field(default="", eq=False, kw_only=True)

    # -- parts ---------------------------------------------------------------------------------

    @property
    def allocate(self) -> Allocate:
        """The one ``Allocate`` of the preparation plan."""
        return next(command for command in self.preparation if isinstance(command, Allocate))

    @property
    def static_size(self) -> int:
        """Bytes of the static block (segment 7)."""
        return self.allocate.static_size

    @property
    def dynamic_size(self) -> int:
        """Bytes of the block per launch (segment 6)."""
        return self.allocate.dynamic_size

    def init_transfers(self) -> Iterator[InitTransfer]:
        return (command for command in self.preparation if isinstance(command, InitTransfer))

    def host_computes(self) -> Iterator[ComputeOnHost]:
        return (command for command in self.execution if isinstance(command, ComputeOnHost))

    def computes(self) -> Iterator[ComputeOnDevice]:
        return (command for command in self.execution if isinstance(command, ComputeOnDevice))

    def transfers(self) -> Iterator[DataTransfer]:
        return (command for command in self.execution if isinstance(command, DataTransfer))

    def corrections(self) -> Iterator[tuple[ComputeOnHost, DataTransfer]]:
        """Pairs of a host computation and the transfer to the device that consumes its result."""
        made = {command.ohandle: command for command in self.host_computes()}
        for transfer in self.transfers():
            if transfer.to_device and transfer.host_handle in made:
                yield made[transfer.host_handle], transfer

    def file(self, name: str) -> bytes:
        """Contents of a file; ``KeyError`` if there is none of that name."""
        for file in self.files:
            if file.name == name:
                return file.data
        raise KeyError(name)

    def image_at(self, pointer: int) -> bytes | None:
        """Bytes of the loaded image from the DMVA ``pointer`` on, ``None`` if no image covers it."""
        for command in self.init_transfers():
            if command.dev_ptr <= pointer < command.dev_ptr + command.size:
                return self.file(command.file)[pointer - command.dev_ptr :]
        return None

    # -- documents -----------------------------------------------------------------------------

    def memory(self) -> Json:
        """The redundant summary of the static block (key ``memory`` of the manifest)."""

        def span(offset: int, size: int) -> dict[str, Json]:
            return {"offset": offset, "size": size}

        images = []
        for command in self.init_transfers():
            entries = [
                c.job_bin_ptr
                for c in self.computes()
                if command.dev_ptr <= c.job_bin_ptr < command.dev_ptr + command.size
            ]
            entry = (entries[0] if entries else command.dev_ptr) - PROG_OFFSET_BASE
            images.append(span(command.dev_ptr - PROG_OFFSET_BASE, command.size) | {"entry": entry})
        return {
            "static_size": self.static_size,
            "dynamic_size": self.dynamic_size,
            "correction": [span(t.dev_ptr - PROG_OFFSET_BASE, t.size) for _, t in self.corrections()],
            "images": images,
            "spill": [span(s.offset, s.size) for s in self.spill],
        }

    def manifest(self) -> dict[str, Json]:
        """The document of ``spyrecode.json``, digest included."""
        plans = {
            "JobPreparationPlan": [command_to_json(command) for command in self.preparation],
            "JobExecPlan": [command_to_json(command) for command in self.execution],
        }
        if self.version == 0:
            return plans
        document: dict[str, Json] = {
            "format": "spyrecode",
            "version": self.version,
            "minor": self.minor,
            "kernel_name": self.kernel_name,
            "producer": self.producer.to_json(),
            "addressing": self.addressing.value,
        }
        if self.expected_input_shapes:
            document["expected_input_shapes"] = [list(shape) for shape in self.expected_input_shapes]
        if self.launch is not None:
            document |= self.launch.members()
            document["symbols"] = [{"name": s.name} | s.to_json() for s in self.launch.symbols]
        document["memory"] = self.memory()
        if self.features:
            document["features"] = list(self.features)
        document["files"] = {
            file.name: {"size": len(file.data), "sha256": file.sha256} for file in self.files
        }
        document |= plans
        document["digest"] = manifest_digest(document)
        return document

    @property
    def digest(self) -> str:
        """SHA-256 (hex) that names this artefact: as stored for one that was read, else computed."""
        if self.loaded_digest is not None:
            return self.loaded_digest
        manifest = self.manifest()
        if self.version == 0:
            return plain_digest(manifest, {file.name: file.data for file in self.files})
        return str(manifest["digest"])

    @property
    def digest64(self) -> bytes:
        """First 8 bytes of the digest, as in correction tensors and compute control blocks."""
        return bytes.fromhex(self.digest)[:8]

    # -- files ---------------------------------------------------------------------------------

    def validate(self, images: bool = True) -> None:
        """Check every rule of the format; ``images`` also opens our containers and compares them with the
        plans.

        Raises the ``SpyreCodeError`` subclass of the first violation (runtime spec 1.14).
        """
        from spyrert.spyrecode.validate import check, check_images

        check(self)
        if images:
            check_images(self)

    def write(self, directory: str | Path) -> Path:
        """Validate, then publish ``directory/launch_spec.json``, ``symbol_kinds.json`` and ``spyreCodeDir/``.

        ``spyreCodeDir`` appears complete or not at all; other files in ``directory`` are left alone. Returns
        the directory. Equal artefacts give byte-identical files.
        """
        from spyrert.spyrecode.writer import write

        return write(self, Path(directory))

    @classmethod
    def read(cls, path: str | Path, **options: Any) -> SpyreCode:
        """Read and validate a kernel folder, a ``spyreCodeDir``, or a ``.spyrecode`` zip.

        Options are those of :func:`spyrert.spyrecode.reader.read`: ``verify="full" | "size" | "none"``,
        ``lenient=False``, ``limits=Limits()``.
        """
        from spyrert.spyrecode.reader import read

        return read(path, **options)

    @classmethod
    def from_memory(
        cls, manifest: Mapping[str, Json], files: Mapping[str, bytes], **options: Any
    ) -> SpyreCode:
        """Like :meth:`read` for a manifest document and the contents of its files."""
        from spyrert.spyrecode.reader import read_memory

        return read_memory(manifest, files, **options)


def manifest_digest(document: Mapping[str, Json]) -> str:
    """SHA-256 of the canonical manifest without its ``digest`` (runtime spec 1.12)."""
    return hashlib.sha256(canonical({k: v for k, v in document.items() if k != "digest"})).hexdigest()


def plain_digest(document: Mapping[str, Json], files: Mapping[str, bytes]) -> str:
    """Digest of a version-0 artefact: canonical manifest, then every file by name."""
    state = hashlib.sha256(canonical(document))
    for name in sorted(files):
        state.update(name.encode() + b"\0" + hashlib.sha256(files[name]).digest())
    return state.hexdigest()
