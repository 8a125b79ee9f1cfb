"""Mutated programs: only exceptions of ktir, no hang, and what still verifies prints to a fixed point."""

from __future__ import annotations

import contextlib
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import ktir
from ktir.lexer import tokenize

EXAMPLES = [path.read_text() for path in sorted((Path(__file__).parents[1] / "examples").glob("*.mlir"))]
OTHERS = [
    """
    #all = affine_set<(r, c) : (r >= 0, 95 - r >= 0, c >= 0, 255 - c >= 0)>
    #part = affine_set<(r, c) : (r >= 0, 2 - r >= 0, c >= 0, 255 - c >= 0)>
    #rows = affine_map<(r, c) -> (r, c)>
    module attributes {ktdp.f16_format = "ieee"} {
      func.func @f(%a: index {ktdp.name = "x"}, %n: !ktdp.runtime_arg<index, granularity=4, upperbound=64>) attributes {grid = [32]} {
        %c3 = arith.constant 3 : index
        %tile = ktdp.get_compute_tile_id : index
        %base = arith.muli %tile, %c3 : index
        %av = ktdp.construct_memory_view %a, sizes: [96, 256], strides: [256, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<96x256xf16>
        %at = ktdp.construct_access_tile %av[%base + 1, 0] {access_tile_order = #rows, access_tile_set = #part} : memref<96x256xf16> -> !ktdp.access_tile<3x256xindex>
        %x = ktdp.load %at : <3x256xindex> -> tensor<3x256xf16>
        %z = arith.addf %x, %x fastmath<contract> : tensor<3x256xf16>
        ktdp.store %z, %at : tensor<3x256xf16>, <3x256xindex>
        return
      }
    }
    """,
    """
    func.func @g(%n: index, %t: tensor<4x8xf16>, %c: i1) -> tensor<4x8xf16> {
      %c0 = arith.constant 0 : index
      %cst = arith.constant dense<[[1.0, 2.0], [3.0, 0x7C00]]> : tensor<2x2xf16>
      %r:2 = scf.for %i = %c0 to %n step %n iter_args(%x = %t, %k = %n) -> (tensor<4x8xf16>, index) {
        %s = scf.if %c -> tensor<4x8xf16> { scf.yield %x : tensor<4x8xf16> } else { scf.yield %t : tensor<4x8xf16> }
        scf.yield %s, %k : tensor<4x8xf16>, index
      }
      %e = tensor.empty() : tensor<4xf16>
      %q = linalg.reduce { arith.maximumf } ins(%r#0 : tensor<4x8xf16>) outs(%e : tensor<4xf16>) dimensions = [1]
      %o = tensor.empty() : tensor<4x8xf16>
      %g = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%q : tensor<4xf16>) outs(%o : tensor<4x8xf16>) {
      ^bb0(%in: f16, %out: f16):
        %y = math.exp %in : f16
        linalg.yield %y : f16
      } -> tensor<4x8xf16>
      return %g : tensor<4x8xf16>
    }
    """,
    """
    module @outer {
      func.func private @d(index, memref<?x8xf16, strided<[8, 1], offset: ?>, "L1">) -> (index, f16)
      func.func @cfg(%c: i1, %a: index) -> index {
        "test.op"(%a)[] <{p = 1 : i32}> ({
        ^bb0(%b: index):
          "x.y"(%b) {k = @outer::@d, l = loc("f":1:2)} : (index) -> ()
        }) {q = #other.attr<1, {}>} : (index) -> ()
        cf.cond_br %c, ^one(%a : index), ^two
      ^one(%x: index):
        cf.br ^two
      ^two:
        return %a : index
      }
    } loc(#loc)
    #loc = loc(fused["a", callsite("b" at "c":3:4)])
    """,
]
TEXTS = [
    *EXAMPLES,
    *OTHERS,
    *(ktir.print_module(ktir.parse(text), generic=True) for text in (*EXAMPLES, *OTHERS)),
]
TOKENS = [[token.text for token in tokenize(text)[:-1]] for text in TEXTS]
VOCABULARY = sorted({token for tokens in TOKENS for token in tokens})
SECONDS = 10.0
"""Far above what any case takes: a bound on hangs, not a measurement."""


