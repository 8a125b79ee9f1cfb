"""What an unknown name may have been meant to be: notes for syntax errors."""

from __future__ import annotations

from collections.abc import Iterable

from ktir.context import Context

__all__ = ["closest", "for_attribute", "for_operation", "for_type", "for_type_name"]


def closest(name: str, known: Iterable[str], sigil: str = "") -> tuple[str, ...]:
    """``did you mean '%x'?`` for the most similar known name, nothing if none is similar."""
    from difflib import get_close_matches

    return tuple(f"did you mean '{sigil}{found}'?" for found in get_close_matches(name, list(known), 1))


def for_operation(name: str, context: Context) -> tuple[str, ...]:
    """Notes for an operation that the context does not know."""
    from ktir.dialects.ktdp import PROPOSED

    if name in (proposal.definition.name for proposal in PROPOSED):
        return ("this operation is a proposal: allow it with Context(proposed=True), --proposed",)
    dialect, dot, _ = name.partition(".")
    if dot and not context.has_dialect(dialect):
        return (
            f"dialect '{dialect}' is not known; its operations are read in generic form: \"{name}\"(...)",
        )
    known = [op.definition.name for d in context.dialects for op in d.operations]
    if dot:
        return closest(name, known)
    same = [full for full in known if full.partition(".")[2] == name]
    if same:
        return (f"did you mean {' or '.join(map(repr, same))}?",)
    bare = [full.removeprefix("func.") for full in known if full.startswith("func.")]  # may stand without
    return closest(name, bare) or closest(name, known)


def for_type(mnemonic: str, dialect: str, context: Context) -> tuple[str, ...]:
    """Notes for a type that a known dialect does not have."""
    return _members(mnemonic, [t.mnemonic for d in context.dialects if d.name == dialect for t in d.types])


def for_attribute(mnemonic: str, dialect: str, context: Context) -> tuple[str, ...]:
    """Notes for an attribute that a known dialect does not have."""
    return _members(
        mnemonic, [a.mnemonic for d in context.dialects if d.name == dialect for a in d.attributes]
    )


def for_type_name(name: str) -> tuple[str, ...]:
    """Notes for a word where a type should be: names that other languages have."""
    here = _ELSEWHERE.get(name.lower())
    return () if here is None else (f"here it is called {here}",)


_ELSEWHERE = {
    **dict.fromkeys(("fp16", "float16", "half"), "f16"),
    **dict.fromkeys(("bfloat16", "bfloat"), "bf16"),
    **dict.fromkeys(("fp32", "float32", "float"), "f32"),
    **dict.fromkeys(("fp64", "float64", "double"), "f64"),
    **dict.fromkeys(("bool", "boolean"), "i1"),
    **{f"int{n}": f"i{n}" for n in (8, 16, 32, 64)},
    **{f"uint{n}": f"ui{n}" for n in (8, 16, 32, 64)},
    "int": "i32, i64 or index",
}


def _members(mnemonic: str, full: Iterable[str]) -> tuple[str, ...]:
    known = sorted(name.partition(".")[2] for name in full)
    return closest(mnemonic, known) or ((f"there are: {', '.join(known)}",) if known else ())
