"""I/O verification: launch an artefact with values and compare what it writes (runtime spec 1.11).

The launch spec says that a launch is well formed; verification says that the answer is right.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np

from spyrert.dtypes import numpy_dtype
from spyrert.errors import LaunchSpecError, SpyreCodeNotFound
from spyrert.runtime import Runtime
from spyrert.spyrecode import ArgSpec, LaunchSpec, SpyreCode
from spyrert.spyrecode._json import parse

Array = np.ndarray[Any, Any]

DEFAULT_TOLERANCES: Final[Mapping[str, tuple[float, float]]] = {
    "float32": (1.3e-6, 1e-5),
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float64": (1e-7, 1e-7),
}
"""(rtol, atol) by output dtype; everything else is compared exactly."""

VERIFY_DIR: Final = "verify"
BINDINGS: Final = "bindings.json"


def resolve_shape(arg: ArgSpec, bindings: Mapping[str, Any]) -> tuple[int, ...]:
    """The argument's shape with symbols replaced; ``LaunchSpecError`` if one is not bound."""
    shape = []
    for size in arg.shape:
        if isinstance(size, str):
            if size not in bindings:
                raise LaunchSpecError(f"size '{size}' of '{arg.name}' is not bound")
            size = int(bindings[size])
        shape.append(size)
    return tuple(shape)


def check_launch_spec(
    spec: LaunchSpec, tensors: Sequence[Any], bindings: Mapping[str, Any] | None = None
) -> list[str]:
    """Compare host arrays, one per argument, with the contract; an empty list is agreement."""
    problems = []
    if len(tensors) != len(spec.args):
        return [f"{spec.kernel_name} takes {len(spec.args)} tensors, got {len(tensors)}"]
    for index, (arg, tensor) in enumerate(zip(spec.args, tensors, strict=True)):
        name = f"argument {index} ('{arg.name}')" if arg.name else f"argument {index}"
        expected = resolve_shape(arg, bindings or {})
        actual = tuple(np.shape(tensor))
        if actual != expected:
            problems.append(f"{name}: expected shape {expected}, got {actual}")
        dtype = np.asarray(tensor).dtype
        if dtype != numpy_dtype(arg.dtype):
            problems.append(f"{name}: expected dtype {arg.dtype}, got {dtype}")
    return problems


@attrs.frozen
class Comparison:
    """How an output compares with what was expected.

    ``worst`` is the index of the greatest absolute difference among the mismatches, ``None`` if there is
    none.
    """

    mismatches: int
    total: int
    greatest_absolute: float
    greatest_relative: float
    worst: tuple[int, ...] | None

    @property
    def good(self) -> bool:
        return self.mismatches == 0

    def __str__(self) -> str:
        if self.good:
            return f"{self.total} elements agree"
        share = 100 * self.mismatches / self.total
        return (
            f"{self.mismatches} of {self.total} elements differ ({share:.1f} %), greatest difference "
            f"{self.greatest_absolute:g} absolute, {self.greatest_relative:g} relative, at {self.worst}"
        )


def compare(actual: Array, expected: Array, rtol: float, atol: float) -> Comparison:
    """``|actual - expected| <= atol + rtol * |expected|``; NaN equals NaN only. Shapes must agree."""
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    nan = np.isnan(a) & np.isnan(e)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        difference = np.where((a == e) | nan, 0.0, np.abs(a - e))
        difference = np.where(np.isnan(difference), np.inf, difference)
        wrong = (difference > 0) & (np.isinf(difference) | ~(difference <= atol + rtol * np.abs(e)))
        relative = np.where(e != 0, difference / np.abs(e), np.where(difference > 0, np.inf, 0.0))
    if actual.dtype.kind in "iub":  # float64 does not hold every 64-bit integer
        wrong = actual != expected if rtol == atol == 0 else wrong
    count = int(wrong.sum())
    worst = None
    if count:
        flat = int(np.argmax(np.where(wrong, difference, -1.0)))
        worst = tuple(int(i) for i in np.unravel_index(flat, actual.shape))
    return Comparison(
        count,
        actual.size,
        float(difference[wrong].max(initial=0.0)),
        float(relative[wrong].max(initial=0.0)),
        worst,
    )


def tolerance(
    spec: LaunchSpec, dtype: str, rtol: float | None, atol: float | None, exact: bool = False
) -> tuple[float, float]:
    """Explicit tolerance, else that of the launch spec, else the default of the dtype."""
    if exact:
        return 0.0, 0.0
    default = DEFAULT_TOLERANCES.get(dtype, (0.0, 0.0))
    if spec.tolerance is not None:
        default = (spec.tolerance.rtol, spec.tolerance.atol)
    return (default[0] if rtol is None else rtol, default[1] if atol is None else atol)


def check_launch_values(
    spec: LaunchSpec,
    actual: Sequence[Array],
    expected: Sequence[Array],
    rtol: float | None = None,
    atol: float | None = None,
    exact: bool = False,
) -> list[str]:
    """Compare outputs, in the order of the contract; an empty list is agreement."""
    outputs = [(index, arg) for index, arg in enumerate(spec.args) if arg.role.writes]
    if not len(outputs) == len(actual) == len(expected):
        return [f"{len(outputs)} outputs, {len(actual)} actual and {len(expected)} expected values"]
    problems = []
    for (index, arg), a, e in zip(outputs, actual, expected, strict=True):
        name = f"output {index} ('{arg.name}')" if arg.name else f"output {index}"
        if a.shape != e.shape:
            problems.append(f"{name}: shape {a.shape}, expected {e.shape}")
            continue
        if exact and a.tobytes() == e.tobytes():
            continue
        result = compare(a, e, *tolerance(spec, arg.dtype, rtol, atol, exact))
        if not result.good:
            problems.append(f"{name}: {result}")
    return problems


