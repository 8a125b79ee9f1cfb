"""Device patterns: rewrites that a device brings along, in PDL text or in Python (device spec section 4)."""

from __future__ import annotations

from dfsched.patterns.driver import apply_device_patterns, apply_patterns, select_patterns
from dfsched.patterns.pattern import CHECKPOINTS, Pattern
from dfsched.patterns.registry import REGISTRY, PatternRegistry
from dfsched.patterns.rewriter import Abandon, Handle, Rewriter
from dfsched.patterns.templates import opaque_over_registers, simd_reduction

__all__ = [
    "CHECKPOINTS",
    "REGISTRY",
    "Abandon",
    "Handle",
    "Pattern",
    "PatternRegistry",
    "Rewriter",
    "apply_device_patterns",
    "apply_patterns",
    "opaque_over_registers",
    "select_patterns",
    "simd_reduction",
]
