"""Which CPUs each thread of OpenMP may run on, and how loops are shared out."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from accel.accelerations.acceleration import Proof
from accel.accelerations.started import Started, bound_already, not_on_linux
from accel.errors import AccelError, Reason
from accel.machine.cpu_lists import cpu_list
from accel.processes.start import Start, Variables
from accel.techniques.started.displayed import DISPLAY
from accel.techniques.started.openmp_threads import bound_threads

if TYPE_CHECKING:
    from accel.machine import Machine
    from accel.workload import Replica, Workload

SCHEDULES = ("static", "dynamic", "guided", "auto")


@dataclass(frozen=True)
class OpenmpAffinity(Started):
    """Bind the threads of OpenMP to CPUs, so that the system does not move them.

    What it does
        Starts the process with `OMP_PROC_BIND` and `OMP_PLACES`, or with `GOMP_CPU_AFFINITY` where `cpus` names them, and with
        `OMP_SCHEDULE` where `schedule` is given.
    When it helps
        Machines with several sockets, where a thread that moves leaves its caches and its memory behind; and machines where
        two threads can land on one core. On two cores of a shared machine an LSTM's steps were as fast and as uneven as before.
    When it hurts
        The main thread is bound too, and loader workers inherit its one CPU: they all share it. Other libraries count their
        cores by it (OpenBLAS comes up with one thread). Beside other programs a bound thread waits for its CPU while another
        is free. torch shares its loops out itself, so that `schedule` changes little.
    In plain PyTorch
        OMP_PROC_BIND=close OMP_PLACES=cores python train.py
    References
        https://gcc.gnu.org/onlinedocs/libgomp/OMP_005fPROC_005fBIND.html
        https://gcc.gnu.org/onlinedocs/libgomp/GOMP_005fCPU_005fAFFINITY.html
        https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#cpu-specific-optimizations
    """

    bind: Literal["close", "spread"] = "close"
    places: Literal["cores", "threads", "sockets"] = "cores"
    cpus: str | None = None
    """CPUs in the order of the threads, "0-1" or "0 2 4": with GNU's runtime, in place of `bind` and `places`."""
    schedule: str | None = None
    """How loops that ask for it are shared out: "static", "dynamic", "guided" or "auto", with ",CHUNK" where you want one."""

    name: ClassVar[str] = "openmp_affinity"
    conflicts: ClassVar[tuple[str, ...]] = ("ddp",)  # ranks have CPUs of their own

    def __post_init__(self) -> None:
        kind, _, chunk = (self.schedule or "static").partition(",")
        if kind not in SCHEDULES or not (chunk or "1").isdecimal():
            raise AccelError(
                f"openmp_affinity(schedule={self.schedule!r})", because=f"a schedule is {', '.join(SCHEDULES)}",
                do='Write for example schedule="dynamic,4".',
            )  # fmt: skip

    def start(self) -> Start:
        """With the variables that the runtime reads as it is loaded."""
        bound: Variables = (("OMP_PROC_BIND", self.bind), ("OMP_PLACES", self.places))
        bound = (("GOMP_CPU_AFFINITY", self.cpus),) if self.cpus else bound
        return Start((*bound, *((("OMP_SCHEDULE", self.schedule),) if self.schedule else ()), DISPLAY))

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """One CPU, one thread, or threads that are bound already."""
        import torch

        reasons = not_on_linux()
        if machine.usable_cores < 2:
            reasons.append(Reason("This process has one CPU to run on", "Leave it off."))
        if torch.get_num_threads() == 1:
            reasons.append(
                Reason(
                    "torch runs on 1 thread, which nothing moves from core to core for long", "Leave it off."
                )
            )
        reasons += bound_already()
        return reasons

    def took_effect(self, replica: Replica) -> Proof:
        """The CPUs that threads may run on: fewer for the main thread than the process began with."""
        places = bound_threads()
        if len(places) < 2:
            return Proof(False, f"all threads may run on CPUs {cpu_list(places[0])}")
        main = cpu_list(tuple(sorted(os.sched_getaffinity(0))))
        bound = f"threads are bound to CPUs {'; '.join(map(cpu_list, places))}, the main thread to {main}"
        return Proof(True, f"{bound}{_of_loader_workers()}")


def _of_loader_workers() -> str:
    """The CPUs of processes that this one forked, if there are any."""
    from accel.processes.process_tree import forked_children

    masks = set()
    for pid in forked_children():
        with contextlib.suppress(OSError):  # it has ended
            masks.add(tuple(sorted(os.sched_getaffinity(pid))))
    return f"; loader workers run on {'; '.join(map(cpu_list, sorted(masks)))}" if masks else ""
