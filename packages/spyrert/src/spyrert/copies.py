"""Copies between host and device: which operations they consist of (runtime spec 3.4.5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from spyrert.device.protocol import Direction, Nest
from spyrert.dtypes import dtype_name, numpy_dtype
from spyrert.elements import element_offsets
from spyrert.errors import ArgumentValueError, DmaSizeError
from spyrert.execution import Access, Copy, HostCall, Operation
from spyrert.tensor import DeviceTensor
from spyrert.transfer import nests, pair_nests, reverse, view_nests

Array = np.ndarray[Any, Any]


@attrs.frozen
class CopyPlan:
    """Operations of one copy in stream order, and how to get its result once they are over."""

    operations: tuple[Operation, ...]
    result: Callable[[], Array] | None = None


def host_bytes(array: Array) -> memoryview:
    """The bytes of a contiguous array, of any dtype and rank."""
    flat: Array = array.reshape(-1).view(np.uint8)
    return flat.data


def as_host(array: Any, dtype: str | None = None) -> tuple[Array, str]:
    """A contiguous native-endian array and the name of its dtype.

    ``dtype="df16"`` says that a ``uint16`` array holds raw DLFloat16 numbers.
    """
    try:
        data = np.asarray(array)
    except (TypeError, ValueError) as error:
        raise ArgumentValueError(f"a {type(array).__name__} cannot become an array: {error}") from error
    name = dtype_name(data.dtype) if dtype is None else dtype_name(dtype)
    wanted = numpy_dtype(name)
    if data.dtype != wanted:
        if dtype is not None and data.dtype.newbyteorder("=") != wanted:
            raise DmaSizeError(f"an array of {data.dtype} was said to be {dtype}")
        data = data.astype(wanted)
    return np.ascontiguousarray(data).reshape(data.shape), name


def access(tensor: DeviceTensor, writes: bool) -> Access:
    """Footprint of the tensor's whole storage."""
    storage = tensor.storage
    return Access(storage.root, storage.pieces, writes)


def upload(array: Array, tensor: DeviceTensor, name: str = "to_device") -> CopyPlan:
    """Copy a contiguous host array of the tensor's shape and dtype into it.

    A whole storage gets its padding zeroed; a view keeps everything around it, partial sticks included.
    """
    if array.shape != tensor.shape:
        raise DmaSizeError(f"host array of shape {array.shape} does not fit a tensor of shape {tensor.shape}")
    if array.size == 0:
        return CopyPlan(())
    storage = tensor.storage
    if tensor.is_whole:
        loops = nests(storage.layout, tensor.shape)
    else:
        loops = view_nests(storage.layout, tensor.shape, tensor.strides, tensor.offset)
    data = host_bytes(array)
    return CopyPlan(
        (
            Copy(
                name,
                (access(tensor, True),),
                (array,),
                direction=Direction.TO_DEVICE,
                host=lambda: data,
                pieces=storage.address.pieces(),
                nests=loops,
                src_format=storage.dtype,
                dst_format=storage.layout.device_dtype,
                fill_padding=tensor.is_whole,
            ),
        )
    )


def download(tensor: DeviceTensor, name: str = "to_host") -> CopyPlan:
    """Copy a tensor to a new host array.

    A dense tensor goes straight there; any other view through a staging copy of its whole storage.
    """
    dtype = numpy_dtype(tensor.dtype)
    if tensor.size == 0:
        empty = np.empty(tensor.shape, dtype)
        return CopyPlan((), lambda: empty)
    storage = tensor.storage
    staging = np.empty(storage.shape, dtype)
    data = host_bytes(staging)
    operation = Copy(
        name,
        (access(tensor, False),),
        (staging,),
        direction=Direction.FROM_DEVICE,
        host=lambda: data,
        pieces=storage.address.pieces(),
        nests=_back(nests(storage.layout, storage.shape)),
        src_format=storage.layout.device_dtype,
        dst_format=storage.dtype,
    )
    if tensor.is_whole:
        return CopyPlan((operation,), lambda: staging)

    def view() -> Array:
        step = dtype.itemsize
        window = np.lib.stride_tricks.as_strided(
            staging.reshape(-1)[tensor.offset :], tensor.shape, tuple(s * step for s in tensor.strides)
        )
        return window.copy()

    return CopyPlan((operation,), view)


