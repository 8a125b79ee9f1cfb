"""Random valid programs (`kernel_language`): print and read again, and run against a direct NumPy evaluation."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from kernel_language.numbers import DTYPES, same
from kernel_language.program import Program
from kernel_language.strategies import programs

import ktir
from spyresim import run_ktir

SEEN: Counter[str] = Counter()
SCHEDULES = ("lockstep", "sequential", "random")


@pytest.mark.sweep(default=20, full=2000)
@given(program=programs())
def test_text_and_numbers(program: Program) -> None:
    """ktir checklist 98, 99, 102.

    Printing is a fixed point in both forms, and the kernel leaves in its buffers what NumPy computes, bit by bit,
    however its tiles advance.
    """
    SEEN.update(set(program.features))
    module = ktir.parse(program.text())
    ktir.verify(module)
    custom, generic = (ktir.print_module(module, generic=generic) for generic in (False, True))
    for text in (custom, generic):
        again = ktir.parse(text)
        assert ktir.print_module(again) == custom
        assert ktir.print_module(again, generic=True) == generic
    arguments = program.arguments(1)
    expected = program.expected(arguments)
    for schedule in SCHEDULES:
        got = run_ktir(module, "kernel", arguments, strict=True, schedule=schedule).outputs
        for name, want in expected.items():
            assert same(got[name], want), f"{schedule}, {name}:\n{got[name]}\nNumPy:\n{want}"


def test_the_programs_have_what_they_should() -> None:
    """Counted over the programs of the test above."""
    if not SEEN:
        test_text_and_numbers()
    for feature in ("view", "gather", "loop", "branch", "team", "scratchpad"):
        assert SEEN[feature], SEEN


# -- what random programs have found


def kernel(body: str, element: str, grid: int = 1, rows: int = 1, columns: int = 4) -> ktir.Module:
    """`body` makes the row %r that each tile stores in column order: element [i, tile] of y."""
    return ktir.parse(f"""
#all = affine_set<(r, c) : (r >= 0, -r + {columns - 1} >= 0, c >= 0, -c + {grid - 1} >= 0)>
#one = affine_set<(r, c) : (r >= 0, -r + {columns - 1} >= 0, c == 0)>
#turn = affine_map<(r, c) -> (c, r)>
func.func @kernel(%y: index) attributes {{grid = [{grid}]}} {{
  %t = ktdp.get_compute_tile_id : index
  %v = ktdp.construct_memory_view %y, sizes: [{columns}, {grid}], strides: [{grid}, 1] {{coordinate_set = #all, memory_space = #ktdp.memory_space<global>}} : memref<{columns}x{grid}x{element}>
  {body}
  %a = ktdp.construct_access_tile %v[0, %t] {{access_tile_set = #one, access_tile_order = #turn}} : memref<{columns}x{grid}x{element}> -> !ktdp.access_tile<1x{columns}xindex>
  ktdp.store %r, %a : tensor<1x{columns}x{element}>, <1x{columns}xindex>
  return
}}""")


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("element", [e for e in DTYPES if e != "index"])
def test_neighbouring_elements_of_different_tiles_are_no_conflict(element: str, schedule: str) -> None:
    """Elements of every width, also those smaller than the grain of the race shadow, interleaved over tiles."""
    number = {"i1": "arith.trunci %i : i32 to i1", "i32": "arith.addi %i, %i : i32"}.get(
        element,
        f"arith.sitofp %i : i32 to {element}"
        if "f" in element
        else f"arith.{'extsi' if element == 'i64' else 'trunci'} %i : i32 to {element}",
    )
    body = f"""%i = arith.index_cast %t : index to i32
  %n = {number}
  %r = tensor.splat %n : tensor<1x4x{element}>"""
    module = kernel(body, element, grid=5)
    got = run_ktir(module, args={"y": np.zeros((4, 5), DTYPES[element])}, strict=True, schedule=schedule)
    row = np.arange(5) * (2 if element == "i32" else 1)
    want = np.array([n % 2 for n in row] if element == "i1" else row).astype(DTYPES[element])
    assert same(got.outputs["y"], np.stack([want] * 4))


@pytest.mark.parametrize("element", [e for e in DTYPES if e != "index"])
def test_dense_constants_of_rank_0(element: str) -> None:
    text = "true" if element == "i1" else "1.0" if "f" in element else "1"
    body = f"""%c = arith.constant dense<{text}> : tensor<{element}>
  %s = tensor.extract %c[] : tensor<{element}>
  %r = tensor.splat %s : tensor<1x4x{element}>"""
    got = run_ktir(kernel(body, element)).outputs["y"]
    assert same(got, np.ones((4, 1), DTYPES[element]))


@pytest.mark.parametrize(
    "text",
    [
        "%r = linalg.map {{ arith.addi }} ins(%x, %y2 : {t}, {t}) outs(%e : {t})",
        "%r = linalg.map ins(%x, %y2 : {t}, {t}) outs(%e : {t}) (%p: i32, %q: i32) {{ %s = arith.addi %p, %q : i32 linalg.yield %s : i32 }}",
        "%r = linalg.map outs(%e : {t}) () {{ %s = arith.constant 7 : i32 linalg.yield %s : i32 }}",
        "%r = linalg.map ins(%x : {t}) outs(%e : {t}) (%p: i32) {{ %j = linalg.index 1 : index %k = arith.index_cast %j : index to i32 %s = arith.muli %p, %k : i32 linalg.yield %s : i32 }}",
    ],
)
def test_linalg_map(text: str) -> None:
    """The body of a map has no argument for its output."""
    t = "tensor<1x4xi32>"
    body = f"""%x = arith.constant dense<[[1, 2, 3, 4]]> : {t}
  %y2 = arith.constant dense<[[6, 5, 4, 3]]> : {t}
  %e = tensor.empty() : {t}
  """ + text.format(t=t)
    want = [0, 2, 6, 12] if "index" in text else [7] * 4
    np.testing.assert_array_equal(run_ktir(kernel(body, "i32")).outputs["y"][:, 0], want)
