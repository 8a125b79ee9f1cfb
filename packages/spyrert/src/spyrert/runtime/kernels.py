"""Kernels of a runtime: prepare once, launch often (runtime spec 3.12, 3.13)."""

from __future__ import annotations

import sys
import threading
import warnings
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from spyrert import arguments, enqueue, launch, prepare
from spyrert.accumulators import accumulators, replaced
from spyrert.constants import align_up
from spyrert.correction import BUILTIN, HostFunction
from spyrert.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    DeviceMismatch,
    SpyreError,
    UnvalidatedLaunch,
)
from spyrert.execution import Stream as StreamHandle
from spyrert.graph.capture import Capture, Graph, LaunchNode
from spyrert.launch import Launch, Request, SymbolicArg
from spyrert.plan import JobPlan
from spyrert.runtime.tensors import Tensors
from spyrert.spyrecode import LinearLayout, SpyreCode
from spyrert.spyrecode._json import name_problem
from spyrert.spyrecode.reader import Verify
from spyrert.tensor import DeviceTensor
from spyrert.tickets import LaunchTicket, RecordedLaunch

PlanKey = tuple[int, str, int, str | None]
"""Device, digest of the artefact, replicas, and name of a plan."""


class Kernels(Tensors):
    """Tensors, and the kernels that are launched on them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._plans: weakref.WeakValueDictionary[PlanKey, JobPlan] = weakref.WeakValueDictionary()
        self._loading: dict[PlanKey, threading.Lock] = {}
        self._pools: dict[tuple[int, int, int], DeviceTensor] = {}
        self._functions: dict[str, HostFunction] = dict(BUILTIN)
        self.refused_launches = 0

    def _forget_device(self, index: int) -> None:
        with self._lock:
            self._pools = {k: v for k, v in self._pools.items() if k[0] != index}
            self._plans = weakref.WeakValueDictionary({k: v for k, v in self._plans.items() if k[0] != index})

    def register_host_function(self, name: str, function: HostFunction) -> None:
        """Make a host function known to plans that are prepared later."""
        arguments.expect(name, str, "name of a host function")
        if not callable(function):
            raise ArgumentTypeError(
                f"host function '{name}' must be callable, not a {type(function).__name__}"
            )
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
        name: str | None = None,
    ) -> JobPlan:
        """Make a kernel resident: read and check it, reserve its memory, load its images, wait.

        A second call for the same artefact returns the same plan without any transfer; of concurrent callers
        one loads. The folder may be deleted afterwards. ``name`` is what traces call its steps, by default
        the name in the artefact or, of a plain one, its place.

        Raises ``SpyreCodeError``, ``UnsupportedError``, ``OutOfDeviceMemory``, ``StreamError``,
        ``DeviceError``; nothing is left behind then.
        """
        self._refuse_recording("preparing a kernel")
        if stream is not None:
            arguments.stream(stream)
        context = self._context(stream.device if device is None and stream is not None else device)
        chosen = self._stream(stream, context)
        if not isinstance(code, SpyreCode):
            if not isinstance(code, (str, Path)):
                raise ArgumentTypeError(f"code must be a SpyreCode or a path, not a {type(code).__name__}")
            code = SpyreCode.read(code, verify=verify)
        else:
            code.validate()
        copies_wanted = self.config.plan_replicas if replicas is None else replicas
        arguments.integer(copies_wanted, "replicas", least=1)
        if name is not None and (problem := name_problem(arguments.expect(name, str, "name"))):
            raise ArgumentValueError(problem)
        key = (context.index, code.digest, copies_wanted, name)

        def load() -> JobPlan:
            return prepare.prepare(
                context, code, chosen, self._functions, copies_wanted, allow_baked, self._forget, name
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
                if self.config.debug:
                    print(f"spyrert: prepared '{plan.name}' {plan.digest[:12]}: {plan!r}", file=sys.stderr)
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
        if not arguments.items(launches, "launches"):
            return []
        try:
            for one in launches:
                arguments.expect(one, Launch, "a launch")
                arguments.expect(one.plan, JobPlan, "plan")
                arguments.items(one.tensors, "tensors")
            context = self._context(launches[0].plan.context.index)
            chosen = self._stream(stream, context)
            allowed = self.config.allow_tiled_launch if allow_tiled_launch is None else allow_tiled_launch
            requests = []
            for one in launches:
                if one.plan.context is not context:
                    raise DeviceMismatch(f"plan '{one.plan.name}' belongs to another runtime or device")
                requests.append(self._request(one, chosen, allowed, allow_staging))
            capture = self._capture()
            if capture is not None:
                capture.check_stream(chosen.state)
                capture.launches(chosen.state, LaunchNode(_kept(launches), allowed, allow_staging))
                return [
                    RecordedLaunch(context, one.plan.name, 0, len(r.tiles))
                    for one, r in zip(launches, requests, strict=True)
                ]
            limit = self.config.max_inflight_launches
            if context.inflight >= limit:
                context.scheduler.wait_for(lambda: context.inflight < limit, None, "launches in flight")
            if self.config.debug:
                for one in launches:
                    shapes = [list(tensor.shape) for tensor in one.tensors]
                    print(f"spyrert: launch '{one.plan.name}' {shapes} on {chosen!r}", file=sys.stderr)
            return enqueue.enqueue([(r, self._pool(r.plan, chosen)) for r in requests], chosen)
        except SpyreError:
            self.refused_launches += 1
            raise

    def _request(self, one: Launch, stream: StreamHandle, allow_tiled: bool, allow_staging: bool) -> Request:
        """Check a launch, with accumulators for outputs of another dtype; a refusal leaves nothing."""
        own = () if self._capture() is not None else accumulators(self, one.plan, one.tensors)
        tensors = replaced(one.tensors, own) if own else one.tensors
        try:
            request = launch.check(
                one.plan, tensors, stream, one.bindings, one.symbolic_args, allow_tiled, allow_staging
            )
        except SpyreError:
            for accumulator in own:
                accumulator.free()
            raise
        self._warn_unvalidated(one.plan)
        return attrs.evolve(request, accumulators=own) if own else request

    @contextmanager
    def record(self, stream: StreamHandle | None = None) -> Iterator[Graph]:
        """Record what the calling thread enqueues inside of the block, instead of enqueueing it.

        The stream (default: the current one) is current inside of the block; others join by waiting for an
        event of it, and must be waited for at the end. Launches, copies to and on the device and events are
        recorded; host arrays are copied at once. Waiting, reading on the host, and preparing kernels are
        refused with ``GraphError``, which aborts the recording and leaves the streams usable.
        """
        self._refuse_recording("a recording")
        context = self._context(None if stream is None else arguments.stream(stream).device)
        chosen = self._stream(stream, context)
        capture = Capture(chosen, context)
        graph = Graph(self, capture)
        self._local.capture = capture
        try:
            with chosen:
                yield graph
        except BaseException:
            graph._end(failed=True)
            raise
        finally:
            self._local.capture = None
        graph._end(failed=False)

    @staticmethod
    def _warn_unvalidated(plan: JobPlan) -> None:
        if plan.launch is None and not plan.warned:
            plan.warned = True
            warnings.warn(
                f"plan '{plan.name}' has no launch contract: arguments are not checked",
                UnvalidatedLaunch,
                stacklevel=5,
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


def _kept(launches: Sequence[Launch]) -> tuple[Launch, ...]:
    """Launches with copies of what their caller may change later."""
    return tuple(
        Launch(
            one.plan,
            tuple(one.tensors),
            None if one.bindings is None else dict(one.bindings),
            one.symbolic_args,
        )
        for one in launches
    )
