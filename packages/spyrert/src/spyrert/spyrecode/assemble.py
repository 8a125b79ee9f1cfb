"""Putting an artefact together from a program and its symbols, with the recommended placement (runtime spec
1.5)."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from spyrert.constants import align_up, program_address
from spyrert.spyrecode.code import (
    DEFAULT_IMAGE,
    Addressing,
    CodeFile,
    Producer,
    Span,
    SpyreCode,
)
from spyrert.spyrecode.commands import (
    Allocate,
    ComputeOnDevice,
    ComputeOnHost,
    DataTransfer,
    ExecCommand,
    InitTransfer,
)
from spyrert.spyrecode.hcm import Hcm, HcmSymbol
from spyrert.spyrecode.image import Abi, Image
from spyrert.spyrecode.launchspec import LaunchSpec

RESERVED_BYTES = 128


def assemble(
    payload: bytes,
    payload_kind: int,
    launch: LaunchSpec,
    symbols: Sequence[HcmSymbol] = (),
    *,
    core_count: int = 1,
    addressing: Addressing = Addressing.SYMBOLIC,
    dynamic_size: int = 0,
    spill_size: int = 0,
    read_only_io: bool = False,
    producer: Producer | None = None,
    features: Sequence[str] = (),
) -> SpyreCode:
    """One image, one launch: the usual artefact.

    The static block (segment 7) holds 128 reserved bytes, the correction area (if there are symbols), the
    image, and ``spill_size`` bytes for intermediates, each on a multiple of 128.

    Args:
        payload: the program; opaque here.
        payload_kind: :class:`PayloadKind`, e.g. ``PayloadKind.DFBIN``.
        launch: contract of the launch; gives the kernel's name and the f16 format. Its
            ``bundle_symbolic_args`` is set from ``addressing``.
        symbols: exactly the symbols that the program uses as operands, by decreasing id. The position of a
            symbol is the index of its correction entry and the image's slot.
        core_count: cores that the program runs on.
        addressing: symbolic, or baked for fixed tensor addresses.
        dynamic_size: bytes of segment 6 per launch.
        spill_size: bytes of the static block behind the image.
        read_only_io: the program never writes tensors.
        producer: who made it.
        features: what a reader must know.

    Returns a validated artefact.
    """
    launch = attrs.evolve(launch, bundle_symbolic_args=addressing is not Addressing.BAKED)
    hcm = Hcm(tuple(symbols))
    correction = Span(RESERVED_BYTES, hcm.output_size if symbols else 0)
    image_offset = align_up(correction.end)
    data = Image(
        payload,
        payload_kind,
        core_count,
        Abi.BAKED if addressing is Addressing.BAKED else Abi.SYMBOLIC,
        correction.offset if symbols else None,
        correction.size,
        len(symbols),
        dynamic_size > 0,
        read_only_io,
        launch.f16_format,
    ).encode()
    image = Span(image_offset, len(data))
    spill = Span(image.end, align_up(spill_size))
    execution: list[ExecCommand] = []
    if symbols:
        inputs = len(hcm.inputs)
        execution += [
            ComputeOnHost("correction", hcm.output_size, hcm, "", (inputs,), (hcm.output_size // 128, 128)),
            DataTransfer(True, "correction", program_address(correction.offset), correction.size),
        ]
    execution.append(ComputeOnDevice(program_address(image.offset), launch.kernel_name))
    code = SpyreCode(
        launch.kernel_name,
        (
            Allocate(align_up(spill.end), align_up(dynamic_size)),
            InitTransfer(DEFAULT_IMAGE, program_address(image.offset), image.size),
        ),
        tuple(execution),
        (CodeFile(DEFAULT_IMAGE, data),),
        addressing,
        launch,
        producer or Producer(),
        (spill,) if spill.size else (),
        tuple(features),
    )
    code.validate()
    return code
