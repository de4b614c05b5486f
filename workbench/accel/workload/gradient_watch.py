"""Whether anything clears the gradients between two updates of an optimizer: accel watches one gradient."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

FEWEST_UPDATES = 2
# Up to so many updates, accel also reads the gradient's values before a backward pass, at most MOST_LOOKS times:
# `p.grad.data.zero_()` leaves no other sign.
LOOKED_THROUGH, MOST_LOOKS = 3, 64


def _silently(look: Callable[..., None]) -> Callable[..., None]:
    """An exception from the user's classes ends the watch and never reaches the training.

    Once something has cleared this optimizer's gradients, the watch stops looking.
    """

    @functools.wraps(look)
    def looking(self: GradientWatch, *args: Any) -> None:
        if self.clears and (not args or id(args[0]) == self._optimizer):
            return
        try:
            look(self, *args)
        except Exception:
            self.let_go()
            self.clears += 1

    return looking


class GradientWatch:
    """Watches the gradient of the optimizer's smallest parameter.

    `zero_grad()` in all its forms drops a gradient or writes zeros into it, and so does code that does this by hand. Between an
    update and the next backward pass, a gradient that nothing cleared is the same tensor with the same version.
    """

    def __init__(self) -> None:
        self.updates, self.clears = 0, 0
        self._optimizer = 0  # its id
        self._parameter: Any = None
        self._seen: tuple[int, int] | None = None  # id and version of the gradient when last looked at
        self._is_cleared = self._adds = False  # since the last update began
        self._has_values: list[Any] = []  # whether the gradient had a nonzero value; read after the run

    @property
    def never_clears(self) -> bool:
        """Whether the optimizer made several updates and nothing cleared the gradient between them. Waits for the GPU."""
        if self.updates < FEWEST_UPDATES or self.clears:
            return False
        try:
            return all(map(bool, self._has_values))
        except RuntimeError:  # an error of the GPU, which the cell itself has met or will meet
            return False

    @_silently
    def cleared(self, optimizer: Any) -> None:
        """`zero_grad()` was called: on a GPU, writing zeros into many gradients at once leaves no sign."""
        self._is_cleared |= id(optimizer) == self._optimizer

    @_silently
    def before_backward(self) -> None:
        """A backward pass is about to add to the gradients."""
        if self._parameter is not None and not self._is_cleared:
            self._is_cleared = self._seen != _state(self._parameter)
            if not self._is_cleared and self.updates <= LOOKED_THROUGH and len(self._has_values) < MOST_LOOKS:
                self._look()

    @_silently
    def after_backward(self) -> None:
        """The backward pass has added to the gradients, so their version has changed."""
        if self._parameter is not None:
            self._adds |= self._seen != _state(self._parameter)
            self._seen = _state(self._parameter)

    @_silently
    def before_update(self, optimizer: Any) -> None:
        """An optimizer is about to step, perhaps with a closure that runs backward passes."""
        if self._optimizer != id(optimizer):
            self._optimizer, self.updates, self.clears, self._has_values = id(optimizer), 0, 0, []
            self._parameter = _smallest(optimizer)
        elif self._parameter is not None:
            self.clears += self._is_cleared or not self._adds or self._is_another()
        self._is_cleared = self._adds = False
        if self._parameter is not None:
            self.updates += 1
            self._seen = _state(self._parameter)

    @_silently
    def after_update(self, optimizer: Any) -> None:
        """The optimizer has stepped. A step that replaces the gradient counts as clearing; an in-place change does not."""
        if self._optimizer != id(optimizer):
            return
        if self._parameter is None:
            self._parameter, self._adds = _smallest(optimizer), True  # a closure made the first gradients
        elif self._is_another():
            self._is_cleared = True
        if self._parameter is not None:
            self._seen = _state(self._parameter)

    def let_go(self) -> None:
        """Drop the references."""
        self._parameter = self._seen = None
        self._has_values = []

    def _is_another(self) -> bool:
        return self._seen is not None and self._seen[0] != id(self._parameter.grad)

    def _look(self) -> None:
        """Record whether the gradient has a nonzero value, without waiting for the GPU.

        While a CUDA graph is captured the gradient counts as cleared: no operation may be added.
        """
        import torch

        gradient = self._parameter.grad
        if type(gradient) is torch.Tensor:
            if gradient.is_cuda and torch.cuda.is_current_stream_capturing():
                self._is_cleared = True
            else:
                self._has_values.append(gradient.detach().any())


def _state(parameter: Any) -> tuple[int, int]:
    """Holds no reference, so that a gradient that training drops is freed."""
    gradient = parameter.grad
    return id(gradient), -1 if gradient is None else int(gradient._version)


def _smallest(optimizer: Any) -> Any:
    """The parameter with the smallest gradient; None without one."""
    parameters = [
        each for group in optimizer.param_groups for each in group["params"] if each.grad is not None
    ]
    return min(parameters, key=lambda each: each.numel(), default=None)
