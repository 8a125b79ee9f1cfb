"""Random factors: whatever the order of a product, no partial product leaves the range of the type."""

from __future__ import annotations

import numpy as np
import pytest

import ktir
from ktir.machine import F16Format
from ktir.types import BF16, F16, F32, FloatType
from spyresim.meaning.formats import Array
from spyresim.reassociation import longest_product
from spyresim.verification import random_array

HEAD = """
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
func.func @k(%x: tensor<3x37xf16>, %z: tensor<3xf16>) -> tensor<3xf16> {
"""
GENERIC = """
  %s = linalg.generic {{indexing_maps = [#id, #row], iterator_types = ["parallel", "{kind}"]}}
      ins(%x : tensor<3x37xf16>) outs(%z : tensor<3xf16>) {{
  ^bb0(%p: f16, %q: f16):
    {body}
    linalg.yield %r : f16
  }} -> tensor<3xf16>
  return %s : tensor<3xf16>
}}
"""
REDUCE = """
  %s = linalg.reduce {{ {name} }} ins(%x : tensor<3x37xf16>) outs(%z : tensor<3xf16>) dimensions = [1]
  return %s : tensor<3xf16>
}}
"""


@pytest.mark.parametrize(
    ("body", "longest"),
    [
        (GENERIC.format(kind="reduction", body="%r = arith.mulf %p, %q : f16"), 37),
        (GENERIC.format(kind="reduction", body="%r = arith.mulf %q, %p : f16"), 37),
        (
            GENERIC.format(
                kind="reduction", body="%t = arith.mulf %p, %p : f16\n    %r = arith.addf %t, %q : f16"
            ),
            1,
        ),
        (GENERIC.format(kind="reduction", body="%r = arith.addf %p, %q : f16"), 1),
        (REDUCE.format(name="arith.mulf"), 37),
        (REDUCE.format(name="arith.maximumf"), 1),
    ],
)
def test_products_are_found(body: str, longest: int) -> None:
    module = ktir.parse(HEAD + body)
    ktir.verify(module)
    assert longest_product(module) == longest


@pytest.mark.parametrize("type", [F16, BF16, F32])
@pytest.mark.parametrize("count", [2, 37, 1000])
def test_no_partial_product_overflows(type: FloatType, count: int) -> None:
    """The largest and the smallest partial product of any order are those of all large and all small factors."""
    drawn: Array = random_array(np.random.default_rng(count), type, (50, count), F16Format.IEEE, count)
    logarithms = np.log2(np.abs(drawn.astype(np.float64)))
    for part in (np.maximum(logarithms, 0), np.minimum(logarithms, 0)):
        assert np.abs(part.sum(axis=1)).max() <= 13
    assert (drawn < 0).any()
    assert len(np.unique(drawn)) > 4
