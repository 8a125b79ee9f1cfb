"""Constant tensors of different elements: computed by index, to the bit."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import dfsched
import ktir
from dfsched.passes import fuse_linalg, generalize_linalg
from dfsched.passes.base import PassContext
from dfsched.passes.constant_tables import MOST_CHANGES
from ktir.dialects import arith, linalg
from ktir.ir import Operation, Value

CONTEXT = PassContext(dfsched.load_architecture("sample"))
BITS = {"f16": 16, "bf16": 16, "f32": 32, "i8": 8, "i32": 32, "i1": 1}


def constant(bits: np.ndarray, type: str) -> str:
    def text(part: np.ndarray) -> str:
        if part.ndim:
            return f"[{', '.join(map(text, part))}]"
        return ("true" if part else "false") if type == "i1" else f"0x{int(part):0{BITS[type] // 4}X}"

    return f"dense<{text(bits)}> : tensor<{'x'.join(map(str, bits.shape))}x{type}>"


def computed(generic: Operation, place: tuple[int, ...]) -> int:
    """The bits that the body of a generic yields at one place."""
    values: dict[Value, int] = {}
    for op in generic.regions[0].block.operations:
        given = [values[value] for value in op.operands]
        match op:
            case linalg.Index():
                found = place[op.dim.value]
            case arith.Constant():
                found = op.value.bits if hasattr(op.value, "bits") else op.value.value
            case arith.AddI() | arith.SubI() | arith.MulI():
                a, b = given
                found = {"arith.addi": a + b, "arith.subi": a - b, "arith.muli": a * b}[op.name]
            case arith.CmpI():
                found = int(given[0] >= given[1])
            case arith.XOrI():
                found = (given[0] ^ given[1]) & 1
            case arith.Select():
                found = given[1] if given[0] else given[2]
            case arith.IndexCast():
                found = given[0]
            case linalg.Yield():
                return given[0]
            case _:
                raise AssertionError(op.name)
        values[op.results[0]] = found
    raise AssertionError("no yield")


def generalized(text: str) -> ktir.Module:
    new = generalize_linalg.run(ktir.parse(f"func.func @k() {{\n{text}\nreturn\n}}"), CONTEXT)
    ktir.verify(new)
    return new


@st.composite
def tables(draw: st.DrawFn) -> tuple[str, np.ndarray]:
    """A type and the bits of a tensor: any, the same along some dimensions, or in equal steps."""
    type = draw(st.sampled_from(sorted(BITS)))
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    top = (1 << BITS[type]) - 1
    if draw(st.booleans()):
        count = int(np.prod(shape))
        start, step = draw(st.integers(0, 5)), draw(st.integers(-3, 3))
        return type, ((start + step * np.arange(count)) & top).astype(np.uint64).reshape(shape)
    few = st.sampled_from([0, 1, top, 1 << (BITS[type] - 1), top // 3])
    varies = tuple(n if draw(st.booleans()) else 1 for n in shape)
    return type, np.broadcast_to(draw(arrays(np.uint64, varies, elements=few)), shape)


@pytest.mark.sweep(default=60, full=1000)
@given(table=tables())
def test_every_element_is_computed(table: tuple[str, np.ndarray]) -> None:
    type, bits = table
    module = generalized(
        f'%c = arith.constant {constant(bits, type)}\n"use"(%c) : (tensor<{"x".join(map(str, bits.shape))}x{type}>) -> ()'
    )
    found = [op for op in module.walk() if isinstance(op, linalg.Generic)]
    if (bits == bits.flat[0]).all():
        assert not found
        return
    (generic,) = found
    for place in np.ndindex(bits.shape):
        assert computed(generic, place) & ((1 << BITS[type]) - 1) == bits[place]
    changes = int((np.diff(bits.reshape(-1).astype(np.int64)) != 0).sum())
    assert sum(isinstance(op, arith.CmpI) for op in generic.walk()) <= changes


KERNEL = """
#s = affine_set<(i) : (i >= 0, -i + LAST >= 0)>
#id = affine_map<(i) -> (i)>
func.func @k(%x: index) attributes {grid = [1]} {
  %c = arith.constant TABLE
  %three = arith.constant 3 : index
  %v = ktdp.construct_memory_view %x, sizes: [COUNT], strides: [1] {coordinate_set = #s,
    memory_space = #ktdp.memory_space<global>} : memref<COUNTxTYPE>
  %t = ktdp.construct_access_tile %v[0] {access_tile_set = #s, access_tile_order = #id}
    : memref<COUNTxTYPE> -> !ktdp.access_tile<COUNTxindex>
  %a = ktdp.load %t : <COUNTxindex> -> tensor<COUNTxTYPE>
  BODY
  ktdp.store %y, %t : tensor<COUNTxTYPE>, <COUNTxindex>
  return
}
"""
BODIES: Mapping[str, str] = {
    "all": "%y = arith.addi %a, %c : tensor<COUNTxTYPE>",
    "one": "%n = tensor.extract %c[%three] : tensor<COUNTxTYPE>\n%b = tensor.splat %n : tensor<COUNTxTYPE>\n"
    "%y = arith.addi %a, %b : tensor<COUNTxTYPE>",
    "none": "%y = arith.addi %a, %a : tensor<COUNTxTYPE>",
}


def kernel(count: int, body: str) -> ktir.Module:
    numbers = constant((np.arange(count, dtype=np.uint64) ** 2) % 1000, "i32")
    text = KERNEL.replace("BODY", BODIES[body]).replace("TABLE", numbers)
    return ktir.parse(
        text.replace("COUNT", str(count)).replace("LAST", str(count - 1)).replace("TYPE", "i32")
    )


@pytest.mark.parametrize("body", BODIES)
def test_tables_that_are_too_long(body: str) -> None:
    """They are refused where they stand, unless nothing or only an element at a constant place is used."""
    dfsched.compile(kernel(MOST_CHANGES + 1, body), "sample")
    module = kernel(MOST_CHANGES + 2, body)
    if body != "all":
        dfsched.compile(module, "sample")
        return
    with pytest.raises(dfsched.UnsupportedKernel) as found:
        dfsched.compile(module, "sample")
    (diagnostic,) = found.value.diagnostics
    assert f"change at {MOST_CHANGES + 1} places, at most {MOST_CHANGES}" in diagnostic.message
    assert "pass it as an argument" in diagnostic.message
    assert diagnostic.location.line == 5


@pytest.mark.parametrize(
    "constant",
    [
        "dense<> : tensor<0xf16>",
        "dense<[[], []]> : tensor<2x0xf16>",
        "dense<[1, 2]> : tensor<2xi128>",
        "dense<[1, 2]> : tensor<2xindex>",
        "dense<[1, 2]> : vector<2xi32>",
        "dense<7> : tensor<2xi32>",
    ],
)
def test_what_is_no_table(constant: str) -> None:
    """No elements, elements wider than a word, elements of no lanes: left as they are."""
    assert not any(
        isinstance(op, linalg.Generic) for op in generalized(f"%c = arith.constant {constant}").walk()
    )


def test_one_element_is_a_constant() -> None:
    stopped = dfsched.Options(stop_after=fuse_linalg.PASS.name)
    module = dfsched.compile(kernel(MOST_CHANGES + 2, "one"), "sample", stopped).passes[-1].module
    assert "arith.constant 9 : i32" in ktir.print_module(module)
