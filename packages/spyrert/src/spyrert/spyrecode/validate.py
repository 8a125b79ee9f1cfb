"""The rules of the format that go beyond types: addresses, handles, order, cross checks (runtime spec
1.3-1.7).

Each rule says what happens for version 1 (ours) and version 0 (plain upstream): an error, or a warning.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import NoReturn

from spyrert.constants import DEVICE_ALIGNMENT, PROG_OFFSET_BASE, SEGMENT_SIZE, align_up
from spyrert.errors import (
    LaunchSpecError,
    SpyreCodeAddressError,
    SpyreCodeError,
    SpyreCodeHandleError,
    SpyreCodeImageError,
    SpyreCodeNotFound,
    SpyreCodeOrderError,
    SpyreCodePathError,
    SpyreCodeSchemaError,
    SpyreCodeWarning,
    UnsupportedFeature,
)
from spyrert.spyrecode._json import file_name_problem, name_problem
from spyrert.spyrecode.code import MANIFEST, Addressing, Span, SpyreCode
from spyrert.spyrecode.commands import (
    Allocate,
    ComputeOnDevice,
    ComputeOnHost,
    DataTransfer,
    EventSignal,
    EventWait,
    InitTransfer,
)
from spyrert.spyrecode.expressions import Addr, Dim, Dyn, Pool, Stride, Sym, leaves
from spyrert.spyrecode.hcm import Hcm
from spyrert.spyrecode.image import Abi, Image, is_spyrebin
from spyrert.spyrecode.layout import StickLayout

KNOWN_FEATURES = frozenset({"reduction_tiling"})
MAX_BAKED_ARGUMENTS = 7


def check(code: SpyreCode) -> None:
    """Raise the first violation; odd things that version 0 tolerates become ``SpyreCodeWarning``."""
    _Checker(code).run()


class _Checker:
    def __init__(self, code: SpyreCode) -> None:
        self.code = code
        self.path = code.path or MANIFEST
        self.strict = code.version > 0

    def run(self) -> None:
        self.names()
        self.features()
        self.plans()
        self.addresses()
        self.handles()
        self.order()
        self.cross()

    # -- reporting -----------------------------------------------------------------------------

    def fail(
        self,
        error: type[SpyreCodeError],
        message: str,
        pointer: str = "",
        index: int | None = None,
        execution: bool = False,
    ) -> NoReturn:
        prefix = "Failed to parse SpyreCode command: " if execution else ""
        raise error(prefix + message, path=self.path, pointer=pointer, index=index)

    def soft(
        self, error: type[SpyreCodeError], message: str, pointer: str, index: int, execution: bool
    ) -> None:
        """An error in version 1, a warning in version 0."""
        if self.strict:
            self.fail(error, message, pointer, index, execution)
        warnings.warn(f"{self.path}: {pointer}: {message}", SpyreCodeWarning, stacklevel=2)

    # -- rules ---------------------------------------------------------------------------------

    def names(self) -> None:
        code = self.code
        problem = name_problem(code.kernel_name)
        if problem is not None:
            self.fail(SpyreCodeSchemaError, problem, "/kernel_name")
        for file in code.files:
            problem = file_name_problem(file.name)
            if problem is not None:
                self.fail(SpyreCodePathError, problem, "/files")
        for index, command in enumerate(code.execution):
            match command:
                case ComputeOnHost(ohandle=name) | DataTransfer(host_handle=name):
                    problem = name_problem(name)
                case ComputeOnDevice(name=name):
                    problem = name_problem(name, empty=True)
                case _:
                    problem = None
            if problem is not None:
                self.fail(SpyreCodeSchemaError, problem, f"/JobExecPlan/{index}/properties", index, True)

    def features(self) -> None:
        for feature in self.code.features:
            if feature not in KNOWN_FEATURES:
                raise UnsupportedFeature(
                    f"{self.path}: required feature {feature!r} is not known", feature=feature
                )

    def plans(self) -> None:
        code = self.code
        plan = "/JobPreparationPlan"
        if not code.preparation or not isinstance(code.preparation[0], Allocate):
            self.fail(SpyreCodeSchemaError, "the first command must be Allocate", f"{plan}/0", 0)
        for index, command in enumerate(code.preparation[1:], 1):
            if not isinstance(command, InitTransfer):
                self.fail(
                    SpyreCodeSchemaError, "there must be exactly one Allocate", f"{plan}/{index}", index
                )
        if len(code.preparation) < 2 and not (
            self.strict and code.addressing is Addressing.NONE and not list(code.computes())
        ):
            self.fail(SpyreCodeSchemaError, "the preparation plan needs Allocate and an InitTransfer", plan)

    def addresses(self) -> None:
        code = self.code
        allocate = code.allocate
        here = "/JobPreparationPlan/0/properties"
        if not 1 <= allocate.static_size <= SEGMENT_SIZE:
            self.fail(
                SpyreCodeAddressError,
                f"static size {allocate.static_size} is not in 1..2**34",
                f"{here}/size",
                0,
            )
        if allocate.dynamic_size > SEGMENT_SIZE:
            self.fail(
                SpyreCodeAddressError,
                f"dynamic size {allocate.dynamic_size} is greater than 2**34",
                f"{here}/dynamic_size",
                0,
            )
        images: list[tuple[int, Span]] = []
        for index, command in enumerate(code.preparation):
            if not isinstance(command, InitTransfer):
                continue
            pointer = f"/JobPreparationPlan/{index}/properties"
            span = self.block(command.dev_ptr, command.size, pointer, index, False)
            try:
                length = len(code.file(command.file))
            except KeyError:
                self.fail(
                    SpyreCodeNotFound, f"file '{command.file}' is missing", f"{pointer}/init_bin_file", index
                )
            if length != command.size:
                self.fail(
                    SpyreCodeAddressError,
                    f"file '{command.file}' has {length} bytes, the command says {command.size}",
                    f"{pointer}/size",
                    index,
                )
            for other, loaded in images:
                if span.overlaps(loaded):
                    self.fail(
                        SpyreCodeAddressError,
                        f"image overlaps that of command {other}",
                        f"{pointer}/dev_ptr",
                        index,
                    )
            images.append((index, span))
        for index, item in enumerate(code.execution):
            pointer = f"/JobExecPlan/{index}/properties"
            match item:
                case DataTransfer():
                    if (
                        not item.to_device
                        and code.addressing is Addressing.BAKED
                        and item.dev_ptr < PROG_OFFSET_BASE
                    ):
                        self.aligned(item.dev_ptr, pointer, index, True)
                        continue
                    span = self.block(item.dev_ptr, item.size, pointer, index, True)
                    if item.to_device and any(span.overlaps(loaded) for _, loaded in images):
                        self.soft(
                            SpyreCodeAddressError,
                            "the correction area overlaps an image",
                            f"{pointer}/dev_ptr",
                            index,
                            True,
                        )
                case ComputeOnDevice():
                    offset = self.offset(item.job_bin_ptr, f"{pointer}/job_bin_ptr", index, True)
                    inside = any(loaded.offset <= offset < loaded.end for _, loaded in images)
                    if offset >= align_up(code.static_size):
                        self.fail(
                            SpyreCodeAddressError,
                            f"job_bin_ptr {item.job_bin_ptr} lies behind the static block",
                            f"{pointer}/job_bin_ptr",
                            index,
                            True,
                        )
                    if not inside:
                        self.soft(
                            SpyreCodeAddressError,
                            f"job_bin_ptr {item.job_bin_ptr} lies in no loaded image",
                            f"{pointer}/job_bin_ptr",
                            index,
                            True,
                        )
                case ComputeOnHost():
                    if item.oshape and math.prod(item.oshape) != item.size:
                        self.soft(
                            SpyreCodeAddressError,
                            f"oshape {list(item.oshape)} does not have {item.size} bytes",
                            f"{pointer}/oshape",
                            index,
                            True,
                        )
                    if not 1 <= item.size <= SEGMENT_SIZE:
                        self.fail(
                            SpyreCodeAddressError,
                            f"size {item.size} is not in 1..2**34",
                            f"{pointer}/size",
                            index,
                            True,
                        )

    def aligned(self, pointer: int, at: str, index: int, execution: bool) -> None:
        if pointer % DEVICE_ALIGNMENT:
            self.fail(
                SpyreCodeAddressError,
                f"address {pointer:#x} is not a multiple of 128",
                f"{at}/dev_ptr",
                index,
                execution,
            )

    def offset(self, pointer: int, at: str, index: int, execution: bool) -> int:
        offset = pointer - PROG_OFFSET_BASE
        if not 0 <= offset < SEGMENT_SIZE:
            self.fail(
                SpyreCodeAddressError,
                f"address {pointer:#x} is out of program segment bounds",
                at,
                index,
                execution,
            )
        if pointer % DEVICE_ALIGNMENT:
            self.fail(
                SpyreCodeAddressError, f"address {pointer:#x} is not a multiple of 128", at, index, execution
            )
        return offset

    def block(self, pointer: int, size: int, at: str, index: int, execution: bool) -> Span:
        offset = self.offset(pointer, f"{at}/dev_ptr", index, execution)
        if size == 0:
            self.fail(SpyreCodeAddressError, "size must be greater than 0", f"{at}/size", index, execution)
        static = align_up(self.code.static_size)
        if offset + size > static:
            self.fail(
                SpyreCodeAddressError,
                f"range {offset:#x}+{size} is out of program segment bounds ({static} bytes are allocated)",
                f"{at}/size",
                index,
                execution,
            )
        if size % DEVICE_ALIGNMENT:
            self.soft(
                SpyreCodeAddressError, f"size {size} is not a multiple of 128", f"{at}/size", index, execution
            )
        return Span(offset, align_up(size))

    def handles(self) -> None:
        defined: dict[str, int] = {}
        produced: dict[str, int] = {}
        for index, command in enumerate(self.code.execution):
            pointer = f"/JobExecPlan/{index}/properties"
            match command:
                case ComputeOnHost():
                    if command.ihandle:
                        if command.ihandle not in defined:
                            self.fail(
                                SpyreCodeHandleError,
                                f"ihandle '{command.ihandle}' not found in pinned buffer map",
                                f"{pointer}/ihandle",
                                index,
                                True,
                            )
                        produced.pop(command.ihandle, None)
                    if command.ohandle in defined:
                        self.fail(
                            SpyreCodeHandleError,
                            f"ohandle '{command.ohandle}' already exists in pinned buffer map",
                            f"{pointer}/ohandle",
                            index,
                            True,
                        )
                    defined[command.ohandle] = command.size
                    produced[command.ohandle] = index
                case DataTransfer(to_device=True):
                    if command.host_handle not in defined:
                        self.fail(
                            SpyreCodeHandleError,
                            f"Host handle '{command.host_handle}' not found in pinned buffer map",
                            f"{pointer}/host_handle",
                            index,
                            True,
                        )
                    produced.pop(command.host_handle, None)
                    if command.size != defined[command.host_handle]:
                        self.fail(
                            SpyreCodeOrderError,
                            f"transfer of {command.size} bytes, but '{command.host_handle}' has "
                            f"{defined[command.host_handle]}",
                            f"{pointer}/size",
                            index,
                            True,
                        )
                case DataTransfer():
                    if command.host_handle in defined:
                        self.fail(
                            SpyreCodeHandleError,
                            f"Host handle '{command.host_handle}' already exists in pinned buffer map",
                            f"{pointer}/host_handle",
                            index,
                            True,
                        )
                    defined[command.host_handle] = command.size
        for name, index in produced.items():
            self.soft(
                SpyreCodeHandleError,
                f"ohandle '{name}' is never consumed",
                f"/JobExecPlan/{index}/properties/ohandle",
                index,
                True,
            )

    def order(self) -> None:
        pending: int | None = None
        signalled: set[int] = set()
        for index, command in enumerate(self.code.execution):
            match command:
                case DataTransfer(to_device=True):
                    pending = index
                case ComputeOnDevice():
                    pending = None
                case EventSignal(number):
                    signalled.add(number)
                case EventWait(number) if number not in signalled:
                    self.fail(
                        SpyreCodeOrderError,
                        f"event {number} is waited for but not signalled before",
                        f"/JobExecPlan/{index}/properties/event_id",
                        index,
                        True,
                    )
        if pending is not None:
            self.fail(
                SpyreCodeOrderError,
                "a transfer to the device is not followed by a ComputeOnDevice",
                f"/JobExecPlan/{pending}",
                pending,
                True,
            )

    def cross(self) -> None:
        code = self.code
        if not self.strict:
            return
        static = align_up(code.static_size)
        taken = [Span(c.dev_ptr - PROG_OFFSET_BASE, c.size) for c in code.init_transfers()]
        taken += [Span(t.dev_ptr - PROG_OFFSET_BASE, t.size) for _, t in code.corrections()]
        for number, span in enumerate(code.spill):
            at = f"/memory/spill/{number}"
            if span.end > static:
                self.fail(SpyreCodeAddressError, "spill range lies behind the static block", at)
            if any(span.overlaps(other) for other in taken):
                self.fail(SpyreCodeAddressError, "spill range overlaps an image or a correction area", at)
        if code.launch is None:
            self.fail(SpyreCodeSchemaError, "an artefact of version 1 needs 'args'", "/args")
        for pointer, text in code.launch.problems():
            self.fail(LaunchSpecError, text, pointer)
        if code.launch.bundle_symbolic_args is (code.addressing is Addressing.BAKED):
            self.fail(
                LaunchSpecError,
                f"bundle_symbolic_args is {code.launch.bundle_symbolic_args}, addressing is "
                f"{code.addressing.value}",
                "/addressing",
            )
        if code.addressing is Addressing.BAKED:
            limit = MAX_BAKED_ARGUMENTS - (1 if code.launch.pool_size else 0)
            if len(code.launch.args) > limit:
                raise UnsupportedFeature(
                    f"{self.path}: baked addressing takes at most {limit} arguments, not "
                    f"{len(code.launch.args)}"
                )
        for index, command in enumerate(code.execution):
            if isinstance(command, ComputeOnHost) and isinstance(command.hcm, Hcm):
                self.symbols(command, command.hcm, index)

    def symbols(self, command: ComputeOnHost, hcm: Hcm, index: int) -> None:
        code = self.code
        launch = code.launch
        assert launch is not None
        here = f"/JobExecPlan/{index}/properties"

        def bad(number: int, message: str) -> NoReturn:
            self.fail(
                LaunchSpecError,
                f"symbol {number}: {message}",
                f"{here}/hcm/symbols/{number}/expr",
                index,
                True,
            )

        previous = 0
        for number, symbol in enumerate(hcm.symbols):
            if symbol.id >= previous:
                self.fail(
                    SpyreCodeSchemaError,
                    f"symbol ids must be negative and decrease, {symbol.id} follows {previous}",
                    f"{here}/hcm/symbols/{number}/id",
                    index,
                    True,
                )
            previous = symbol.id
            if symbol.unit < 1:
                self.fail(
                    SpyreCodeSchemaError,
                    f"unit of symbol {symbol.id} must be positive, not {symbol.unit}",
                    f"{here}/hcm/symbols/{number}/unit",
                    index,
                    True,
                )
            for leaf in leaves(symbol.expr):
                match leaf:
                    case Addr(arg) | Dim(arg, _) | Stride(arg, _) if arg >= len(launch.args):
                        bad(number, f"argument {arg} does not exist, there are {len(launch.args)}")
                    case Dim(arg, axis) if axis >= launch.args[arg].rank:
                        bad(number, f"argument {arg} has no axis {axis}")
                    case Stride(arg, axis):
                        layout = launch.args[arg].layout
                        rank = (
                            len(layout.device_size)
                            if isinstance(layout, StickLayout)
                            else launch.args[arg].rank
                        )
                        if axis >= rank:
                            bad(number, f"argument {arg} has no device axis {axis}")
                    case Sym(name) if launch.symbol(name) is None:
                        bad(number, f"'{name}' is no declared symbol")
                    case Pool() if not launch.pool_size:
                        bad(number, "the kernel has no pool argument")
                    case Dyn() if not code.dynamic_size:
                        bad(number, "the kernel has no dynamic block")
        expected = len(hcm.inputs)
        if not command.ihandle and command.ishape not in ((0,), (expected,)):
            self.fail(
                SpyreCodeSchemaError,
                f"ishape {list(command.ishape)} is not the number of distinct inputs, {expected}",
                f"{here}/ishape",
                index,
                True,
            )
        if hcm.output_size != command.size:
            self.fail(
                SpyreCodeOrderError,
                f"hcm output has {hcm.output_size} bytes, the command {command.size}",
                f"{here}/hcm/output/size",
                index,
                True,
            )
        if launch.symbol_kinds:
            if len(launch.symbol_kinds) != len(hcm.symbols):
                self.fail(
                    LaunchSpecError,
                    f"{len(launch.symbol_kinds)} symbol kinds for {len(hcm.symbols)} symbols",
                    "/symbol_kinds",
                )
            for number, (kind, symbol) in enumerate(zip(launch.symbol_kinds, hcm.symbols, strict=True)):
                used = {leaf.arg for leaf in leaves(symbol.expr) if isinstance(leaf, Addr)}
                if kind.arg_index >= 0 and used != {kind.arg_index}:
                    self.fail(
                        LaunchSpecError,
                        f"symbol kind {number} names argument {kind.arg_index}, not {sorted(used)}",
                        f"/symbol_kinds/{number}",
                    )


def check_images(code: SpyreCode) -> None:
    """Open every ``SPYREBIN`` image that is started and compare its header with the plans.

    Foreign images pass. Raises ``SpyreCodeImageError``.
    """
    path = code.path or MANIFEST
    areas = {
        (transfer.dev_ptr - PROG_OFFSET_BASE, transfer.size): host.hcm
        for host, transfer in code.corrections()
    }
    for index, command in enumerate(code.execution):
        if not isinstance(command, ComputeOnDevice):
            continue
        data = code.image_at(command.job_bin_ptr)
        if data is None or not is_spyrebin(data):
            continue
        pointer = f"/JobExecPlan/{index}/properties/job_bin_ptr"
        bad = _reporter(path, pointer, index)
        try:
            image = Image.decode(data)
        except SpyreCodeImageError as error:
            bad(error.reason)
        if image.correction_offset is not None:
            hcm = areas.get((image.correction_offset, image.correction_size))
            if hcm is None:
                bad(
                    f"image reads a correction at {image.correction_offset}+{image.correction_size}, the "
                    f"plan writes {sorted(areas) or 'none'}"
                )
            if isinstance(hcm, Hcm) and hcm.entries != image.num_symbols:
                bad(f"image has {image.num_symbols} symbols, its host metadata {hcm.entries}")
        if image.uses_dynamic and not code.dynamic_size:
            bad("image uses dynamic memory, the plan allocates none")
        if code.addressing is not Addressing.NONE:
            expected = Abi.BAKED if code.addressing is Addressing.BAKED else Abi.SYMBOLIC
            if image.abi is not expected:
                bad(f"image abi is {image.abi.name.lower()}, addressing is {code.addressing.value}")
        if code.launch is not None and code.launch.f16_format != image.f16_format:
            bad(f"image has f16 format {image.f16_format}, the launch spec {code.launch.f16_format}")


def _reporter(path: str, pointer: str, index: int) -> Callable[[str], NoReturn]:
    def bad(message: str) -> NoReturn:
        raise SpyreCodeImageError(message, path=path, pointer=pointer, index=index)

    return bad
