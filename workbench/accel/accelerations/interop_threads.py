"""How many operations that do not depend on each other may run at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from accel.accelerations.acceleration import Layer, Proof
from accel.accelerations.started import Started
from accel.errors import AccelError, Reason
from accel.processes.start import Start
from accel.units import counted

if TYPE_CHECKING:
    from accel.machine import Machine
    from accel.workload import Replica, Workload


@dataclass(frozen=True)
class InteropThreads(Started):
    """Let n operations run at once where code asks for it (`torch.jit.fork`, scripted models).

    What it does
        Calls `torch.set_num_interop_threads(n)` in a fresh process: torch takes the number once, before anything runs.
    When it helps
        Scripted models with branches, and code that calls `torch.jit.fork`. Fewer leave the cores to the threads inside each
        operation.
    When it hurts
        n operations on all threads each are more threads than cores. A plain training loop, eager or compiled, does not use
        this pool at all: then nothing changes.
    In plain PyTorch
        torch.set_num_interop_threads(1)  # before anything else
    References
        https://docs.pytorch.org/docs/stable/generated/torch.set_num_interop_threads.html
        https://docs.pytorch.org/docs/stable/notes/cpu_threading_torchscript_inference.html
    """

    n: int = 1

    name: ClassVar[str] = "interop_threads"
    layer: ClassVar[Layer] = "threads"

    def __post_init__(self) -> None:
        if self.n < 1:
            raise AccelError(
                f"interop_threads(n={self.n})",
                because="at least one thread is needed",
                do="Write n=1 or more.",
            )

    def start(self) -> Start:
        """With nothing: any fresh process will do."""
        return Start()

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """The number that is set already."""
        import torch

        if torch.get_num_interop_threads() == self.n:
            return [
                Reason(
                    f"torch runs {counted(self.n, 'operation')} at once already",
                    "Choose another n, or leave it off.",
                )
            ]
        return []

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Set it, in a process where nothing ran yet."""
        import torch

        if replica.is_process_wide and torch.get_num_interop_threads() != self.n:
            torch.set_num_interop_threads(self.n)
        yield

    def took_effect(self, replica: Replica) -> Proof:
        """The number read back from torch."""
        import torch

        running = torch.get_num_interop_threads()
        return Proof(
            running == self.n, f"torch has {counted(running, 'thread')} for operations beside each other"
        )

    @property
    def lines(self) -> str:  # type: ignore[override]
        """The call, which has to come before anything runs."""
        return f"import torch; torch.set_num_interop_threads({self.n})"
