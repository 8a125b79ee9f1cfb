"""Dead code elimination."""

from __future__ import annotations

from typing import TypeVar

from ktir.ir import Operation
from ktir.transforms.driver import rewrite

O = TypeVar("O", bound=Operation)


def dce(root: O) -> O:
    """Erase operations without effect whose results nobody uses, and what only they used."""
    from ktir.transforms.canonicalize import drop_dead

    return rewrite(root, (drop_dead,))
