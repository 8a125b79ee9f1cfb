"""`widen-control-integers`: text in, text out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dfsched
import ktir
from dfsched.passes import widen_control_integers
from dfsched.passes.base import PassContext
from ktir.attributes import IntegerAttr, wrap_integer
from ktir.dialects import arith, func, scf
from ktir.ir import Operation
from ktir.types import I1, INDEX, IntegerType

I32 = IntegerType(32)


def widened(text: str) -> func.Func:
    module = ktir.parse(text)
    new = widen_control_integers.run(module, PassContext(dfsched.load_architecture("sample")))
    ktir.verify(new)
    (found,) = (op for op in new.walk() if isinstance(op, func.Func))
    return found


def scalars(function: func.Func, kind: type[Operation]) -> list[Operation]:
    return [op for op in function.walk() if isinstance(op, kind)]


LOOP = """
func.func @k(%n: i32) {
  %id = ktdp.get_compute_tile_id : index
  %w = arith.index_cast %id : index to i32
  %c128 = arith.constant 128 : i32
  %first = arith.muli %w, %c128 : i32
  %c512 = arith.constant 512 : i32
  scf.for %i = %first to %n step %c512 : i32 {
    %left = arith.subi %n, %i : i32
    %some = arith.minsi %left, %c128 : i32
    %size = arith.index_cast %some : i32 to index
    %place = arith.index_cast %i : i32 to index
    "use"(%size, %place) : (index, index) -> ()
  }
  return
}
"""


def test_a_loop_in_i32_counts_in_index_values() -> None:
    """Bounds, arithmetic and subscripts; only the argument is cast."""
    function = widened(LOOP)
    (loop,) = scalars(function, scf.For)
    assert isinstance(loop, scf.For)
    assert {value.type for value in (loop.lower, loop.upper, loop.step, loop.induction_variable)} == {INDEX}
    for kind in (arith.MulI, arith.SubI, arith.MinSI, arith.Constant):
        assert {op.results[0].type for op in scalars(function, kind)} == {INDEX}
    (cast,) = scalars(function, arith.IndexCast)
    assert cast.operands[0] is function.arguments[0]


def test_a_number_that_is_also_data_keeps_its_type_there() -> None:
    function = widened("""
    func.func @k(%n: i32) {
      %c1 = arith.constant 1 : i32
      %m = arith.addi %n, %c1 : i32
      %i = arith.index_cast %m : i32 to index
      "use"(%i, %m) : (index, i32) -> ()
      return
    }
    """)
    assert {op.results[0].type for op in scalars(function, arith.AddI)} == {INDEX, I32}
    (use,) = (op for op in function.walk() if op.name == "use")
    assert [value.type for value in use.operands] == [INDEX, I32]


def test_truth_values_of_the_launch_are_compared() -> None:
    function = widened("""
    func.func @k(%flag: i1) {
      %w = arith.extui %flag : i1 to i32
      %i = arith.index_cast %w : i32 to index
      scf.if %flag { "use"(%i) : (index) -> () }
      return
    }
    """)
    (compare,) = scalars(function, arith.CmpI)
    (branch,) = scalars(function, scf.If)
    (select,) = scalars(function, arith.Select)
    assert branch.operands[0] is compare.results[0]
    assert select.operands[0] is compare.results[0]
    assert select.results[0].type == INDEX
    assert compare.results[0].type == I1


UNCHANGED = {
    "index values": 'func.func @k(%n: index) {\n%m = arith.addi %n, %n : index\n"use"(%m) : (index) -> ()\nreturn\n}',
    "narrow ones": 'func.func @k(%n: i8) {\n%m = arith.index_cast %n : i8 to index\n"use"(%m) : (index) -> ()\nreturn\n}',
    "data": 'func.func @k(%n: i32) {\n%m = tensor.splat %n : tensor<4xi32>\n"use"(%m) : (tensor<4xi32>) -> ()\nreturn\n}',
}


@pytest.mark.parametrize("name", UNCHANGED)
def test_what_stays(name: str) -> None:
    module = ktir.parse(UNCHANGED[name])
    context = PassContext(dfsched.load_architecture("sample"))
    assert widen_control_integers.run(module, context) is module


def test_a_second_run_changes_nothing() -> None:
    context = PassContext(dfsched.load_architecture("sample"))
    once = widen_control_integers.run(ktir.parse(LOOP), context)
    twice = widen_control_integers.run(once, context)
    assert ktir.print_module(twice) == ktir.print_module(once)
    v1 = PassContext(dfsched.load_architecture("sample"), dfsched.Options(profile="v1"))
    module = ktir.parse(LOOP)
    assert widen_control_integers.run(module, v1) is module


BINARY = [
    *("divui", "ceildivui", "remui", "minui", "maxui", "divsi", "ceildivsi", "floordivsi", "remsi", "minsi"),
    *("maxsi", "andi", "ori", "xori", "shrsi", "shrui"),
]
CASTS = {"i8": ["extsi", "extui"], "i16": ["extsi", "extui"], "i32": ["trunci"], "i64": ["trunci"]}


@st.composite
def chains(draw: st.DrawFn) -> str:
    """Operations on a number that the launch passes that never leave its type; each result is used."""
    type = start = draw(st.sampled_from(["i8", "i16", "i32", "i64"]))
    lines, last = [], "%n"
    for number in range(draw(st.integers(1, 4))):
        new = f"%v{number}"
        if type in ("i8", "i16"):
            bits = draw(st.sampled_from(["i32", "i64"]))
            lines.append(f"{new} = arith.{draw(st.sampled_from(CASTS[type]))} {last} : {type} to {bits}")
        elif type == "i32" and draw(st.integers(0, 4)) == 0:
            bits = "i64"
            lines.append(f"{new} = arith.{draw(st.sampled_from(['extsi', 'extui']))} {last} : i32 to i64")
        elif draw(st.integers(0, 4)) == 0:
            bits = draw(st.sampled_from(["i8", "i16"] + (["i32"] if type == "i64" else [])))
            lines.append(f"{new} = arith.trunci {last} : {type} to {bits}")
        else:
            bits, kind = type, draw(st.sampled_from(BINARY))
            amount = draw(st.integers(0, 31) if kind.startswith("sh") else st.integers(1, 300))
            lines.append(f"%k{number} = arith.constant {amount} : {type}")
            lines.append(f"{new} = arith.{kind} {last}, %k{number} : {type}")
        last, type = new, bits
        cast = draw(st.sampled_from(["index_cast", "index_castui"]))
        lines += [
            f"%i{number} = arith.{cast} {last} : {type} to index",
            f'"use"(%i{number}) : (index) -> ()',
        ]
    return "\n".join([f"func.func @k(%n: {start}) {{", *lines, "return", "}"])


def used(function: func.Func, n: int) -> list[int]:
    """What the function uses, by folding one operation after the other."""
    (argument,) = function.arguments
    values = {argument: IntegerAttr(n, argument.type)}
    seen = []
    for op in function.body.block.operations:
        if op.name == "use":
            seen.append(values[op.operands[0]].value)
        elif op.results:
            (found,) = op.fold([values[operand] for operand in op.operands])
            found = found if isinstance(found, IntegerAttr) else values[found]
            values[op.results[0]] = IntegerAttr(
                wrap_integer(found.value, op.results[0].type), op.results[0].type
            )
    return seen


@pytest.mark.sweep(default=80, full=5000)
@given(text=chains(), n=st.one_of(st.integers(-300, 300), st.integers(-(2**63), 2**63 - 1)))
def test_signs_and_bits(text: str, n: int) -> None:
    """Unsigned operations, shifts, extensions and truncations of negative numbers mean what they meant."""
    before = ktir.parse(text)
    (function,) = (op for op in before.walk() if isinstance(op, func.Func))
    n = wrap_integer(n, function.arguments[0].type)
    assert used(widened(text), n) == used(function, n)


def test_shifts_of_indices() -> None:
    """Shifts by constants are products and quotients, of index values as well; others stay."""
    found = widened("""
