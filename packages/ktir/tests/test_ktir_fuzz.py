"""Mutated programs: only exceptions of ktir, no hang, and what still verifies prints to a fixed point."""

from __future__ import annotations

import contextlib
import random
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest

import ktir
from ktir.dialects.func import Func
from ktir.drawing import dot
from ktir.lexer import tokenize
from ktir.statistics import statistics
from ktir.transforms import canonicalize, cse, licm, structural_hash

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
SECONDS = 2.0
"""Processor time that one case may take (a case takes about ten milliseconds)."""
MEGABYTES = 400
"""How much the process may grow over all cases."""
NUMBERS = [
    "0",
    "-1",
    "1",
    "2",
    "7",
    "0x10",
    "2147483648",
    "9223372036854775807",
    "-9223372036854775809",
    "1" * 40,
]


def mutate_tokens(rng: random.Random) -> str:
    """Tokens deleted, replaced, inserted, swapped, repeated; numbers made extreme."""
    tokens = list(rng.choice(TOKENS))
    for _ in range(rng.randint(1, 3)):
        place = rng.randrange(len(tokens))
        match rng.randrange(6):
            case 0:
                del tokens[place]
            case 1:
                tokens[place] = rng.choice(VOCABULARY)
            case 2:
                tokens.insert(place, rng.choice(VOCABULARY))
            case 3:
                other = rng.randrange(len(tokens))
                tokens[place], tokens[other] = tokens[other], tokens[place]
            case 4:
                numbers = [n for n, token in enumerate(tokens) if token[0].isdigit()]
                if numbers:
                    tokens[rng.choice(numbers)] = rng.choice(NUMBERS)
            case _:
                tokens[place:place] = tokens[place : place + rng.randrange(40)]
    return rng.choice([" ", "\n"]).join(tokens)


def mutate_bytes(rng: random.Random) -> str:
    """Bytes deleted, replaced, copied, bits flipped; what is no UTF-8 becomes lone surrogates."""
    text = bytearray(rng.choice(TEXTS).encode())
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(text))
        match rng.randrange(4):
            case 0:
                del text[place]
            case 1:
                text[place] = rng.choice([rng.randrange(32, 127), 0, 10, 0xC3, 0xE4])
            case 2:
                text[place] ^= 1 << rng.randrange(8)
            case _:
                text[place:place] = text[place : place + rng.randrange(20)]
    return text.decode("utf-8", "surrogateescape")


class Hang(Exception):
    """A case has taken too long."""


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raises `Hang` after so many seconds of processor time (the load of the machine plays no role)."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Hang(f"over {seconds} s")

    previous = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


def survives(text: str) -> bool:
    """Read, verify and print; whether the text is a valid program."""
    try:
        module = ktir.parse(text)
        ktir.verify(module)
    except ktir.KtirError as error:
        str(error)
        return False
    printed = ktir.print_module(module)
    again = ktir.parse(printed)
    assert structural_hash(again) == structural_hash(module)
    assert ktir.print_module(again) == printed
    assert ktir.print_module(ktir.parse(ktir.print_module(module, generic=True))) == printed
    return True


def examined(text: str) -> None:
    """Everything else that ktir does with a valid program: only its own exceptions."""
    module = ktir.parse(text)
    ktir.check(module, "LSD")  # what a level cannot decide it leaves out; it raises nothing
    for look in (statistics, dot, canonicalize, cse, licm):
        with contextlib.suppress(ktir.KtirError):
            look(module)
    for function in module.walk():
        if isinstance(function, Func):
            with contextlib.suppress(ktir.KtirError):
                ktir.signature(module, function)
            with contextlib.suppress(ktir.KtirError):
                ktir.constant_buffers(module, function)


@pytest.mark.sweep(default=400, full=20_000)
@pytest.mark.parametrize("mutate", [mutate_tokens, mutate_bytes])
def test_mutated_programs(mutate: Callable[[random.Random], str], cases: int) -> None:
    """Only exceptions of ktir, no hang, no blow-up of memory; valid programs come back from their text."""
    rng = random.Random(0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    valid = 0
    for number in range(cases // 2):
        text = mutate(rng)
        try:
            with limited(SECONDS):
                good = survives(text)
            if good:
                valid += 1
                with limited(SECONDS):
                    examined(text)
        except Exception as error:
            raise AssertionError(f"case {number} of {mutate}:\n{text}") from error
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
        assert grown < MEGABYTES, text
    assert valid > cases // 100  # mutations that leave nothing valid would test only the parser


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
    with contextlib.suppress(ktir.KtirError), limited(SECONDS):
        ktir.verify(ktir.parse(text))
