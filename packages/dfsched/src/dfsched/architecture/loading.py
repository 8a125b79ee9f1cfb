"""Finding devices: package devices by name, files, imports, and the devices of a module (spec 1.9, 3.10)."""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path

import ktir
from dfsched.architecture.architecture import Architecture
from dfsched.architecture.reader import discardable, read_device
from dfsched.dialects.ktdf_arch import DeviceOp
from dfsched.errors import ArchitectureError, DeviceNotFound, require
from dfsched.recognition import DEVICE, kind_of
from ktir.analysis import DefUse
from ktir.attributes import StringAttr, SymbolRefAttr
from ktir.dialects.builtin import Module
from ktir.errors import Note
from ktir.ir import Operation, Region

__all__ = [
    "NO_DEVICE",
    "DeviceManager",
    "declare_device",
    "devices_in",
    "load_architecture",
    "package_devices",
]

NO_DEVICE = (
    "Unable to import the device specification. "
    "This could happen if the device spec file is empty or contains multiple devices"
)


def package_devices() -> tuple[str, ...]:
    """Names of the devices that come with this package."""
    folder = resources.files("dfsched") / "devices"
    return tuple(sorted(f.name.removesuffix(".mlir") for f in folder.iterdir() if f.name.endswith(".mlir")))


def _package_file(name: str) -> Path | None:
    """The file of a package device; None if there is none, or the name is a path."""
    if "/" in name or "." in name or name not in package_devices():
        return None
    return Path(str(resources.files("dfsched") / "devices" / f"{name}.mlir"))


def devices_in(module: Operation) -> tuple[DeviceOp, ...]:
    """The devices directly inside a module, declarations and definitions."""
    return tuple(
        op
        for region in module.regions
        for block in region.blocks
        for op in block.operations
        if isinstance(op, DeviceOp)
    )


@cache
def _load_file(path: Path, stamp: tuple[int, int]) -> Module:
    """A verified device file; ``stamp`` (mtime, size) keeps the cache honest."""
    module = ktir.load(path)
    ktir.verify(module)
    return module


def _read_file(path: Path) -> Module:
    info = path.stat()
    return _load_file(path, (info.st_mtime_ns, info.st_size))


def import_device(declaration: DeviceOp) -> Architecture:
    """The architecture behind a declaration, read from its file if it is an import.

    Raises `ArchitectureError` at the declaration; an error of the imported file is its cause.
    """
    if not declaration.is_import:
        return read_device(declaration)
    name = declaration.symbol
    path = _import_path(declaration)

    def failed(reason: str) -> ArchitectureError:
        return ArchitectureError(f"unable to import device graph: {reason}", None, declaration.location)

    try:
        module = _read_file(path)
    except OSError as error:
        raise failed(f"{path}: {error.strerror or error}") from error
    except (ktir.ParseError, ktir.VerifyError) as error:
        raise failed(f"no device named '{name}' ({path} has errors)\n{error}") from error
    found = devices_in(module)
    device = next((d for d in found if d.symbol == name), None)
    if device is None and _package_file(declaration.import_path.value) and len(found) == 1:  # type: ignore[union-attr]
        # a package device may also be declared under its package name
        device = found[0] if declaration.import_path == StringAttr(name) else None
    if device is None:
        raise failed(f"no device named '{name}' in {path}")
    if device.is_import:
        raise ArchitectureError("recursive importing is prohibited", None, declaration.location)
    return read_device(device, discardable(declaration))


def _import_path(declaration: DeviceOp) -> Path:
    assert declaration.import_path is not None
    text = declaration.import_path.value
    if (package := _package_file(text)) is not None:
        return package
    path = Path(text)
    if path.is_absolute():
        return path
    where = declaration.location.file_line_column()
    base = (
        Path(where[0]).parent
        if where is not None and where[0] not in ("-", "<stdin>", "<string>")
        else Path()
    )
    return base / path


