"""The spyreop dialect: text round trips and diagnostics (KTIR spec 2, checklist 90-94)."""

from __future__ import annotations

import pytest

import ktir
from ktir.errors import ParseError, VerifyError
from ktir.types import DF16

KERNEL = """
func.func @k(%h: f16, %x: f32, %d: !spyreop.df16, %i: i32, %l: i64, %hf: !spyreop.fp16_fused,
             %ff: !spyreop.fp32_fused, %df: !spyreop.df16_fused, %s: tensor<64xf16>) {
  BODY
  return
}
"""


def check(body: str) -> str:
    parsed = ktir.parse(KERNEL.replace("BODY", body))
    ktir.verify(parsed)
    text = ktir.print_module(parsed)
    assert ktir.print_module(ktir.parse(text)) == text
    generic = ktir.print_module(parsed, generic=True)
    assert ktir.print_module(ktir.parse(generic)) == text
    return text.splitlines()[2].strip()


def rejected(body: str) -> str:
    with pytest.raises(VerifyError) as caught:
        ktir.verify(ktir.parse(KERNEL.replace("BODY", body)))
    return str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        "%0 = spyreop.addi32toi32 %i, %i",
        "%0 = spyreop.addi64toi64 %l, %l",
        "%0 = spyreop.muli32toi32 %i, %i",
        "%0 = spyreop.idx32toaddr %i base %i stride %i",
        "%0 = spyreop.idx32toaddr %i base 4096 stride 4",
        *[f"%0 = spyreop.{n} %{v} : {t}" for n in ("exp", "sqrt", "rsqrt", "reciprocal", "sigmoid", "silu")
          for v, t in (("h", "f16"), ("x", "f32"), ("d", "!spyreop.df16"))],
        "%0 = spyreop.gelu %h : f16",
        "%0 = spyreop.realdiv %d, %d : !spyreop.df16",
        "%0 = spyreop.softplus %h beta 2.000000e-01 threshold 2.000000e+01 : f16",
        *[f"%0 = spyreop.compare {k} %x, %x : f32" for k in
          ("equal", "notequal", "greaterthan", "greaterequal", "lesserthan", "lesserequal")],
        "%0 = spyreop.select %h, %h, %h : f16",
        "%0 = spyreop.constant 1.500000e+00 : f16",
        "%0:2 = spyreop.exx2 %x : f32",
        "%0 = spyreop.exx2_fused %h : f16 -> !spyreop.fp16_fused",
        "%0 = spyreop.exx2_fused %d : !spyreop.df16 -> !spyreop.df16_fused",
        "%0 = spyreop.exx2_zeromean_fused %x : f32 -> !spyreop.fp32_fused",
        "%0 = spyreop.layernormscale %h squares %h : f16",
        "%0 = spyreop.layernormscale %h : f16",
        "%0 = spyreop.layernormscale_fused %ff : !spyreop.fp32_fused -> f32",
        "%0 = spyreop.layernormnorm %h squares %h scale %h weight %h bias %h : f16",
        "%0 = spyreop.slice_reduction %s {reduction_kind = #spyreop.reduction_kind<abs_max>, reduction_scope = "
        "#spyreop.reduction_scope<across_slice>} : tensor<64xf16> -> tensor<64xf16>",
    ],
)  # fmt: skip
def test_round_trip(line: str) -> None:
    """ktir checklist 90. Every operation; integer ones print without a type."""
    assert check(line) == line


def test_accepted_spellings() -> None:
    """Older and bracketed forms of spec 2.3."""
    assert check("%0 = spyreop.idx32toaddr %i base 0x1000 stride 4").endswith("base 4096 stride 4")
    assert check("%0 = spyreop.compare <equal> %x, %x : f32") == "%0 = spyreop.compare equal %x, %x : f32"
    with pytest.raises(ParseError, match="to be one of: equal, notequal"):
        ktir.parse(KERNEL.replace("BODY", "%0 = spyreop.compare same %x, %x : f32"))


def test_df16_is_one_type() -> None:
    op = ktir.parse('"a.b"() : () -> tensor<4x!spyreop.df16>').operations[0]
    assert str(op.results[0].type) == "tensor<4x!spyreop.df16>"
    assert DF16 in [getattr(op.results[0].type, "element", None)]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%0 = spyreop.exp %i : i32",
         "'spyreop.exp' op operand #0 must be 16-bit float or IBM df16 float or 32-bit float, but got 'i32'"),
        ("%0 = spyreop.softplus %h beta 0.0 threshold 20.0 : f16", "32-bit float attribute which is non-zero"),
        ("%0 = spyreop.exx2_fused %h : f16 -> !spyreop.fp32_fused",
         "inferred type(s) '!spyreop.fp16_fused' are incompatible with return type(s) of operation "
         "'!spyreop.fp32_fused'"),
        ("%0 = spyreop.exx2_fused %h : f16 -> f16",
         "result #0 must be A pair of df16 floats held as one value or A pair of 16-bit floats held as one value or "
         "A pair of 32-bit floats held as one value, but got 'f16'"),
        ("%0 = spyreop.layernormscale_fused %ff : !spyreop.fp32_fused -> f16", "are incompatible with return type(s)"),
        ("%0 = spyreop.constant 1 : i32", "result #0 must be 16-bit float or 32-bit float, but got 'i32'"),
        ('%0 = "spyreop.constant"() : () -> f16', "requires attribute 'value'"),
        ('%0 = "spyreop.constant"() <{value = 1.0 : f32}> : () -> f16',
         "failed to verify that all of {value, result} have same type"),
        ('%0 = "spyreop.exp"(%h) : (f16) -> f32', "requires the same type for all operands and results"),
        ("%0 = spyreop.gelu %x : f32", "must be 16-bit float or IBM df16 float, but got 'f32'"),
        ("%0 = spyreop.exp %s : tensor<64xf16>", "but got 'tensor<64xf16>'"),
    ],
)  # fmt: skip
def test_diagnostics(body: str, message: str) -> None:
    """ktir checklist 91-94."""
    assert message in rejected(body)
