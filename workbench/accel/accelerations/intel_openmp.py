"""Intel's OpenMP runtime in place of GNU's, under torch as it is."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from accel.accelerations.acceleration import Effect, Proof
from accel.accelerations.started import Started, bound_already, not_on_linux
from accel.environments.environment import file_in_any
from accel.environments.wanted import no_environment
from accel.errors import AccelError, Reason
from accel.machine.cpu_lists import cpu_list
from accel.machine.reading_software import owner_of
from accel.processes.start import Start, Variables
from accel.techniques.started.displayed import DISPLAY
from accel.techniques.started.openmp_threads import bound_threads

if TYPE_CHECKING:
    from accel.machine import Machine
    from accel.workload import Replica, Workload

FILE, RECIPE = "lib/libiomp5.so", "openmp"
BINDINGS = {
    "none": "disabled",
    "compact": "granularity=fine,compact,1,0",
    "scatter": "granularity=fine,scatter",
}


@dataclass(frozen=True)
class IntelOpenmp(Started):
    """Run torch's parallel loops on Intel's OpenMP runtime, bound to CPUs or not.

    What it does
        Starts the process with `libiomp5.so` before all other libraries: torch's calls of GNU's runtime reach Intel's, which
        offers the same functions. `KMP_BLOCKTIME` says for how many milliseconds a thread that waits spins, `KMP_AFFINITY`
        how threads are bound.
    When it helps
        Beside other programs, with a short `blocktime`: threads give their core up sooner. Machines with several sockets, with
        "compact" or "scatter".
    When it hurts
        Two runtimes are loaded, and code that is linked to GNU's under another name keeps it. On two cores no difference was
        found to GNU's runtime: between ×0.86 and ×1.12.
    In plain PyTorch
        LD_PRELOAD=libiomp5.so KMP_BLOCKTIME=1 KMP_AFFINITY=granularity=fine,compact,1,0 python train.py
    References
        https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#intel-openmp-runtime-library-libiomp
        https://www.intel.com/content/www/us/en/docs/cpp-compiler/developer-guide-reference/2021-10/thread-affinity-interface.html
    """

    affinity: Literal["none", "compact", "scatter"] = "compact"
    blocktime: int = 1
    """Milliseconds that a thread spins before it sleeps."""

    name: ClassVar[str] = "intel_openmp"
    effect: ClassVar[Effect] = "close"
    containers_install_it: ClassVar[bool] = True
    conflicts: ClassVar[tuple[str, ...]] = ("openmp_affinity", "omp_wait_policy", "ddp")

    def __post_init__(self) -> None:
        if self.blocktime < 0:
            raise AccelError(
                f"intel_openmp(blocktime={self.blocktime})",
                because="no thread waits less than 0 ms",
                do="Write 0 or more.",
            )

    def start(self) -> Start:
        """With the runtime before all others, and its own variables."""
        file = file_in_any(FILE) or os.path.basename(FILE)
        variables: Variables = (
            ("KMP_AFFINITY", BINDINGS[self.affinity]),
            ("KMP_BLOCKTIME", str(self.blocktime)),
            DISPLAY,
        )
        return Start(variables, preload=(file,))

    def missing(self) -> list[Reason]:
        """The runtime's file, in any environment."""
        if elsewhere := not_on_linux():
            return elsewhere
        return [] if file_in_any(FILE) else [no_environment("Intel's OpenMP runtime", RECIPE)]

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """The runtime is in no environment yet, or the notebook runs on it, on one thread or with threads bound."""
        import torch

        reasons = self.missing()
        if torch.get_num_threads() == 1:
            reasons.append(
                Reason("torch runs on 1 thread, which no runtime has to share work among", "Leave it off.")
            )
        reasons += bound_already()
        if "iomp5" in os.path.basename(owner_of("GOMP_parallel") or ""):
            reasons.append(Reason("The notebook runs on Intel's OpenMP runtime already", "Leave it off."))
        return reasons

    def took_effect(self, replica: Replica) -> Proof:
        """Which library torch's parallel loops reach, the time that its threads spin, and on which CPUs they are."""
        import torch

        owner = owner_of("GOMP_parallel") or "no library"
        if os.path.basename(FILE) not in owner:
            return Proof(False, f"torch's parallel loops are of {owner}")
        spins_ms, found = ctypes.CDLL(owner).kmp_get_blocktime(), bound_threads()
        can_tell = torch.get_num_threads() > 1  # one thread has one place, bound or not
        is_right = spins_ms == self.blocktime and (
            not can_tell or (len(found) > 1) == (self.affinity != "none")
        )
        where = f"bound to CPUs {'; '.join(map(cpu_list, found))}" if len(found) > 1 else "not bound"
        return Proof(
            is_right,
            f"torch's parallel loops are of {owner}, whose threads spin for {spins_ms} ms and are {where}",
        )
