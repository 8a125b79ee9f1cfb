"""Commands of dfsched on damaged files: what is wrong with how they take them, in bounded time and memory."""

from __future__ import annotations

import re
import resource
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from click.testing import CliRunner

import dfsched
from dfsched.cli import main
from repository import ROOT

__all__ = ["DEVICES", "LOCATED", "SECONDS", "TooSlow", "limited", "wrong_with"]

SECONDS = 20
"""CPU time that one command may take; the slowest takes about two seconds."""
BYTES = 2**31
"""Address space that one command may need beyond what the process has."""

DEVICES = {
    path.stem: path
    for path in (
        *sorted((Path(dfsched.__file__).parent / "devices").glob("*.mlir")),
        ROOT / "packages" / "dfsched" / "tests" / "devices" / "quad.mlir",
    )
}
LOCATED = re.compile(r"^[^\s:]+\.mlir:\d+:\d+: error: ", re.MULTILINE)
"""How an error with a place starts."""


class TooSlow(BaseException):
    """Not an `Exception`: nothing that is tested catches it."""


@contextmanager
def limited() -> Iterator[None]:
    """CPU time and address space of the block are bounded."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooSlow

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGVTALRM, stop)
    resource.setrlimit(resource.RLIMIT_AS, (used + BYTES, hard))
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGVTALRM, before)


def wrong_with(arguments: Sequence[object]) -> str | None:
    """What is wrong with how a command treats a file; None if it takes it, or refuses it at a line and column."""
    try:
        with limited():
            done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    except TooSlow:
        return f"more than {SECONDS} s"
    if done.exit_code == 0:
        return None
    if not isinstance(done.exception, SystemExit):
        return f"{type(done.exception).__name__}: {done.exception}"
    if done.exit_code != 1:
        return f"exit code {done.exit_code}: {done.output}"
    return None if LOCATED.search(done.stderr) else f"no place: {done.stderr}"
