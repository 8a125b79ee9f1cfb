"""Damaged text: the parser, the verifier and the printer raise nothing but ktir's own exceptions.

The sources are the programs of `test_ktir_text`; damage is done to bytes and to tokens.
"""

from __future__ import annotations

import contextlib
import random
import re
import sys
import time

import pytest

from ktir import Context, KtirError, parse, print_module, verify

CONTEXT = Context(installed=False)
TOKEN = re.compile(r'"[^"\n]*"|[%#!@^]?[A-Za-z0-9_$.]+|->|[^\sA-Za-z0-9]')

SOURCES = [
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


def damaged_tokens(rng: random.Random, text: str) -> str:
    """A few tokens deleted, doubled, swapped or replaced by others of the same text."""
    tokens = TOKEN.findall(text)
    for _ in range(rng.randint(1, 4)):
        i, j = rng.randrange(len(tokens)), rng.randrange(len(tokens))
        match rng.randrange(4):
            case 0:
                tokens[i] = ""
            case 1:
                tokens[i] = f"{tokens[i]} {tokens[i]}"
            case 2:
                tokens[i], tokens[j] = tokens[j], tokens[i]
            case _:
                tokens[i] = rng.choice(
                    [tokens[j], "-1", "18446744073709551616", "{", ">", "?", "%x#9", "0x", '"']
                )
    return " ".join(tokens)


def damaged_bytes(rng: random.Random, text: str) -> str:
    """A few characters replaced, inserted or dropped."""
    characters = list(text)
    for _ in range(rng.randint(1, 6)):
        i = rng.randrange(len(characters))
        characters[i] = rng.choice(["", chr(rng.randrange(1, 256)), characters[i] * 2, "\n", "\0", "\u20ac"])
    return "".join(characters)


def survive(text: str) -> bool:
    """Whether the text is accepted; anything but `KtirError` propagates."""
    try:
        module = parse(text, CONTEXT, "damaged.mlir")
        verify(module)
    except KtirError:
        return False
    printed = print_module(module)
    generic = print_module(module, generic=True)
    assert print_module(parse(printed, CONTEXT)) == printed
    assert print_module(parse(generic, CONTEXT)) == printed
    return True


@pytest.mark.sweep(default=400, full=20000)
@pytest.mark.parametrize("damage", [damaged_tokens, damaged_bytes])
def test_damaged_text(damage: object, cases: int) -> None:
    """Only our exceptions, no hang, and what is accepted survives printing."""
    accepted = 0
    for seed in range(cases):
        rng = random.Random(seed)
        text = damage(rng, rng.choice(SOURCES))  # type: ignore[operator]
        start = time.perf_counter()
        try:
            accepted += survive(text)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}\n{text}") from error
        assert time.perf_counter() - start < 20, f"seed {seed} took too long"
    assert 0 < accepted < cases


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
    with contextlib.suppress(KtirError):
        verify(parse(text, CONTEXT))
    assert time.perf_counter() - start < 5
