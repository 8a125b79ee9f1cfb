"""Loops and branches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .numbers import DTYPES
from .values import Environment, Statement, Text, Value, comma, run_block


def _block(out: Text, body: Sequence[Statement], terminator: str) -> None:
    with out.nested():
        for statement in body:
            statement.emit(out)
        if terminator:
            out(terminator)


def _yield(values: Sequence[Value], word: str = "scf.yield") -> str:
    if not values:
        return ""
    return f"{word} {comma(v.name for v in values)} : {comma(v.type for v in values)}"


def _results(out: Text, results: Sequence[Value], bundle: bool) -> tuple[str, list[str]]:
    """The text left of the operation, and how the results are called there."""
    if not results:
        return "", []
    if bundle:
        name = out.fresh("r")
        return f"{name}:{len(results)} = ", [f"{name}#{i}" for i in range(len(results))]
    return f"{comma(v.name for v in results)} = ", [v.name for v in results]


def _rename(out: Text, results: Sequence[Value], names: Sequence[str]) -> None:
    """Bundled results get their own names by an operation that changes nothing."""
    for value, name in zip(results, names, strict=True):
        if name != value.name:
            if value.shape is None:
                true = out.fresh("true")
                out(f"{true} = arith.constant true")
                out(f"{value.name} = arith.select {true}, {name}, {name} : {value.type}")
            else:
                out(f"{value.name} = tensor.cast {name} : {value.type} to {value.type}")


@dataclass
class For(Statement):
    lower: Value
    upper: Value
    step: Value
    variable: Value
    inits: tuple[Value, ...]
    arguments: tuple[Value, ...]
    body: list[Statement]
    yielded: tuple[Value, ...]
    outcome: tuple[Value, ...]
    bundle: bool = False
    as_while: bool = False

    def __post_init__(self) -> None:
        self.results = self.outcome

    def emit(self, out: Text) -> None:
        left, names = _results(out, self.outcome, self.bundle)
        if self.as_while:
            self._emit_while(out, left)
            return
        carried = ""
        if self.inits:
            pairs = comma(f"{a.name} = {i.name}" for a, i in zip(self.arguments, self.inits, strict=True))
            carried = f" iter_args({pairs}) -> ({comma(v.type for v in self.inits)})"
        type = "" if self.variable.element == "index" else f" : {self.variable.element}"
        out(
            f"{left}scf.for {self.variable.name} = {self.lower.name} to {self.upper.name} "
            f"step {self.step.name}{carried}{type} {{"
        )
        _block(out, self.body, _yield(self.yielded))
        out("}")
        _rename(out, self.outcome, names)

    def _emit_while(self, out: Text, left: str) -> None:
        """The same loop with its counter carried by hand; the counter comes out first."""
        i, go, next = (out.fresh(p) for p in ("i", "go", "next"))
        kind = self.variable.element
        types = comma([kind, *(v.type for v in self.inits)])
        before = [f"{v.name}_w" for v in self.arguments]
        pairs = comma(
            [
                f"{i} = {self.lower.name}",
                *(f"{b} = {v.name}" for b, v in zip(before, self.inits, strict=True)),
            ]
        )
        bundle = out.fresh("w")
        count = 1 + len(self.inits)
        out(f"{bundle}:{count} = scf.while ({pairs}) : ({types}) -> ({types}) {{")
        with out.nested():
            out(f"{go} = arith.cmpi slt, {i}, {self.upper.name} : {kind}")
            out(f"scf.condition({go}) {comma([i, *before])} : {types}")
        out("} do {")
        out(
            f"^bb0({comma([f'{self.variable.name}: {kind}', *(f'{v.name}: {v.type}' for v in self.arguments)])}):"
        )
        with out.nested():
            for statement in self.body:
                statement.emit(out)
            out(f"{next} = arith.addi {self.variable.name}, {self.step.name} : {kind}")
            out(f"scf.yield {comma([next, *(v.name for v in self.yielded)])} : {types}")
        out("}")
        _rename(out, self.outcome, [f"{bundle}#{k + 1}" for k in range(len(self.outcome))])

    def run(self, env: Environment) -> None:
        lower, upper, step = (int(env[v]) for v in (self.lower, self.upper, self.step))
        carried = [env[v] for v in self.inits]
        for i in range(lower, upper, step):
            inner = env.child()
            inner[self.variable] = np.array(i, DTYPES[self.variable.element])
            for argument, value in zip(self.arguments, carried, strict=True):
                inner[argument] = value
            run_block(self.body, inner)
            carried = [inner[v] for v in self.yielded]
        for result, value in zip(self.outcome, carried, strict=True):
            env[result] = value


@dataclass
class If(Statement):
    condition: Value
    then: list[Statement]
    then_yields: tuple[Value, ...]
    orelse: list[Statement]
    else_yields: tuple[Value, ...]
    outcome: tuple[Value, ...]
    bundle: bool = False

    def __post_init__(self) -> None:
        self.results = self.outcome

    def emit(self, out: Text) -> None:
        left, names = _results(out, self.outcome, self.bundle)
        types = f" -> ({comma(v.type for v in self.outcome)})" if self.outcome else ""
        out(f"{left}scf.if {self.condition.name}{types} {{")
        _block(out, self.then, _yield(self.then_yields))
        if self.outcome or self.orelse:
            out("} else {")
            _block(out, self.orelse, _yield(self.else_yields))
        out("}")
        _rename(out, self.outcome, names)

    def run(self, env: Environment) -> None:
        taken = bool(env[self.condition])
        inner = env.child()
        run_block(self.then if taken else self.orelse, inner)
        yields = self.then_yields if taken else self.else_yields
        for result, value in zip(self.outcome, yields, strict=True):
            env[result] = inner[value]
