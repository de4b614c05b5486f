"""What a model was called with: shapes, types and devices instead of the tensors, so that nothing is kept alive."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from accel.workload.namespace_reads import is_a

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class TensorShape:
    """What is left of a tensor."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: str

    @classmethod
    def of(cls, tensor: torch.Tensor) -> TensorShape:
        return cls(tuple(map(int, tensor.shape)), tensor.dtype, str(tensor.device))

    def empty(self, device: str | None = None) -> torch.Tensor:
        """A tensor like the one that was; its values mean nothing, and are valid as indices."""
        import torch

        return torch.zeros(self.shape, dtype=self.dtype, device=device or self.device)

    def __str__(self) -> str:
        return f"{self.shape} {str(self.dtype).removeprefix('torch.')}"


@dataclass(frozen=True)
class CallInputs:
    """Arguments of one call of a model; each tensor in them, however deep, is a TensorShape.

    >>> inputs = CallInputs.of_call(images, mask=mask)
    >>> print(inputs)
    (64, 1, 28, 28) float32, mask: (64, 10) bool
    """

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_call(cls, *args: Any, **kwargs: Any) -> CallInputs:
        """Describe a call; what is neither a tensor nor a number, text or truth value is described by its class."""
        from torch.utils._pytree import tree_map

        return cls(tree_map(_described, args), tree_map(_described, kwargs))

    def filled(self, make: Callable[[TensorShape], Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments with `make(shape)` in the place of each tensor."""
        from torch.utils._pytree import tree_map

        def put(value: Any) -> Any:
            return make(value) if isinstance(value, TensorShape) else value

        return tree_map(put, self.args), tree_map(put, dict(self.kwargs))

    @property
    def strange(self) -> tuple[str, ...]:
        """Classes of arguments that could not be described; without them the call cannot be made again."""
        return tuple(value.class_name for value in self._leaves() if isinstance(value, Strange))

    @property
    def device(self) -> str:
        """Where the first tensor was; empty when there was none."""
        return next((value.device for value in self._leaves() if isinstance(value, TensorShape)), "")

    def _leaves(self) -> list[Any]:
        from torch.utils._pytree import tree_leaves

        return tree_leaves((self.args, dict(self.kwargs)))

    def __str__(self) -> str:
        words = [
            *map(_words, self.args),
            *(f"{name}: {_words(value)}" for name, value in self.kwargs.items()),
        ]
        return ", ".join(words) or "no inputs"


@dataclass(frozen=True)
class Strange:
    """An argument of which nothing but the class is kept."""

    class_name: str


def _described(value: Any) -> Any:
    import torch

    if is_a(value, torch.Tensor):
        try:
            return TensorShape.of(value)
        except Exception:  # a nested tensor has no shape; a subclass may raise
            return Strange(type(value).__qualname__)
    if value is None or is_a(value, (int, float, str, bool, torch.dtype, torch.device)):
        return value
    return Strange(type(value).__qualname__)


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_words(held)}" for name, held in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_words, value)) + "]"
    return value.class_name if isinstance(value, Strange) else str(value)
