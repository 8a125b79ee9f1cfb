"""Folding of integer arithmetic against the definition, for all pairs of small numbers (KTIR spec 3.2)."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

import ktir
from ktir import transforms
from ktir.attributes import IntegerAttr
from ktir.types import IntegerType

WIDTH = 4
VALUES = range(-(1 << (WIDTH - 1)), 1 << (WIDTH - 1))
TYPE = IntegerType(WIDTH)


def bits(value: int) -> int:
    return value % (1 << WIDTH)


def wrapped(value: int) -> int:
    """The signed number with the low bits of a value."""
    low = bits(value)
    return low - (1 << WIDTH) if low >> (WIDTH - 1) else low


def quotient(rounding: Callable[[float], int], signed: bool) -> Callable[[int, int], int | None]:
    """None where it is undefined: by zero, or outside of the signed numbers."""

    def of(a: int, b: int) -> int | None:
        a, b = (a, b) if signed else (bits(a), bits(b))
        if b == 0:
            return None
        value = rounding(a / b)  # exact: the numbers have few bits
        return None if signed and value not in VALUES else value

    return of


def remainder(signed: bool) -> Callable[[int, int], int | None]:
    def of(a: int, b: int) -> int | None:
        whole = quotient(math.trunc, signed)(a, b)
        a, b = (a, b) if signed else (bits(a), bits(b))
        return None if whole is None else a - whole * b

    return of


def shift(of: Callable[[int, int], int]) -> Callable[[int, int], int | None]:
    return lambda a, b: of(a, bits(b)) if bits(b) < WIDTH else None


MEANING: dict[str, Callable[[int, int], int | None]] = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "divsi": quotient(math.trunc, True),
    "divui": quotient(math.floor, False),
    "ceildivsi": quotient(math.ceil, True),
    "ceildivui": quotient(math.ceil, False),
    "floordivsi": quotient(math.floor, True),
    "remsi": remainder(True),
    "remui": remainder(False),
    "andi": lambda a, b: bits(a) & bits(b),
    "ori": lambda a, b: bits(a) | bits(b),
    "xori": lambda a, b: bits(a) ^ bits(b),
    "shli": shift(lambda a, b: a << b),
    "shrui": shift(lambda a, b: bits(a) >> b),
    "shrsi": shift(lambda a, b: a >> b),
    "maxsi": max,
    "minsi": min,
    "maxui": lambda a, b: max(bits(a), bits(b)),
    "minui": lambda a, b: min(bits(a), bits(b)),
}


def operation(name: str) -> ktir.Operation:
    text = f"func.func @f(%a: i{WIDTH}, %b: i{WIDTH}) {{ %r = arith.{name} %a, %b : i{WIDTH} return }}"
    return next(op for op in ktir.parse(text).walk() if op.name == f"arith.{name}")


@pytest.mark.parametrize("name", MEANING)
def test_constants_fold_to_what_the_operation_means(name: str) -> None:
    """Modulo 2**width; nothing is folded where the result is undefined, such as the least number by -1."""
    op = operation(name)
    for a in VALUES:
        for b in VALUES:
            value = MEANING[name](a, b)
            expected = None if value is None else (IntegerAttr(wrapped(value), TYPE),)
            assert op.fold((IntegerAttr(a, TYPE), IntegerAttr(b, TYPE))) == expected, (a, b)


@pytest.mark.parametrize("name", MEANING)
def test_one_known_side_folds_only_where_all_values_agree(name: str) -> None:
    """A value or constant that one known operand gives is right for every value of the other one."""
    op = operation(name)
    for known in VALUES:
        for side in (0, 1):
            operands = [None, None]
            operands[side] = IntegerAttr(known, TYPE)  # type: ignore[call-overload]
            folded = op.fold(operands)
            if folded is None:
                continue
            (result,) = folded
            for other in VALUES:
                pair = (known, other) if side == 0 else (other, known)
                value = MEANING[name](*pair)
                if value is None:
                    continue  # undefined: any result will do
                given = result.value if isinstance(result, IntegerAttr) else pair[op.operands.index(result)]
                assert wrapped(value) == given, pair


def test_allocations_that_nobody_uses() -> None:
    """Nothing is left of one without users; one that is freed stays."""
    module = ktir.parse("""func.func @f() {
      %a = memref.alloc() : memref<4xf16>
      %b = memref.alloc() : memref<4xf16>
      memref.dealloc %b : memref<4xf16>
      return
    }""")
    text = ktir.print_module(transforms.canonicalize(module))
    assert text.count("memref.alloc()") == text.count("memref.dealloc") == 1
