"""The runtime: devices, tensors, streams, prepare and launch in one object (runtime spec 2)."""

from __future__ import annotations

import atexit
import inspect
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from spyrert import copies, launch, prepare
from spyrert.config import RuntimeConfig
from spyrert.constants import align_up
from spyrert.context import DeviceContext
from spyrert.copies import CopyPlan
from spyrert.correction import BUILTIN, HostFunction
from spyrert.device.protocol import Device, DeviceFactory
from spyrert.dtypes import device_format, dtype_name, numpy_dtype
from spyrert.errors import (
    ArgumentError,
    ConfigError,
    DeviceIndexError,
    DeviceMismatch,
    LayoutMismatch,
    OutOfDeviceMemory,
    RuntimeUnavailable,
    SpyreError,
    UnvalidatedLaunch,
)
from spyrert.execution import Event as EventHandle
from spyrert.execution import EventGeneration, Operation, OpState, Signal
from spyrert.execution import Stream as StreamHandle
from spyrert.launch import Launch, LaunchTicket, SymbolicArg
from spyrert.memory import EMPTY, AllocationDirective, CompositeAddress
from spyrert.plan import JobPlan
from spyrert.profiling import Profile
from spyrert.spyrecode import Layout, LinearLayout, SpyreCode, StickLayout
from spyrert.spyrecode.layout import contiguous_strides
from spyrert.spyrecode.reader import Verify
from spyrert.tensor import DeviceTensor, Storage

Array = np.ndarray[Any, Any]


class CopyTicket:
    """A copy that was enqueued; :meth:`wait` gives the host array of a copy from the device."""

    def __init__(self, context: DeviceContext | None, plan: CopyPlan, name: str) -> None:
        self._context = context
        self._plan = plan
        self._name = name

    def done(self) -> bool:
        return all(operation.state.over for operation in self._plan.operations)

    def wait(self, timeout: float | None = None) -> Array | None:
        """Block until the copy is over; raises its error or ``SynchronizeTimeout``."""
        if self._context is not None:
            self._context.scheduler.wait_for(self.done, timeout, self._name)
        for operation in self._plan.operations:
            if operation.state is not OpState.DONE and operation.error is not None:
                raise operation.error.with_traceback(None)
        return None if self._plan.result is None else self._plan.result()


