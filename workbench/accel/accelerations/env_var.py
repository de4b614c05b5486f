"""Any environment variables, as the process is started with them."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from accel.accelerations.acceleration import Effect, Proof
from accel.accelerations.started import OURS, Started
from accel.errors import AccelError, Reason
from accel.processes.start import PRELOAD, Start

if TYPE_CHECKING:
    from accel.machine import Machine
    from accel.workload import Replica, Workload

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INSTEAD = {
    PRELOAD: "allocator or intel_openmp",
    "OMP_NUM_THREADS": "intraop_threads(n=…)",
    "MKL_NUM_THREADS": "intraop_threads(n=…)",
    "OMP_WAIT_POLICY": "omp_wait_policy",
    "OMP_PROC_BIND": "openmp_affinity",
    "GOMP_CPU_AFFINITY": "openmp_affinity(cpus=…)",
    "KMP_AFFINITY": "intel_openmp(affinity=…)",
}
_OURS = (*OURS, "ACCEL_", "RANK", "WORLD_SIZE", "MASTER_", "PYTHONHOME")


@dataclass(frozen=True)
class EnvVar(Started):
    """Start the process with environment variables of your own.

    What it does
        A trial starts the worker with these variables beside the notebook's. Libraries read most of theirs once, as they are
        loaded, which a running kernel has behind it.
    When it helps
        Where a library's documentation names a variable that no entry here has.
    When it hurts
        A misspelt name or value goes unnoticed: libraries leave what they do not know alone. The proof says what the process
        was started with, not what a library made of it.
    In plain PyTorch
        NAME=VALUE python train.py
    References
        https://docs.pytorch.org/docs/stable/threading_environment_variables.html
    """

    set: str = ""
    """The variables, as a shell takes them: 'NAME=VALUE OTHER="two words"'."""

    name: ClassVar[str] = "env_var"
    effect: ClassVar[Effect] = "close"  # some change how numbers are computed

    @property
    def variables(self) -> tuple[tuple[str, str], ...]:
        """Names and values; raises AccelError where the text is none of that."""
        try:
            words = shlex.split(self.set)
        except ValueError as error:
            raise _unreadable(self.set, f"it cannot be read: {error}") from None
        pairs = tuple((name, value) for name, mark, value in (word.partition("=") for word in words) if mark)
        if not words or len(pairs) < len(words) or not all(_NAME.fullmatch(name) for name, _ in pairs):
            raise _unreadable(self.set, "it is no list of NAME=VALUE")
        if any(not value.isprintable() for _, value in pairs):
            raise _unreadable(self.set, "a value has characters that cannot be printed, such as a new line")
        return pairs

    def start(self) -> Start:
        """With these variables."""
        return Start(self.variables)

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """A text that is no list of variables; variables that others here are responsible for, or that are set already."""
        if not self.set.strip():
            return [
                Reason("No variable is named yet", "Write one as NAME=VALUE, such as OMP_SCHEDULE=dynamic.")
            ]
        try:
            variables = self.variables
        except AccelError as error:
            return [Reason(error.because[:1].upper() + error.because[1:], error.do)]
        reasons = []
        for name, value in variables:
            if name.startswith(_OURS):
                reasons.append(Reason(f"accel sets {name} for its own processes", f"Leave out {name}."))
            elif name in _INSTEAD:
                reasons.append(Reason(f"{name} has an entry of its own here", f"Write {_INSTEAD[name]}."))
            elif os.environ.get(name) == value:
                reasons.append(
                    Reason(f"The notebook was started with {name}={value} already", f"Leave out {name}.")
                )
        return reasons

    def took_effect(self, replica: Replica) -> Proof:
        """The variables that this process was started with."""
        missing = [f"{name}={value}" for name, value in self.variables if os.environ.get(name) != value]
        if missing:
            return Proof(False, f"this process has no {', '.join(missing)}")
        return Proof(True, f"started with {self.set}; whether a library heeds it was not checked")


def _unreadable(text: str, because: str) -> AccelError:
    return AccelError(
        f"env_var(set={text!r})",
        because=because,
        do="""Write for example env_var(set="OMP_SCHEDULE=dynamic").""",
    )
