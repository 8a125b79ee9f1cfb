"""Kernels that go wrong while they run: each ends with an exception of the package that names the operation."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import ktir
from spyresim import ExecutionFault, run_ktir
from spyresim.errors import ArgumentError, ArithmeticFault, BudgetFault, HostMemoryFault, OutOfRangeFault
from spyresim.testing import text as k

C = ("%c0 = arith.constant 0 : index", "%c1 = arith.constant 1 : index")
FOUR = "%x = arith.constant dense<1.0> : tensor<4xf32>"


def run(text: str, **args: Any) -> None:
    module = ktir.parse(text)
    ktir.verify(module)
    run_ktir(module, args=args, budget=20_000)


class TestEndless:
    @pytest.mark.parametrize(
        ("lines", "message"),
        [
            (["scf.for %i = %c0 to %n step %c1 {", "}"], "more than 20000 operations: a loop of 1000000000000 it"),
            (["%t = arith.constant true", "scf.while : () -> () {", "scf.condition(%t)", "} do {", "scf.yield", "}"],
             "more than 20000 operations"),
            (["%t = ktdp.get_compute_tile_id : index", "%m = arith.addi %n, %t : index",
              "scf.for %i = %c0 to %m step %c1 {", "}"], "more than 20000 operations"),
            (["scf.for %i = %c0 to %c1000 step %c1 {", "scf.for %j = %c0 to %c1000 step %c1 {", "}", "}"],
             "more than 20000 operations"),
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("schedule", ["lockstep", "sequential"])
    def test_loops_without_end(self, lines: list[str], message: str, schedule: str) -> None:
        """Also with an empty body, and at once where the number of iterations is known."""
        text = k.function("%n: index", [*C, "%c1000 = arith.constant 1000 : index", *lines], [2])
        module = ktir.parse(text)
        start = time.perf_counter()
        with pytest.raises(BudgetFault, match=message) as caught:
            run_ktir(module, args={"n": 10**12}, budget=20_000, schedule=schedule)
        assert caught.value.limit == 20_000
        assert caught.value.site.location is not None
        assert time.perf_counter() - start < 60

    def test_recursion(self) -> None:
        text = (
            "func.func private @f(%x: index) -> index {\n%y = func.call @f(%x) : (index) -> index\n"
            "return %y : index\n}\n"
        )
        with pytest.raises(BudgetFault, match="calls nested deeper than 64"):
            run(text + k.function("%n: index", ["%y = func.call @f(%n) : (index) -> index"]), n=1)


@pytest.mark.parametrize(
    ("lines", "values", "fault", "message"),
    [
        (["%x = tensor.empty(%n) : tensor<?xf32>"], {"n": -3}, ExecutionFault, r"a tensor of shape \(-3,\)"),
        (["%x = tensor.empty(%n) : tensor<?xf32>", "%y = arith.addf %x, %x : tensor<?xf32>"], {"n": 10**13},
         HostMemoryFault, "Unable to allocate"),
        ([FOUR, "%y = tensor.extract %x[%n] : tensor<4xf32>"], {"n": 4}, OutOfRangeFault,
         r"index 4 of dimension 0 is outside a tensor of shape \(4,\)"),
        ([FOUR, "%y = tensor.extract %x[%n] : tensor<4xf32>"], {"n": -1}, OutOfRangeFault, "index -1"),
        ([FOUR, "%y = tensor.dim %x, %n : tensor<4xf32>"], {"n": 1}, OutOfRangeFault,
         r"dimension 1 of a tensor of shape \(4,\)"),
        ([FOUR, "%s = tensor.from_elements %n : tensor<1xindex>",
          "%y = tensor.reshape %x(%s) : (tensor<4xf32>, tensor<1xindex>) -> tensor<?xf32>"], {"n": 5},
         ExecutionFault, r"a tensor of shape \(4,\) cannot have shape \(5,\)"),
        (["%x = tensor.empty(%n) : tensor<?xf32>", "%y = tensor.expand_shape %x [[0, 1]] output_shape [%n, 4] : "
          "tensor<?xf32> into tensor<?x4xf32>"], {"n": 5}, ExecutionFault,
         r"a tensor of shape \(5,\) cannot have shape \(5, 4\)"),
        ([FOUR, "%y = tensor.extract_slice %x[0] [%n] [1] : tensor<4xf32> to tensor<?xf32>"], {"n": -2},
         ExecutionFault, r"a tensor of shape \(-2,\)"),
        ([FOUR, "%y = tensor.extract_slice %x[2] [%n] [1] : tensor<4xf32> to tensor<?xf32>"], {"n": 3},
         OutOfRangeFault, r"slice \[2, 4\] of dimension 0 leaves a tensor of shape \(4,\)"),
        (["%x = tensor.empty(%n) : tensor<?xf32>", "%y = tensor.cast %x : tensor<?xf32> to tensor<4xf32>"],
         {"n": 5}, OutOfRangeFault, r"a tensor of shape \(5,\) is no tensor<4xf32>"),
        (["%x = tensor.empty(%n) : tensor<?xf32>", "%w = tensor.empty(%c1) : tensor<?xf32>",
          "%y = arith.addf %x, %w : tensor<?xf32>"], {"n": 5}, ExecutionFault,
         r"tensors of shapes \(5,\) and \(1,\)"),
        (["%x = arith.divsi %n, %c0 : index"], {"n": 5}, ArithmeticFault, "division by zero"),
        (["%x = arith.remui %n, %c0 : index"], {"n": 5}, ArithmeticFault, "division by zero"),
    ],
)  # fmt: skip
def test_operations_without_a_result(
    lines: list[str], values: dict[str, int], fault: type[ExecutionFault], message: str
) -> None:
    """What has no meaning at run time is a fault of the operation, not a result and no error of NumPy."""
    with pytest.raises(fault, match=message) as caught:
        run(k.function("%n: index", [*C, *lines]), **values)
    assert caught.value.site.location is not None
    assert str(caught.value).startswith("<string>:")


def test_view_of_a_negative_size() -> None:
    box = "affine_set<(d)[s] : (d >= 0, -d + s - 1 >= 0)>"
    view = (
        f"%v = ktdp.construct_memory_view %p, sizes: [%n], strides: [1] {{coordinate_set = {box}, "
        f"memory_space = {k.GLOBAL}}} : memref<?xf16>"
    )
    text = k.function("%p: index, %n: index", [view])
    with pytest.raises(ArgumentError, match=r"argument 'p' of 'kernel' cannot have shape \(-3,\)"):
        run(text, p=np.zeros(3, np.float16), n=-3)
