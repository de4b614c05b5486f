"""How many backward passes an optimizer step has: learned from the first steps, so that the others exchange nothing."""

from __future__ import annotations

_STEPS_TO_LEARN = 2


class PassesPerStep:
    """Of one model: whether the gradients of its next backward pass have to be exchanged.

    >>> accumulation = PassesPerStep()
    >>> for _ in range(2):
    ...     accumulation.passed(); accumulation.passed(); accumulation.stepped()
    >>> accumulation.passes, accumulation.is_due(is_last_batch=False)
    (2, False)

    That leaving out the exchange is right does not rest on the pattern: gradients that are still local when somebody needs them
    are exchanged then, and after such a surprise in every pass (`never_again`).
    """

    def __init__(self) -> None:
        self.passes = 1  # a step has so many, as far as is known
        self._since_step = 0
        self._seen: list[int] = []
        self._is_given_up = self.waits_for_step = False

    def is_due(self, *, is_last_batch: bool) -> bool:
        """Whether the next pass may be the last before a step; the last batch of an epoch often is."""
        return not self.waits_for_step and (is_last_batch or self._since_step + 1 >= self.passes)

    def passed(self) -> None:
        """A backward pass gave this model gradients."""
        self._since_step += 1

    def stepped(self) -> None:
        """An optimizer used them."""
        if self._since_step and len(self._seen) < _STEPS_TO_LEARN:
            self._seen.append(self._since_step)
            if len(self._seen) == _STEPS_TO_LEARN and len(set(self._seen)) == 1 and not self._is_given_up:
                self.passes = self._seen[0]
        self._since_step = 0

    def never_again(self) -> None:
        """Gradients were needed before their turn: from now on each pass exchanges them."""
        self._is_given_up, self.waits_for_step, self.passes = True, False, 1

    def only_before_step(self) -> None:
        """Somebody keeps the gradients of each pass and gives the optimizer all of them: then is the time to exchange."""
        self.waits_for_step = not self._is_given_up
