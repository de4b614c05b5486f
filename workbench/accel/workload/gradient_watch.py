"""Whether anything clears the gradients between two updates of an optimizer: known by watching one of them."""

from __future__ import annotations

from typing import Any

FEWEST_UPDATES = 2


class GradientWatch:
    """Watches the gradient of the optimizer's smallest parameter.

    `zero_grad()` in all its forms drops a gradient or writes zeros into it, and so does code that does this by hand. Between an
    update and the next backward pass, a gradient that nothing cleared is the same tensor with the same version.
    """

    def __init__(self) -> None:
        self.updates, self.clears = 0, 0
        self._optimizer = 0  # its id
        self._parameter: Any = None
        self._seen: tuple[Any, int] | None = None  # the gradient and its version when last looked at
        self._is_cleared = False

    @property
    def never_clears(self) -> bool:
        """Whether the optimizer made several updates and nothing cleared the gradient between them."""
        return self.updates >= FEWEST_UPDATES and not self.clears

    def before_backward(self) -> None:
        """A backward pass is about to add to the gradients."""
        if self._parameter is not None and self._has_changed():
            self._is_cleared = True

    def after_backward(self) -> None:
        """The backward pass has added to the gradients, so their version has changed."""
        if self._parameter is not None:
            self._look()

    def before_update(self, optimizer: Any) -> None:
        """An optimizer is about to step."""
        if self._optimizer != id(optimizer):
            self._optimizer, self.updates, self.clears = id(optimizer), 0, 0
            self._parameter, self._seen = _smallest(optimizer), None
        elif self._parameter is not None and self._seen is not None:
            self._is_cleared |= (
                self._parameter.grad is not self._seen[0]
            )  # put there by the notebook's own code
            self.clears += self._is_cleared
        self.updates += self._parameter is not None

    def after_update(self, optimizer: Any) -> None:
        """It has stepped."""
        if self._optimizer == id(optimizer) and self._parameter is not None:
            self._is_cleared = False
            self._look()

    def let_go(self) -> None:
        """Drop the references."""
        self._parameter = self._seen = None

    def _look(self) -> None:
        gradient = self._parameter.grad
        self._seen = (gradient, _version(gradient))

    def _has_changed(self) -> bool:
        gradient = self._parameter.grad
        return self._seen is not None and (
            gradient is not self._seen[0] or _version(gradient) != self._seen[1]
        )


def _version(gradient: Any) -> int:
    return -1 if gradient is None else int(gradient._version)


def _smallest(optimizer: Any) -> Any:
    """The parameter with the smallest gradient, which costs least to hold; None without one."""
    parameters = [
        each for group in optimizer.param_groups for each in group["params"] if each.grad is not None
    ]
    return min(parameters, key=lambda each: each.numel(), default=None)
