"""The loss of a step as a user reads it: without a GradScaler's scale, and without the `/ k` of k micro-batches."""

from __future__ import annotations

import functools
from typing import Any


class StepLoss:
    """Hears of every backward pass, and gives the loss of the last one when the optimizer has stepped.

    >>> loss.passed(criterion(model(x), y) / 4)     # four of these a step
    >>> loss.of_step()
    tensor(1.0986)

    A factor is taken out only where it is the scaler's, or the number of backward passes of a step; others belong to the loss.
    """

    def __init__(self) -> None:
        self._unscaled: tuple[Any, Any] | None = None  # what a scaler gave, and what it was given
        self._last: Any = None
        self._divisor: float | None = None
        self._passes, self._most_passes = 0, 1

    def scaling(self, original: Any) -> Any:
        """For `GradScaler.scale`: remember what was scaled until its backward pass."""

        @functools.wraps(original)
        def scale(scaler: Any, outputs: Any) -> Any:
            scaled = original(scaler, outputs)
            self._unscaled = (scaled, outputs)
            return scaled

        return scale

    def passed(self, output: Any) -> None:
        """A backward pass of this tensor is about to begin."""
        self._passes += 1
        unscaled, self._unscaled = self._unscaled, None
        if unscaled is not None and unscaled[0] is output:
            output = unscaled[1]
        if output.numel() == 1:
            self._last, self._divisor = output.detach(), _divisor(output)

    def other_stepped(self) -> None:
        """Another optimizer than the one whose steps count: the passes until now were its own."""
        self._passes = 0

    def of_step(self) -> Any:
        """The loss of the step that is over; None where no pass had one."""
        self._most_passes = max(self._most_passes, self._passes)
        self._passes = 0
        if self._divisor is not None and abs(self._divisor - self._most_passes) < 1e-6 * self._most_passes:
            return self._last * self._most_passes
        return self._last


def _divisor(output: Any) -> float | None:
    """What a tensor was divided by last, if that was a number: `loss / 4` and `loss * 0.25` give 4."""
    node = output.grad_fn
    kind = type(node).__name__
    if (
        kind not in ("DivBackward0", "MulBackward0")
        or sum(each[0] is not None for each in node.next_functions) != 1
    ):
        return None
    number = node._saved_other
    if number is None or number.numel() != 1 or number.device.type != "cpu":  # a GPU's would be waited for
        return None
    value = float(number)
    if kind == "DivBackward0":
        return value
    return 1 / value if value else None
