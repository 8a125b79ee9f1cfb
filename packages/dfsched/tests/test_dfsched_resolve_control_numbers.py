"""`resolve-control-numbers`: the numbers that reach uses are those that control flow handed on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dfsched
import ktir
from dfsched.passes import resolve_control_numbers
from dfsched.passes.base import PassContext
from dfsched.passes.ktir_legality_check import run as check_legality
from ktir.dialects import arith, func, scf
from ktir.ir import Block, Operation, Value

CONTEXT = PassContext(dfsched.load_architecture("sample"))

OPERATIONS: dict[type[Operation], Callable[..., int]] = {
    arith.AddI: lambda a, b: a + b,
    arith.SubI: lambda a, b: a - b,
    arith.MulI: lambda a, b: a * b,
    arith.DivUI: lambda a, b: a // b,
    arith.CeilDivUI: lambda a, b: -(-a // b),
    arith.MaxSI: max,
    arith.IndexCast: lambda a: a,
    arith.Select: lambda c, a, b: a if c else b,
    arith.CmpI: lambda a, b: a > b,
}


def used(module: ktir.Module, n: int) -> list[tuple[int, ...]]:
    """What the operations "use" of a kernel see, in order."""
    (function,) = (op for op in module.walk() if isinstance(op, func.Func))
    seen: list[tuple[int, ...]] = []
    values: dict[Value, int] = dict.fromkeys(function.arguments, n)

    def block(body: Block) -> list[int]:
        for op in body.operations:
            given = [values[value] for value in op.operands]
            match op:
                case scf.Yield():
                    return given
                case scf.For():
                    carried = given[3:]
                    for i in range(*given[:3]):
                        values.update(zip(op.body.block.arguments, [i, *carried], strict=True))
                        carried = block(op.body.block)
                    found = carried
                case scf.If():
                    found = block(op.regions[0 if given[0] else 1].block)
                case arith.Constant():
                    found = [op.value.value]
                case func.Return():
                    return []
                case _ if op.name == "use":
                    seen.append(tuple(given))
                    found = []
                case _:
                    found = [OPERATIONS[type(op)](*given)]
            values.update(zip(op.results, found, strict=True))
        return []

    block(function.body.block)
    return seen


def resolved(text: str) -> ktir.Module:
    new = resolve_control_numbers.run(ktir.parse(text), CONTEXT)
    ktir.verify(new)
    return new


def kernel(lines: Sequence[str], type: str = "index") -> str:
    constants = [f"%c{n} = arith.constant {n} : {type}" for n in range(-3, 8)]
    text = "\n".join([*constants, "%flag = arith.cmpi sgt, %n, %c2 : " + type, *lines])
    return f"func.func @k(%n: {type}) {{\n{text}\nreturn\n}}".replace("%c-", "%m")


class Names:
    """Fresh names, and the numbers that are in scope."""

    def __init__(self) -> None:
        self.count = 0

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Nests of loops that carry one or two numbers, and conditions that yield one, over index or i32."""
    type = draw(st.sampled_from(["index", "i32"]))
    names = Names()

    def number(scope: Sequence[str]) -> str:
        return draw(st.sampled_from([*scope, "%m3", "%c0", "%c1", "%c5", "%n"]))

    def sum_of(left: str, right: str, lines: list[str]) -> str:
        name = names.fresh()
        op = draw(st.sampled_from(["addi", "subi"]))
        pair = (right, left) if op == "addi" and draw(st.booleans()) else (left, right)
        lines.append(f"{name} = arith.{op} {pair[0]}, {pair[1]} : {type}")
        return name

    def body(scope: Sequence[str], depth: int) -> Iterator[str]:
        lines: list[str] = []
        scope = [*scope]
        for _ in range(draw(st.integers(1, 2))):
            if depth and draw(st.booleans()):
                lines += loop(scope, depth - 1)
            else:
                name = names.fresh()
                yes, no = number(scope), number(scope)
                lines += [
                    f"{name} = scf.if %flag -> ({type}) {{",
                    *(f"{name}y = arith.addi {yes}, %c1 : {type}", f"scf.yield {name}y : {type}"),
                    *("} else {", f"scf.yield {no} : {type}", "}"),
                    f'"use"({name}) : ({type}) -> ()',
                ]
                scope.append(name)
        yield from lines

    def loop(scope: list[str], depth: int) -> list[str]:
        fixed = [name for name in scope if draw(st.booleans())]
        variable, out, *carried = (names.fresh() for _ in range(draw(st.integers(3, 4))))
        types = ", ".join([type] * len(carried))
        inits = ", ".join(f"{name} = {number(scope)}" for name in carried)
        upper, step = (
            draw(st.sampled_from(["%n", "%c5", "%c7"])),
            draw(st.sampled_from(["%c1", "%c2", "%c3"])),
        )
        lower = draw(st.sampled_from(["%c0", "%c1", "%m2"]))
        lines = [
            f"{out}:{len(carried)} = scf.for {variable} = {lower} to {upper} step {step} "
            f"iter_args({inits}) -> ({types})" + (" : i32 {" if type == "i32" else " {"),
            f'"use"({", ".join(carried)}) : ({types}) -> ()',
            *body([*scope, variable, *carried], depth),
        ]
        ends = []
        for name in carried:
            for _ in range(draw(st.integers(0, 2))):
                name = sum_of(name, number(fixed), lines)
            ends.append(name)
        lines += [f"scf.yield {', '.join(ends)} : {types}", "}"]
        scope += [f"{out}#{k}" for k in range(len(carried))]
        lines.append(f'"use"({scope[-1]}) : ({type}) -> ()')
        return lines

    return kernel([*loop([], draw(st.integers(0, 2)))], type)


