"""Reading generic text, against xDSL: each side parses and verifies what it knows.

    ./nox -s bench -- packages/ktir/benchmarks

One group per construct; `extra_info` of our benchmark holds xDSL's time over ours, measured in the same run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from ktir import Context, parse, print_module, verify

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


def best(run: Callable[[], object], rounds: int = 3) -> float:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


@pytest.mark.parametrize("construct", [chain, constants, loops, tensors], ids=lambda c: c.__name__)
def test_parse_and_verify(benchmark: Any, construct: Callable[[], str]) -> None:
    from xdsl.context import Context as XdslContext
    from xdsl.dialects import get_all_dialects
    from xdsl.parser import Parser

    text = print_module(parse(construct(), CONTEXT), generic=True)
    peer = XdslContext()
    for name, factory in get_all_dialects().items():
        peer.register_dialect(name, factory)

    def ours() -> None:
        verify(parse(text, CONTEXT))

    def theirs() -> None:
        Parser(peer, text).parse_module().verify()

    theirs_seconds = best(theirs)
    benchmark.pedantic(ours, rounds=5, warmup_rounds=1)
    benchmark.extra_info["xdsl_over_ours"] = round(theirs_seconds / benchmark.stats["min"], 2)
    benchmark.extra_info["bytes"] = len(text)
