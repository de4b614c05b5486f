"""Counts and times the calls that read a tensor back, while a cell runs, with the user's line of each."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from threading import get_ident
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from accel.profiling.synchronisations import Synchronisation
from accel.profiling.user_code import CodeLine, users_line

if TYPE_CHECKING:
    from accel.workload.attribute_patches import AttributePatches

Method = Callable[..., Any]
# Method of torch.Tensor → what a reader calls it.
CALLS = {
    "item": "Tensor.item", "tolist": "Tensor.tolist", "cpu": "Tensor.cpu", "numpy": "Tensor.numpy",
    "__array__": "numpy.asarray", "__bool__": "bool", "__float__": "float", "__int__": "int", "__index__": "int",
    "__repr__": "print", "__format__": "format",
}  # fmt: skip


class SynchronisationWatch:
    """Wraps the methods in CALLS; what torch itself calls, as optimizers do, passes through uncounted.

    >>> watch = SynchronisationWatch()
    >>> watch.install(marks.patches)        # taken back with the marks' own patches
    >>> watch.found(steps=120)[0].call
    'Tensor.item'
    """

    def __init__(self) -> None:
        self._sums: dict[tuple[str, CodeLine, str], list[int]] = {}  # → [ns, calls]

    def install(self, patches: AttributePatches) -> None:
        """Wrap; `patches` gives the originals back, and meanwhile whenever torch.compile looks at them."""
        import torch

        for method, call in CALLS.items():
            patches.add(torch.Tensor, method, self._watched(call, getattr(torch.Tensor, method)))

    def found(self, steps: int) -> tuple[Synchronisation, ...]:
        """What was called, most time first; per step, where the cell took any."""
        steps = max(steps, 1)
        rows = (
            Synchronisation(call, *line, line.text, device, ns / steps / 1e6, calls / steps)
            for (call, line, device), (ns, calls) in self._sums.items()
        )
        return tuple(sorted(rows, key=lambda row: -row.ms))

    def _watched(self, call: str, original: Method) -> Method:
        from torch.compiler import is_compiling

        home = get_ident()

        @functools.wraps(original)
        def watched(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if is_compiling():
                return original(tensor, *args, **kwargs)
            caller = sys._getframe(1)
            module = caller.f_globals.get("__name__")
            if get_ident() != home or (isinstance(module, str) and module.partition(".")[0] == "torch"):
                return original(tensor, *args, **kwargs)
            device, began = _device_of(tensor), perf_counter_ns()
            try:
                return original(tensor, *args, **kwargs)
            finally:
                self._note(call, users_line(caller), device, perf_counter_ns() - began)

        return watched

    def _note(self, call: str, line: CodeLine | None, device: str, ns: int) -> None:
        if line is not None:
            sums = self._sums.setdefault((call, line, device), [0, 0])
            sums[0] += ns
            sums[1] += 1


def _device_of(tensor: Any) -> str:
    """Its device in words; a subclass with a `__torch_function__` of its own is not to hear of the question."""
    from torch._C import DisableTorchFunctionSubclass

    with DisableTorchFunctionSubclass():
        return "cpu" if tensor.is_cpu else str(tensor.device)
