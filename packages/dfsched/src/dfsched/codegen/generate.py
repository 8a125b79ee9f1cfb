"""From DataflowIR files to a SpyreCode artefact."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version

from attrs import frozen

from dfsched.architecture import Architecture
from dfsched.codegen.build import BuiltImage, build_image
from dfsched.codegen.errors import CodegenError
from dfsched.codegen.launch import LaunchPlan, launch_plan
from dfsched.errors import placed
from dfsched.image import InvalidImage, encode
from ktir.dialects.builtin import Module
from ktir.interface import find_function
from spyrert.errors import SpyreCodeError
from spyrert.spyrecode import PayloadKind, Producer, SpyreCode, assemble

__all__ = ["Generated", "generate"]


@frozen
class Generated:
    """What code generation made of one kernel."""

    built: BuiltImage
    launch: LaunchPlan
    code: SpyreCode


def generate(
    files: Mapping[str, Module], module: Module, kernel: str, architecture: Architecture
) -> Generated:
    """Encode a kernel and package it.

    `files` is DataflowIR as `dfsched.split.split` makes it; `module` the KTIR that it comes from, for the
    kernel's signature.  Raises `CodegenError`, and `ktir.KtirError` for a signature that cannot be derived.
    """
    launch = launch_plan(module, kernel, architecture)
    place = find_function(module, kernel).location
    try:
        built = build_image(files, launch.spec, architecture)
        payload = encode(built.image)
    except CodegenError as error:
        raise CodegenError(placed(error.diagnostics, place)) from error
    except InvalidImage as error:
        raise CodegenError.at(place, str(error)) from error
    try:
        code = assemble(
            payload,
            PayloadKind.DFBIN,
            launch.spec,
            built.symbols,
            core_count=built.image.grid,
            addressing=launch.addressing,
            producer=Producer("dfsched", version("dfsched")),
        )
        code.validate()
    except SpyreCodeError as error:  # names that an artefact cannot hold, numbers outside of its limits
        raise CodegenError.at(place, f"kernel has no SpyreCode: {error}") from error
    return Generated(built, launch, code)
