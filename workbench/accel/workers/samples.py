"""What a worker reported in one relaunch, and how much a relaunch is to measure."""

from __future__ import annotations

from dataclasses import dataclass, field

from accel.errors import AccelError
from accel.profiling.compilation import Compilation

# Over all variants together, for a warm-up of one pass over the training data, which plans that gain only from the second epoch
# on need.
LONGEST_PASS_S = 30.0


@dataclass
class Samples:
    """What one variant's worker reported in one relaunch."""

    step_ns: list[float] = field(default_factory=list)  # one number a round: the mean of its timed steps
    losses: list[float | None] = field(default_factory=list)  # of the first steps, warm-up included
    step_samples: list[float] = field(default_factory=list)  # one number a round, as `step_ns`
    every_step_samples: list[int] = field(default_factory=list)  # of every step, warm-up included
    first_step_s: float = 0.0
    warm_up_s: float = 0.0  # wall time of all warm-up steps, the first included
    warm_up_steps: int = 0
    usual_step_s: float = 0.0  # of the warm-up's steps, later of the turns so far
    epoch_steps: int = 0  # from one start of the loader's workers to the next; 0 if unknown
    pass_steps: int = 0  # in one whole pass over the training data; 0 if unknown
    baseline_workers: int = 0  # worker processes that the cell's own loader starts
    times_epochs: bool = False  # each of these rounds is whole epochs
    applied_s: float = 0.0  # the longest that applying the plan took in the middle of the cell's run
    minor_faults: int = 0
    steps: int = 0
    proofs: tuple[tuple[str, bool, str], ...] = ()
    compilation: Compilation | None = None  # all that torch.compile did in the worker
    resident_bytes: int = 0  # of the process, at the most from the arrival of the workload on
    tensor_bytes: int = 0  # that tensors held at the most
    error: AccelError | None = None


@dataclass(frozen=True)
class Effort:
    """How much one relaunch measures: rounds, and the seconds after which it stops at the next round."""

    warm_up: int = 5
    least_rounds: int = 16
    most_rounds: int = 60
    seconds: float = 6.0
    precise_enough: float = 0.006  # standard error of the median log-ratio; processes differ by more
    # A plan that is plainly slower than the baseline takes part in no further round.
    leaves_slower: bool = False
    fills: bool = True  # the last relaunch before the deadline takes more rounds in the time that is left
