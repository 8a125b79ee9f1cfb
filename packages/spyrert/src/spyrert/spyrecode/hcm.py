"""Host compute metadata: the symbols of a program (runtime spec 1.7).

An :class:`Hcm` lists symbols; each has an expression, a unit and perhaps bounds. :func:`symbol_values`
evaluates them.
"""

from __future__ import annotations

import attrs

from spyrert.errors import SymbolBindingError
from spyrert.spyrecode._json import Json, Node, canonical, parse
from spyrert.spyrecode.expressions import (
    INT64_MAX,
    INT64_MIN,
    Expr,
    HostInputs,
    evaluate,
    expr_from_json,
    expr_to_json,
    leaves,
)
from spyrert.spyrecode.image import required_correction_size


@attrs.frozen
class Bounds:
    """Legal values ``v`` of a dimension symbol: ``min <= v <= max`` and ``v % granularity == 0``.

    ``None`` is no limit (runtime spec 1.7.3).
    """

    min: int | None = None
    max: int | None = None
    granularity: int = 1

    def check(self, value: int, what: str) -> None:
        """Raise ``SymbolBindingError`` if ``value`` is not legal; ``what`` names the symbol."""
        if self.min is not None and value < self.min:
            raise SymbolBindingError(f"{what} = {value} is below its minimum {self.min}", value=value)
        if self.max is not None and value > self.max:
            raise SymbolBindingError(f"{what} = {value} is above its maximum {self.max}", value=value)
        if value % self.granularity:
            raise SymbolBindingError(
                f"{what} = {value} is not a multiple of its granularity {self.granularity}", value=value
            )


@attrs.frozen
class HcmSymbol:
    """One symbol: ``expr`` (bytes, for addresses) divided by ``unit`` without remainder.

    Args:
        id: distinct negative integer; the list is ordered by decreasing id.
        expr: what to compute at launch.
        unit: word size by which the value is divided; a remainder is ``SymbolBindingError``.
        bounds: checked against the value of ``expr`` before the division.
    """

    id: int
    expr: Expr
    unit: int = 1
    bounds: Bounds | None = None


@attrs.frozen
class Hcm:
    """Our host compute metadata, version 1.

    Args:
        symbols: in canonical order: exactly the symbols that the program uses as operands, by decreasing id.
            The position of a symbol is the index of its correction entry and the slot in the image.
        output_size: bytes of the correction tensor; default: the least that holds all symbols.
        function: name in the host-function registry.
        constants: pairs (slot, value) that are merged as constant entries.
        chunk_map: for interleaved arguments, triples (arg, axis, chunks).
        vdci, sen_constants: upstream's two members, kept for round trips (canonical JSON text).
    """

    symbols: tuple[HcmSymbol, ...]
    output_size: int = attrs.field()
    function: str = "program_correction"
    constants: tuple[tuple[int, int], ...] = ()
    chunk_map: tuple[tuple[int, int, int], ...] = ()
    vdci: str = "{}"
    sen_constants: str = "[]"

    @output_size.default
    def _least_size(self) -> int:
        return required_correction_size(len(self.symbols))

    @property
    def entries(self) -> int:
        """Number of entries of the correction tensor."""
        return len(self.symbols) + len(self.constants)

    @property
    def inputs(self) -> tuple[Expr, ...]:
        """Distinct leaf inputs of all expressions in order of appearance; their number is ``ishape[0]``."""
        return tuple(dict.fromkeys(leaf for symbol in self.symbols for leaf in leaves(symbol.expr)))

    def to_json(self) -> Json:
        symbols = []
        for symbol in self.symbols:
            record: dict[str, Json] = {
                "id": symbol.id,
                "expr": expr_to_json(symbol.expr),
                "unit": symbol.unit,
            }
            if symbol.bounds is not None:
                record |= bounds_to_json(symbol.bounds)
            symbols.append(record)
        document: dict[str, Json] = {
            "version": 1,
            "function": self.function,
            "symbols": symbols,
            "constants": {str(slot): value for slot, value in self.constants},
            "output": {"format": "SPYCORR1", "size": self.output_size},
        }
        if self.chunk_map:
            document["chunk_map"] = [{"arg": a, "axis": x, "chunks": n} for a, x, n in self.chunk_map]
        return document | {
            "vdci": parse(self.vdci.encode()),
            "senConstants": parse(self.sen_constants.encode()),
        }


@attrs.frozen
class ForeignHcm:
    """Metadata of another producer, kept as canonical JSON text. Accepted at prepare (runtime spec 1.7.2)."""

    text: str

    @property
    def empty(self) -> bool:
        """``vdci`` and ``senConstants`` are both empty: no symbols, an all-zero correction tensor."""
        document = parse(self.text.encode())
        return not document.get("vdci") and not document.get("senConstants")

    def to_json(self) -> Json:
        return parse(self.text.encode())


