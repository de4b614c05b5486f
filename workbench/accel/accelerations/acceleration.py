"""What an acceleration is: a frozen dataclass whose fields are its knobs and whose docstring is its method card."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from accel.machine import Machine
    from accel.workload import Replica, Workload

Layer = Literal[
    "model",
    "numerics",
    "settings",
    "compile",
    "data",
    "optimizer",
    "batch",
    "hygiene",
    "threads",
    "environment",
    "distributed",
]
Effect = Literal["exact", "close", "changes training"]

CARD_HEADINGS = ("What it does", "When it helps", "When it hurts", "In plain PyTorch", "References")


@dataclass(frozen=True)
class Proof:
    """What was read back to see whether an acceleration took effect.

    >>> Proof(took_effect=True, evidence="forward ran in torch.bfloat16")
    """

    took_effect: bool
    evidence: str


@runtime_checkable
class Acceleration(Protocol):
    """One entry of the catalogue; see CONTRIBUTING for the four steps that add one.

    One that changes other kinds of objects than its layer usually does names them in `changes`, as fields of Replica. One that
    others can leave nothing to do has `why_not_beside(plan, workload)`, asked where `why_not` gives no reason. One that makes
    sense on several ranks only has `needs_ranks = True`: trials and keep refuse it, `%%accel ddp --plan` applies it. The one that
    brings the ranks has `makes_ranks = True`: a trial measures it in a group of processes; keep and `--plan` refuse it. One
    whose undo cannot give back what training would have made of the objects says in `after_undo` what came back and what not.
    """

    name: ClassVar[str]
    layer: ClassVar[Layer]
    effect: ClassVar[Effect]
    needs_own_process: ClassVar[bool]
    """True when the effect belongs to a whole process (allocator): its trial compares processes as they run."""
    conflicts: ClassVar[tuple[str, ...]]

    def why_not(self, workload: Workload, machine: Machine) -> list[str]:
        """Reasons why it cannot work here, each ending in what to do; empty means it can."""

    def apply(self, replica: Replica) -> AbstractContextManager[None]:
        """Change the replica's objects in place; leaving the context is the undo, bit for bit."""

    def took_effect(self, replica: Replica) -> Proof:
        """Read the effect back, after a few steps ran under `apply`."""

    def as_code(self, workload: Workload) -> str:
        """The same in plain PyTorch: statements to run once before the cell."""
