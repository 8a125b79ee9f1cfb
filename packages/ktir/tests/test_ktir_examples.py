"""The kernels of `examples/`: the builder program and the text are the same module."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import ktir

EXAMPLES = Path(__file__).parents[1] / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))


def build(name: str) -> ktir.Module:
    spec = importlib.util.spec_from_file_location(f"ktir_example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    built = module.build()
    assert isinstance(built, ktir.Module)
    return built


def test_all_examples_are_here() -> None:
    assert len(NAMES) == 15
    assert sorted(path.stem for path in EXAMPLES.glob("*.mlir")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_builder_and_text_print_identically(name: str) -> None:
    path = EXAMPLES / f"{name}.mlir"
    text = path.read_text()
    assert ktir.print_module(build(name)) == text
    module = ktir.load(path)
    ktir.verify(module)
    assert ktir.print_module(module) == text
    assert ktir.print_module(ktir.parse(ktir.print_module(module, generic=True))) == text


@pytest.mark.parametrize("name", NAMES)
def test_interfaces_can_be_derived(name: str) -> None:
    module = build(name)
    for function in module.operations:
        assert isinstance(function, ktir.dialects.func.Func)
        arguments = ktir.signature(module, function)
        pointers = [a for a in arguments if a.is_pointer]
        assert all(a.layout is not None and a.role is not None for a in pointers)
        if name != "residency":
            assert len(pointers) == len(arguments)
            assert sum(a.role != "input" for a in pointers) == 1
            assert ktir.constant_buffers(module, function) == ()


def test_roles_and_shapes_of_the_flash_attention_kernel() -> None:
    arguments = ktir.signature(build("flash_attention"))
    assert [(a.name, str(a.role), a.shape) for a in arguments] == [
        ("q", "input", (1, 128, 64)),
        ("kT", "input", (3, 64, 64)),
        ("v", "input", (1, 192, 64)),
        ("o", "output", (1, 128, 64)),
    ]


def test_scratchpad_addresses_of_the_residency_kernels_are_scalars() -> None:
    module = build("residency")
    kinds = {
        f.symbol: [str(a.kind) for a in ktir.signature(module, f)]
        for f in module.operations
        if isinstance(f, ktir.dialects.func.Func)
    }
    assert kinds == {
        "produce": ["pointer", "scalar"],
        "relayout": ["scalar", "scalar"],
        "consume": ["scalar", "pointer"],
    }
