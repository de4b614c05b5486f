"""What a profile looks into beyond its default; each option costs time in the profiled steps only."""

from __future__ import annotations

from dataclasses import dataclass, fields

from accel.bounds import check_steps
from accel.errors import AccelError


@dataclass(frozen=True)
class ProfileOptions:
    """The options of `%%accel profile`, the same in the functions.

    >>> ProfileOptions(steps=3, memory=True)
    ProfileOptions(steps=3, shapes=False, stacks=False, memory=True)

    `steps` is how many steps run under torch.profiler after warm-up; all steps are timed. Raises AccelError for a number
    of steps below 1, and for a switch that is neither True nor False.
    """

    steps: int = 5
    shapes: bool = False  # input shapes of each operation, and from them FLOPs, bytes and the roofline
    stacks: bool = False  # the user's own line that led to each operation
    memory: bool = False  # allocated bytes over the step

    def __post_init__(self) -> None:
        check_steps(f"profile(steps={self.steps!r})", self.steps)
        for switch in fields(self)[1:]:
            value = getattr(self, switch.name)
            if not isinstance(value, bool):
                raise AccelError(
                    f"profile({switch.name}={value!r})", because="it is neither True nor False",
                    do=f"Use for example {switch.name}=True.",
                )  # fmt: skip
