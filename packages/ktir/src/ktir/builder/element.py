"""Scalars and tensors with Python operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self, TypeAlias

from ktir.affine import Const
from ktir.attributes import ArrayAttr, DenseArrayAttr, DictAttr, IntegerAttr, int_array
from ktir.builder.emitter import BuilderError, Emitter, number, splat, static_shape
from ktir.builder.index import Index
from ktir.dialects import arith, linalg, math, tensor
from ktir.dialects.arith import CmpFPredicate, CmpIPredicate
from ktir.dialects.slices import static_array
from ktir.dtypes import element_type
from ktir.errors import KtirError
from ktir.ir import BlockArgument, Operation, Region, Value
from ktir.types import (
    FLOAT_WIDTHS,
    I1,
    I64,
    INDEX,
    FloatType,
    IndexType,
    IntegerType,
    TensorType,
    Type,
    bit_width,
)

OperationClass: TypeAlias = type[Operation]
ElementLike: TypeAlias = "Element | int | float"


def as_type(type: Type | str) -> Type:
    """A type, or the scalar type with an MLIR or NumPy name (``f16``, ``i32``, ``float16``)."""
    if isinstance(type, Type):
        return type
    if type == "index":
        return INDEX
    if type in FLOAT_WIDTHS:
        return FloatType(type)
    if type[:1] == "i" and type[1:].isdigit():
        return IntegerType(int(type[1:]))
    try:
        return element_type(type)
    except KtirError:
        raise BuilderError(f"'{type}' is no element type") from None


class Element:
    """A scalar or a tensor: arithmetic is element-wise on equal types; Python numbers become constants."""

    __slots__ = ("emitter", "value")

    def __init__(self, emitter: Emitter, value: Value) -> None:
        self.emitter = emitter
        self.value = value

    @property
    def type(self) -> Type:
        """The MLIR type."""
        return self.value.type

    @property
    def element(self) -> Type:
        """The element type; of a scalar its own."""
        return self.type.element if isinstance(self.type, TensorType) else self.type

    def _same(self, value: Value) -> Self:
        return type(self)(self.emitter, value)

    def _constant(self, value: int | float) -> Value:
        if isinstance(self.type, TensorType):
            return self.emitter.constant(splat(value, self.type))
        return self.emitter.constant(number(value, self.type))

    def coerce(self, other: ElementLike) -> Value:
        """`other` as a value of this type: numbers become constants, scalars are repeated."""
        if isinstance(other, Element):
            if other.type == self.type:
                return other.value
            if isinstance(self.type, TensorType) and other.type == self.type.element:
                return self.emitter.value(tensor.Splat.create((other.value,), (self.type,)))
            raise BuilderError(f"types {self.type} and {other.type} do not fit together")
        return self._constant(other)

    def _binary(
        self,
        floats: OperationClass,
        integers: OperationClass | None,
        other: ElementLike,
        swap: bool = False,
    ) -> Self:
        right = self.coerce(other)
        operation = floats if isinstance(self.element, FloatType) else integers
        if operation is None:
            raise BuilderError(f"no such operation on {self.type}")
        operands = (right, self.value) if swap else (self.value, right)
        return self._same(self.emitter.value(operation.create(operands, (self.type,))))

    def _promote(self, other: ElementLike) -> bool:
        """Whether the other operand, being a tensor, decides the type."""
        return not isinstance(self.type, TensorType) and isinstance(other, Tensor)

    def __add__(self, other: ElementLike) -> Self:
        return self._binary(arith.AddF, arith.AddI, other)

    def __radd__(self, other: int | float) -> Self:
        return self._binary(arith.AddF, arith.AddI, other, swap=True)

    def __sub__(self, other: ElementLike) -> Self:
        return self._binary(arith.SubF, arith.SubI, other)

    def __rsub__(self, other: int | float) -> Self:
        return self._binary(arith.SubF, arith.SubI, other, swap=True)

    def __mul__(self, other: ElementLike) -> Self:
        return self._binary(arith.MulF, arith.MulI, other)

    def __rmul__(self, other: int | float) -> Self:
        return self._binary(arith.MulF, arith.MulI, other, swap=True)

    def __truediv__(self, other: ElementLike) -> Self:
        return self._binary(arith.DivF, None, other)

    def __rtruediv__(self, other: int | float) -> Self:
        return self._binary(arith.DivF, None, other, swap=True)

    def __and__(self, other: ElementLike) -> Self:
        return self._binary(arith.AndI, arith.AndI, other)

    def __or__(self, other: ElementLike) -> Self:
        return self._binary(arith.OrI, arith.OrI, other)

    def __xor__(self, other: ElementLike) -> Self:
        return self._binary(arith.XOrI, arith.XOrI, other)

    def __neg__(self) -> Self:
        if not isinstance(self.element, FloatType):
            return self._same(self._constant(0))._binary(arith.SubF, arith.SubI, self)
        return self._unary(arith.NegF)

    def maximum(self, other: ElementLike) -> Self:
        """The larger value; NaN if one is (``arith.maximumf``)."""
        return self._binary(arith.MaximumF, arith.MaxSI, other)

    def minimum(self, other: ElementLike) -> Self:
        """The smaller value; NaN if one is (``arith.minimumf``)."""
        return self._binary(arith.MinimumF, arith.MinSI, other)

    def _unary(self, operation: OperationClass) -> Self:
        if not isinstance(self.element, FloatType):
            raise BuilderError(f"no such operation on {self.type}")
        return self._same(self.emitter.value(operation.create((self.value,), (self.type,))))

    def exp(self) -> Self:
        """e to the power of x."""
        return self._unary(math.Exp)

    def log(self) -> Self:
        """Natural logarithm."""
        return self._unary(math.Log)

    def sqrt(self) -> Self:
        """Square root."""
        return self._unary(math.Sqrt)

    def rsqrt(self) -> Self:
        """Reciprocal square root."""
        return self._unary(math.Rsqrt)

    def tanh(self) -> Self:
        """Hyperbolic tangent."""
        return self._unary(math.Tanh)

    def erf(self) -> Self:
        """Error function."""
        return self._unary(math.Erf)

    def abs(self) -> Self:
        """Absolute value."""
        return self._unary(math.AbsF)

    def floor(self) -> Self:
        """Largest whole number not above x."""
        return self._unary(math.Floor)

    def to(self, type: Type | str) -> Self:
        """Numeric conversion of every element to another element type."""
        target = as_type(type)
        if target == self.element:
            return self
        full = TensorType(self.type.shape, target) if isinstance(self.type, TensorType) else target
        made = _cast(self.element, target).create((self.value,), (full,))
        return self._same(self.emitter.value(made))

    def _compare(self, floats: CmpFPredicate, integers: CmpIPredicate, other: ElementLike) -> Self:
        right = self.coerce(other)
        is_float = isinstance(self.element, FloatType)
        operation: OperationClass = arith.CmpF if is_float else arith.CmpI
        predicate = IntegerAttr(int(floats if is_float else integers), I64)
        result = TensorType(self.type.shape, I1) if isinstance(self.type, TensorType) else I1
        made = operation.create((self.value, right), (result,), {"predicate": predicate})
        return self._same(self.emitter.value(made))

    def __eq__(self, other: ElementLike) -> Self:  # type: ignore[override]
        return self.equal(other)

    def __ne__(self, other: ElementLike) -> Self:  # type: ignore[override]
        return self.not_equal(other)

    __hash__ = object.__hash__

    def __lt__(self, other: ElementLike) -> Self:
        return self._compare(CmpFPredicate.OLT, CmpIPredicate.SLT, other)

    def __le__(self, other: ElementLike) -> Self:
        return self._compare(CmpFPredicate.OLE, CmpIPredicate.SLE, other)

    def __gt__(self, other: ElementLike) -> Self:
        return self._compare(CmpFPredicate.OGT, CmpIPredicate.SGT, other)

    def __ge__(self, other: ElementLike) -> Self:
        return self._compare(CmpFPredicate.OGE, CmpIPredicate.SGE, other)

    def equal(self, other: ElementLike) -> Self:
        """Element-wise equality (i1)."""
        return self._compare(CmpFPredicate.OEQ, CmpIPredicate.EQ, other)

    def not_equal(self, other: ElementLike) -> Self:
        """Element-wise inequality (i1); true where one is NaN."""
        return self._compare(CmpFPredicate.UNE, CmpIPredicate.NE, other)

    def where(self, yes: Element, no: ElementLike) -> Element:
        """``yes`` where this condition (i1) holds, else ``no``, which may be a number."""
        if self.element != I1:
            raise BuilderError(f"a condition has type i1, not {self.element}")
        operands = (self.value, yes.value, yes.coerce(no))
        return yes._same(self.emitter.value(arith.Select.create(operands, (yes.type,))))

    def __bool__(self) -> bool:
        raise BuilderError("a value has no truth value while the kernel is built; use where or Kernel.when")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.type}>"


def _cast(source: Type, target: Type) -> OperationClass:
    match source, target:
        case FloatType(), FloatType():
            return arith.ExtF if bit_width(target) > bit_width(source) else arith.TruncF
        case FloatType(), IntegerType():
            return arith.FPToSI
        case IntegerType(width=width), FloatType():
            return arith.UIToFP if width == 1 else arith.SIToFP
        case (IndexType(), IntegerType()) | (IntegerType(), IndexType()):
            return arith.IndexCast
        case IntegerType(width=1), IntegerType():
            return arith.ExtUI
        case IntegerType(), IntegerType():
            return arith.ExtSI if bit_width(target) > bit_width(source) else arith.TruncI
        case _:
            raise BuilderError(f"no conversion from {source} to {target}")


class Scalar(Element):
    """A single number."""

    __slots__ = ()

    def index(self) -> Index:
        """An integer as an index."""
        converted = self if self.type == INDEX else self.to(INDEX)
        return Index.leaf(self.emitter, converted.value)


class Tensor(Element):
    """A tensor value; operations return new tensors."""

    __slots__ = ()

    @property
    def tensor_type(self) -> TensorType:
        """The type as a tensor type."""
        assert isinstance(self.type, TensorType)
        return self.type

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The extents; None where dynamic."""
        return self.tensor_type.shape

    def _empty(self, shape: Sequence[int | None], element: Type | None = None) -> Value:
        type = TensorType(tuple(shape), element or self.element)
        static_shape(type)
        key = ("empty", type)
        found = self.emitter.cached(key)
        if found is not None:
            return found
        return self.emitter.remember(key, self.emitter.value(tensor.Empty.create((), (type,))))

    # -- reductions

    def _reduce(self, axes: int | Sequence[int], operation: OperationClass, start: float | int) -> Tensor:
        given, rank = [axes] if isinstance(axes, int) else list(axes), len(self.shape)
        dims = sorted(a % rank for a in given if -rank <= a < rank)
        if len(set(dims)) != len(given):
            raise BuilderError(f"axes {given} are not different axes of a tensor of shape {self.shape}")
        type = TensorType(tuple(n for d, n in enumerate(self.shape) if d not in dims), self.element)
        init = self.emitter.constant(splat(start, type))
        arguments = (BlockArgument(self.element), BlockArgument(self.element))
        body = operation.create(arguments, (self.element,))
        region = Region.of((body, linalg.Yield.create(body.results)), arguments)
        attributes = {"dimensions": DenseArrayAttr(I64, tuple(dims))}
        made = linalg.Reduce.create((self.value, init), (type,), attributes, (region,))
        return Tensor(self.emitter, self.emitter.value(made))

    def sum(self, axes: int | Sequence[int]) -> Tensor:
        """Sum over axes, which disappear."""
        float_sum = isinstance(self.element, FloatType)
        return self._reduce(axes, arith.AddF if float_sum else arith.AddI, 0)

    def max(self, axes: int | Sequence[int]) -> Tensor:
        """Maximum over axes, which disappear; NaN wins."""
        if isinstance(self.element, FloatType):
            return self._reduce(axes, arith.MaximumF, float("-inf"))
        return self._reduce(axes, arith.MaxSI, -(1 << (bit_width(self.element) - 1)))

    def min(self, axes: int | Sequence[int]) -> Tensor:
        """Minimum over axes, which disappear; NaN wins."""
        if isinstance(self.element, FloatType):
            return self._reduce(axes, arith.MinimumF, float("inf"))
        return self._reduce(axes, arith.MinSI, (1 << (bit_width(self.element) - 1)) - 1)

    # -- shapes

    def broadcast(self, shape: Sequence[int | None], axes: int | Sequence[int]) -> Tensor:
        """Repeat along new axes: `axes` are those of the result that this tensor does not have.

        >>> from ktir.builder import Kernel
        >>> Kernel("k").full((3,), 1.0, "f16").broadcast((10, 3, 64), (0, 2)).shape
        (10, 3, 64)
        """
        new = (axes,) if isinstance(axes, int) else tuple(axes)
        kept = tuple(n for d, n in enumerate(shape) if d not in new)
        if kept != self.shape:
            raise BuilderError(f"a tensor of shape {self.shape} is not {tuple(shape)} without axes {new}")
        attributes = {"dimensions": DenseArrayAttr(I64, new)}
        made = linalg.Broadcast.build(self.value, self._empty(shape), attributes)
        return Tensor(self.emitter, self.emitter.value(made))

    def transpose(self, *order: int) -> Tensor:
        """Permute the axes: axis i of the result is axis ``order[i]``; reversed without arguments."""
        permutation = order or tuple(reversed(range(len(self.shape))))
        if sorted(permutation) != list(range(len(self.shape))):
            raise BuilderError(f"{permutation} is no permutation of {len(self.shape)} axes")
        init = self._empty([self.shape[d] for d in permutation])
        attributes = {"permutation": DenseArrayAttr(I64, tuple(permutation))}
        return Tensor(self.emitter, self.emitter.value(linalg.Transpose.build(self.value, init, attributes)))

    def reshape(self, *shape: int) -> Tensor:
        """The same elements in row-major order with another static shape."""
        source = static_shape(self.tensor_type)
        if _product(source) != _product(shape):
            raise BuilderError(f"cannot reshape {source} to {shape}")
        if source == shape:
            return self
        groups = _reassociation(source, shape)
        if groups is not None:
            return self._collapse(shape, groups)
        groups = _reassociation(shape, source)
        if groups is not None:
            return self._expand(shape, groups)
        return self.reshape(_product(source)).reshape(*shape)

    def _collapse(self, shape: Sequence[int], groups: Sequence[Sequence[int]]) -> Tensor:
        attributes = {"reassociation": _group_attribute(groups)}
        type = TensorType(tuple(shape), self.element)
        return Tensor(
            self.emitter, self.emitter.value(tensor.CollapseShape.create((self.value,), (type,), attributes))
        )

    def _expand(self, shape: Sequence[int], groups: Sequence[Sequence[int]]) -> Tensor:
        attributes = DictAttr(
            {"reassociation": _group_attribute(groups), "static_output_shape": static_array(shape)}
        )
        type = TensorType(tuple(shape), self.element)
        return Tensor(
            self.emitter, self.emitter.value(tensor.ExpandShape.create((self.value,), (type,), attributes))
        )

    # -- products

    def matmul(self, other: Tensor, start: Tensor | None = None) -> Tensor:
        """``start + self @ other`` for matrices or batches of them; the result has the type of `start`.

        Without `start` it is zero, of the element type of the operands.
        """
        a, b = static_shape(self.tensor_type), static_shape(other.tensor_type)
        if len(a) != len(b) or len(a) not in (2, 3) or a[-1] != b[-2] or a[:-2] != b[:-2]:
            raise BuilderError(f"shapes {a} and {b} do not fit a matrix product")
        shape = (*a[:-1], b[-1])
        if start is None:
            zero = self.emitter.constant(splat(0, TensorType(shape, self.element)))
        elif start.shape != shape:
            raise BuilderError(f"the start of a product of shape {shape} has shape {start.shape}")
        else:
            zero = start.value
        operation = linalg.Matmul if len(a) == 2 else linalg.BatchMatmul
        made = operation.build((self.value, other.value), (zero,))
        return Tensor(self.emitter, self.emitter.value(made))

    def __matmul__(self, other: Tensor) -> Tensor:
        return self.matmul(other)

    def item(self, *indices: Index | int) -> Scalar:
        """One element as a scalar."""
        if len(indices) != len(self.shape):
            raise BuilderError(f"{len(indices)} indices for a tensor of shape {self.shape}")
        values = [(i if isinstance(i, Index) else Index(self.emitter, Const(i), ())).value() for i in indices]
        made = tensor.Extract.create((self.value, *values), (self.element,))
        return Scalar(self.emitter, self.emitter.value(made))


def _product(shape: Sequence[int]) -> int:
    result = 1
    for extent in shape:
        result *= extent
    return result


def _group_attribute(groups: Sequence[Sequence[int]]) -> ArrayAttr:
    return ArrayAttr(tuple(int_array(group) for group in groups))


def _reassociation(fine: Sequence[int], coarse: Sequence[int]) -> list[list[int]] | None:
    """Groups of `fine` dimensions whose products are `coarse`; None if there are none."""
    if len(fine) < len(coarse):
        return None
    groups: list[list[int]] = []
    position = 0
    for extent in coarse:
        group: list[int] = []
        product = 1
        while position < len(fine) and (not group or product < extent):
            group.append(position)
            product *= fine[position]
            position += 1
        if product != extent or not group:
            return None
        groups.append(group)
    if any(fine[d] != 1 for d in range(position, len(fine))):
        return None
    if position < len(fine):
        if not groups:
            return []
        groups[-1] += range(position, len(fine))
    return groups


Combine: TypeAlias = Callable[[Tensor, Tensor], Tensor]
