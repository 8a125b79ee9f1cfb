"""Finding devices: imports, overlays, the device of an operation, and the inserted declaration."""

from __future__ import annotations

from pathlib import Path

import pytest

import ktir
from dfsched import load_architecture
from dfsched.architecture.loading import NO_DEVICE, DeviceManager, declare_device, devices_in
from dfsched.errors import ArchitectureError, DeviceNotFound
from ktir.ir import Operation

MEMORY = '{ memory {kind = "BULK", size = 8} }'


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def operation(module: Operation, name: str) -> Operation:
    return next(op for op in module.walk() if op.name == name)


def test_relative_and_absolute_imports(tmp_path: Path) -> None:
    """Relative paths start at the importing file's directory (checklist V29)."""
    device = write(tmp_path, "devices/toy.mlir", f"ktdf_arch.device @toy {MEMORY}")
    for path in ("../devices/toy.mlir", str(device)):
        kernel = write(tmp_path, "kernels/k.mlir", f'ktdf_arch.device @toy import("{path}")')
        assert load_architecture(ktir.load(kernel)).memory("BULK").size == 8
        assert load_architecture(kernel).name == "toy"


def test_imports_without_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text without a file resolves against the current directory (1.9 item 2)."""
    write(tmp_path, "toy.mlir", f"ktdf_arch.device @toy {MEMORY}")
    monkeypatch.chdir(tmp_path)
    text = 'ktdf_arch.device @toy import("toy.mlir")'
    assert load_architecture(ktir.parse(text)).name == "toy"
    assert load_architecture(ktir.parse(text, file="-")).name == "toy"


def test_the_only_device_and_devices_by_name() -> None:
    """Without a name the only one, none of zero or two; an unknown name gives none (device checklist V33)."""
    two = f"ktdf_arch.device @a {MEMORY}\nktdf_arch.device @b {MEMORY}"
    assert DeviceManager(ktir.parse("module {}")).get() is None
    assert DeviceManager(ktir.parse(two)).get() is None
    one = DeviceManager(ktir.parse(f"ktdf_arch.device @a {MEMORY}"))
    only = one.get()
    assert only is not None
    assert only.name == "a"
    assert one.get("unknown") is None
    with pytest.raises(ArchitectureError) as caught:
        DeviceManager(ktir.parse(two)).require()
    assert NO_DEVICE in str(caught.value)
    named = DeviceManager(ktir.parse(two)).get("b")
    assert named is not None
    assert named.name == "b"


def test_a_device_and_its_views_are_made_once() -> None:
    """Asking again gives the same objects (device checklist V34)."""
    manager = DeviceManager(ktir.parse('ktdf_arch.device @sample_device import("sample")'))
    device = manager.get()
    assert device is not None
    assert manager.get() is device
    assert manager.get("sample_device") is device
    assert manager.require() is device
    assert device.routing is device.routing
    assert device.memory_tree is device.memory_tree


def test_package_imports() -> None:
    """A path without slash and suffix is a package name (reading 18)."""
    device = load_architecture(ktir.parse('ktdf_arch.device @sample_device import("sample")'))
    assert device == load_architecture("sample")
    assert load_architecture(ktir.parse('ktdf_arch.device @sample import("sample")')).digest
    with pytest.raises(ArchitectureError, match="no device named 'other'"):
        load_architecture(ktir.parse('ktdf_arch.device @other import("sample")'))


def test_failing_imports(tmp_path: Path) -> None:
    """Missing file, wrong name, import of an import, errors of the file: at the declaration (checklist V30)."""

    def fails(path: str, *keys: str, name: str = "toy") -> None:
        kernel = write(tmp_path, "k.mlir", f'\n  ktdf_arch.device @{name} import("{path}")')
        with pytest.raises(ArchitectureError) as caught:
            load_architecture(ktir.load(kernel))
        for key in (*keys, f"{kernel}:2:3: error: "):
            assert key in str(caught.value)

    fails("missing.mlir", "unable to import device graph: ", "No such file")
    write(tmp_path, "other.mlir", f"ktdf_arch.device @other {MEMORY}")
    fails("other.mlir", "unable to import device graph: no device named 'toy'")
    write(tmp_path, "again.mlir", 'ktdf_arch.device @toy import("other.mlir")')
    fails("again.mlir", "recursive importing is prohibited")
    bad = write(tmp_path, "bad.mlir", "ktdf_arch.device @toy {\n  memory oops }")
    fails("bad.mlir", "no device named 'toy'", f"{bad}:2:10: error: ")
    bad = write(tmp_path, "wrong.mlir", "ktdf_arch.device @toy {\n  memory }")
    fails("wrong.mlir", "no device named 'toy'", f"{bad}:2:3: error: ", "valid memory space")
    binary = tmp_path / "binary.mlir"
    binary.write_bytes(b"\xff\xfe\x00")
    fails("binary.mlir", "no device named 'toy'")
    fails(str(tmp_path), "unable to import device graph: ")


def test_overlay(tmp_path: Path) -> None:
    """The declaration's discardable attributes win; `version` is the definition's (checklist V31)."""
    text = f'ktdf_arch.device @toy attributes {{version = 1, a = 1, b = 2, mem_space_mapping = #ktdf_arch.map<"x" = "BULK">}} {MEMORY}'
    write(tmp_path, "toy.mlir", text)
    kernel = write(
        tmp_path,
        "k.mlir",
        'ktdf_arch.device @toy attributes {version = 7, a = 3, mem_space_mapping = #ktdf_arch.map<"y" = "BULK">} '
        'import("toy.mlir")',
    )
    device = load_architecture(kernel)
    assert device.version == 1
    assert {name: str(value) for name, value in device.attributes} == {"a": "3 : i64", "b": "2 : i64"}
    assert device.mem_space_mapping == (("y", "BULK"),)
    assert device.memory_kind("y") == "BULK"
    assert device.memory_kind("x") == "x"


def test_laziness(tmp_path: Path) -> None:
    """A bad import that nobody asks for raises nothing (checklist V32)."""
    module = ktir.parse(
        f'ktdf_arch.device @good {MEMORY}\nktdf_arch.device @bad import("nowhere.mlir")',
        file=str(tmp_path / "k"),
    )
    ktir.verify(module)
    manager = DeviceManager(module)
    assert manager.get("good") is not None
    with pytest.raises(ArchitectureError):
        manager.get("bad")


def test_manager() -> None:
    """The only device, none for zero or two, none for an unknown name; always the same object (V33, V34)."""
    one = DeviceManager(ktir.parse(f"ktdf_arch.device @a {MEMORY}"))
    assert one.get() is one.get("a") is one.get()
    assert one.get() is not None
    assert one.get().routing is one.get().routing  # type: ignore[union-attr]
    assert one.get("unknown") is None
    none, two = ktir.parse(""), ktir.parse(f"ktdf_arch.device @a {MEMORY}\nktdf_arch.device @b {MEMORY}")
    for module in (none, two):
        assert DeviceManager(module).get() is None
        with pytest.raises(ArchitectureError) as caught:
            load_architecture(module)
        assert NO_DEVICE in str(caught.value)
    manager = DeviceManager(two)
    assert manager.get("b") is not None
    assert manager.get() is None


def test_device_of_an_operation() -> None:
    """`maps_to` beats the module's device; two are ambiguous; an outer one is found (checklist V35)."""
    one = ktir.parse(f'ktdf_arch.device @a {MEMORY}\nmodule {{ "t.op"() : () -> () }}')
    found = DeviceManager(one).for_operation(operation(one, "t.op"))
    assert found is not None
    assert found.name == "a"
    two = f"ktdf_arch.device @a {MEMORY}\nktdf_arch.device @b {MEMORY}\n"
    ambiguous = ktir.parse(two + '"t.op"() : () -> ()')
    assert DeviceManager(ambiguous).for_operation(operation(ambiguous, "t.op")) is None
    mapped = ktir.parse(
        two + 'func.func @f() attributes {ktdf_arch.maps_to = @b} { "t.op"() : () -> () return }'
    )
    found = DeviceManager(mapped).for_operation(operation(mapped, "t.op"))
    assert found is not None
    assert found.name == "b"
    unresolved = ktir.parse(
        f'ktdf_arch.device @a {MEMORY}\n"t.op"() {{ktdf_arch.maps_to = @nobody}} : () -> ()'
    )
    found = DeviceManager(unresolved).for_operation(operation(unresolved, "t.op"))
    assert found is not None
    assert found.name == "a"
    inner = ktir.parse(
        f'ktdf_arch.device @a {MEMORY}\nmodule {{ ktdf_arch.device @b {MEMORY}\n"t.op"() : () -> () }}'
    )
    assert DeviceManager(inner).for_operation(operation(inner, "t.op")) is None


