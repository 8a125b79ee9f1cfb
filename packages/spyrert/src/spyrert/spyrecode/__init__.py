"""The SpyreCode artefact: what a compiler hands to the runtime.

This sub-package stands alone: it imports nothing of the runtime or of devices, so a compiler may depend on it
and on nothing else. A kernel folder is

* ``launch_spec.json``: the caller-facing contract, :class:`LaunchSpec`;
* ``symbol_kinds.json``: upstream's symbol order (optional);
* ``spyreCodeDir/spyrecode.json``: the manifest with the two plans, :class:`SpyreCode`;
* ``spyreCodeDir/init_binary.bin``: the image, a :class:`Image` (``SPYREBIN``) around opaque payload bytes.

At launch the host evaluates the symbols of :class:`Hcm` and sends them as a :class:`Correction`
(``SPYCORR1``).
"""

from spyrert.spyrecode.assemble import assemble
from spyrert.spyrecode.code import Addressing, CodeFile, Producer, Span, SpyreCode
from spyrert.spyrecode.commands import (
    Allocate,
    Command,
    ComputeOnDevice,
    ComputeOnHost,
    DataTransfer,
    EventSignal,
    EventWait,
    ExecCommand,
    InitTransfer,
    PrepCommand,
)
from spyrert.spyrecode.correction import Correction, Entry, EntryKind
from spyrert.spyrecode.expressions import (
    Addr,
    ArgumentInputs,
    Binary,
    BinaryOp,
    Const,
    Dim,
    Dyn,
    Expr,
    HostInputs,
    Pool,
    Stride,
    Sym,
    Tile,
    entry_kind,
    evaluate,
    expr_to_json,
)
from spyrert.spyrecode.hcm import Bounds, ForeignHcm, Hcm, HcmSymbol, symbol_values
from spyrert.spyrecode.image import Abi, Image, ImageFlags, PayloadKind, is_spyrebin, read_hex_image
from spyrert.spyrecode.launchspec import (
    ArchitectureId,
    ArgSpec,
    DimKind,
    DimSpec,
    LaunchSpec,
    Role,
    SymbolKind,
    SymbolSpec,
    Tolerance,
    read_launch_spec,
)
from spyrert.spyrecode.layout import Layout, LinearLayout, StickLayout, elements_per_stick, item_bytes
from spyrert.spyrecode.reader import Limits, read, read_memory
from spyrert.spyrecode.writer import pack, write

__all__ = [
    "Abi",
    "Addr",
    "Addressing",
    "Allocate",
    "ArchitectureId",
    "ArgSpec",
    "ArgumentInputs",
    "Binary",
    "BinaryOp",
    "Bounds",
    "CodeFile",
    "Command",
    "ComputeOnDevice",
    "ComputeOnHost",
    "Const",
    "Correction",
    "DataTransfer",
    "Dim",
    "DimKind",
    "DimSpec",
    "Dyn",
    "Entry",
    "EntryKind",
    "EventSignal",
    "EventWait",
    "ExecCommand",
    "Expr",
    "ForeignHcm",
    "Hcm",
    "HcmSymbol",
    "HostInputs",
    "Image",
    "ImageFlags",
    "InitTransfer",
    "LaunchSpec",
    "Layout",
    "Limits",
    "LinearLayout",
    "PayloadKind",
    "Pool",
    "PrepCommand",
    "Producer",
    "Role",
    "Span",
    "SpyreCode",
    "StickLayout",
    "Stride",
    "Sym",
    "SymbolKind",
    "SymbolSpec",
    "Tile",
    "Tolerance",
    "assemble",
    "elements_per_stick",
    "entry_kind",
    "evaluate",
    "expr_to_json",
    "is_spyrebin",
    "item_bytes",
    "pack",
    "read",
    "read_hex_image",
    "read_launch_spec",
    "read_memory",
    "symbol_values",
    "write",
]
