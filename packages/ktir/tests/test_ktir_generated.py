"""Whatever can be built comes back from its text (KTIR spec 0.3): modules, attributes, changed programs."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import pytest
from generated_modules import CONTEXT, attributes, difference, modules, types
from hypothesis import given
from hypothesis import strategies as st
from test_ktir_text import DIALECT_PROGRAMS

import ktir
from ktir import Module, ParseError, Region, VerifyError, parse, print_module, verify
from ktir.attribute import Attribute
from ktir.attributes import DictAttr, TypeAttr
from ktir.lexer import tokenize
from ktir.types import Type

T = TypeVar("T")


def comes_back(module: Module) -> None:
    """Both forms, with and without locations and source names, read to an equal module and print the same."""
    custom, generic = print_module(module), print_module(module, generic=True)
    for text in (custom, generic):
        again = parse(text, CONTEXT)
        assert difference(module, again) is None, text
        assert print_module(again) == custom
        assert print_module(again, generic=True) == generic
    for is_generic in (False, True):
        located = print_module(module, is_generic, locations=True, names="source")
        again = parse(located, CONTEXT)
        # the custom form has no place for the location of a terminator that it leaves out
        assert difference(module, again, locations=is_generic) is None, located
        assert print_module(again, is_generic, locations=True, names="source") == located


@pytest.mark.sweep(default=14, full=1500)
@given(modules())
def test_modules_come_back(module: Module) -> None:
    """ktir checklist 99."""
    comes_back(module)


@pytest.mark.sweep(default=80, full=8000)
@given(attributes())
def test_attributes_come_back(attribute: Attribute) -> None:
    module = Module.create(attributes={"a": attribute}, regions=(Region.of(()),))
    text = print_module(module)
    assert parse(text, CONTEXT).attributes == DictAttr({"a": attribute}), text


@pytest.mark.sweep(default=60, full=4000)
@given(types())
def test_types_come_back(type: Type) -> None:
    module = Module.create(attributes={"a": TypeAttr(type)}, regions=(Region.of(()),))
    text = print_module(module)
    assert parse(text, CONTEXT).attributes == DictAttr({"a": TypeAttr(type)}), text


CORPUS = {
    **{
        path.stem: path.read_text()
        for path in sorted((Path(__file__).parents[1] / "examples").glob("*.mlir"))
    },
    **DIALECT_PROGRAMS,
}


@cache
def corpus(name: str) -> Module:
    return parse(CORPUS[name], CONTEXT)


def changed(data: st.DataObject, module: Module) -> Module:
    """One operation with another attribute, without one, or with another operand of the same type."""

    def pick(items: Sequence[T]) -> T:
        return items[data.draw(st.integers(0, len(items) - 1))]

    with ktir.edit(module) as editor:
        op = pick(list(editor.walk()))
        match data.draw(st.integers(0, 3)):
            case 0:
                names = [*op.attributes, *(d.name for d in op.op_class.definition.attributes), "x"]
                editor.set_attribute(op, pick(names), data.draw(attributes()))
            case 1 if op.operands:
                index = pick(range(len(op.operands)))
                type = op.operands[index].type
                editor.set_operand(
                    op, index, pick([v for o in editor.walk() for v in o.operands if v.type == type])
                )
            case 2 if op.attributes:
                editor.set_attribute(op, pick(list(op.attributes)), None)
            case _:
                editor.set_attribute(op, "note", data.draw(attributes()))
    frozen = editor.module
    assert isinstance(frozen, Module)
    return frozen


@pytest.mark.sweep(default=40, full=4000)
@given(st.data())
def test_changed_programs_come_back(data: st.DataObject) -> None:
    """Every construct of the corpus with something changed in the IR: what still verifies comes back.

    What does not verify prints, too (for a look at it), and its generic form is read or refused.
    """
    module = corpus(data.draw(st.sampled_from(sorted(CORPUS))))
    for _ in range(data.draw(st.integers(1, 3))):
        module = changed(data, module)
    try:
        verify(module)
    except VerifyError:
        print_module(module)
        with contextlib.suppress(ParseError):
            parse(print_module(module, generic=True), CONTEXT)
        return
    comes_back(module)


@pytest.mark.sweep(default=30, full=1500)
@given(st.data())
def test_layout_of_the_text_carries_no_meaning(data: st.DataObject) -> None:
    """Blanks, line breaks and comments between any two tokens, or nothing where two tokens stay two.

    ktir checklist 98-99.
    """
    name = data.draw(st.sampled_from(sorted(CORPUS)))
    generic = data.draw(st.booleans())
    module = corpus(name)
    tokens = [token.text for token in tokenize(print_module(module, generic))[:-1]]
    gaps = data.draw(
        st.sampled_from([["\n"], [" "], [""], [" // a } { comment\n"], ["", " ", "\t", "\n\n", "//\n"]])
    )
    text = tokens[0]
    rng = random.Random(data.draw(st.integers(0, 1 << 32)))
    for before, after in pairwise(tokens):
        gap = rng.choice(gaps)
        apart = gap or [t.text for t in tokenize(before + after)[:-1]] == [before, after]
        text += (gap if apart else " ") + after
    assert difference(module, parse(text, CONTEXT)) is None, text
