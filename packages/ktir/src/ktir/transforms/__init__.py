"""Transformations that every compiler needs: folding, dead code, common subexpressions, loop invariants."""

from ktir.transforms.canonicalize import canonicalize
from ktir.transforms.clone import clone
from ktir.transforms.cse import cse
from ktir.transforms.dce import dce
from ktir.transforms.driver import Pattern, rewrite
from ktir.transforms.equivalence import alpha_equivalent, structural_hash
from ktir.transforms.flatten import flatten
from ktir.transforms.licm import licm

__all__ = [
    "Pattern",
    "alpha_equivalent",
    "canonicalize",
    "clone",
    "cse",
    "dce",
    "flatten",
    "licm",
    "rewrite",
    "structural_hash",
]
