"""What code generation raises."""

from __future__ import annotations

from attrs import frozen

from dfsched.errors import DfschedError
from ktir.errors import Diagnostic
from ktir.ir import Operation
from ktir.location import Location

__all__ = ["CodegenError", "unsupported"]


@frozen(str=False)
class CodegenError(DfschedError):
    """A program has no image; `diagnostics` says why and where."""

    diagnostics: tuple[Diagnostic, ...]

    @classmethod
    def at(cls, location: Location, message: str) -> CodegenError:
        """One finding at one place; the message gets ``code generation: `` in front."""
        return cls((Diagnostic(f"code generation: {message}", location),))

    @classmethod
    def about(cls, message: str) -> CodegenError:
        """A finding about the whole kernel."""
        return cls((Diagnostic(f"code generation: {message}"),))

    def __str__(self) -> str:
        return "\n".join(str(diagnostic) for diagnostic in self.diagnostics)


def unsupported(op: Operation, label: str, why: str = "") -> CodegenError:
    """The operation has no encoding in a unit program."""
    detail = f": {why}" if why else ""
    return CodegenError.at(op.location, f"unsupported op '{op.name}' in program unit {label}{detail}")
