"""Mutated programs: only exceptions of ktir, no hang, and what still verifies prints to a fixed point."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

import ktir
from ktir.lexer import tokenize

EXAMPLES = [path.read_text() for path in sorted((Path(__file__).parents[1] / "examples").glob("*.mlir"))]
TEXTS = [*EXAMPLES, *(ktir.print_module(ktir.parse(text), generic=True) for text in EXAMPLES)]
TOKENS = [[token.text for token in tokenize(text)[:-1]] for text in TEXTS]
VOCABULARY = sorted({token for tokens in TOKENS for token in tokens})
SECONDS = 2.0


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
def test_mutated_programs(mutate: object, cases: int) -> None:
    assert callable(mutate)
    rng = random.Random(0)
    for number in range(cases // 2):
        text = mutate(rng)
        start = time.perf_counter()
        try:
            survives(text)
        except Exception as error:
            raise AssertionError(f"case {number} of {mutate.__name__}:\n{text}") from error
        assert time.perf_counter() - start < SECONDS, text