class Runtime:
    """A process's use of one or more devices.

    Args:
        device_factory: makes the device of an index; called at first use. A class whose constructor takes the
            index, or a function, or a class that takes nothing.
        config: explicit configuration; default: from the environment.
        devices: number of devices; default ``AIU_WORLD_SIZE`` or 1, of which ``SPYRE_DEVICES`` may name some.

    Starting nothing until it is needed; thread-safe; usable as a context manager, which shuts it down at the
    end.
    """

    def __init__(
        self,
        device_factory: Callable[..., Device] | None = None,
        config: RuntimeConfig | None = None,
        devices: int | None = None,
    ) -> None:
        self.config = RuntimeConfig.from_environment() if config is None else config
        self._factory = _factory(device_factory)
        self._count = _device_count(devices)
        self._lock = threading.RLock()
        self._contexts: dict[int, DeviceContext] = {}
        self._plans: weakref.WeakValueDictionary[tuple[int, str, int], JobPlan] = (
            weakref.WeakValueDictionary()
        )
        self._loading: dict[tuple[int, str, int], threading.Lock] = {}
        self._pools: dict[tuple[int, int, int], DeviceTensor] = {}
        self._functions: dict[str, HostFunction] = dict(BUILTIN)
        self._local = threading.local()
        self._device = _number("LOCAL_RANK", os.environ.get("LOCAL_RANK") or "0")
        self._closed = False
        self._process = os.getpid()
        self.refused_launches = 0
        atexit.register(_at_exit, weakref.ref(self))

    # -- devices -------------------------------------------------------------------------------

    def device_count(self) -> int:
        return self._count

    def set_device(self, index: int) -> None:
        """Choose the device of later calls that name none."""
        self._check_index(index)
        self._device = index

    def current_device(self) -> int:
        return self._device

    def device(self, index: int | None = None) -> Device:
        """The device itself, for its counters and faults."""
        return self._context(index).device

    def _check_index(self, index: int) -> None:
        if not 0 <= index < self._count:
            raise DeviceIndexError(f"device index {index} is not in 0..{self._count - 1}", device=index)

    def _context(self, index: int | None = None) -> DeviceContext:
        index = self._device if index is None else index
        if os.getpid() != self._process:
            raise RuntimeUnavailable("the runtime belongs to the parent process; make a new one after fork")
        if self._closed:
            raise RuntimeUnavailable("the runtime was shut down")
        found = self._contexts.get(index)
        if found is not None:
            return found
        self._check_index(index)
        with self._lock:
            if index not in self._contexts:
                self._contexts[index] = DeviceContext(index, self._factory(index), self.config)
            return self._contexts[index]

    def synchronize(self, device: int | None = None) -> None:
        """Wait for every stream of a device (of all devices); then raise the first error in stream order."""
        indices = sorted(self._contexts) if device is None else [device]
        error: SpyreError | None = None
        for index in indices:
            context = self._context(index)
            for state in context.stream_states():
                context.scheduler.wait_for(lambda state=state: state.idle, None, f"stream {state.id}")  # type: ignore[misc]
                error = error or state.error
        if error is not None:
            raise error.with_traceback(None)

    def device_state(self, index: int | None = None) -> str:
        """``NOT_INITIALIZED``, ``OK``, ``STREAM_ERROR`` or ``LOST``."""
        index = self._device if index is None else index
        self._check_index(index)
        context = self._contexts.get(index)
        if context is None:
            return "NOT_INITIALIZED"
        if context.scheduler.lost:
            return "LOST"
        return "STREAM_ERROR" if any(s.error for s in context.stream_states()) else "OK"

    def reset_device(self, index: int | None = None) -> None:
        """Cancel everything on a device and start it anew, e.g. after it was lost.

        Tensors raise "stale allocation" from then on, plans ``PlanReleased``; old stream handles are
        destroyed.
        """
        context = self._context(index)
        with self._lock:
            self._pools = {k: v for k, v in self._pools.items() if k[0] != context.index}
            self._plans = weakref.WeakValueDictionary(
                {k: v for k, v in self._plans.items() if k[0] != context.index}
            )
        context.reset()

    def pump(self, max_steps: int | None = None, device: int | None = None) -> int:
        """Make progress by hand (``Progress.MANUAL``); returns the number of steps."""
        return self._context(device).scheduler.pump(max_steps)

    # -- streams -------------------------------------------------------------------------------

    def Stream(self, device: int | None = None, priority: int = 0) -> StreamHandle:
        """The next stream of the pool: ids 1..32, or 33..64 for a negative (high) priority."""
        context = self._context(device)
        return self._handle(context, context.pooled_stream(priority < 0).id)

    def Event(self, enable_timing: bool = False) -> EventHandle:
        return EventHandle(enable_timing)

    def default_stream(self, device: int | None = None) -> StreamHandle:
        return self._handle(self._context(device), 0)

    def current_stream(self, device: int | None = None) -> StreamHandle:
        """The current stream of this thread, the default stream if none was set."""
        context = self._context(device)
        current = self._currents().get(context.index)
        if current is None or (current.id == 0 and current.state.destroyed):
            return self.default_stream(context.index)
        return current

    def set_current_stream(self, stream: StreamHandle) -> StreamHandle:
        """Make a stream current in this thread; returns the previous one."""
        previous = self.current_stream(stream.device)
        self._currents()[stream.device] = stream
        return previous

    def reset_stream(self, device: int | None = None) -> StreamHandle:
        """Replace the default stream by a new one, e.g. after an error; tensors survive."""
        context = self._context(device)
        context.reset_default()
        return self.default_stream(context.index)

    def _currents(self) -> dict[int, StreamHandle]:
        table: dict[int, StreamHandle] | None = getattr(self._local, "streams", None)
        if table is None:
            table = self._local.streams = {}
        return table

    def _handle(self, context: DeviceContext, id: int) -> StreamHandle:
        return StreamHandle(context.stream_state(id), context.scheduler, self.set_current_stream)

    def _stream(self, stream: StreamHandle | None, context: DeviceContext) -> StreamHandle:
        if stream is None:
            return self.current_stream(context.index)
        if stream.device != context.index:
            raise DeviceMismatch(f"stream {stream} is not on device {context.index}")
        return stream

    # -- tensors -------------------------------------------------------------------------------

    def empty(
        self,
        shape: Sequence[int],
        dtype: Any,
        layout: Layout | None = None,
        device: int | None = None,
        directive: AllocationDirective | None = None,
        max_shape: Sequence[int] | None = None,
    ) -> DeviceTensor:
        """A tensor with undefined contents.

        ``max_shape`` reserves storage (and fixes strides) for a symbolic tensor of at most that shape. The
        default layout is the stick layout of runtime spec 3.4.2. Raises ``UnsupportedDtype``,
        ``LayoutMismatch``, ``OutOfDeviceMemory``.
        """
        context = self._context(device)
        shape = _shape(shape)
        full = shape if max_shape is None else _shape(max_shape)
        if len(full) != len(shape) or any(a > b for a, b in zip(shape, full, strict=True)):
            raise LayoutMismatch(f"shape {shape} does not fit in max_shape {full}")
        name = dtype_name(dtype)
        layout = layout or StickLayout.default(full, device_format(name, context.props.f16_format))
        _check_layout(layout, full)
        host = int(np.prod(full, dtype=np.int64)) * numpy_dtype(name).itemsize
        size = max(layout.device_bytes(full), host) if host else 0
        address = EMPTY if size == 0 else self._allocate(context, size, directive, host)
        storage = Storage(context, address, full, name, layout)
        if address.chunks:
            context.storages[address.token] = storage
        return DeviceTensor(storage, shape, contiguous_strides(full))

    def _allocate(
        self, context: DeviceContext, size: int, directive: AllocationDirective | None, host: int
    ) -> CompositeAddress:
        try:
            return context.allocator.allocate(size, directive, host)
        except OutOfDeviceMemory:
            if not context.allocator.quarantined():
                raise
        context.scheduler.wait_for(context.scheduler.idle, None, "memory in flight")
        return context.allocator.allocate(size, directive, host)

    def tensor_at(
        self,
        address: int,
        shape: Sequence[int],
        dtype: Any,
        layout: Layout | None = None,
        device: int | None = None,
    ) -> DeviceTensor:
        """A tensor over a part of an existing allocation, which it keeps alive.

        ``address`` is a virtual device address on a stick. Raises ``ArgumentError`` if no live allocation
        holds all of it.
        """
        context = self._context(device)
        shape, name = _shape(shape), dtype_name(dtype)
        layout = layout or StickLayout.default(shape, device_format(name, context.props.f16_format))
        _check_layout(layout, shape)
        size = align_up(layout.device_bytes(shape))
        found = context.allocator.find(address)
        owner = context.storages.get(found[0].token) if found is not None else None
        if found is None or owner is None:
            raise ArgumentError(f"address {address:#x} lies in no live tensor of device {context.index}")
        start = found[1]
        if start % 128 or start + size > found[0].total_size:
            raise ArgumentError(
                f"{size} bytes at {address:#x} do not lie in their allocation of {found[0].total_size} "
                "bytes on a stick"
            )
        storage = Storage(context, found[0].slice(start, size), shape, name, layout, owner)
        return DeviceTensor(storage, shape, contiguous_strides(shape))

    def to_device(
        self,
        array: Any,
        layout: Layout | None = None,
        stream: StreamHandle | None = None,
        non_blocking: bool = False,
        *,
        dtype: str | None = None,
        device: int | None = None,
        directive: AllocationDirective | None = None,
    ) -> DeviceTensor:
        """Copy a host array to a new tensor; padding becomes zero.

        With ``non_blocking`` the host array is kept alive until the copy is over and must not be changed
        meanwhile. ``dtype="df16"`` uploads raw DLFloat16 numbers held in a ``uint16`` array.
        """
        data, name = copies.as_host(array, dtype)
        index = stream.device if device is None and stream is not None else device
        tensor = self.empty(data.shape, name, layout, index, directive)
        self._run(tensor.storage.context, copies.upload(data, tensor), stream, non_blocking)
        return tensor

    def to_host(self, tensor: DeviceTensor, stream: StreamHandle | None = None) -> Array:
        """Copy a tensor or view to a new host array and wait for it."""
        result = self.to_host_async(tensor, stream).wait()
        assert result is not None
        return result

    def to_host_async(self, tensor: DeviceTensor, stream: StreamHandle | None = None) -> CopyTicket:
        """Like :meth:`to_host` without waiting: the array comes from the ticket's ``wait()``."""
        tensor.storage.check_alive()
        return self._enqueue_copy(tensor.storage.context, copies.download(tensor), stream, "to_host")

    def copy(
        self,
        source: Any,
        target: DeviceTensor,
        stream: StreamHandle | None = None,
        non_blocking: bool = False,
    ) -> CopyTicket:
        """Copy a host array or another tensor into a tensor or view; neighbours of a partial stick
        survive."""
        target.storage.check_alive()
        context = target.storage.context
        if isinstance(source, DeviceTensor):
            source.storage.check_alive()
            if source.storage.context is not context:
                array = self.to_host(source)
                return self.copy(array, target, stream, non_blocking)
            plan = copies.on_device(source, target)
        else:
            data, _ = copies.as_host(source)
            wanted = numpy_dtype(target.dtype)
            plan = copies.upload(data if data.dtype == wanted else data.astype(wanted), target, "copy")
        ticket = self._enqueue_copy(context, plan, stream, "copy")
        if not non_blocking:
            ticket.wait()
        return ticket

    def record_stream(self, tensor: DeviceTensor, stream: StreamHandle) -> None:
        """Keep the tensor's memory from reuse until everything that is on the stream now is over.

        Launches and copies of this runtime do that by themselves; this is for uses that it does not see.
        """
        tensor.storage.check_alive()
        context = tensor.storage.context
        mark = EventGeneration(context.scheduler)
        operation = Signal("record_stream", (copies.access(tensor, False),), event=mark)
        context.scheduler.submit([(self._stream(stream, context).state, operation)])

    def _enqueue_copy(
        self, context: DeviceContext, plan: CopyPlan, stream: StreamHandle | None, name: str
    ) -> CopyTicket:
        self._context(context.index)
        if not plan.operations:
            return CopyTicket(None, plan, name)
        state = self._stream(stream, context).state
        context.scheduler.submit([(state, operation) for operation in plan.operations])
        return CopyTicket(context, plan, name)

    def _run(
        self, context: DeviceContext, plan: CopyPlan, stream: StreamHandle | None, non_blocking: bool
    ) -> None:
        ticket = self._enqueue_copy(context, plan, stream, "to_device")
        if not non_blocking:
            ticket.wait()

    # -- prepare and launch --------------------------------------------------------------------

    def register_host_function(self, name: str, function: HostFunction) -> None:
        """Make a host function known to plans that are prepared later."""
        self._functions[name] = function

    def prepare_kernel(
        self,
        code: SpyreCode | str | Path,
        stream: StreamHandle | None = None,
        *,
        verify: Verify = "full",
        replicas: int | None = None,
        cache: bool = True,
        allow_baked: bool = True,
        device: int | None = None,
    ) -> JobPlan:
        """Make a kernel resident: read and check it, reserve its memory, load its images, wait.

        A second call for the same artefact returns the same plan without any transfer; of concurrent callers
        one loads. The folder may be deleted afterwards. Raises ``SpyreCodeError``, ``UnsupportedError``,
        ``OutOfDeviceMemory``, ``StreamError``, ``DeviceError``; nothing is left behind then.
        """
        context = self._context(stream.device if device is None and stream is not None else device)
        chosen = self._stream(stream, context)
        if not isinstance(code, SpyreCode):
            code = SpyreCode.read(code, verify=verify)
        else:
            code.validate()
        copies_wanted = self.config.plan_replicas if replicas is None else replicas
        if copies_wanted < 1:
            raise ValueError(f"replicas must be at least 1, not {copies_wanted}")
        key = (context.index, code.digest, copies_wanted)

        def load() -> JobPlan:
            return prepare.prepare(
                context, code, chosen, self._functions, copies_wanted, allow_baked, self._forget
            )

        if not cache:
            return load()
        with self._lock:
            gate = self._loading.setdefault(key, threading.Lock())
        with gate:
            plan = self._plans.get(key)
            if plan is None or plan.generation != context.generation:
                plan = load()
                self._plans[key] = plan
            return plan

    def _forget(self, plan: JobPlan) -> None:
        with self._lock:
            for key, cached in list(self._plans.items()):
                if cached is plan:
                    del self._plans[key]

    def clear_plan_cache(self) -> None:
        """Forget prepared plans; those still referenced stay usable."""
        with self._lock:
            self._plans.clear()

    def launch(
        self,
        plan: JobPlan,
        tensors: Sequence[DeviceTensor],
        *,
        stream: StreamHandle | None = None,
        symbolic_args: Sequence[SymbolicArg] | None = None,
        bindings: Mapping[str, Any] | None = None,
        allow_tiled_launch: bool | None = None,
        allow_staging: bool = False,
    ) -> LaunchTicket:
        """Check the arguments and enqueue the kernel; returns at once.

        Args:
            tensors: in the order of the plan's ``args``; the pool is added by the runtime.
            bindings: values of scalars and symbolic dimensions, by name.
            symbolic_args: explicit values of all symbols, for callers that drive a plan themselves.
            allow_tiled_launch: whether larger tensors are cut into tiles; default from the configuration.
            allow_staging: whether tiles that the kernel cannot walk in place may be copied to packed blocks.

        Every ``LaunchError`` is raised before anything is enqueued or allocated.
        """
        launched = Launch(plan, tensors, bindings, symbolic_args)
        return self.launch_group(
            [launched], stream=stream, allow_tiled_launch=allow_tiled_launch, allow_staging=allow_staging
        )[0]

    def launch_group(
        self,
        launches: Sequence[Launch],
        *,
        stream: StreamHandle | None = None,
        allow_tiled_launch: bool | None = None,
        allow_staging: bool = False,
    ) -> list[LaunchTicket]:
        """Enqueue several launches as one atomic group of one stream.

        Nothing of another thread comes between them, and either all are enqueued or none: kernels that hand
        values on in scratchpads need that. Raises like :meth:`launch`.
        """
        if not launches:
            return []
        try:
            context = self._context(launches[0].plan.context.index)
            chosen = self._stream(stream, context)
            allowed = self.config.allow_tiled_launch if allow_tiled_launch is None else allow_tiled_launch
            requests = []
            for one in launches:
                if one.plan.context is not context:
                    raise DeviceMismatch(f"plan '{one.plan.name}' belongs to another runtime or device")
                request = launch.check(
                    one.plan, one.tensors, chosen, one.bindings, one.symbolic_args, allowed, allow_staging
                )
                self._warn_unvalidated(one.plan)
                requests.append(request)
            limit = self.config.max_inflight_launches
            if context.inflight >= limit:
                context.scheduler.wait_for(lambda: context.inflight < limit, None, "launches in flight")
            return launch.enqueue([(r, self._pool(r.plan, chosen)) for r in requests], chosen)
        except SpyreError:
            self.refused_launches += 1
            raise

    @staticmethod
    def _warn_unvalidated(plan: JobPlan) -> None:
        if plan.launch is None and not plan.warned:
            plan.warned = True
            warnings.warn(
                f"plan '{plan.name}' has no launch contract: arguments are not checked",
                UnvalidatedLaunch,
                stacklevel=4,
            )

    def _pool(self, plan: JobPlan, stream: StreamHandle) -> DeviceTensor | None:
        """The scratch tensor that the plan wants; one per stream and size, reused."""
        size = plan.launch.pool_size if plan.launch is not None else 0
        if not size:
            return None
        key = (stream.device, stream.id, align_up(size))
        with self._lock:
            pool = self._pools.get(key)
            if pool is None or pool.storage.generation != plan.context.generation:
                shape = (align_up(size),)
                pool = self.empty(shape, "uint8", LinearLayout("uint8"), stream.device)
                self._pools[key] = pool
            return pool

    # -- memory --------------------------------------------------------------------------------

    def memory_stats(self, device: int | None = None) -> dict[str, Any]:
        return self._context(device).allocator.stats()

    def memory_allocated(self, device: int | None = None) -> int:
        return int(self.memory_stats(device)["allocated_bytes.all.current"])

    def max_memory_allocated(self, device: int | None = None) -> int:
        return int(self.memory_stats(device)["allocated_bytes.all.peak"])

    def memory_reserved(self, device: int | None = None) -> int:
        return int(self.memory_stats(device)["reserved_bytes.all.current"])

    def reset_peak_memory_stats(self, device: int | None = None) -> None:
        self._context(device).allocator.reset_peak()

    def reset_accumulated_memory_stats(self, device: int | None = None) -> None:
        self._context(device).allocator.reset_accumulated()

    def empty_cache(self, device: int | None = None) -> int:
        """Wait for memory in flight; returns the bytes that came back."""
        context = self._context(device)
        before = int(context.allocator.stats()["deferred_bytes"])
        if before:
            context.scheduler.wait_for(context.scheduler.idle, None, "memory in flight")
        return before - int(context.allocator.stats()["deferred_bytes"])

    def leak_report(self, device: int | None = None) -> list[str]:
        """One line per live allocation, empty if there is none."""
        context = self._context(device)
        return [
            f"{address.total_size} bytes at {context.allocator.addresses(address)[0]:#x}"
            for address in context.allocator.live()
        ]

    def metrics(self, device: int | None = None) -> dict[str, int]:
        """Counters of the device, and of the runtime: ``launches``, ``refused_launches``, ``image_transfers``
        (images that were loaded by ``prepare_kernel``), ``spurious_completions``."""
        context = self._context(device)
        return context.device.counters() | {
            "launches": context.launches,
            "refused_launches": self.refused_launches,
            "image_transfers": context.image_transfers,
            "spurious_completions": context.scheduler.spurious_completions,
        }

    def error_log(self, device: int | None = None) -> list[dict[str, object]]:
        """Records of asynchronous failures, oldest first."""
        return list(self._context(device).scheduler.error_log)

    @contextmanager
    def op_log(self, device: int | None = None) -> Iterator[list[Operation]]:
        """Collect the operations that end inside of the block, in order of completion."""
        scheduler = self._context(device).scheduler
        log: list[Operation] = []
        scheduler.observers.append(log.append)
        try:
            yield log
        finally:
            scheduler.observers.remove(log.append)

    @contextmanager
    def profile(self, device: int | None = None) -> Iterator[Profile]:
        """Collect spans of the operations that end inside of the block; ``profile.write(path)`` gives a
        trace."""
        context = self._context(device)
        profile = Profile()

        def observe(operation: Operation) -> None:
            profile.add(operation, context.index)

        context.scheduler.observers.append(observe)
        try:
            yield profile
        finally:
            context.scheduler.observers.remove(observe)

    # -- end -----------------------------------------------------------------------------------

    def shutdown(self) -> list[str]:
        """Drain, cancel what does not end in time, close the devices; returns the leak report."""
        with self._lock:
            if self._closed or os.getpid() != self._process:
                self._closed = True
                return []
            self._pools.clear()
            report = []
            for context in self._contexts.values():
                report += self.leak_report(context.index)
            self._closed = True
        for context in self._contexts.values():
            context.scheduler.close(self.config.shutdown_timeout)
            context.shutdown_arenas()
        return report

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()


