"""Every MLIR file of the repository: an independent reader takes what we print, and printing is a fixed point."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import ktir
from ktir.cli import main
from repository import ROOT


def is_one_module(path: Path) -> bool:
    """Not several modules in one file, and not a bad one that a test gives to the verifier."""
    text = path.read_text()
    return "\n// -----" not in text and "// expected-" not in text


FILES = sorted(
    path.relative_to(ROOT)
    for folder in ("packages", "integration", "docs")
    for path in (ROOT / folder).rglob("*.mlir")
    if not {"out", ".venv", "node_modules"} & set(path.parts) and is_one_module(path)
)
KERNELS = [path for path in FILES if "func.func" in (ROOT / path).read_text()]


def name(path: Path) -> str:
    return str(path)


def fmt(text: str, *options: str) -> str:
    result = CliRunner().invoke(main, ["fmt", *options, "-"], input=text)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_the_files_are_found() -> None:
    assert {path.name for path in KERNELS} >= {"shifted_add.mlir", "softmax.mlir", "fused_chain.mlir"}
    assert {path.name for path in FILES} >= {"spyre.mlir", "sample.mlir"}


@pytest.mark.parametrize("path", FILES, ids=name)
def test_fmt_is_a_fixed_point(path: Path) -> None:
    """`ktir fmt` of its own output changes nothing, in custom and in generic form; both mean the same."""
    text = (ROOT / path).read_text()
    custom, generic = fmt(text), fmt(text, "--generic")
    assert fmt(custom) == custom
    assert fmt(generic, "--generic") == generic
    assert fmt(custom, "--generic") == generic
    assert fmt(generic) == custom


@pytest.mark.parametrize("path", FILES, ids=name)
def test_check_accepts_the_file(path: Path) -> None:
    result = CliRunner().invoke(main, ["check", str(ROOT / path)])
    assert result.exit_code == 0, result.stderr


# What xDSL cannot read (yet) although it is MLIR; each of these must go as soon as xDSL can.
XDSL_LACKS = {
    "attributes.mlir": "hexadecimal floats in dense arrays",
    "locations.mlir": "ranges of source text as locations",
    "sets_and_maps.mlir": "products with a symbol in affine expressions",
    "unknown_dialects.mlir": "names that an unregistered isolated operation uses again",
}


@pytest.mark.parametrize("path", KERNELS, ids=name)
def test_xdsl_parses_the_generic_print(path: Path) -> None:
    """xDSL sees the same operations in the same order (it keeps unknown types and attributes as text)."""
    pytest.importorskip("xdsl")
    from xdsl.context import Context
    from xdsl.dialects.builtin import Builtin, UnregisteredOp
    from xdsl.parser import Parser
    from xdsl.utils.exceptions import ParseError

    module = ktir.load(ROOT / path)
    context = Context(allow_unregistered=True)
    context.load_dialect(Builtin)
    parser = Parser(context, ktir.print_module(module, generic=True))
    if path.name in XDSL_LACKS:
        with pytest.raises((NotImplementedError, ParseError)):
            parser.parse_module()
        return
    parsed = parser.parse_module()
    theirs = [op.op_name.data if isinstance(op, UnregisteredOp) else op.name for op in parsed.walk()]
    assert theirs == [op.name for op in module.walk()]