def on_device(source: DeviceTensor, target: DeviceTensor, name: str = "copy") -> CopyPlan:
    """Copy between two tensors of one device: directly if both are whole and arranged alike, else through the
    host."""
    if source.shape != target.shape:
        raise DmaSizeError(f"cannot copy shape {source.shape} to shape {target.shape}")
    if source.size == 0:
        return CopyPlan(())
    same = source.storage.layout == target.storage.layout and source.dtype == target.dtype
    if same and source.is_whole and target.is_whole:
        size = min(source.storage.nbytes, target.storage.nbytes)
        return CopyPlan(
            (
                Copy(
                    name,
                    (access(source, False), access(target, True)),
                    direction=Direction.ON_DEVICE,
                    pieces=target.storage.address.slice(0, size).pieces(),
                    src_pieces=source.storage.address.slice(0, size).pieces(),
                ),
            )
        )
    down = download(source, f"{name}.out")
    convert, up = _through_host(down, target, name)
    return CopyPlan((*down.operations, convert, *up.operations))


@attrs.frozen
class CrossCopy:
    """A copy between two devices: through a host buffer that the source's stream fills and the target's
    empties."""

    out: tuple[Operation, ...]
    """For a stream of the source's device."""
    back: tuple[Operation, ...]
    """For a stream of the target's device, behind an event of the other."""


def across(source: DeviceTensor, target: DeviceTensor, name: str = "copy") -> CrossCopy:
    """Copy between tensors of different devices.

    Whole tensors of one layout travel as they lie in device memory, others through the layout of the host.
    """
    if source.shape != target.shape:
        raise DmaSizeError(f"cannot copy shape {source.shape} to shape {target.shape}")
    if source.size == 0:
        return CrossCopy((), ())
    same = source.storage.layout == target.storage.layout and source.dtype == target.dtype
    if same and source.is_whole and target.is_whole:
        size = min(source.storage.nbytes, target.storage.nbytes)
        buffer = bytearray(size)

        def move(tensor: DeviceTensor, direction: Direction, suffix: str) -> Copy:
            return Copy(
                f"{name}.{suffix}",
                (access(tensor, direction is Direction.TO_DEVICE),),
                (buffer,),
                direction=direction,
                host=lambda: memoryview(buffer),
                pieces=tensor.storage.address.slice(0, size).pieces(),
            )

        return CrossCopy(
            (move(source, Direction.FROM_DEVICE, "out"),), (move(target, Direction.TO_DEVICE, "in"),)
        )
    down = download(source, f"{name}.out")
    convert, up = _through_host(down, target, name)
    return CrossCopy(down.operations, (convert, *up.operations))


def _through_host(down: CopyPlan, target: DeviceTensor, name: str) -> tuple[HostCall, CopyPlan]:
    """From a download to the upload of its result, converted to the target's dtype on the host."""
    staging = np.empty(target.shape, numpy_dtype(target.dtype))
    assert down.result is not None
    result = down.result

    def convert() -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            staging[...] = result().astype(staging.dtype)

    return HostCall(f"{name}.convert", function=convert), upload(staging, target, f"{name}.in")


def rearrange(source: DeviceTensor, target: DeviceTensor, name: str) -> Copy:
    """Copy between views of one shape and format on the device, whatever their layouts; padding of a whole
    target becomes zero."""
    src = element_offsets(source.layout, source.shape, source.strides, source.offset).reshape(source.shape)
    dst = element_offsets(target.layout, target.shape, target.strides, target.offset).reshape(target.shape)
    return Copy(
        name,
        (access(source, False), access(target, True)),
        direction=Direction.ON_DEVICE,
        pieces=target.storage.address.pieces(),
        src_pieces=source.storage.address.pieces(),
        nests=pair_nests(src, dst),
        src_format=source.layout.device_dtype,
        dst_format=target.layout.device_dtype,
        fill_padding=target.is_whole,
    )


def _back(loops: tuple[Nest, ...]) -> tuple[Nest, ...]:
    return tuple(reverse(nest) for nest in loops)