def bounds_to_json(bounds: Bounds) -> dict[str, Json]:
    return {"min": bounds.min, "max": bounds.max, "granularity": bounds.granularity}


def bounds_from_json(node: Node) -> Bounds | None:
    """Read ``min``, ``max``, ``granularity``; ``None`` if none is there. Default of ``min`` is the
    granularity; an explicit ``null`` means no limit."""
    low, high, step = node.get("min"), node.get("max"), node.get("granularity")
    if low is None and high is None and step is None:
        return None
    granularity = 1 if step is None else step.integer(1, INT64_MAX)
    minimum: int | None = granularity
    if low is not None:
        minimum = None if low.value is None else low.integer(INT64_MIN, INT64_MAX)
    maximum = None if high is None or high.value is None else high.integer(INT64_MIN, INT64_MAX)
    if minimum is not None and maximum is not None and minimum > maximum:
        node.fail(f"min {minimum} is greater than max {maximum}")
    return Bounds(minimum, maximum, granularity)


def hcm_from_json(node: Node) -> Hcm | ForeignHcm:
    """Read embedded or separate metadata. A version-less object is foreign."""
    if not isinstance(node.value, dict):
        node.fail(f"hcm must be an object, got {type(node.value).__name__}")
    if "version" not in node.value:
        return ForeignHcm(canonical(node.value).decode())
    version = node.member("version")
    if version.integer() != 1:
        version.fail(f"hcm version {version.value} is not supported")
    symbols = []
    ids: set[int] = set()
    for item in node.member("symbols").elements():
        identity = item.member("id")
        number = identity.integer(INT64_MIN, -1)
        if number in ids:
            identity.fail(f"duplicate symbol id {number}")
        ids.add(number)
        unit = item.get("unit")
        symbols.append(
            HcmSymbol(
                number,
                expr_from_json(item.member("expr")),
                1 if unit is None else unit.integer(1, INT64_MAX),
                bounds_from_json(item),
            )
        )
    output = node.member("output")
    if output.member("format").string() != "SPYCORR1":
        output.member("format").fail("hcm output format must be 'SPYCORR1'")
    constants = []
    table = node.get("constants")
    if table is not None:
        for key, value in table.members():
            if not key.isascii() or not key.isdigit() or int(key) >= 1 << 32:
                value.fail(f"constant slot {key!r} is not a decimal number")
            if int(key) < len(symbols):
                value.fail(f"constant slot {key} is the slot of a symbol")
            constants.append((int(key), value.integer(INT64_MIN, INT64_MAX)))
    chunk_map = node.get("chunk_map")
    size = output.member("size")
    result = Hcm(
        tuple(symbols),
        size.integer(0, INT64_MAX),
        node.member("function").name() if node.get("function") else "program_correction",
        tuple(constants),
        tuple(
            (c.member("arg").integer(0), c.member("axis").integer(0), c.member("chunks").integer(1))
            for c in (chunk_map.elements() if chunk_map else ())
        ),
        canonical(node.value.get("vdci", {})).decode(),
        canonical(node.value.get("senConstants", [])).decode(),
    )
    if result.output_size < required_correction_size(result.entries):
        size.fail(
            f"hcm output of {result.output_size} bytes is too small: {result.entries} entries need "
            f"{required_correction_size(result.entries)}"
        )
    return result


def symbol_values(hcm: Hcm, inputs: HostInputs) -> tuple[int, ...]:
    """Values of all symbols, in order, each divided by its unit.

    Raises ``SymbolBindingError`` naming the symbol: bounds, granularity, a remainder of the division, an
    override list of the wrong length, and what :func:`evaluate` raises.
    """
    overrides: tuple[int | None, ...] = inputs.overrides or (None,) * len(hcm.symbols)
    if len(overrides) != len(hcm.symbols):
        raise SymbolBindingError(f"{len(overrides)} symbolic_args for {len(hcm.symbols)} symbols")
    values = []
    for symbol, override in zip(hcm.symbols, overrides, strict=True):
        value = evaluate(symbol.expr, inputs) if override is None else override
        what = f"symbol {symbol.id}"
        if symbol.bounds is not None:
            symbol.bounds.check(value, what)
        quotient, remainder = divmod(value, symbol.unit)
        if remainder:
            raise SymbolBindingError(
                f"{what} = {value} bytes is not a multiple of its unit {symbol.unit}", value=value
            )
        values.append(quotient)
    return tuple(values)


__all__ = ["Bounds", "ForeignHcm", "Hcm", "HcmSymbol", "hcm_from_json", "symbol_values"]
