"""IR that no pass of ours makes, through one pass: it is taken, or refused at its place (issue 4, point 8)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

import pytest

import dfsched
import ktir
from dfsched.dataflow_check import check_dataflow
from dfsched.dialects.ktdf import BufferPhase
from dfsched.passes.base import PassContext
from dfsched.passes.examples import SUM, kernel
from dfsched.passes.ir_tools import rewrite_blocks
from dfsched.pipeline import PASSES, run_pipeline, select_passes
from dfsched.split import split
from ktir.ir import Operation
from ktir.location import UNKNOWN

ADD = kernel("%r = arith.addf %a, %a : TENSOR", rows=8)


def before(name: str, text: str, device: str) -> str:
    """The module that a pass gets when a kernel is compiled."""
    compiled = dfsched.compile(ktir.parse(text), device, dfsched.Options(stop_after=name))
    number = max(n for n, result in enumerate(compiled.passes) if result.name == name)
    return ktir.print_module(compiled.passes[number - 1].module)


def changed(text: str, *changes: tuple[str, str]) -> ktir.Module:
    """The module with patterns replaced once, each of which must be there; it verifies."""
    for pattern, new in changes:
        text, count = re.subn(pattern, new, text, count=1)
        assert count == 1, f"{pattern} not in\n{text}"
    module = ktir.parse(text, file="foreign.mlir")
    ktir.verify(module)
    return module


def through(name: str, module: ktir.Module, device: str = "sample") -> ktir.Module:
    """The module behind a pass; it verifies."""
    context = PassContext(dfsched.load_architecture(device))
    new = run_pipeline(module, context, select_passes([name]))[-1].module
    ktir.verify(new)
    return new


def refused(name: str, module: ktir.Module, message: str, device: str = "sample") -> None:
    with pytest.raises(dfsched.DfschedError, match=message) as caught:
        through(name, module, device)
    for diagnostic in caught.value.diagnostics:  # type: ignore[attr-defined]
        assert str(diagnostic).startswith("foreign.mlir:"), diagnostic


def test_resources_that_are_yielded_twice() -> None:
    """Two results of a private for one buffer."""
    text = before("stage-coarsening", ADD, "sample")
    results = re.search(r"ktdf\.private_yield (%\w+), (%\w+)", text)
    assert results is not None
    private = re.search(r"ktdf\.private_yield (.*?) : (.*)", text)
    assert private is not None
    names, types = (
        private[1].split(", "),
        re.findall(r"memref<[^>]*>|!ktdf\.fifo\.slot<[^>]*>[^>]*>|!ktdf\.token", private[2]),
    )
    assert len(names) == len(types)
    same = [(i, j) for i in range(len(types)) for j in range(i) if types[i] == types[j] != "!ktdf.token"]
    assert same, types
    twice = [*names]
    twice[same[0][0]] = names[same[0][1]]
    module = changed(text, (re.escape(", ".join(names)), ", ".join(twice)))
    refused("stage-coarsening", module, "yields a resource twice, or one that is made elsewhere")


def test_loops_whose_trips_nobody_knows() -> None:
    """A plan for a nest with a step that is an argument of the program."""
    text = before("select-plan", ADD, "sample")
    for loop in (
        r"(to %\w+ step )%\w+( \{\s*ktdf\.pipeline)",
        r"(scf\.for %arg0 = %\w+ to %\w+ step )%\w+( \{)",
    ):
        planned = through("select-plan", changed(text, (loop, r"\1%y\2")))
        assert "tile_sizes" in ktir.print_module(planned)


def test_arguments_that_serve_more_than_symbols() -> None:
    """A program whose arguments also compute something else stays as it is; one level is enough for it."""
    text = before("wrap-program-dfir", ADD, "sample")
    other = r"(uniform\.query_map\(map:%\w+, key:)%\w+"
    number = re.search(r"(%\w+) = arith\.(?:divsi|addi) %x", text)
    assert number is not None, text
    last = next(m for m in re.finditer(other, text) if m.start() > number.end())
    module = ktir.parse(text[: last.start()] + f"{last[1]}{number[1]}" + text[last.end() :])
    ktir.verify(module)
    assert "_body" not in ktir.print_module(through("wrap-program-dfir", module))


def _without_places(op: Operation) -> Operation:
    """Only functions keep their places."""

    def bare(operations: Sequence[Operation]) -> list[Operation]:
        return [inner.replace(location=UNKNOWN) for inner in operations]

    return rewrite_blocks(op, bare)


def test_dataflow_without_places() -> None:
    """What is wrong with modules that were built, not read, is at the kernel."""
    compiled = dfsched.compile(ktir.parse(SUM), "sample", dfsched.Options(emit="dfir"))
    whole = ktir.print_module(compiled.passes[-1].module)
    module = changed(whole, (r'type = "mnilu"', 'type = "none"'))
    bare = {
        name: part.with_operations(tuple(_without_places(op) for op in part.operations))
        for name, part in split(module).items()
    }
    found = check_dataflow(bare, dfsched.load_architecture("sample"))
    assert found
    assert all(str(d).startswith("foreign.mlir:") for d in found)


def test_buffers_without_an_address() -> None:
    """A cast of nothing where a constant address belongs: its place is not known, and it cannot be lowered."""
    text = before("ktdf-to-ktdflowering", SUM, "sample")
    module = changed(text, (r"(builtin\.unrealized_conversion_cast) %\w+ : index( to)", r"\1\2"))
    lowered = through("ktdf-to-ktdflowering", module)
    refused("ktdflowering-to-dfir", lowered, "cannot lower 'builtin.unrealized_conversion_cast'")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            [(r"(%\w+ = arith\.addf %\w+, %\w+ : f16\s+linalg\.yield) %\w+", r"\1 %in")],
            "the lanes of this reduction cannot be folded",
        ),
        ([(r"ktdf\.vector = array<i64: 1, 64>", "ktdf.vector = array<i64: 7, 64>")], "is none of this"),
        ([(r"ktdf\.vector = array<i64: 1, 64>", "ktdf.vector = array<i64: 1, 0>")], "vectors without lanes"),
        (
            [(r"(\^bb0\(%out: f16\):\s+)[^\n]*\n(\s+linalg\.yield) %\w+", r"\1\2 %out")],
            "what its output held",
        ),
        ([(r'\{applicable_units = \["L1LU"\]\}', "")], "must name one unit"),
        (
            [
                (
                    r"(%\w+ = linalg\.generic .*) ins\(%\w+ : (tensor<[^>]*>)\)",
                    r'%any = "o.p"() : () -> \2\n\1 ins(%any : \2)',
                )
            ],
            "comes from no queue",
        ),
    ],
)
def test_slabs_that_cannot_be_walked(changes: list[tuple[str, str]], message: str) -> None:
    """Computations on slabs that no pass of ours makes."""
    text = before("reduction-loop-exposure", SUM, "sample")
    refused("reduction-loop-exposure", changed(text, *changes), message)


def test_blocks_that_branch() -> None:
    """Before any pass; all of them, whatever operation holds them."""
    blocks = '{\n^bb0:\n"o.a"()[^bb1] : () -> ()\n^bb1:\n"o.b"() : () -> ()\n}'
    text = ADD.replace("%c0 = ", f'"o.p"() ({blocks}) : () -> ()\n"o.q"() ({blocks}) : () -> ()\n%c0 = ', 1)
    module = ktir.parse(text, file="foreign.mlir")
    for name in dict.fromkeys(item.name for item in PASSES):
        with pytest.raises(dfsched.UnsupportedKernel) as caught:
            through(name, module)
        assert [str(d).split("error: ")[1] for d in caught.value.diagnostics] == [
            f"'{name}' holds several blocks, which is not supported" for name in ("o.p", "o.q")
        ]
    branch = ADD.replace("  return", '"cf.br"()[^bb1] : () -> ()\n^bb1:\nreturn')
    with pytest.raises(dfsched.UnsupportedKernel, match=r"'func\.func' holds several blocks"):
        dfsched.compile(ktir.parse(branch), "sample")


def test_types_without_a_width() -> None:
    """A question that a type has no answer to is an error at the kernel, not one of Python."""
    text = before("address-assignment", SUM, "sample")
    extra = '%tokens = memref.alloc() : memref<4x!ktdf.token, "L1">\n'
    module = changed(text, (r"(\n\s+%\w+ = memref\.alloc\(\))", rf"\n{extra}\1"))
    refused("address-assignment", module, "has no bit width")


def test_elements_that_the_memory_does_not_hold() -> None:
    """Access tiles do not say what lies in memory, so loads and stores are compared with the view, each."""
    text = ADD.replace(
        "%a = ktdp.load %xt : <8x256xindex> -> tensor<8x256xf16>",
        "%a = ktdp.load %xt : <8x256xindex> -> tensor<8x256xbf16>",
    )
    text = text.replace(
        "%r = arith.addf %a, %a : tensor<8x256xf16>", "%r = arith.addf %a, %a : tensor<8x256xbf16>"
    )
    text = text.replace("ktdp.store %r, %yt : tensor<8x256xf16>", "ktdp.store %r, %yt : tensor<8x256xbf16>")
    module = ktir.parse(text, file="foreign.mlir")
    ktir.verify(module)
    with pytest.raises(dfsched.UnsupportedKernel) as caught:
        dfsched.compile(module, "sample")
    assert [d.message for d in caught.value.diagnostics] == [
        "the tensor has elements of bf16, the memory view of f16"
    ] * 2  # fmt: skip


def test_verifiers_look_at_broken_operations_with_care() -> None:
    """A selection by a phase that lacks its number: the phase is what is wrong."""
    text = before("reduction-loop-exposure", kernel("%r = arith.addf %a, %a : TENSOR", rows=4096), "sample")
    phase = re.search(r"ktdf\.buffer_phase[^\n]*", text)
    assert phase is not None, text
    module = ktir.parse(text)

    def bare(operations: Sequence[Operation]) -> list[Operation]:
        return [
            op.replace(attributes={"num_phases": None}) if isinstance(op, BufferPhase) else op
            for op in operations
        ]

    with pytest.raises(ktir.VerifyError, match="num_phases"):
        ktir.verify(rewrite_blocks(module, bare))


@pytest.mark.parametrize("levels", [1, 2])
def test_bodies_that_take_something_else(levels: int) -> None:
    """Files of programs are verified alone, so what is passed between files is compared."""
    compiled = dfsched.compile(ktir.parse(SUM), "sample", dfsched.Options(emit="dfir"))
    number = (
        -1
        if levels == 2
        else next(n for n, r in enumerate(compiled.passes) if r.name == "wrap-program-dfir") - 1
    )
    files = split(compiled.passes[number].module)
    (name,) = set(files) - {"global.mlir"}
    text = ktir.print_module(files[name])
    assert check_dataflow(files, compiled.architecture) == ()
    more = re.sub(r"(func\.func @\w+\()", r"\1%more: f32, " if levels == 1 else r"\1%more: f32", text)
    changed_files = {**files, name: ktir.parse(more, file="foreign.mlir")}
    found = check_dataflow(changed_files, compiled.architecture)
    assert [str(d).startswith("foreign.mlir:") for d in found] == [True]
    assert "but is called with (" in found[0].message


def test_sizes_that_only_the_run_knows() -> None:
    """A transfer with a size from an argument, before each pass that looks at transfers: taken, or refused there."""
    options = dfsched.Options(emit="dfir", verify=False)
    compiled = dfsched.compile(ktir.parse(ADD), "sample", options)
    size = r"(ktdf\.data_transfer from %\S+\[[^\]]*\] size \[)\d+"
    errors: dict[str, dfsched.ScheduleError] = {}
    for earlier, result in pairwise(compiled.passes):
        text = ktir.print_module(earlier.module)
        if re.search(size, text) and result.name != "normalize-grid-to-1d":
            try:
                through(result.name, changed(text, (size, r"\1%y")))
            except dfsched.ScheduleError as error:
                errors[result.name] = error
    assert {"select-plan", "path-expansion", "ktdflowering-to-dfir"} <= set(errors)
    for error in errors.values():
        assert all(str(d).startswith("foreign.mlir:") for d in error.diagnostics)


@pytest.mark.parametrize(
    "element", ["i7", "i128", "vector<4xf16>", "!ktdf.token", "none", "memref<2xf16>", "tf32"]
)
def test_elements_that_no_memory_stores(element: str) -> None:
    """Elements without a form in memory are refused at both views."""
    text = re.sub(r"(memref|tensor)<8x256xf16>", rf"\1<8x256x{element}>", ADD)
    text = re.sub(
        r"arith\.addf %a, %a : tensor<[^>]*>+",
        f'"o.p"(%a) : (tensor<8x256x{element}>) -> tensor<8x256x{element}>',
        text,
    )
    module = ktir.parse(text, file="foreign.mlir")
    ktir.verify(module)
    with pytest.raises(dfsched.UnsupportedKernel) as caught:
        dfsched.compile(module, "sample")
    wrong = f"element type {element} has no storage format"
    assert [d.message for d in caught.value.diagnostics if d.message == wrong] == [wrong] * 2
    assert all(str(d).startswith("foreign.mlir:") for d in caught.value.diagnostics)