class DeviceManager:
    """The devices that one top-level module declares, imported on first use and kept.

    Every `get` of one device returns the same `Architecture`, so its views are computed once.
    """

    def __init__(self, module: Operation) -> None:
        self._module = module
        self._declarations = {device.symbol: device for device in devices_in(module)}
        self._loaded: dict[str, Architecture] = {}

    def get(self, name: str | None = None) -> Architecture | None:
        """The device of that name, or (without a name) the module's only device.

        None when there is no such declaration, or zero or several of them. Raises `ArchitectureError` when
        the import fails.
        """
        if name is None:
            if len(self._declarations) != 1:
                return None
            (name,) = self._declarations
        declaration = self._declarations.get(name)
        if declaration is None:
            return None
        if name not in self._loaded:
            self._loaded[name] = import_device(declaration)
        return self._loaded[name]

    def require(self) -> Architecture:
        """`get()`, or `ArchitectureError` with the passes' common message."""
        found = self.get()
        if found is None:
            raise ArchitectureError(NO_DEVICE, None, self._module.location)
        return found

    def for_operation(self, op: Operation, analysis: DefUse | None = None) -> Architecture | None:
        """The device that an operation is compiled for (spec 1.9 item 6).

        The nearest `ktdf_arch.maps_to` that names a device wins; otherwise the only device of an enclosing
        module. None when there is none or the choice is ambiguous.
        """
        analysis = analysis or DefUse(self._module)
        remembered: DeviceOp | None = None
        current: Operation | None = op
        while current is not None:
            target = current.attributes.get("ktdf_arch.maps_to")
            if isinstance(target, SymbolRefAttr):
                device = analysis.symbol(current, target.root)
                if isinstance(device, DeviceOp):
                    return self._import(device)
            here = devices_in(current)
            if here:
                if remembered is not None or len(here) > 1:
                    return None
                remembered = here[0]
            current = analysis.parent(current)
        return None if remembered is None else self._import(remembered)

    def _import(self, device: DeviceOp) -> Architecture:
        if self._declarations.get(device.symbol) is device:
            found = self.get(device.symbol)
            assert found is not None
            return found
        return import_device(device)


def load_architecture(source: str | Path | Operation | Architecture) -> Architecture:
    """The device behind a package name (``"sample"``), a file, a module that declares it, or itself.

    Raises `DeviceNotFound` (no such package device or file), `ktir.ParseError`, `ktir.VerifyError` (the
    file is wrong), `ArchitectureError` (no device, several devices, or a failing import) or `CallError`.
    """
    require("load_architecture", "source", source, str, Path, Operation, Architecture)
    match source:
        case Architecture():
            return source
        case DeviceOp():
            return import_device(source)
        case Operation():
            return DeviceManager(source).require()
        case _:
            return _load_by_name(str(source))


def _load_by_name(name: str) -> Architecture:
    path = _package_file(name) or Path(name)
    if not _is_file(path):
        raise DeviceNotFound(name, package_devices())
    info = path.stat()
    return _load_single(path, (info.st_mtime_ns, info.st_size))


def _is_file(path: Path) -> bool:
    """Also of what is no path at all, such as a name that is too long."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


@cache
def _load_single(path: Path, stamp: tuple[int, int]) -> Architecture:
    module = _load_file(path, stamp)
    try:
        return DeviceManager(module).require()
    except ArchitectureError as error:
        kind = kind_of(module)
        if error.message != NO_DEVICE or kind in (None, DEVICE):
            raise
        note = Note(kind.instead_of(DEVICE.name))
        raise ArchitectureError(NO_DEVICE, None, error.location, (note,)) from error


def declare_device(module: Module, file: str | Path, name: str | None = None) -> Module:
    """The module with a declaration that imports the device in ``file`` as its first operation.

    A module that has a device is returned unchanged. ``file`` may be a package name; paths are made
    absolute. Without ``name`` the file must hold exactly one device. Raises `ArchitectureError`.
    """
    if devices_in(module):
        return module
    text = str(file)
    package = _package_file(text)
    path = package or Path(text).absolute()
    if name is None:
        try:
            found = devices_in(_read_file(path))
        except OSError as error:
            raise ArchitectureError(
                f"unable to import device: {path}: {error.strerror or error}", None, module.location
            ) from error
        if len(found) != 1:
            count = "no device" if not found else "multiple devices"
            raise ArchitectureError(f"{count} in import file {path}", None, module.location)
        name = found[0].symbol
    declaration = DeviceOp.create(
        attributes={"sym_name": StringAttr(name), "import_path": StringAttr(text if package else str(path))},
        regions=(Region(),),
        location=module.location,
    )
    block = module.regions[0].block
    return module.replace(regions=(Region((block.replace(operations=(declaration, *block.operations)),)),))
