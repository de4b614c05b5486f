"""How many threads one operation is spread over."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from accel.accelerations.acceleration import Effect, Layer, Proof
from accel.errors import AccelError, Reason
from accel.processes.start import CACHE, Start
from accel.units import counted

if TYPE_CHECKING:
    from accel.machine import Machine
    from accel.workload import Replica, Workload


@dataclass(frozen=True)
class IntraopThreads:
    """Spread each operation over n CPU threads; by default one a usable physical core.

    What it does
        Calls `torch.set_num_threads(n)`, at once and for the whole process; the number of before comes back on
        undo.
    When it helps
        Where torch counts wrong: containers and batch jobs that own fewer cores than the machine has, and machines
        with two hardware threads a core, of which arithmetic uses one. On a quiet two-core EPYC, two threads
        against one on the course CNN gave ×1.61 (30.6 to 19.0 ms a step).
    When it hurts
        More threads than free cores make each operation wait for its slowest thread: with other work on those two
        cores the same change came out between ×0.37 and ×1.40. Operations shorter than some 10 µs get slower with
        each thread. Sums are formed in another order: differences of about 1e-7.
    In plain PyTorch
        torch.set_num_threads(2)
    References
        https://docs.pytorch.org/docs/stable/notes/cpu_threading_torchscript_inference.html
    """

    n: int | None = None

    name: ClassVar[str] = "intraop_threads"
    layer: ClassVar[Layer] = "threads"
    effect: ClassVar[Effect] = "close"
    needs_own_process: ClassVar[bool] = False
    conflicts: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if self.n is not None and self.n < 1:
            raise AccelError(
                f"intraop_threads(n={self.n})",
                because="at least one thread is needed",
                do="Write n=1 or more.",
            )

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """More threads than cores, or the number that runs already."""
        import torch

        n = self.n or _physical_cores(machine)
        reasons = []
        if n > machine.usable_cores:
            reasons.append(
                Reason(
                    f"{n} threads do not fit on {machine.usable_cores} usable cores",
                    f"Choose n={machine.usable_cores} or less.",
                )
            )
        if n == torch.get_num_threads() and n not in _live:
            reasons.append(
                Reason(f"torch runs on {counted(n, 'thread')} already", "Choose another n, or leave it off.")
            )
        return reasons

    def other_settings(self, machine: Machine) -> tuple[IntraopThreads, ...]:
        """One thread, half of the cores, all of them."""
        cores = machine.usable_cores
        counts = {1, max(cores // 2, 1), _physical_cores(machine), cores} - {
            self.n or _physical_cores(machine)
        }
        return tuple(IntraopThreads(n=count) for count in sorted(counts))

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Set the number for the process; nothing for a replica that is only a part of one."""
        import torch

        if not replica.is_process_wide:
            yield
            return
        before, n = torch.get_num_threads(), self._threads()
        torch.set_num_threads(n)
        _live.append(n)
        try:
            with _compiled_code_of_its_own(n):
                yield
        finally:
            _live.remove(n)
            torch.set_num_threads(before)

    def took_effect(self, replica: Replica) -> Proof:
        """The number read back from torch."""
        import torch

        running = torch.get_num_threads()
        return Proof(running == self._threads(), f"torch runs on {counted(running, 'thread')}")

    def as_code(self, workload: Workload) -> str:
        """The call, with the number written out."""
        return f"import torch\n\ntorch.set_num_threads({self._threads()})\n"

    def _threads(self) -> int:
        if self.n is not None:
            return self.n
        from accel.machine import read_machine

        return _physical_cores(read_machine())


@contextmanager
def _compiled_code_of_its_own(threads: int) -> Iterator[None]:
    """Compile into a cache for so many threads: from a shared one torch 2.8 takes code for another number."""
    before = os.environ.get(CACHE)
    os.environ.update(Start().with_cache(threads).variables)
    try:
        yield
    finally:
        os.environ.pop(CACHE, None)
        os.environ.update({CACHE: before} if before is not None else {})


_live: list[int] = []  # numbers set by plans in force: the one that runs already may be ours


def _physical_cores(machine: Machine) -> int:
    """Usable physical cores; where the system does not tell physical from logical, the usable ones."""
    return max(1, min(machine.usable_cores, machine.physical_cores or machine.usable_cores))
