"""Notice a model, optimizer or loader when it is used for the first time: objects that the cell builds itself.

An acceleration that is kept, or tried in a worker, must reach objects that do not exist yet when the cell starts. Each is
presented as a `Replica` of its own just before its first use: a model before its first call, an optimizer before its first
step, a loader before its first iterator. Patches exist only while the context is entered.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from accel.hooks.attribute_patches import AttributePatches
from accel.hooks.training_loop import before_step, wrap_iterator, wrap_module_call
from accel.workload.callers_line import at_callers_line
from accel.workload.replica import Replica


class Discovery:
    """Call `on_found(replica)` before the first use of every object that is not among `known`.

    >>> with Discovery(on_found=lambda replica: stack.enter_context(plan.apply(replica)), known=[]):
    ...     exec(cell)
    """

    def __init__(self, on_found: Callable[[Replica], None], known: Iterable[object]) -> None:
        self._on_found = on_found
        self._known: weakref.WeakSet[Any] = weakref.WeakSet(known)
        self._patches = AttributePatches()
        self._thread = 0
        self._depth = 0
        self._is_paused = False

    def __enter__(self) -> Discovery:
        self._thread = threading.get_ident()
        wrap_module_call(self._patches, self._model_call)
        wrap_iterator(self._patches, lambda original: self._loader_iter(at_callers_line(original)))
        before_step(self._patches, self._optimizer_step)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._patches.take_back()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """What is used meanwhile is not the cell's: a trial judges the model between two steps."""
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False

    def _model_call(self, original: Any) -> Any:
        import torch

        is_compiling = torch.compiler.is_compiling

        @functools.wraps(original)
        def __call__(module: Any, *args: Any, **kwargs: Any) -> Any:
            if is_compiling() or self._depth or self._is_paused or threading.get_ident() != self._thread:
                return original(module, *args, **kwargs)
            if (
                self._patches.are_on
                and module not in self._known
                and not _is_in_backward()  # a checkpointed block's layers, computed again
                and any(p.requires_grad for p in module.parameters())
            ):
                self._found(module, Replica(models={type(module).__name__: module}, is_process_wide=False))
            self._depth += 1  # its submodules are not models of their own
            try:
                return original(module, *args, **kwargs)
            finally:
                self._depth -= 1

        return __call__

    def _loader_iter(self, original: Any) -> Any:
        @functools.wraps(original)
        def __iter__(loader: Any) -> Any:
            is_ours = threading.get_ident() == self._thread and not self._is_paused
            if self._patches.are_on and loader not in self._known and is_ours:
                self._found(loader, Replica(loaders={type(loader).__name__: loader}, is_process_wide=False))
            return original(loader)

        return __iter__

    def _optimizer_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if optimizer not in self._known:
            self._found(
                optimizer, Replica(optimizers={type(optimizer).__name__: optimizer}, is_process_wide=False)
            )

    def _found(self, thing: object, replica: Replica) -> None:
        self._known.add(thing)
        self._on_found(replica)


def _is_in_backward() -> bool:
    import torch

    return torch._C._current_graph_task_id() != -1
