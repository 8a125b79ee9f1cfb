"""Dataflow scheduler: KTIR to ScheduleIR to DataflowIR to SpyreCode for any described device."""

from __future__ import annotations

from dfsched.architecture import Architecture
from dfsched.architecture.loading import load_architecture
from dfsched.compilation import Compiled, compile, kernels
from dfsched.errors import DfschedError
from dfsched.options import Emit, Options, Profile
from dfsched.passes.errors import ScheduleError, UnknownPass, UnsupportedKernel
from dfsched.plan import NestPlan, Plan, Policy, ProgramFacts

__all__ = [
    "Architecture",
    "Compiled",
    "DfschedError",
    "Emit",
    "NestPlan",
    "Options",
    "Plan",
    "Policy",
    "Profile",
    "ProgramFacts",
    "ScheduleError",
    "UnknownPass",
    "UnsupportedKernel",
    "compile",
    "kernels",
    "load_architecture",
]
