"""The launch contract: what a caller must pass, in which form (runtime spec 1.9, 1.10).

The same records stand in the manifest (``args``, ``dims``, ``symbols``, ...) and in ``launch_spec.json``
beside ``spyreCodeDir/``; a reader checks that the two agree.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

from spyrert.errors import LaunchSpecError, LayoutMismatch, UnsupportedDtype
from spyrert.spyrecode._json import Json, Node, name_problem, parse
from spyrert.spyrecode.hcm import Bounds, bounds_from_json, bounds_to_json
from spyrert.spyrecode.layout import (
    Layout,
    LinearLayout,
    StickLayout,
    item_bytes,
    layout_from_json,
)

LAUNCH_SPEC_VERSION: Final = 1
SCALAR_DTYPES: Final = (
    "index",
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "float16",
    "bfloat16",
    "float32",
)
F16_FORMATS: Final = ("ieee", "dlfloat")


class Role(enum.Enum):
    INPUT = "input"
    OUTPUT = "output"
    INPUT_OUTPUT = "input_output"

    @property
    def reads(self) -> bool:
        return self is not Role.OUTPUT

    @property
    def writes(self) -> bool:
        return self is not Role.INPUT


@attrs.frozen
class ArgSpec:
    """One launch argument, i.e. one tensor.

    Args:
        role: whether the kernel reads it, writes it, or both.
        shape: host shape in elements; an entry may be the name of a symbol.
        dtype: element type, NumPy's name (``float16``, ``bfloat16``, ``df16``).
        layout: arrangement in device memory; its ``device_dtype`` is the format on the device.
        name: name of the kernel's argument; for an implicit buffer of a baked kernel ``@0x800``.
        kernel_position: position among the arguments of the KTIR function (which counts scalars too);
            ``None`` for an implicit buffer.
        dims: name of each axis, ``None`` for a nameless one; ``()`` if no axis has a name.
    """

    role: Role
    shape: tuple[int | str, ...]
    dtype: str
    layout: Layout
    name: str = ""
    kernel_position: int | None = None
    dims: tuple[str | None, ...] = ()

    @property
    def rank(self) -> int:
        return len(self.shape)

    def to_json(self, index: int) -> Json:
        record: dict[str, Json] = {
            "arg_index": index,
            "role": self.role.value,
            "shape": list(self.shape),
            "dtype": self.dtype,
            "layout": self.layout.to_json(),
        }
        if self.name:
            record["name"] = self.name
        if self.kernel_position is not None:
            record["kernel_position"] = self.kernel_position
        if self.dims:
            record["dims"] = list(self.dims)
        return record


@attrs.frozen
class SymbolSpec:
    """A scalar kernel argument or a symbolic dimension; bound by name at launch.

    Args:
        name: the leaf ``["sym", name]`` of the host metadata.
        dtype: ``index`` or an integer type; ``float16``, ``bfloat16`` and ``float32`` travel as bit patterns.
        bounds: legal values; always written, ``None`` inside is no limit.
        kernel_position: position among the KTIR function's arguments, ``None`` for a pure dimension.
    """

    name: str
    dtype: str = "index"
    bounds: Bounds = attrs.field(factory=Bounds)
    kernel_position: int | None = None

    def to_json(self) -> Json:
        record: dict[str, Json] = {"dtype": self.dtype, **bounds_to_json(self.bounds)}
        if self.kernel_position is not None:
            record["kernel_position"] = self.kernel_position
        return record


class DimKind(enum.Enum):
    PARALLEL = "parallel"
    REDUCTION = "reduction"


@attrs.frozen
class DimSpec:
    """A named dimension and how it may be tiled (runtime spec 1.9.3).

    ``accumulate`` is ``"kernel"``, ``"combine"`` or ``None``; ``init`` the start value of the accumulator
    (``"-inf"`` and ``"inf"`` are spelled as strings in JSON).
    """

    name: str
    kind: DimKind = DimKind.PARALLEL
    tileable: bool = True
    accumulate: str | None = None
    init: float = 0.0
    acc_dtype: str | None = None

    def to_json(self) -> Json:
        record: dict[str, Json] = {"kind": self.kind.value}
        if not self.tileable:
            record["tileable"] = False
        if self.accumulate is not None:
            record["accumulate"] = self.accumulate
            record["init"] = self.init if abs(self.init) != float("inf") else str(self.init)
        if self.acc_dtype is not None:
            record["acc_dtype"] = self.acc_dtype
        return record


@attrs.frozen
class SymbolKind:
    """One record of ``symbol_kinds.json`` (runtime spec 1.10)."""

    kind: str
    arg_index: int = -1
    base_sym_idx: int = -1
    offset: int = 0

    def to_json(self) -> Json:
        return {
            "kind": self.kind,
            "base_sym_idx": self.base_sym_idx,
            "offset": self.offset,
            "arg_index": self.arg_index,
        }


SYMBOL_KINDS: Final = ("kernel", "kernel_derived", "pool", "kernel_slice", "kernel_derived_symbolic")


@attrs.frozen
class ArchitectureId:
    """Which machine a program was compiled for; compared by name and digest (hex)."""

    name: str
    digest: str = ""

    def to_json(self) -> Json:
        return {"name": self.name, "digest": self.digest}


@attrs.frozen
class Tolerance:
    """Per-kernel tolerance of I/O verification: ``|actual - expected| <= atol + rtol * |expected|``."""

    rtol: float
    atol: float

    def to_json(self) -> Json:
        return {"rtol": self.rtol, "atol": self.atol}


@attrs.frozen
class LaunchSpec:
    """The caller-facing contract of one kernel.

    Args:
        kernel_name: which kernel.
        args: launch arguments in the order of the KTIR function's pointer arguments.
        symbols: scalars and symbolic dimensions.
        dims: named dimensions in declaration order.
        symbol_kinds: canonical symbol order of upstream tools, same length as ``hcm.symbols`` if not empty.
        pool_size: bytes of the scratch tensor that the runtime creates and passes first; never in ``args``.
        bundle_symbolic_args: ``False`` for a baked kernel.
        f16_format: ``"ieee"`` or ``"dlfloat"``; a device in the other mode is refused.
        architecture: machine that the image was made for, if it matters.
        aliases: pairs of argument numbers that must be the same view.
        allow_alias: outputs may overlap other arguments.
        tolerance: used by I/O verification.
        emitter: diagnostic only.
    """

    kernel_name: str
    args: tuple[ArgSpec, ...] = ()
    symbols: tuple[SymbolSpec, ...] = ()
    dims: tuple[DimSpec, ...] = ()
    symbol_kinds: tuple[SymbolKind, ...] = ()
    pool_size: int = 0
    bundle_symbolic_args: bool = True
    f16_format: str = "ieee"
    architecture: ArchitectureId | None = None
    aliases: tuple[tuple[int, int], ...] = ()
    allow_alias: bool = False
    tolerance: Tolerance | None = None
    emitter: str = ""

    def symbol(self, name: str) -> SymbolSpec | None:
        return next((symbol for symbol in self.symbols if symbol.name == name), None)

    def dim(self, name: str) -> DimSpec:
        """The declaration of a dimension; an undeclared one is parallel."""
        return next((dim for dim in self.dims if dim.name == name), DimSpec(name))

    def problems(self) -> Iterator[tuple[str, str]]:
        """Contradictions in the contract and names that no reader takes, as pairs (JSON pointer, text)."""
        yield from self._name_problems()
        names = [symbol.name for symbol in self.symbols]
        for name in sorted({n for n in names if names.count(n) > 1}):
            yield f"/symbols/{name}", f"symbol {name!r} is declared twice"
        if self.f16_format not in F16_FORMATS:
            yield "/f16_format", f"f16 format {self.f16_format!r} is neither 'ieee' nor 'dlfloat'"
        positions: dict[int, str] = {}
        for index, arg in enumerate(self.args):
            here = f"/args/{index}"
            for size in arg.shape:
                if isinstance(size, str) and size not in names:
                    yield f"{here}/shape", f"argument {index} has size {size!r}, which is no declared symbol"
            if arg.dims and len(arg.dims) != arg.rank:
                yield f"{here}/dims", f"argument {index} names {len(arg.dims)} axes of {arg.rank}"
            if arg.dtype not in ("df16",) and item_bytes(arg.dtype) < 1:
                yield f"{here}/dtype", f"argument {index} has unknown dtype {arg.dtype!r}"
            if arg.kernel_position is not None:
                positions.setdefault(arg.kernel_position, f"argument {index}")
                if positions[arg.kernel_position] != f"argument {index}":
                    yield (
                        f"{here}/kernel_position",
                        f"argument {index} and {positions[arg.kernel_position]} have one kernel position",
                    )
        for symbol in self.symbols:
            if symbol.kernel_position is not None:
                other = positions.setdefault(symbol.kernel_position, f"symbol {symbol.name!r}")
                if other != f"symbol {symbol.name!r}":
                    yield (
                        f"/symbols/{symbol.name}/kernel_position",
                        f"symbol {symbol.name!r} and {other} have one kernel position",
                    )
        for pair in self.aliases:
            if any(not 0 <= index < len(self.args) for index in pair):
                yield "/aliases", f"alias {pair} names an argument that does not exist"

    def _name_problems(self) -> Iterator[tuple[str, str]]:
        names = [("/kernel_name", self.kernel_name, False)]
        for index, arg in enumerate(self.args):
            names.append((f"/args/{index}/name", arg.name, True))
            names += [(f"/args/{index}/dims", dim, False) for dim in arg.dims if dim is not None]
        names += [(f"/symbols/{index}", symbol.name, False) for index, symbol in enumerate(self.symbols)]
        if self.architecture is not None:
            names.append(("/architecture/name", self.architecture.name, False))
        for pointer, name, empty in names:
            problem = name_problem(name, empty)
            if problem is not None:
                yield pointer, problem

    def members(self) -> dict[str, Json]:
        """The members that manifest and launch spec share. Always explicit, never defaulted."""
        document: dict[str, Json] = {
            "args": [arg.to_json(index) for index, arg in enumerate(self.args)],
            "symbols": {symbol.name: symbol.to_json() for symbol in self.symbols},
            "pool_size": self.pool_size,
            "f16_format": self.f16_format,
        }
        if self.dims:
            document["dims"] = {dim.name: dim.to_json() for dim in self.dims}
        if self.architecture is not None:
            document["architecture"] = self.architecture.to_json()
        if self.aliases:
            document["aliases"] = [list(pair) for pair in self.aliases]
        if self.allow_alias:
            document["allow_alias"] = True
        return document

    def to_json(self) -> Json:
        """The document of ``launch_spec.json``."""
        document: dict[str, Json] = {
            "version": LAUNCH_SPEC_VERSION,
            "kernel_name": self.kernel_name,
            "bundle_symbolic_args": self.bundle_symbolic_args,
            **self.members(),
        }
        if self.symbol_kinds:
            document["symbol_kinds"] = [kind.to_json() for kind in self.symbol_kinds]
        if self.tolerance is not None:
            document["verify"] = self.tolerance.to_json()
        if self.emitter:
            document["emitter"] = self.emitter
        return document


SHARED_KEYS: Final = (
    "args",
    "symbols",
    "pool_size",
    "f16_format",
    "dims",
    "architecture",
    "aliases",
    "allow_alias",
)
"""Keys that stand in the manifest and in the launch spec alike."""

LAUNCH_SPEC_KEYS: Final = (
    "version",
    "kernel_name",
    "bundle_symbolic_args",
    *SHARED_KEYS,
    "symbol_kinds",
    "verify",
    "emitter",
)


def launch_spec_from_json(node: Node) -> LaunchSpec:
    """Read ``launch_spec.json``; a bad one raises ``node.error`` (``LaunchSpecError``) at its place."""
    version = node.member("version")
    if version.integer() != LAUNCH_SPEC_VERSION:
        version.fail(f"launch spec version {version.value} is not supported")
    spec = contract_from_json(
        node, node.member("kernel_name").name(), node.member("bundle_symbolic_args").boolean()
    )
    node.member("pool_size")
    node.member("args")
    kinds = node.get("symbol_kinds")
    verify = node.get("verify")
    emitter = node.get("emitter")
    return attrs.evolve(
        spec,
        symbol_kinds=() if kinds is None else symbol_kinds_from_json(kinds),
        tolerance=None
        if verify is None
        else Tolerance(float(verify.member("rtol").number()), float(verify.member("atol").number())),
        emitter="" if emitter is None else emitter.string(),
    )


def read_launch_spec(path: str | Path) -> LaunchSpec:
    """A ``launch_spec.json`` on its own, without the rest of the artefact.

    Raises ``LaunchSpecError`` for bad content and ``OSError`` if the file cannot be read.
    """
    where = str(path)
    document = parse(Path(path).read_bytes(), where)
    return launch_spec_from_json(Node(document, where, "", LaunchSpecError))


def contract_from_json(node: Node, kernel_name: str, symbolic: bool) -> LaunchSpec:
    """Read the members that manifest and launch spec share from either document."""
    args, symbols, dims = node.get("args"), node.get("symbols"), node.get("dims")
    pool, f16, machine = node.get("pool_size"), node.get("f16_format"), node.get("architecture")
    aliases, allow = node.get("aliases"), node.get("allow_alias")
    digest = machine.get("digest") if machine else None
    spec = LaunchSpec(
        kernel_name,
        tuple(_arg(item, index) for index, item in enumerate(args.elements())) if args else (),
        tuple(_symbols(symbols)) if symbols else (),
        tuple(_dim(name, item) for name, item in dims.members()) if dims else (),
        pool_size=pool.integer(0) if pool else 0,
        bundle_symbolic_args=symbolic,
        f16_format=f16.string() if f16 else "ieee",
        architecture=ArchitectureId(machine.member("name").name(), digest.string() if digest else "")
        if machine
        else None,
        aliases=tuple(_pair(item) for item in aliases.elements()) if aliases else (),
        allow_alias=allow.boolean() if allow else False,
    )
    for pointer, text in spec.problems():
        attrs.evolve(node, pointer=node.pointer + pointer).fail(text)
    return spec


def symbol_kinds_from_json(node: Node) -> tuple[SymbolKind, ...]:
    """Read the list of ``symbol_kinds.json``."""
    kinds = []
    for item in node.elements():
        name = item.member("kind")
        if name.string() not in SYMBOL_KINDS:
            name.fail(f"unknown symbol kind {name.value!r}")
        arg, base, offset = item.get("arg_index"), item.get("base_sym_idx"), item.get("offset")
        kinds.append(
            SymbolKind(
                name.string(),
                arg.integer(-1) if arg else -1,
                base.integer(-1) if base else -1,
                offset.integer() if offset else 0,
            )
        )
    return tuple(kinds)


def _arg(node: Node, index: int) -> ArgSpec:
    number = node.member("arg_index")
    if number.integer() != index:
        number.fail(f"arg_index {number.value} stands at position {index}")
    role_node = node.member("role")
    try:
        role = Role(role_node.string())
    except ValueError:
        role_node.fail(f"unknown role {role_node.value!r}")
    shape: list[int | str] = [
        item.name() if isinstance(item.value, str) else item.integer(0)
        for item in node.member("shape").elements()
    ]
    dtype_node = node.member("dtype")
    dtype = dtype_node.string()
    try:
        item_bytes(dtype)
    except UnsupportedDtype as error:
        dtype_node.fail(str(error))
    layout_node = node.get("layout")
    if layout_node is not None and layout_node.value is not None:
        layout = layout_from_json(layout_node)
    else:
        if any(isinstance(size, str) for size in shape):
            node.fail("an argument with a symbolic size needs an explicit layout")
        try:
            layout = StickLayout.default([size for size in shape if isinstance(size, int)], dtype)
        except LayoutMismatch as error:
            node.fail(str(error))
    name, position, dims = node.get("name"), node.get("kernel_position"), node.get("dims")
    return ArgSpec(
        role,
        tuple(shape),
        dtype,
        layout,
        name.name() if name else "",
        position.integer(0) if position else None,
        tuple(None if d.value is None else d.name() for d in dims.elements()) if dims else (),
    )


def _symbols(node: Node) -> Iterator[SymbolSpec]:
    """Read the object of the launch spec, or the list of the manifest whose records carry their name."""
    if isinstance(node.value, list):
        pairs = [(item.member("name").name(), item) for item in node.elements()]
    else:
        pairs = list(node.members())
    for name, item in pairs:
        dtype, position = item.get("dtype"), item.get("kernel_position")
        if dtype is not None and dtype.string() not in SCALAR_DTYPES:
            dtype.fail(f"a scalar of type {dtype.value!r} cannot be passed")
        yield SymbolSpec(
            name,
            dtype.string() if dtype else "index",
            bounds_from_json(item) or Bounds(),
            position.integer(0) if position else None,
        )


def _dim(name: str, node: Node) -> DimSpec:
    kind, tileable, accumulate = node.get("kind"), node.get("tileable"), node.get("accumulate")
    init, acc = node.get("init"), node.get("acc_dtype")
    if kind is not None and kind.string() not in ("parallel", "reduction"):
        kind.fail(f"unknown kind of dimension {kind.value!r}")
    if accumulate is not None and accumulate.string() not in ("kernel", "combine"):
        accumulate.fail(f"unknown accumulate {accumulate.value!r}")
    start = 0.0
    if init is not None:
        start = float(init.value) if init.value in ("inf", "-inf") else float(init.number())
    return DimSpec(
        name,
        DimKind(kind.string()) if kind else DimKind.PARALLEL,
        tileable.boolean() if tileable else True,
        accumulate.string() if accumulate else None,
        start,
        acc.string() if acc else None,
    )


def _pair(node: Node) -> tuple[int, int]:
    items = [item.integer(0) for item in node.elements()]
    if len(items) != 2:
        node.fail("an alias is a pair of argument numbers")
    return items[0], items[1]


__all__ = [
    "ArchitectureId",
    "ArgSpec",
    "DimKind",
    "DimSpec",
    "LaunchSpec",
    "Layout",
    "LinearLayout",
    "Role",
    "StickLayout",
    "SymbolKind",
    "SymbolSpec",
    "Tolerance",
    "launch_spec_from_json",
    "read_launch_spec",
]