def mutate_tokens(rng: random.Random) -> str:
    tokens = list(rng.choice(TOKENS))
    for _ in range(rng.randint(1, 3)):
        place = rng.randrange(len(tokens))
        match rng.randrange(4):
            case 0:
                del tokens[place]
            case 1:
                tokens[place] = rng.choice(VOCABULARY)
            case 2:
                tokens.insert(place, rng.choice(VOCABULARY))
            case _:
                other = rng.randrange(len(tokens))
                tokens[place], tokens[other] = tokens[other], tokens[place]
    return " ".join(tokens)


def mutate_bytes(rng: random.Random) -> str:
    text = rng.choice(TEXTS)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(text))
        match rng.randrange(3):
            case 0:
                text = text[:place] + text[place + 1 :]
            case 1:
                text = (
                    text[:place] + chr(rng.choice([rng.randrange(32, 127), 0, 10, 0xE4])) + text[place + 1 :]
                )
            case _:
                piece = text[place : place + rng.randrange(20)]
                text = text[:place] + piece + text[place:]
    return text


def survives(text: str) -> bool:
    """Read, verify and print; whether the text is a valid program."""
    try:
        module = ktir.parse(text)
        ktir.verify(module)
    except ktir.KtirError:
        return False
    printed = ktir.print_module(module)
    assert ktir.print_module(ktir.parse(printed)) == printed
    assert ktir.print_module(ktir.parse(ktir.print_module(module, generic=True))) == printed
    return True


@pytest.mark.sweep(default=400, full=20_000)
@pytest.mark.parametrize("mutate", [mutate_tokens, mutate_bytes])
def test_mutated_programs(mutate: Callable[[random.Random], str], cases: int) -> None:
    rng = random.Random(0)
    for number in range(cases // 2):
        text = mutate(rng)
        start = time.perf_counter()
        try:
            survives(text)
        except Exception as error:
            raise AssertionError(f"case {number} of {mutate}:\n{text}") from error
        assert time.perf_counter() - start < SECONDS, text


@pytest.mark.parametrize(
    "text",
    [
        "module {" * 500,
        "module attributes {a = " + "[" * 5000,
        "module attributes {a = " + "{a = " * 3000,
        "func.func @f() { " + "scf.if %c { " * 300,
        "func.func @f(%a: " + "tuple<" * 3000,
        '"a.b"() (' + "{" * 2000,
        "module attributes {a = affine_map<(i) -> (" + "(" * 3000 + "i",
        "module attributes {a = affine_map<(i) -> (i" + " + i" * 5000 + ")>} {}",
        "module attributes {a = 1" + "0" * 6000 + "} {}",
        "%x:99999999 = \"a\"() : () -> ()",
        "module attributes {a = dense<1> : tensor<99999999999x99999999xi8>} {}",
        "module attributes {a = dense<[" + "1, " * 20000 + "1]> : tensor<4xi8>} {}",
        "func.func @f(%a: i99999999999) { return }",
        "func.func @f(%a: tensor<" + "9x" * 3000 + "f16>) { return }",
        "\ufeffmodule {}",
        "module {} // \u2028",
        "",
        "\x00",
    ],
    ids=range(18),
)  # fmt: skip
def test_extreme_text(text: str) -> None:
    """Deep nesting and absurd sizes are refused before Python's stack or memory is in danger."""
    assert sys.getrecursionlimit() <= 3000
    start = time.perf_counter()
    with contextlib.suppress(ktir.KtirError):
        ktir.verify(ktir.parse(text))
    assert time.perf_counter() - start < SECONDS
