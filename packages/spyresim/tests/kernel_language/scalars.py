"""Statements that work element by element, on scalars and on tensors alike."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from .numbers import (
    DTYPES,
    PRECISION,
    WIDTHS,
    Array,
    compare_floats,
    compare_integers,
    float_function,
    float_operation,
    from_integers,
    integer_operation,
    integers,
    is_float,
    nearest,
    unsigned,
)
from .values import Environment, OneResult, Text, Value, comma, literal, tensor_type


@dataclass
class Constant(OneResult):
    result: Value
    value: float | int | bool
    dense: bool = False

    def emit(self, out: Text) -> None:
        text = literal(self.value, self.result.element)
        if self.result.shape is None:
            suffix = "" if self.result.element == "i1" else f" : {self.result.type}"
            out(f"{self.result.name} = arith.constant {text}{suffix}")
        elif self.dense:
            out(f"{self.result.name} = arith.constant dense<{text}> : {self.result.type}")
        else:
            scalar = out.fresh("s")
            suffix = "" if self.result.element == "i1" else f" : {self.result.element}"
            out(f"{scalar} = arith.constant {text}{suffix}")
            out(f"{self.result.name} = tensor.splat {scalar} : {self.result.type}")

    def run(self, env: Environment) -> None:
        env[self.result] = np.full(self.result.shape or (), self.value, DTYPES[self.result.element])


@dataclass
class Table(OneResult):
    """A constant whose elements differ."""

    result: Value
    array: Array

    def emit(self, out: Text) -> None:
        def text(part: Array) -> str:
            if part.ndim == 0:
                return literal(part[()], self.result.element)
            return f"[{comma(map(text, part))}]"

        out(f"{self.result.name} = arith.constant dense<{text(self.array)}> : {self.result.type}")

    def run(self, env: Environment) -> None:
        env[self.result] = self.array


@dataclass
class Binary(OneResult):
    """``arith`` with two operands of one type; integer divisors and shift amounts are kept legal by the strategy."""

    operation: str
    a: Value
    b: Value
    result: Value

    def emit(self, out: Text) -> None:
        out(f"{self.result.name} = arith.{self.operation} {self.a.name}, {self.b.name} : {self.a.type}")

    def run(self, env: Environment) -> None:
        env[self.result] = apply_binary(self.operation, env[self.a], env[self.b], self.a.element)


def apply_binary(operation: str, a: Array, b: Array, element: str) -> Array:
    if is_float(element):
        return float_operation(operation, a, b)
    pairs = zip(integers(a, element), integers(b, element), strict=True)
    return from_integers([integer_operation(operation, x, y, element) for x, y in pairs], element, a.shape)


@dataclass
class Unary(OneResult):
    operation: str  # negf, absf, sqrt, ...
    a: Value
    result: Value

    def emit(self, out: Text) -> None:
        dialect = "arith" if self.operation == "negf" else "math"
        out(f"{self.result.name} = {dialect}.{self.operation} {self.a.name} : {self.a.type}")

    def run(self, env: Environment) -> None:
        env[self.result] = float_function(self.operation, env[self.a])


@dataclass
class Compare(OneResult):
    predicate: str
    a: Value
    b: Value
    result: Value

    def emit(self, out: Text) -> None:
        operation = "cmpf" if is_float(self.a.element) else "cmpi"
        out(
            f"{self.result.name} = arith.{operation} {self.predicate}, {self.a.name}, {self.b.name} : {self.a.type}"
        )

    def run(self, env: Environment) -> None:
        a, b, element = env[self.a], env[self.b], self.a.element
        if is_float(element):
            env[self.result] = compare_floats(self.predicate, a, b)
            return
        pairs = zip(integers(a, element), integers(b, element), strict=True)
        truth = [compare_integers(self.predicate, x, y, element) for x, y in pairs]
        env[self.result] = np.array(truth, np.bool_).reshape(a.shape)


@dataclass
class Select(OneResult):
    """The condition is a tensor like the others, or one scalar for all of them."""

    condition: Value
    a: Value
    b: Value
    result: Value

    def emit(self, out: Text) -> None:
        types = self.a.type
        if self.a.shape is not None:
            types = f"{self.condition.type}, {types}"
        out(
            f"{self.result.name} = arith.select {self.condition.name}, {self.a.name}, {self.b.name} : {types}"
        )

    def run(self, env: Environment) -> None:
        chosen = np.where(env[self.condition], env[self.a], env[self.b])
        env[self.result] = np.asarray(chosen.astype(DTYPES[self.result.element]))


@dataclass
class Cast(OneResult):
    operation: str
    a: Value
    result: Value

    def emit(self, out: Text) -> None:
        out(
            f"{self.result.name} = arith.{self.operation} {self.a.name} : {self.a.type} to {self.result.type}"
        )

    def run(self, env: Environment) -> None:
        env[self.result] = apply_cast(self.operation, env[self.a], self.a.element, self.result.element)


def casts_from(element: str) -> list[tuple[str, str]]:
    """Casts whose result is defined for every operand: (operation, target)."""
    if element == "index":
        return [("index_cast", to) for to in ("i8", "i16", "i32", "i64")] + [("index_castui", "i32")]
    if is_float(element):
        wider = [("extf", "f32")] if element != "f32" else []
        narrower = [("truncf", "f16"), ("truncf", "bf16")] if element == "f32" else []
        bits = {"f16": ["i16", "bf16"], "bf16": ["i16", "f16"], "f32": ["i32"]}[element]
        return wider + narrower + [("bitcast", to) for to in bits]
    width = WIDTHS[element]
    order = ("i1", "i8", "i16", "i32", "i64")
    found = [(name, to) for to in order if WIDTHS[to] > width for name in ("extsi", "extui")]
    found += [("trunci", to) for to in order if WIDTHS[to] < width]
    found += [(name, to) for to in PRECISION for name in ("sitofp", "uitofp")]
    if element != "i1":
        found += [("index_cast", "index"), ("index_castui", "index")]
    return found + [("bitcast", to) for to in {"i16": ["f16", "bf16"], "i32": ["f32"]}.get(element, [])]


def apply_cast(operation: str, a: Array, source: str, target: str) -> Array:
    match operation:
        case "extf":
            return np.asarray(a.astype(DTYPES[target]))  # exact
        case "truncf":
            flat = [float(x) for x in a.reshape(-1)]
            rounded = [nearest(Fraction(x), target) if np.isfinite(x) and x else x for x in flat]
            return np.array(rounded, np.float64).astype(DTYPES[target]).reshape(a.shape)
        case "bitcast":
            return np.ascontiguousarray(a).view(DTYPES[target]).reshape(a.shape)
        case "sitofp" | "uitofp":
            numbers = integers(a, source)
            if operation == "uitofp":
                numbers = [unsigned(v, source) for v in numbers]
            rounded = [nearest(v, target) for v in numbers]
            return np.array(rounded, np.float64).astype(DTYPES[target]).reshape(a.shape)
        case "fptosi":
            return from_integers([int(float(x)) for x in a.reshape(-1)], target, a.shape)
        case "extui" | "index_castui":
            return from_integers([unsigned(v, source) for v in integers(a, source)], target, a.shape)
        case "extsi" | "trunci" | "index_cast":
            return from_integers(integers(a, source), target, a.shape)
    raise ValueError(operation)


@dataclass
class ToInteger(OneResult):
    """A float to an integer, with everything that has no integer in range replaced by zero before."""

    a: Value
    result: Value
    limit: float = 100.0

    def emit(self, out: Text) -> None:
        n, t = out.fresh("fit"), self.a.type
        for name, value in (("limit", self.limit), ("zero", 0.0)):
            Constant(Value(f"{n}_{name}", self.a.element, self.a.shape), value).emit(out)
        truth = "i1" if self.a.shape is None else tensor_type("i1", self.a.shape)
        both = t if self.a.shape is None else f"{truth}, {t}"
        out(f"{n}_abs = math.absf {self.a.name} : {t}")
        out(f"{n}_in = arith.cmpf olt, {n}_abs, {n}_limit : {t}")
        out(f"{n}_x = arith.select {n}_in, {self.a.name}, {n}_zero : {both}")
        out(f"{self.result.name} = arith.fptosi {n}_x : {t} to {self.result.type}")

    def run(self, env: Environment) -> None:
        a = env[self.a].astype(np.float64)
        fitting = np.where(abs(a) < self.limit, a, 0.0)
        env[self.result] = apply_cast("fptosi", fitting, self.a.element, self.result.element)


@dataclass
class TileNumber(OneResult):
    """A coordinate of the tile, as an index; the function reads them once at the top."""

    axis: int
    result: Value

    def emit(self, out: Text) -> None:
        scale = out.affine("affine_map<(d0)[s0] -> (d0 + s0 - 3)>")
        map_text = "affine_map<(d0)[s0] -> (d0 + s0 - 3)>" if out.style.inline else scale
        out(f"{self.result.name} = affine.apply {map_text}(%tile{self.axis})[%three]")

    def run(self, env: Environment) -> None:
        env[self.result] = np.array(env.coordinates[self.axis], np.int64)
