"""``prepare_kernel``: from an artefact to a plan that is resident on a device (runtime spec 3.12).

Synchronous and transactional: on any failure what was allocated is freed, nothing is cached, the error is
raised.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from spyrert.constants import PROG_OFFSET_BASE, align_up
from spyrert.context import DeviceContext
from spyrert.correction import HostFunction
from spyrert.device.protocol import Direction, MemoryType
from spyrert.errors import (
    DmaFault,
    SpyreCodeImageError,
    SpyreCodeSchemaError,
    SpyreCodeWarning,
    UnsupportedFeature,
    UnsupportedHcm,
    UnsupportedImage,
)
from spyrert.execution import Access, Copy, OpState, Stream
from spyrert.memory import CompositeAddress
from spyrert.plan import ComputeStep, D2HStep, EventStep, H2DStep, HostComputeStep, JobPlan, Step
from spyrert.spyrecode import (
    Addressing,
    ComputeOnDevice,
    ComputeOnHost,
    DataTransfer,
    EventSignal,
    EventWait,
    ForeignHcm,
    Image,
    SpyreCode,
    is_spyrebin,
)
from spyrert.spyrecode.code import CODE_DIR, MANIFEST


def prepare(
    context: DeviceContext,
    code: SpyreCode,
    stream: Stream,
    functions: Mapping[str, HostFunction],
    replicas: int,
    allow_baked: bool,
    on_release: Callable[[JobPlan], None],
    name: str | None = None,
) -> JobPlan:
    """Load an artefact and wait until it is resident; see :meth:`spyrert.Runtime.prepare_kernel`."""
    stream.state.check()
    cores = check_device(code, context, allow_baked)
    steps = translate(code, functions, name)
    blocks: list[CompositeAddress] = []
    directive = context.program_directive(MemoryType.PROGRAM_STATIC)
    try:
        for _ in range(replicas):
            blocks.append(context.allocator.allocate(align_up(code.static_size), directive))
        load(context, code, blocks, stream)
    except BaseException:
        for block in blocks:
            context.allocator.free(block)
        raise
    plan = JobPlan(context, code, steps, blocks, on_release, cores)
    plan.problem = foreign(code, context)
    if plan.problem is not None:
        warnings.warn(
            f"plan '{plan.name}' cannot be launched: {plan.problem}", SpyreCodeWarning, stacklevel=4
        )
    return plan


def check_device(code: SpyreCode, context: DeviceContext, allow_baked: bool) -> int:
    """Refuse an artefact that this device cannot run (no device contact); returns how many cores it uses."""
    props = context.props
    if code.addressing is Addressing.BAKED and not allow_baked and code.version > 0:
        raise UnsupportedFeature(
            f"kernel '{code.kernel_name}' has baked addresses; pass allow_baked=True to prepare it"
        )
    if code.launch is not None:
        if code.launch.f16_format != props.f16_format:
            raise UnsupportedImage(
                f"kernel '{code.kernel_name}' is made for f16 format {code.launch.f16_format}, device "
                f"{context.index} uses {props.f16_format}"
            )
        machine = code.launch.architecture
        if machine is not None and props.architecture is not None:
            name, digest = props.architecture
            if machine.name != name or (machine.digest and digest and machine.digest != digest):
                raise UnsupportedImage(
                    f"kernel '{code.kernel_name}' is made for {machine.name} {machine.digest[:12]}, "
                    f"device {context.index} is {name} {digest[:12]}"
                )
    cores = max((image.core_count for image in _images(code)), default=props.num_cores)
    if cores > props.num_cores:
        raise UnsupportedImage(
            f"kernel '{code.kernel_name}' needs {cores} cores, device {context.index} has {props.num_cores}"
        )
    return cores


def _images(code: SpyreCode) -> list[Image]:
    """Our images that the plan starts. A damaged one is left to the device, which reports a compute fault."""
    images = []
    for command in code.computes():
        data = code.image_at(command.job_bin_ptr)
        if data is not None and is_spyrebin(data):
            try:
                images.append(Image.decode(data))
            except SpyreCodeImageError as error:
                warnings.warn(
                    f"image of '{code.kernel_name}' is damaged: {error}", SpyreCodeWarning, stacklevel=5
                )
    return images


def foreign(code: SpyreCode, context: DeviceContext) -> UnsupportedImage | UnsupportedHcm | None:
    """Why no launch of this artefact can succeed: an image or metadata of a kind that nobody here
    understands."""
    for command in code.computes():
        data = code.image_at(command.job_bin_ptr)
        if data is None or not is_spyrebin(data):
            return UnsupportedImage(f"the image at {command.job_bin_ptr:#x} is foreign")
        kinds = context.props.payload_kinds
        kind = int.from_bytes(data[44:48], "little")
        if kinds and kind not in kinds:
            return UnsupportedImage(f"device {context.index} does not execute payload kind {kind:#x}")
    for host in code.host_computes():
        if isinstance(host.hcm, ForeignHcm) and not host.hcm.empty:
            return UnsupportedHcm(f"the metadata of '{host.ohandle}' is foreign")
    return None


def trace_name(code: SpyreCode) -> str:
    """What traces call the steps of an artefact: its kernel, or where a plain one lies (runtime spec
    3.11.2)."""
    if code.version or not code.path:
        return code.kernel_name
    folder = Path(code.path)
    if folder.name == MANIFEST:
        folder = folder.parent
    if folder.name == CODE_DIR:
        folder = folder.parent
    return f"{folder.parent.name}/{folder.name}/bundle.mlir"


def translate(code: SpyreCode, functions: Mapping[str, HostFunction], name: str | None = None) -> list[Step]:
    """The steps of the execution plan. An explicit ``name`` wins over names in the artefact."""
    prefix = trace_name(code) if name is None else name
    explicit = name is not None
    steps: list[Step] = []
    produced = {command.ohandle for command in code.host_computes()}
    chained = {command.ihandle for command in code.host_computes()}
    consumers = [t.host_handle for t in code.transfers() if t.to_device]
    hosts = 0
    for index, command in enumerate(code.execution):
        label = f"{prefix}#{index}"
        match command:
            case ComputeOnHost(hcm=hcm):
                function = "program_correction" if isinstance(hcm, ForeignHcm) else hcm.function
                if function not in functions:
                    raise SpyreCodeSchemaError(
                        f"unknown host function '{function}'",
                        path=code.path,
                        pointer=f"/JobExecPlan/{index}/properties/hcm/function",
                        index=index,
                    )
                pooled = command.ohandle not in chained and consumers.count(command.ohandle) == 1
                steps.append(
                    HostComputeStep(
                        functions[function],
                        hcm,
                        command.ohandle,
                        command.size,
                        command.ihandle,
                        hosts,
                        pooled,
                        label,
                    )
                )
                hosts += 1
            case DataTransfer(to_device=True):
                offset = command.dev_ptr - PROG_OFFSET_BASE
                prep = command.host_handle in produced
                steps.append(H2DStep(command.host_handle, offset, command.size, label, prep))
            case DataTransfer():
                steps.append(D2HStep(command.host_handle, command.dev_ptr, command.size, label))
            case ComputeOnDevice():
                steps.append(
                    ComputeStep(
                        command.job_bin_ptr - PROG_OFFSET_BASE, label if explicit else command.name or label
                    )
                )
            case EventSignal(number):
                steps.append(EventStep(number, True))
            case EventWait(number):
                steps.append(EventStep(number, False))
    return steps


def load(context: DeviceContext, code: SpyreCode, blocks: Sequence[CompositeAddress], stream: Stream) -> None:
    """Transfer every image to every replica, and wait."""
    operations, images = [], []
    for block in blocks:
        for command in code.init_transfers():
            data = code.file(command.file).ljust(align_up(command.size), b"\0")
            part = block.slice(command.dev_ptr - PROG_OFFSET_BASE, len(data))
            images.append(data)
            operations.append(
                Copy(
                    f"{code.kernel_name}/{command.file}",
                    (Access(block, part.pieces(), True),),
                    (data,),
                    direction=Direction.TO_DEVICE,
                    host=lambda data=data: memoryview(data),  # type: ignore[misc]
                    pieces=part.pieces(),
                )
            )
    if not operations:
        return
    context.image_transfers += len(operations)
    context.scheduler.submit([(stream.state, operation) for operation in operations])
    context.scheduler.wait_for(lambda: all(o.state.over for o in operations), None, "prepare_kernel")
    for operation in operations:
        if operation.state is not OpState.DONE:
            assert operation.error is not None
            raise operation.error
    if context.config.verify_load:
        for operation, data in zip(operations, images, strict=True):
            back = b"".join(context.device.peek(p.region_id, p.offset, p.size) for p in operation.pieces)
            if back != data:
                raise DmaFault(f"{operation.name} does not read back as it was written")
