"""Loss scaling that a cell need not know of: inside every backward pass and every optimizer step of the process.

The class is plain PyTorch, and exported code carries its source: what runs in the notebook and what is written into a cell
are the same lines. Only `autocast(dtype="fp16")` needs this file, and imports it when it does, for it loads torch.
"""

from __future__ import annotations

import inspect
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.hooks import RemovableHandle


class LossScaling:
    """Backward passes on gradients times `scale`, so that float16 does not round small ones to zero.

    The method and the constants are those of torch.amp.GradScaler, but gradients are divided again before `backward()`
    returns: clipping, accumulation and logging see true ones. Where they overflowed they become NaN, the step of an
    optimizer that has such gradients changes nothing, and the scale is halved; after 2000 good passes it doubles.
    """

    def __init__(self) -> None:
        self.plain_backward = torch.autograd.backward
        self.scale, self.good_passes = 2.0**16, 0
        self.passes, self.overflows, self.steps, self.skipped = 0, 0, 0, 0
        self.lifted: dict[int, Any] = {}
        self.is_running = False
        self.checked: Any = weakref.WeakKeyDictionary()
        self.withheld: Any = weakref.WeakKeyDictionary()

    def backward(
        self,
        tensors: Any,
        grad_tensors: Any = None,
        retain_graph: Any = None,
        create_graph: bool = False,
        grad_variables: Any = None,
        inputs: Any = None,
    ) -> None:
        """In place of torch.autograd.backward, which every `loss.backward()` calls."""
        roots = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        seeds = [grad_tensors] if isinstance(grad_tensors, torch.Tensor) else grad_tensors
        given = (retain_graph, create_graph, grad_variables, inputs)
        if self.is_running:  # inside another pass, as checkpoints compute: scaled already
            self.lift(self.leaves_behind(roots, inputs))
            return self.plain_backward(tensors, grad_tensors, *given)
        # Gradients to be differentiated again must stay as they are, and a loss in float16 cannot be scaled.
        if create_graph or grad_variables is not None or not all(map(self.can_scale, roots)):
            return self.plain_backward(tensors, grad_tensors, *given)
        scaled = [self.scaled(*pair) for pair in zip(roots, seeds or [None] * len(roots), strict=True)]
        self.is_running = True
        try:
            before = self.lift(self.leaves_behind(roots, inputs))
            had_overflow = self.overflows > 0 and not self.are_finite(before)
            self.plain_backward(roots, scaled, *given)
        finally:
            gradients = self.lower()
            self.is_running = False
        return self.judge(gradients, had_overflow)

    def can_scale(self, root: Any) -> bool:
        return isinstance(root, torch.Tensor) and root.dtype in (torch.float32, torch.float64)

    def scaled(self, root: torch.Tensor, seed: torch.Tensor | None) -> torch.Tensor | None:
        """The gradient that a pass begins with: of a loss, 1."""
        if seed is not None:
            return seed * self.scale
        return torch.full_like(root, self.scale) if root.numel() == 1 else None

    def leaves_behind(self, roots: list[torch.Tensor], inputs: Any) -> list[torch.Tensor]:
        """Every tensor that a pass may add a gradient to."""
        roots = [root for root in roots if isinstance(root, torch.Tensor)]
        leaves = [root for root in roots if root.is_leaf]
        inputs = inputs.values() if isinstance(inputs, dict) else inputs
        leaves += [x for x in ([inputs] if torch.is_tensor(inputs) else inputs or ()) if torch.is_tensor(x)]
        waiting = [root.grad_fn for root in roots if root.grad_fn is not None]
        seen = set(waiting)
        while waiting:
            node: Any = waiting.pop()
            leaves += [node.variable] if hasattr(node, "variable") else []
            following = {parent for parent, _ in node.next_functions if parent is not None} - seen
            seen |= following
            waiting += following
        return leaves

    def lift(self, leaves: list[torch.Tensor]) -> list[torch.Tensor]:
        """Multiply what was accumulated before, so that old and new add up at one scale."""
        new = {id(leaf): leaf for leaf in leaves if id(leaf) not in self.lifted}
        self.lifted.update(new)
        gradients = [leaf.grad for leaf in new.values() if leaf.grad is not None]
        with torch.no_grad():
            torch._foreach_mul_(gradients, self.scale) if gradients else None
        return gradients

    def lower(self) -> list[torch.Tensor]:
        """Divide all gradients, and return them."""
        gradients = [leaf.grad for leaf in self.lifted.values() if leaf.grad is not None]
        self.lifted = {}
        with torch.no_grad():
            torch._foreach_mul_(gradients, 1 / self.scale) if gradients else None
        return gradients

    def judge(self, gradients: list[torch.Tensor], had_overflow: bool) -> None:
        """Note an overflow, and choose the scale of the next pass."""
        self.passes += 1
        if self.are_finite(gradients):
            self.good_passes += 1
            if self.good_passes == 2000:
                self.scale, self.good_passes = self.scale * 2, 0
            return
        with torch.no_grad():
            for gradient in gradients:  # infinite ones too: clip_grad_value_ would make usual numbers of them
                gradient.nan_to_num_(float("nan"), float("nan"), float("nan"))
        self.overflows += 1
        if not had_overflow:
            self.scale, self.good_passes = max(self.scale / 2, 2.0**-24), 0

    def are_finite(self, gradients: list[torch.Tensor]) -> bool:
        return not gradients or bool(torch.nn.utils.get_total_norm(gradients, float("inf")).isfinite())

    def before_step(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
        """Before every optimizer's step; with a closure the gradients are there only after that was called."""
        if self.is_inner_step(optimizer):
            return None
        self.withheld.pop(optimizer, None)  # of a step that was interrupted
        self.steps += 1
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
        if closure is None:
            return self.withhold(optimizer)

        def checked_closure() -> Any:
            loss = closure()
            self.withhold(optimizer)
            return loss

        return args[:1], {**kwargs, "closure": checked_closure}

    def withhold(self, optimizer: Any) -> None:
        """Take gradients that overflowed away for this step: no optimizer changes a parameter that has none."""
        if self.checked.get(optimizer, 0) == self.overflows:
            return  # none since they were last looked at
        parameters = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if self.are_finite([p.grad for p in parameters]):
            self.checked[optimizer] = self.overflows
            return
        self.skipped += 1
        self.withheld[optimizer] = [(p, p.grad) for p in parameters]
        for p in parameters:
            p.grad = None

    def after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """After every optimizer's step."""
        for p, gradient in () if self.is_inner_step(optimizer) else self.withheld.pop(optimizer, ()):
            p.grad = gradient

    def is_inner_step(self, optimizer: Any) -> bool:
        """Whether a hook is called for `super().step()`, in the middle of a step of the same optimizer."""
        hooked: Any = sys._getframe(2)  # torch's function round each step, which calls the hooks
        frame = hooked.f_back
        while frame is not None:
            if frame.f_code is hooked.f_code and frame.f_locals.get("self") is optimizer:
                return True
            frame = frame.f_back
        return False


_LIVE: list[LossScaling] = []  # one entry for each that entered, all of them the same
_HOOKS: list[RemovableHandle] = []


def live_loss_scaling() -> LossScaling | None:
    """The loss scaling in force in this process; None when there is none."""
    return _LIVE[-1] if _LIVE else None


@contextmanager
def scaled_backward_passes() -> Iterator[LossScaling]:
    """Loss scaling for the whole process, while entered; entered again, it is the same one, until the last has left.

    >>> with scaled_backward_passes() as scaling:
    ...     loss.backward(); optimizer.step()
    >>> scaling.skipped
    0
    """
    scaling = live_loss_scaling() or LossScaling()
    try:
        if not _LIVE:
            _start(scaling)
        _LIVE.append(scaling)
        yield scaling
    finally:
        if scaling in _LIVE:
            _LIVE.remove(scaling)
        if not _LIVE:
            _stop(scaling)


def _start(scaling: LossScaling) -> None:
    torch.autograd.backward = scaling.backward
    _HOOKS.append(register_optimizer_step_pre_hook(scaling.before_step))
    _HOOKS.append(register_optimizer_step_post_hook(scaling.after_step))


def _stop(scaling: LossScaling) -> None:
    while _HOOKS:
        _HOOKS.pop().remove()
    for optimizer in list(scaling.withheld):  # a step that was interrupted
        scaling.after_step(optimizer, (), {})
    if (
        getattr(torch.autograd.backward, "__self__", None) is scaling
    ):  # else another's replacement, theirs to take back
        torch.autograd.backward = scaling.plain_backward


def loss_scaling_code() -> str:
    """The same as statements for a cell; running them again changes nothing."""
    return "\n".join(
        [
            "import sys",
            "import weakref",
            "from typing import Any",
            "",
            "import torch",
            "from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook",
            "",
            inspect.getsource(LossScaling),
            'if not hasattr(torch.autograd.backward, "__self__"):  # once a process',
            "    loss_scaling = LossScaling()",
            "    torch.autograd.backward = loss_scaling.backward",
            "    register_optimizer_step_pre_hook(loss_scaling.before_step)",
            "    register_optimizer_step_post_hook(loss_scaling.after_step)",
            "",
        ]
    )
