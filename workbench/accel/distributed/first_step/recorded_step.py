"""The first step of each optimizer, written down: parameters before and after it, and the gradients that it used."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from typing import Any

from accel.distributed.cells.code_in_place import is_installed

MOST_BATCHES = 64
_MOST_NUMBERS = 1 << 20  # of one tensor; of a larger one every n-th is kept


@dataclass
class RecordedStep:
    """Parameters in the order of the optimizers' first steps; all numbers as float64.

    >>> step = RecordedStep()
    >>> step.begins(optimizer); optimizer.step(); step.ends_here()
    """

    starts: list[Any] = field(default_factory=list)
    ends: list[Any] = field(default_factory=list)
    gradients: list[Any] = field(default_factory=list)  # None where the optimizer computes them itself
    sizes: list[int] = field(default_factory=list)  # bytes of one number
    draws: str = ""  # random numbers that one process cannot draw as ranks do
    lowest_bytes: int = 8  # of the numbers that are computed with
    generators: list[dict[str, str]] = field(default_factory=list)  # of each rank, `digests` after the step
    samples: list[Any] = field(default_factory=list)  # `hashed_samples` of each batch, at most MOST_BATCHES

    def __post_init__(self) -> None:
        self._parameters: list[Any] = []
        self._optimizers: set[int] = set()

    def begins(self, optimizer: Any) -> None:
        """It is about to step; only its first step counts."""
        if id(optimizer) in self._optimizers:
            return
        self._optimizers.add(id(optimizer))
        for group in optimizer.param_groups:
            for p in group["params"]:
                self._parameters.append(p)
                self.starts.append(_numbers(p))
                self.gradients.append(None if p.grad is None else _numbers(p.grad))
                self.sizes.append(p.element_size())

    def ends_here(self) -> None:
        """Each optimizer has stepped that does in this turn of the loop."""
        self.ends = [_numbers(p) for p in self._parameters]
        self.lowest_bytes = min([self.lowest_bytes, *self.sizes])
        self._parameters.clear()


def save(step: RecordedStep | str, path: str) -> None:
    """Write it, or why there is none, for the ranks; they see all of it or nothing.

    >>> save("the cell took no step", path)
    """
    import torch

    contents: dict[str, Any] = {"why": step} if isinstance(step, str) else {"why": "", **_fields_of(step)}
    torch.save(contents, f"{path}-part")
    os.replace(f"{path}-part", path)


def save_imports(path: str) -> None:
    """Write the names of the installed modules that this process has, next to its step.

    >>> save_imports(path)
    """
    found = {
        name
        for name, module in list(sys.modules.items())
        if is_installed(getattr(module, "__file__", None) or "")
    }
    with open(f"{path}-imports", "w") as file:
        file.write("\n".join(sorted(found)))


def imports_of(path: str) -> list[str]:
    """What `save_imports` wrote; nothing where it wrote nothing.

    >>> imports_of(path)
    """
    try:
        with open(f"{path}-imports") as file:
            return file.read().splitlines()
    except OSError:
        return []


def loaded(path: str) -> RecordedStep | str:
    """What `save` wrote: tensors, numbers and text, no other objects.

    >>> loaded(path)
    """
    import torch

    contents = torch.load(path, weights_only=True)
    why: str = contents.pop("why")
    return why or RecordedStep(**contents)


def _fields_of(step: RecordedStep) -> dict[str, Any]:
    return {name: getattr(step, name) for name in RecordedStep.__dataclass_fields__}


def _numbers(tensor: Any) -> Any:
    """A copy on the CPU: all of them, or every n-th."""
    import torch

    flat = tensor.detach()
    flat = (flat.to_dense() if flat.is_sparse else flat).reshape(-1)
    stride = -(-flat.numel() // _MOST_NUMBERS) or 1
    flat = flat[::stride]
    if flat.is_complex():
        flat = torch.view_as_real(flat).reshape(-1)
    return flat.to("cpu", torch.float64, copy=True)
