"""Which kernels are exact on small whole numbers, and that `verify` does not blame others for rounding."""

from __future__ import annotations

import pytest

import ktir
import spyresim
from ktir.interface import find_function
from spyresim.testing.text import function, load, store, tile, view
from spyresim.whole_numbers import stays_whole

FULL, ROW = (3, 140), (3,)
F, R = "tensor<3x140xf16>", "tensor<3xf16>"


def total(name: str, of: str, kind: str = "addf") -> list[str]:
    """The sum (or another reduction) of each row."""
    return [
        f"%i{name} = arith.constant dense<0.0> : {R}",
        f"%{name} = linalg.reduce {{ arith.{kind} }} ins(%{of} : {F}) outs(%i{name} : {R}) dimensions = [1]",
    ]


def wide(name: str, of: str) -> list[str]:
    """One number a row in all columns."""
    return [
        f"%e{name} = tensor.empty() : {F}",
        f"%{name} = linalg.broadcast ins(%{of} : {R}) outs(%e{name} : {F}) dimensions = [1]",
    ]


def scaled(name: str, of: str, factor: float) -> list[str]:
    return [
        f"%f{name} = arith.constant dense<{factor:.12f}> : {R}",
        f"%{name} = arith.mulf %{of}, %f{name} : {R}",
    ]


def kernel(body: list[str]) -> ktir.Module:
    """%r (one number a row) of %x."""
    module = ktir.parse(
        function(
            "%a: index, %b: index",
            [
                "%c0 = arith.constant 0 : index",
                view("av", "a", FULL),
                view("bv", "b", ROW),
                tile("at", "av", "0, 0", FULL, FULL),
                tile("bt", "bv", "0", ROW, ROW),
                load("x", "at", FULL),
                *body,
                store("r", "bt", ROW),
            ],
            [1],
        )
    )
    ktir.verify(module)
    return module


CENTERED = ["%d = arith.subf %x, %w : " + F]
SQUARED = ["%q = arith.mulf %d, %d : " + F]
MEAN = [*total("s", "x"), *scaled("m", "s", 1 / 140), *wide("w", "m")]
EXACT = {
    "sum": total("r", "x"),
    "maximum": total("r", "x", "maximumf"),
    "sum of squares": ["%q = arith.mulf %x, %x : " + F, *total("r", "q")],
    "half of a sum": [*total("s", "x"), *scaled("r", "s", 0.5)],
    "sum of copies of sums": [*total("s", "x"), *wide("w", "s"), *total("r", "w", "maximumf")],
    "largest distance from the sum": [
        *total("s", "x"),
        *wide("w", "s"),
        *CENTERED,
        *total("r", "d", "maximumf"),
    ],
}
ROUNDED = {
    "variance": [*MEAN, *CENTERED, *SQUARED, *total("v", "q"), *scaled("r", "v", 1 / 140)],
    "mean": [*total("s", "x"), *scaled("r", "s", 1 / 140)],
    "distances from the sum": [*total("s", "x"), *wide("w", "s"), *CENTERED, *SQUARED, *total("r", "q")],
    "sum of distances": [*total("s", "x"), *wide("w", "s"), *CENTERED, *total("r", "d")],
    "product of sums": [*total("s", "x"), "%r = arith.mulf %s, %s : " + R],
}


@pytest.mark.parametrize("name", [*EXACT, *ROUNDED])
def test_form(name: str) -> None:
    """Sums of small whole numbers are exact; products of sums and factors like 1/140 are not."""
    module = kernel({**EXACT, **ROUNDED}[name])
    assert stays_whole(find_function(module)) == (name in EXACT)


@pytest.mark.parametrize("name", ["variance", "distances from the sum"])
def test_rounding_is_no_difference(name: str) -> None:
    """Kernels that are right are not blamed for the rounding that their reordered reductions have."""
    (found,) = spyresim.verify(kernel(ROUNDED[name]), "sample")
    assert found.ok, found.first
