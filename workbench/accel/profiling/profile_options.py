"""What a profile looks into beyond its default; each option costs time in the profiled steps only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ProfileOptions:
    """The options of `%%accel profile`, the same in the functions.

    `steps` is how many steps run under torch.profiler after warm-up; all steps are timed.
    """

    steps: int = 5
    shapes: bool = False  # input shapes of each operation, and from them FLOPs, bytes and the roofline
    stacks: bool = False  # the user's own line that led to each operation
    memory: bool = False  # allocated bytes over the step
