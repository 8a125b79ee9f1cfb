"""Looking into an artefact: its image as text, with what the host computes for its symbols."""

from __future__ import annotations

from pathlib import Path

from dfsched.codegen.errors import CodegenError
from dfsched.image import Image, decode
from dfsched.image.listing import listing
from spyrert.spyrecode import (
    Addr,
    Binary,
    BinaryOp,
    Const,
    Expr,
    Hcm,
    LaunchSpec,
    PayloadKind,
    SpyreCode,
    Sym,
)
from spyrert.spyrecode import Image as Container

__all__ = ["disassemble", "expression_text", "images_of"]

_INFIX = {
    BinaryOp.ADD: "+",
    BinaryOp.SUB: "-",
    BinaryOp.MUL: "*",
    BinaryOp.FLOORDIV: "//",
    BinaryOp.MOD: "%",
}


def images_of(code: SpyreCode) -> list[Image]:
    """The device images of an artefact, in order of execution; `CodegenError` if one is not ours."""
    found = []
    for command in code.computes():
        data = code.image_at(command.job_bin_ptr)
        if data is None:
            raise CodegenError.about(f"no image at {command.job_bin_ptr:#x}")
        container = Container.decode(data)
        if container.payload_kind != PayloadKind.DFBIN:
            raise CodegenError.about(
                f"payload kind {container.payload_kind:#x} is no device image of this package"
            )
        found.append(decode(container.payload))
    return found


def disassemble(path: str | Path) -> str:
    """Every image of an artefact (folder or ``.spyrecode`` file) as text.

    Raises what `SpyreCode.read` raises, `InvalidImage`, and `CodegenError` for foreign images.
    """
    code = SpyreCode.read(path)
    expressions: list[str] = []
    for command in code.host_computes():
        if isinstance(command.hcm, Hcm):
            for symbol in command.hcm.symbols:
                text = expression_text(symbol.expr, code.launch)
                expressions.append(text if symbol.unit == 1 else f"{_nested(text)} / {symbol.unit}")
    return "\n".join(listing(image, expressions) for image in images_of(code))


def expression_text(expr: Expr, launch: LaunchSpec | None = None) -> str:
    """A symbol's expression in infix form, arguments by name: ``a + 1024``."""
    match expr:
        case Const(value):
            return str(value)
        case Addr(argument, None):
            known = launch is not None and argument < len(launch.args)
            return (launch.args[argument].name if launch is not None and known else "") or f"arg{argument}"
        case Sym(name):
            return name
        case Binary(op, lhs, rhs) if op in _INFIX:
            left, right = expression_text(lhs, launch), expression_text(rhs, launch)
            return f"{_nested(left)} {_INFIX[op]} {_nested(right)}"
        case Binary(op, lhs, rhs):
            return f"{op.value}({expression_text(lhs, launch)}, {expression_text(rhs, launch)})"
        case _:
            return str(expr)


def _nested(text: str) -> str:
    return f"({text})" if " " in text else text
