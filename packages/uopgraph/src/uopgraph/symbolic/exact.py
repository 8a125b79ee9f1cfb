"""The exact set as one matcher: every rule keeps every bit of every value."""

from __future__ import annotations

from typing import Final

from uopgraph.pattern import PatternMatcher
from uopgraph.symbolic.general import general
from uopgraph.symbolic.poison import poison
from uopgraph.symbolic.simple import simple
from uopgraph.symbolic.strong import strong
from uopgraph.symbolic.weakint import weakint

symbolic: Final[PatternMatcher] = poison + simple + weakint + strong + general
