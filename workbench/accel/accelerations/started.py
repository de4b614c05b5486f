"""What entries share that a process has to be started with: nothing is applied to objects, and nothing is undone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from accel.accelerations.acceleration import Effect, Layer
from accel.errors import Reason
from accel.processes.start import CACHE, PRELOAD, Start
from accel.processes.starting_mask import binding_variables
from accel.techniques.started.displayed import DISPLAY

if TYPE_CHECKING:
    from accel.machine import Machine
    from accel.workload import Replica, Workload

# Of what a start says: how the workbench finds itself, keeps caches apart, and reads back.
OURS = ("PYTHONPATH", "PYTHONNOUSERSITE", CACHE, DISPLAY[0])


def not_on_linux() -> list[Reason]:
    """Where libraries cannot be loaded before others, or threads not be watched: only Linux has LD_PRELOAD and /proc."""
    return [] if sys.platform == "linux" else [Reason("This needs Linux", "Leave it off here.")]


def bound_already() -> list[Reason]:
    """The variables that bound the notebook's own threads to CPUs: there is nothing unbound to compare with."""
    found = " ".join(f"{name}={value}" for name, value in binding_variables())
    return (
        [Reason(f"The notebook was started with {found}", "Start the kernel without it to compare.")]
        if found
        else []
    )


class Started:
    """An entry that libraries read before any code runs: a trial starts a process with it, a running kernel cannot take it.

    A subclass says in `start` how, and in `took_effect` what the process reads back; one that the program itself has a part in
    overrides `apply` too, and writes its `lines`.
    """

    distributions: ClassVar[tuple[str, ...]] = ()
    """What has to be installed for it, beside torch."""
    containers_install_it: ClassVar[bool] = False
    """Whether the recipe of a container installs its library, which then need not be here."""
    lines: str = ""
    """What the program itself does, as a line of Python."""
    name: ClassVar[str]
    layer: ClassVar[Layer] = "environment"
    effect: ClassVar[Effect] = "exact"
    needs_own_process: ClassVar[bool] = False
    conflicts: ClassVar[tuple[str, ...]] = ()

    def start(self) -> Start:
        """How the process is started."""
        raise NotImplementedError

    @property
    def needs_code(self) -> bool:
        """Whether the program itself has to do something too, once it runs: no start of a process does that."""
        return type(self).apply is not Started.apply

    def missing(self) -> list[Reason]:
        """What a process cannot be started with, because it is not here: an environment, a library."""
        return []

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """Only what is missing."""
        return self.missing()

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Nothing: the process was started with it."""
        yield

    def as_code(self, workload: Workload) -> str:
        """What the program has to be started with, as a comment: no line of it could do that."""
        start = self.start()
        words = [f"{name}={value}" for name, value in start.of_program(OURS)]
        words += [f"{PRELOAD}={file}" for file in start.preload]
        words += [start.python] if start.python else []
        comment = f"# The program has to be started with {', '.join(words)}.\n" if words else ""
        return comment + (f"{self.lines}\n" if self.lines else "")
