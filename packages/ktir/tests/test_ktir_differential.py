"""What an independent reader of MLIR refuses, the verifier refuses, too: mutated programs against xDSL.

The converse does not hold: xDSL leaves rules of the operations out (dominance, extents, widths of casts).
"""

from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path

import pytest
from xdsl.context import Context as XdslContext
from xdsl.dialects import get_all_dialects
from xdsl.parser import Parser

import ktir

CONTEXT = ktir.Context(installed=False)
FOLDER = Path(__file__).parent / "programs"
ARITH = """
func.func @f(%x: i32, %y: f32, %i: index, %t: tensor<4xf16>) {
  %a = arith.addi %x, %x : i32
  %b = arith.mulf %y, %y : f32
  %c = arith.cmpi eq, %x, %x : i32
  %d = arith.select %c, %y, %b : f32
  %e = arith.extf %t : tensor<4xf16> to tensor<4xf32>
  %f = arith.truncf %y : f32 to f16
  %g = arith.index_cast %x : i32 to index
  %h = arith.sitofp %x : i32 to f32
  %k = arith.extsi %x : i32 to i64
  %l = arith.trunci %k : i64 to i32
  %m = arith.bitcast %x : i32 to f32
  %n = arith.cmpf olt, %y, %b : f32
  %o = math.exp %y : f32
  %p = math.fma %y, %y, %y : f32
  %r = arith.ceildivui %i, %i : index
  %s = arith.constant 3 : i64
  %u = arith.maximumf %t, %t : tensor<4xf16>
  return
}
"""
TYPES = ["i32", "f16", "index", "i1", "f32", "i64", "tensor<4xf16>", "tensor<4x8xf16>"]


@cache
def xdsl_context() -> XdslContext:
    context = XdslContext(allow_unregistered=True)
    for dialect, factory in get_all_dialects().items():
        context.register_dialect(dialect, factory)
    return context


def xdsl_refuses(text: str) -> str | None:
    """What xDSL's verifier says, None if it is content; `SyntaxError` where it cannot read the text."""
    try:
        module = Parser(xdsl_context(), text).parse_module()
    except Exception as error:
        raise SyntaxError from error
    try:
        module.verify()
    except Exception as error:  # noqa: BLE001 - of any kind: it refuses
        return str(error).strip().splitlines()[-1]
    return None


def generic(text: str) -> str:
    return ktir.print_module(ktir.parse(text, CONTEXT), generic=True)


def programs() -> list[str]:
    """Generic text that both accept."""
    unsigned = "scf.for unsigned %i = %k to %k step %k : i32 { }"  # unknown to xDSL
    names = ("scf", "linalg", "tensor", "memref", "cf")
    texts = [(FOLDER / f"dialect_{name}.mlir").read_text().replace(unsigned, "") for name in names]
    found = [generic(text) for text in (*texts, ARITH)]
    assert all(xdsl_refuses(text) is None for text in found)
    return found


def mutated(text: str, rng: random.Random) -> str:
    """One type, number or operand replaced, or one property dropped, in one line."""
    lines = text.splitlines()
    values = re.findall(r"%[\w#]+", text)
    while True:
        place = rng.randrange(len(lines))
        line = lines[place]
        pattern, replacements = rng.choice(
            [
                (r"\b(?:i32|f16|index|i1|f32|i64|tensor<[^>]*>)", TYPES),
                (r"\b\d+\b", ["0", "1", "2", "3", "5", "8"]),
                (r"%[\w#]+", values),
                (r"(?<=<\{)[^,]*, |, [^,]*(?=\}>)", [""]),
            ]
        )
        matches = list(re.finditer(pattern, line))
        if matches:
            match = rng.choice(matches)
            lines[place] = line[: match.start()] + rng.choice(replacements) + line[match.end() :]
            return "\n".join(lines)


@pytest.mark.sweep(default=150, full=5_000)
def test_what_xdsl_refuses_is_refused(cases: int) -> None:
    rng = random.Random(3)
    texts = programs()
    refused = 0
    for _ in range(cases):
        text = mutated(rng.choice(texts), rng)
        try:
            module = ktir.parse(text, CONTEXT)
        except ktir.ParseError:
            continue
        if ktir.check(module):
            refused += 1
            continue
        try:
            reason = xdsl_refuses(text)
        except SyntaxError:
            continue
        assert reason is None, f"xDSL: {reason}\n{text}"
    assert refused > cases // 15