def load_tensor_for_arg(path: Path, arg: ArgSpec, bindings: Mapping[str, Any]) -> Array:
    """Read ``.npy`` (self-describing, checked) or ``.bin`` (raw little-endian row-major elements).

    Raises ``LaunchSpecError`` if size, shape or dtype do not fit, ``SpyreCodeNotFound`` if there is no such
    file.
    """
    if not path.is_file():
        raise SpyreCodeNotFound("file of values does not exist", path=str(path))
    shape, dtype = resolve_shape(arg, bindings), numpy_dtype(arg.dtype)
    if path.suffix == ".bin":
        data = path.read_bytes()
        count = int(np.prod(shape, dtype=np.int64))
        if len(data) != count * dtype.itemsize:
            raise LaunchSpecError(
                f"{len(data)} bytes, but '{arg.name}' has {count} elements of {dtype.itemsize} bytes",
                path=str(path),
            )
        return np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype).reshape(shape)
    if path.suffix != ".npy":
        raise LaunchSpecError("values are read from .npy and .bin files", path=str(path))
    try:
        with path.open("rb") as file:
            if file.read(6) != b"\x93NUMPY":  # NumPy would take anything else for a pickle
                raise LaunchSpecError("not a .npy file", path=str(path))
        array: Array = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise LaunchSpecError(f"not a .npy file: {error}", path=str(path)) from error
    if array.dtype.kind == "V" and array.dtype.itemsize == dtype.itemsize:
        array = array.view(dtype)
    if array.dtype != dtype or array.shape != shape:
        raise LaunchSpecError(
            f"{array.dtype} of shape {array.shape}, but '{arg.name}' is {arg.dtype} of shape {shape}",
            path=str(path),
        )
    return array


@attrs.frozen
class Values:
    """Inputs and expected outputs by argument number, and the bindings."""

    inputs: Mapping[int, Array]
    expected: Mapping[int, Array]
    bindings: Mapping[str, Any] = attrs.field(factory=dict)


def record(directory: Path, values: Values) -> Path:
    """Write ``directory/verify/``: ``arg<k>.npy``, ``expected<k>.npy`` and ``bindings.json``."""
    folder = directory / VERIFY_DIR
    folder.mkdir(parents=True, exist_ok=True)
    for prefix, arrays in (("arg", values.inputs), ("expected", values.expected)):
        for index, array in arrays.items():
            np.save(folder / f"{prefix}{index}.npy", array)
    plain = {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in values.bindings.items()
    }
    (folder / BINDINGS).write_text(json.dumps(plain, sort_keys=True) + "\n")
    return folder


def recorded(directory: Path, spec: LaunchSpec) -> Values:
    """Read what :func:`record` wrote."""
    folder = directory / VERIFY_DIR
    if not folder.is_dir():
        raise SpyreCodeNotFound(
            "there are no recorded values; inputs and expected outputs can be given", path=str(folder)
        )
    path = folder / BINDINGS
    bindings = parse(path.read_bytes(), str(path)) if path.is_file() else {}
    inputs = {
        index: load_tensor_for_arg(folder / f"arg{index}.npy", arg, bindings)
        for index, arg in enumerate(spec.args)
        if arg.role.reads
    }
    expected = {
        index: load_tensor_for_arg(folder / f"expected{index}.npy", arg, bindings)
        for index, arg in enumerate(spec.args)
        if arg.role.writes
    }
    return Values(inputs, expected, bindings)


def run(runtime: Runtime, code: SpyreCode, values: Values) -> dict[int, Array]:
    """Launch once; returns what every output holds. Outputs start uninitialised, so that a missing write
    shows."""
    if code.launch is None:
        raise LaunchSpecError("an artefact without launch contract cannot be verified", path=code.path)
    plan = runtime.prepare_kernel(code)
    tensors = []
    for index, arg in enumerate(code.launch.args):
        if index in values.inputs:
            array = values.inputs[index]
            tensors.append(runtime.to_device(array, arg.layout, dtype=arg.dtype))
        else:
            tensors.append(runtime.empty(resolve_shape(arg, values.bindings), arg.dtype, arg.layout))
    runtime.launch(plan, tensors, bindings=values.bindings).wait()
    return {
        index: runtime.to_host(tensors[index])
        for index, arg in enumerate(code.launch.args)
        if arg.role.writes
    }


def verify(
    runtime: Runtime,
    code: SpyreCode,
    values: Values,
    rtol: float | None = None,
    atol: float | None = None,
    exact: bool = False,
) -> tuple[dict[int, Array], list[str]]:
    """Launch and compare; returns the outputs and the problems (empty: all agree). Raises what the launch
    raises."""
    outputs = run(runtime, code, values)
    assert code.launch is not None
    order = sorted(outputs)
    missing = [index for index in order if index not in values.expected]
    if missing:
        raise LaunchSpecError(f"there is no expected value of output {missing[0]}", path=code.path)
    problems = check_launch_values(
        code.launch, [outputs[k] for k in order], [values.expected[k] for k in order], rtol, atol, exact
    )
    return outputs, problems


__all__ = [
    "DEFAULT_TOLERANCES",
    "Comparison",
    "Values",
    "check_launch_spec",
    "check_launch_values",
    "compare",
    "load_tensor_for_arg",
    "record",
    "recorded",
    "run",
    "verify",
]
