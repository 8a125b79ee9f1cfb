"""What is wrong with an image."""

from __future__ import annotations

from dfsched.errors import DfschedError

__all__ = ["InvalidImage"]


class InvalidImage(DfschedError):
    """Bytes (or a data model) are no valid DFBIN; `reason` says why, the text is ``invalid DFBIN: ...``."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"invalid DFBIN: {reason}")
