"""Immutable, hash-consed operation graph with pattern rewriting and symbolic simplification.

Build nodes with :class:`UOp` and its sugar, rewrite them with :class:`PatternMatcher` and
:func:`graph_rewrite`, simplify index arithmetic with :meth:`UOp.simplify`.
"""

from uopgraph import bounds as _bounds
from uopgraph import factors as _factors
from uopgraph import hashing as _hashing
from uopgraph import infer as _infer
from uopgraph.args import AddrSpace, AxisType, BufferizeOpts, CallInfo, Device, KernelInfo, ParamArg
from uopgraph.commit import commit
from uopgraph.dtype import (
    ConstFloat,
    ConstValue,
    DType,
    Invalid,
    InvalidType,
    can_lossless_cast,
    dtypes,
    least_upper_dtype,
    least_upper_float,
    strong_dtype,
    sum_acc_dtype,
    truncate,
)
from uopgraph.errors import (
    ArityError,
    BoundError,
    BroadcastError,
    DeviceError,
    DTypeError,
    EncodingError,
    IndexingError,
    PatternError,
    RewriteError,
    ShapeError,
    SpecError,
    UnsupportedError,
    UOpError,
)
from uopgraph.evaluate import evaluate, sym_infer
from uopgraph.infer import as_shape
from uopgraph.movement_sugar import MovementSugar, product, sint
from uopgraph.node import UOp, checking, consumer_map, identity_element, live_nodes, resolve
from uopgraph.operators import Operators
from uopgraph.ops import GroupOp, Ops
from uopgraph.order import in_order, order_key
from uopgraph.pattern import PatternMatcher, UPat
from uopgraph.render import dump, infix, pyeval, pyrender
from uopgraph.rewrite import BottomUpGate, graph_rewrite
from uopgraph.serialize import from_json, register_record, to_json
from uopgraph.spec import full_spec, kernel_graph_spec, program_spec, tensor_spec, type_verify
from uopgraph.symbolic import fast_symbolic, index_rules, sym, symbolic

del _bounds, _factors, _hashing, _infer

__version__ = "0.1.0"

__all__ = [
    "AddrSpace",
    "ArityError",
    "AxisType",
    "BottomUpGate",
    "BoundError",
    "BroadcastError",
    "BufferizeOpts",
    "CallInfo",
    "ConstFloat",
    "ConstValue",
    "DType",
    "DTypeError",
    "Device",
    "DeviceError",
    "EncodingError",
    "GroupOp",
    "IndexingError",
    "Invalid",
    "InvalidType",
    "KernelInfo",
    "MovementSugar",
    "Operators",
    "Ops",
    "ParamArg",
    "PatternError",
    "PatternMatcher",
    "RewriteError",
    "ShapeError",
    "SpecError",
    "UOp",
    "UOpError",
    "UPat",
    "UnsupportedError",
    "as_shape",
    "can_lossless_cast",
    "checking",
    "commit",
    "consumer_map",
    "dtypes",
    "dump",
    "evaluate",
    "fast_symbolic",
    "from_json",
    "full_spec",
    "graph_rewrite",
    "identity_element",
    "in_order",
    "index_rules",
    "infix",
    "kernel_graph_spec",
    "least_upper_dtype",
    "least_upper_float",
    "live_nodes",
    "order_key",
    "product",
    "program_spec",
    "pyeval",
    "pyrender",
    "register_record",
    "resolve",
    "sint",
    "strong_dtype",
    "sum_acc_dtype",
    "sym",
    "sym_infer",
    "symbolic",
    "tensor_spec",
    "to_json",
    "truncate",
    "type_verify",
]
