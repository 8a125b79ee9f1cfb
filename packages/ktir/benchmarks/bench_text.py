"""Reading generic text, against xDSL: each side parses and verifies what it knows.  Printing, and importing.

    ./nox -s bench -- packages/ktir/benchmarks

One group per construct; `extra_info` of our benchmark holds xDSL's time over ours, measured in the same run,
both in processor time.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktir import Context, Module, Region, parse, print_module, verify
from ktir.attributes import StringAttr

CONTEXT = Context(installed=False)
OPERATIONS = 2000


def chain() -> str:
    """Straight-line scalar arithmetic."""
    lines = [f"%v{i} = arith.addf %v{i - 1 if i else 'x'}, %x : f16" for i in range(OPERATIONS)]
    return "func.func @f(%vx: f16, %x: f16) {\n" + "\n".join(lines) + "\nreturn\n}"


def constants() -> str:
    """Constants of many values."""
    lines = [f"%v{i} = arith.constant {i} : index" for i in range(OPERATIONS)]
    return "func.func @f() {\n" + "\n".join(lines) + "\nreturn\n}"


def loops() -> str:
    """Many small loops with loop-carried values."""
    body = (
        "%r{i} = scf.for %i{i} = %a to %b step %c iter_args(%x{i} = %a) -> (index) {{\n"
        "%y{i} = arith.addi %x{i}, %i{i} : index\nscf.yield %y{i} : index\n}}"
    )
    lines = [body.format(i=i) for i in range(OPERATIONS // 3)]
    return "func.func @f(%a: index, %b: index, %c: index) {\n" + "\n".join(lines) + "\nreturn\n}"


def tensors() -> str:
    """Tensor arithmetic with many shapes."""
    lines = []
    for i in range(OPERATIONS // 2):
        shape = f"tensor<{i % 50 + 1}x64xf16>"
        lines += [f"%e{i} = tensor.empty() : {shape}", f"%v{i} = arith.addf %e{i}, %e{i} : {shape}"]
    return "func.func @f() {\n" + "\n".join(lines) + "\nreturn\n}"


def attributes() -> str:
    """Operations with large dictionaries, no two alike."""
    entry = '{{a = [{i}, {i} : i32, {i}.5], b = "text {i}", c = {{d = @f::@g{i}, e}}, f = tensor<{i}x8xf16>}}'
    lines = [f"%v{i} = arith.addi %a, %a {entry.format(i=i + 1)} : index" for i in range(OPERATIONS // 2)]
    return "func.func @f(%a: index) {\n" + "\n".join(lines) + "\nreturn\n}"


def bodies() -> str:
    """``linalg.generic`` with maps and a body of two operations."""
    generic = (
        "%v{i} = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, "
        'affine_map<(i, j) -> (j, i)>], iterator_types = ["parallel", "parallel"]}} '
        "ins(%a : tensor<8x8xf16>) outs(%a : tensor<8x8xf16>) {{\n"
        "^bb0(%x: f16, %y: f16):\n%z = arith.addf %x, %y : f16\nlinalg.yield %z : f16\n}} -> tensor<8x8xf16>"
    )
    lines = [generic.format(i=i) for i in range(OPERATIONS // 4)]
    return "func.func @f(%a: tensor<8x8xf16>) {\n" + "\n".join(lines) + "\nreturn\n}"


def kernels() -> str:
    """The fifteen example kernels, ten times each (xDSL keeps the operations of ktdp as unknown ones)."""
    texts = [path.read_text() for path in sorted((Path(__file__).parents[1] / "examples").glob("*.mlir"))]
    functions = []
    for copy in range(10):
        for text in texts:
            for op in parse(text, CONTEXT).operations:
                name = StringAttr(f"{op.attributes['sym_name'].value}_{copy}")  # type: ignore[attr-defined]
                functions.append(op.replace(attributes={"sym_name": name}))
    return print_module(Module.create(regions=(Region.of(functions),)))


CONSTRUCTS = [chain, constants, loops, tensors, attributes, bodies, kernels]


def best(run: Callable[[], object], rounds: int = 3) -> float:
    """Processor time of the fastest of some runs: other work on the machine plays no role."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


@pytest.mark.parametrize("construct", CONSTRUCTS, ids=lambda c: c.__name__)
def test_parse_and_verify(benchmark: Any, construct: Callable[[], str]) -> None:
    """Generic text; xDSL verifies what it knows of it."""
    from xdsl.context import Context as XdslContext
    from xdsl.dialects import get_all_dialects
    from xdsl.parser import Parser

    text = print_module(parse(construct(), CONTEXT), generic=True)
    peer = XdslContext(allow_unregistered=construct is kernels)
    for name, factory in get_all_dialects().items():
        peer.register_dialect(name, factory)

    def ours() -> None:
        verify(parse(text, CONTEXT))

    def theirs() -> None:
        Parser(peer, text).parse_module().verify()

    ours()
    theirs()
    theirs_seconds, ours_seconds = best(theirs), best(ours)
    benchmark.pedantic(ours, rounds=3)
    benchmark.extra_info["xdsl_over_ours"] = round(theirs_seconds / ours_seconds, 2)
    benchmark.extra_info["megabytes_per_second"] = round(len(text) / ours_seconds / 1e6, 2)
    benchmark.extra_info["bytes"] = len(text)


@pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])
@pytest.mark.parametrize("construct", CONSTRUCTS, ids=lambda c: c.__name__)
def test_print(benchmark: Any, construct: Callable[[], str], generic: bool) -> None:
    module = parse(construct(), CONTEXT)
    operations = len(list(module.walk()))
    benchmark.pedantic(lambda: print_module(module, generic), rounds=3, warmup_rounds=1)
    seconds = best(lambda: print_module(module, generic))
    benchmark.extra_info["seconds_per_10k_operations"] = round(seconds / operations * 1e4, 3)


@pytest.mark.parametrize("code", ["import ktir", "import ktir; ktir.parse", "import numpy"])
def test_import(benchmark: Any, code: str) -> None:
    """A fresh interpreter: the package, the package with its parser and dialects, and NumPy beside them.

    `extra_info` has the processor time of the import alone (compiled files are written by the first run).
    """
    script = f"import time; start = time.process_time(); {code}; print(time.process_time() - start)"

    def run() -> float:
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        return float(done.stdout)

    run()
    benchmark.extra_info["import_milliseconds"] = round(min(run() for _ in range(5)) * 1e3, 1)
    benchmark.pedantic(run, rounds=3)
