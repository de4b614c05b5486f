"""Another version of torch than the notebook's."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from accel.accelerations.acceleration import Effect, Proof
from accel.accelerations.started import Started
from accel.environments.environment import Environment
from accel.environments.recipes import OLDEST, is_version, too_old
from accel.environments.wanted import environment_with, no_environment
from accel.errors import AccelError, Reason
from accel.processes.start import Start

if TYPE_CHECKING:
    from accel.machine import Machine
    from accel.workload import Replica, Workload

_VERSION = re.compile(r"\d+\.\d+(\.\d+)?")


@dataclass(frozen=True)
class TorchVersion(Started):
    """Run the cell on another version of torch, in an environment of its own.

    What it does
        A trial starts the worker with the Python of an environment that has this version. Functions and classes of the notebook
        travel by value, weights and data through shared memory; the losses must agree.
    When it helps
        To see what an update would bring before you make it, or what one has cost. On a two-core EPYC no difference was
        found between torch 2.8 and 2.14 for the course CNN: ×1.00 [0.98, 1.02].
    When it hurts
        An environment takes minutes and about 7 GB; a second one that shares packages takes seconds. What another version
        cannot unpickle cannot cross: a compiled model, an exported program.
    In plain PyTorch
        pip install torch==2.8
    References
        https://github.com/pytorch/pytorch/releases
    """

    version: str = "2.8"

    name: ClassVar[str] = "torch_version"
    effect: ClassVar[Effect] = "close"

    def __post_init__(self) -> None:
        if not _VERSION.fullmatch(self.version):
            raise AccelError(
                f"torch_version(version={self.version!r})", because="a version is two or three numbers with dots",
                do='Write for example torch_version("2.8").',
            )  # fmt: skip
        if too_old(self.version):
            raise AccelError(
                f"torch_version(version={self.version!r})", because=f"cells are tried on torch {OLDEST} and later",
                do=f'Write torch_version("{OLDEST}") or a later one.',
            )  # fmt: skip

    @property
    def environment(self) -> Environment | None:
        """One that has this version, and where cells of this notebook can run."""
        return environment_with("torch", self.version)

    def start(self) -> Start:
        """With that environment's Python."""
        return Start() if self.environment is None else self.environment.start

    def missing(self) -> list[Reason]:
        """An environment with this version."""
        return [] if self.environment else [no_environment(f"torch {self.version}", f"torch=={self.version}")]

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """This version runs here already, or no environment has it."""
        import torch

        if is_version(str(torch.__version__), self.version):
            return [Reason(f"The notebook has torch {torch.__version__}", "Name another version.")]
        return self.missing()

    def took_effect(self, replica: Replica) -> Proof:
        """The version read back in the process."""
        import torch

        return Proof(is_version(str(torch.__version__), self.version), f"torch {torch.__version__}")
