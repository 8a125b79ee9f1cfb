"""Writing kernels in Python.

>>> from ktir.builder import Kernel
>>> k = Kernel("bias_relu", grid=(32,))
>>> x, b, y = (k.pointer(name) for name in "xby")
>>> rows = k.view(x, (96, 640), "f16")
>>> bias = k.view(b, (640,), "f16").load().broadcast((3, 640), 0)
>>> (core,) = k.tile_id()
>>> mine = slice(core * 3, core * 3 + 3)
>>> k.view(y, (96, 640), "f16")[mine, :] = (rows[mine, :].load() + bias).maximum(0)
>>> [operation.name for operation in k.build().operations]
['func.func']
"""

from ktir.builder.element import Element, Scalar, Tensor, as_type
from ktir.builder.emitter import BuilderError
from ktir.builder.index import Index
from ktir.builder.kernel import Kernel, Loop, build_module
from ktir.builder.view import Indirect, Tile, View

__all__ = [
    "BuilderError",
    "Element",
    "Index",
    "Indirect",
    "Kernel",
    "Loop",
    "Scalar",
    "Tensor",
    "Tile",
    "View",
    "as_type",
    "build_module",
]
