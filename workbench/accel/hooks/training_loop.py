"""The events of a training loop, and the place in torch where each is heard, whoever wrote the loop.

    model = Net()                                 # built: nn.Module.__init__
    optimizer = SGD(model.parameters(), lr=0.1)   # built: Optimizer.__init__
    for epoch in range(10):
        batches = iter(loader)                    # wrap_iterator        DataLoader.__iter__; it starts the workers
        for x, y in batches:                      # wrap_batch           _BaseDataLoaderIter.__next__, and the end of the epoch
            optimizer.zero_grad()                 # phase_patches.py     Optimizer.zero_grad, nn.Module.zero_grad
            x, y = x.to(gpu), y.to(gpu)           # phase_patches.py     Tensor.to, Tensor.cuda
            output = model(x)                     # wrap_module_call     nn.Module.__call__; each layer inside it too,
            loss = criterion(output, y)           # wrap_module_call     a loss that is a module,
            loss.backward()                       # wrap_backward        torch.autograd._engine_run_backward: of autograd.grad too
            optimizer.step()
                hooks before it                   # before_step          torch's global hook, with whichever optimizer steps
                loss = closure()                  #                      LBFGS: model calls and backward passes inside a step
                parameters change
                hooks after it                    # after_step           torch's global hook; not where the step raised
            scheduler.step()                      # phase_patches.py     LRScheduler.step and that of each subclass
        validate(model)                           # the same events: a step is what `leading_optimizer.py` says is one

Who hears an event hands its wrapper to the function named here, with the patches that it takes back later. Wrappers lie on one
another; the last one that was put on hears an event first. What nobody listens to is not patched.

`torch.compile` makes events of its own while it traces: module calls under `torch.compiler.is_compiling()`, and backward passes
that `is_traced` tells apart. Checkpointed blocks call their modules again during a backward pass. Threads of a data set or a
library call modules, too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FrameType
from typing import Any

from accel.hooks.attribute_patches import AttributePatches

Make = Callable[[Any], Any]  # from what torch has, or an earlier wrapper, to the wrapper


def wrap_module_call(patches: AttributePatches, make: Make) -> None:
    """Hear each call of a module."""
    from torch import nn

    patches.wrap(nn.Module, "__call__", make)


def wrap_iterator(patches: AttributePatches, make: Make) -> None:
    """Hear when a loader is asked for its batches."""
    from torch.utils.data import DataLoader

    patches.wrap(DataLoader, "__iter__", make)


def wrap_batch(patches: AttributePatches, make: Make) -> None:
    """Hear each fetch of a batch."""
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    patches.wrap(_BaseDataLoaderIter, "__next__", make)


def wrap_backward(patches: AttributePatches, make: Make) -> None:
    """Hear each backward pass: where Tensor.backward, autograd.grad and torch.func end up."""
    import torch

    patches.wrap(torch.autograd, "_engine_run_backward", make)


def before_step(patches: AttributePatches, hear: Callable[..., Any]) -> None:
    """Call `hear(optimizer, args, kwargs)` before each optimizer's step; subclasses override `step`, so no one method is it."""
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    patches.with_them(register_optimizer_step_pre_hook(hear).remove)


def after_step(patches: AttributePatches, hear: Callable[..., Any]) -> None:
    """Call `hear(optimizer, args, kwargs)` after each optimizer's step."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    patches.with_them(register_optimizer_step_post_hook(hear).remove)


def is_inside_another_step(step: FrameType) -> bool:
    """Whether a step is part of another one: `super().step()`, or an optimizer that steps another.

    >>> def hear(optimizer, args, kwargs):
    ...     is_inside_another_step(sys._getframe(1))   # the frame of torch's wrapper of `step`, which calls hooks
    """
    outer = step.f_back
    while outer is not None and outer.f_code != step.f_code:  # equal, not the same, where a class was shipped
        outer = outer.f_back
    return outer is not None


def is_traced(outputs: Any) -> bool:
    """Whether torch.compile traces a loss with its gradient: then a pass over `outputs` is none of the cell's."""
    return len(outputs) > 0 and isinstance(outputs[0], _traced_kinds())


@functools.cache
def _traced_kinds() -> tuple[type, ...]:
    from torch._subclasses import FakeTensor
    from torch._subclasses.functional_tensor import FunctionalTensor

    return FunctionalTensor, FakeTensor
