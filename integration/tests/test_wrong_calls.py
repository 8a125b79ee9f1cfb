"""Public functions with arguments of wrong types: exceptions of the package, never what Python happens to raise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dfsched
import ktir
import spyresim
from ktir.types import F32
from spyrert.errors import SpyreError
from spyresim.testing.compute_kernels import KERNELS

MODULE = ktir.parse(KERNELS["row sums"])
COMPILED = dfsched.compile(MODULE, "spyre")
ARGUMENTS = {"p_x": np.zeros((4, 200), np.float16)}
WRONG = {
    "None": None,
    "integer": 3,
    "negative": -1,
    "huge": 10**30,
    "float": 1.5,
    "nan": float("nan"),
    "text": "nope",
    "empty text": "",
    "long text": "x" * 5000,
    "zero byte": "a\0b",
    "bytes": b"x",
    "tuple": (),
    "list": [1],
    "nested": [[{}]],
    "no argument": {"q": 1},
    "argument None": {"p_x": None},
    "argument text": {"p_x": "a"},
    "argument list": {"p_x": [1, 2]},
    "argument of another shape": {"p_x": np.zeros(3, np.float16)},
    "argument of another dtype": {"p_x": np.zeros((4, 200), np.complex128)},
    "argument of objects": {"p_x": np.full((4, 200), None)},
    "numbers as names": {3: 4},
    "object": object(),
    "array": np.zeros(3),
    "path": Path("/nonexistent"),
    "true": True,
    "function": print,
    "class": type,
    "module": MODULE,
    "compiled": COMPILED,
}


def _options(**fields: Any) -> dfsched.Compiled:
    return dfsched.compile(MODULE, "spyre", dfsched.Options(**{"emit": "schedule", **fields}))


def _pins(**fields: Any) -> dfsched.Compiled:
    return _options(pins=fields)


PINS = ("loop_order", "tile_sizes", "buffer_depths", "sunk_loops", "hoisted", "instance_loop", "instances")
CALLS: Mapping[str, tuple[Callable[..., object], dict[str, Any]]] = {
    "compile": (dfsched.compile, {"module": MODULE, "device": "spyre", "options": dfsched.Options()}),
    "kernels": (dfsched.kernels, {"module": MODULE}),
    "load_architecture": (dfsched.load_architecture, {"source": "spyre"}),
    "Options": (
        _options,
        {
            "profile": "default",
            "kernel": None,
            "policy": dfsched.Options().policy,
            "pins": {},
            "disabled": (),
            "stop_after": None,
            "verify": True,
            "verify_each": False,
            "emit": "schedule",
        },
    ),
    "pins": (
        _pins,
        {name: getattr(COMPILED.plans[0].nests[0], name) for name in (*PINS, "accumulator", "limit")},
    ),
    "policy": (lambda plan: _options(policy=lambda facts, device: plan), {"plan": COMPILED.plans[0]}),
    "run_ktir": (
        spyresim.run_ktir,
        {
            "module": MODULE,
            "function": "kernel",
            "args": ARGUMENTS,
            "machine": None,
            "schedule": "lockstep",
            "seed": 0,
            "budget": 10**6,
            "out_of_range": "error",
            "unwritten": "error",
        },
    ),
    "run_schedule": (
        spyresim.run_schedule,
        {
            "program": COMPILED,
            "args": ARGUMENTS,
            "module": None,
            "interface": None,
            "architecture": None,
            "machine": None,
            "budget": 10**6,
        },
    ),
    "run_dataflow": (
        spyresim.run_dataflow,
        {"compiled": COMPILED, "args": ARGUMENTS, "device": None, "options": None},
    ),
    "run_device": (
        spyresim.run_device,
        {"code": COMPILED, "args": ARGUMENTS, "device": None, "options": None},
    ),
    "verify": (
        spyresim.verify,
        {"module": MODULE, "device": "spyre", "kernel": None, "args": {}, "options": None, "seeds": 1},
    ),
    "Session": (spyresim.Session, {"machine": None}),
    "Session.place": (
        spyresim.Session().place,
        {"array": np.zeros(3, np.float32), "layout": None, "element": None},
    ),
    "Session.allocate": (spyresim.Session().allocate, {"layout": ktir.LinearLayout((3,), F32)}),
    "SimDevice": (spyresim.SimDevice, {"index": 0, "device": "spyre", "f16_format": "ieee"}),
}
NO_MISTAKE = {
    ("verify", "seeds", "huge"),  # so many it would do
    ("Options", "policy", "class"),  # what a policy raises is its own affair
}
OWN = (dfsched.DfschedError, spyresim.SpyresimError, ktir.KtirError, SpyreError)


def test_right_calls() -> None:
    """What is damaged below works."""
    for call, arguments in CALLS.values():
        call(**arguments)


@pytest.mark.parametrize(("name", "argument"), [(n, a) for n, (_, given) in CALLS.items() for a in given])
def test_wrong_calls(name: str, argument: str) -> None:
    """One argument at a time; what happens to be right may work."""
    call, arguments = CALLS[name]
    wrong = []
    refused = 0
    for what, value in WRONG.items():
        if (name, argument, what) in NO_MISTAKE:
            continue
        try:
            call(**{**arguments, argument: value})
        except OWN:
            refused += 1
        except Exception as error:  # noqa: BLE001
            wrong.append(f"{what}: {type(error).__name__}: {error}"[:200])
    assert not wrong, "\n".join(wrong)
    assert refused
