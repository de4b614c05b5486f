"""What threads of OpenMP do while they wait for their next part: spin, or sleep."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from accel.accelerations.acceleration import Proof
from accel.accelerations.started import Started, not_on_linux
from accel.errors import Reason
from accel.processes.start import Start
from accel.techniques.started.displayed import DISPLAY
from accel.techniques.started.openmp_threads import WATCHED_MS, spun_share

if TYPE_CHECKING:
    from accel.machine import Machine
    from accel.workload import Replica, Workload

VARIABLE = "OMP_WAIT_POLICY"
SLEEPS, SPINS = 0.03, 0.5  # limits for `spun_share()`; with GNU's OpenMP it is 0.1 to 0.3 by default


@dataclass(frozen=True)
class OmpWaitPolicy(Started):
    """Let threads that wait sleep at once ("passive"), or spin until there is work ("active").

    What it does
        Starts the process with `OMP_WAIT_POLICY`. Between two operations the threads of OpenMP wait. By themselves they spin
        for some milliseconds, and then sleep. While a thread spins, nothing else can compute on its core.
    When it helps
        "passive" where other programs compute on these cores too, or the loop itself (Python, loader workers) needs them while
        threads spin: on two busy cores the course CNN ran ×1.1 to ×1.75 as fast. "active" on cores of your own, where
        operations follow each other after more milliseconds than the runtime spins by itself.
    When it hurts
        "passive" costs a few microseconds to wake threads for each operation: on two quiet cores the course CNN ran ×0.90 as
        fast, DenseNet121 ×0.33. "active" on a shared machine takes the cores from the very thread that the others wait for.
    In plain PyTorch
        OMP_WAIT_POLICY=passive python train.py
    References
        https://gcc.gnu.org/onlinedocs/libgomp/OMP_005fWAIT_005fPOLICY.html
        https://docs.pytorch.org/docs/stable/threading_environment_variables.html
    """

    policy: Literal["passive", "active"] = "passive"

    name: ClassVar[str] = "omp_wait_policy"

    def start(self) -> Start:
        """With the variable that the runtime reads as it is loaded."""
        return Start(((VARIABLE, self.policy), DISPLAY))

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """The policy that is there already, or one thread, which waits for no other."""
        import torch

        reasons = not_on_linux()
        if os.environ.get(VARIABLE, "").lower() == self.policy:
            reasons.append(
                Reason(
                    f"The notebook was started with {VARIABLE}={self.policy} already",
                    "Nothing needs to be done.",
                )
            )
        if torch.get_num_threads() == 1:
            reasons.append(
                Reason(
                    "torch runs on 1 thread, which waits for no other", "Leave it off, or use more threads."
                )
            )
        return reasons

    def took_effect(self, replica: Replica) -> Proof:
        """How long the other threads spin after an operation."""
        share = spun_share()
        if share is None:
            return Proof(False, "this system does not count what threads do while they wait")
        did = share <= SLEEPS if self.policy == "passive" else share >= SPINS
        return Proof(
            did,
            f"after an operation, a waiting thread spun for {share * WATCHED_MS:.0f} ms of CPU time "
            f"(counted up to {WATCHED_MS} ms)",
        )
