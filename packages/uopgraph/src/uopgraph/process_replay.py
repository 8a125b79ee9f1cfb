"""Process replay: inputs and outputs of passes are written down, and compared after a change of the code.

A pass is a function from a graph to a graph. ``with recording_to(path) as record`` writes one line of JSON
for each ``record(name, function, root)``; :func:`compare` runs the passes of today on the inputs of then.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import unified_diff
from pathlib import Path
from typing import Final, TypeAlias

import attrs

from uopgraph.errors import EncodingError
from uopgraph.node import UOp
from uopgraph.render import dump
from uopgraph.serialize import from_json, to_json

Pass: TypeAlias = Callable[[UOp], UOp]

FORMAT: Final = 1


@attrs.frozen(eq=False)
class Recorded:
    """One run of a pass: its name, what it was given, and what it gave."""

    name: str
    root: UOp
    result: UOp


@attrs.frozen(eq=False)
class Difference:
    """A run that does not give what it gave. ``error``: what was raised; else ``result`` is new."""

    recorded: Recorded
    result: UOp | None
    error: str = ""

    @property
    def diff(self) -> str:
        """The two results as text, line by line."""
        if self.result is None:
            return f"{self.recorded.name}: {self.error}"
        old, new = dump(self.recorded.result).splitlines(), dump(self.result).splitlines()
        return "\n".join(unified_diff(old, new, f"{self.recorded.name}: then", "now", lineterm=""))


@contextmanager
def recording_to(path: Path | str) -> Iterator[Callable[[str, Pass, UOp], UOp]]:
    """Open a file for recordings. The function that it gives runs a pass, writes the run down (each pair of
    name and input once), and returns the result."""
    seen: set[tuple[str, bytes]] = set()
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps({"uopgraph_replay": FORMAT}) + "\n")

        def record(name: str, function: Pass, root: UOp) -> UOp:
            result = function(root)
            if (name, root.key) not in seen:
                seen.add((name, root.key))
                file.write(json.dumps([name, to_json(root), to_json(result)]) + "\n")
            return result

        yield record


def recorded(path: Path | str) -> Iterator[Recorded]:
    """The runs in a file. Raises :class:`EncodingError` naming the line that is wrong."""
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                data = json.loads(line)
                if number == 1:
                    if data != {"uopgraph_replay": FORMAT}:
                        raise ValueError(f"not a recording of format {FORMAT}")
                    continue
                name, root, result = data
                run = Recorded(str(name), from_json(root), from_json(result))
            except (ValueError, TypeError, EncodingError) as error:
                raise EncodingError(f"{path}, line {number}: {error}") from error
            yield run


def compare(runs: Iterable[Recorded], passes: Mapping[str, Pass]) -> list[Difference]:
    """The runs whose pass gives something else now, or raises; a pass that is not given counts as raising."""
    found = []
    for run in runs:
        function = passes.get(run.name)
        if function is None:
            found.append(Difference(run, None, "no such pass"))
            continue
        try:
            now = function(run.root)
        except Exception as error:  # noqa: BLE001 (whatever a changed pass raises is what we look for)
            found.append(Difference(run, None, f"{type(error).__name__}: {error}"))
            continue
        if now is not run.result:
            found.append(Difference(run, now))
    return found