def _at_exit(reference: weakref.ref[Runtime]) -> None:
    """At the end of the interpreter: drain what is pending, for a limited time."""
    runtime = reference()
    if runtime is not None:
        runtime.shutdown()


def _shape(shape: Sequence[int]) -> tuple[int, ...]:
    result = tuple(int(size) for size in shape)
    if any(size < 0 for size in result):
        raise ValueError(f"shape {result} has a negative size")
    return result


def _check_layout(layout: Layout, shape: tuple[int, ...]) -> None:
    """A stick layout must place every element of the shape."""
    if isinstance(layout, StickLayout) and all(shape):
        last = sum((n - 1) * s for n, s in zip(shape, contiguous_strides(shape), strict=True))
        layout.offset_bytes(last)


def _device_count(devices: int | None, environ: Mapping[str, str] | None = None) -> int:
    """Number of devices: explicit, else ``AIU_WORLD_SIZE`` (1), of which ``SPYRE_DEVICES`` may name some."""
    environ = os.environ if environ is None else environ
    count = _number("AIU_WORLD_SIZE", environ.get("AIU_WORLD_SIZE", "1")) if devices is None else devices
    if count < 1:
        raise ConfigError(f"there must be at least one device, not {count}")
    listed = environ.get("SPYRE_DEVICES")
    if devices is None and listed:
        named = {_number("SPYRE_DEVICES", part) for part in listed.split(",")}
        count = sum(0 <= index < count for index in named)
        if count == 0:
            raise ConfigError(f"SPYRE_DEVICES={listed!r} names no device")
    return count


def _number(variable: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"{variable}={text!r} is not understood") from None


def _factory(given: Callable[..., Device] | None) -> DeviceFactory:
    if given is None:
        from spyrert.device import MicroDevice

        return MicroDevice.factory
    try:
        parameters = list(inspect.signature(given).parameters.values())
    except (TypeError, ValueError):
        return given
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    wants = any(p.name == "index" for p in parameters)
    if not wants and (not positional or all(p.default is not p.empty for p in positional)):
        return lambda index: given()
    if wants and not any(p.name == "index" for p in positional[:1]):
        return lambda index: given(index=index)
    return given