@pytest.mark.sweep(default=60, full=2000)
@given(text=programs(), n=st.integers(-2, 6))
def test_the_same_numbers_are_used(text: str, n: int) -> None:
    """Constant and computed amounts that loops of any bounds add or take away, nested; a second run is idle."""
    new = resolved(text)
    assert used(new, n) == used(ktir.parse(text), n)
    assert not any(result for op in new.walk() if isinstance(op, scf.For | scf.If) for result in op.results)
    assert resolve_control_numbers.run(new, CONTEXT) is new


KEPT = {
    "doubled": "%next = arith.addi %a, %a : index",
    "by the variable": "%next = arith.addi %a, %i : index",
    "the variable": "%next = arith.addi %i, %c1 : index",
    "taken from": "%next = arith.subi %c5, %a : index",
    "by what may trap": "%q = arith.divui %c5, %n : index\n%next = arith.addi %a, %q : index",
    "by what is read": '%q = "read"() : () -> index\n%next = arith.addi %a, %q : index',
}


@pytest.mark.parametrize("name", KEPT)
def test_what_does_not_grow_evenly_is_kept_and_refused(name: str) -> None:
    text = kernel(
        [
            "%r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %c2) -> (index) {",
            *('"use"(%a) : (index) -> ()', KEPT[name], "scf.yield %next : index", "}"),
        ]
    )
    new = resolved(text)
    (loop,) = (op for op in new.walk() if isinstance(op, scf.For))
    assert len(loop.inits) == 1
    with pytest.raises(
        dfsched.UnsupportedKernel, match="grow by the same amount in every iteration"
    ) as found:
        check_legality(new, CONTEXT)
    (diagnostic,) = found.value.diagnostics
    assert diagnostic.location == loop.location


def test_other_values_stay_with_the_loop() -> None:
    """A tensor beside a number: only the number goes. The published version's profile changes nothing."""
    text = kernel(
        [
            '%t = "make"() : () -> tensor<4xf16>',
            "%r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %c2, %x = %t) -> (index, tensor<4xf16>) {",
            "%b = arith.addi %a, %c3 : index",
            '%y = "next"(%a, %x) : (index, tensor<4xf16>) -> tensor<4xf16>',
            "scf.yield %b, %y : index, tensor<4xf16>",
            "}",
            '"use"(%r#0, %r#1) : (index, tensor<4xf16>) -> ()',
        ]
    )
    (loop,) = (op for op in resolved(text).walk() if isinstance(op, scf.For))
    assert [str(value.type) for value in loop.inits] == ["tensor<4xf16>"]
    v1 = PassContext(CONTEXT.architecture, dfsched.Options(profile="v1"))
    module = ktir.parse(text)
    assert resolve_control_numbers.run(module, v1) is module
