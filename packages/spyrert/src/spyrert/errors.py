"""The exception hierarchy of the package (runtime spec 3.18.1).

Everything derives from :class:`SpyreError`, a ``RuntimeError`` with structured fields. Three families matter
to callers: :class:`SpyreCodeError` (the artefact is bad), :class:`LaunchError` (the call is bad) and
:class:`DeviceError` (the device failed later, asynchronously).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class SpyreError(RuntimeError):
    """Base of all errors of the runtime.

    Fields that are not known are ``None``: ``device`` (index), ``stream_id``, ``op_id`` (of the operation),
    ``launch_seq`` (of the launch). ``details`` holds what is special to one error, by name.
    """

    code: str = ""

    def __init__(
        self,
        message: str,
        *,
        device: int | None = None,
        stream_id: int | None = None,
        op_id: int | None = None,
        launch_seq: int | None = None,
        **details: Any,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.device = device
        self.stream_id = stream_id
        self.op_id = op_id
        self.launch_seq = launch_seq
        self.details: Mapping[str, Any] = details
        self.code = self.code or type(self).__name__


class RuntimeUnavailable(SpyreError):
    """The runtime cannot be used here: after a fork, or after it was shut down."""


class DeviceIndexError(SpyreError):
    """A device index is out of range."""


class ConfigError(SpyreError):
    """A configuration value or environment variable is not understood."""


# -- artefact --------------------------------------------------------------------------------------


class SpyreCodeError(SpyreError):
    """A SpyreCode artefact is bad.

    ``path`` is the file or folder, ``pointer`` a JSON pointer into it (``""`` is the whole document) and
    ``index`` the number of the command in its plan, or ``None``.
    """

    def __init__(
        self, message: str, *, path: str = "", pointer: str = "", index: int | None = None, **fields: Any
    ) -> None:
        where = ": ".join(part for part in (path, pointer) if part)
        super().__init__(f"{where}: {message}" if where else message, **fields)
        self.reason = message
        self.path = path
        self.pointer = pointer
        self.index = index


class SpyreCodeNotFound(SpyreCodeError):
    """The folder, its manifest, or a file that the manifest names does not exist."""


class SpyreCodePathError(SpyreCodeError):
    """A file reference is absolute, climbs, or leads outside the folder."""


class SpyreCodeParseError(SpyreCodeError):
    """A file is not JSON as the format demands it (syntax, duplicate keys, depth, size)."""


class SpyreCodeSchemaError(SpyreCodeError):
    """A key is missing, has the wrong type, or holds a value that is never legal."""


class SpyreCodeVersionError(SpyreCodeError):
    """The artefact is of a major version that this reader does not know."""


class SpyreCodeAddressError(SpyreCodeError):
    """An address or size is outside its block, misaligned, or overlaps another."""


class SpyreCodeHandleError(SpyreCodeError):
    """A host-buffer name is used before it is defined, defined twice, or never consumed."""


class SpyreCodeOrderError(SpyreCodeError):
    """The commands are well formed but do not stand in a legal order."""


class SpyreCodeDigestError(SpyreCodeError):
    """Stored and computed digests differ."""


class SpyreCodeImageError(SpyreCodeError):
    """A ``SPYREBIN`` container or a ``SPYCORR1`` tensor is damaged or contradicts the manifest."""


class LaunchSpecError(SpyreCodeError):
    """The launch spec is bad, or inconsistent with the manifest."""


# -- things that are not supported -----------------------------------------------------------------


class UnsupportedError(SpyreError):
    """Something legal that this runtime, or this device, cannot do."""


class UnsupportedHcm(UnsupportedError):
    """Host compute metadata of a foreign kind."""


class UnsupportedImage(UnsupportedError):
    """A binary image that the device cannot execute."""


class UnsupportedDtype(UnsupportedError):
    """An element type that has no device format."""


class UnsupportedFeature(UnsupportedError):
    """A feature that the artefact requires, or that the caller asked for, is not built."""


class NotSupportedCollective(UnsupportedError):
    """A collective operation that is refused."""


# -- launch ----------------------------------------------------------------------------------------


class LaunchError(SpyreError):
    """A call was refused; nothing was enqueued and nothing has changed."""


class ArgumentCountError(LaunchError):
    """Wrong number of tensors."""


class ArgumentError(LaunchError):
    """An argument cannot be used: no device tensor, stale, empty, of another runtime."""


class ArgumentTypeError(ArgumentError, TypeError):
    """A public function was given a value of the wrong Python type."""


class ArgumentValueError(ArgumentError, ValueError):
    """A public function was given a value that is never legal."""


class DeviceMismatch(LaunchError):
    """Plan, stream and tensors do not live on one device."""


class DtypeMismatch(LaunchError):
    """An argument has another element type than the kernel."""


class ShapeMismatch(LaunchError):
    """An argument has another shape than the kernel."""


class LayoutMismatch(LaunchError):
    """An argument is arranged in device memory in another way than the kernel expects."""


class AliasError(LaunchError):
    """Arguments overlap in memory in a way that the kernel does not allow."""


class SymbolBindingError(LaunchError):
    """A symbol or scalar is unbound, inconsistent, out of bounds, or does not fit its unit."""


class TilingError(LaunchError):
    """The launch cannot be cut into tiles of the compiled shape."""


class PlanReleased(LaunchError):
    """The plan was released."""


class DmaSizeError(LaunchError):
    """A host array and a device range do not have the same size."""


# -- memory ----------------------------------------------------------------------------------------


class AllocatorError(SpyreError):
    """Base of the errors of the device allocator."""


class OutOfDeviceMemory(AllocatorError, MemoryError):
    """No eligible region has a free block of the size asked for.

    ``details`` has ``requested``, ``aligned`` (bytes), ``policy``, ``domains``, ``regions`` (a tuple of
    ``(id, domain, size, free, largest_free)``) and ``reason``: ``too_large_for_any_region``, ``exhausted`` or
    ``fragmented``.
    """


class InvalidFree(AllocatorError):
    """A block was freed twice, or is no block of this allocator."""


class DirectiveError(AllocatorError):
    """An allocation directive makes no sense."""


# -- streams and events ----------------------------------------------------------------------------


class StreamError(SpyreError):
    """Base of the errors of streams."""


class StreamInErrorState(StreamError):
    """The stream has failed before; ``__cause__`` is the first error."""


class StreamDestroyed(StreamError):
    """The stream was destroyed."""


class SynchronizeTimeout(StreamError):
    """Waiting took longer than the caller allowed; the stream goes on."""


class DeadlockError(StreamError):
    """Streams wait for each other and nothing can move."""


class EventError(SpyreError):
    """An event was used in a way that has no answer."""


class EventPoisoned(EventError):
    """The stream that should have signalled the event failed; ``__cause__`` is its error."""


class HostComputeError(SpyreError):
    """A host function raised, or broke its contract."""


# -- device ----------------------------------------------------------------------------------------


class DeviceError(SpyreError):
    """Base of what goes wrong on the device, reported when the operation completes."""


class ComputeFault(DeviceError):
    """The program cannot be executed or stopped with a fault."""


class DmaFault(DeviceError):
    """A transfer failed."""


class PageFault(DeviceError):
    """An access outside the mapped part of a segment, or a write to a read-only one."""


class StaleCorrection(DeviceError):
    """The correction tensor belongs to another launch."""


class EccError(DeviceError):
    """Uncorrectable memory error."""


class DeviceTimeout(DeviceError):
    """The operation did not complete in its time."""


class CoreUnavailable(DeviceError):
    """A core that the program needs is out of service."""


class DeviceLost(DeviceError):
    """The device does not answer any more."""


class CommError(SpyreError):
    """A collective operation failed."""


class PeerLost(CommError):
    """A peer of a collective operation is gone."""


class CommTimeout(CommError):
    """A collective operation did not complete in its time."""


class GraphError(SpyreError):
    """Recording or replaying a graph was used wrongly."""


class SpyreCodeWarning(UserWarning):
    """Something in an artefact is odd but not refused."""


class UnvalidatedLaunch(UserWarning):
    """A plan without a launch contract is launched: counts, shapes and dtypes are not checked."""