def test_declare_device(tmp_path: Path) -> None:
    """`--device` inserts an absolute import named after the file's only device (checklist V36)."""
    file = write(tmp_path, "toy.mlir", f"ktdf_arch.device @toy {MEMORY}")
    module = ktir.parse("func.func @f() { return }")
    declared = declare_device(module, file)
    (device,) = devices_in(declared)
    assert declared.regions[0].block.operations[0] is device
    assert device.symbol == "toy"
    assert device.import_path is not None
    assert device.import_path.value == str(file)
    ktir.verify(declared)
    assert load_architecture(declared).name == "toy"
    assert declare_device(declared, "spyre") is declared
    assert load_architecture(declare_device(module, "spyre")).name == "spyre"
    named = declare_device(module, tmp_path / "unread.mlir", name="x")
    assert devices_in(named)[0].symbol == "x"
    write(tmp_path, "none.mlir", "func.func @f() { return }")
    write(tmp_path, "two.mlir", f"ktdf_arch.device @a {MEMORY}\nktdf_arch.device @b {MEMORY}")
    for name, key in (
        ("none.mlir", "no device in import file"),
        ("two.mlir", "multiple devices in import file"),
        ("missing.mlir", "unable to import device"),
    ):
        with pytest.raises(ArchitectureError, match=key):
            declare_device(module, tmp_path / name)


def test_load_by_name(tmp_path: Path) -> None:
    """Package names, paths, and what is neither."""
    file = write(tmp_path, "toy.mlir", f"ktdf_arch.device @toy {MEMORY}")
    assert load_architecture(file) is load_architecture(str(file))
    assert load_architecture(load_architecture(file)) is load_architecture(file)
    file.write_text(f"ktdf_arch.device @changed {MEMORY}")
    assert load_architecture(file).name == "changed"
    with pytest.raises(DeviceNotFound, match="no device 'nothing'"):
        load_architecture("nothing")
    with pytest.raises(ktir.ParseError):
        load_architecture(write(tmp_path, "bad.mlir", "ktdf_arch.device"))
