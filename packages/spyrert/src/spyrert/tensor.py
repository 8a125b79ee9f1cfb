"""Tensors in device memory: shape and strides over a storage (runtime spec 3.4)."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from spyrert.constants import STICK_BYTES, align_up
from spyrert.dtypes import numpy_dtype
from spyrert.errors import ArgumentError, ArgumentTypeError, ArgumentValueError, LayoutMismatch
from spyrert.memory import Chunk, CompositeAddress
from spyrert.spyrecode.layout import Layout, LinearLayout, StickLayout, contiguous_strides, item_bytes

if TYPE_CHECKING:
    from spyrert.context import DeviceContext


class Storage:
    """The device memory behind one or more tensors.

    Args:
        context: the device that it belongs to.
        address: the allocation; ``owner`` keeps it alive if it belongs to another storage.
        shape: host shape that the layout was made for (``dma_sizes``); its contiguous strides are
            ``dma_strides``.
        dtype: host element type, by name.
        layout: arrangement on the device.

    The allocation returns to the allocator when the last reference is gone and no operation touches it.

    Attributes:
        nbytes: bytes of the range on the device.
        pieces: the range as a device understands it.
        addresses: virtual device address of each chunk.
    """

    def __init__(
        self,
        context: DeviceContext,
        address: CompositeAddress,
        shape: tuple[int, ...],
        dtype: str,
        layout: Layout,
        owner: Storage | None = None,
    ) -> None:
        self.context = context
        self.address = address
        self.shape = shape
        self.strides = contiguous_strides(shape)
        self.dtype = dtype
        self.layout = layout
        self.owner = owner
        self.generation = context.generation
        self.pieces = address.pieces()
        self.addresses = context.allocator.addresses(address)
        self.nbytes = address.total_size
        self.root: CompositeAddress = address if owner is None else owner.root
        if owner is None and address.chunks:
            weakref.finalize(self, context.allocator.garbage.append, address).atexit = False

    def check_alive(self) -> None:
        """Raise ``ArgumentError`` if the device was reset since, or the memory was freed."""
        if self.generation != self.context.generation or not self.context.allocator.is_live(self.root):
            raise ArgumentError("stale allocation: the device was reset or the memory was freed")


class DeviceTensor:
    """A view of a storage.

    ``shape``, ``strides`` (elements) and ``offset`` (elements) are those of the host tensor, as in NumPy;
    where an element lies on the device is decided by the layout of the storage.
    """

    def __init__(
        self, storage: Storage, shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0
    ) -> None:
        self.storage = storage
        self.shape = shape
        self.strides = strides
        self.offset = offset

    # -- facts ---------------------------------------------------------------------------------

    @property
    def dtype(self) -> str:
        """Host element type by name."""
        return self.storage.dtype

    @property
    def layout(self) -> Layout:
        """Layout of the storage."""
        return self.storage.layout

    @property
    def device(self) -> int:
        return self.storage.context.index

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes on the host, without padding."""
        return self.size * numpy_dtype(self.dtype).itemsize

    @property
    def token(self) -> int:
        """Opaque data pointer; 0 for an empty tensor."""
        return self.storage.address.token

    @property
    def is_whole(self) -> bool:
        """Whether the view is the storage as it was made."""
        storage = self.storage
        return self.offset == 0 and self.shape == storage.shape and self.strides == storage.strides

    @property
    def device_strides(self) -> tuple[int, ...]:
        """Strides of the device axes in bytes."""
        layout = self.layout
        if isinstance(layout, StickLayout):
            return layout.strides_bytes
        return tuple(s * item_bytes(layout.device_dtype) for s in self.strides)

    def device_offset(self) -> int:
        """Byte offset of the first element from the start of the storage.

        Raises ``LayoutMismatch`` if the view does not start on a stick: a program cannot take it as an
        argument.
        """
        if self.offset == 0:
            return 0
        if isinstance(self.layout, LinearLayout):
            offset = self.offset * item_bytes(self.layout.device_dtype)
        else:
            offset = self.layout.offset_bytes(self.offset)
        if offset % STICK_BYTES:
            raise LayoutMismatch(
                f"the view starts at byte {offset} of its storage, which is not on a stick of "
                f"{STICK_BYTES} bytes; copy it to a tensor of its own"
            )
        return offset

    def extent(self) -> tuple[int, int]:
        """First byte, and the one behind the last, that the view touches in its storage; whole sticks.

        Device offsets grow with every host index (a step to the next stick is at least one stick), so the
        corners decide.
        """
        if self.is_whole:
            return 0, self.storage.nbytes
        layout = self.layout
        corners = [self.offset]
        for size, stride in zip(self.shape, self.strides, strict=True):
            corners += (
                [corner + (size - 1) * stride for corner in list(corners)] if size > 1 and stride else []
            )
        if isinstance(layout, LinearLayout):
            width = item_bytes(layout.device_dtype)
            offsets = [corner * width for corner in corners]
        else:
            offsets = [layout.offset_bytes(corner) for corner in corners]
        return min(offsets) // STICK_BYTES * STICK_BYTES, align_up(max(offsets) + 1)

    def chunks(self) -> tuple[Chunk, ...]:
        """The chunks of the storage that the view touches, in order."""
        chunks = self.storage.address.chunks
        if len(chunks) < 2:
            return chunks
        low, high = self.extent()
        address = self.storage.address
        return chunks[address.locate(low)[0] : address.locate(high - 1)[0] + 1]

    def addresses(self) -> tuple[int, ...]:
        """Virtual device address of the view, one per chunk that it touches."""
        offset = self.device_offset()
        storage = self.storage
        if not offset and len(storage.addresses) < 2:
            return storage.addresses
        if len(storage.addresses) < 2:
            return (storage.addresses[0] + offset,)
        touched = self.chunks()
        first, inside = storage.address.locate(offset)
        start = storage.addresses[first] + inside
        return (start, *storage.addresses[first + 1 : first + len(touched)])

    def __repr__(self) -> str:
        return f"DeviceTensor(shape={self.shape}, dtype={self.dtype}, device={self.device})"

    # -- views ---------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> DeviceTensor:
        """A view by integers, slices, ``...`` and ``None``, as in NumPy."""
        shape: list[int] = []
        strides: list[int] = []
        offset = self.offset
        axis = 0
        for item in self._expand(index):
            if item is None:
                shape.append(1)
                strides.append(0)
                continue
            size, stride = self.shape[axis], self.strides[axis]
            if isinstance(item, slice):
                start, stop, step = item.indices(size)
                count = len(range(start, stop, step))
                offset += start * stride if count else 0
                shape.append(count)
                strides.append(stride * step)
            else:
                position = item + size if item < 0 else item
                if not 0 <= position < size:
                    raise IndexError(f"index {item} is out of bounds for axis {axis} of size {size}")
                offset += position * stride
            axis += 1
        return DeviceTensor(self.storage, tuple(shape), tuple(strides), offset)

    def _expand(self, index: Any) -> Iterator[int | slice | None]:
        items = list(index) if isinstance(index, tuple) else [index]
        for item in items:
            if not (item is None or item is Ellipsis or isinstance(item, (int, slice))) or isinstance(
                item, bool
            ):
                raise ArgumentTypeError(
                    f"a device tensor is indexed by integers, slices, ... and None, not {item!r}"
                )
        used = sum(item is not None and item is not Ellipsis for item in items)
        if used > self.ndim:
            raise IndexError(f"{used} indices for a tensor of rank {self.ndim}")
        if sum(item is Ellipsis for item in items) > 1:
            raise IndexError("an index may hold one ellipsis")
        rest = [slice(None)] * (self.ndim - used)
        at = next((k for k, item in enumerate(items) if item is Ellipsis), len(items))
        yield from [*items[:at], *rest, *items[at + 1 :]]

    def transpose(self, *axes: int) -> DeviceTensor:
        """A view with permuted axes (default: reversed)."""
        order = axes or tuple(range(self.ndim))[::-1]
        if not all(isinstance(axis, int) for axis in order):
            raise ArgumentTypeError(f"axes must be integers, not {order}")
        if sorted(order) != list(range(self.ndim)):
            raise ArgumentValueError(f"axes {order} do not permute a tensor of rank {self.ndim}")
        return DeviceTensor(
            self.storage,
            tuple(self.shape[a] for a in order),
            tuple(self.strides[a] for a in order),
            self.offset,
        )

    def expand(self, shape: Sequence[int]) -> DeviceTensor:
        """A view in which axes of size 1 (or missing in front) are repeated."""
        if not isinstance(shape, Sequence) or not all(isinstance(size, int) for size in shape):
            raise ArgumentTypeError(f"shape must be a sequence of integers, not {shape!r}")
        missing = len(shape) - self.ndim
        if missing < 0:
            raise ArgumentValueError(f"cannot expand {self.shape} to {tuple(shape)}")
        strides = [0] * missing
        for have, want, stride in zip(self.shape, shape[missing:], self.strides, strict=True):
            if have not in (want, 1):
                raise ArgumentValueError(f"cannot expand {self.shape} to {tuple(shape)}")
            strides.append(stride if have == want else 0)
        return DeviceTensor(self.storage, tuple(shape), tuple(strides), self.offset)
