"""What the public functions do with wrong arguments.

:func:`checked` compares arguments with the annotations of their parameters before the function runs, so that
every function says in the same words which argument it cannot take. What the graph layer says about an
expression that cannot be built is raised as the error of this package of the same kind.
"""

from __future__ import annotations

import collections.abc
import functools
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

import attrs
import numpy as np

from rangeify import errors
from rangeify.errors import CallError
from uopgraph import UOp
from uopgraph import errors as graph_errors

_P = ParamSpec("_P")
_R = TypeVar("_R")
_C = TypeVar("_C")

#: The value in plain form (NumPy integers as Python integers); raises `_Misfit` for one of another type.
_Fit: TypeAlias = Callable[[Any], Any]


class _Misfit(Exception):
    pass


def _integer(value: Any) -> Any:
    if type(value) is int:  # nearly all of them
        return value
    if isinstance(value, np.integer):
        return int(value)
    return _instance((int, UOp), value)  # a size or position may be symbolic


def _number(value: Any) -> Any:
    return _instance((int, float, np.integer, np.floating), value)


def _instance(classes: tuple[type, ...], value: Any) -> Any:
    if not isinstance(value, classes):
        raise _Misfit
    return value


def _either(fits: tuple[_Fit, ...], value: Any) -> Any:
    for fit in fits:
        try:
            return fit(value)
        except _Misfit:
            continue
    raise _Misfit


def _several(fits: tuple[_Fit, ...] | _Fit, value: Any) -> Any:
    """A sequence, each element by its own fit or all by one."""
    if isinstance(value, str | bytes) or not isinstance(value, collections.abc.Sequence):
        raise _Misfit
    if not isinstance(fits, tuple):
        fits = (fits,) * len(value)
    if len(fits) != len(value):
        raise _Misfit
    plain = tuple(fit(v) for fit, v in zip(fits, value, strict=True))
    return value if all(a is b for a, b in zip(plain, value, strict=True)) else plain


def _mapping(key: _Fit, element: _Fit, value: Any) -> Any:
    if not isinstance(value, collections.abc.Mapping):
        raise _Misfit
    return {key(k): element(v) for k, v in value.items()}


def _anything(value: Any) -> Any:
    return value


_SCALARS: Final[dict[Any, _Fit]] = {
    int: _integer,
    float: _number,
    bool: functools.partial(_instance, (bool, np.bool_)),
    None: functools.partial(_instance, (type(None),)),
    type(None): functools.partial(_instance, (type(None),)),
}


def _fit(hint: Any) -> _Fit | None:
    """How to read a value of an annotated type; None where anything goes."""
    if hint in _SCALARS:
        return _SCALARS[hint]
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        parts = tuple(_fit(a) for a in args)
        known = tuple(p for p in parts if p is not None)
        return functools.partial(_either, known) if len(known) == len(parts) else None
    if origin in (collections.abc.Sequence, list) or (origin is tuple and args[-1] is Ellipsis):
        element = _fit(args[0])
        return functools.partial(_several, element or _anything)
    if origin is collections.abc.Mapping:
        return functools.partial(_mapping, _fit(args[0]) or _anything, _fit(args[1]) or _anything)
    if origin is tuple:
        return functools.partial(_several, tuple(_fit(a) or _anything for a in args))
    if isinstance(hint, type) and hint not in (Any, object):
        return functools.partial(_instance, (hint,))
    return None


def _text(hint: Any) -> str:
    """A type as one writes it."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " | ".join(map(_text, args))
    if args:
        inner = ", ".join("..." if a is Ellipsis else _text(a) for a in args)
        return f"{getattr(origin, '__name__', origin)}[{inner}]"
    return "None" if hint is type(None) else getattr(hint, "__name__", str(hint))


def _depends_on_type(fit: _Fit) -> bool:
    """Whether a value's type alone tells if it fits as it is."""
    if isinstance(fit, functools.partial):
        if fit.func is _either:
            return all(map(_depends_on_type, fit.args[0]))
        return fit.func is _instance
    return fit is _integer or fit is _number


