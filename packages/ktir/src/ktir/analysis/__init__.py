"""Questions about IR that the frozen classes do not answer: who defines, who uses, who dominates."""

from ktir.analysis.defuse import DefUse, Use
from ktir.analysis.dominance import Dominance
from ktir.analysis.effects import has_effects, is_pure

__all__ = ["DefUse", "Dominance", "Use", "has_effects", "is_pure"]
