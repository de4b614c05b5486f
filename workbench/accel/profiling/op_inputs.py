"""What each operation was called with: shapes, dtypes and plain values of its arguments, as torch.profiler recorded them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Shape = tuple[int, ...]

# The profiler writes C++ names of types.
DTYPES = {
    "float": ("float32", 4), "double": ("float64", 8), "c10::Half": ("float16", 2), "c10::BFloat16": ("bfloat16", 2),
    "long int": ("int64", 8), "long": ("int64", 8), "long long": ("int64", 8), "__int64": ("int64", 8), "int": ("int32", 4),
    "short": ("int16", 2), "short int": ("int16", 2), "signed char": ("int8", 1), "unsigned char": ("uint8", 1),
    "bool": ("bool", 1), "c10::complex<float>": ("complex64", 8), "c10::complex<double>": ("complex128", 16),
    "c10::complex<c10::Half>": ("complex32", 4), "c10::Float8_e4m3fn": ("float8_e4m3fn", 1),
    "c10::Float8_e5m2": ("float8_e5m2", 1),
}  # fmt: skip
NO_TENSORS = frozenset({"Scalar", "ScalarList", ""})


@dataclass(frozen=True)
class TensorInput:
    """One tensor that an operation was given; `dtype` is torch's name, or C++'s where torch has none."""

    shape: Shape
    dtype: str
    element_bytes: int

    @property
    def elements(self) -> int:
        """How many numbers it holds; 1 for a tensor without dimensions."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """What it takes in memory when it is dense."""
        return self.elements * self.element_bytes


@dataclass(frozen=True)
class OpInputs:
    """The arguments of one call, by position: tensors, lists of tensors, and the plain values of the rest.

    >>> inputs.tensors[0].shape, inputs.value("stride")
    ((64, 1, 28, 28), (1, 1))
    """

    op: str
    arguments: tuple[Any, ...]

    @property
    def tensors(self) -> list[TensorInput]:
        """All tensors, those in lists included."""
        return list(self._flat())

    def _flat(self) -> Iterator[TensorInput]:
        for argument in self.arguments:
            if isinstance(argument, TensorInput):
                yield argument
            elif isinstance(argument, TensorList):
                yield from argument.tensors

    @property
    def is_whole(self) -> bool:
        """Whether the first list of tensors, if there is one, came with their shapes; later ones may well be empty."""
        lists = (argument for argument in self.arguments if isinstance(argument, TensorList))
        first = next(lists, None)
        return first is None or bool(first.tensors)

    def value(self, *names: str) -> Any:
        """The argument that the operation's schema calls by one of these names; None where there is none.

        A tensor is a TensorInput, a list of them a TensorList; lists are tuples.
        """
        for name, argument in zip(
            _argument_names(self.op, len(self.arguments)), self.arguments, strict=False
        ):
            if name in names:
                return argument
        return None

    def __str__(self) -> str:
        lists = sum(isinstance(argument, TensorList) for argument in self.arguments)
        if lists:
            if not self.is_whole:
                return f"{lists} lists of tensors, shapes not recorded (torch 2.9 and later do)"
            longest = max(len(a.tensors) for a in self.arguments if isinstance(a, TensorList))
            return f"{lists} × {longest} tensors, taken as float32"
        return " × ".join(str(list(tensor.shape)) for tensor in self.tensors)


@dataclass(frozen=True)
class TensorList:
    """A list of tensors, such as the parameters that a fused optimizer updates in one call; taken as float32.

    The profiler does not record the dtypes in a list.
    """

    tensors: tuple[TensorInput, ...]


@dataclass(frozen=True, eq=False)
class RecordedInputs:
    """For every event the number of its inputs in `distinct`; -1 for events without any."""

    distinct: tuple[OpInputs, ...]
    number: NDArray[np.int64]


def read_inputs(events: Iterable[Any]) -> RecordedInputs:
    """Read the arguments of raw kineto events that were recorded with `record_shapes=True`; equal ones are kept once.

    Source: `structured_input_shapes()`, `dtypes()` and `concrete_inputs()` of each event.
    """
    import numpy as np

    known: dict[tuple[str, str], int] = {}
    distinct: list[OpInputs] = []
    numbers: list[int] = []
    for event in events:
        dtypes = event.dtypes()
        if not dtypes:
            numbers.append(-1)
            continue
        shapes = getattr(
            event, "structured_input_shapes", event.shapes
        )()  # older torch leaves lists of tensors empty
        recorded = shapes, dtypes, event.concrete_inputs()
        number = known.setdefault((event.name(), repr(recorded)), len(distinct))
        if number == len(distinct):
            distinct.append(OpInputs(event.name(), tuple(map(_argument, *recorded))))
        numbers.append(number)
    return RecordedInputs(tuple(distinct), np.array(numbers, dtype=np.int64))


def each_dimension(value: object, count: int, default: int) -> Shape:
    """One number for each spatial dimension; one given holds for all.

    >>> each_dimension((2,), 2, 1), each_dimension(None, 2, 1)
    ((2, 2), (1, 1))
    """
    if not isinstance(value, tuple) or not value:
        return (value if isinstance(value, int) and not isinstance(value, bool) else default,) * count
    return tuple(value) if len(value) == count else (value[0],) * count


def _argument(shape: Any, dtype: str, value: Any) -> Any:
    if dtype == "TensorList":
        return TensorList(tuple(TensorInput(tuple(one), "float32", 4) for one in shape))
    if dtype in NO_TENSORS:
        return tuple(value) if isinstance(value, list) else value
    return TensorInput(tuple(shape), *DTYPES.get(dtype, (dtype, 4)))


@lru_cache(maxsize=1024)
def _argument_names(op: str, count: int) -> tuple[str, ...]:
    """Names of the arguments, from the first overload that takes so many."""
    import torch

    for schema in torch._C._jit_get_schemas_for_operator(op):
        if len(schema.arguments) == count:
            return tuple(argument.name for argument in schema.arguments)
    return ()


@lru_cache(maxsize=1024)
def calls_others(op: str) -> bool:
    """Whether the operation is written in terms of others, as torch's dispatcher tells it.

    >>> calls_others("aten::linear"), calls_others("aten::addmm")
    (True, False)
    """
    import torch

    overloads = [
        f"{schema.name}.{schema.overload_name}".rstrip(".")
        for schema in torch._C._jit_get_schemas_for_operator(op)
    ]
    return any(
        torch._C._dispatch_has_kernel_for_dispatch_key(overload, composite)
        for overload in overloads
        for composite in ("CompositeImplicitAutograd", "CompositeExplicitAutograd")
        if torch._C._dispatch_has_kernel(overload)
    )
