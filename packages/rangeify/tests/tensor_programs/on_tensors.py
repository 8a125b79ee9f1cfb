"""Program text on lazy tensors."""

from __future__ import annotations

from typing import Any

from rangeify import Tensor
from tensor_programs.on_arrays import array_of, index
from tensor_programs.program import Program
from uopgraph import UOp


def tensors(program: Program, realise: bool = False) -> dict[str, Tensor]:
    """Every name at the end, as a Tensor; with `realise` those that the program's pauses name are computed on the
    way."""
    held = [Tensor(array_of(i)) for i in program.inputs]
    names: dict[str, Any] = {"load": held.__getitem__, "index": index}
    if program.symbol is not None:
        names["p"] = UOp.variable("p", 0, program.symbol.high).bind(program.symbol.value)
    for i, line in enumerate(program.lines):
        exec(line, names)
        for at, name in program.pauses:
            if realise and at == i:
                names[name].realize()
    return {name: names[name] for name in program.names}