@attrs.frozen
class _Parameter:
    """``by_type``: whether a value's type alone tells if it fits as it is; ``known``: the types that have
    been met of which all values do."""

    name: str
    expected: str
    fit: _Fit
    by_type: bool
    known: set[type] = attrs.field(factory=set, eq=False)

    def read(self, function: str, value: Any) -> Any:
        try:
            plain = self.fit(value)
            if plain is value and self.by_type:
                self.known.add(type(value))
            return plain
        except _Misfit:
            given = repr(value) if isinstance(value, list | tuple | str | dict) else type(value).__name__
            got = given if len(given) <= 60 else f"{given[:57]}..."
            raise CallError(function, self.name, self.expected, got) from None


@attrs.frozen
class _Signature:
    """The parameters of which the type is declared: by position, of ``*args``, by name."""

    positions: tuple[_Parameter | None, ...]
    rest: _Parameter | None
    names: Mapping[str, _Parameter]


@functools.cache
def _signature(function: Callable[..., Any]) -> _Signature | None:
    hints = get_type_hints(function)
    positions: list[_Parameter | None] = []
    rest, names = None, {}
    for name, parameter in inspect.signature(function).parameters.items():
        fit = _fit(hints[name]) if name in hints else None
        declared = None if fit is None else _Parameter(name, _text(hints[name]), fit, _depends_on_type(fit))
        if parameter.kind is parameter.VAR_POSITIONAL:
            rest = declared
        elif parameter.kind is not parameter.KEYWORD_ONLY and parameter.kind is not parameter.VAR_KEYWORD:
            positions.append(declared)
        if declared is not None:
            names[name] = declared
    return _Signature(tuple(positions), rest, names) if names else None


def _read(
    function: str, signature: _Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Arguments in plain form. Their number is the function's own business."""
    expected, more = signature.positions, len(args) - len(signature.positions)
    if more > 0:
        expected += (signature.rest,) * more
    plain = [
        a if p is None or type(a) in p.known else p.read(function, a)
        for p, a in zip(expected, args, strict=False)
    ]
    named = kwargs and {
        k: signature.names[k].read(function, v) if k in signature.names else v for k, v in kwargs.items()
    }
    return plain, named


#: Errors of the graph layer that say something about arguments, from the most special on.
_OWN: Final = (
    (graph_errors.BroadcastError, errors.BroadcastError),
    (graph_errors.IndexingError, errors.IndexingError),
    (graph_errors.ShapeError, errors.ShapeError),
    (graph_errors.DTypeError, errors.DTypeError),
    (graph_errors.DeviceError, errors.DeviceError),
    (graph_errors.BoundError, errors.BindError),
)


def own_error(error: graph_errors.UOpError) -> Exception:
    """The error of this package that says the same; errors that are not about arguments are what they are."""
    if isinstance(error, graph_errors.UnsupportedError):
        return errors.UnsupportedError(error.what)
    found = next((ours for theirs, ours in _OWN if isinstance(error, theirs)), None)
    return error if found is None else found(str(error))


def checked(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A decorator: wrong arguments raise `CallError`, graph errors become errors of this package."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> _R:
        signature = _signature(function)
        if signature is not None:
            plain, kwargs = _read(function.__name__, signature, args, kwargs)
            args = tuple(plain)
        try:
            return function(*args, **kwargs)
        except graph_errors.UOpError as error:
            own = own_error(error)
            if own is error:
                raise
            raise own from error

    return call


def checked_methods(cls: type[_C]) -> type[_C]:
    """A decorator: :func:`checked` on every public method and operator of a class."""
    for name, member in list(vars(cls).items()):
        if name in ("__hash__", "__len__") or (name.startswith("_") and not name.startswith("__")):
            continue
        if isinstance(member, types.FunctionType):
            setattr(cls, name, checked(member))
        elif isinstance(member, classmethod):
            setattr(cls, name, classmethod(checked(member.__func__)))
    return cls