func.func @k(%i: index, %n: index) {
  %c3 = arith.constant 3 : index
  %a = arith.shli %i, %c3 : index
  %b = arith.shrsi %a, %c3 : index
  %c = arith.shrui %b, %n : index
  "use"(%c) : (index) -> ()
  return
}
""")
    assert len(scalars(found, arith.MulI)) == len(scalars(found, arith.FloorDivSI)) == 1
    assert len(scalars(found, arith.ShRUI)) == 1
    assert not scalars(found, arith.ShLI)
    assert not scalars(found, arith.ShRSI)


def test_natural_numbers_keep_their_form() -> None:
    """Numbers that are certainly not negative need no mask."""
    found = widened("""
func.func @k(%n: i32) {
  %id = ktdp.get_compute_tile_id : index
  %w = arith.index_cast %id : index to i32
  %c7 = arith.constant 7 : i32
  %a = arith.muli %w, %c7 : i32
  %b = arith.remui %a, %c7 : i32
  %c = arith.index_castui %b : i32 to index
  "use"(%c) : (index) -> ()
  %n0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.for %i = %n0 to %n step %c1 : i32 {
    %d = arith.divui %i, %c7 : i32
    %e = arith.index_castui %d : i32 to index
    "use"(%e) : (index) -> ()
  }
  scf.for %i = %id to %c step %c {
    %f = arith.index_castui %i : index to i32
    %g = arith.extui %f : i32 to i64
    %h = arith.index_castui %g : i64 to index
    "use"(%h) : (index) -> ()
  }
  return
}
""")
    assert not scalars(found, arith.AndI)
