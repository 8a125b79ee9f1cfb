"""DataflowIR as files: ``global.mlir`` with kernel and symbol definitions, and one file per program.

The folder is complete: a simulator executes it and code generation encodes it without anything else but the
launch spec (dataflowir spec 3.13).
"""

from __future__ import annotations

import re
from pathlib import Path

from dfsched.codegen.facts import GLOBAL
from dfsched.dialects.dataflow import ProgramUnit
from dfsched.lowering.errors import LoweringError
from dfsched.pinned import PINNED
from ktir import Context, Diagnostic, load
from ktir.attributes import StringAttr
from ktir.dialects.builtin import Module
from ktir.dialects.func import Call, Func
from ktir.ir import Operation, Region, symbol_name
from ktir.printer import print_module

__all__ = ["file_name", "read_split", "split", "write_split"]

_MODULE_ATTRIBUTES = (
    "ktdp.address_unit",
    "ktdp.grid_order",
    "ktdp.f16_format",
    "ktdp.scratchpad_keepout",
    PINNED,
)


def file_name(program: str) -> str:
    """The file of a program."""
    return f"{re.sub(r'[^A-Za-z0-9._-]', '_', program)}.mlir"


def split(module: Module) -> dict[str, Module]:
    """The files of a module after `wrap-program-dfir`, by name, `GLOBAL` first.

    Raises `LoweringError` if there is no program, or two programs would have one file.
    """
    kernels: list[Operation] = []
    outers: list[Operation] = []
    declarations: list[Operation] = []
    files: dict[str, Module] = {}
    for op in module.operations:
        match op:
            case Module() if symbol_name(op) is None:
                kernels += [f for f in op.operations if isinstance(f, Func) and not f.is_declaration]
            case Module() if any(isinstance(inner, ProgramUnit) for inner in op.walk()):
                name = symbol_name(op)
                assert name is not None
                outer, body = _program(op, name)
                file = file_name(name)
                if file in files or file == GLOBAL:
                    raise LoweringError.at(op.location, f"emit-split-dfir: duplicate output file '{file}'")
                files[file] = _module(module, [_public(body)])
                if outer is not None:
                    outers.append(_public(outer))
                declarations.append(_declaration(body))
            case Func() if not op.is_declaration and any(isinstance(i, ProgramUnit) for i in op.walk()):
                files[file_name(op.symbol)] = _module(module, [_public(op)])  # kernel and program in one
                declarations.append(_declaration(op))
            case Func() if not op.is_declaration:
                kernels.append(op)
            case _:
                pass
    has_work = any(isinstance(op, Call) for kernel in kernels for op in kernel.walk())
    if not files and (has_work or not kernels):
        raise LoweringError.at(
            module.location, "emit-split-dfir: no program with dataflow.program_unit found"
        )
    return {GLOBAL: _module(module, [*kernels, *outers, *declarations]), **files}


def _program(module: Module, name: str) -> tuple[Func | None, Func]:
    """Outer function (None in the one-level form) and body of a program module."""
    inner = [
        f for m in module.operations if isinstance(m, Module) for f in m.operations if isinstance(f, Func)
    ]
    own = module.lookup(name)
    if inner:
        return (own if isinstance(own, Func) else None), inner[0]
    if not isinstance(own, Func):
        raise LoweringError.at(
            module.location, "emit-split-dfir: no program with dataflow.program_unit found"
        )
    return None, own


def _module(source: Module, operations: list[Operation]) -> Module:
    attributes = {name: value for name, value in source.attributes.items() if name in _MODULE_ATTRIBUTES}
    return Module.create(attributes=attributes, regions=(Region.of(operations),))


def _public(function: Func) -> Func:
    return function.replace(attributes={"sym_visibility": None})


def _declaration(function: Func) -> Func:
    return Func.create(
        attributes={
            "sym_name": function.sym_name,
            "sym_visibility": StringAttr("private"),
            "function_type": function.function_type,
        },
        regions=(Region(),),
        location=function.location,
    )


def write_split(files: dict[str, Module], directory: str | Path) -> None:
    """Write the files; made where missing, byte-identical for equal modules."""
    target = Path(directory)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LoweringError.at(
            files[GLOBAL].location, f"failed to create output directory {target}: {error.strerror}"
        ) from error
    for name, module in files.items():
        try:
            (target / name).write_text(print_module(module), encoding="utf-8")
        except OSError as error:
            raise LoweringError.at(
                module.location, f"failed to open output file {target / name}: {error.strerror}"
            ) from error


def read_split(directory: str | Path, context: Context | None = None) -> dict[str, Module]:
    """Read the files that `write_split` wrote; other files of the directory are not looked at.

    Raises `ktir.ParseError`, or `LoweringError` if a program's file is missing.
    """
    source = Path(directory)
    path = source / GLOBAL
    if not path.is_file():
        raise LoweringError((Diagnostic(f"{source} holds no {GLOBAL}"),))
    module = load(path, context)
    files = {GLOBAL: module}
    functions = [op for op in module.walk() if isinstance(op, Func)]
    outers = {f.symbol for f in functions if not f.is_declaration}
    for function in functions:
        if not function.is_declaration:
            continue
        name = function.symbol.removesuffix("_body")
        stem = name if name in outers else function.symbol
        file = file_name(stem)
        if not (source / file).is_file():
            raise LoweringError.at(function.location, f"{source} holds no {file}, the body of '{stem}'")
        files[file] = load(source / file, context)
    return files
