"""Whether two first steps are one: that of all ranks together, and that of one process with the same samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from accel.units import percent

if TYPE_CHECKING:
    from accel.distributed.first_step.recorded_step import RecordedStep

Check = Literal["on", "strict", "off"]

# The part of a step by which rounding alone may change it: additions in another order, in the lowest precision that computes.
_ROUNDING = {8: 1e-8, 4: 1e-3, 2: 5e-2}
_SMALL = 1e-2  # a tensor whose gradient is smaller than this part of the others' may be nothing but rounding
_ZERO = 1e-3  # an element whose gradient is smaller than this part of the largest: Adam makes a step of its rounding
_ADDS_UP = 0.02  # how near to 1/ranks the ratio of two steps is where the loss is a sum


@dataclass(frozen=True)
class FirstStepCheck:
    """What comparing the first steps gave. `difference` is the largest between two weights, `share` the part of the step.

    >>> FirstStepCheck("equal", difference=3e-8).line
    "Checked: the first step equals one process's (3e-08)."
    """

    verdict: Literal["equal", "different", "not checked"]
    difference: float = 0.0
    share: float = 0.0
    reason: str = ""  # why the steps differ, or why they were not compared
    waited_s: float = 0.0  # until one process had taken its step
    is_sum: bool = (
        False  # the ranks' gradients are 1/world_size of one process's, as with a loss that is a sum
    )

    @property
    def line(self) -> str:
        """For the result of the run."""
        if self.verdict == "equal":
            return f"Checked: the first step equals one process's ({self.difference:.0e})."
        if self.verdict == "not checked":
            return f"The first step was not compared with one process's step: {self.reason}."
        return (
            f"Checked: the first step differs from one process's step by {percent(self.share, 0)} of that step; weights "
            f"differ by up to {self.difference:.2g}. {self.reason}"
        )


def compared(
    ranks: RecordedStep, one: RecordedStep, *, world_size: int, normalises_batches: bool
) -> FirstStepCheck:
    """Compare them tensor by tensor.

    >>> compared(step, step, world_size=2, normalises_batches=False).verdict
    'equal'

    A step that differs no more than rounding does is equal. Where an optimizer divides by the size of the gradient, as Adam does,
    rounding moves a weight whose gradient is nearly zero by a whole step: such weights are left out if the gradients are equal.
    """
    if [each.shape for each in ranks.ends] != [each.shape for each in one.ends]:
        return FirstStepCheck(
            "not checked", reason="one process trained other parameters in that step than the ranks did"
        )
    ranks, one = _finite(ranks, one)
    if not all(bool(each.isfinite().all()) for each in [*ranks.ends, *one.ends]):
        return FirstStepCheck("not checked", reason="not all weights are finite after that step")
    if one.draws:
        reason = (
            f"the cell draws random numbers ({one.draws}), and one process cannot draw them as the ranks do"
        )
    share = _share_of_step(ranks, one)
    largest = max((_largest(a - b) for a, b in zip(ranks.ends, one.ends, strict=True)), default=0.0)
    if not share:
        return FirstStepCheck("equal", largest)
    if one.draws:
        return FirstStepCheck("not checked", reason=reason)
    is_sum = _is_sum(ranks, one, world_size)
    cause = _likely_cause(world_size, is_sum=is_sum, normalises_batches=normalises_batches)
    return FirstStepCheck("different", largest, share, cause, is_sum=is_sum)


def _finite(ranks: RecordedStep, one: RecordedStep) -> tuple[RecordedStep, RecordedStep]:
    """Both without weights that are the same and not finite, as the -inf of a mask."""
    import torch

    same = [
        ~a.isfinite() & ((a == b) | (a.isnan() & b.isnan()))
        for a, b in zip(ranks.ends, one.ends, strict=True)
    ]

    def without(step: RecordedStep) -> RecordedStep:
        kinds: dict[str, Any] = {
            name: [
                None if each is None else torch.where(mask, 0.0, each)
                for each, mask in zip(tensors, same, strict=True)
            ]
            for name, tensors in (("starts", step.starts), ("ends", step.ends), ("gradients", step.gradients))
            if len(tensors) == len(same)
        }
        return replace(step, **kinds)

    return (without(ranks), without(one)) if any(bool(mask.any()) for mask in same) else (ranks, one)


def _share_of_step(ranks: RecordedStep, one: RecordedStep) -> float:
    """The part of the step by which they differ, as the Euclidean norm has it; 0 where rounding explains the difference."""
    rounding = _ROUNDING.get(one.lowest_bytes, _ROUNDING[2])
    moved, moved_sizes = [b - a for a, b in zip(one.starts, one.ends, strict=True)], 0.0
    of_gradients = list(zip(ranks.gradients, one.gradients, strict=True))
    step_norm, count = _norm(moved), sum(each.numel() for each in moved)
    gradient_norm = _norm([b for _, b in of_gradients if b is not None])
    gradient_max = max((_largest(b) for _, b in of_gradients if b is not None), default=0.0)
    is_different = False
    for number, (mine, theirs) in enumerate(zip(ranks.ends, one.ends, strict=True)):
        apart, step = mine - theirs, moved[number]
        if _largest(apart) <= 8 * _epsilon(one.sizes[number]) * max(_largest(theirs), 1e-30):
            continue
        of_count = math.sqrt(max(1, step.numel()) / max(1, count))
        if float(apart.norm()) <= rounding * max(float(step.norm()), _SMALL * step_norm * of_count):
            continue
        a, b = of_gradients[number]
        if a is not None and b is not None:
            limit = rounding * max(float(b.norm()), _SMALL * gradient_norm * of_count)
            moved_far = apart.abs() > rounding * max(_largest(step), 1e-30)
            if float((a - b).norm()) <= limit and not bool(
                (moved_far & (b.abs() > _ZERO * gradient_max)).any()
            ):
                continue
        is_different = True
        moved_sizes = math.hypot(moved_sizes, float(apart.norm()))
    if not is_different:
        return 0.0
    return moved_sizes / step_norm if step_norm else 1.0


def _is_sum(ranks: RecordedStep, one: RecordedStep, world_size: int) -> bool:
    """Whether the ranks' gradients equal one process's gradients divided by the number of ranks."""
    pairs = [
        (a, b) for a, b in zip(ranks.gradients, one.gradients, strict=True) if a is not None and b is not None
    ]
    if not pairs:
        pairs = [(a - s, b - s) for s, a, b in zip(one.starts, ranks.ends, one.ends, strict=True)]
    mine, theirs = _norm([a for a, _ in pairs]), _norm([b for _, b in pairs])
    if not mine or not theirs:
        return False
    cosine = sum(float((a * b).sum()) for a, b in pairs) / (mine * theirs)
    return cosine > 0.999 and abs(mine / theirs * world_size - 1) < _ADDS_UP


def _likely_cause(world_size: int, *, is_sum: bool, normalises_batches: bool) -> str:
    """The cause in the user's terms; if neither a sum nor BatchNorm is seen, all other causes are listed together."""
    if is_sum:
        return (
            f"Likely cause: the loss is a sum over its batch, but ranks average gradients, so the gradients are "
            f"1/{world_size} of those of one process. Divide the loss by the number of samples in the batch."
        )
    if normalises_batches:
        return (
            "Likely cause: BatchNorm normalises each rank's part of the batch by itself. --sync-batchnorm normalises the "
            "whole batch."
        )
    return (
        "Likely cause: the loss is not a mean over samples to which each rank contributes the same number of samples. "
        "The loss averages over a part of the samples (padding, a mask, class weights), sums some of them, or compares "
        "samples of the batch with each other; or the cell loops over loaders with different batch sizes. "
        "Use --batch per-rank, where each rank trains on a whole batch."
    )


def _norm(tensors: Sequence[Any]) -> float:
    return math.hypot(*(float(each.norm()) for each in tensors)) if tensors else 0.0


def _largest(tensor: Any) -> float:
    return float(tensor.abs().max()) if tensor.numel() else 0.0


def _epsilon(size_bytes: int) -> float:
    return {8: 2.3e-16, 4: 1.2e-7}.get(size_bytes, 8e-3)
