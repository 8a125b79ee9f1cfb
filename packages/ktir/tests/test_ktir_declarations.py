"""Mistakes in declarations of operations and dialects are errors where they are made, not when a kernel is read."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest
from click.testing import CliRunner

import ktir
from ktir.attributes import IntegerAttr
from ktir.cli import main
from ktir.context import Dialect
from ktir.errors import DeclarationError, KtirError
from ktir.ir import Operation
from ktir.opdef import attribute, operand, operation, region, result, variadic_operand


def declare(name: str = "my.op", assembly: str | None = None) -> type[Operation]:
    @operation(name, assembly=assembly)
    class Op(Operation):
        x = operand()
        more = variadic_operand()
        n = attribute(IntegerAttr)
        body = region()
        y = result()

    return Op


GOOD = "$x (`with` $more^)? $n $body attr-dict `:` functional-type(operands, results)"


def test_a_right_declaration() -> None:
    context = ktir.Context()
    context.register(Dialect("my", (declare(assembly=GOOD),)))
    context.register(Dialect("other", (declare("other.op"), declare("other.op.deep"))))
    ktir.parse('%a = "my.op"(%a) ({}) {n = 3} : (index) -> index', context)


@pytest.mark.parametrize("name", ["", "op", "my.", ".op", "my op", "my.o p", "3.op", "my..op", "my.op "])
def test_names(name: str) -> None:
    with pytest.raises(DeclarationError, match=r"an operation is named 'dialect\.operation'"):
        declare(name)


@pytest.mark.parametrize(
    ("assembly", "message"),
    [
        (
            GOOD.replace("$x", "$z"),
            r"names \$z, but there is no such operand, attribute or region; known: x, more, n",
        ),
        (GOOD.replace("$n", "$y"), r"names \$y, but there is no such operand, attribute or region"),
        (
            GOOD.replace("functional-type(operands, results)", "type($z)"),
            r"names \$z, .* operand or result; known: x",
        ),
        (
            GOOD.replace("functional-type(operands, results)", "type($n)"),
            r"names \$n, but there is no such operand or",
        ),
        (GOOD.replace("functional-type(operands, results)", "type($body)"), r"names \$body, but there"),
        (GOOD.replace("$x ", ""), r"leaves out \$x"),
        (GOOD.replace("(`with` $more^)? ", ""), r"leaves out \$more"),
        (GOOD.replace("$body", ""), r"leaves out \$body"),
        (GOOD.replace("attr-dict", ""), "has no attr-dict"),
    ],
)
def test_fields_of_assembly_formats(assembly: str, message: str) -> None:
    """Told by the decorator."""
    with pytest.raises(DeclarationError, match=message) as caught:
        declare(assembly=assembly)
    assert caught.value.subject == "my.op"
    assert isinstance(caught.value, KtirError)


@pytest.mark.parametrize(
    ("assembly", "message"),
    [
        (GOOD.replace("`:`", "`:"), "malformed assembly format"),
        (GOOD.replace("`:`", "#"), "malformed assembly format"),
        (GOOD.replace("$n", "$n)"), "a parenthesis that nothing opens in assembly format"),
        (GOOD.replace(")?", ")"), r"expected '\?' in assembly format"),
        (GOOD.replace("$more^)?", "$more^"), r"expected '\)' in assembly format"),
        (GOOD.replace("$more^", "$more"), "optional group without anchor"),
        (GOOD.replace("$n", "$n^"), r"an anchor on \$n outside a group"),
        (GOOD.replace("functional-type", "types"), "unknown directive 'types'"),
        (GOOD.replace("(operands, results)", "(operands"), "ends within parentheses"),
        (GOOD.replace("(operands, results)", ""), r"expected '\(' in assembly format"),
        (GOOD.replace("functional-type(operands, results)", "type("), "ends within parentheses"),
        (GOOD.replace("$n", "? $n"), r"unexpected '\?' in assembly format"),
    ],
)
def test_grammar_of_assembly_formats(assembly: str, message: str) -> None:
    """Told when the dialect is registered."""
    op = declare(assembly=assembly)
    with pytest.raises(DeclarationError, match=message):
        ktir.Context().register(Dialect("my", (op,)))


class Plain(Operation):
    """Not declared."""


@pytest.mark.parametrize(
    ("dialect", "message"),
    [
        (
            lambda: Dialect("your", (declare(),)),
            "my.op: an operation of dialect 'your' has its name in front",
        ),
        (lambda: Dialect("my", (Plain,)), "my: class Plain is not declared with @operation"),
        (lambda: Dialect("my", (declare(), declare())), "my.op: two classes of the dialect have this name"),
        (lambda: Dialect("my.own", ()), "'my.own': a dialect is named by one word"),
        (lambda: Dialect("", ()), "'': a dialect is named by one word"),
        (lambda: Dialect("arith", (declare("arith.op"),)), "dialect 'arith' is registered twice"),
    ],
)
def test_dialects(dialect: Callable[[], Dialect], message: str) -> None:
    context = ktir.Context()
    with pytest.raises(KtirError, match=message):
        context.register(dialect())
    assert context.operation("my.op") is None


@attrs.frozen
class Entry:
    """An entry point of an installed package."""

    function: Callable[[ktir.Context], None] | None
    name: str = "mine"
    value: str = "mine:register"

    def load(self) -> Callable[[ktir.Context], None]:
        if self.function is None:
            raise ModuleNotFoundError("No module named 'mine'")
        return self.function


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (Entry(None), "cannot be loaded: ModuleNotFoundError(\"No module named 'mine'\")"),
        (
            Entry(lambda context: context.register(Dialect("my", (Plain,)))),
            "cannot be loaded: my: class Plain is not",
        ),
        (Entry(lambda context: context.nothing()), "cannot be loaded: AttributeError("),  # type: ignore[attr-defined]
    ],
)
@pytest.mark.parametrize("command", ["check", "fmt", "stats", "graph"])
def test_installed_packages(
    entry: Entry, message: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package that is broken is named, on every command line, instead of a traceback through it."""
    monkeypatch.setattr("ktir.context._installed_entries", lambda: (entry,))
    ktir.Context(installed=False)
    with pytest.raises(DeclarationError) as caught:
        ktir.Context()
    assert "(entry point 'mine = mine:register')" in caught.value.subject
    assert message in str(caught.value)
    result = CliRunner().invoke(main, [command, "-"], input="module {}")
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert message in result.stderr


def test_our_own_dialects_keep_the_rules() -> None:
    """They are not checked each time that a context is made."""
    empty = ktir.Context.__new__(ktir.Context)
    empty._dialects, empty._operations, empty._attributes, empty._types = {}, {}, {}, {}
    for dialect in ktir.Context(installed=False, proposed=True).dialects:
        empty.register(dialect)
    assert empty.operation("arith.addf") is not None
